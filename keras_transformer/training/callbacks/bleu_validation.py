"""BLEU of the validation set while training."""

import contextlib
import sys
from pathlib import Path

import numpy as np
from tqdm import tqdm

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.evaluation import bleu
from keras_transformer.evaluation.bleu import bleu_metric, check_paired
from keras_transformer.files.whole_files import write_text
from keras_transformer.training.callbacks.step_callback import StepCallback


class BleuValidation(StepCallback):
    """Translates the validation set at an interval and scores it: `val_bleu` in the logs of `fit`.

    It translates at the end of every n-th epoch, and when a number of steps or minutes ends the
    training. The callbacks behind
    it find the score among their logs. Some translations are written to a file each time, spread
    over the set, with source and reference.

    Args:
        translate: function from a list of strings to the list of their translations by the model
            in training.
        sources: list of strings.
        references: list of as many strings.
        path: file of the sample translations, written anew each time. None: nothing is written or
            said, as fits a process that is not the chief.
        every: positive integer, epochs of `fit` between two translations.
        tokenize: sacrebleu's tokenizer, as in `evaluation.bleu`.
        samples: positive integer, how many translations are written.

    Attributes:
        samples: list of `(source, hypothesis, reference)` of the last time, empty before.

    Raises:
        UserInputError: there are no sentences, or not as many references.

    Example:

    ```python
    translator = Translator(model, tokenizer, beam_size=4)
    validation = BleuValidation(
        translator.translate, sources, references, path="samples.txt", every=5
    )
    model.fit(batches, epochs=50, callbacks=[validation])
    ```
    """

    def __init__(self, translate, sources, references, *, path, every=1, tokenize="13a", samples=4):
        super().__init__()
        check_paired(sources, references)
        bleu_metric(tokenize)  # refuses what it does not know
        check_positive_int("every", every)
        check_positive_int("samples", samples)
        self.translate = translate
        self.sources = sources
        self.references = references
        self.path = path and Path(path)
        self.every = every
        self.tokenize = tokenize
        self.samples = []
        number = min(samples, len(sources))
        self._sampled = np.linspace(0, len(sources) - 1, number).astype(int).tolist()

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self.every and not self.model.stop_training:
            return
        hypotheses = self.translate(self.sources)
        score, signature = bleu(hypotheses, self.references, tokenize=self.tokenize)
        if logs is not None:
            logs["val_bleu"] = score
        self.samples = [
            (self.sources[index], hypotheses[index], self.references[index])
            for index in self._sampled
        ]
        if self.path is None:
            return
        self._write_samples(score, signature)
        # Above a progress bar, if there is one; its terminal may be closed.
        with contextlib.suppress(OSError):
            tqdm.write(f"step {self.step}  validation BLEU {score:.2f}", file=sys.stderr)

    def _write_samples(self, score, signature):
        lines = [f"step {self.step}  validation BLEU {score:.2f}  {signature}"]
        for source, hypothesis, reference in self.samples:
            lines += ["", f"source:      {source}"]
            lines += [f"translation: {hypothesis}", f"reference:   {reference}"]
        write_text(self.path, "\n".join(lines) + "\n")
