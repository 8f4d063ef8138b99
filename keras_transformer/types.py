"""Types for annotations."""

import os
from typing import Any, TypeAlias

# A tensor of Keras's backend, a `keras.KerasTensor`, or an array that Keras converts to one.
Tensor: TypeAlias = Any
# None is a size that is known only at run time.
Shape: TypeAlias = tuple[int | None, ...]
PathLike: TypeAlias = str | os.PathLike[str]
