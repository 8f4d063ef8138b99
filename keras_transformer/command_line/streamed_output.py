"""An output that is a pipe or a device: written as lines are done, without a resume."""

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from keras_transformer.command_line.line_stream import line_bar
from keras_transformer.files.output_files import open_stream, write_all
from keras_transformer.types import PathLike


class StreamedOutput:
    """Context manager that writes the output lines of `total` input lines to a pipe or device.

    `title` stands before the progress bar.
    """

    def __init__(self, path: PathLike, total: int, title: str | None = None) -> None:
        self.lines_read = 0
        self._opened = open_stream(path)
        self._total = total
        self._title = title

    def __enter__(self) -> Self:
        self._file = self._opened.__enter__()
        self._bar = line_bar(self._total, title=self._title)
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        self._bar.close()
        return self._opened.__exit__(exception_type, exception, traceback)

    def append(self, lines: Iterable[str], lines_read: int) -> None:
        """Write the output lines of the next `lines_read` lines of the input."""
        write_all(self._file, "".join(f"{line}\n" for line in lines).encode("utf-8"))
        self.lines_read += lines_read
        self._bar.update(lines_read)
