"""The checkpoints and the lock of a run."""

import contextlib
import datetime
import itertools
import os
import re
import socket
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NoReturn

from keras_transformer.errors import UserInputError
from keras_transformer.files import file_lock, new_parents, tell, writing
from keras_transformer.input_files import entries_of, parse_json, to_record
from keras_transformer.runs.checksums import CHECKPOINTS, RunChecksums
from keras_transformer.runs.run_records import BestRecord
from keras_transformer.types import PathLike

LOCK_NAME = ".training.lock"


@contextlib.contextmanager
def run_lock(path: PathLike) -> Iterator[None]:
    """Lock a directory against other training runs, and create it if it is missing.

    The operating system manages the lock and releases it when the process ends for any reason. The
    lock also works across machines if the file system supports this, as NFS does. The lock file
    names the process that uses the directory. On a file system without locks, the lock file itself
    serves as the lock.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "first"
        >>> with run_lock(path):
        ...     [path.name for path in path.iterdir()]
        ['.training.lock']
    """
    path = Path(path)
    if path.exists() and not path.is_dir():  # reported when the run is opened
        yield
        return
    lock = path / LOCK_NAME
    with contextlib.ExitStack() as stack:
        with writing(path):
            stack.enter_context(new_parents(path))
            path.mkdir(parents=True, exist_ok=True)
            if stack.enter_context(file_lock(lock, on_wait=lambda: _refuse(path, lock))):
                lock.write_text(f"{os.getpid()}\n{socket.gethostname()}\n", encoding="utf-8")
        yield


def _refuse(path: Path, lock: Path) -> NoReturn:
    raise UserInputError(
        f"The run directory {path} is in use by a training run: {_holder(lock)}. Wait until it "
        "ends, or choose another directory."
    )


def _holder(lock: Path) -> str:
    """Describe the process named in the lock file."""
    try:
        process, machine, *_ = lock.read_text(encoding="utf-8").splitlines()
        since = datetime.datetime.fromtimestamp(lock.stat().st_mtime).astimezone()
    except (OSError, ValueError, OverflowError):  # the file is incomplete, or its time is invalid
        return "another process"
    return f"process {process} on {machine} since {since.isoformat(timespec='seconds')}"


WEIGHTS = ".weights.h5"
BASE = f"base{WEIGHTS}"
STATE = ".state.npz"


class RunCheckpoints:
    """The checkpoints of a run, available as `run.checkpoints` of a `RunDirectory`.

    Each saved step has a weight file for translation. The latest steps also have a state file from
    which training can resume. With LoRA, these files contain only the adapters, and
    `base.weights.h5` contains the base weights.

    Args:
        run_path: the run directory.
        checksums: the checksums of the run.

    Example:
        >>> from keras_transformer import RunDirectory
        >>> run = RunDirectory("runs/first")
        >>> run.checkpoints.path_of(500).name
        'step-00000500.weights.h5'
        >>> run.checkpoints.paths()  # before the training
        []
    """

    def __init__(self, run_path: PathLike, checksums: RunChecksums) -> None:
        self.directory = Path(run_path) / CHECKPOINTS
        self.base_path = self.directory / BASE  # base weights for LoRA adapters
        self.best_path = self.directory / f"best{WEIGHTS}"  # best validation value
        self.best_record_path = self.directory / "best.json"
        self._checksums = checksums

    def path_of(self, step: int) -> Path:
        """Return the path of the weights after `step` updates."""
        return self.directory / f"step-{step:08d}{WEIGHTS}"

    def state_path(self, step: int) -> Path:
        """Return the path of the training state after `step` updates."""
        return self.directory / f"step-{step:08d}{STATE}"

    def average_path(self, kind: str, n: int, step: int) -> Path:
        """Return the path of the average of the `n` "last" or "best" checkpoints up to `step`."""
        return self.directory / f"average-{kind}-{n}-step-{step:08d}{WEIGHTS}"

    def paths(self) -> list[Path]:
        """Return the weight files of all saved steps, oldest first."""
        return self._of_steps(WEIGHTS)

    def states(self) -> list[Path]:
        """Return the state files on disk, oldest first."""
        return self._of_steps(STATE)

    def last(self, save_every: int | None = None) -> list[Path]:
        """Return the weight files of the last steps, oldest first.

        Older checkpoints that were kept as the best are excluded.

        Args:
            save_every: number of updates between checkpoints. Checkpoints before a larger gap count
                as best checkpoints, even if fewer than `keep_last` checkpoints follow the gap.
        """
        paths = self.paths()
        last = paths[-self.best_record().get("keep_last", len(paths)) :]
        gaps = [step_of(path) - step_of(before) for before, path in itertools.pairwise(last)]
        wide = [i for i, gap in enumerate(gaps, 1) if save_every is not None and gap > save_every]
        return last[wide[-1] :] if wide else last

    def best(self) -> list[Path]:
        """Return the weight files on disk with the best validation values, best first."""
        paths = [self.path_of(kept["step"]) for kept in self.best_record().get("kept", [])]
        return [path for path in paths if path.is_file()]

    def best_record(self) -> BestRecord:
        """Return the contents of best.json; empty before the first validation."""
        path = self.best_record_path
        if not path.is_file():
            return {}
        return to_record(path, parse_json(path, self._checksums.read(path)), BestRecord)

    def write_best_record(self, record: BestRecord) -> None:
        """Replace the contents of best.json."""
        self._checksums.write_json(self.best_record_path, record)

    def best_or_last(self) -> Path | None:
        """Return the best checkpoint, or else the last checkpoint, or None if there is none."""
        if self.best_path.is_file():
            return self.best_path
        return next(reversed(self.paths()), None)

    def find(self, name: PathLike) -> Path:
        """Return the checkpoint at a path or with a name such as "best" or "step-00000500".

        Raises:
            UserInputError: the file does not exist.
        """
        named = self.directory / f"{name}{WEIGHTS}"
        path = named if named.is_file() else Path(name)
        if not path.is_file():
            raise UserInputError(f"There is no checkpoint {name} in {self.directory.parent}.")
        return path

    def whole(self, paths: Collection[Path]) -> list[Path]:
        """Return the checkpoints that match their checksums, and warn about damaged checkpoints."""
        damaged = [path for path in paths if self._checksums.is_damaged(path)]
        for path in damaged:
            tell(f"{path} is damaged and left out: its checksum is wrong.")
        return [path for path in paths if path not in damaged]

    def _of_steps(self, ending: str) -> list[Path]:
        name = re.compile(rf"step-\d+{re.escape(ending)}")
        paths = (path for path in entries_of(self.directory) if name.fullmatch(path.name))
        return sorted(paths, key=step_of)


def step_of(path: PathLike) -> int:
    """Return the step in a checkpoint's file name."""
    return int(Path(path).name.removeprefix("step-").partition(".")[0])
