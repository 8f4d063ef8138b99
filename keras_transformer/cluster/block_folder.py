"""Output files that are written block by block, in any order, and can resume."""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, NoReturn, Self

import msgspec

from keras_transformer.cluster.cluster_inputs import PARQUET, InputFile, path_of
from keras_transformer.errors import UserInputError
from keras_transformer.files.file_lock import file_lock
from keras_transformer.files.json_files import read_record
from keras_transformer.files.whole_files import (
    PARTIAL,
    json_bytes,
    remove_left_over,
    whole_file,
    write_json,
    writing,
)
from keras_transformer.types import PathLike

_RECORD = ".job.json"
_LOCK = ".job.lock"
_ADVICE = f"Give the same to resume, or remove {_RECORD} and the other files in it to begin again."


class BlockName(NamedTuple):
    """A block of an input: the index of the input, and the index of the block in it, from 0."""

    file: int
    block: int


class _Record(msgspec.Struct):
    """The content of `.job.json`: what decides the lines.

    To stay small, it does not have the data of each block, which follow from the rest.
    """

    settings: dict[str, Any]
    inputs: list[list[InputFile]]

    def __post_init__(self) -> None:
        self.inputs = [
            [msgspec.structs.replace(file, offsets=None, checksums=None) for file in files]
            for files in self.inputs
        ]


class BlockFolder:
    """Context manager that writes a folder with an output file for each input.

    Each block is a whole file in `.partial-NAME/`, named after its first line. When all blocks of
    an output are written, they are joined, and the output appears under its name. After an error,
    Ctrl-C or a kill, the blocks stay, and the same call resumes with the missing blocks.

    Args:
        path: the folder; created if missing.
        inputs: for each output, the files that it is made from, block by block: one, or several
            parallel files.
        settings: everything that decides the lines, JSON-compatible; must be the same to resume.
        provisional: given the settings that a job began with and the current settings, returns the
            names of settings that no finished block depends on and that may therefore differ. None
            means that no setting may differ.

    Example:
        >>> import tempfile
        >>> directory = tempfile.TemporaryDirectory()
        >>> news = InputFile("news.en", "text", 3, "of its lines", 2, [0, 9, 12])
        >>> with BlockFolder(f"{directory.name}/de", [[news]], {"beam_size": 4}) as folder:
        ...     folder.write(BlockName(0, 1), ["drei"])
        ...     folder.write(BlockName(0, 0), ["eins", "zwei"])
        >>> print(open(f"{directory.name}/de/news.en").read().split())
        ['eins', 'zwei', 'drei']
        >>> directory.cleanup()
    """

    def __init__(
        self,
        path: PathLike,
        inputs: Sequence[Sequence[InputFile]],
        settings: dict[str, Any],
        provisional: Callable[[dict[str, Any], dict[str, Any]], Collection[str]] | None = None,
    ) -> None:
        self.path = Path(path)
        self._inputs = [list(files) for files in inputs]
        # As they are read back.
        self._record = _Record(json.loads(json_bytes(settings)), self._inputs)
        self._provisional = provisional or (lambda begun, now: ())
        self._names = output_names([files[0].path for files in inputs])
        self._missing: list[set[int]] = []
        self._lock = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            with writing(self.path):
                stack.enter_context(file_lock(self.path / _LOCK, on_wait=self._refuse))
            self._resume()
            self._lock = stack.pop_all()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            if exception_type is None:
                with writing(self.path):
                    remove_left_over(self.path)
                    self._remove_blocks()  # a kill may have left some
                    (self.path / _RECORD).unlink(missing_ok=True)

    @property
    def missing(self) -> list[BlockName]:
        """The blocks that are not written yet, in order."""
        return [
            BlockName(file, block)
            for file, blocks in enumerate(self._missing)
            for block in sorted(blocks)
        ]

    @property
    def lines_done(self) -> int:
        """Number of input lines whose blocks are written."""
        missing = sum(self._inputs[file][0].size(block) for file, block in self.missing)
        return sum(files[0].lines for files in self._inputs) - missing

    def write(self, name: BlockName, lines: Iterable[str]) -> None:
        """Write the output lines of a block; the last missing block completes its output."""
        self._write_file(self._block_path(name), ("".join(f"{x}\n" for x in lines).encode(),))
        self._missing[name.file].discard(name.block)
        if not self._missing[name.file]:
            self._join(name.file)

    def _refuse(self) -> NoReturn:
        raise UserInputError(f"Another process is writing {self.path}.")

    def _resume(self) -> None:
        """Find the missing blocks, and write the record."""
        path = self.path / _RECORD
        if path.exists():
            self._check_record(read_record(path, _Record, _ADVICE))
        else:
            for name in self._names:
                if (self.path / name).exists():
                    raise UserInputError(
                        f"The output {self.path / name} exists. It is not overwritten."
                    )
            self._remove_blocks()  # without their record, they may be from any job
        write_json(path, msgspec.to_builtins(self._record))
        self._missing = [self._missing_of(file) for file in range(len(self._inputs))]
        for file, missing in enumerate(self._missing):
            if not missing and not (self.path / self._names[file]).exists():
                self._join(file)

    def _check_record(self, record: _Record) -> None:
        if record.inputs != self._record.inputs:
            raise UserInputError(f"{self.path} was begun with other input lines. {_ADVICE}")
        settings = self._record.settings
        names = sorted(record.settings.keys() | settings.keys())
        other = [x for x in names if record.settings.get(x) != settings.get(x)]
        provisional = self._provisional(record.settings, settings)
        other = [x for x in other if x not in provisional]
        if other:
            raise UserInputError(
                f"{self.path} was begun with another {', '.join(f'`{x}`' for x in other)}. "
                f"{_ADVICE}"
            )

    def _missing_of(self, file: int) -> set[int]:
        if (self.path / self._names[file]).exists():
            return set()
        folder = self._blocks_path(file)
        written = set(os.listdir(folder)) if folder.is_dir() else set()
        blocks = range(self._inputs[file][0].num_blocks)
        return {x for x in blocks if self._block_path(BlockName(file, x)).name not in written}

    def _remove_blocks(self) -> None:
        for file in range(len(self._inputs)):
            shutil.rmtree(self._blocks_path(file), ignore_errors=True)

    def _blocks_path(self, file: int) -> Path:
        return self.path / f"{PARTIAL}{self._names[file]}"

    def _block_path(self, name: BlockName) -> Path:
        first = self._inputs[name.file][0].first_line(name.block) + 1
        return self._blocks_path(name.file) / f"{first:012}"

    def _join(self, file: int) -> None:
        """Join all blocks of an output into its file."""
        blocks = range(self._inputs[file][0].num_blocks)
        paths = (self._block_path(BlockName(file, block)) for block in blocks)
        self._write_file(self.path / self._names[file], _contents(paths))
        shutil.rmtree(self._blocks_path(file), ignore_errors=True)

    @staticmethod
    def _write_file(path: Path, contents: Iterable[bytes]) -> None:
        with writing(path):
            path.parent.mkdir(exist_ok=True)
        with whole_file(path) as file:
            file.writelines(contents)


def begun_block_lines(path: PathLike) -> int | None:
    """Return the number of lines in the blocks of a folder that was begun; None if it was not."""
    record = Path(path) / _RECORD
    if not record.exists():
        return None
    return read_record(record, _Record, _ADVICE).inputs[0][0].block_lines


def output_names(paths: Sequence[str]) -> list[str]:
    """Return the names of the outputs: the names of the inputs, as uncompressed text.

    Example:
        >>> output_names(["/data/news.en.gz", "s3://bucket/web.parquet"])
        ['news.en', 'web.txt']
    """
    names: list[str] = []
    for path in paths:
        name = path_of(path).rstrip("/").rpartition("/")[2].removesuffix(".gz")
        if name.endswith(PARQUET):
            name = name.removesuffix(PARQUET) + ".txt"
        if name in names:
            first = paths[names.index(name)]
            raise UserInputError(
                "The inputs must have different names, because the outputs have the same names. "
                f"Received: {first} and {path}"
            )
        names.append(name)
    return names


def _contents(paths: Iterable[Path]) -> Iterator[bytes]:
    for path in paths:
        with open(path, "rb") as file:
            while content := file.read(1 << 20):
                yield content
