"""The loop of a search, which a sentence leaves as soon as its results are final.

Axes in the shape comments:
    batch    sentences
    open     those that have not left
"""

from collections.abc import Callable
from typing import Any, TypeVar

import keras
from keras import ops

from keras_transformer.decoding.compiled_calls import compiles_with_xla
from keras_transformer.types import Tensor

State = TypeVar("State")
# Sentences leave when one in `LEAVING` of them is done: leaving copies the others' state.
LEAVING = 8
# With XLA, the sizes are part of the program: it continues with a quarter of the sentences once no
# more are open, down to fewer than 16. For each size a step must be compiled.
SHRINKING, LEAST_TO_SHRINK = 4, 16


def search_loop(
    advance: Callable[[State, Tensor | None], State],
    is_open: Callable[[State, Tensor | None], Tensor],
    results: Callable[[State], Any],
    state: State,
    limits: Tensor,
    *,
    may_leave: bool,
    with_xla: bool = False,
) -> Any:
    """Repeat a step until the results of all sentences are final.

    If a graph does not know the number of sentences, finished sentences leave: a long sentence does
    not keep the others in the batch. If XLA compiles for a known number, most of a large batch
    leave together. Otherwise all stay to the end.

    Args:
        advance: callable `(state, rows) -> state`, one step. `rows` are the numbers of the state's
            sentences in the batch, int32 (open,); None: all sentences.
        is_open: callable `(state, rows) -> bool (open,)`: which sentences need further steps.
        results: callable `state -> nest of tensors (open, ...)`, whose sizes do not change.
        state: nest of scalars, which all sentences share, and tensors (batch, ...).
        limits: tensor (batch,).
        may_leave: whether `advance` and `is_open` take `rows`.
        with_xla: whether XLA compiles the loop on TensorFlow, as it does on JAX: the state keeps
            its shape.

    Returns:
        The `results` of all sentences, in their order: a nest of tensors (batch, ...).
    """
    size = limits.shape[0]
    with_xla = compiles_with_xla(with_xla)
    if may_leave and with_xla and size is not None:
        return _shrinking_loop(advance, is_open, results, state, size)
    if not may_leave or with_xla or size is not None:
        (state,) = ops.while_loop(
            lambda state: ops.any(is_open(state, None)),
            lambda state: (advance(state, None),),
            (state,),
        )
        return results(state)

    def few_are_done(state: State, rows: Tensor) -> Tensor:
        num_open = _count(is_open(state, rows))
        num_done = ops.shape(rows)[0] - num_open
        return ops.logical_and(num_open > 0, num_done * LEAVING < ops.shape(rows)[0])

    def stretch(rows: Tensor, state: State, left: Any) -> tuple[Tensor, State, Any]:
        """Steps until some sentences are done; these leave with their results."""
        (state,) = ops.while_loop(
            lambda state: few_are_done(state, rows),
            lambda state: (advance(state, rows),),
            (state,),
        )
        are_open = is_open(state, rows)
        order, num_open = _true_first(are_open), _count(are_open)
        going_on, leaving = order[:num_open], order[num_open:]
        left = keras.tree.map_structure(
            lambda *parts: ops.concatenate(parts, axis=0),
            left,
            of_sentences((rows, results(state)), leaving),
        )
        rows, state = of_sentences((rows, state), going_on)
        return rows, state, left

    rows = ops.arange(ops.shape(limits)[0], dtype="int32")
    none = ops.sum(limits[:0])  # 0, but unknown to the graph: `left` grows
    left = keras.tree.map_structure(lambda values: values[:none], (rows, results(state)))
    _, _, (order, found) = ops.while_loop(
        lambda rows, *_: ops.shape(rows)[0] > 0, stretch, (rows, state, left)
    )
    return of_sentences(found, ops.argsort(order))


def _shrinking_loop(
    advance: Callable[[State, Tensor | None], State],
    is_open: Callable[[State, Tensor | None], Tensor],
    results: Callable[[State], Any],
    state: State,
    size: int,
) -> Any:
    """Same as `search_loop`, in loops of fixed sizes, which finished sentences fill up."""
    rows, found = None, None
    while True:
        next_size = size // SHRINKING if size >= LEAST_TO_SHRINK else 0
        (state,) = ops.while_loop(
            lambda state, rows=rows, most=next_size: _count(is_open(state, rows)) > most,
            lambda state, rows=rows: (advance(state, rows),),
            (state,),
        )
        if rows is None:
            found = results(state)
        else:
            places = ops.expand_dims(rows, -1)
            found = keras.tree.map_structure(
                lambda all_values, values, places=places: ops.scatter_update(
                    all_values, places, values
                ),
                found,
                results(state),
            )
        if next_size == 0:
            return found
        going_on = _true_first(is_open(state, rows))[:next_size]
        state = of_sentences(state, going_on)
        rows = going_on if rows is None else ops.take(rows, going_on)
        size = next_size


def of_sentences(nest: Any, places: Tensor) -> Any:
    """The tensors (batch, ...) of a nest for the sentences at `places`; scalars stay unchanged."""
    return keras.tree.map_structure(
        lambda values: ops.take(values, places, axis=0) if len(values.shape) else values, nest
    )


def _true_first(is_there: Tensor) -> Tensor:
    """The places of True, then the places of False, in order; LiteRT does not support `nonzero`."""
    size = ops.shape(is_there)[0]
    numbers = ops.arange(size, dtype="int32")
    return ops.argsort(ops.where(is_there, numbers, numbers + size))


def _count(is_there: Tensor) -> Tensor:
    return ops.sum(ops.cast(is_there, "int32"))
