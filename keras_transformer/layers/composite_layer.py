"""Layers composed of other layers."""

import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.argument_checks import KeepsArguments
from keras_transformer.types import Shape, Tensor


class RematerializedLayer(keras.layers.Layer):
    """A Keras layer that `keras.RematScope` can recompute in every mode."""

    def rematerialized_call(
        self, layer_call: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Callable[..., Any]:
        """Return the call as a pure function of float tensors, as `keras.RematScope` requires.

        Otherwise, backends would trace flags and differentiate masks, and updates of dropout seeds
        would be lost or applied twice.
        """
        variables = self.variables
        seeds = [variable for variable in variables if not _is_float(variable)]
        values = [ops.copy(variable) for variable in variables]  # their current values
        given = keras.tree.flatten((args, kwargs, values))
        places = [place for place, value in enumerate(given) if _is_float(value)]

        def pure_call(*floats: Tensor) -> tuple[Any, list[Tensor]]:
            known = dict(zip(places, floats, strict=True))
            filled = [known.get(place, value) for place, value in enumerate(given)]
            call_args, call_kwargs, state = keras.tree.pack_sequence_as(
                (args, kwargs, values), filled
            )
            with keras.StatelessScope(list(zip(variables, state, strict=True))) as scope:
                outputs = layer_call(*call_args, **call_kwargs)
            return outputs, [scope.get_current_value(seed) for seed in seeds]

        again = super().rematerialized_call(pure_call, *args, **kwargs)
        if again is pure_call:  # the scope does not cover this layer
            return layer_call

        @functools.wraps(layer_call)
        def call(*_: Any, **__: Any) -> Any:
            outputs, states = again(*(given[place] for place in places))
            for seed, state in zip(seeds, states, strict=True):
                seed.assign(state)
            return outputs

        return call


def _is_float(value: Any) -> bool:
    """Return whether a value is a tensor or variable of floats."""
    return hasattr(value, "dtype") and keras.backend.is_float_dtype(
        keras.backend.standardize_dtype(value.dtype)
    )


class CompositeLayer(KeepsArguments, RematerializedLayer):
    """Base class for layers whose `build` creates other layers and then calls `finish_build`.

    Freezing, quantization and LoRA apply to all parts. Loading or cloning a layer preserves which
    of its parts are frozen and quantized.

    Args:
        quantized: serialized `keras.quantizers` configurations of the quantized parts, by name, as
            returned by `get_config`; None if no part is quantized.
        frozen: names of the frozen parts if the layer itself is not frozen; None if there are none.
        **kwargs: arguments of `keras.layers.Layer`.
    """

    def __init__(
        self,
        *,
        quantized: dict[str, Any] | None = None,
        frozen: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    @property
    def dtype_policy(self) -> keras.DTypePolicy:
        """The layer's dtype policy. Setting the policy before `build` also sets it on all parts."""
        return super().dtype_policy

    @dtype_policy.setter
    def dtype_policy(self, value: keras.DTypePolicy | str) -> None:
        keras.layers.Layer.dtype_policy.fset(self, value)
        for part in self._layers:
            part.dtype_policy = value

    def finish_build(self) -> None:
        """Freeze and quantize the parts of a loaded or cloned layer."""
        if not self.trainable:
            # Keras froze only the parts that existed when `trainable` was set.
            for part in self._layers:
                part.trainable = False
        for path in self.frozen or ():
            self._named_parts()[path].trainable = False
        for path, config in (self.quantized or {}).items():
            part = self._named_parts()[path]
            part.quantize(config=keras.saving.deserialize_keras_object(config))

    def compute_output_shape(self, inputs_shape: Shape, *others: Any, **named: Any) -> Shape:
        """Return the shape of the first input, which most composite layers preserve."""
        return tuple(inputs_shape)

    def enable_lora(self, rank: int, lora_alpha: float | None = None, **initializers: Any) -> None:
        """Enable LoRA on every matrix, with the same arguments as `keras.layers.Dense.enable_lora`.

        As in Keras, matrices are frozen and get trainable adapters, while biases and normalizations
        stay trainable.

        Raises:
            ValueError: the layer is not built, or LoRA is already enabled.
        """
        if not self.built:
            raise ValueError(
                f"`{self.name}` must be called, or loaded, before `enable_lora`. Received: a layer "
                "without weights"
            )
        for part in self._named_parts().values():
            if hasattr(part, "enable_lora"):
                part.enable_lora(rank, lora_alpha, **initializers)

    def get_config(self) -> dict[str, Any]:
        parts = self._named_parts()
        quantized = {
            path: keras.saving.serialize_keras_object(part.quantization_config)
            for path, part in parts.items()
            if part.quantization_mode is not None
        }
        frozen = [path for path, part in parts.items() if part.weights and not part.trainable]
        states = {"quantized": quantized, "frozen": frozen if self.trainable else []}
        config = {**super().get_config(), **states}
        return {n: v for n, v in config.items() if v or n not in states}

    def _named_parts(self) -> dict[str, keras.layers.Layer]:
        """Return the innermost layers, keyed by names such as "feed_forward/expand"."""
        found: dict[str, keras.layers.Layer] = {}
        for part in self._layers:
            if isinstance(part, CompositeLayer):
                found |= {f"{part.name}/{path}": p for path, p in part._named_parts().items()}
            else:
                found[part.name] = part
        return found


def part_seeds(seed: int | None, number: int) -> list[int | None]:
    """Derive `number` different dropout seeds for a layer's parts from the layer's seed."""
    if seed is None:
        return [None] * number
    numbers = random.Random(seed)
    return [numbers.randrange(2**31) for _ in range(number)]
