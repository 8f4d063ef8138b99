"""The time that a training takes, without the time in which its process is stopped."""

import time


class RunningClock:
    """Seconds that stand still while the process is stopped, as by SIGSTOP or Ctrl-Z.

    The system does not say when a stop began. What passed between the last reading before it and
    its end is left out: besides the stop that is a part of one step, or of one validation.
    `stops` counts the stops.
    """

    def __init__(self):
        self.stops = 0
        self._left_out = 0.0
        self._last = time.perf_counter()

    def seconds(self):
        """Seconds since some moment in the past."""
        self._last = time.perf_counter()
        return self._last - self._left_out

    def went_on(self):
        """Called when the process goes on after a stop, at its SIGCONT."""
        now = time.perf_counter()
        self._left_out += now - self._last
        self._last = now
        self.stops += 1


CLOCK = RunningClock()  # of this process, as `time.perf_counter` is
