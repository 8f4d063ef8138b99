"""The paper's optimizer, and Muon with the same schedule."""

from typing import Any

import keras

from keras_transformer.argument_checks import check_one_of
from keras_transformer.optimizers.adam_with_gradient_norm import AdamWithGradientNorm
from keras_transformer.optimizers.muon import Muon
from keras_transformer.schedules import TransformerSchedule

OPTIMIZERS = "adam", "muon"


def transformer_adam(
    hidden_dim: int,
    warmup_steps: int = 4000,
    scale: float = 1.0,
    dtype: Any = "float32",
    **overrides: Any,
) -> keras.optimizers.Optimizer:
    """Return the paper's Adam: beta 0.9 and 0.98, epsilon 1e-9, `TransformerSchedule`.

    Args:
        hidden_dim: positive integer, the model's width.
        warmup_steps: positive integer, number of updates until the learning rate's peak.
        scale: positive number, factor of the learning rate.
        dtype: dtype policy or compute dtype of the model's layers. "mixed_float16" and "float16"
            turn on loss scaling, without which small gradients would be 0. (Keras turns it on only
            if the policy is the model's own.)
        **overrides: arguments of `AdamWithGradientNorm`, such as `global_clipnorm` or `cooldown`;
            they replace the paper's values.

    Returns:
        An `AdamWithGradientNorm`, for float16 inside a `keras.optimizers.LossScaleOptimizer`.

    Example:
        >>> transformer_adam(hidden_dim=512, global_clipnorm=1.0).epsilon
        1e-09

    Reference:
        [Attention Is All You Need](https://arxiv.org/abs/1706.03762), section 5.3.
    """
    return transformer_optimizer(
        hidden_dim, "adam", warmup_steps=warmup_steps, scale=scale, dtype=dtype, **overrides
    )


def transformer_optimizer(
    hidden_dim: int,
    optimizer: str = "adam",
    warmup_steps: int = 4000,
    scale: float = 1.0,
    dtype: Any = "float32",
    rms_rate: float = 0.5,
    **overrides: Any,
) -> keras.optimizers.Optimizer:
    """Return the paper's Adam, or `Muon` with its schedule and with its Adam.

    Args:
        hidden_dim: positive integer, the model's width.
        optimizer: "adam", or "muon" for `Muon`.
        warmup_steps, scale, dtype: as in `transformer_adam`.
        rms_rate: positive number, the size of Muon's updates relative to Adam's learning rate; not
            used by Adam.
        **overrides: arguments of `AdamWithGradientNorm` or `Muon`, which replace the paper's
            values.

    Returns:
        The optimizer, for float16 inside a `keras.optimizers.LossScaleOptimizer`.

    Example:
        >>> transformer_optimizer(hidden_dim=128, optimizer="muon").rms_rate
        0.5
    """
    check_one_of("optimizer", optimizer, OPTIMIZERS)
    arguments = {
        "learning_rate": TransformerSchedule(hidden_dim, warmup_steps, scale),
        "beta_1": 0.9,
        "beta_2": 0.98,
        "epsilon": 1e-9,
        **overrides,
    }
    if optimizer == "muon":
        made = Muon(rms_rate=rms_rate, **arguments)
    else:
        made = AdamWithGradientNorm(**arguments)
    compute_dtype = keras.dtype_policies.get(dtype).compute_dtype
    return keras.optimizers.LossScaleOptimizer(made) if compute_dtype == "float16" else made


def inner_optimizer(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """Return the optimizer inside a `LossScaleOptimizer`, and any other optimizer unchanged.

    Args:
        optimizer: a `keras.optimizers.Optimizer`.

    Example:
        >>> adam = keras.optimizers.Adam()
        >>> inner_optimizer(keras.optimizers.LossScaleOptimizer(adam)) is adam
        True
        >>> inner_optimizer(adam) is adam
        True
    """
    return getattr(optimizer, "inner_optimizer", optimizer)
