"""Folders of Bergamot, the models of Firefox Translations: as published, some files compressed."""

import contextlib
import gzip
import io
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_transformer.distribution import pip_install
from keras_transformer.errors import UserInputError
from keras_transformer.files.input_files import open_ordinary

# What the search of Firefox and of Bergamot's programs does if no configuration says otherwise.
DECODER = {"beam-size": "1", "normalize": "1.0"}
_COMPRESSED = (".gz", ".zst")
_WANTED = ("*.bin", "*.spm", "config*.yml", "*.npz", "decoder.yml")
_MOST_BYTES = 1 << 32  # of a file, unpacked: the largest models have some hundred million


@contextlib.contextmanager
def unpacked_bergamot(directory: Path) -> Iterator[Path]:
    """The folder, or a temporary one in which its compressed files are unpacked.

    Args:
        directory: a folder with model.*.bin, vocab.*.spm (or srcvocab.*.spm and trgvocab.*.spm)
            and, if there is one, config.*.yml; each of them may end in `.gz` or `.zst`.

    Raises:
        UserInputError: there is no such folder, or a file is damaged.
    """
    if not directory.is_dir():
        raise UserInputError(f"There is no folder {directory} with a model of Bergamot.")
    packed = [path for path in sorted(directory.iterdir()) if path.suffix in _COMPRESSED]
    packed = [path for path in packed if any(Path(path.stem).match(name) for name in _WANTED)]
    if not packed:
        yield directory
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in packed:
            _unpack(path, folder / path.stem)
        for wanted in _WANTED:
            for path in directory.glob(wanted):
                (folder / path.name).symlink_to(path.absolute())
        yield folder


def _unpack(path: Path, target: Path) -> None:
    try:
        with open_ordinary(path) as file, _reader(path, file) as source, open(target, "wb") as out:
            while content := source.read(1 << 20):
                if out.tell() > _MOST_BYTES:
                    raise UserInputError(f"{path} has more than {_MOST_BYTES:,} bytes.")
                out.write(content)
    except UserInputError:
        raise
    except Exception as error:  # damaged bytes raise of all kinds
        raise UserInputError(f"{path} cannot be unpacked: {str(error)[:200]}") from error


def _reader(path: Path, file: io.BufferedReader) -> Any:
    if path.suffix == ".gz":
        return gzip.GzipFile(fileobj=file)
    try:
        import zstandard
    except ImportError as error:
        raise UserInputError(
            f"Reading {path} needs the package zstandard: {pip_install('interop')}"
        ) from error
    return zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file)
