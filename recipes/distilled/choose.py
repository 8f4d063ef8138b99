"""Choose one translation per sentence from the output of `keras-transformer translate --n-best`."""

import pathlib
import random
import sys
from collections.abc import Sequence

from keras_transformer.data import read_text, text_lines
from keras_transformer.errors import UserInputError
from keras_transformer.files import write_text
from keras_transformer.toolkit.cli import CommandParser, run_command
from recipes.distilled.nbest_lists import (
    Candidates,
    Choose,
    best_by_search,
    nearest_by_sentence_bleu,
)
from recipes.distilled.settings import BEST, BY_BLEU

RANDOM = "random"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the chosen translations. `arguments` are command-line arguments."""
    parser = CommandParser(prog="python -m recipes.distilled.choose", description=__doc__)
    add = parser.add_argument
    add(
        "nbest",
        type=pathlib.Path,
        metavar="NBEST",
        help="lines of the form `index ||| text ||| score`, printed by `keras-transformer "
        "translate --n-best`",
    )
    add("output", type=pathlib.Path, metavar="OUTPUT", help="output file, one line per sentence")
    add("--reference", required=True, metavar="FILE", help="reference translations")
    add(
        "--by",
        choices=(BEST, BY_BLEU, RANDOM),
        default=BEST,
        help="best: the first translation; sentence-bleu: the one closest to the reference; "
        "random: any of them (default: %(default)s)",
    )
    add("--seed", type=int, default=1, help="seed for the random choice (default: %(default)s)")
    add(
        "--tokenize",
        default="13a",
        metavar="NAME",
        help="sacrebleu tokenizer for sentence BLEU; none for tokenized text "
        "(default: %(default)s)",
    )
    values = parser.parse_args(arguments)
    references = read_text(values.reference)
    lists = read_nbest_lines(values.nbest)
    if len(lists) != len(references):
        raise UserInputError(
            f"{values.nbest} contains translations of {len(lists):,} sentences, "
            f"{values.reference} {len(references):,} lines."
        )
    choose = _way(values.by, values.tokenize, values.seed)
    chosen = map(choose, lists, references)
    write_text(values.output, "".join(f"{line}\n" for line in chosen))


def read_nbest_lines(path: pathlib.Path) -> list[Candidates]:
    """Return the candidates for each sentence, best first, from `index ||| text ||| score` lines.

    Raises:
        UserInputError: a line has a different form, or the indices do not count up from 0.
    """
    lists: list[Candidates] = []
    for number, line in enumerate(text_lines(path), start=1):
        try:
            index, rest = line.split(" ||| ", 1)
            text, score = rest.rsplit(" ||| ", 1)
            if int(index) == len(lists):
                lists.append([])
            if int(index) != len(lists) - 1:
                raise ValueError(index)
            lists[-1].append((text, float(score)))
        except ValueError as error:
            raise UserInputError(
                f"{path}, line {number} must be `index ||| text ||| score`, with the same index "
                f"as the line before or the next one. Received: {line[:80]}"
            ) from error
    return lists


def _way(name: str, tokenize: str, seed: int) -> Choose:
    if name == BY_BLEU:
        return nearest_by_sentence_bleu(tokenize)
    if name == BEST:
        return best_by_search
    draw = random.Random(seed)
    return lambda candidates, reference: draw.choice(candidates)[0]


if __name__ == "__main__":
    sys.exit(run_command(main))
