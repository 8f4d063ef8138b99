"""Answering each pair of a source and a target line with a line, here or on a cluster."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from keras_transformer.backend_start import start_backend_quietly
from keras_transformer.command_line.line_stream import line_bar, next_piece, write_lines
from keras_transformer.commands.arguments.long_lines import answer_lines
from keras_transformer.commands.arguments.model_arguments import lines_a_piece, load_translator
from keras_transformer.commands.arguments.parallel_lines import COLUMNS, check_parallel
from keras_transformer.commands.arguments.search_arguments import given_search
from keras_transformer.commands.lines.cluster_lines import answer_in_pieces, run_on_cluster
from keras_transformer.files.input_files import is_read_once

if TYPE_CHECKING:
    from keras_transformer.cluster.line_workers import AnswerLines
    from keras_transformer.inference.translator import Translator


class LinesOfPairs(Protocol):
    """A line for each pair; a function of a module, which workers of a cluster import."""

    def __call__(
        self, translator: "Translator", sources: Sequence[str], targets: Sequence[str]
    ) -> list[str]: ...


def answer_pairs(options: argparse.Namespace, lines_of: LinesOfPairs) -> None:
    """Print the lines of all pairs, or with `--cluster` write them into the folder `--output`."""
    check_parallel(options)
    if options.cluster is None:
        (options.source,), (options.target,) = options.source, options.target
        _print_pairs(options, lines_of)
    else:
        sides = tuple(zip(("source", "target"), COLUMNS, strict=True))
        run_on_cluster(options, PairWork(options, lines_of), sides)


class PairWork(NamedTuple):
    """What a worker of a cluster does."""

    options: argparse.Namespace
    lines_of: LinesOfPairs

    def load(self) -> "AnswerLines":
        """Load the translator."""
        answer = _Answer(self.options, self.lines_of)
        most = lines_a_piece(self.options)

        def answer_block(
            lines: list[tuple[str, str]], paths: Sequence[str], first_index: int
        ) -> list[str]:
            places = {"sources": paths[0], "targets": paths[1]}
            return answer_in_pieces(lambda x, _: answer(x), lines, first_index, most, places)

        return answer_block


class _Answer:
    """The lines of pairs, by the translator of a command line."""

    def __init__(self, options: argparse.Namespace, lines_of: LinesOfPairs) -> None:
        self._lines_of = lines_of
        self._translator = load_translator(
            options, batch_size=options.batch_size, **given_search(options)
        )

    def __call__(self, pairs: list[tuple[str, str]]) -> list[str]:
        sources, targets = zip(*pairs, strict=True)
        return self._lines_of(self._translator, sources, targets)


def _print_pairs(options: argparse.Namespace, lines_of: LinesOfPairs) -> None:
    start_backend_quietly()  # what follows imports Keras
    from keras_transformer.data.text_files import parallel_lines

    output = sys.stdout.buffer
    total = _count_pairs(options.source, options.target)
    answer = _Answer(options, lines_of)
    pairs = parallel_lines(options.source, options.target)
    places = {"sources": options.source, "targets": options.target}
    number = 0
    with line_bar(total, hide=sys.stdout.isatty()) as bar:
        while piece := next_piece(pairs, lines_a_piece(options)):
            for lines in answer_lines(answer, piece, number, places):
                write_lines(output, lines)
            number += len(piece)
            bar.update(len(piece))


def _count_pairs(source: str, target: str) -> int | None:
    """The number of lines of both files, or None if one is a pipe, which is read only once."""
    from keras_transformer.data.text_files import count_lines, unequal_lines

    if is_read_once(source) or is_read_once(target):
        return None
    source_lines, target_lines = count_lines(source), count_lines(target)
    if source_lines != target_lines:  # an error before the first line is printed
        raise unequal_lines(source, source_lines, target, target_lines)
    return source_lines
