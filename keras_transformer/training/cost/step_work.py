"""How much work each training step is."""

import dataclasses
import functools
from collections.abc import Callable

from keras_transformer.training.cost.transformer_flops import TransformerFlops

KEPT_STEPS = 64


@dataclasses.dataclass(frozen=True)
class StepWork:
    """What the meters of a training need to know of its steps.

    Args:
        target_tokens: function from a zero-based step to its number of target tokens, end of
            sentence counted, padding not.
        padding_share: function from a zero-based step to the share of padding in its batch, or
            None where it is not known.
        flops: function from a zero-based step to the floating-point operations of its real tokens,
            or None where they are not known.
        peak_flops: operations that all devices together can do in a second at best, or None where
            it is not known; see `DeviceSpeed`.
        shape_to_compile: function from a zero-based step to what the step is compiled for anew when
            it is met for the first time. Default: all steps are one.

    Example:
        >>> work = StepWork(target_tokens=lambda step: 100, flops=lambda step: 5_000)
        >>> work.total("target_tokens", range(3)), work.total("flops", range(3))
        (300, 15000)
    """

    target_tokens: Callable[[int], int]
    padding_share: Callable[[int], float] | None = None
    flops: Callable[[int], int] | None = None
    peak_flops: float | None = None
    shape_to_compile: Callable[[int], object] = lambda step: None

    @classmethod
    def of(cls, plan, model, peak_flops=None):
        """The work of a plan's steps.

        Args:
            plan: the `data.BatchPlan` of the training text.
            model: a model of `build_transformer`, or a training model over its layers.
            peak_flops: as above.
        """
        count = TransformerFlops(model)

        def flops(step):
            pairs = plan.batch(step)
            return count.training(plan.source_lengths[pairs], plan.target_lengths[pairs])

        # Several callbacks ask about the same steps.
        functions = (plan.target_tokens, plan.padding_share_of, flops)
        work = cls(*map(functools.lru_cache(KEPT_STEPS), functions), peak_flops)
        if plan.shapes is None:
            return work
        return dataclasses.replace(work, shape_to_compile=plan.padded_shape)

    def total(self, name, steps):
        """The sum of "target_tokens" or "flops" over zero-based steps; None where not known."""
        function = getattr(self, name)
        return None if function is None else sum(int(function(step)) for step in steps)
