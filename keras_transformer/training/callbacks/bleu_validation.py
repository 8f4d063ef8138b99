"""BLEU on the validation set during training."""

import contextlib
import csv
import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.evaluation import bleu
from keras_transformer.evaluation.scores import bleu_metric, check_paired
from keras_transformer.files import is_quiet, write_text
from keras_transformer.text.text_lines import one_line
from keras_transformer.training.callbacks.step_callback import Logs, StepCallback
from keras_transformer.types import PathLike

_LONGEST = 1000  # maximum characters per text in the history


class BleuValidation(StepCallback):
    """Translates the validation set every few epochs, and logs the score as `val_bleu`.

    The callback runs at the end of every `every`-th epoch, and when a step or time limit ends
    training. Later callbacks find the score in their logs. Each time, a few translations from
    different parts of the set are written to a file with their sources and references.

    Args:
        translate: function that translates a list of sentences with the model being trained.
        sources: the source sentences.
        references: reference translations, one for each source.
        path: file for sample translations, rewritten each time. None (for processes other than the
            chief) writes no file and prints no score.
        history: CSV file for all sample translations so far, one per row: step, source,
            translation, reference. Rows are appended if the file exists. None writes no file.
        every: positive integer, number of epochs between two validations.
        tokenize: sacrebleu's tokenizer; see `evaluation.bleu`.
        samples: positive integer, number of translations to write.
        parts: sentence indices for each call to `translate`. Sentences that are not in any part get
            empty translations. None translates all sentences in a single call.

    Attributes:
        samples: list of `(source, hypothesis, reference)` from the last validation, empty before.
        before_part: function called before each part; `TrainingRun` stops there after a signal.

    Raises:
        UserInputError: `sources` is empty, or `references` has a different length.

    Example:

    ```python
    translator = Translator(model, tokenizer, beam_size=4)
    validation = BleuValidation(
        translator.translate, sources, references, path="samples.txt", every=5
    )
    model.fit(batches, epochs=50, callbacks=[validation])
    ```
    """

    def __init__(
        self,
        translate: Callable[[Sequence[str]], list[str]],
        sources: Sequence[str],
        references: Sequence[str],
        *,
        path: PathLike | None = None,
        history: PathLike | None = None,
        every: int = 1,
        tokenize: str = "13a",
        samples: int = 4,
        parts: Sequence[Sequence[int]] | None = None,
    ) -> None:
        super().__init__()
        check_paired(sources, references)
        bleu_metric(tokenize)  # refuse unknown tokenizers
        check_positive_int("every", every)
        check_positive_int("samples", samples)
        self.translate = translate
        self.sources = sources
        self.references = references
        self.path = None if path is None else Path(path)
        self.history = None if history is None else Path(history)
        self.every = every
        self.tokenize = tokenize
        self.samples: list[tuple[str, str, str]] = []
        self.before_part: Callable[[], object] = lambda: None
        self._parts = [range(len(sources))] if parts is None else parts
        number = min(samples, len(sources))
        self._sampled = np.linspace(0, len(sources) - 1, number).astype(int).tolist()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if (epoch + 1) % self.every and not self.model.stop_training:
            return
        hypotheses = self._translations()
        score, signature = bleu(hypotheses, self.references, tokenize=self.tokenize)
        if logs is not None:
            logs["val_bleu"] = score
        self.samples = [
            (self.sources[index], hypotheses[index], self.references[index])
            for index in self._sampled
        ]
        if self.history is not None:
            self._append_samples(self.history)
        if self.path is None:
            return
        self._write_samples(self.path, score, signature)
        if is_quiet():
            return
        # Print above any progress bar; the terminal may be closed.
        with contextlib.suppress(OSError):
            tqdm.write(f"step {self.step}  validation BLEU {score:.2f}", file=sys.stderr)

    def _translations(self) -> list[str]:
        hypotheses = [""] * len(self.sources)
        for part in self._parts:
            self.before_part()
            translations = self.translate([self.sources[index] for index in part])
            for index, translation in zip(part, translations, strict=True):
                hypotheses[index] = translation
        return hypotheses

    def _write_samples(self, path: Path, score: float, signature: str) -> None:
        lines = [f"step {self.step}  validation BLEU {score:.2f}  {signature}"]
        for source, hypothesis, reference in self.samples:
            lines += ["", f"source:      {source}"]
            lines += [f"translation: {one_line(hypothesis)}", f"reference:   {reference}"]
        write_text(path, "\n".join(lines) + "\n")

    def _append_samples(self, path: Path) -> None:
        content = io.StringIO(newline="")
        writer = csv.writer(content, lineterminator="\n")
        if path.is_file():
            content.write(path.read_text("utf-8"))
        else:
            writer.writerow(["step", "source", "translation", "reference"])
        # No line breaks, not even Unicode's, because a resumed run cuts the file at line ends.
        writer.writerows(
            [self.step, *(" ".join(text.splitlines())[:_LONGEST] for text in sample)]
            for sample in self.samples
        )
        write_text(path, content.getvalue())
