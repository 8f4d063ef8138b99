"""Arguments that name a model, for every verb that uses one, and how it is loaded."""

import argparse
import hashlib
from typing import TYPE_CHECKING, Unpack

from keras_transformer.backend_start import start_backend_quietly
from keras_transformer.cli.program import positive_int
from keras_transformer.search_options import TRANSLATION

if TYPE_CHECKING:
    from keras_transformer.inference.translator import Translator, TranslatorKeywords


# Batches of a piece of a file, whose lines are sorted by length and answered together.
BATCHES_A_PIECE = 16
USUAL_BATCH_SIZE = 128  # where none is given


def lines_a_batch(options: argparse.Namespace) -> int:
    """Most lines of a batch."""
    return options.batch_size or USUAL_BATCH_SIZE


def lines_a_piece(options: argparse.Namespace) -> int:
    """How many lines of a file to answer together."""
    return BATCHES_A_PIECE * lines_a_batch(options)


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `RUN [RUN ...]`, `--checkpoint`, `--target-language` and those of batches to a verb."""
    add_run_arguments(parser)
    add_target_language(parser)
    add_batch_arguments(parser)


def add_target_language(parser: argparse.ArgumentParser) -> None:
    """Add `--target-language` to a verb's parser."""
    parser.add_argument(
        "--target-language",
        metavar="CODE",
        help="what a model of several target languages translates into, such as deu for the tag "
        ">>deu<<; a line that begins with a tag has its own",
    )


def add_batch_arguments(parser: argparse.ArgumentParser, batch_size: int | None = None) -> None:
    """Add `--batch-size` and `--max-source-length` to a verb's parser."""
    default = batch_size or "as a Translator's, 128 or on JAX 32"
    parser.add_argument(
        "--batch-size",
        type=positive_int,
        default=batch_size,
        metavar="N",
        help=f"most sentences a batch, fewer if they are long (default: {default})",
    )
    parser.add_argument(
        "--max-source-length",
        type=positive_int,
        metavar="N",
        help="most tokens of a line, end of sentence counted; also of a target, a reference or a "
        "prefix beside the source. A longer line is refused, with its number (default: "
        f"{TRANSLATION.max_source_length}; a model with fewer positions has that limit)",
    )


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `RUN [RUN ...]` and `--checkpoint` to a verb's parser."""
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="run directory of a training; several are an ensemble, which takes the mean of their "
        "probabilities",
    )
    parser.add_argument(
        "--checkpoint",
        action="append",
        metavar="NAME",
        help="weights to use, a name in the run's checkpoints/ or a path (default: the run's final "
        "ones); given several times with one RUN, an ensemble of these; with several RUNs, one for "
        "each, or one name for all",
    )


def is_ensemble(options: argparse.Namespace) -> bool:
    """Whether the options of `add_run_arguments` name several models."""
    return len(options.runs) * len(options.checkpoint or [None]) > 1


def load_translator(
    options: argparse.Namespace,
    *,
    batches: int = 1,
    **settings: Unpack["TranslatorKeywords"],
) -> "Translator":
    """The translator that the options of `add_run_arguments` or `add_model_arguments` name.

    `batches` is as in `start_backend_quietly`.
    """
    start_backend_quietly(batches=batches)
    from keras_transformer.inference.translator import Translator  # takes seconds: not for `--help`

    if getattr(options, "target_language", None) is not None:
        settings["target_language"] = options.target_language
    return Translator.load(options.runs, checkpoint=_checkpoint(options), **settings)


def model_digests(options: argparse.Namespace) -> list[str]:
    """What identifies the named models: digests of weights, fingerprints of tokenizers."""
    from keras_transformer.inference.ensemble_loading import ensemble_members

    digests = []
    for run, checkpoint in ensemble_members(options.runs, _checkpoint(options)):
        with open(run.find_weights(checkpoint), "rb") as weights:
            digests.append(hashlib.file_digest(weights, "sha256").hexdigest())
        digests += [tokenizer.fingerprint for tokenizer in run.load_tokenizers()]
    return digests


def _checkpoint(options: argparse.Namespace) -> str | list[str] | None:
    """One name for all runs, a list of several, or None."""
    checkpoint = options.checkpoint
    if checkpoint is not None and len(checkpoint) == 1:
        (checkpoint,) = checkpoint
    return checkpoint
