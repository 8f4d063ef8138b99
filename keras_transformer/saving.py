"""What is imported when: names on first use, classes for Keras as soon as Keras is imported."""

import builtins
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from keras_transformer.errors import no_attribute

# A model's file, compiled or not, can name their classes. `decoding` has none, but the models
# import it.
_ROOM_NAMES = tuple(
    f"keras_transformer.{room}"
    for room in ("decoding", "layers", "losses", "metrics", "models", "optimizers", "schedules")
)


class _Home(NamedTuple):
    """Where a name is imported from."""

    module: str
    name: str


class _Homes:
    """Stands for a module in a `from ... import` statement that only notes its names."""

    def __init__(self, module: str) -> None:
        self.module = module

    def __getattr__(self, name: str) -> _Home:
        return _Home(self.module, name)


@contextlib.contextmanager
def on_first_use(namespace: dict[str, Any]) -> Iterator[None]:
    """Context whose `from ... import` statements take effect when a name is used.

    Type checkers and editors read them as plain imports, so that each name stands once. The module
    gets `__getattr__`, `__dir__` and, with the names, `__all__`.

    Args:
        namespace: the module's `globals()`.
    """
    package, do_import = namespace["__name__"], builtins.__import__

    def note(name: str, *where: Any, **options: Any) -> Any:
        is_here = where and where[0] is namespace  # else another thread imports
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
    """Register the classes: now if Keras has been imported, otherwise after its import.

    `keras.models.load_model` then knows them in every program that imports `keras_transformer`,
    although that import does not load Keras.
    """
    if sys.modules.get("keras") is not None:  # None blocks its import
        _register()
    elif not any(isinstance(finder, _FinderOfKeras) for finder in sys.meta_path):
        sys.meta_path.insert(0, _FinderOfKeras())


def _register() -> None:
    for name in _ROOM_NAMES:
        importlib.import_module(name)


class _FinderOfKeras(importlib.abc.MetaPathFinder):
    """Finds Keras and our subpackages as other finders do; registers the classes after the import.

    A subpackage that imports Keras is then itself half imported: registration waits until it is
    done.
    """

    def __init__(self) -> None:
        self.loading = 0  # imports of Keras and of our subpackages in progress

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "keras" and name not in _ROOM_NAMES:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            spec.loader = _LoaderOfKeras(spec.loader, self)
        return spec


class _LoaderOfKeras(importlib.abc.Loader):
    """Takes the place of a module's loader until the module is imported."""

    def __init__(self, loader: Any, finder: _FinderOfKeras) -> None:
        self.loader = loader
        self.finder = finder

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.finder.loading += 1
        try:
            self.loader.exec_module(module)
        finally:
            self.finder.loading -= 1
        if not self.finder.loading and "keras" in sys.modules:
            sys.meta_path.remove(self.finder)
            _register()
