"""Layers made of other layers."""

import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.argument_checks import KeepsArguments
from keras_transformer.types import Shape, Tensor


class RematerializedLayer(keras.layers.Layer):
    """A layer of Keras that `keras.RematScope` can compute again, in every mode."""

    def rematerialized_call(
        self, layer_call: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Callable[..., Any]:
        """The call as `keras.RematScope` needs it, with flags and seeds that no backend traces.

        Keras alone would pass flags such as `training` as tensors, and lose the states of the
        dropout's seeds.
        """
        flags = {name: value for name, value in kwargs.items() if not ops.is_tensor(value)}
        seeds = [variable for variable in self.variables if "seed_generator" in variable.path]

        def call(states: Sequence[Tensor], *args: Any, **tensors: Any) -> Any:
            for seed, state in zip(seeds, states, strict=True):
                seed.assign(state)
            outputs = layer_call(*args, **tensors, **flags)
            return outputs, [ops.convert_to_tensor(seed) for seed in seeds]

        again = super().rematerialized_call(functools.wraps(layer_call)(call), *args, **kwargs)

        def call_again(*args: Any, **kwargs: Any) -> Any:
            tensors = {name: value for name, value in kwargs.items() if name not in flags}
            states = [ops.convert_to_tensor(seed) for seed in seeds]
            outputs, states = again(states, *args, **tensors)
            for seed, state in zip(seeds, states, strict=True):
                seed.assign(state)
            return outputs

        return call_again


class CompositeLayer(KeepsArguments, RematerializedLayer):
    """Base class of layers whose `build` creates other layers and ends with `finish_build`.

    Freezing, quantization and LoRA reach all parts. The parts of a loaded or cloned layer are
    frozen and quantized as they were before.

    Args:
        quantized: the quantized parts and their `keras.quantizers` configurations, serialized, as
            `get_config` returns them; None: no part is quantized.
        **kwargs: arguments of `keras.layers.Layer`.
    """

    def __init__(self, *, quantized: dict[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def finish_build(self) -> None:
        """Freeze and quantize the parts of a layer that is loaded or cloned."""
        if not self.trainable:
            # Keras has frozen the parts that existed when `trainable` was set.
            for part in self._layers:
                part.trainable = False
        for path, config in (self.quantized or {}).items():
            part = self._named_parts()[path]
            part.quantize(config=keras.saving.deserialize_keras_object(config))

    def compute_output_shape(self, inputs_shape: Shape, *others: Any, **named: Any) -> Shape:
        """The shape of the first input, which most of these layers keep."""
        return tuple(inputs_shape)

    def enable_lora(self, rank: int, lora_alpha: float | None = None, **initializers: Any) -> None:
        """Enable LoRA on every matrix; the arguments are as in `keras.layers.Dense.enable_lora`.

        As in Keras, matrices are frozen and get trainable adapters; biases and normalizations stay
        trainable.

        Raises:
            ValueError: the layer is not built, or has LoRA already.
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
        quantized = {
            path: keras.saving.serialize_keras_object(part.quantization_config)
            for path, part in self._named_parts().items()
            if part.quantization_mode is not None
        }
        config = {**super().get_config(), "quantized": quantized}
        return config if quantized else {n: v for n, v in config.items() if n != "quantized"}

    def _named_parts(self) -> dict[str, keras.layers.Layer]:
        """The innermost layers, by names such as "feed_forward/expand"."""
        found: dict[str, keras.layers.Layer] = {}
        for part in self._layers:
            if isinstance(part, CompositeLayer):
                found |= {f"{part.name}/{path}": p for path, p in part._named_parts().items()}
            else:
                found[part.name] = part
        return found


def part_seeds(seed: int | None, number: int) -> list[int | None]:
    """`number` different dropout seeds, made from the seed of the layer that has the parts."""
    if seed is None:
        return [None] * number
    numbers = random.Random(seed)
    return [numbers.randrange(2**31) for _ in range(number)]
