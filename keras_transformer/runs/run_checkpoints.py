"""A run's checkpoints on disk: names, order, which are the best, whether they are whole."""

import re
import sys
from pathlib import Path

from keras_transformer.files.json_files import parse_json, to_record
from keras_transformer.runs.run_checksums import RunChecksums
from keras_transformer.runs.run_records import BestRecord

WEIGHTS = ".weights.h5"
STATE = ".state.npz"


class RunCheckpoints(RunChecksums):
    """The part of a run directory that a training writes at each checkpoint.

    Weights translate; a state is what a training goes on from. Both are files of a step.

    Args:
        path: the run directory.
    """

    @property
    def best_path(self):
        """The weights with the best validation value."""
        return self.checkpoints_path / f"best{WEIGHTS}"

    @property
    def best_record_path(self):
        """Step and value of the best weights."""
        return self.checkpoints_path / "best.json"

    def checkpoint_path(self, step):
        """Return the file of the weights after `step` updates."""
        return self.checkpoints_path / f"step-{step:08d}{WEIGHTS}"

    def state_path(self, step):
        """Return the file of the training's state after `step` updates."""
        return self.checkpoints_path / f"step-{step:08d}{STATE}"

    def checkpoints(self):
        """Return the step checkpoints on disk, oldest first."""
        return self._of_steps(WEIGHTS)

    def states(self):
        """Return the states on disk, oldest first."""
        return self._of_steps(STATE)

    def last_checkpoints(self):
        """Return the last step checkpoints on disk, oldest first, without older ones kept as best.

        How many were kept as the last, the record of the best ones says.
        """
        paths = self.checkpoints()
        return paths[-self.best_record().get("keep_last", len(paths)) :]

    def best_checkpoints(self):
        """Return the step checkpoints with the best validation values on disk, best first."""
        kept = self.best_record().get("kept", [])
        paths = [self.checkpoint_path(each["step"]) for each in kept]
        return [path for path in paths if path.is_file()]

    def best_record(self):
        """Return the content of best.json, a `BestRecord`, or an empty dictionary."""
        path = self.best_record_path
        if not path.is_file():
            return {}
        return to_record(path, parse_json(path, self.read_checked(path)), BestRecord)

    def average_path(self, kind, n, step):
        """Return the file of the mean of `n` checkpoints, "last" or "best", until `step`."""
        return self.checkpoints_path / f"average-{kind}-{n}-step-{step:08d}{WEIGHTS}"

    def whole_checkpoints(self, paths):
        """Return those of some checkpoints that equal their checksums; stderr names the others."""
        damaged = [path for path in paths if self.is_damaged(path)]
        for path in damaged:
            print(f"{path} is damaged and left out: its checksum is wrong.", file=sys.stderr)
        return [path for path in paths if path not in damaged]

    def _of_steps(self, ending):
        paths = self.checkpoints_path.glob(f"step-*{ending}")
        name = re.compile(rf"step-\d+{re.escape(ending)}")
        return sorted((path for path in paths if name.fullmatch(path.name)), key=step_of)


def step_of(path):
    """Return the step in a checkpoint's name."""
    return int(re.match(r"step-(\d+)", Path(path).name)[1])
