"""An output file that takes hours to write, and goes on where it was interrupted."""

import fcntl
import gzip
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import msgspec

from keras_transformer.command_line.line_stream import line_bar
from keras_transformer.errors import UserInputError
from keras_transformer.files.json_files import parse_json, to_record
from keras_transformer.files.output_files import write_all
from keras_transformer.files.own_file import open_own_file
from keras_transformer.files.whole_files import whole_file, write_json, writing


class _Record(msgspec.Struct):
    """What `.partial-NAME.json` holds."""

    settings: dict
    lines_read: Annotated[int, msgspec.Meta(ge=0)]
    bytes: Annotated[int, msgspec.Meta(ge=0)]


class ResumableOutput:
    """Writes the lines that come of an input file, in pieces; used as a context manager.

    Until it is whole, the text lies beside the output's name in `.partial-NAME`, and a record
    `.partial-NAME.json` says which lines of the input it covers: `lines_read` of `total`. At the
    end of the `with` block the text takes the output's name, compressed where that ends in `.gz`;
    after an error or Ctrl-C both files stay, and the same call goes on behind the last piece.
    `settings`, a JSON-compatible dictionary, has all that decides the lines: they must be the same.

    Example:
        >>> import tempfile
        >>> directory = tempfile.TemporaryDirectory()
        >>> with ResumableOutput(f"{directory.name}/out.txt", {"beam_size": 4}, total=2) as output:
        ...     output.append(["eins", "zwei"], 2)
        >>> print(open(f"{directory.name}/out.txt").read().split())
        ['eins', 'zwei']
        >>> directory.cleanup()
    """

    def __init__(self, path, settings, total):
        self.path = Path(path)
        self.settings = json.loads(json.dumps(settings))  # as they will be read again
        self.total = total
        self.lines_read = 0
        self._text_path = self.path.with_name(f".partial-{self.path.name}")
        self._record_path = self.path.with_name(f".partial-{self.path.name}.json")
        if self.path.exists():
            raise UserInputError(f"The output {path} exists. It is not overwritten.")
        if not self.path.parent.is_dir():
            raise UserInputError(f"There is no directory {self.path.parent} for the output.")

    def __enter__(self):
        with writing(self.path):
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
            self._file = os.fdopen(open_own_file(self._text_path, flags), "r+b", buffering=0)
        try:
            self._lock()
            num_bytes = self._resume()
            with writing(self.path):
                self._file.truncate(num_bytes)  # what was written of an unfinished piece
        except BaseException:
            self._file.close()
            raise
        self._bar = line_bar(self.total, self.lines_read)
        return self

    def __exit__(self, exception_type, exception, traceback):
        self._bar.close()
        with self._file:  # closing it gives up the lock, when the text has its name
            if exception_type is None:
                self._publish()

    def append(self, lines, lines_read):
        """Write the lines that came of the next `lines_read` lines of the input."""
        with writing(self.path):
            write_all(self._file, "".join(f"{line}\n" for line in lines).encode("utf-8"))
            os.fsync(self._file.fileno())  # the record must never say more than is on disk
            num_bytes = os.fstat(self._file.fileno()).st_size
        self.lines_read += lines_read
        record = _Record(self.settings, self.lines_read, num_bytes)
        write_json(self._record_path, msgspec.to_builtins(record))
        self._bar.update(lines_read)

    def _lock(self):
        """Make sure that no other process writes the same output, until the file is closed."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserInputError(f"Another process is writing {self.path}.") from error
        if self.path.exists():  # one that finished since we looked
            if os.fstat(self._file.fileno()).st_size == 0:
                self._text_path.unlink(missing_ok=True)
            raise UserInputError(f"The output {self.path} exists. It is not overwritten.")

    def _resume(self):
        """Set `lines_read` by the record; returns how many bytes of the partial text count."""
        try:
            with os.fdopen(open_own_file(self._record_path, os.O_RDONLY), "rb") as file:
                content = file.read()
        except FileNotFoundError:
            return 0
        advice = f"Remove {self._text_path.name} and {self._record_path.name} to begin again."
        record = parse_json(self._record_path, content, advice)
        record = to_record(self._record_path, record, _Record, advice)
        if os.fstat(self._file.fileno()).st_size < record.bytes or record.lines_read > self.total:
            raise UserInputError(
                f"The partial output {self._text_path} is damaged: it is shorter than "
                f"{self._record_path.name} says. {advice}"
            )
        settings = record.settings
        names = settings.keys() | self.settings.keys()
        other = [name for name in sorted(names) if settings.get(name) != self.settings.get(name)]
        if other:
            raise UserInputError(
                f"The partial output {self._text_path} was made with another "
                f"{', '.join(f'`{name}`' for name in other)}. Give the same to go on, or remove it "
                f"and {self._record_path.name} to begin again."
            )
        self.lines_read = record.lines_read
        print(
            f"{self.path}: going on behind line {self.lines_read} of {self.total}", file=sys.stderr
        )
        return record.bytes

    def _publish(self):
        with writing(self.path):
            if self.path.suffix == ".gz":
                self._compress()
                self._text_path.unlink(missing_ok=True)
            else:
                os.replace(self._text_path, self.path)
            self._record_path.unlink(missing_ok=True)

    def _compress(self):
        self._file.seek(0)
        # No time stamp: the same lines give the same bytes.
        with (
            whole_file(self.path) as raw,
            gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as compressed,
        ):
            shutil.copyfileobj(self._file, compressed)
