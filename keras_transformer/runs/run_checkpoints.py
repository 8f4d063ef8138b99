"""A run's checkpoints on disk: names, order, which are the best, whether they are whole."""

import re
import sys
from pathlib import Path

from keras_transformer.errors import UserInputError
from keras_transformer.files.json_files import parse_json, to_record
from keras_transformer.runs.run_checksums import CHECKPOINTS
from keras_transformer.runs.run_records import BestRecord

WEIGHTS = ".weights.h5"
STATE = ".state.npz"


class RunCheckpoints:
    """What a training writes at each checkpoint: `run.checkpoints` of a `RunDirectory`.

    Weights translate; a state is what a training goes on from. Both are files of a step.

    Args:
        run_path: the run directory.
        checksums: its `RunChecksums`.

    Example:
        >>> from keras_transformer import RunDirectory
        >>> run = RunDirectory("runs/first")
        >>> run.checkpoints.path_of(500).name
        'step-00000500.weights.h5'
        >>> run.checkpoints.paths()  # none yet
        []
    """

    def __init__(self, run_path, checksums):
        self.directory = Path(run_path) / CHECKPOINTS
        self.best_path = self.directory / f"best{WEIGHTS}"  # with the best validation value
        self.best_record_path = self.directory / "best.json"
        self._checksums = checksums

    def path_of(self, step):
        """Return the file of the weights after `step` updates."""
        return self.directory / f"step-{step:08d}{WEIGHTS}"

    def state_path(self, step):
        """Return the file of the training's state after `step` updates."""
        return self.directory / f"step-{step:08d}{STATE}"

    def average_path(self, kind, n, step):
        """Return the file of the mean of `n` checkpoints, "last" or "best", until `step`."""
        return self.directory / f"average-{kind}-{n}-step-{step:08d}{WEIGHTS}"

    def paths(self):
        """Return the weights of all steps on disk, oldest first."""
        return self._of_steps(WEIGHTS)

    def states(self):
        """Return the states on disk, oldest first."""
        return self._of_steps(STATE)

    def last(self):
        """Return the weights of the last steps, oldest first, without older ones kept as best.

        How many were kept as the last, the record of the best ones says.
        """
        paths = self.paths()
        return paths[-self.best_record().get("keep_last", len(paths)) :]

    def best(self):
        """Return the weights of the steps with the best validation values on disk, best first."""
        paths = [self.path_of(kept["step"]) for kept in self.best_record().get("kept", [])]
        return [path for path in paths if path.is_file()]

    def best_record(self):
        """Return the content of best.json, a `BestRecord`, or an empty dictionary."""
        path = self.best_record_path
        if not path.is_file():
            return {}
        return to_record(path, parse_json(path, self._checksums.read(path)), BestRecord)

    def write_best_record(self, record):
        """Replace the content of best.json."""
        self._checksums.write_json(self.best_record_path, record)

    def best_or_last(self):
        """Return the file of the best weights, else of the last step's, or None: there is none."""
        return self.best_path if self.best_path.is_file() else (self.paths() or [None])[-1]

    def find(self, name):
        """Return the file that a name such as "best" or "step-00000500" stands for, or a path."""
        named = self.directory / f"{name}{WEIGHTS}"
        path = named if named.is_file() else Path(name)
        if not path.is_file():
            raise UserInputError(f"There is no checkpoint {name} in {self.directory.parent}.")
        return path

    def whole(self, paths):
        """Return those of some checkpoints that equal their checksums; stderr names the others."""
        damaged = [path for path in paths if self._checksums.is_damaged(path)]
        for path in damaged:
            print(f"{path} is damaged and left out: its checksum is wrong.", file=sys.stderr)
        return [path for path in paths if path not in damaged]

    def _of_steps(self, ending):
        paths = self.directory.glob(f"step-*{ending}")
        name = re.compile(rf"step-\d+{re.escape(ending)}")
        return sorted((path for path in paths if name.fullmatch(path.name)), key=step_of)


def step_of(path):
    """Return the step in a checkpoint's name."""
    return int(re.match(r"step-(\d+)", Path(path).name)[1])
