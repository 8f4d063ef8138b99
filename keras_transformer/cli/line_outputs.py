"""Outputs for lines: a file whose writing can resume, or a pipe or device."""

import contextlib
import gzip
import json
import os
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, NoReturn, Self

import msgspec
from tqdm import tqdm

from keras_transformer.cli.text_streams import line_bar
from keras_transformer.errors import UserInputError
from keras_transformer.files.file_lock import file_lock
from keras_transformer.files.json_files import parse_json, to_record
from keras_transformer.files.output_files import open_own_file, open_stream, write_all
from keras_transformer.files.standard_streams import note
from keras_transformer.files.whole_files import json_bytes, whole_file, write_json, writing
from keras_transformer.types import PathLike


class _Record(msgspec.Struct):
    """The content of `.partial-NAME.json`."""

    settings: dict[str, Any]
    lines_read: Annotated[int, msgspec.Meta(ge=0)]
    bytes: Annotated[int, msgspec.Meta(ge=0)]


class StreamedOutput:
    """Context manager that writes the output lines of an input to a pipe or a device.

    Args:
        path: the pipe or device.
        total: number of lines of the input.
        title: stands before the progress bar.
        hide: whether there is no progress bar.

    Attributes:
        lines_read: number of lines of the input that the output covers.
    """

    def __init__(
        self, path: PathLike, total: int, title: str | None = None, *, hide: bool = False
    ) -> None:
        self.path = Path(path)
        self.total = total
        self.title = title
        self.hide = hide
        self.lines_read = 0
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._file = stack.enter_context(open_stream(self.path))
            self._bar = stack.enter_context(self._progress())
            self._open = stack.pop_all()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._open.__exit__(exception_type, exception, traceback)

    def append(self, lines: Iterable[str], lines_read: int) -> None:
        """Write the output lines of the next `lines_read` lines of the input."""
        with writing(self.path):
            write_all(self._file, "".join(f"{line}\n" for line in lines).encode("utf-8"))
        self.lines_read += lines_read
        self._bar.update(lines_read)

    def _progress(self) -> tqdm:
        return line_bar(self.total, self.lines_read, self.hide, self.title)


class ResumableOutput(StreamedOutput):
    """Context manager that writes the output lines of an input file in pieces.

    Until it is complete, the text is kept next to the output in `.partial-NAME`, and
    `.partial-NAME.json` records how many lines of the input it covers. At the end of the `with`
    block the text is renamed to the output, compressed if the name ends in `.gz`. After an error
    or Ctrl-C both files stay, and the same call continues after the last piece.

    Args:
        path: the output; it must not exist.
        settings: everything that decides the lines, JSON-compatible; must be the same to resume.
        total: number of lines of the input.
        title: stands before the progress bar.
        hide: whether there is no progress bar.

    Attributes:
        lines_read: number of lines of the input that the output covers.

    Example:
        >>> import tempfile
        >>> directory = tempfile.TemporaryDirectory()
        >>> with ResumableOutput(f"{directory.name}/out.txt", {"beam_size": 4}, total=2) as output:
        ...     output.append(["eins", "zwei"], 2)
        >>> print(open(f"{directory.name}/out.txt").read().split())
        ['eins', 'zwei']
        >>> directory.cleanup()
    """

    def __init__(
        self,
        path: PathLike,
        settings: dict[str, Any],
        total: int,
        title: str | None = None,
        *,
        hide: bool = False,
    ) -> None:
        super().__init__(path, total, title, hide=hide)
        self.settings = json.loads(json_bytes(settings))  # as they are read back
        self._text_path = self.path.with_name(f".partial-{self.path.name}")
        self._record_path = self.path.with_name(f".partial-{self.path.name}.json")
        check_new_output(self.path)
        if not self.path.parent.is_dir():
            raise UserInputError(f"The output's directory {self.path.parent} does not exist.")

    def __enter__(self) -> Self:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        with contextlib.ExitStack() as stack, writing(self.path):
            lock = self.path.with_name(f".partial-{self.path.name}.lock")
            stack.enter_context(file_lock(lock, on_wait=self._refuse))
            check_new_output(self.path)  # another process may have finished it meanwhile
            self._file = os.fdopen(open_own_file(self._text_path, flags), "r+b", buffering=0)
            stack.enter_context(self._file)
            self._file.truncate(self._resume())  # drops an unfinished piece
            self._bar = stack.enter_context(self._progress())
            self._open = stack.pop_all()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._open:
            if exception_type is None:
                self._publish()

    def append(self, lines: Iterable[str], lines_read: int) -> None:
        """Write the output lines of the next `lines_read` lines of the input."""
        super().append(lines, lines_read)
        with writing(self.path):
            os.fsync(self._file.fileno())  # the record must never claim more than is on disk
            num_bytes = os.fstat(self._file.fileno()).st_size
        record = _Record(self.settings, self.lines_read, num_bytes)
        write_json(self._record_path, msgspec.to_builtins(record))

    def _refuse(self) -> NoReturn:
        raise UserInputError(f"Another process is writing {self.path}.")

    def _resume(self) -> int:
        """Set `lines_read` from the record; return how many bytes of the partial text count."""
        try:
            with os.fdopen(open_own_file(self._record_path, os.O_RDONLY), "rb") as file:
                content = file.read()
        except FileNotFoundError:
            return 0
        advice = f"Remove {self._text_path.name} and {self._record_path.name} to begin again."
        parsed = parse_json(self._record_path, content, advice)
        record = to_record(self._record_path, parsed, _Record, advice)
        if os.fstat(self._file.fileno()).st_size < record.bytes or record.lines_read > self.total:
            raise UserInputError(
                f"The partial output {self._text_path} is damaged: it is shorter than "
                f"{self._record_path.name} says. {advice}"
            )
        check_same_settings(
            f"The partial output {self._text_path} was made",
            record.settings,
            self.settings,
            f"it and {self._record_path.name}",
        )
        self.lines_read = record.lines_read
        note(f"{self.path}: resuming after line {self.lines_read} of {self.total}")
        return record.bytes

    def _publish(self) -> None:
        with writing(self.path):
            if self.path.suffix == ".gz":
                self._compress()
                self._text_path.unlink(missing_ok=True)
            else:
                os.replace(self._text_path, self.path)
            self._record_path.unlink(missing_ok=True)

    def _compress(self) -> None:
        self._file.seek(0)
        # Without a timestamp, the same lines give the same bytes.
        with (
            whole_file(self.path) as raw,
            gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as compressed,
        ):
            shutil.copyfileobj(self._file, compressed)


def check_new_output(path: Path) -> None:
    """Refuse an output that exists."""
    if path.exists():
        raise UserInputError(f"The output {path} exists. It is not overwritten.")


def check_same_settings(
    begun: str,
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    files: str,
    may_differ: Collection[str] = (),
) -> None:
    """Refuse to resume an output with other settings.

    Args:
        begun: what was begun, with its verb, such as `"out.txt was made"`.
        before: the settings that it was begun with.
        now: the current settings.
        files: what to remove to begin again.
        may_differ: names of settings that may differ.
    """
    names = sorted(before.keys() | now.keys())
    other = [x for x in names if before.get(x) != now.get(x) and x not in may_differ]
    if other:
        raise UserInputError(
            f"{begun} with another {', '.join(f'`{name}`' for name in other)}. Give the same to "
            f"resume, or remove {files} to begin again."
        )
