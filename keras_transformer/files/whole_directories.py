"""Directories that appear complete or not at all: written as siblings, synced, then renamed."""

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from keras_transformer.errors import CannotWrite, UserInputError
from keras_transformer.files.whole_files import PARTIAL, sync, writing
from keras_transformer.types import PathLike

PARTIAL_DIRECTORY = f"{PARTIAL}directory-"


def write_directory(
    parent: PathLike, choose_name: Callable[[], str], write: Callable[[Path], object]
) -> Path:
    """Write a directory that appears when complete; returns its path.

    The directory may replace an empty directory, but nothing else. Leftovers of killed processes in
    `parent` are removed; directories that other processes are still writing stay. `write` fills an
    empty directory. `choose_name` is called before anything is written, and again whenever another
    process takes the name first; it may raise an error.

    Example:
        >>> parent = tempfile.mkdtemp()
        >>> def write(directory):
        ...     (directory / "README.md").write_text("A model")
        >>> [path.name for path in write_directory(parent, lambda: "en_de", write).iterdir()]
        ['README.md']
    """
    parent = Path(parent)
    name = choose_name()
    with writing(parent / name), _new_parents(parent):
        with _partial_directory(parent) as partial:
            try:
                write(partial)
            except CannotWrite as error:  # names the partial directory, about to be removed
                message = str(error).replace(str(partial), str(parent / name))
                raise CannotWrite(message) from error
            for path in [*partial.rglob("*"), partial]:
                sync(path)
            while not _take_name(partial, parent / name):
                taken, name = name, choose_name()
                if name == taken:
                    raise CannotWrite(f"Cannot write {parent / name}: something is there.")
        with contextlib.suppress(OSError):  # not every file system syncs directories
            sync(parent)
    return parent / name


def write_new_directory(directory: PathLike, write: Callable[[Path], None]) -> Path:
    """Write a directory that must not exist or must be empty; it appears complete or not at all.

    An empty directory is replaced, so it must not be the current directory or a mount point.
    `write` fills an empty directory. Returns the path as given.
    """
    path = Path(directory).resolve()  # gives "." a name, and keeps links

    def name() -> str:
        check_new_directory(directory)
        return path.name

    write_directory(path.parent, name, write)
    return Path(directory)


def check_new_directory(directory: PathLike) -> None:
    """Require that `write_new_directory` would accept a directory; call this before long work."""
    path = Path(directory).resolve()
    if not path.exists():
        return
    if not path.is_dir():
        raise UserInputError(f"{directory} is a file: name another directory.")
    if any(path.iterdir()):
        raise UserInputError(f"{directory} holds files already: name another directory.")
    if path.samefile("."):  # replacing it would leave shells in a deleted directory
        raise UserInputError(f"{directory} is the current directory: name one inside it.")
    if os.path.ismount(path):
        raise UserInputError(f"{directory} is a mount point: name a directory inside it.")


@contextlib.contextmanager
def scratch_directory(parent: PathLike) -> Iterator[Path]:
    """Make an empty directory in `parent` that is removed after the block.

    Leftovers of killed processes in `parent` are removed; directories that other processes are
    still writing stay.
    """
    parent = Path(parent)
    with contextlib.ExitStack() as stack:
        with writing(parent):
            path = stack.enter_context(_partial_directory(parent))
        yield path


@contextlib.contextmanager
def set_aside(path: PathLike) -> Iterator[None]:
    """Free the name of a directory for the block, which writes a new directory.

    The old directory is removed after the block; if the block fails, it gets its name back.
    """
    path = Path(path)
    if not path.exists():
        yield
        return
    aside = path.with_name(f"{PARTIAL_DIRECTORY}{secrets.token_hex(8)}")
    with writing(path):
        descriptor = _hold(path)
    try:
        with writing(path):
            os.rename(path, aside)
        try:
            yield
        except BaseException:
            with contextlib.suppress(OSError):
                os.rename(aside, path)
            raise
        shutil.rmtree(aside, ignore_errors=True)
    finally:
        os.close(descriptor)


def _take_name(partial: Path, path: Path) -> bool:
    """Rename a directory, unless a file or a nonempty directory has that name."""
    try:
        os.rename(partial, path)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return False
        raise
    return True


@contextlib.contextmanager
def _new_parents(path: Path) -> Iterator[None]:
    """If the block makes a directory and its parents, remove those that it leaves empty."""
    missing = [parent for parent in (path, *path.parents) if not parent.exists()]
    try:
        yield
    finally:
        for parent in missing:
            with contextlib.suppress(OSError):
                parent.rmdir()


@contextlib.contextmanager
def _partial_directory(parent: Path) -> Iterator[Path]:
    """Make an empty directory, removed unless it is renamed; remove abandoned directories."""
    parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(parent)
    while True:
        partial = Path(tempfile.mkdtemp(prefix=PARTIAL_DIRECTORY, dir=parent))
        try:
            descriptor = _hold(partial)
        except FileNotFoundError:  # not locked yet, so another process removed it as abandoned
            continue
        if partial.is_dir():
            break
        os.close(descriptor)
    try:
        partial.chmod(0o755)  # `mkdtemp` allows only the owner, but servers run as other users
        yield partial
    finally:
        os.close(descriptor)
        shutil.rmtree(partial, ignore_errors=True)


def _hold(path: Path) -> int:
    """Open and lock a directory, so that `_remove_abandoned` keeps it; returns the descriptor."""
    descriptor = os.open(path, os.O_RDONLY)
    with contextlib.suppress(OSError):  # not every file system has locks
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # until the process ends for any reason
    return descriptor


def _remove_abandoned(parent: Path) -> None:
    """Remove the partial directories in `parent` whose processes have ended."""
    for path in parent.glob(f"{PARTIAL_DIRECTORY}*"):
        with contextlib.suppress(OSError):  # another process holds the lock, or there are none here
            descriptor = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)
