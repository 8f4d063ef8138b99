"""The description of a format. `registry.py` lists all formats. Needs neither Keras nor NumPy."""

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

# The score of an empty place in an n-best list, and the log-probability of a forbidden token:
# finite, because JSON has no infinity.
NO_SCORE = -1e9


@dataclasses.dataclass(frozen=True)
class Flag:
    """A flag of `export` for an option of only one format.

    Args:
        flag: the flag, which takes the path of a text file if there is a `metavar`.
        option: the option of the writer.
        help: its help text.
        metavar: name of the file in the help.
    """

    flag: str
    option: str
    help: str
    metavar: str | None = None


@dataclasses.dataclass(frozen=True)
class Import:
    """How `import` converts models in a format to runs.

    Args:
        place: place of `import_NAME(directory, run_directory, origin=...)`, as in `Format`.
        help, description, directory: the help texts of the verb, its page and its argument.
        is_preset: whether `preset_folder` finds the directory; if not, the importer unpacks it.
    """

    place: str
    help: str
    description: str
    directory: str
    is_preset: bool = False


@dataclasses.dataclass(frozen=True)
class Format:
    """A model format. Places are "MODULE:NAME" below `formats`, imported on first use.

    Args:
        name: as the verbs name it.
        help: what `export` writes, for `--help`.
        writer: place of the function `export_NAME(translator, directory, **options)`.
        precisions: number formats of the weights, the default first.
        kind: the name in a model card.
        files: patterns of files that a list of checksums must include, the model first.
        directory: help text about the directory to write.
        has_search: whether an export contains its search.
        has_n_best: whether the search can return several translations.
        flag: a separate flag for this format.
        runtime: place of a function that raises a `UserInputError` if the runtime is missing.
        reader: place of `open_export(path, reading)`, which returns a translator.
        version: folder of an export below the directory that the writer gets.
        lacks: options of `translate` that the runtime does not support.
        own_search: search options that the runtime handles in its own way.
        importer: how models are imported.
    """

    name: str
    help: str
    writer: str
    precisions: tuple[str, ...] = ()
    kind: str = ""
    files: tuple[str, ...] = ()
    directory: str = "directory to write, which must be empty or not exist"
    has_search: bool = False
    has_n_best: bool = False
    flag: Flag | None = None
    runtime: str = ""
    reader: str = ""
    version: str = ""
    lacks: tuple[str, ...] = ()
    own_search: Mapping[str, str] = dataclasses.field(default_factory=dict)
    importer: Import | None = None

    def write(self, translator: Any, directory: Path | str, **options: Any) -> Path:
        """Export a translator; returns the path of the export."""
        return at(self.writer)(translator, directory, **options)

    def check_runtime(self) -> None:
        """Raise a `UserInputError` if the runtime of the exports is not installed."""
        at(self.runtime)()

    def open(self, path: Path, reading: "Reading") -> Any:
        """Return the translator of an export."""
        return at(self.reader)(path, reading)


@dataclasses.dataclass(frozen=True)
class Reading:
    """How an export translates.

    Args:
        search: the search, for a runtime that has its own search.
        batch_size: maximum number of sentences in a batch; None takes the reader's default.
        long_sentences, source_language, target_language: as in `Translator`.
    """

    search: "SearchOptions"
    batch_size: int | None = None
    long_sentences: "LongSentences" = "refuse"
    source_language: str = "en"
    target_language: str | None = None

    @property
    def for_whole_sentences(self) -> dict[str, Any]:
        """Arguments of a reader that refuses long sentences instead of splitting them."""
        long_sentences = "cut" if self.long_sentences == "cut" else "refuse"
        return {**self.given_batch_size, "long_sentences": long_sentences}

    @property
    def given_batch_size(self) -> dict[str, Any]:
        """The batch size as an argument, if there is one."""
        return {} if self.batch_size is None else {"batch_size": self.batch_size}


def cannot_import(path: PathLike, reason: object) -> UserInputError:
    """The error about a model in a file or a folder that the package cannot compute."""
    return UserInputError(f"The model of {path} cannot be imported: {reason}")


def at(place: str) -> Any:
    """Return the object at this place below `formats`."""
    return pkgutil.resolve_name(f"keras_transformer.formats.{place}")
