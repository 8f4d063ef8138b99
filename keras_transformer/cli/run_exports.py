"""The exports in a run, one for each `--engine` of `translate`: made once, then reused."""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from keras_transformer.cli.named_models import NamedModels
from keras_transformer.cli.search_arguments import EXPORTED_SEARCH
from keras_transformer.errors import CannotOpenExport, UserInputError
from keras_transformer.files.checksum_list import has_checksums
from keras_transformer.files.file_lock import file_lock
from keras_transformer.files.json_files import read_record
from keras_transformer.files.standard_streams import note
from keras_transformer.files.whole_directories import set_aside
from keras_transformer.files.whole_files import checksum
from keras_transformer.formats.format import Format, Reading
from keras_transformer.formats.registry import check_export
from keras_transformer.search_options import TRANSLATION

if TYPE_CHECKING:
    from keras_transformer.runs.run_directory import RunDirectory

PRECISION: Final = "float32"


class _Weights(msgspec.Struct):
    weights_sha256: str


class _Card(msgspec.Struct):
    """The part of an export's `model_card.json` that says what the export was made from."""

    precision: str
    models: list[_Weights]
    options: dict[str, Any]
    max_length: int | None = None


class _Unusable(Exception):
    """An export cannot be used; the message says why."""


@dataclasses.dataclass(frozen=True)
class RunExport:
    """An export of a run, in one format.

    Args:
        format: the format, which is also the engine.
        models: the run.
        reading: how the export translates.
        shortlist: whether it searches among the candidates of the run's shortlist.
    """

    format: Format
    models: NamedModels
    reading: Reading
    shortlist: bool = False

    def load(self) -> Any:
        """Return the translator of the run's export, and make the export if it is missing.

        The export is also made again if one of its files is damaged, if its engine cannot open it,
        if it was made from other weights or, if it contains the search, with another search. The
        old export is removed when the new one is complete. Processes that use the same export take
        turns.
        """
        from keras_transformer.runs.run_directory import RunDirectory

        self.format.check_runtime()  # a missing runtime is reported before an export is made
        run = RunDirectory.open(self.models.runs[0])
        weights = run.find_weights(*(self.models.checkpoint or ()))
        folder = run.engines_path / f"{self.format.name}-{PRECISION}"
        path = folder / self.format.version
        with _alone(run, folder):
            try:
                return self._usable(path, weights)
            except _Unusable as error:
                note(f"Making {path} for `--engine {self.format.name}`: {error}.")
            with set_aside(path):
                self.export(folder)
            return self.format.open(path, self.reading)

    def export(self, directory: Path) -> None:
        """Write the export to a directory."""
        search = self._search if self.format.has_search else {}
        translator = self.models.load(shortlist=self.shortlist)
        self.format.write(translator, directory, precision=PRECISION, **search)

    @property
    def _search(self) -> dict[str, Any]:
        """The search options that the export is made with."""
        return {name: getattr(self.reading.search, name) for name in EXPORTED_SEARCH}

    def _usable(self, path: Path, weights: Path) -> Any:
        """Open an export; raise `_Unusable` if it fails because of the export itself."""
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
        if self.format.has_search:
            self._check_search(card)
        try:
            return self.format.open(path, self.reading)
        except CannotOpenExport as error:
            raise _Unusable("it cannot be opened") from error
        except UserInputError as error:
            try:
                check_export(path)
            except UserInputError:
                raise _Unusable("it is damaged") from error
            raise

    def _check_search(self, card: _Card) -> None:
        """Refuse an export with another search."""
        source_limit = self.reading.search.source_limit(card.max_length)
        expected = {**self._search, "max_source_length": source_limit, "shortlist": self.shortlist}
        # Exports of older versions lack newer options.
        found = {**dataclasses.asdict(TRANSLATION), "shortlist": False, **card.options}
        if any(found.get(name) != value for name, value in expected.items()):
            raise _Unusable("it was made with another search")


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
