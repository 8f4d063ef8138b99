"""Registration of this package's classes with Keras, as soon as Keras is imported."""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

# A model's file, compiled or not, can name their classes. `decoding` has none, but the models
# import it.
_ROOM_NAMES = tuple(
    f"keras_transformer.{room}"
    for room in ("decoding", "layers", "losses", "metrics", "models", "optimizers", "schedules")
)


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
