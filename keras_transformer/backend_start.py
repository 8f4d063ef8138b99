"""Start of Keras's backend in a command, without the notes that would bury the user's own lines."""

import contextlib
import os
import sys
import tempfile

LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


def start_backend_quietly(devices=True):
    """Import Keras with its backend and look for devices, without the notes these write to stderr.

    TensorFlow's native code tells of CPU instructions and of missing CUDA drivers before any
    setting can silence it. If the start fails, everything it wrote is shown. A user who sets the
    environment variable `TF_CPP_MIN_LOG_LEVEL` to 0 or 1 sees the notes as they come.

    Args:
        devices: whether to look for devices. A training does not: it decides first how a CPU is
            divided and which machines belong together (`training.start_devices`).
    """
    if os.environ.setdefault(LOG_LEVEL, "2") < "2":  # 2: errors alone, from here on
        return
    with held_stderr():
        import keras

        if devices:
            keras.distribution.list_devices()


@contextlib.contextmanager
def held_stderr():
    """Hold back what is written to the process's stderr, by native code too; show it on failure."""
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(stderr, held.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
