"""An output file that takes hours to write, and goes on where it was interrupted."""

import fcntl
import gzip
import json
import os
import shutil
import sys
from pathlib import Path

from tqdm import tqdm

from keras_transformer.errors import UserInputError
from keras_transformer.files.whole_files import write_json


class ResumableOutput:
    """Writes the lines that come of an input file, in pieces; used as a context manager.

    Until it is whole, the text lies beside the output's name in `.partial-NAME`, and a record
    `.partial-NAME.json` says which lines of the input it covers. At the end of the `with` block the
    text takes the output's name; after an error or Ctrl-C both files stay, and the same call goes
    on behind the last piece.

    Args:
        path: the output file; one whose name ends in `.gz` is compressed when it is whole.
        settings: JSON-compatible dictionary of all that decides the lines.
        total: number of lines of the input.

    Attributes:
        lines_read: number of lines of the input that the text covers.

    Raises:
        UserInputError: the output exists, its directory does not, the partial text was made with
            other settings, or another process is writing it.

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
        self._file = open(self._text_path, "ab")
        try:
            self._lock()
            num_bytes = self._resume()
        except BaseException:
            self._file.close()
            raise
        self._file.truncate(num_bytes)  # what was written of an unfinished piece
        self._bar = tqdm(
            total=self.total,
            initial=self.lines_read,
            unit=" lines",
            disable=not sys.stderr.isatty(),
        )
        return self

    def __exit__(self, exception_type, exception, traceback):
        self._bar.close()
        with self._file:  # closing it gives up the lock, when the text has its name
            if exception_type is None:
                self._publish()

    def append(self, lines, lines_read):
        """Write the lines that came of the next `lines_read` lines of the input."""
        self._file.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
        self._file.flush()
        os.fsync(self._file.fileno())  # the record must never say more than is on disk
        self.lines_read += lines_read
        record = {
            "settings": self.settings,
            "lines_read": self.lines_read,
            "bytes": self._file.tell(),
        }
        write_json(self._record_path, record)
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
        if not self._record_path.is_file():
            return 0
        try:
            record = json.loads(self._record_path.read_text(encoding="utf-8"))
            settings, lines, num_bytes = (record[k] for k in ("settings", "lines_read", "bytes"))
            is_whole = self._text_path.stat().st_size >= num_bytes
        except (OSError, ValueError, KeyError, TypeError):
            is_whole = False
        if not is_whole:
            raise UserInputError(
                f"The partial output {self._text_path} is damaged. Remove it and "
                f"{self._record_path.name} to begin again."
            )
        names = settings.keys() | self.settings.keys()
        other = [name for name in sorted(names) if settings.get(name) != self.settings.get(name)]
        if other:
            raise UserInputError(
                f"The partial output {self._text_path} was made with another "
                f"{', '.join(f'`{name}`' for name in other)}. Give the same to go on, or remove it "
                f"and {self._record_path.name} to begin again."
            )
        self.lines_read = lines
        print(f"{self.path}: going on behind line {lines} of {self.total}", file=sys.stderr)
        return num_bytes

    def _publish(self):
        finished = self._text_path
        if self.path.suffix == ".gz":
            finished = self.path.with_name(f".partial-{self.path.name}.compressed")
            # No time stamp: the same lines give the same bytes.
            with (
                open(self._text_path, "rb") as text,
                open(finished, "wb") as raw,
                gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as compressed,
            ):
                shutil.copyfileobj(text, compressed)
        os.replace(finished, self.path)
        self._text_path.unlink(missing_ok=True)
        self._record_path.unlink(missing_ok=True)
