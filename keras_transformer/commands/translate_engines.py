"""`keras-transformer translate --engine`: an export beside the run, made once and reused."""

import argparse
import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from keras_transformer.backend_start import start_backend_quietly
from keras_transformer.commands.arguments.model_arguments import is_ensemble, load_translator
from keras_transformer.commands.arguments.search_arguments import search_of
from keras_transformer.commands.export_command import SEARCH as EXPORTED_SEARCH
from keras_transformer.errors import CannotOpenExport, UserInputError
from keras_transformer.files.checksum_list import check_files, has_checksums
from keras_transformer.files.file_lock import file_lock
from keras_transformer.files.json_files import read_record
from keras_transformer.files.standard_streams import tell
from keras_transformer.files.whole_directories import set_aside
from keras_transformer.files.whole_files import checksum
from keras_transformer.search_options import SearchOptions

if TYPE_CHECKING:
    from keras_transformer.runs.run_directory import RunDirectory
    from keras_transformer.serving import (
        CTranslate2Translator,
        LiteRTTranslator,
        SavedModelTranslator,
    )

    Engine: TypeAlias = CTranslate2Translator | LiteRTTranslator | SavedModelTranslator

ENGINES = ("own", "ctranslate2", "litert", "saved-model")
# Flags that have no counterpart in an engine, by their names on the parsed command line.
MISSING: dict[str, tuple[str, ...]] = {
    "own": (),
    "ctranslate2": ("sample", "length_penalty", "ending"),
    "litert": ("sample", "n_best", "tab_prefix"),
    "saved-model": ("sample", "n_best", "tab_prefix", "target_language"),
}
PRECISION: Final = "float32"


class _Weights(msgspec.Struct):
    weights_sha256: str


class _Card(msgspec.Struct):
    """The part of an export's `model_card.json` that tells what it was made from."""

    precision: str
    models: list[_Weights]


class _SearchCard(msgspec.Struct):
    """The part of a `model_card.json` that tells the search."""

    options: dict[str, Any]
    max_length: int | None = None


class _Unusable(Exception):
    """An export cannot be used; the message says why."""


def check_engine(options: argparse.Namespace) -> None:
    """Refuse what the chosen engine lacks."""
    engine = options.engine
    for name in MISSING[engine]:
        if getattr(options, name) not in (None, False):
            raise UserInputError(f"`--{name.replace('_', '-')}` is not for `--engine {engine}`.")
    if engine in ("litert", "saved-model") and options.long_lines == "split":
        raise UserInputError(f"`--long-lines split` is not for `--engine {engine}`.")
    if engine != "own" and is_ensemble(options):
        raise UserInputError(
            f"An ensemble is not for `--engine {engine}`: it takes one RUN and one `--checkpoint`."
        )


def load_engine(options: argparse.Namespace) -> "Engine":
    """The translator of `--engine`, from the run's export, which is made if it is missing.

    It is also made anew if a file of it is damaged, if its engine cannot open it, if it is of other
    weights or, where the search is part of it, of another search; the old one goes when the new one
    is there. Processes that use one export take turns at this.
    """
    from keras_transformer.runs.run_directory import RunDirectory

    engine = _ENGINE_CLASSES[options.engine](options)
    run = RunDirectory.open(options.runs[0])
    weights = run.find_weights(*options.checkpoint or [None])
    folder = run.engines_path / f"{options.engine}-{PRECISION}"
    path = folder / engine.version
    with _alone(run, folder):
        try:
            _check_export(path, weights)
            return _opened(engine, path)
        except _Unusable as error:
            tell(f"Making {path} for `--engine {options.engine}`: {error}.")
        with set_aside(path):
            engine.export(path)
        return engine.opened(path)


def _check_export(path: Path, weights: Path) -> None:
    """Require an export of these weights, whose files are compared when it is opened."""
    if not path.exists():
        raise _Unusable("it is missing")
    if not has_checksums(path):
        raise _Unusable("it is damaged")
    try:
        card = read_record(path / "model_card.json", _Card)
    except UserInputError as error:
        raise _Unusable("it is damaged") from error
    if [model.weights_sha256 for model in card.models] != [checksum(weights)]:
        raise _Unusable("it is of other weights")


def _opened(engine: "_CTranslate2 | _LiteRT | _SavedModel", path: Path) -> "Engine":
    """The translator of an export, unless the export is why it cannot be opened."""
    try:
        return engine.opened(path)
    except CannotOpenExport as error:
        raise _Unusable("it cannot be opened") from error
    except UserInputError as error:
        try:
            check_files(path)
        except UserInputError:
            raise _Unusable("it is damaged") from error
        raise


@contextlib.contextmanager
def _alone(run: "RunDirectory", path: Path) -> Iterator[None]:
    """Keep other processes from replacing an export while it is opened or made.

    Nobody is kept out of a run that may only be read, where nothing is replaced either.
    """
    run.check_no_links()
    lock = path.with_name(f".{path.name}.lock")

    def on_wait() -> None:
        tell(f"Waiting for another process, which uses {path}.")

    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            stack.enter_context(file_lock(lock, on_wait))
        yield


def _given_batch_size(options: argparse.Namespace) -> dict[str, int]:
    return {} if options.batch_size is None else {"batch_size": options.batch_size}


class _CTranslate2:
    """The engine CTranslate2: no option of the search is part of an export."""

    version = ""

    def __init__(self, options: argparse.Namespace) -> None:
        from keras_transformer.formats.ctranslate2.reader import FIXED_OPTIONS, engine_class

        engine_class()  # a missing one is told before an export is made
        search = dataclasses.asdict(SearchOptions(**search_of(options, options.runs[0])))
        self._options = options
        self._keywords: dict[str, Any] = {
            **{name: value for name, value in search.items() if name not in FIXED_OPTIONS},
            **_given_batch_size(options),
            "long_sentences": options.long_lines,
            "source_language": options.source_language,
            "target_language": options.target_language,
        }

    def opened(self, path: Path) -> "CTranslate2Translator":
        from keras_transformer.formats.ctranslate2.reader import CTranslate2Translator

        return CTranslate2Translator(path, **self._keywords)

    def export(self, path: Path) -> None:
        translator = load_translator(self._options)
        from keras_transformer.export import export_ctranslate2

        export_ctranslate2(translator, path, precision=PRECISION)


class _LiteRT:
    """The engine LiteRT: the search is part of an export."""

    version = ""

    def __init__(self, options: argparse.Namespace) -> None:
        from keras_transformer.formats.litert.reader import interpreter_class

        interpreter_class()
        self._options = options
        search = SearchOptions(**search_of(options, options.runs[0]))
        self._search: dict[str, Any] = {name: getattr(search, name) for name in EXPORTED_SEARCH}
        self._source_limit = search.source_limit

    def opened(self, path: Path) -> "LiteRTTranslator":
        from keras_transformer.formats.litert.reader import LiteRTTranslator

        options = self._options
        translator = LiteRTTranslator(
            path,
            **_given_batch_size(options),
            long_sentences=options.long_lines,
            target_language=options.target_language,
        )
        limits = translator.settings["limits"]
        found = {**limits, **translator.settings["search"]}
        source_limit = self._source_limit(limits["max_length"])
        expected = {**self._search, "max_source_length": source_limit}
        if any(found.get(name) != value for name, value in expected.items()):
            raise _Unusable("it is of another search")
        return translator

    def export(self, path: Path) -> None:
        translator = load_translator(self._options)
        from keras_transformer.export import export_litert

        export_litert(translator, path, precision=PRECISION, **self._search)


class _SavedModel:
    """A SavedModel in this process: the search is part of an export."""

    version = "1"  # the only one

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        search = SearchOptions(**search_of(options, options.runs[0]))
        self._search: dict[str, Any] = {name: getattr(search, name) for name in EXPORTED_SEARCH}
        self._source_limit = search.source_limit

    def opened(self, path: Path) -> "SavedModelTranslator":
        start_backend_quietly()
        from keras_transformer.formats.saved_model.reader import SavedModelTranslator

        card = read_record(path / "model_card.json", _SearchCard)
        source_limit = self._source_limit(card.max_length)
        expected = {**self._search, "max_source_length": source_limit}
        if any(card.options.get(name) != value for name, value in expected.items()):
            raise _Unusable("it is of another search")
        return SavedModelTranslator(
            path, **_given_batch_size(self._options), long_sentences=self._options.long_lines
        )

    def export(self, path: Path) -> None:
        translator = load_translator(self._options)
        from keras_transformer.export import export_saved_model

        export_saved_model(translator, path.parent, precision=PRECISION, **self._search)


_ENGINE_CLASSES: dict[str, type[_CTranslate2 | _LiteRT | _SavedModel]] = {
    "ctranslate2": _CTranslate2,
    "litert": _LiteRT,
    "saved-model": _SavedModel,
}
