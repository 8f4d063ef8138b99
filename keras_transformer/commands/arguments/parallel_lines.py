"""Verbs that read a file of sources and a file of targets and print a line for each pair."""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from keras_transformer.backend_start import start_backend_quietly
from keras_transformer.command_line.line_stream import line_bar, next_piece, write_lines
from keras_transformer.commands.arguments.long_lines import answer_lines
from keras_transformer.commands.arguments.model_arguments import (
    add_model_arguments,
    lines_a_piece,
    load_translator,
)
from keras_transformer.commands.arguments.search_arguments import given_search
from keras_transformer.files.input_files import is_read_once

if TYPE_CHECKING:
    from keras_transformer.inference.translator import Translator


def add_parallel_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a model, `--source` and `--target` to a verb's parser."""
    add_model_arguments(parser)
    add = parser.add_argument
    add("--source", required=True, metavar="FILE", help="source sentences, one a line, or .gz")
    add("--target", required=True, metavar="FILE", help="their translations, or .gz")


def print_line_for_each_pair(
    options: argparse.Namespace,
    lines_of: Callable[["Translator", Sequence[str], Sequence[str]], list[str]],
) -> None:
    """Print the lines of `lines_of(translator, sources, targets)`, piece by piece."""
    start_backend_quietly()  # what follows imports Keras
    from keras_transformer.data.text_files import parallel_lines

    output = sys.stdout.buffer
    total = _count_pairs(options.source, options.target)
    translator = load_translator(options, batch_size=options.batch_size, **given_search(options))

    def answer(pairs: list[tuple[str, str]]) -> list[str]:
        sources, targets = zip(*pairs, strict=True)
        return lines_of(translator, sources, targets)

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
