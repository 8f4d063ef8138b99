"""Standard streams and atomic file writes.

Regular files appear only when complete: they are written to the same folder under a temporary name
and then renamed. Links are followed. Pipes and devices are written to, but never replaced.
"""

import contextlib
import errno
import hashlib
import importlib.util
import io
import json
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn, TextIO, TypeAlias, cast

from keras_transformer.errors import CannotWrite, UserInputError
from keras_transformer.input_files import open_ordinary
from keras_transformer.installation import pip_install
from keras_transformer.types import PathLike

try:
    import fcntl
except ImportError:  # On Windows, directories are written without locks, and leftovers remain
    fcntl = None  # type: ignore[assignment]

_is_quiet = False
# Windows has none of these flags.
_OWN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC if hasattr(os, "O_NOFOLLOW") else 0


class MissingStream(io.TextIOBase):
    """Stand-in for a closed standard stream. Reading or writing raises a `UserInputError`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _refuse(self, *_: object) -> NoReturn:
        raise UserInputError(f"{self._name} is closed.")

    read = readline = write = _refuse
    buffer = property(_refuse)


def replace_missing_streams() -> None:
    """Replace the standard streams that were closed when Python started.

    The descriptor of each closed stream is assigned to the null device. Otherwise, the next file
    that is opened would reuse that descriptor and receive everything written to the stream.
    Messages written to a closed standard error are discarded.
    """
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if stream is None:  # the system assigns the lowest free descriptor
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    sys.stdin = sys.stdin or cast(TextIO, MissingStream("Standard input"))
    sys.stdout = sys.stdout or cast(TextIO, MissingStream("Standard output"))
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - stays open


def print_any_path() -> None:
    """Let standard output print file names unchanged, even if its encoding does not cover them."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="surrogateescape")


def require_standard_output() -> None:
    """Raise an error if standard output is closed, before a command starts its work."""
    sys.stdout.write("")


def output_fault() -> OSError | None:
    """Flush standard output. Return the error if flushing fails.

    After an error, standard output is redirected to the null device so that the interpreter's own
    flush at exit succeeds.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        _replace_by_null(sys.stdout.fileno())
        return error
    return None


def full_output(fault: OSError) -> CannotWrite:
    """Return the error for a failed write to standard output, for example to a full disk."""
    return CannotWrite(f"Cannot write to standard output: {fault.strerror}.")


def be_quiet(quiet: bool) -> None:
    """Turn quiet mode on or off. In quiet mode, only results, warnings and errors are shown."""
    global _is_quiet
    _is_quiet = quiet


def is_quiet() -> bool:
    """Return whether notes and progress bars are hidden."""
    return _is_quiet


def note(message: str) -> None:
    """Print an informational line to standard error, except in quiet mode."""
    if not _is_quiet:
        tell(message)


def printable(text: str) -> str:
    r"""Make text safe for a terminal by replacing control characters, e.g. in names from files.

    Example:
        >>> printable("layer\x1b[31m")
        'layer\ufffd[31m'
    """
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "\N{REPLACEMENT CHARACTER}", text)


def tell(message: str) -> None:
    """Print a line to standard error if possible."""
    try:
        print(printable(message), file=sys.stderr, flush=True)
    except OSError:
        _replace_by_null(sys.stderr.fileno())


def say(*lines: object, result: bool = False) -> None:
    """Print lines to standard output. Do nothing if its terminal has been closed.

    Args:
        *lines: lines to print.
        result: whether the lines are a result, which is printed even in quiet mode.
    """
    if _is_quiet and not result:
        return
    try:
        texts = [printable(str(line)) if sys.stdout.isatty() else line for line in lines]
        print(*texts, sep="\n", flush=True)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        _replace_by_null(sys.stdout.fileno())


def _replace_by_null(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, descriptor)
    os.close(null)


@contextlib.contextmanager
def file_lock(path: Path, on_wait: Callable[[], object] = lambda: None) -> Iterator[bool]:
    """Hold an exclusive lock. The system releases it when the process ends for any reason.

    The lock file `path` is removed at the end. `on_wait` is called before waiting for another
    process; it may raise an error to give up. Yields whether the lock is native to the system. On
    file systems without native locks, the file itself is the lock: `filelock` writes it and checks
    it against the running processes.
    """
    from filelock import (  # not needed to print a command's help
        FileLock,
        SoftFileLock,
        Timeout,
    )

    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        on_wait()
        lock.acquire()
    is_native = not isinstance(lock, SoftFileLock)
    try:
        yield is_native
    finally:
        # Remove the file while it is locked. A waiting process then sees that the file is gone and
        # retries.
        if is_native:
            with contextlib.suppress(OSError):  # e.g. if the disk is now read-only
                path.unlink()
        lock.release()


# Called with the complete file under its temporary name, for example to record its checksum. It can
# return a function to call after the rename, or None.
BeforeRename: TypeAlias = Callable[[Path], Callable[[], None] | None]

PARTIAL = ".partial-"
# Files that a killed process may leave behind. Unfinished translations, `.partial-NAME`, are kept.
_LEFT_OVER = re.compile(r"\.partial-[0-9a-f]{32}|\.candidate-.*\.weights\.h5")


@contextlib.contextmanager
def whole_file(
    path: PathLike, before_rename: BeforeRename | None = None
) -> Iterator[io.BufferedWriter]:
    """Open a file for writing bytes and move it to `path` when it is complete.

    The file is synced to disk before it gets its final name, so a killed process or a power failure
    never leaves a partial file at `path`. If writing fails, the partial file is removed. The
    temporary name is random, so a planted link cannot redirect the output. A link at `path` is
    replaced.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "scores.json"
        >>> with whole_file(path) as file:
        ...     _ = file.write(b"{}")
        >>> path.read_text()
        '{}'
    """
    path = Path(path)
    with writing(path):
        file = open(_new_name(path.parent), "xb")  # noqa: SIM115 - closed before it is renamed
        partial = Path(file.name)
        try:
            with file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            after_rename = None if before_rename is None else before_rename(partial)
            os.replace(partial, path)
            with contextlib.suppress(OSError):  # not every file system syncs directories
                sync(path.parent)
            if after_rename is not None:
                after_rename()
        finally:
            partial.unlink(missing_ok=True)


def make_partial(path: Path) -> Path:
    """Rename a file as a partial file before it is removed. Return its new path."""
    aside = _new_name(path.parent)
    os.replace(path, aside)
    return aside


def _new_name(directory: Path) -> Path:
    """Return a random path for a partial file."""
    return directory / f"{PARTIAL}{secrets.token_hex(16)}"


@contextlib.contextmanager
def writing(path: PathLike) -> Iterator[None]:
    """Convert an `OSError` into a `CannotWrite` that names the file and the reason."""
    try:
        yield
    except CannotWrite:
        raise
    except OSError as error:
        # HDF5's message contains a page of details.
        reason = os.strerror(error.errno) if error.errno else " ".join(str(error).split())
        raise CannotWrite(f"Cannot write {path}: {reason}.") from error


def sync(path: PathLike) -> None:
    """Wait until a file's contents or a directory's entries are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: PathLike, text: str, before_rename: BeforeRename | None = None) -> None:
    """Write a text file with `whole_file` so that readers never see a partial file."""
    write_bytes(path, text.encode("utf-8"), before_rename)


def write_json(path: PathLike, value: object, before_rename: BeforeRename | None = None) -> None:
    """Write a value as JSON, encoded by `json_bytes`, completely or not at all."""
    write_bytes(path, json_bytes(value), before_rename)


def json_bytes(value: object) -> bytes:
    """Encode a JSON-compatible value as indented JSON.

    Non-UTF-8 bytes in file names become question marks.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "replace")


def write_bytes(
    path: PathLike, content: bytes | memoryview, before_rename: BeforeRename | None = None
) -> None:
    """Write bytes, completely or not at all."""
    with whole_file(path, before_rename) as file:
        file.write(content)


def copy_file(
    source: PathLike, destination: PathLike, before_rename: BeforeRename | None = None
) -> None:
    """Copy a file, completely or not at all."""
    with open_ordinary(source) as original, whole_file(destination, before_rename) as copy:
        shutil.copyfileobj(original, copy)


def checksum(path: PathLike) -> str:
    """Return the SHA-256 hash of a regular file in hexadecimal. See `open_ordinary` for errors."""
    with open_ordinary(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove_left_over(directory: PathLike) -> None:
    """Remove the partial files that killed processes left behind."""
    for path in Path(directory).glob(".*"):
        if is_left_over(path.name) and (not path.is_dir() or path.is_symlink()):
            path.unlink(missing_ok=True)


def is_left_over(name: str) -> bool:
    """Return whether a file name belongs to a partial file."""
    return _LEFT_OVER.fullmatch(name) is not None


PARTIAL_DIRECTORY = f"{PARTIAL}directory-"


def write_directory(
    parent: PathLike, choose_name: Callable[[], str], write: Callable[[Path], object]
) -> Path:
    """Write a directory that appears only when it is complete. Return its path.

    The directory may replace an empty directory, but nothing else. Leftovers from killed processes
    in `parent` are removed; directories that other processes are still writing are kept. `write`
    receives an empty directory to fill. `choose_name` is called before anything is written, and
    again whenever another process takes the name first; it may raise an error.

    Example:
        >>> parent = tempfile.mkdtemp()
        >>> def write(directory):
        ...     (directory / "README.md").write_text("A model")
        >>> [path.name for path in write_directory(parent, lambda: "en_de", write).iterdir()]
        ['README.md']
    """
    parent = Path(parent)
    name = choose_name()
    with writing(parent / name), new_parents(parent):
        with _partial_directory(parent) as partial:
            try:
                write(partial)
            except CannotWrite as error:  # it names the partial directory, soon removed
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
    """Write a new directory completely or not at all. It must not exist, or must be empty.

    An empty directory is replaced, so it must not be the current directory or a mount point.
    `write` receives an empty directory to fill. Returns the path as given.
    """
    path = Path(directory).resolve()  # gives "." a name and preserves links

    def name() -> str:
        check_new_directory(directory)
        return path.name

    write_directory(path.parent, name, write)
    return Path(directory)


def check_new_directory(directory: PathLike) -> None:
    """Check that `write_new_directory` would accept a directory, e.g. before a long operation."""
    path = Path(directory).resolve()
    if not path.exists():
        return
    if not path.is_dir():
        raise UserInputError(f"{directory} is a file: choose another directory.")
    if any(path.iterdir()):
        raise UserInputError(f"{directory} already contains files: choose another directory.")
    if path.samefile("."):  # replacing it would leave shells in a deleted directory
        raise UserInputError(f"{directory} is the current directory: choose a directory inside it.")
    if os.path.ismount(path):
        raise UserInputError(f"{directory} is a mount point: choose a directory inside it.")


@contextlib.contextmanager
def scratch_directory(parent: PathLike) -> Iterator[Path]:
    """Create an empty directory in `parent` and remove it after the block.

    Leftovers from killed processes in `parent` are removed; directories that other processes are
    still writing are kept.
    """
    parent = Path(parent)
    with contextlib.ExitStack() as stack:
        with writing(parent):
            path = stack.enter_context(_partial_directory(parent))
        yield path


@contextlib.contextmanager
def set_aside(path: PathLike) -> Iterator[None]:
    """Move a directory out of the way while the block writes a new one under the same name.

    The old directory is removed after the block. If the block fails, the old directory is restored.
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
    """Rename a directory unless a file or a nonempty directory already has the new name."""
    try:
        os.rename(partial, path)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return False
        raise
    return True


@contextlib.contextmanager
def new_parents(path: Path) -> Iterator[None]:
    """Remove the directories along a path that the block created but left empty."""
    missing = [parent for parent in (path, *path.parents) if not parent.exists()]
    try:
        yield
    finally:
        for parent in missing:
            with contextlib.suppress(OSError):
                parent.rmdir()


@contextlib.contextmanager
def _partial_directory(parent: Path) -> Iterator[Path]:
    """Create an empty directory, removed unless renamed. Also remove abandoned directories."""
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
        partial.chmod(0o755)  # `mkdtemp` allows only the owner; servers run as other users
        yield partial
    finally:
        os.close(descriptor)
        shutil.rmtree(partial, ignore_errors=True)


def _hold(path: Path) -> int:
    """Open and lock a directory so that `_remove_abandoned` keeps it. Return the descriptor."""
    if fcntl is None:
        return os.open(os.devnull, os.O_RDONLY)  # Windows cannot open a directory
    descriptor = os.open(path, os.O_RDONLY)
    with contextlib.suppress(OSError):  # not every file system has locks
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # until the process ends for any reason
    return descriptor


def _remove_abandoned(parent: Path) -> None:
    """Remove the partial directories in `parent` whose processes have ended."""
    if fcntl is None:
        return
    for path in parent.glob(f"{PARTIAL_DIRECTORY}*"):
        with contextlib.suppress(OSError):  # another process holds it, or locks are unsupported
            descriptor = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)


FIGURES = (".png", ".pdf", ".svg")


class Output(NamedTuple):
    """The output path, with links resolved, and whether it is a pipe or a device."""

    path: Path
    is_stream: bool


def find_output(path: PathLike, flag: str = "--output") -> Output:
    """Return the `Output` for a user-specified file, which must be in an existing folder.

    Error messages name the flag.
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
        raise UserInputError(f"`{flag}` must be in an existing folder. Received: {name!r}")
    return Output(found, is_stream=False)


@contextlib.contextmanager
def open_stream(path: PathLike) -> Iterator[io.FileIO]:
    """Open an existing pipe or device for writing bytes without buffering."""
    with writing(path), open(path, "wb", buffering=0) as file:
        yield file


def write_output(path: PathLike, content: str | bytes, flag: str = "--output") -> None:
    """Write text or bytes to a user-specified file. For errors, see `find_output`."""
    output = find_output(path, flag)
    content = content.encode("utf-8") if isinstance(content, str) else content
    if not output.is_stream:
        write_bytes(output.path, content)
        return
    with open_stream(output.path) as file:
        write_all(file, content)


def write_all(file: io.FileIO, content: bytes) -> None:
    """Write all bytes to an unbuffered file, which may accept only some of them at a time."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def open_own_file(path: Path, flags: int) -> int:
    """Open or create a regular file like `os.open`, unless another user may have created it.

    Symbolic links, special files, other users' files and hard-linked files are rejected.
    """
    if path.is_symlink():  # `O_NOFOLLOW` also rejects it, but with an unclear message
        raise _not_ours(path)
    try:
        # Do not block: the file may be a pipe.
        descriptor = os.open(path, flags | _OWN, 0o666)
    except IsADirectoryError as error:
        raise _not_ours(path) from error
    status = os.fstat(descriptor)
    is_ours = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
    if stat.S_ISREG(status.st_mode) and is_ours and status.st_nlink == 1:
        return descriptor
    os.close(descriptor)
    raise _not_ours(path)


def _is_standard_output(status: os.stat_result) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(status, os.fstat(1))
    return False


def _not_ours(path: Path) -> UserInputError:
    return UserInputError(
        f"{path} must be your own regular file, without other names and not a link, because it "
        "contains the output so far. Remove it."
    )


def check_figure(path: str, flag: str, others: Sequence[str] = ()) -> str:
    """Check the output file of a flag like `find_output`. Return its extension in lowercase.

    Args:
        path: path of the file.
        flag: name of the flag, such as `"--plot"`.
        others: extensions that the flag accepts in addition to figure extensions.

    Raises:
        UserInputError: the flag does not accept the extension, or the file is a figure and
            matplotlib (the `plots` extra) is not installed.
    """
    ending = Path(path).suffix.lower()
    if ending not in (*others, *FIGURES):
        raise UserInputError(
            f"`{flag}` must end in one of {', '.join((*others, *FIGURES))}. Received: {flag} {path}"
        )
    if ending in FIGURES and importlib.util.find_spec("matplotlib") is None:
        raise UserInputError(f"A figure needs matplotlib: {pip_install('plots')}")
    find_output(path, flag)
    return ending


__all__ = ["say", "scratch_directory", "write_bytes", "write_json", "write_text"]
