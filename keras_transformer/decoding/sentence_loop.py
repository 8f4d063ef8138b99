"""Shared parts of all searches: hypothesis arrays, length penalty and the loop over positions.

This module uses only core operations with static ranks, so exported graphs run wherever TensorFlow
runs.

Axes in the shape comments:
    batch    sentences
    open     sentences that have not left the batch
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import keras
from keras import ops

from keras_transformer.decoding.compiled_calls import compiles_with_xla
from keras_transformer.types import SpecialTokens, Tensor


class SentenceState(NamedTuple):
    """Per-sentence model state, a nested structure of tensors (batch, ...)."""

    values: Any

    def reorder(self, parents: Tensor) -> "SentenceState":
        """Return the state unchanged, because it does not depend on the hypothesis order."""
        return self


def empty_ids(
    leading_shape: Sequence[Tensor], max_length: Tensor, special_tokens: SpecialTokens
) -> Tensor:
    """Create padding, int32 (*leading_shape, max_length + 1): `max_length` tokens and EOS."""
    return ops.full((*leading_shape, max_length + 1), special_tokens.pad, dtype="int32")


def write_at(ids: Tensor, index: Tensor, tokens: Tensor) -> Tensor:
    """Return `ids` (..., length) with `tokens` (...) written at position `index`."""
    is_here = ops.arange(ops.shape(ids)[-1]) == index
    return ops.where(is_here, ops.expand_dims(tokens, -1), ids)


def choose(values: Tensor, places: Tensor) -> Tensor:
    """Gather entries of `values` (batch, m, ...) at `places` (batch, n) as (batch, n, ...).

    The function gathers full rows; `take_along_axis` would broadcast the indices over all axes.
    """
    batch_size, m, *rest = ops.shape(values)
    rows = ops.expand_dims(ops.arange(batch_size) * m, 1) + places
    chosen = ops.take(ops.reshape(values, (-1, *rest)), ops.reshape(rows, (-1,)), axis=0)
    return ops.reshape(chosen, (batch_size, ops.shape(places)[1], *rest))


def stable_top_k(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """`keras.ops.top_k` with int32 indices; among equal values, the first values win."""
    if keras.backend.backend() == "torch":  # its top-k breaks ties arbitrarily
        places = ops.argsort(-values, axis=-1)[..., :k]  # a stable sort
        return ops.take_along_axis(values, places, axis=-1), places
    best, places = ops.top_k(values, k)
    return best, ops.cast(places, "int32")


def reorder(state: Any, places: Tensor) -> Any:
    """Select the entries at `places` (batch, n) from a nested structure of (batch, m, ...).

    Any part of the structure with a `reorder` method is replaced by the result of that method.
    """

    def reordered(part: Any) -> Any:
        if ops.is_tensor(part):
            return choose(part, places)
        return part.reorder(places) if hasattr(part, "reorder") else None  # None recurses

    return keras.tree.traverse(reordered, state)


def length_penalty(length: Tensor, alpha: float, form: str = "gnmt") -> Tensor:
    """Return the divisor of a log-probability: `((5 + length) / 6) ** alpha` or `length ** alpha`.

    Args:
        length: number of output tokens, including EOS; a number, an array or a float tensor.
        alpha: exponent; 0 means no penalty, and larger values favor longer outputs.
        form: "gnmt" for the first formula, "power" for the second, which ranks outputs differently.

    Returns:
        The penalty, with the shape of `length`.

    Example:
        >>> length_penalty(7, 0.5)
        1.4142135623730951
        >>> length_penalty(9, 0.5, "power")
        3.0

    Reference:
        Wu et al., "Google's Neural Machine Translation System", 2016, equation 14.
    """
    return (length if form == "power" else (5.0 + length) / 6.0) ** alpha


State = TypeVar("State")
# Sentences leave once one in `LEAVING` of them is done, because leaving copies the remaining state.
LEAVING = 8
# With XLA, sizes are compiled into the program. Once at most a quarter of the sentences are open,
# the loop shrinks to that size, unless it has fewer than 16. Each size needs its own compiled step.
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

    If the number of sentences is unknown in a graph, finished sentences leave the batch and do not
    wait for long sentences. If XLA compiles for a known batch size, most sentences in a large batch
    leave together. Otherwise, all sentences stay until the end.

    Args:
        advance: callable `(state, rows) -> state` that runs one step. `rows` are the batch indices
            of the sentences in the state, int32 (open,), or None for all sentences.
        is_open: callable `(state, rows) -> bool (open,)`: whether each sentence needs more steps.
        results: callable `state -> nested tensors (open, ...)` of constant size.
        state: nested structure of scalars, shared by all sentences, and tensors (batch, ...).
        limits: tensor (batch,).
        may_leave: whether `advance` and `is_open` accept `rows`.
        with_xla: whether XLA compiles the loop on TensorFlow, as it always does on JAX. The state
            then has a fixed shape.

    Returns:
        The `results` of all sentences in the original order: nested tensors (batch, ...).
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
        """Run steps until some sentences are done, then remove them and keep their results."""
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
    none = ops.sum(limits[:0])  # 0, but unknown to the graph, because `left` grows
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
    """Like `search_loop`, but with loops of fixed size, padded with finished sentences."""
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
    """Select the sentences at `places` from nested tensors (batch, ...); keep scalars unchanged."""
    return keras.tree.map_structure(
        lambda values: ops.take(values, places, axis=0) if len(values.shape) else values, nest
    )


def _true_first(is_there: Tensor) -> Tensor:
    """Return the indices of True, then of False, in order; LiteRT does not support `nonzero`."""
    size = ops.shape(is_there)[0]
    numbers = ops.arange(size, dtype="int32")
    return ops.argsort(ops.where(is_there, numbers, numbers + size))


def _count(is_there: Tensor) -> Tensor:
    return ops.sum(ops.cast(is_there, "int32"))
