"""`keras-transformer evalb`: compare a parser's trees with those of a treebank."""

import argparse
import itertools
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from keras_transformer.errors import UserInputError
from keras_transformer.files import tell

if TYPE_CHECKING:
    from keras_transformer.parsing.evalb_scores import EvalbParameters, SentenceScore

MOST_TREES = 1_000_000  # fits into memory; a compressed file can contain any number of lines


HELP = "score a parser's trees against a treebank, like EVALB"
DESCRIPTION = """Compare the brackets in two files of trees, one tree per line, and print the same
table and summary as EVALB. An empty line in TEST stands for a sentence without a parse."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    parser.add_argument(
        "gold", metavar="GOLD", help="trees of the treebank, one per line, plain or .gz"
    )
    parser.add_argument("test", metavar="TEST", help="the parser's trees of the same sentences")
    parser.add_argument(
        "--params", metavar="FILE", help="EVALB parameter file (default: the values of COLLINS.prm)"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the summaries as JSON, without the table"
    )


def evalb(values: argparse.Namespace) -> None:
    """Run the verb."""
    from keras_transformer.data.parallel_text import parallel_lines
    from keras_transformer.parsing.evalb import result_text, total
    from keras_transformer.parsing.evalb_scores import EvalbParameters

    parameters = EvalbParameters.read(values.params) if values.params else EvalbParameters()
    lines = parallel_lines(values.gold, values.test)
    pairs = list(itertools.islice(lines, MOST_TREES + 1))
    if len(pairs) > MOST_TREES:
        raise UserInputError(f"{values.gold} must have at most {MOST_TREES:,} trees")
    result = total(_scores(pairs, parameters, table=not values.json), parameters)
    print(json.dumps(result.as_dict(), indent=2) if values.json else result_text(result))


def _scores(
    pairs: Iterable[tuple[str, str]], parameters: "EvalbParameters", *, table: bool
) -> list["SentenceScore"]:
    """Return the scores of line pairs. Print table rows, and report errors on stderr."""
    from keras_transformer.parsing.evalb import HEADING, compare, sentence_row

    if table:
        print(HEADING)
    scores, errors, broken = [], 0, 0
    for number, (gold, test) in enumerate(pairs, start=1):
        score = compare(gold, test, parameters)
        scores.append(score)
        broken += gold.count("(") != gold.count(")")
        if table:
            print(sentence_row(number, score))
        if score.fault:
            errors += 1
            _tell_error(number, score.fault, errors, parameters.max_error)
    if broken:
        tell(
            f"{broken} lines of GOLD do not contain a complete tree and are not counted: write "
            "each tree on one line, without pretty-printing."
        )
    return scores


def _tell_error(number: int, fault: str, errors: int, max_error: int) -> None:
    if errors <= max_error:
        tell(f"{number} : {fault}")
    elif errors == max_error + 1:
        tell(
            f"{number} : error {errors}: MAX_ERROR is {max_error}, further errors are counted but "
            "not printed"
        )
