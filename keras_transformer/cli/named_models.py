"""The models that a command line names, as plain values."""

import argparse
import dataclasses
from typing import TYPE_CHECKING, Self, Unpack

from keras_transformer.cli import model_arguments
from keras_transformer.cli.program import options_of

if TYPE_CHECKING:
    from keras_transformer.inference.translator import Translator, TranslatorKeywords


@dataclasses.dataclass(frozen=True)
class NamedModels:
    """One model or the members of an ensemble, and the size of their batches.

    Args:
        runs: run directories.
        checkpoint: names or paths of weights: several of one run, one for each run, or one for all;
            None takes the final ones.
        target_language: what a model of several target languages translates into.
        batch_size: most sentences a batch; None leaves it to the `Translator`.
    """

    runs: list[str]
    checkpoint: list[str] | None = None
    target_language: str | None = None
    batch_size: int | None = None

    @classmethod
    def of(cls, values: argparse.Namespace) -> Self:
        """What the flags of `add_run_arguments` or of `add_model_arguments` name."""
        others = ("target_language", "batch_size")
        return options_of(cls, values, **{name: getattr(values, name, None) for name in others})

    @property
    def is_ensemble(self) -> bool:
        """Whether these are several models."""
        return model_arguments.is_ensemble(self._values)

    @property
    def lines_a_batch(self) -> int:
        """Most lines of a batch."""
        return model_arguments.lines_a_batch(self._values)

    @property
    def lines_a_piece(self) -> int:
        """How many lines of a file to answer together."""
        return model_arguments.lines_a_piece(self._values)

    def load(self, *, batches: int = 1, **settings: Unpack["TranslatorKeywords"]) -> "Translator":
        """Their translator; `batches` is as in `start_backend_quietly`."""
        return model_arguments.load_translator(self._values, batches=batches, **settings)

    def digests(self) -> list[str]:
        """What identifies them: digests of weights, fingerprints of tokenizers."""
        return model_arguments.model_digests(self._values)

    def settings(self) -> dict[str, object]:
        """What decides their answers, by the names of the flags."""
        return {name: value for name, value in vars(self).items() if name != "batch_size"}

    @property
    def _values(self) -> argparse.Namespace:
        return argparse.Namespace(**vars(self))
