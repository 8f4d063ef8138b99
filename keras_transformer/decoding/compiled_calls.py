"""Compiled functions of arrays, and input checks for generators."""

import dataclasses
import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, TypeAlias

import keras
import numpy as np
from keras import ops

from keras_transformer.argument_checks import check_positive_int, known_values
from keras_transformer.errors import refuse
from keras_transformer.installation import has_accelerator
from keras_transformer.types import SpecialTokens, Tensor

MOST_GRAPHS = 32  # maximum per object; the most recent functions and options are kept

JitCompile: TypeAlias = bool | Literal["auto"]


def compiles_with_xla(jit_compile: JitCompile = "auto") -> bool:
    """Return whether XLA compiles searches and training steps, separately for each shape.

    JAX always compiles with XLA, and PyTorch never does; `jit_compile` matters only on TensorFlow.

    Args:
        jit_compile: a bool, or "auto" for XLA only on a GPU or TPU, where it fuses many kernels. On
            a CPU, skipping XLA is faster: no compile time, and finished sentences leave earlier.

    Raises:
        ValueError: `jit_compile` has any other value.
    """
    if jit_compile not in (True, False, "auto"):
        refuse("jit_compile", 'be True, False or "auto"', jit_compile)
    backend = keras.backend.backend()
    if backend != "tensorflow":
        return backend == "jax"
    return has_accelerator() if jit_compile == "auto" else bool(jit_compile)


@dataclasses.dataclass(frozen=True)
class WithoutNone:
    """Wraps a function so that it accepts only the arguments that are not None.

    Args:
        function: the function to wrap.
        is_given: whether each positional argument is given; missing arguments are None.

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
        """Return the wrapped function and the arguments to pass to it."""
        is_given = tuple(array is not None for array in arrays)
        return cls(function, is_given), [array for array in arrays if array is not None]

    def __call__(self, *arrays: Any, **options: Any) -> Any:
        given = iter(arrays)
        return self.function(*(next(given) if is_ else None for is_ in self.is_given), **options)


class CompiledCalls:
    """Calls functions of arrays, compiling each on its first call with the given options.

    XLA compiles each shape separately. On TensorFlow without XLA, each function and its options are
    first traced for the shapes of its first call and then, once shapes vary, for all shapes. On
    PyTorch, functions run uncompiled and without gradients.

    Args:
        find_variables: callable that returns the `keras.Variable`s that the functions read. Their
            values may change between calls; changing the set of variables triggers recompilation.
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
        """Return `function(*arrays, **options)`, a nested structure of tensors."""
        variables = self._find_variables()
        if list(map(id, variables)) != list(map(id, self._variables)):
            self._variables = variables
            self._compiled.cache_clear()
        function, given = WithoutNone.of(function, arrays)
        outputs = self._compiled(function, **options)(*given)
        return keras.tree.map_structure(ops.convert_to_tensor, outputs)

    def _compile(self, function: Callable[..., Any], **options: Hashable) -> Callable[..., Any]:
        variables = self._variables
        # JAX treats values captured by a compiled function as constants, so weights must be passed
        # as inputs.
        are_inputs = keras.backend.backend() == "jax"

        def call(inputs: tuple[list[Any], tuple[Any, ...]]) -> Any:
            values, arrays = inputs
            if not are_inputs:
                return function(*arrays, **options)
            with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
                return function(*arrays, **options)

        # Otherwise, TensorFlow would soon trace a graph for all shapes, with loops of unknown size.
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
    """A model without weights that wraps a function, which lets Keras compile its `predict`."""

    def __init__(self, function: Callable[..., Any], jit_compile: bool) -> None:
        super().__init__(name="compiled_function")
        self._function = function
        self.jit_compile = jit_compile
        self.built = True

    def call(self, inputs: Any) -> Any:
        return self._function(inputs)

    def __call__(self, inputs: Any) -> Any:
        return self.call(inputs)  # skips a layer's casts, masks and longer error messages


def check_vocabulary(
    model: Any, special_tokens: SpecialTokens, vocabulary_size: int | None
) -> None:
    """Reject a vocabulary that is incompatible with the model.

    Args:
        model: the `Transformer` or `TransformerEnsemble`.
        special_tokens: the `SpecialTokens` of the vocabulary.
        vocabulary_size: number of tokens; defaults to the model's vocabulary size.

    Raises:
        ValueError: the model uses a different padding id, masks the start token of outputs or has
            fewer logits than tokens; or a special token is not in the vocabulary.
    """
    if model.padding_id not in (None, special_tokens.pad):
        rule = "be the model's padding id"
        refuse("special_tokens.pad", rule, special_tokens.pad, padding_id=model.padding_id)
    if model.is_causal and model.padding_id == special_tokens.bos:
        rule = "not be the `mask_id` of a language model, which hides it"
        refuse("special_tokens.bos", rule, special_tokens.bos, mask_id=model.padding_id)
    if vocabulary_size is not None:
        check_positive_int("vocabulary_size", vocabulary_size)
        if vocabulary_size > model.vocabulary_size:
            rule = f"be at most the model's, {model.vocabulary_size}"
            refuse("vocabulary_size", rule, vocabulary_size)
    num_tokens = vocabulary_size or model.vocabulary_size
    if max(dataclasses.astuple(special_tokens)) >= num_tokens:
        rule = f"have ids less than the number of tokens, {num_tokens}"
        refuse("special_tokens", rule, special_tokens)


def in_graph() -> bool:
    """Return whether operations are recorded in a graph or trace instead of executed."""
    return known_values(ops.zeros(())) is None


def checked_ids(name: str, ids: Any, vocabulary_size: int | None = None) -> Tensor:
    """Convert ids to int32 (batch, length): a NumPy array, or a tensor in a graph.

    Args:
        name: name of the argument, for error messages.
        ids: integers, or floats with integer values.
        vocabulary_size: number of tokens in the vocabulary; None allows any integers.

    Raises:
        ValueError: the ids are not a matrix, or known values are invalid.
    """
    if isinstance(ids, (list, tuple)):
        lengths = {len(row) for row in ids if isinstance(row, (list, tuple))}
        if len(lengths) > 1:
            rule = "have rows of the same length, padded at the end"
            refuse(name, rule, lengths=sorted(lengths))
    values = known_values(ids)
    tensor = ops.convert_to_tensor(ids) if values is None else values
    if len(tensor.shape) != 2:
        rule = "have the shape (batch, length), such as [[7, 8, 2]]"
        refuse(name, rule, shape=tuple(tensor.shape))
    if values is None:
        return ops.cast(tensor, "int32")
    if values.size:
        _check_values(name, values, vocabulary_size)
    return values.astype("int32")


def _check_values(name: str, values: np.ndarray, vocabulary_size: int | None) -> None:
    if values.dtype.kind not in "iuf":
        refuse(name, "be integers", dtype=str(values.dtype))
    is_wrong, rule = values % 1 != 0, "whole numbers"
    if not is_wrong.any():
        limits = np.iinfo("int32")
        low, high = (limits.min, limits.max) if not vocabulary_size else (0, vocabulary_size - 1)
        is_wrong, rule = (values < low) | (values > high), f"ids from {low} to {high}"
    if is_wrong.any():
        refuse(name, f"be {rule}", value=values[is_wrong][0].item())


def checked_candidates(candidate_ids: Any, vocabulary_size: int, eos: int) -> Tensor:
    """Validate the candidate tokens of sentences and return them as int32 (batch, candidates).

    Args:
        candidate_ids: see `SequenceGenerator.search`; in a graph, only the shape is checked.
        vocabulary_size: number of tokens.
        eos: the id of EOS, which every row must contain.

    Raises:
        ValueError: the ids are not a matrix, or known values are invalid.
    """
    ids = checked_ids("candidate_ids", candidate_ids)
    if ids.shape[1] is not None and ids.shape[1] < 2:
        refuse("candidate_ids", "have at least two columns", shape=tuple(ids.shape))
    if isinstance(ids, np.ndarray) and ids.size:
        tokens = ids.max(axis=0)
        used = tokens[tokens >= 0]
        columns = np.where((ids == tokens) | (ids == -1), 0, 1).sum()
        is_sorted = bool((np.diff(used) > 0).all()) and bool((tokens[: len(used)] >= 0).all())
        if columns or not is_sorted or used.max(initial=0) >= vocabulary_size:
            rule = (
                f"have one token less than {vocabulary_size} in each column, or -1 where a "
                "sentence lacks it, in ascending order"
            )
            refuse("candidate_ids", rule, columns=tokens[:20].tolist())
        if not (ids == eos).any(axis=1).all():
            row = ids[~(ids == eos).any(axis=1)][0][:20].tolist()
            refuse("candidate_ids", f"have the end of sentence, {eos}, in each row", row=row)
    return ids


def check_prompts(
    prompt_ids: Any, special_tokens: SpecialTokens, vocabulary_size: int, max_length: int | None
) -> None:
    """Reject prompts that no output can start with.

    Args:
        prompt_ids: prompts from `checked_ids`; see `SequenceGenerator.search`. In a graph, only the
            shape is checked, because the values are unknown.
        special_tokens: the `SpecialTokens` of the vocabulary.
        vocabulary_size: number of tokens.
        max_length: number of model positions, including one for BOS; None means unlimited.

    Raises:
        ValueError: a row contains too many tokens, ids that are not ordinary tokens, or padding
            before a token.
    """
    length = prompt_ids.shape[1]
    if length is not None and max_length is not None and length >= max_length:
        rule = (
            f"be prompts of at most {max_length - 1} tokens: the model has {max_length} positions, "
            "and BOS takes one"
        )
        refuse("source_ids", rule, length=length)
    if isinstance(prompt_ids, np.ndarray):
        _check_prompt_rows(prompt_ids, special_tokens, vocabulary_size)


def _check_prompt_rows(
    ids: np.ndarray, special_tokens: SpecialTokens, vocabulary_size: int
) -> None:
    is_padding = ids == special_tokens.pad
    is_ordinary = (ids >= 0) & (ids < vocabulary_size)
    is_ordinary &= ~np.isin(ids, [special_tokens.bos, special_tokens.eos])
    is_late = np.cumsum(is_padding, axis=1) > 0  # at or after the first padding token
    is_wrong = ~np.where(is_late, is_padding, is_ordinary)
    if is_wrong.any():
        row = ids[is_wrong.any(axis=1)][0]
        rule = (
            f"be prompts: tokens less than {vocabulary_size} without BOS or EOS, then padding, "
            f"{special_tokens.pad}"
        )
        refuse("source_ids", rule, row=row[:20].tolist())
