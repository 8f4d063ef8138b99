"""Registration of this package's classes with Keras, as soon as Keras is imported."""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

# Their classes are what the file of a model, compiled or not, can name.
_ROOMS = ("layers", "losses", "metrics", "optimizers", "schedules")


def register_with_keras() -> None:
    """Register the classes: at once if Keras has been imported, otherwise after its import.

    So `keras.models.load_model` knows them in every program that imports `keras_transformer`, which
    itself need not load Keras.
    """
    if "keras" in sys.modules:
        _register()
    elif not any(isinstance(finder, _FinderOfKeras) for finder in sys.meta_path):
        sys.meta_path.insert(0, _FinderOfKeras())


def _register() -> None:
    for room in _ROOMS:
        importlib.import_module(f"keras_transformer.{room}")


class _FinderOfKeras(importlib.abc.MetaPathFinder):
    """Finds Keras as the other finders do, and has the classes registered after its import."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "keras":
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
    """Stands for Keras's loader until Keras is imported."""

    def __init__(self, loader: Any, finder: _FinderOfKeras) -> None:
        self.loader = loader
        self.finder = finder

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        sys.meta_path.remove(self.finder)
        _register()
