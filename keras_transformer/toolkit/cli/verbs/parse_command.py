"""`keras-transformer parse`: parse each line of standard input into a constituency tree."""

import argparse
import math
import sys
from typing import TYPE_CHECKING

from keras_transformer.files import tell
from keras_transformer.installation import start_backend_quietly
from keras_transformer.search_options import PARSING, options_for
from keras_transformer.toolkit.cli.named_models import (
    add_batch_arguments,
    add_search_arguments,
    given_search,
)
from keras_transformer.toolkit.cli.text_streams import (
    STANDARD_INPUT,
    answered,
    chunks_of_lines,
    write_lines,
)

if TYPE_CHECKING:
    from keras_transformer.inference.parser import Parse
    from keras_transformer.parsing import Tree


HELP = "parse sentences from standard input into trees"
DESCRIPTION = """Print the constituency tree of each line of standard input (UTF-8, with spaces
between words and punctuation) on one line. An empty line produces an empty line."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    add = parser.add_argument
    add("run", metavar="RUN", help="run directory of a parser")
    add("--checkpoint", metavar="NAME", help="weights to use (default: the final weights)")
    add_search_arguments(parser, *options_for("parse"), defaults=PARSING)
    add_batch_arguments(parser, batch_size=16)
    add("--pretty", action="store_true", help="print indented trees, one phrase per line")
    add(
        "--repair",
        action="store_true",
        help="search without constraints and repair outputs that are not trees, instead of "
        "searching only among trees; the number of repaired trees is reported on stderr",
    )


def parse(values: argparse.Namespace) -> None:
    """Run the verb."""
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    start_backend_quietly()
    from keras_transformer.inference.parser import Parser

    parser = Parser.load(
        values.run,
        values.checkpoint,
        batch_size=values.batch_size,
        constrained=not values.repair,
        **given_search(values),
    )

    def answer(lines: list[str], first_index: int) -> "list[Parse]":
        return parser.parse_with_scores(lines)

    repaired = flat = 0
    for parses, _ in answered(answer, chunks_of_lines(stdin), [STANDARD_INPUT]):
        repaired += sum(found.repairs > 0 for found in parses)
        flat += sum(found.score == -math.inf for found in parses)
        write_lines(stdout, [_text(found.tree, values.pretty) for found in parses])
    if values.repair or repaired:
        tell(f"{repaired} trees were repaired.")
    if flat:
        tell(f"{flat} sentences have no tree and are printed as flat trees.")


def _text(tree: "Tree | None", pretty: bool) -> str:
    if tree is None:
        return ""
    return tree.pretty() if pretty else str(tree)
