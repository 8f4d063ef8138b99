"""Classes that describe a format. This module requires neither Keras nor NumPy."""

import dataclasses
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer.errors import UserInputError
from keras_transformer.types import PathLike

if TYPE_CHECKING:
    from keras_transformer.search_options import SearchOptions
    from keras_transformer.text.sentence_encoding import LongSentences

# The score of an unused slot in an n-best list, and the log-probability of a forbidden token. The
# value is finite because JSON does not support infinity.
NO_SCORE = -1e9
# Signatures of exports that translators call.
TRANSLATE_IDS, TRANSLATE_IDS_WITH_TERMS = "translate_ids", "translate_ids_with_terms"
TRANSLATE_ONE = "translate_one"
ALIGN_IDS, TOKENIZERS = "align_ids", "tokenizers"
SIDES = ("source", "target")


@dataclasses.dataclass(frozen=True)
class Flag:
    """An `export` flag that applies to only one format.

    Args:
        flag: name of the flag; with a `metavar`, the flag accepts the path of a text file.
        option: corresponding argument of the writer.
        help: help text of the flag.
        metavar: placeholder for the file in the help text.
        turns_off: whether the option is on without the flag.
    """

    flag: str
    option: str
    help: str
    metavar: str | None = None
    turns_off: bool = False


WITH_TERMS = Flag(
    "--terms",
    "terms",
    "include the search for translations with terms (`translate --glossary` and `--keep`); the "
    "model then takes longer to load",
)


@dataclasses.dataclass(frozen=True)
class Import:
    """Description of how `import` converts models of a format to runs.

    Args:
        place: location of `import_NAME(directory, run_directory, origin=...)`, as in `Format`.
        help, description, directory: help texts of the command, its help page and its argument.
        is_preset: whether `preset_folder` locates the directory; otherwise the importer unpacks it.
    """

    place: str
    help: str
    description: str
    directory: str
    is_preset: bool = False


@dataclasses.dataclass(frozen=True)
class Format:
    """A model format. Functions are given as "MODULE:NAME" in `formats` and imported on first use.

    Args:
        name: name of the format on the command line.
        help: description of the exported files, shown by `export --help`.
        writer: location of the function `export_NAME(translator, directory, **options)`.
        precisions: supported number formats of the weights, with the default first.
        kind: name of the format in a model card.
        files: patterns of files that must have checksums, with the model first.
        directory: help text for the output directory.
        output: placeholder for the output in the help text: "DIRECTORY" or "FILE".
        has_search: whether an export includes the decoding search.
        has_n_best: whether the search can return multiple translations.
        flags: extra flags for this format.
        runtime: location of a function that raises a `UserInputError` if the runtime is missing.
        reader: location of `open_export(path, reading)`, which returns a translator.
        version: subfolder that contains the export, relative to the writer's output directory.
        lacks: `translate` options that the runtime does not support.
        own_search: search options that the runtime interprets differently.
        importer: description of how models are imported.
    """

    name: str
    help: str
    writer: str
    precisions: tuple[str, ...] = ()
    kind: str = ""
    files: tuple[str, ...] = ()
    directory: str = "output directory, which must be empty or must not exist"
    output: str = "DIRECTORY"
    has_search: bool = False
    has_n_best: bool = False
    flags: tuple[Flag, ...] = ()
    runtime: str = ""
    reader: str = ""
    version: str = ""
    lacks: tuple[str, ...] = ()
    own_search: Mapping[str, str] = dataclasses.field(default_factory=dict)
    importer: Import | None = None

    def write(self, translator: Any, directory: Path | str, **options: Any) -> Path:
        """Export a translator and return the path of the export."""
        return at(self.writer)(translator, directory, **options)

    def check_runtime(self) -> None:
        """Raise a `UserInputError` if the runtime of the exports is not installed."""
        at(self.runtime)()

    def open(self, path: Path, reading: "Reading") -> Any:
        """Return the translator of an export."""
        return at(self.reader)(path, reading)


@dataclasses.dataclass(frozen=True)
class Reading:
    """Options for translating with an export.

    Args:
        search: search options for a runtime that implements its own search.
        batch_size: maximum number of sentences in a batch; None uses the reader's default.
        long_sentences, source_language, target_language: as in `Translator`.
    """

    search: "SearchOptions"
    batch_size: int | None = None
    long_sentences: "LongSentences" = "refuse"
    source_language: str = "en"
    target_language: str | None = None

    @property
    def for_whole_sentences(self) -> dict[str, Any]:
        """Arguments for a reader that refuses long sentences instead of splitting them."""
        long_sentences = "cut" if self.long_sentences == "cut" else "refuse"
        return {
            **self.given_batch_size,
            "long_sentences": long_sentences,
            "source_language": self.source_language,
        }

    @property
    def given_batch_size(self) -> dict[str, Any]:
        """The batch size as a keyword argument, if one is given."""
        return {} if self.batch_size is None else {"batch_size": self.batch_size}


def cannot_import(path: PathLike, reason: object) -> UserInputError:
    """Return the error for a file or folder whose model is not supported by this package."""
    return UserInputError(f"The model of {path} cannot be imported: {reason}")


def at(place: str) -> Any:
    """Return the object at this location in `formats`."""
    return pkgutil.resolve_name(f"keras_transformer.formats.{place}")


def no_terms(what: object) -> UserInputError:
    """Return the error for an export without the search for translations with terms."""
    return UserInputError(
        f"{what} has no search for `glossary` and `keep`: export the model again with `--terms`."
    )
