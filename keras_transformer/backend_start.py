"""Start Keras's backend in a command without its log messages."""

import contextlib
import gc
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from keras_transformer.distribution import pip_install
from keras_transformer.errors import UserInputError

BACKENDS = ("tensorflow", "jax")
_KERAS_BACKENDS = (*BACKENDS, "torch", "openvino", "numpy")  # of others, Keras's import fails
LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
THREADS = "TF_NUM_INTRAOP_THREADS"  # per operation; TensorFlow reads it when it starts
# Cores that a process may use, if its worker has only a share of a machine.
CORES = "KERAS_TRANSFORMER_NUM_CORES"
MOST_AT_ONCE = 8  # batches; each takes the memory of a search


def start_backend_quietly(devices: bool = True, *, batches: int = 1) -> None:
    """Import Keras with its backend and find the devices, without log messages on stderr.

    TensorFlow's native code logs CPU instructions and missing CUDA drivers before any setting can
    silence it. All messages are shown if the start fails, or if the environment variable
    `TF_CPP_MIN_LOG_LEVEL` is set to 0 or 1.

    Args:
        devices: whether to find the devices. Training does so later, after it has divided the CPU
            and joined the machines (`training.start_devices`).
        batches: number of batches to search. Up to `MOST_AT_ONCE` run at once and divide the cores
            among them; each TensorFlow operation uses its batch's share, because threads that share
            an operation wait for each other. The environment variable `TF_NUM_INTRAOP_THREADS`
            takes precedence.

    Raises:
        UserInputError: the backend is not installed, or commands do not support it.
    """
    is_quiet = os.environ.setdefault(LOG_LEVEL, "2") >= "2"  # from 2 on, only errors are logged
    if batches > 1 or CORES in os.environ:
        at_once = min(MOST_AT_ONCE, max(1, batches))
        os.environ.setdefault(THREADS, str(max(1, num_cores() // at_once)))
    with held_stderr() if is_quiet else contextlib.nullcontext():
        with _kept_imports():
            keras = _import_keras()
        if devices:
            keras.distribution.list_devices()


def num_cores() -> int:
    """Number of cores that this process may use."""
    if CORES in os.environ:
        return int(os.environ[CORES])
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def _kept_imports() -> Iterator[None]:
    """Exclude Keras and its backend, which live as long as the process, from garbage collection.

    The collector would scan their million objects again and again, also at exit: a third of a short
    command's time.
    """
    if "keras" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _import_keras() -> ModuleType:
    try:
        import keras
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("tensorflow", "jax", "torch"):
            raise
        raise UserInputError(
            f"Keras's backend {missing} is not installed: {pip_install('tensorflow')}, "
            "or [jax] with KERAS_BACKEND=jax."
        ) from error
    _checked_backend(keras.backend.backend())
    return keras


def backend_name() -> str:
    """The name of Keras's backend, found as Keras finds it, without its slow import.

    Raises:
        UserInputError: commands and training do not support it.
    """
    return _checked_backend(_configured_backend())


def check_backend_exists() -> None:
    """Refuse a backend that Keras does not know, before Keras's import raises an error.

    Raises:
        UserInputError: Keras has no such backend.
    """
    name = _configured_backend()
    if name not in _KERAS_BACKENDS:
        _checked_backend(name)


def _configured_backend() -> str:
    if (keras := sys.modules.get("keras")) is not None:
        return keras.backend.backend()
    if name := os.environ.get("KERAS_BACKEND"):
        return name
    home = Path.home() if os.access(Path.home(), os.W_OK) else Path("/tmp")
    folder = Path(os.environ.get("KERAS_HOME", home / ".keras")).expanduser()
    try:
        settings = json.loads((folder / "keras.json").read_bytes())
    except (OSError, ValueError):
        settings = {}
    return settings.get("backend", "tensorflow")


def _checked_backend(name: str) -> str:
    if name not in BACKENDS:
        raise UserInputError(
            f"KERAS_BACKEND must be one of {', '.join(BACKENDS)} for commands and training. "
            f"Received: {name}"
        )
    return name


def has_accelerator() -> bool:
    """Whether TensorFlow or JAX computes on a GPU or a TPU."""
    import keras

    if keras.backend.backend() not in ("tensorflow", "jax"):
        return False
    kinds = {name.split(":")[0].lower() for name in keras.distribution.list_devices()}
    return not kinds <= {"cpu"}


@contextlib.contextmanager
def held_stderr() -> Iterator[None]:
    """Hold back the process's stderr, including native code's; show it on failure."""
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except Exception:
            held.seek(0)
            os.write(stderr, held.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
