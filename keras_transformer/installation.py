"""Package installation: version and extras, lazy imports, and backend startup."""

import builtins
import contextlib
import functools
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import platform
import shlex
import sys
import tempfile
import urllib.parse
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from keras_transformer.errors import UserInputError, no_attribute

__version__ = "0.1.0"

_NAME = "keras-transformer-garden"
# Another project on PyPI with the same import name.
_CONFLICTING_NAME = "keras-transformer"


@functools.cache  # takes half a second if many packages are installed
def distribution_name() -> str:
    """Return this package's pip name, from its metadata if it is installed."""
    import importlib.metadata  # not needed by `import keras_transformer`

    names = importlib.metadata.packages_distributions().get("keras_transformer", ())
    return next((name for name in names if name != _CONFLICTING_NAME), _NAME)


def pip_install(extra: str) -> str:
    """Return the pip command that installs this package with an extra from its original source.

    Args:
        extra: name of the extra, such as `"serving"`.

    Example: `pip install --editable '/home/me/keras-transformer-garden[serving]'`.
    """
    return f"pip install {_requirement(distribution_name(), f'[{extra}]')}"


def _requirement(name: str, extras: str = "") -> str:
    """Return pip's arguments for the installed distribution, from its original source."""
    source = _source(name)
    url = source.get("url", "")
    if "dir_info" in source:
        path = urllib.parse.unquote(urllib.parse.urlsplit(url).path)
        flag = "--editable " if source["dir_info"].get("editable") else ""
        return flag + shlex.quote(path + extras)
    return shlex.quote(f"{name}{extras} @ {url}" if "archive_info" in source else name + extras)


@contextlib.contextmanager
def requiring(extra: str, fault: str) -> Iterator[None]:
    """Convert an extra's `ImportError` into a `UserInputError` that starts with `fault`."""
    try:
        yield
    except ImportError as error:
        raise UserInputError(f"{fault}: {pip_install(extra)}") from error


@contextlib.contextmanager
def requiring_tensorflow_text() -> Iterator[None]:
    """Convert an import error of TensorFlow or tensorflow-text into a `UserInputError`.

    tensorflow-text is available only for Linux and for Macs with Apple silicon. On other systems,
    the error message lists what works without it.
    """
    try:
        yield
    except ImportError as error:
        fault = "TensorFlow is not installed"
        if (error.name or "").partition(".")[0] == "tensorflow_text":
            fault = "SavedModels need tensorflow-text"
            system, machine = platform.system(), platform.machine()
            if system != "Linux" and (system, machine) != ("Darwin", "arm64"):
                raise UserInputError(
                    f"{fault}, which has no package for {system} on {machine}. Runs and exports to "
                    "LiteRT and CTranslate2 work without it. On Windows, use WSL 2."
                ) from error
        raise UserInputError(f"{fault}: {pip_install('tensorflow')}") from error


def _source(name: str) -> dict[str, Any]:
    """Return pip's record of the installed folder or file; empty if installed from an index."""
    import importlib.metadata

    try:
        noted = importlib.metadata.distribution(name).read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return {}
    return json.loads(noted) if noted else {}


def conflict() -> str | None:
    """Return a warning if another project with the same import name is installed, else None."""
    import importlib.metadata

    try:
        other = importlib.metadata.distribution(_CONFLICTING_NAME)
    except importlib.metadata.PackageNotFoundError:
        return None
    if other.entry_points:  # a clone of this project, installed before the package was renamed
        return None
    return (
        f"{_CONFLICTING_NAME} {other.version} is another project, whose files replace or mix with "
        f"those of {_NAME}. Remove it: pip uninstall {_CONFLICTING_NAME} && "
        f"pip install --force-reinstall --no-deps {_requirement(distribution_name())}"
    )


# Model files, compiled or not, can refer to the classes in these modules. `decoding` defines no
# such classes, but the models import it.
_ROOM_NAMES = tuple(
    f"keras_transformer.{room}"
    for room in "decoding layers losses metrics models.transformer optimizers schedules".split()
)
_MODELS = "keras_transformer.models."  # modules that import each other


class _Home(NamedTuple):
    """The module and original name of an imported name."""

    module: str
    name: str


class _Homes:
    """Stand-in for a module in a `from ... import` statement that only records the names."""

    def __init__(self, module: str) -> None:
        self.module = module

    def __getattr__(self, name: str) -> _Home:
        return _Home(self.module, name)


@contextlib.contextmanager
def on_first_use(namespace: dict[str, Any]) -> Iterator[None]:
    """Context manager that defers `from ... import` statements until a name is first used.

    Type checkers and editors treat them as ordinary imports, so each name is listed only once. The
    module's `__getattr__`, `__dir__` and `__all__` are set accordingly.

    Args:
        namespace: the module's `globals()`.
    """
    package, do_import = namespace["__name__"], builtins.__import__

    def note(name: str, *where: Any, **options: Any) -> Any:
        is_here = where and where[0] is namespace  # otherwise, another thread is importing
        return _Homes(name) if is_here else do_import(name, *where, **options)

    builtins.__import__ = note
    try:
        yield
    finally:
        builtins.__import__ = do_import
    noted = [name for name, value in namespace.items() if isinstance(value, _Home)]
    homes: dict[str, _Home] = {name: namespace.pop(name) for name in noted}

    def get(name: str) -> Any:
        if name not in homes:
            raise no_attribute(package, name)
        home = homes[name]
        if home.module == package:
            return importlib.import_module(f"{package}.{name}")
        return getattr(importlib.import_module(home.module), home.name)

    namespace["__getattr__"] = get
    namespace["__dir__"] = lambda: sorted({*namespace, *homes})
    namespace["__all__"] = sorted({*namespace.get("__all__", ()), *homes})


def register_with_keras() -> None:
    """Register the classes now if Keras has been imported, otherwise once it is imported.

    `keras.models.load_model` then finds them in every program that imports `keras_transformer`,
    even though importing the package does not load Keras.
    """
    if sys.modules.get("keras") is not None:  # None blocks the import
        _register()
    elif not any(isinstance(finder, _FinderOfKeras) for finder in sys.meta_path):
        sys.meta_path.insert(0, _FinderOfKeras())


def _register() -> None:
    for name in _ROOM_NAMES:
        importlib.import_module(name)


class _FinderOfKeras(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import hook that loads Keras and our subpackages as usual, then registers the classes.

    A subpackage that imports Keras is only partly imported at that point, so registration waits
    until the import of the subpackage is complete.
    """

    def __init__(self) -> None:
        self.loading = 0  # number of pending imports of Keras and our subpackages

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "keras" and name not in _ROOM_NAMES and not name.startswith(_MODELS):
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            # This finder replaces the module's loader until the module is imported.
            spec.loader_state, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return spec.loader_state.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec: Any = module.__spec__
        loader, spec.loader_state = spec.loader_state, None
        module.__loader__ = spec.loader = loader
        self.loading += 1
        try:
            loader.exec_module(module)
        finally:
            self.loading -= 1
        if not self.loading and "keras" in sys.modules:
            sys.meta_path.remove(self)
            _register()


BACKENDS = ("tensorflow", "jax")
_KERAS_BACKENDS = (*BACKENDS, "torch", "openvino", "numpy")  # with any other, importing Keras fails
LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
THREADS = "TF_NUM_INTRAOP_THREADS"  # per operation; TensorFlow reads it when it starts
# Keeps blocks of CPU memory. Otherwise, the system clears those of large tensors at every step.
ALLOCATOR = "TF_CPU_ALLOCATOR_USE_BFC"
# The number of cores that a process may use if its worker has only a share of a machine.
CORES = "KERAS_TRANSFORMER_NUM_CORES"
MOST_AT_ONCE = 8  # batches; each needs the memory of a search


def start_backend_quietly(devices: bool = True, *, batches: int = 1) -> None:
    """Import Keras and its backend and detect the devices, without log messages on stderr.

    TensorFlow's native code logs CPU instructions and missing CUDA drivers before any setting can
    silence it. All messages are shown if startup fails or if the environment variable
    `TF_CPP_MIN_LOG_LEVEL` is set to 0 or 1.

    Args:
        devices: whether to detect the devices. Training does this later, after dividing the CPU
            and connecting the machines (`training.start_devices`). It also reuses CPU memory,
            unless the environment variable `TF_CPU_ALLOCATOR_USE_BFC` says otherwise.
        batches: number of batches to decode. Up to `MOST_AT_ONCE` run at the same time and share
            the cores. Each TensorFlow operation uses only its batch's share of the cores, because
            threads in the same operation wait for each other. The environment variable
            `TF_NUM_INTRAOP_THREADS` takes precedence.

    Raises:
        UserInputError: the backend is not installed or is not supported by commands.
    """
    os.environ.setdefault(LOG_LEVEL, "2")
    if not devices:
        os.environ.setdefault(ALLOCATOR, "true")
    if batches > 1 or CORES in os.environ:
        at_once = min(MOST_AT_ONCE, max(1, batches))
        os.environ.setdefault(THREADS, str(max(1, num_cores() // at_once)))
    with without_logs():
        with _kept_imports():
            keras = _import_keras()
        if devices:
            keras.distribution.list_devices()


def without_logs() -> contextlib.AbstractContextManager[None]:
    """Hide logs of native code, except on errors, if `TF_CPP_MIN_LOG_LEVEL` is 2 or higher."""
    is_quiet = os.environ.get(LOG_LEVEL, "0") >= "2"
    return held_stderr() if is_quiet else contextlib.nullcontext()


def user_cache(name: str) -> Path:
    """Return the user's cache folder for files of a kind, which may not exist.

    Raises:
        RuntimeError: the user has no home folder.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache, "keras_transformer", name)


def num_cores() -> int:
    """Return the number of cores that this process may use."""
    if CORES in os.environ:
        return int(os.environ[CORES])
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def _kept_imports() -> Iterator[None]:
    """Exclude Keras and its backend, which live as long as the process, from garbage collection.

    Otherwise, the collector would scan their million objects repeatedly, even at exit, which takes
    a third of a short command's run time.
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
    """Return the name of Keras's backend without the slow import of Keras.

    Raises:
        UserInputError: commands and training do not support the backend.
    """
    return _checked_backend(_configured_backend())


def check_backend_exists() -> None:
    """Reject a backend that Keras does not support, before importing Keras fails.

    Raises:
        UserInputError: Keras does not support the backend.
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
    """Return whether TensorFlow or JAX uses a GPU or a TPU."""
    import keras

    if keras.backend.backend() not in ("tensorflow", "jax"):
        return False
    kinds = {name.split(":")[0].lower() for name in keras.distribution.list_devices()}
    return not kinds <= {"cpu"}


@contextlib.contextmanager
def held_stderr(*hidden: type[Exception]) -> Iterator[None]:
    """Capture stderr, including output from native code. Show it on errors other than `hidden`."""
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except hidden:
            raise
        except Exception:
            held.seek(0)
            os.write(stderr, held.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
