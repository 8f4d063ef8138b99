"""The tensors of a folder by Hugging Face's names, whichever form the folder has."""

from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.errors import UserInputError
from keras_transformer.files.tensor_files import TensorFile, open_tensors
from keras_transformer.formats.marian.layout import MODEL_YML, MarianFolder
from keras_transformer.formats.marian.tensors import (
    HEAD,
    LOGITS_BIAS,
    SHARED,
    SOURCE,
    TARGET,
    native_name,
)

_WEMB = "Wemb"  # of all sides, in Marian's own files


class MarianTensors:
    """The tensors of a `MarianFolder` by Hugging Face's names; a context manager."""

    def __init__(self, folder: MarianFolder) -> None:
        self._folder = folder
        self._open = open_tensors(folder.tensors_path)

    def __enter__(self) -> "MarianTensors":
        self._file: TensorFile = self._open.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._open.__exit__(*exception)

    @property
    def path(self) -> Path:
        """The file."""
        return self._folder.tensors_path

    @property
    def names(self) -> tuple[str, ...]:
        """The tensors' own names in the file, without Marian's configuration."""
        return tuple(name for name in self._file.names if name != MODEL_YML)

    def shape(self, own: str) -> tuple[int, ...]:
        """The shape of the tensor with this name of its own, without reading it."""
        return tuple(self._file.shape(own))

    def own_name(self, name: str) -> str:
        """The name in the file of the tensor with this Hugging Face name."""
        if not self._folder.is_native:
            return name
        options = self._folder.architecture.options
        own = native_name(name, tied_all=_WEMB in self._file.names)
        if name == HEAD and own not in self._file.names and not options["tie_weights"]:
            own += "t"  # Marian's present name; older versions kept the matrix transposed
        return own

    def read(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """The tensor of this Hugging Face name, which must have this shape.

        Raises:
            UserInputError: it is missing, has another shape or type, or holds values that are not
                finite.
        """
        own = self.own_name(name)
        path = self.path
        if own not in self._file.names:
            raise UserInputError(f"The file {path} lacks the tensor {own}.")
        if not self._folder.is_native:
            return self._checked(own, shape)
        if name in (SHARED, SOURCE, TARGET):
            architecture = self._folder.architecture
            rows = architecture.source_rows if name == SOURCE else architecture.target_rows
            # Marian starts the decoder with zeros: the vector of padding, which it lacks.
            return _with_padding(self._checked(own, (rows, shape[1])), architecture.pad)
        if name == LOGITS_BIAS:
            return np.pad(self._checked(own, (1, shape[1] - 1)), [(0, 0), (0, 1)])
        if name == HEAD:
            is_transposed = own.endswith("t")
            size = (shape[0] - 1, shape[1])
            value = self._checked(own, size if is_transposed else size[::-1])
            return np.pad(value if is_transposed else value.T, [(0, 1), (0, 0)])
        if len(shape) == 1:
            return self._checked(own, (1, *shape)).reshape(shape)
        return self._checked(own, shape[::-1]).T

    def check_repeats(self, name: str, original: str, shape: tuple[int, ...]) -> None:
        """Require a tensor that only repeats another one, as files of old versions have them."""
        if not np.array_equal(self.read(name, shape), self.read(original, shape)):
            raise UserInputError(f"The tensor {name} in {self.path} must repeat {original}.")

    def _checked(self, own: str, shape: tuple[int, ...]) -> np.ndarray:
        path = self.path
        if self.shape(own) != shape:
            raise UserInputError(
                f"The tensor {own} in {path} must have the shape {shape}. "
                f"Received: shape={self.shape(own)}"
            )
        if "float" not in self._file.dtype(own):
            raise UserInputError(
                f"The tensor {own} in {path} must hold floating-point numbers. "
                f"Received: dtype={self._file.dtype(own)}"
            )
        value = self._file.read(own)
        if not np.isfinite(value).all():
            raise UserInputError(f"The tensor {own} in {path} has values that are not finite.")
        return value


def _with_padding(table: np.ndarray, pad: int) -> np.ndarray:
    """A table (tokens, hidden dimensions) with zeros for padding, as `with_padding` numbers it."""
    if len(table) <= pad:
        return np.pad(table, [(0, pad + 1 - len(table)), (0, 0)])
    return np.insert(table, pad, 0, axis=0)
