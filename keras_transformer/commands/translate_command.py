"""`keras-transformer translate`: standard input or a file, line by line."""

import argparse
import hashlib
import itertools
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from keras_transformer.command_line.command_errors import Verbs
from keras_transformer.command_line.line_stream import (
    STANDARD_INPUT,
    chunks_of_lines,
    next_piece,
    write_lines,
)
from keras_transformer.commands.arguments.long_lines import answer_lines, told_by_line
from keras_transformer.commands.arguments.model_arguments import (
    lines_a_batch,
    lines_a_piece,
    load_translator,
    model_digests,
)
from keras_transformer.commands.arguments.search_arguments import (
    given_search,
    settle_search,
    tell_search_taken,
)
from keras_transformer.commands.arguments.translate_arguments import (
    COLUMN,
    SAMPLING,
    add_translate_arguments,
    check_combinations,
)
from keras_transformer.commands.lines.cluster_lines import (
    CHANGE_NO_LINE,
    answer_in_pieces,
    run_on_cluster,
)
from keras_transformer.commands.translate_engines import load_engine
from keras_transformer.errors import UserInputError
from keras_transformer.files.input_files import is_read_once, open_input
from keras_transformer.files.output_files import find_output
from keras_transformer.search_options import SearchOptions, search_record, search_text
from keras_transformer.text.text_lines import one_line

if TYPE_CHECKING:
    from keras_transformer.cluster.line_workers import AnswerLines
    from keras_transformer.inference.translator import Translator


def add_parser(verbs: Verbs) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "translate",
        help="translate standard input, or a file, line by line",
        description="Translate standard input (UTF-8, one sentence a line) to standard output, "
        "line by line, as it arrives. An empty line gives an empty line.",
    )
    parser.set_defaults(verb=translate)
    add_translate_arguments(parser)


def translate(options: argparse.Namespace) -> None:
    """Run the verb."""
    check_combinations(options)
    if not options.sample:
        tell_search_taken(options)
    if options.input is None:
        _translate_stream(options)
    elif options.cluster is None:
        (options.input,) = options.input
        _translate_file(options)
    else:
        sides = (("input", COLUMN),)
        run_on_cluster(options, TranslateLines(options), sides)


class TranslateLines(NamedTuple):
    """What a worker of a cluster does."""

    options: argparse.Namespace

    def load(self) -> "AnswerLines":
        """Load the translator."""
        options = self.options
        translator = _load(options, options.block_lines or lines_a_piece(options))

        def answer(lines: list[str], paths: Sequence[str], first_index: int) -> list[str]:
            return answer_in_pieces(
                lambda piece, index: translate_lines(translator, options, piece, index),
                lines,
                first_index,
                lines_a_piece(options),
                _places(paths[0]),
            )

        return answer


def _load(options: argparse.Namespace, num_lines: int = 0) -> "Translator":
    if options.engine != "own":
        # What it lacks of a `Translator` was refused with the flags.
        return cast("Translator", load_engine(options))
    return load_translator(
        options,
        batches=num_lines // lines_a_batch(options),
        **given_search(options),
        batch_size=options.batch_size,
        long_sentences=options.long_lines,
        source_language=options.source_language,
    )


def _translate_stream(options: argparse.Namespace) -> None:
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    translator = _load(options)
    index = 0

    def answer(lines: list[str]) -> list[str]:
        return translate_lines(translator, options, lines, index)

    for lines in chunks_of_lines(stdin):
        for found in answer_lines(answer, lines, index, _places(STANDARD_INPUT)):
            write_lines(stdout, found)
        index += len(lines)


def _translate_file(options: argparse.Namespace) -> None:
    target = find_output(options.output)
    if is_read_once(options.input):
        raise UserInputError(
            f"`--input` must be a file: it is read more than once. Received: {options.input}, "
            "which goes to standard input, without `--output`."
        )
    from keras_transformer.command_line.resumable_output import ResumableOutput
    from keras_transformer.command_line.streamed_output import StreamedOutput
    from keras_transformer.text.text_lines import text_lines

    settle_search(options)
    settings = {name: value for name, value in vars(options).items() if name not in CHANGE_NO_LINE}
    with open_input(options.input) as file:
        settings["input_digest"] = hashlib.file_digest(file, "sha256").hexdigest()
    settings["model_digests"] = model_digests(options)
    total = sum(1 for _ in text_lines(options.input))  # fails now, not in an hour
    search = search_record(SearchOptions(**given_search(options)))
    if options.engine == "ctranslate2":
        search["length_penalty"] = "power"  # its own
    title = None if options.sample else search_text(search)
    output: StreamedOutput | ResumableOutput
    if target.is_stream:
        output = StreamedOutput(target.path, total, title)
    else:
        output = ResumableOutput(target.path, settings, total, title)
    with output:
        translator = _load(options, total)
        if not output.lines_read:
            _check_lines(translator, options)
        lines = itertools.islice(text_lines(options.input), output.lines_read, None)
        while piece := next_piece(lines, lines_a_piece(options)):
            with told_by_line(output.lines_read, _places(options.input)):
                found = translate_lines(translator, options, piece, output.lines_read)
            output.append(found, len(piece))


def _check_lines(translator: "Translator", options: argparse.Namespace) -> None:
    """Refuse lines that are too long now, not in an hour."""
    from keras_transformer.text.text_lines import text_lines

    if options.long_lines != "refuse":
        return
    lines, number = text_lines(options.input), 0
    while piece := next_piece(lines, lines_a_piece(options)):
        with told_by_line(number, _places(options.input)):
            translator.check_lengths(*_parts_of(options, piece))
        number += len(piece)


def _places(file: str) -> dict[str, str]:
    """The files of the arguments that a `SentenceTooLong` names."""
    return dict.fromkeys(("sentences", "sources", "prefixes", "targets"), file)


def _parts_of(options: argparse.Namespace, lines: list[str]) -> tuple[list[str], ...]:
    """The sources of lines, and with `--tab-prefix` also their prefixes."""
    if not options.tab_prefix:
        return (lines,)
    parts = [line.partition("\t") for line in lines]
    return [source for source, *_ in parts], [prefix for *_, prefix in parts]


def translate_lines(
    translator: "Translator", options: argparse.Namespace, lines: list[str], first_index: int
) -> list[str]:
    """The output lines of input lines: one each, or `--n-best` ones."""
    parts = _parts_of(options, lines)
    sources = parts[0]
    prefixes: dict[str, Any] = {"prefixes": parts[1]} if options.tab_prefix else {}
    if options.sample:
        settings = {name: getattr(options, name) for name in SAMPLING}
        found = translator.sample(
            sources,
            options.n_best or 1,
            **{name: value for name, value in settings.items() if value is not None},
            **prefixes,
            first_index=first_index,
        )
    elif options.n_best is not None:
        found = translator.translate_nbest(sources, options.n_best, **prefixes)
    else:
        texts = translator.translate(sources, **prefixes)
        return [tagged(one_line(text), options.tag) for text in texts]
    if options.n_best is not None:
        return n_best_lines(found, first_index)
    return [tagged(one_line(text), options.tag) for ((text, _),) in found]


def n_best_lines(
    translations: Iterable[Sequence[tuple[str, float]]], first_index: int
) -> list[str]:
    """Lists of `(text, score)` as lines of Moses's n-best format.

    Example:
        >>> n_best_lines([[("ein Haus", -0.5), ("Haus", -1.25)]], first_index=7)
        ['7 ||| ein Haus ||| -0.500000', '7 ||| Haus ||| -1.250000']
    """
    return [
        f"{index} ||| {one_line(text)} ||| {score:.6f}"
        for index, candidates in enumerate(translations, start=first_index)
        for text, score in candidates
    ]


def tagged(text: str, tag: str | None) -> str:
    """The text with the tag in front; an empty text stays empty.

    Example:
        >>> tagged("a house", "<BT>"), tagged("", "<BT>"), tagged("a house", None)
        ('<BT> a house', '', 'a house')

    Reference:
        Caswell et al., "Tagged Back-Translation", 2019.
    """
    return f"{tag} {text}" if tag is not None and text.strip() else text
