"""Where a user's `--output` goes: one rule for files, links, pipes and devices.

Regular files appear only when complete: they are written in the same folder under another name,
then renamed. Links are followed. Pipes and devices are written to, never replaced.
"""

import contextlib
import importlib.util
import io
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from keras_transformer.distribution import pip_install
from keras_transformer.errors import UserInputError
from keras_transformer.files.whole_files import write_bytes, writing
from keras_transformer.types import PathLike

FIGURES = (".png", ".pdf", ".svg")


class Output(NamedTuple):
    """The path to write to, with links resolved, and whether it is a pipe or a device."""

    path: Path
    is_stream: bool


def find_output(path: PathLike, flag: str = "--output") -> Output:
    """Return the `Output` for a user's file, which must be in an existing folder.

    Errors name the flag that the file was given to.
    """
    name = os.fspath(path)
    if not name or name.endswith(os.sep) or os.path.isdir(name):
        raise UserInputError(f"`{flag}` must be a file. Received: {name!r}")
    try:
        status = os.stat(name)
    except FileNotFoundError:
        status = None
    except OSError as error:
        raise UserInputError(f"Cannot write {name}: {error.strerror}.") from error
    if status is not None and not stat.S_ISREG(status.st_mode):
        return Output(Path(name), is_stream=True)
    if status is not None and _is_standard_output(status):
        raise UserInputError(f"`{flag}` must not be the file of standard output: {name}")
    found = Path(os.path.realpath(name))
    if not found.parent.is_dir():
        raise UserInputError(f"`{flag}` must be in a folder that exists. Received: {name!r}")
    return Output(found, is_stream=False)


@contextlib.contextmanager
def open_stream(path: PathLike) -> Iterator[io.FileIO]:
    """Open an existing pipe or device for writing bytes, unbuffered."""
    with writing(path), open(path, "wb", buffering=0) as file:
        yield file


def write_output(path: PathLike, content: str | bytes, flag: str = "--output") -> None:
    """Write text or bytes to a user's file; raises the same errors as `find_output`."""
    output = find_output(path, flag)
    content = content.encode("utf-8") if isinstance(content, str) else content
    if not output.is_stream:
        write_bytes(output.path, content)
        return
    with open_stream(output.path) as file:
        write_all(file, content)


def write_all(file: io.FileIO, content: bytes) -> None:
    """Write bytes to an unbuffered file, which may accept them in parts, as on a full disk."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def open_own_file(path: Path, flags: int) -> int:
    """Open or create a regular file like `os.open`, unless someone else may have put it there.

    Links, special files, files of other users and files with a second name are refused.
    """
    if path.is_symlink():  # `O_NOFOLLOW` also refuses it, but with an unclear message
        raise _not_ours(path)
    try:
        # Do not block: the file may be a pipe.
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except IsADirectoryError as error:
        raise _not_ours(path) from error
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1:
        return descriptor
    os.close(descriptor)
    raise _not_ours(path)


def _is_standard_output(status: os.stat_result) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(status, os.fstat(1))
    return False


def _not_ours(path: Path) -> UserInputError:
    return UserInputError(
        f"{path} must be a regular file of yours, without other names and not a link, as it holds "
        "the output so far. Remove it."
    )


def check_figure(path: str, flag: str, others: Sequence[str] = ()) -> str:
    """Return the ending of the file that a flag names, in lowercase.

    Args:
        path: the file.
        flag: the flag, such as `"--plot"`.
        others: endings that the flag accepts besides the endings of figures.

    Raises:
        UserInputError: the flag does not accept the ending, or the file is a figure and matplotlib,
            from the extra `plots`, is not installed.
    """
    ending = Path(path).suffix.lower()
    if ending not in (*others, *FIGURES):
        raise UserInputError(
            f"`{flag}` must end in one of {', '.join((*others, *FIGURES))}. Received: {flag} {path}"
        )
    if ending in FIGURES and importlib.util.find_spec("matplotlib") is None:
        raise UserInputError(f"A figure needs matplotlib: {pip_install('plots')}")
    return ending
