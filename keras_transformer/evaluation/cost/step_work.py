"""The work of each training step: its tokens, padding and operations."""

import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterable
from typing import Literal, overload

import keras

from keras_transformer.data import BatchPlan
from keras_transformer.evaluation.cost.transformer_flops import TransformerFlops

KEPT_STEPS = 64


@dataclasses.dataclass(frozen=True)
class StepWork:
    """The work of each training step, for the meters of a training.

    The functions take a zero-based step. Those that are None are unknown.

    Args:
        target_tokens: number of target tokens, end of sentence counted, padding not.
        padding_share: share of padding in the batch.
        flops: floating-point operations of the real tokens.
        peak_flops: peak FLOP/s of all devices together, if known; see `DeviceSpeed`.
        shape_to_compile: the step is compiled anew for each new value. Default: the same for all
            steps.

    Example:
        >>> work = StepWork(target_tokens=lambda step: 100, flops=lambda step: 5_000)
        >>> work.total("target_tokens", range(3)), work.total("flops", range(3))
        (300, 15000)
    """

    target_tokens: Callable[[int], int]
    padding_share: Callable[[int], float] | None = None
    flops: Callable[[int], int] | None = None
    peak_flops: float | None = None
    shape_to_compile: Callable[[int], Hashable] = lambda step: None

    @classmethod
    def of(cls, plan: BatchPlan, model: keras.Model, peak_flops: float | None = None) -> "StepWork":
        """The work of a plan's steps.

        Args:
            plan: the plan of the training text.
            model: a model of `build_transformer`, or a training model over its layers.
            peak_flops: as above.
        """
        count = TransformerFlops(model)
        passes = 2 if getattr(model, "r_drop", 0) else 1

        def flops(step: int) -> int:
            pairs = plan.batch(step)
            return passes * count.training(plan.source_lengths[pairs], plan.target_lengths[pairs])

        cache = functools.lru_cache(KEPT_STEPS)  # several callbacks ask about the same steps
        work = cls(
            cache(plan.target_tokens), cache(plan.padding_share_of), cache(flops), peak_flops
        )
        if plan.shapes is None:
            return work
        return dataclasses.replace(work, shape_to_compile=plan.padded_shape)

    @overload
    def total(self, name: Literal["target_tokens"], steps: Iterable[int]) -> int: ...

    @overload
    def total(self, name: Literal["flops"], steps: Iterable[int]) -> int | None: ...

    def total(self, name: Literal["target_tokens", "flops"], steps: Iterable[int]) -> int | None:
        """The sum over zero-based steps; None if unknown."""
        function = getattr(self, name)
        return None if function is None else sum(int(function(step)) for step in steps)
