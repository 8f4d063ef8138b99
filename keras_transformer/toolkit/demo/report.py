"""The final step of the demo: scores, a report and an optional export."""

import os
from collections.abc import Sequence

import keras

from keras_transformer.errors import UserInputError
from keras_transformer.evaluation import exact_match
from keras_transformer.files import say, write_text
from keras_transformer.inference.translator import Translator
from keras_transformer.toolkit.demo.number_pairs import NumberPairs
from keras_transformer.training import TrainingRun
from keras_transformer.training.translation.run_report import Example, write_run_report
from keras_transformer.training.translation.training import (
    next_commands,
    program_name,
    write_scores,
)

SENTENCES = 3


def check_export(directory: str | None) -> None:
    """Refuse a `directory` to which the demo cannot export. None means no export."""
    if directory is None:
        return
    if keras.backend.backend() != "tensorflow":
        raise UserInputError("`--export` needs the TensorFlow backend: KERAS_BACKEND=tensorflow")
    if os.path.exists(directory) and not os.path.isdir(directory):
        raise UserInputError(f"`--export` must name a directory. Received: the file {directory}")


def export(translator: Translator, directory: str, pairs: NumberPairs) -> None:
    """Export a new version to `directory` and print its translations of some numbers.

    Args:
        translator: translator of the run.
        directory: output directory, such as `saved_models/number_words`.
        pairs: numbers to translate.
    """
    from keras_transformer.formats.saved_model.reader import SavedModelTranslator
    from keras_transformer.formats.saved_model.writer import export_saved_model

    path = export_saved_model(translator, directory)
    sources = pairs.sources[:SENTENCES]
    outputs = SavedModelTranslator(path).translate(sources)
    say(f"\nExported to {path}, which needs no Python. Translations with the export:")
    for source, output in zip(sources, outputs, strict=True):
        say(f"  {source} -> {output}")
    say(f"\nServe it: {program_name()} serve {directory} (docs/serving.md)")


ROWS = 10
TRY = "Six thousand two hundred and seven."
EXAMPLES = ["twenty-one", "nine hundred and ninety-nine", TRY]


def translation_lines(pairs: NumberPairs, hypotheses: Sequence[str]) -> list[str]:
    """Format each number as a line with the number, its words and the translation. Mark errors."""
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
        run: finished training run.
        translator: translator with the trained model.
        dev: validation numbers; the page shows the attention for one of them.
        pairs: held-out numbers to translate.
    """
    hypotheses = translator.translate(pairs.sources)
    scores = write_scores(
        run,
        hypotheses,
        pairs.targets,
        tokenize="char",  # German numbers are single words, so BLEU uses character 4-grams
        exact_match=exact_match(hypotheses, pairs.targets),
    )
    lines = translation_lines(pairs, hypotheses)
    write_text(run.directory.samples_path, "\n".join(lines) + "\n")
    say(f"\nOn {len(lines):,} held-out numbers:")
    say(f"  exact match {scores['exact_match']:.1%}   BLEU {scores['bleu']:.2f}")
    say(f"  {scores['signature']}\n")
    say("\n".join(lines[:: max(1, len(lines) // ROWS)][:ROWS]))
    say(f"\nAll translations: {run.directory.samples_path}")
    examples = [*map(Example, pairs.sources, hypotheses, pairs.targets)][:ROWS]
    run.directory.update_record(examples=[*EXAMPLES])
    commands = next_commands(run.directory.path, TRY)
    write_run_report(run.directory, translator, examples, dev.sources[0], commands)
