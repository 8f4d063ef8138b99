"""The demo's scores and translations."""

from collections.abc import Sequence

from keras_transformer.demo.number_pairs import NumberPairs
from keras_transformer.evaluation import exact_match
from keras_transformer.files import say, write_text
from keras_transformer.inference.translator import Translator
from keras_transformer.training import TrainingRun
from keras_transformer.translation_training import write_scores
from keras_transformer.translation_training.next_steps import next_commands
from keras_transformer.translation_training.report.run_report import Example, write_run_report

ROWS = 10
TRY = "Six thousand two hundred and seven."
EXAMPLES = ["twenty-one", "nine hundred and ninety-nine", TRY]


def translation_lines(pairs: NumberPairs, hypotheses: Sequence[str]) -> list[str]:
    """One line per number, in order: number, words, translation; wrong ones are marked."""
    rows = sorted(zip(pairs.numbers, pairs.sources, hypotheses, pairs.targets, strict=True))
    widths = [max(len(str(row[column])) for row in rows) for column in (0, 1)]
    lines = []
    for number, source, hypothesis, target in rows:
        mark = "" if hypothesis == target else f"  (wrong: {target})"
        lines.append(f"{number:>{widths[0]}}  {source:<{widths[1]}}  {hypothesis}{mark}")
    return lines


def report(run: TrainingRun, translator: Translator, dev: NumberPairs, pairs: NumberPairs) -> None:
    """Write `scores.json`, `samples.txt` and `report.html`, and print them.

    Args:
        run: the training, at its end.
        translator: the trained model.
        dev: the numbers for validation; the page shows the attention of one of them.
        pairs: the held-out numbers, which are translated.
    """
    hypotheses = translator.translate(pairs.sources)
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
    examples = [*map(Example, pairs.sources, hypotheses, pairs.targets)][:ROWS]
    run.directory.update_record(examples=[*EXAMPLES])
    commands = next_commands(run.directory.path, TRY)
    write_run_report(run.directory, translator, examples, dev.sources[0], commands)
