"""The models that a command line names: the flags, and their values as plain data."""

import argparse
import dataclasses
import hashlib
from typing import TYPE_CHECKING, Self, Unpack

from keras_transformer.backend_start import start_backend_quietly
from keras_transformer.cli.program import options_of, positive_int
from keras_transformer.search_options import TRANSLATION

if TYPE_CHECKING:
    from keras_transformer.inference.translator import Translator, TranslatorKeywords

# Batches in a piece of a file. The lines of a piece are sorted by length and answered together.
BATCHES_A_PIECE = 16
USUAL_BATCH_SIZE = 128  # if none is given


@dataclasses.dataclass(frozen=True)
class NamedModels:
    """One model or the members of an ensemble, and their batch size.

    Args:
        runs: run directories.
        checkpoint: names or paths of weights: several of one run, one for each run, or one for all
            runs; None takes the final weights.
        target_language: language into which a multilingual model translates.
        batch_size: most sentences in a batch; None leaves it to the `Translator`.
    """

    runs: list[str]
    checkpoint: list[str] | None = None
    target_language: str | None = None
    batch_size: int | None = None

    @classmethod
    def of(cls, values: argparse.Namespace) -> Self:
        """Return the models that the flags of `add_run_arguments` or `add_model_arguments` name."""
        others = ("target_language", "batch_size")
        return options_of(cls, values, **{name: getattr(values, name, None) for name in others})

    @property
    def is_ensemble(self) -> bool:
        """Whether there are several models."""
        return len(self.runs) * len(self.checkpoint or [None]) > 1

    @property
    def lines_a_batch(self) -> int:
        """Most lines in a batch."""
        return self.batch_size or USUAL_BATCH_SIZE

    @property
    def lines_a_piece(self) -> int:
        """How many lines of a file to answer together."""
        return BATCHES_A_PIECE * self.lines_a_batch

    def load(self, *, batches: int = 1, **settings: Unpack["TranslatorKeywords"]) -> "Translator":
        """Load the models as a `Translator`; `batches` is as in `start_backend_quietly`."""
        start_backend_quietly(batches=batches)
        from keras_transformer.inference.translator import Translator

        if self.target_language is not None:
            settings["target_language"] = self.target_language
        return Translator.load(self.runs, checkpoint=self._one_checkpoint, **settings)

    def digests(self) -> list[str]:
        """Return what identifies the models: digests of weights, fingerprints of tokenizers."""
        from keras_transformer.inference.ensemble_loading import ensemble_members

        digests = []
        for run, checkpoint in ensemble_members(self.runs, self._one_checkpoint):
            with open(run.find_weights(checkpoint), "rb") as weights:
                digests.append(hashlib.file_digest(weights, "sha256").hexdigest())
            digests += [tokenizer.fingerprint for tokenizer in run.load_tokenizers()]
        return digests

    def settings(self) -> dict[str, object]:
        """Return what decides the models' answers, by the names of the flags."""
        return {name: value for name, value in vars(self).items() if name != "batch_size"}

    @property
    def _one_checkpoint(self) -> str | list[str] | None:
        """The checkpoints as `Translator.load` takes them: a single one is not in a list."""
        if self.checkpoint is not None and len(self.checkpoint) == 1:
            return self.checkpoint[0]
        return self.checkpoint


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `RUN [RUN ...]`, `--checkpoint`, `--target-language` and the batch flags to a verb."""
    add_run_arguments(parser)
    add_target_language(parser)
    add_batch_arguments(parser)


def add_target_language(parser: argparse.ArgumentParser) -> None:
    """Add `--target-language` to a verb's parser."""
    parser.add_argument(
        "--target-language",
        metavar="CODE",
        help="language to translate into with a multilingual model, such as deu for the tag "
        ">>deu<<; a tag at the start of a line overrides it",
    )


def add_batch_arguments(parser: argparse.ArgumentParser, batch_size: int | None = None) -> None:
    """Add `--batch-size` and `--max-source-length` to a verb's parser."""
    default = batch_size or "128, or 32 on JAX"
    parser.add_argument(
        "--batch-size",
        type=positive_int,
        default=batch_size,
        metavar="N",
        help=f"most sentences in a batch; long sentences get smaller batches (default: {default})",
    )
    parser.add_argument(
        "--max-source-length",
        type=positive_int,
        metavar="N",
        help="most tokens in a line, the end of sentence included; it also limits targets, "
        "references and prefixes. A longer line is refused by its number (default: "
        f"{TRANSLATION.max_source_length}, or the number of the model's positions if that is less)",
    )


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `RUN [RUN ...]` and `--checkpoint` to a verb's parser."""
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="run directory of a training; several form an ensemble, which averages their "
        "probabilities",
    )
    parser.add_argument(
        "--checkpoint",
        action="append",
        metavar="NAME",
        help="weights to use: a name in the run's checkpoints/, or a path (default: the final "
        "weights). Several with one RUN form an ensemble. With several RUNs, give one for each, "
        "or one name for all",
    )
