"""The models and search options specified in a command."""

import argparse
import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

from keras_transformer.argument_checks import (
    check_non_negative_int,
    check_non_negative_number,
    check_positive_number,
    int_from_zero,
    number_from_zero,
    positive_int,
    positive_number,
)
from keras_transformer.files import checksum, note
from keras_transformer.installation import start_backend_quietly
from keras_transformer.search_options import (
    EXPORT,
    OPTIONS,
    TRANSLATION,
    SearchKeywords,
    SearchOptions,
    options_for,
    search_over,
    search_record,
)
from keras_transformer.toolkit.cli.program import add_flags, flag, options_of
from keras_transformer.types import PathLike

if TYPE_CHECKING:
    from keras_transformer.inference.translator import Translator, TranslatorKeywords

EXPORTED_SEARCH = options_for("export")
# Parsers of flag values, keyed by the option's check. All other flags accept positive integers.
_TYPES: dict[Callable[[str, Any], None], Callable[[str], Any]] = {
    check_non_negative_int: int_from_zero,
    check_non_negative_number: number_from_zero,
    check_positive_number: positive_number,
}


def add_search_arguments(
    parser: argparse.ArgumentParser, *names: str, defaults: SearchOptions = TRANSLATION
) -> None:
    """Add flags for these fields of `SearchOptions`. Missing flags are None.

    `defaults` are the values shown in the help text, used if the run does not set the field.
    """
    for name in names:
        option = OPTIONS[name]
        how: dict[str, Any] = {"choices": option.choices}
        if not option.choices:
            how = {"type": _TYPES.get(option.check, positive_int), "metavar": option.shown}
        default = str(getattr(defaults, name))
        if defaults is not EXPORT or name != "max_source_length":  # of an export, never the run's
            default = f"the run's value, otherwise {default}"
        help_text = option.help.format(default)
        parser.add_argument("--" + name.replace("_", "-"), help=help_text, **how)


def given_search(values: argparse.Namespace) -> SearchKeywords:
    """Return the fields of `SearchOptions` given on the command line, as keyword arguments."""
    found = {name: getattr(values, name, None) for name in OPTIONS}
    return cast(SearchKeywords, {k: value for k, value in found.items() if value is not None})


def search_of(given: SearchKeywords, run: PathLike) -> SearchKeywords:
    """Return the run's default `SearchOptions` fields, overridden by the given fields.

    If the path is not a run, there are no defaults. Opening the run later raises the error.
    """
    from keras_transformer.runs.run_directory import RunDirectory

    directory = RunDirectory.find(run)
    defaults = directory.search_defaults() if directory.is_run() else {}
    return cast(SearchKeywords, search_over(defaults, given))


def settled_search(given: SearchKeywords, run: PathLike, names: Collection[str]) -> SearchKeywords:
    """Return the `search_of` fields in `names`, so that a later `tune` cannot change them."""
    found = search_of(given, run)
    return cast(SearchKeywords, {k: value for k, value in found.items() if k in names})


def tell_search_taken(
    paths: Sequence[PathLike], given: SearchKeywords, tried: Collection[str] = ()
) -> None:
    """Print an ensemble's search options if its runs differ in options not set by flags.

    An ensemble uses the search options of its first run. If a path is not a run, opening it later
    raises the error.

    Args:
        paths: paths of the runs.
        given: fields of `SearchOptions` set by flags.
        tried: fields of `SearchOptions` for which multiple values are tried.
    """
    from keras_transformer.runs.run_directory import RunDirectory

    runs = [RunDirectory.find(path) for path in paths]
    if len(runs) == 1 or not all(run.is_run() for run in runs):
        return
    first, *others = (search_record(SearchOptions(**run.search_defaults())) for run in runs)
    taken = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in first.items()
        if name not in {*given, *tried} and any(other[name] != value for other in others)
    ]
    if taken:
        note(
            f"The runs differ in their search options: using {', '.join(taken)} of {runs[0].path}."
        )


# Batches per piece of a file. The lines of a piece are sorted by length and processed together.
BATCHES_A_PIECE = 16
USUAL_BATCH_SIZE = 128  # default


@dataclasses.dataclass(frozen=True)
class NamedModels:
    """A model or the members of an ensemble, with their batch size.

    Args:
        runs: run directories.
        batch_size: maximum number of sentences in a batch; None uses the default of `Translator`.

    For the other fields, see the help texts of their flags.
    """

    runs: list[str]
    checkpoint: list[str] | None = flag(
        "weights to use: a name in the run's checkpoints/, or a path (default: the final weights). "
        "Several checkpoints of one RUN form an ensemble. With several RUNs, pass one checkpoint "
        "for each, or one name for all",
        action="append",
        metavar="NAME",
    )
    target_language: str | None = flag(
        "target language of a multilingual model, such as deu for the tag >>deu<<; a "
        "tag at the start of a line overrides it",
        metavar="CODE",
    )
    batch_size: int | None = None

    @classmethod
    def of(cls, values: argparse.Namespace) -> Self:
        """Return the models given by the flags of `add_run_arguments` or `add_model_arguments`."""
        others = ("target_language", "batch_size")
        return options_of(cls, values, **{name: getattr(values, name, None) for name in others})

    @property
    def is_ensemble(self) -> bool:
        """Whether there are multiple models."""
        return len(self.runs) * len(self.checkpoint or [None]) > 1

    @property
    def lines_a_batch(self) -> int:
        """Maximum number of lines per batch."""
        return self.batch_size or USUAL_BATCH_SIZE

    @property
    def lines_a_piece(self) -> int:
        """Number of lines to process together."""
        return BATCHES_A_PIECE * self.lines_a_batch

    def load(self, *, batches: int = 1, **settings: Unpack["TranslatorKeywords"]) -> "Translator":
        """Load the models as a `Translator`. For `batches`, see `start_backend_quietly`.

        The engine is "own" by default, because few commands translate single sentences.
        """
        start_backend_quietly(batches=batches)
        from keras_transformer.inference.translator import Translator

        if self.target_language is not None:
            settings["target_language"] = self.target_language
        how: TranslatorKeywords = {"engine": "own", **settings}
        return Translator.load(self.runs, checkpoint=self.checkpoint, **how)

    def digests(self) -> list[str]:
        """Return identifiers of the models: digests of weights and fingerprints of tokenizers."""
        from keras_transformer.inference.ensemble_loading import ensemble_members

        digests = []
        for run, checkpoint in ensemble_members(self.runs, self.checkpoint):
            digests.append(checksum(run.find_weights(checkpoint)))
            digests += [tokenizer.fingerprint for tokenizer in run.load_tokenizers()]
        return digests

    def settings(self) -> dict[str, object]:
        """Return the settings that affect the models' output, keyed by flag name."""
        return {name: value for name, value in vars(self).items() if name != "batch_size"}


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `RUN [RUN ...]`, `--checkpoint`, `--target-language` and the batch flags to a verb."""
    add_run_arguments(parser)
    add_flags(parser, NamedModels, "target_language")
    add_batch_arguments(parser)


def add_batch_arguments(parser: argparse.ArgumentParser, batch_size: int | None = None) -> None:
    """Add `--batch-size` and `--max-source-length` to a verb's parser."""
    default = batch_size or "128, or 32 on JAX"
    parser.add_argument(
        "--batch-size",
        type=positive_int,
        default=batch_size,
        metavar="N",
        help="maximum number of sentences in a batch; long sentences get smaller batches (default: "
        f"{default})",
    )
    parser.add_argument(
        "--max-source-length",
        type=positive_int,
        metavar="N",
        help="maximum number of tokens in a line, including the end of sentence; also applies to "
        "targets, references and prefixes. Longer lines are reported by number (default: "
        f"{TRANSLATION.max_source_length}, or the number of the model's positions if smaller)",
    )


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `RUN [RUN ...]` and `--checkpoint` to a verb's parser."""
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="run directory; multiple runs form an ensemble that averages their probabilities",
    )
    add_flags(parser, NamedModels, "checkpoint")
