"""`keras-transformer score`: print the log-probabilities of given translations.

`align` shares the arguments and also prints one line per pair of source and target lines.
"""

import argparse
import functools
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from keras_transformer.errors import UserInputError
from keras_transformer.input_files import is_read_once
from keras_transformer.installation import start_backend_quietly
from keras_transformer.search_options import SearchKeywords
from keras_transformer.toolkit.cli.cluster_job import (
    add_cluster_arguments,
    check_cluster,
    run_on_cluster,
)
from keras_transformer.toolkit.cli.named_models import (
    NamedModels,
    add_model_arguments,
    given_search,
    settled_search,
)
from keras_transformer.toolkit.cli.text_streams import (
    answered,
    blocks_of,
    line_bar,
    pieces_of,
    write_lines,
)

if TYPE_CHECKING:
    from keras_transformer.inference.translator import Translator
    from keras_transformer.toolkit.cluster.line_workers import AnswerLines

HELP = "print the log-probabilities of translations"
DESCRIPTION = """Print the natural log-probability of each target line given its source line,
including the end of sentence, one number per line."""
_SIDES = {"source": "source_column", "target": "target_column"}

# Returns a line for each source-target pair. Cluster workers must be able to import the function.
LinesOfPairs: TypeAlias = Callable[["Translator", Sequence[str], Sequence[str]], list[str]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    add_pair_arguments(parser)
    parser.add_argument(
        "--normalize",
        action="store_true",
        help="divide by the number of target tokens, including the end of sentence",
    )


def score(values: argparse.Namespace) -> None:
    """Run the verb."""
    lines_of = functools.partial(_score_lines, values.normalize)
    answer_pairs(values, lines_of, {"normalize": values.normalize})


def _score_lines(
    normalize: bool, translator: "Translator", sources: Sequence[str], targets: Sequence[str]
) -> list[str]:
    scores = translator.score(sources, targets, normalize=normalize)
    return [f"{value:.6f}" for value in scores]


def add_pair_arguments(parser: argparse.ArgumentParser) -> None:
    """Add arguments for a model, the texts and a cluster to a verb's parser."""
    add_model_arguments(parser)
    add = parser.add_argument
    for name, text in (("source", "source sentences"), ("target", "their translations")):
        add(
            f"--{name}",
            required=True,
            nargs="+",
            metavar="FILE",
            help=f"{text}, one per line, plain or .gz; with --cluster, several files and patterns",
        )
    add("--output", metavar="DIR", help="output folder, with --cluster")
    add_cluster_arguments(parser, *_SIDES.values())


def answer_pairs(
    values: argparse.Namespace, lines_of: LinesOfPairs, settings: dict[str, object] | None = None
) -> None:
    """Print the lines of all pairs or, with `--cluster`, write them to the `--output` folder.

    Args:
        values: parsed command line.
        lines_of: function that returns the lines of pairs.
        settings: other settings that affect the lines, keyed by flag name.
    """
    check_cluster(values, _SIDES, "block_lines", *_SIDES.values())
    if (values.cluster is None) != (values.output is None):
        raise UserInputError("`--output` and `--cluster` must be given together.")
    models, search = NamedModels.of(values), given_search(values)
    if values.cluster is None:
        _print_pairs(models, search, lines_of, *values.source, *values.target)
        return
    search = settled_search(search, models.runs[0], ["max_source_length"])
    work = functools.partial(_blocks, models, search, lines_of)
    settings = {**models.settings(), **search, **(settings or {})}
    run_on_cluster(values, work, _SIDES, models, settings)


def _loaded(
    models: NamedModels, search: SearchKeywords, lines_of: LinesOfPairs
) -> Callable[[list[tuple[str, str]], int], list[str]]:
    """Load the translator and return a function that maps pairs to lines."""
    translator = models.load(batch_size=models.batch_size, **search)

    def answer(pairs: list[tuple[str, str]], first_index: int) -> list[str]:
        sources, targets = zip(*pairs, strict=True)
        return lines_of(translator, sources, targets)

    return answer


def _blocks(models: NamedModels, search: SearchKeywords, lines_of: LinesOfPairs) -> "AnswerLines":
    """Load the translator in a cluster worker and return a function that answers its blocks."""
    return blocks_of(_loaded(models, search, lines_of), models.lines_a_piece)


def _print_pairs(
    models: NamedModels, search: SearchKeywords, lines_of: LinesOfPairs, source: str, target: str
) -> None:
    start_backend_quietly()  # the following lines import Keras
    from keras_transformer.data.parallel_text import parallel_lines

    output = sys.stdout.buffer
    total = _count_pairs(source, target)
    answer = _loaded(models, search, lines_of)
    pieces = pieces_of(parallel_lines(source, target), models.lines_a_piece)
    with line_bar(total, hide=sys.stdout.isatty()) as bar:
        for lines, number in answered(answer, pieces, [source, target]):
            write_lines(output, lines)
            bar.update(number)


def _count_pairs(source: str, target: str) -> int | None:
    """Return the number of lines in both files, or None if a file is a pipe."""
    from keras_transformer.data.parallel_text import count_lines, unequal_lines

    if is_read_once(source) or is_read_once(target):
        return None
    source_lines, target_lines = count_lines(source), count_lines(target)
    if source_lines != target_lines:  # report this before the first line is printed
        raise unequal_lines(source, source_lines, target, target_lines)
    return source_lines
