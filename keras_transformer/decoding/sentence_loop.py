"""The loop of a search, which a sentence leaves as soon as its results are final.

Axes in the shape comments:
    batch    sentences
    open     those that have not left
"""

from collections.abc import Callable
from typing import Any, TypeVar

import keras
from keras import ops

from keras_transformer.types import Tensor

State = TypeVar("State")
# Sentences leave when this part of those in the loop is done: leaving copies the others' state.
LEAVING = 8


def search_loop(
    advance: Callable[[State, Tensor | None], State],
    is_open: Callable[[State, Tensor | None], Tensor],
    results: Callable[[State], Any],
    state: State,
    limits: Tensor,
    *,
    may_leave: bool,
) -> Any:
    """Repeat a step until the results of all sentences are final.

    Where a graph does not know the number of sentences, those that are done leave: a long sentence
    does not keep the others in the batch. Where the number is fixed, all stay to the end.

    Args:
        advance: callable `(state, rows) -> state`, a step. `rows` are the numbers of the state's
            sentences in the batch, int32 (open,); None: all of them.
        is_open: callable `(state, rows) -> bool (open,)`: which sentences need further steps.
        results: callable `state -> nest of tensors (open, ...)`, whose sizes do not change.
        state: nest of scalars, which all sentences share, and of tensors (batch, ...).
        limits: tensor (batch,).
        may_leave: whether `advance` and `is_open` take `rows`.

    Returns:
        The `results` of all sentences, in their order: a nest of tensors (batch, ...).
    """
    if not may_leave or limits.shape[0] is not None:
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
        """Steps until some are done, which leave with their results."""
        (state,) = ops.while_loop(
            lambda state: few_are_done(state, rows),
            lambda state: (advance(state, rows),),
            (state,),
        )
        going_on, leaving = _places(is_open(state, rows))
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


def of_sentences(nest: Any, places: Tensor) -> Any:
    """The tensors (batch, ...) of a nest for the sentences at some places; scalars stay."""
    return keras.tree.map_structure(
        lambda values: ops.take(values, places, axis=0) if len(values.shape) else values, nest
    )


def _places(is_there: Tensor) -> tuple[Tensor, Tensor]:
    """The places of True and those of False, in order; `nonzero` is not for LiteRT."""
    size = ops.shape(is_there)[0]
    numbers = ops.arange(size, dtype="int32")
    order = ops.argsort(ops.where(is_there, numbers, numbers + size))
    number = _count(is_there)
    return order[:number], order[number:]


def _count(is_there: Tensor) -> Tensor:
    return ops.sum(ops.cast(is_there, "int32"))
