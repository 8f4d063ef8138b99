"""The end of a training whose other machines are lost."""

import atexit
import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn, Self

from keras_transformer.cli.program import USER_ERROR
from keras_transformer.errors import UserInputError, WorkerLost
from keras_transformer.runs.run_directory import RunDirectory

_begun: list["MachineWatch"] = []  # the open watches of this process, the outermost first


class MachineWatch:
    """Context that turns the loss of another machine into `WorkerLost`.

    A backend raises an error in the step that waits for the other machine. The user reads one line
    of ours, after what native code has written, and the process does not wait for lost machines. If
    that step hangs instead, the backend ends the process with a message of its own when heartbeats
    stop. A nested watch only turns errors. `is_lost` tells whether an exception means that a
    machine is lost.
    """

    def __init__(
        self, is_lost: Callable[[BaseException], bool], run: RunDirectory | None = None
    ) -> None:
        self._is_lost = is_lost
        self._run = run

    def __enter__(self) -> Self:
        _begun.append(self)
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _begun.remove(self)
        if not isinstance(exception, Exception):
            return  # Ctrl-C ends the training of all after the same step
        lost = self._is_lost(exception)
        if not _begun:
            # Without waiting for the others, which are gone or wait for this process.
            is_expected = lost or isinstance(exception, UserInputError)
            atexit.register(self._end_process, USER_ERROR if is_expected else 1)
        if lost:
            raise WorkerLost(self.message()) from exception

    def message(self) -> str:
        """The error message: what happened, and how to continue."""
        states = self._run.checkpoints.states() if self._run else []
        last = f"The last checkpoint is {states[-1]}. " if states else ""
        return (
            "Lost contact with another machine of this training. "
            f"{last}Start all machines again with --resume."
        )

    def _end_process(self, code: int) -> NoReturn:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
