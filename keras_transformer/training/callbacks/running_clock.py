"""A clock that stands still while the process is stopped."""

import time


class RunningClock:
    """Seconds without the time in which the process is stopped, as by SIGSTOP or Ctrl-Z.

    The system does not tell when a stop began, so the time since the last reading before it is
    left out too: part of one step, or of one validation. `stops` counts the stops.
    """

    def __init__(self) -> None:
        self.stops = 0
        self._left_out = 0.0
        self._last = time.perf_counter()

    def seconds(self) -> float:
        """Seconds since an arbitrary moment."""
        self._last = time.perf_counter()
        return self._last - self._left_out

    def went_on(self) -> None:
        """Leave out the time since the last reading; called at SIGCONT."""
        now = time.perf_counter()
        self._left_out += now - self._last
        self._last = now
        self.stops += 1


CLOCK = RunningClock()  # of this process, as `time.perf_counter` is
