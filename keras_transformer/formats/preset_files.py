"""Presets: a model with its tokenizers and search options, stored as the files of a run.

A preset is a folder, an archive or a repository on the Hugging Face Hub.
"""

import contextlib
import dataclasses
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from keras_transformer.errors import UserInputError
from keras_transformer.files import check_new_directory, whole_file, write_new_directory
from keras_transformer.formats.model_card import without_directories
from keras_transformer.input_files import open_ordinary, open_zip
from keras_transformer.installation import requiring
from keras_transformer.models import Transformer
from keras_transformer.runs.model_weights import save_safetensors, save_weights
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.runs.shipped_models import found_run, names_to_try
from keras_transformer.text import SentencePieceTokenizer, Shortlist
from keras_transformer.text.sentencepiece_tokenizer import SOURCE_TOKENIZER, TOKENIZER
from keras_transformer.types import PathLike

HUB = "hf://"
ARCHIVE = ".zip"
# Files to download from a Hub repository. Code, weights for other frameworks and subfolders are
# excluded.
_PATTERNS = (
    *("*.json", "SHA256SUMS", "*.spm", "*.npz", "*.yml", "*.vocab", TOKENIZER, SOURCE_TOKENIZER),
    *("model.safetensors", "model.weights.h5"),
)
_SUBFOLDERS = "*/*"  # such as onnx
_OLD_WEIGHTS = "pytorch_model.bin"
_HUB_ERRORS = {
    "LocalEntryNotFoundError": "the hub cannot be reached, and its cache has no copy",
    "RepositoryNotFoundError": "there is no such repository, or it is private",
}
_MOST_FILES = 1000
_RECORD = "run.json"  # in a preset
_FOREIGN = ("config.json", "decoder.yml", "*.npz")  # in a Marian model
_LOCAL_HEADER = 30  # minimum number of bytes before an entry's name and contents


@contextlib.contextmanager
def preset_folder(name: PathLike) -> Iterator[Path]:
    """Yield the folder of a preset. An archive's folder exists only within this context.

    Args:
        name: path of a folder or a ".zip" archive; the name of a shipped model; or "hf://NAME" for
            a repository on the Hugging Face Hub, which is downloaded once and kept in the Hub
            cache.

    Raises:
        UserInputError: the preset does not exist, cannot be downloaded or is not a valid archive.
    """
    text = str(name)
    if text.startswith(HUB):
        yield _download(text.removeprefix(HUB))
        return
    path = found_run(name)
    if path.is_dir():
        yield path
    elif path.is_file():
        with tempfile.TemporaryDirectory() as folder:
            _unpack(path, Path(folder))
            try:
                yield Path(folder)
            except UserInputError as error:
                if folder not in str(error):
                    raise
                # The folder no longer exists by the time the user reads the message.
                raise UserInputError(str(error).replace(folder, str(path))) from error
    else:
        hint = f" For the Hugging Face hub: {HUB}{text}." if text.count("/") == 1 else ""
        hint = hint or names_to_try()
        raise UserInputError(f"There is no preset {text}: neither a folder nor an archive.{hint}")


def _pack(folder: Path, archive: PathLike) -> None:
    """Atomically write the files of a folder as a ".zip" archive."""
    with whole_file(archive) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as made:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                entry = zipfile.ZipInfo(path.relative_to(folder).as_posix())  # without a timestamp
                entry.file_size = path.stat().st_size
                with made.open(entry, "w") as target, open_ordinary(path) as source:
                    shutil.copyfileobj(source, target)


def _unpack(archive: Path, folder: Path) -> None:
    """Extract an untrusted archive into an empty folder."""
    try:
        with open_zip(archive) as opened:
            entries = [each for each in opened.infolist() if not each.filename.endswith("/")]
            _check_entries(archive, entries)
            for entry in entries:
                opened.extract(entry, folder)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError, RuntimeError) as error:
        if isinstance(error, UserInputError):
            raise
        raise UserInputError(f"{archive} is not a preset archive, or it is damaged.") from error
    except OSError as error:
        raise UserInputError(f"Cannot unpack {archive}: {error.strerror or error}.") from error


def _check_entries(archive: Path, entries: list[zipfile.ZipInfo]) -> None:
    """Refuse an archive that is not a preset, would fill the disk or would write elsewhere."""
    names = [entry.filename for entry in entries]
    foreign = [name for name in names if any(PurePosixPath(name).match(p) for p in _FOREIGN)]
    if _RECORD not in names and foreign:
        raise UserInputError(
            f"The archive {archive} is not a preset, but contains {foreign[0][:100]!r}: unpack it, "
            "and pass the folder with the model."
        )
    if len(entries) > _MOST_FILES:
        raise UserInputError(f"The archive {archive} has more than {_MOST_FILES:,} files.")
    end = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        _check_entry(archive, entry)
        if entry.header_offset < end:
            raise UserInputError(
                f"The archive {archive} is refused: {entry.filename[:100]!r} overlaps another file."
            )
        end = entry.header_offset + _LOCAL_HEADER + entry.file_size
    if end > archive.stat().st_size:  # files do not overlap, so their total size is smaller
        raise UserInputError(f"{archive} is not a preset archive, or it is damaged: it ends early.")


def _check_entry(archive: Path, entry: zipfile.ZipInfo) -> None:
    """Refuse a file that has an unsafe path, is a link or would grow when unpacked."""
    name = PurePosixPath(entry.filename)
    is_link = stat.S_ISLNK(entry.external_attr >> 16)
    is_file = name.parts and not name.is_absolute()  # "." and "" have no parts
    is_outside = not is_file or ".." in name.parts or "\\" in entry.filename
    is_stored = entry.compress_type == zipfile.ZIP_STORED and entry.file_size == entry.compress_size
    if is_outside or is_link or not is_stored:
        raise UserInputError(
            f"The archive {archive} is refused: {entry.filename[:100]!r} is compressed, a link or "
            "outside it."
        )


def _download(name: str) -> Path:
    """Return a repository's folder in the Hub cache, downloading the repository if necessary."""
    with requiring("interop", f"{HUB}{name} needs the huggingface_hub package"):
        import huggingface_hub
    repository, _, revision = name.partition("@")

    def fetch(*patterns: str) -> Path:
        return Path(
            huggingface_hub.snapshot_download(
                repository,
                revision=revision or None,
                allow_patterns=list(patterns),
                ignore_patterns=[_SUBFOLDERS],
            )
        )

    try:
        folder = fetch(*_PATTERNS)
        has_weights = (folder / "model.safetensors").exists()
        if not has_weights and (folder / "config.json").exists():
            folder = fetch(*_PATTERNS, _OLD_WEIGHTS)
    except Exception as error:  # from the Hub, its HTTP library or the operating system
        told = " ".join(str(error).split())[:200]
        reason = _HUB_ERRORS.get(type(error).__name__, told)
        raise UserInputError(f"Cannot download {HUB}{name}: {reason}") from error
    return folder


@dataclasses.dataclass(frozen=True)
class ImportedModel:
    """A model with its tokenizers, as accepted by `Translator` and `RunDirectory`.

    Attributes:
        model: imported model.
        source_tokenizer, tokenizer: source and target tokenizers; one object if shared.
        search: the model's default values for fields of `SearchOptions`.
        settings: training settings that describe this architecture.
        shortlist: lexical shortlist of the model, or None.
    """

    model: Transformer
    source_tokenizer: SentencePieceTokenizer
    tokenizer: SentencePieceTokenizer
    search: dict[str, Any]
    settings: dict[str, Any]
    shortlist: Shortlist | None = None


def save_preset(
    path: PathLike,
    imported: ImportedModel,
    *,
    weights: str = "keras",
    precision: Literal["float32", "int8"] = "float32",
    origin: PathLike | None = None,
) -> Path:
    """Atomically write a preset.

    Args:
        path: nonexistent or empty folder, or nonexistent ".zip" file.
        imported: model with its tokenizers and options.
        weights: "keras" or "safetensors".
        precision: number format of the matrices; `"int8"` is always stored as safetensors.
        origin: source of the model.

    Returns:
        The path of the preset.

    Raises:
        UserInputError: the path already exists, or the files cannot be written.
    """
    check_new_preset(path)

    def write(folder: Path) -> None:
        run, model = RunDirectory(folder), imported.model
        has_two = imported.source_tokenizer.fingerprint != imported.tokenizer.fingerprint
        run.start(
            model=model,
            tokenizer=imported.tokenizer,
            source_tokenizer=imported.source_tokenizer if has_two else None,
            settings=without_directories(imported.settings),
            origin=origin,
            search=imported.search,
            dtype="float32" if precision == "int8" else None,  # int8 weights become float32
        )
        if weights == "safetensors" or precision == "int8":
            save_safetensors(model, run.safetensors_path, precision)
        else:
            save_weights(model, run.weights_path)
        if imported.shortlist is not None:
            run.write_shortlist(imported.shortlist)

    if Path(path).suffix != ARCHIVE:
        return write_new_directory(path, write)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        _pack(Path(folder), path)
    return Path(path)


def export_preset(translator: Any, directory: PathLike, **options: Any) -> Path:
    """Write a run's translator as a preset, with the run's shortlist if it has one."""
    (run, _), *_ = translator.origins
    if run.shortlist_path.is_file():
        tokenizers = translator.tokenizer, translator.source_tokenizer
        translator.shortlist = run.load_shortlist(*tokenizers)
    return translator.save_to_preset(directory, **options)


def check_new_run(path: PathLike) -> None:
    """Check early that `save_preset` can write a run to this path."""
    if Path(path).suffix == ARCHIVE:
        raise UserInputError(f"A run is a folder, not an archive. Received: {path}")
    check_new_directory(path)


def check_new_preset(path: PathLike) -> None:
    """Check early that `save_preset` can write to this path."""
    if Path(path).suffix != ARCHIVE:
        check_new_directory(path)
    elif Path(path).exists():
        raise UserInputError(f"{path} exists: choose another archive.")
