"""Functions of arrays, compiled by Keras in the same way as a model's `predict`."""

import dataclasses
import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, TypeAlias

import keras
import numpy as np
from keras import ops

from keras_transformer.backend_start import has_accelerator
from keras_transformer.errors import refuse

MOST_GRAPHS = 32  # kept by one object, for the functions and options called last

JitCompile: TypeAlias = bool | Literal["auto"]


def compiles_with_xla(jit_compile: JitCompile = "auto") -> bool:
    """Whether XLA compiles a search or a training step, separately for each shape.

    JAX always compiles with XLA, and PyTorch never does; `jit_compile` matters only on TensorFlow.

    Args:
        jit_compile: a bool, or "auto": on a GPU or a TPU, where XLA fuses many kernels into few. A
            CPU is faster without XLA: nothing waits for the compiler, and sentences leave sooner.

    Raises:
        ValueError: `jit_compile` is anything else.
    """
    if jit_compile not in (True, False, "auto"):
        refuse("jit_compile", 'be True, False or "auto"', jit_compile)
    backend = keras.backend.backend()
    if backend != "tensorflow":
        return backend == "jax"
    return has_accelerator() if jit_compile == "auto" else bool(jit_compile)


@dataclasses.dataclass(frozen=True)
class WithoutNone:
    """A function that takes only those of its arguments that are not None.

    Args:
        function: the function.
        is_given: which of its positional arguments are given; the others are None.

    Example:
        >>> function, given = WithoutNone.of(max, [None, 3, 5])
        >>> given, function == WithoutNone(max, (False, True, True))
        ([3, 5], True)
    """

    function: Callable[..., Any]
    is_given: tuple[bool, ...]

    @classmethod
    def of(
        cls, function: Callable[..., Any], arrays: Sequence[Any]
    ) -> tuple["WithoutNone", list[Any]]:
        """The function, and the arguments that it takes."""
        is_given = tuple(array is not None for array in arrays)
        return cls(function, is_given), [array for array in arrays if array is not None]

    def __call__(self, *arrays: Any, **options: Any) -> Any:
        given = iter(arrays)
        return self.function(*(next(given) if is_ else None for is_ in self.is_given), **options)


class CompiledCalls:
    """Calls functions of arrays; each is compiled when it is first called with given options.

    XLA compiles for each shape. On TensorFlow without XLA, a function and its options get a graph
    for the shapes of their first call, and soon one for all shapes. On PyTorch, functions run
    uncompiled, without gradients.

    Args:
        find_variables: returns the `keras.Variable`s that the functions read. Their values may
            change between calls. If the variables themselves change, everything is compiled again.
        jit_compile: see `compiles_with_xla`.

    Attributes:
        with_xla: whether XLA compiles the functions.
    """

    def __init__(
        self,
        find_variables: Callable[[], list[keras.Variable]],
        jit_compile: JitCompile = "auto",
    ) -> None:
        self.with_xla = compiles_with_xla(jit_compile)
        self._find_variables = find_variables
        self._variables: list[keras.Variable] = []
        self._compiled = functools.lru_cache(maxsize=MOST_GRAPHS)(self._compile)

    def __call__(
        self, function: Callable[..., Any], *arrays: np.ndarray | None, **options: Hashable
    ) -> Any:
        """`function(*arrays, **options)`, a nest of tensors."""
        variables = self._find_variables()
        if list(map(id, variables)) != list(map(id, self._variables)):
            self._variables = variables
            self._compiled.cache_clear()
        function, given = WithoutNone.of(function, arrays)
        outputs = self._compiled(function, **options)(*given)
        return keras.tree.map_structure(ops.convert_to_tensor, outputs)

    def _compile(self, function: Callable[..., Any], **options: Hashable) -> Callable[..., Any]:
        variables = self._variables
        # JAX turns what a compiled function closes over into constants: weights must be inputs.
        are_inputs = keras.backend.backend() == "jax"

        def call(inputs: tuple[list[Any], tuple[Any, ...]]) -> Any:
            values, arrays = inputs
            if not are_inputs:
                return function(*arrays, **options)
            with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
                return function(*arrays, **options)

        # TensorFlow would soon trace one graph for all shapes, whose loops know no sizes.
        has_sizes = self.with_xla and not are_inputs

        @functools.cache
        def predictor(shapes: Hashable) -> _Predictor:
            return _Predictor(call, self.with_xla)

        def predict(*arrays: np.ndarray) -> Any:
            values = [variable.value for variable in variables] if are_inputs else []
            shapes = tuple(tuple(array.shape) for array in arrays) if has_sizes else None
            return predictor(shapes).predict_on_batch((values, arrays))

        return predict


class _Predictor(keras.Model):
    """A model without weights whose forward pass is a function: Keras compiles its `predict`."""

    def __init__(self, function: Callable[..., Any], jit_compile: bool) -> None:
        super().__init__(name="compiled_function")
        self._function = function
        self.jit_compile = jit_compile
        self.built = True

    def call(self, inputs: Any) -> Any:
        return self._function(inputs)

    def __call__(self, inputs: Any) -> Any:
        return self.call(inputs)  # without a layer's casts, masks and longer error messages
