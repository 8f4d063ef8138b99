"""An output that is a pipe or a device: written as lines are done, without going on later."""

from keras_transformer.command_line.line_stream import line_bar
from keras_transformer.files.output_files import open_stream, write_all


class StreamedOutput:
    """Writes the lines that come of `total` lines to a pipe or a device; a context manager."""

    def __init__(self, path, total):
        self.lines_read = 0
        self._opened = open_stream(path)
        self._total = total

    def __enter__(self):
        self._file = self._opened.__enter__()
        self._bar = line_bar(self._total)
        return self

    def __exit__(self, *exception):
        self._bar.close()
        return self._opened.__exit__(*exception)

    def append(self, lines, lines_read):
        """Write the lines that came of the next `lines_read` lines of the input."""
        write_all(self._file, "".join(f"{line}\n" for line in lines).encode("utf-8"))
        self.lines_read += lines_read
        self._bar.update(lines_read)
