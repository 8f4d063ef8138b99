"""What a process does when another machine of its training has gone."""

import sys

from keras_transformer.errors import WorkerLost


class MachineWatch:
    """Context that turns a backend's errors about another machine into `WorkerLost`.

    Args:
        is_lost: function from an exception to whether it says that.
        run: the `RunDirectory`, whose last checkpoint is named, or None.
    """

    def __init__(self, is_lost, run=None):
        self._is_lost = is_lost
        self._run = run

    def __enter__(self):
        return self

    def __exit__(self, exception_type, exception, traceback):
        if isinstance(exception, Exception) and self._is_lost(exception):
            raise WorkerLost(self.message()) from exception

    def message(self):
        """What the user is told."""
        states = self._run.states() if self._run else []
        last = f"The last checkpoint is {states[-1]}. " if states else ""
        return (
            "Lost contact with another machine of this training. "
            f"{last}Start all machines again with --resume."
        )
