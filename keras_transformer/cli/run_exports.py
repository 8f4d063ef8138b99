"""The exports in a run, one for each `--engine` of `translate`: made once, then reused."""

import abc
import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, TypeVar

import msgspec

from keras_transformer.backend_start import start_backend_quietly
from keras_transformer.cli.search_arguments import EXPORTED_SEARCH
from keras_transformer.errors import CannotOpenExport, UserInputError
from keras_transformer.files.checksum_list import check_files, has_checksums
from keras_transformer.files.file_lock import file_lock
from keras_transformer.files.json_files import read_record
from keras_transformer.files.standard_streams import note
from keras_transformer.files.whole_directories import set_aside
from keras_transformer.files.whole_files import checksum
from keras_transformer.search_options import TRANSLATION

if TYPE_CHECKING:
    from keras_transformer.cli.line_translator import LineOptions
    from keras_transformer.runs.run_directory import RunDirectory
    from keras_transformer.serving import (
        CTranslate2Translator,
        LiteRTTranslator,
        SavedModelTranslator,
    )

PRECISION: Final = "float32"
Loaded = TypeVar("Loaded")


class _Weights(msgspec.Struct):
    weights_sha256: str


class _Card(msgspec.Struct):
    """The part of an export's `model_card.json` that says what the export was made from."""

    precision: str
    models: list[_Weights]


class _SearchCard(msgspec.Struct):
    """The part of a `model_card.json` that describes the search."""

    options: dict[str, Any]
    max_length: int | None = None


class _Unusable(Exception):
    """An export cannot be used; the message says why."""


class RunExport(abc.ABC, Generic[Loaded]):
    """An export of the run that translates lines as `options` say."""

    engine: ClassVar[str]  # as `--engine` names it
    version: ClassVar[str] = ""  # the export's folder in the engine's folder

    def __init__(self, options: "LineOptions") -> None:
        self.options = options
        self.models = options.models
        self.search = options.full_search

    @abc.abstractmethod
    def opened(self, path: Path) -> Loaded:
        """Return the translator of the export at `path`."""

    @abc.abstractmethod
    def export(self, path: Path) -> None:
        """Write the export to `path`."""

    def load(self) -> Loaded:
        """Return the translator of the run's export, and make the export if it is missing.

        The export is also made again if one of its files is damaged, if its engine cannot open it,
        if it was made from other weights or, if it contains the search, with another search. The
        old export is removed when the new one is complete. Processes that use the same export take
        turns.
        """
        from keras_transformer.runs.run_directory import RunDirectory

        run = RunDirectory.open(self.models.runs[0])
        weights = run.find_weights(*(self.models.checkpoint or ()))
        folder = run.engines_path / f"{self.engine}-{PRECISION}"
        path = folder / self.version
        with _alone(run, folder):
            try:
                _check_export(path, weights)
                return self._usable(path)
            except _Unusable as error:
                note(f"Making {path} for `--engine {self.engine}`: {error}.")
            with set_aside(path):
                self.export(path)
            return self.opened(path)

    def _usable(self, path: Path) -> Loaded:
        """Open an export; raise `_Unusable` if it fails because of the export itself."""
        try:
            return self.opened(path)
        except CannotOpenExport as error:
            raise _Unusable("it cannot be opened") from error
        except UserInputError as error:
            try:
                check_files(path)
            except UserInputError:
                raise _Unusable("it is damaged") from error
            raise

    def _given_batch_size(self) -> dict[str, Any]:
        batch_size = self.models.batch_size
        return {} if batch_size is None else {"batch_size": batch_size}


class CTranslate2Export(RunExport["CTranslate2Translator"]):
    """An export for CTranslate2; it contains no search options."""

    engine = "ctranslate2"

    def load(self) -> "CTranslate2Translator":
        from keras_transformer.formats.ctranslate2.reader import runtime_class

        runtime_class()  # a missing runtime is reported before an export is made
        return super().load()

    def opened(self, path: Path) -> "CTranslate2Translator":
        from keras_transformer.formats.ctranslate2.reader import (
            FIXED_OPTIONS,
            CTranslate2Translator,
        )

        search = dataclasses.asdict(self.search)
        own: dict[str, Any] = {k: v for k, v in search.items() if k not in FIXED_OPTIONS}
        return CTranslate2Translator(
            path,
            **own,
            **self._given_batch_size(),
            long_sentences=self.options.long_lines,
            source_language=self.options.source_language,
            target_language=self.models.target_language,
        )

    def export(self, path: Path) -> None:
        translator = self.models.load()
        from keras_transformer.export import export_ctranslate2

        export_ctranslate2(translator, path, precision=PRECISION)


class _ExportWithSearch(RunExport[Loaded]):
    """An export that contains its search."""

    @property
    def exported_search(self) -> dict[str, Any]:
        """The search options that the export is made with."""
        return {name: getattr(self.search, name) for name in EXPORTED_SEARCH}

    @property
    def refuse_or_cut(self) -> Literal["refuse", "cut"]:
        """`long_lines`, with `refuse` for `split`, which these exports do not have."""
        return "cut" if self.options.long_lines == "cut" else "refuse"

    def check_search(self, found: Mapping[str, Any], max_length: int | None) -> None:
        """Refuse an export with another search; `max_length` is its number of positions."""
        source_limit = self.search.source_limit(max_length)
        expected = {**self.exported_search, "max_source_length": source_limit}
        # Exports of older versions lack newer options.
        found = {**dataclasses.asdict(TRANSLATION), "shortlist": False, **found}
        expected["shortlist"] = self.options.shortlist
        if any(found.get(name) != value for name, value in expected.items()):
            raise _Unusable("it was made with another search")


class LiteRTExport(_ExportWithSearch["LiteRTTranslator"]):
    """An export for LiteRT."""

    engine = "litert"

    def load(self) -> "LiteRTTranslator":
        from keras_transformer.formats.litert.reader import interpreter_class

        interpreter_class()
        return super().load()

    def opened(self, path: Path) -> "LiteRTTranslator":
        from keras_transformer.formats.litert.reader import LiteRTTranslator

        translator = LiteRTTranslator(
            path,
            **self._given_batch_size(),
            long_sentences=self.refuse_or_cut,
            target_language=self.models.target_language,
        )
        limits = translator.settings["limits"]
        shortlist = translator.settings.get("shortlist", False)
        found = {**limits, **translator.settings["search"], "shortlist": shortlist}
        self.check_search(found, limits["max_length"])
        return translator

    def export(self, path: Path) -> None:
        translator = self.models.load(shortlist=self.options.shortlist)
        from keras_transformer.export import export_litert

        export_litert(translator, path, precision=PRECISION, **self.exported_search)


class SavedModelExport(_ExportWithSearch["SavedModelTranslator"]):
    """A SavedModel that runs in this process."""

    engine = "saved-model"
    version = "1"  # the only one

    def opened(self, path: Path) -> "SavedModelTranslator":
        start_backend_quietly()
        from keras_transformer.formats.saved_model.reader import SavedModelTranslator

        card = read_record(path / "model_card.json", _SearchCard)
        self.check_search(card.options, card.max_length)
        return SavedModelTranslator(
            path, **self._given_batch_size(), long_sentences=self.refuse_or_cut
        )

    def export(self, path: Path) -> None:
        translator = self.models.load(shortlist=self.options.shortlist)
        from keras_transformer.export import export_saved_model

        export_saved_model(translator, path.parent, precision=PRECISION, **self.exported_search)


def _check_export(path: Path, weights: Path) -> None:
    """Require an export of these weights; its files are checked when it is opened."""
    if not path.exists():
        raise _Unusable("it is missing")
    if not has_checksums(path):
        raise _Unusable("it is damaged")
    try:
        card = read_record(path / "model_card.json", _Card)
    except UserInputError as error:
        raise _Unusable("it is damaged") from error
    if [model.weights_sha256 for model in card.models] != [checksum(weights)]:
        raise _Unusable("it was made from other weights")


@contextlib.contextmanager
def _alone(run: "RunDirectory", path: Path) -> Iterator[None]:
    """Keep other processes from replacing an export while it is opened or made.

    A run that is read-only has no lock, and nothing is replaced in it.
    """
    run.check_no_links()
    lock = path.with_name(f".{path.name}.lock")

    def on_wait() -> None:
        note(f"Waiting for another process that uses {path}.")

    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            stack.enter_context(file_lock(lock, on_wait))
        yield
