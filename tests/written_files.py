"""Files that a test writes, and the one line by which a file's reader refuses one."""

import contextlib
import gzip
import resource

import pytest

from keras_transformer.errors import UserInputError


def write(path, content):
    """Write text or bytes to a path, compressed where its name ends in `.gz`."""
    content = content if isinstance(content, bytes) else content.encode("utf-8")
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def error_of(read, *paths):
    """The message of the `UserInputError` of `read(*paths)`, which is one line."""
    with pytest.raises(UserInputError) as error:
        read(*paths)
    message = str(error.value)
    assert "\n" not in message
    return message


def one_line(capsys):
    """The line behind `error:`, the only one on stderr, with which a command ends."""
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert len(lines) == 1
    return lines[0]


@contextlib.contextmanager
def room_for(size):
    """No file may become larger than `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
