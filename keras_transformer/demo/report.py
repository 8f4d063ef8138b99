"""The demo's scores and translations."""

import os
import pathlib
import shlex
import shutil
import sys
from collections.abc import Sequence

from keras_transformer.demo.number_pairs import NumberPairs
from keras_transformer.evaluation import exact_match
from keras_transformer.files import say, write_text
from keras_transformer.training import TrainingRun
from keras_transformer.translation_training import write_scores

ROWS = 10


def translation_lines(pairs: NumberPairs, hypotheses: Sequence[str]) -> list[str]:
    """One line a number, in order: number, words, translation; wrong ones are marked."""
    rows = sorted(zip(pairs.numbers, pairs.sources, hypotheses, pairs.targets, strict=True))
    widths = [max(len(str(row[column])) for row in rows) for column in (0, 1)]
    lines = []
    for number, source, hypothesis, target in rows:
        mark = "" if hypothesis == target else f"  (wrong: {target})"
        lines.append(f"{number:>{widths[0]}}  {source:<{widths[1]}}  {hypothesis}{mark}")
    return lines


def report(run: TrainingRun, pairs: NumberPairs, hypotheses: Sequence[str]) -> None:
    """Write `scores.json` and `samples.txt`, and print them.

    Args:
        run: the training, at its end.
        pairs: the held-out numbers.
        hypotheses: their translations.
    """
    scores = write_scores(
        run,
        hypotheses,
        pairs.targets,
        tokenize="char",  # a German number is one word: BLEU's 4-grams are of characters
        exact_match=exact_match(hypotheses, pairs.targets),
    )
    lines = translation_lines(pairs, hypotheses)
    write_text(run.directory.samples_path, "\n".join(lines) + "\n")
    say(f"\nOn {len(lines):,} numbers that were held out of the training:")
    say(f"  exact match {scores['exact_match']:.1%}   BLEU {scores['bleu']:.2f}")
    say(f"  {scores['signature']}\n")
    say("\n".join(lines[:: max(1, len(lines) // ROWS)][:ROWS]))
    say(f"\nAll translations: {run.directory.samples_path}")


def next_commands(path: pathlib.Path) -> list[str]:
    """Commands to try with the run at a path: translate, the page, its attention, an export."""
    run, program = shlex.quote(str(path)), program_name()
    beside = shlex.quote(str(path.with_name(f"{path.name}-litert")))
    page = shlex.quote(str(path / "attention.html"))
    return [
        f'echo "Six thousand two hundred and seven." | {program} translate {run}',
        f"{program} app {run} --open",
        f'{program} attention {run} --source "ninety-nine" --output {page} --open',
        f"{program} export litert {run} {beside}",
    ]


def program_name() -> str:
    """What to type for `keras-transformer`: its path where the shell would not find it."""
    own = pathlib.Path(sys.executable).with_name("keras-transformer")
    if shutil.which("keras-transformer") or not own.is_file():
        return "keras-transformer"
    return shlex.quote(os.path.relpath(own))


def say_next_steps(path: pathlib.Path) -> None:
    """Print what to try with the run at a path, and the path itself as the last line."""
    say("\nTry next:")
    for command in next_commands(path):
        say(f"  {command}")
    say(f"\nYour own text: {program_name()} train --help\n")
    say(path, result=True)
