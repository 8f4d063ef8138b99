"""What `score` and `align` share: one output line for each pair of source and target lines."""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from keras_transformer.errors import UserInputError
from keras_transformer.input_files import is_read_once
from keras_transformer.installation import start_backend_quietly
from keras_transformer.search_options import SearchKeywords
from keras_transformer.toolkit.cli.cluster_job import (
    ClusterJob,
    NamedFiles,
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
    answer_lines,
    blocks_of,
    line_bar,
    next_piece,
    write_lines,
)

if TYPE_CHECKING:
    from keras_transformer.inference.translator import Translator
    from keras_transformer.toolkit.cluster.line_workers import AnswerLines

_SIDES = {"source": "source_column", "target": "target_column"}


class LinesOfPairs(Protocol):
    """Returns a line for each pair; defined in a module, so that cluster workers can import it."""

    def __call__(
        self, translator: "Translator", sources: Sequence[str], targets: Sequence[str]
    ) -> list[str]: ...


@dataclasses.dataclass(frozen=True)
class PairWork:
    """Answers pairs, here or in a worker of a cluster.

    Args:
        models: the models.
        search: fields of `SearchOptions`; these verbs have only a limit of tokens.
        lines_of: the verb's own part.
    """

    models: NamedModels
    search: SearchKeywords
    lines_of: LinesOfPairs

    def load(self) -> "AnswerLines":
        """Load the translator; return the function that answers a worker's blocks."""
        return blocks_of(self.loaded(), self.models.lines_a_piece)

    def loaded(self) -> Callable[[list[tuple[str, str]], int], list[str]]:
        """Load the translator; return a function from pairs to lines."""
        translator = self.models.load(batch_size=self.models.batch_size, **self.search)

        def answer(pairs: list[tuple[str, str]], first_index: int) -> list[str]:
            sources, targets = zip(*pairs, strict=True)
            return self.lines_of(translator, sources, targets)

        return answer


def add_pair_arguments(parser: argparse.ArgumentParser) -> None:
    """Add to a verb's parser the arguments that name a model, the texts and a cluster."""
    add_model_arguments(parser)
    add = parser.add_argument
    for name, text in (("source", "source sentences"), ("target", "their translations")):
        add(
            f"--{name}",
            required=True,
            nargs="+",
            metavar="FILE",
            help=f"{text}, one a line, or .gz; with --cluster, several files and patterns",
        )
    add("--output", metavar="DIR", help="with --cluster, the folder to write")
    add_cluster_arguments(parser, *_SIDES.values())


def answer_pairs(
    values: argparse.Namespace, lines_of: LinesOfPairs, settings: dict[str, object] | None = None
) -> None:
    """Print the lines of all pairs, or with `--cluster` write them into the folder `--output`.

    Args:
        values: the parsed command line.
        lines_of: returns the lines of pairs.
        settings: what else decides the lines besides the models, by the verb's own flag names.
    """
    check_cluster(values, _SIDES, "block_lines", *_SIDES.values())
    if (values.cluster is None) != (values.output is None):
        raise UserInputError("`--output` and `--cluster` must be given together.")
    models, search = NamedModels.of(values), given_search(values)
    if values.cluster is None:
        _print_pairs(PairWork(models, search, lines_of), *values.source, *values.target)
        return
    search = settled_search(search, models.runs[0], ["max_source_length"])
    run_on_cluster(
        ClusterJob.of(values, models),
        PairWork(models, search, lines_of),
        [NamedFiles.of(values, *side) for side in _SIDES.items()],
        models,
        {**models.settings(), **search, **(settings or {})},
    )


def _print_pairs(work: PairWork, source: str, target: str) -> None:
    start_backend_quietly()  # the next lines import Keras
    from keras_transformer.data.parallel_text import parallel_lines

    output = sys.stdout.buffer
    total = _count_pairs(source, target)
    answer = work.loaded()
    pairs = parallel_lines(source, target)
    number = 0
    with line_bar(total, hide=sys.stdout.isatty()) as bar:
        while piece := next_piece(pairs, work.models.lines_a_piece):
            for lines in answer_lines(answer, piece, number, [source, target]):
                write_lines(output, lines)
            number += len(piece)
            bar.update(len(piece))


def _count_pairs(source: str, target: str) -> int | None:
    """Return the number of lines of both files, or None if one is a pipe, which is read once."""
    from keras_transformer.data.parallel_text import count_lines, unequal_lines

    if is_read_once(source) or is_read_once(target):
        return None
    source_lines, target_lines = count_lines(source), count_lines(target)
    if source_lines != target_lines:  # an error before the first line is printed
        raise unequal_lines(source, source_lines, target, target_lines)
    return source_lines
