"""Types in annotations."""

import os
from typing import Any, TypeAlias

# A tensor of Keras's backend, a `keras.KerasTensor`, or an array that Keras makes one of.
Tensor: TypeAlias = Any
# None is a size that only the run knows.
Shape: TypeAlias = tuple[int | None, ...]
PathLike: TypeAlias = str | os.PathLike[str]
