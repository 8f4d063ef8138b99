"""Another process that holds the lock of a run."""

import contextlib

from tests.python_programs import start_python

HOLD = """
import sys
from keras_transformer.runs.run_checkpoints import run_lock
with run_lock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def holder_of(path):
    """A process that holds the run at `path` until the block ends."""
    with start_python("-c", HOLD, path) as process:
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()
