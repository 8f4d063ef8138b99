"""Waiting for what another thread or process does."""

import time


def wait_until(is_so, seconds=60):
    """Return when something has become true; fail if that takes longer than some seconds."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"not within {seconds} seconds"
        time.sleep(0.02)
