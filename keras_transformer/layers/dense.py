"""Dense layers, their kernels and initializers, and dropout."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.argument_checks import python_number
from keras_transformer.errors import refuse
from keras_transformer.layers.composite_layer import CompositeLayer, RematerializedLayer
from keras_transformer.types import Shape, Tensor

# Arguments that every `KernelLayer` accepts, as in Keras's own layers.
KERNEL_OPTIONS = tuple(
    f"{of}_{kind}"
    for of in ("kernel", "bias")
    for kind in ("initializer", "regularizer", "constraint")
)


class KernelLayer(CompositeLayer):
    """Base class for layers that pass Keras's options for kernels and biases to their parts.

    The constructors accept `kernel_initializer`, `bias_initializer`, `kernel_regularizer` and so
    on; `KeepsArguments` stores these arguments.
    """

    def kernel_options(
        self, widths: Sequence[int] = (), gains: Sequence[float] | None = None
    ) -> dict[str, Any]:
        """Return the options for another part, with initializers that draw different numbers.

        Args:
            widths, gains: widths and gains of the parts of a fused kernel (see `SideBySide`);
                omitted if the kernel is not fused.
        """
        options = {name: fresh(getattr(self, name)) for name in KERNEL_OPTIONS}
        if widths:
            options["kernel_initializer"] = SideBySide(self.kernel_initializer, widths, gains)
        return options


def fresh(initializer: Any) -> Any:
    """Copy an initializer to draw new numbers; Keras initializers repeat theirs on every call.

    With an integer seed, the copy returns the same numbers, as in Keras's own layers. With a seed
    generator, the initializer itself is returned, because it draws new numbers on every call,
    whereas a copy would start over.
    """
    has_generator = isinstance(getattr(initializer, "seed", None), keras.random.SeedGenerator)
    return (
        initializer.clone() if hasattr(initializer, "clone") and not has_generator else initializer
    )


class SideBySide(keras.initializers.Initializer):
    """Initializes each part of a fused weight separately, so each part has the right scale.

    Each part is multiplied by its gain.
    """

    def __init__(
        self,
        initializer: Callable[..., Tensor],
        widths: Sequence[int],
        gains: Sequence[float] | None = None,
    ) -> None:
        self.initializer = initializer
        self.widths = tuple(widths)
        self.gains = (1.0,) * len(self.widths) if gains is None else tuple(gains)

    def __call__(self, shape: Shape, dtype: str | None = None) -> Tensor:
        parts = [
            fresh(self.initializer)((*shape[:-1], width), dtype=dtype) * gain
            for width, gain in zip(self.widths, self.gains, strict=True)
        ]
        return ops.concatenate(parts, axis=-1)


@keras.saving.register_keras_serializable(package="keras_transformer")
class Dense(RematerializedLayer, keras.layers.Dense):
    """Keras's dense layer, but with a precise bias gradient under mixed-precision policies.

    If `rounds_to_int8` is set, every call rounds the kernel: see `rounded_straight_through`.

    Args:
        units: size of the output.
        activation: as in `keras.layers.Dense`.
        **kwargs: other arguments of `keras.layers.Dense`.

    Call arguments:
        inputs: tensor (..., input_dim).

    Returns:
        Tensor (..., units), with the Keras mask of `inputs`.

    Example:
        >>> import numpy as np
        >>> tuple(Dense(4, activation="relu")(np.ones((2, 3), "float32")).shape)
        (2, 4)
    """

    rounds_to_int8 = False

    def __init__(self, units: int, *, activation: Any = None, **kwargs: Any) -> None:
        super().__init__(units, activation=activation, **kwargs)

    def add_weight(self, *args: Any, name: str | None = None, **options: Any) -> Any:
        """Same as in `keras.layers.Layer`, but the kernel keeps its dtype when read; see `call`."""
        if name == "kernel":
            options["autocast"] = False
        return super().add_weight(*args, name=name, **options)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        kernel = (
            rounded_straight_through(self.kernel, axis=0) if self.rounds_to_int8 else self.kernel
        )
        kernel = ops.cast(kernel, self.compute_dtype)
        return self.activation(times_matrix(inputs, kernel, self.bias))

    def quantize(self, mode: str | None = None, type_check: bool = True, **config: Any) -> None:
        """Same as in `keras.layers.Dense`, using Keras's own weights and computation."""
        super().quantize(mode, type_check=False, **config)


def rounded_straight_through(matrix: Tensor, axis: int) -> Tensor:
    """Round a matrix to 8-bit integers with one float scale per channel, as int8 files store it.

    Args:
        matrix: tensor (inputs, channels) if `axis` is 0, or (channels, inputs) if it is -1.
        axis: axis of the inputs.

    Returns:
        Float32 tensor with the shape of `matrix`: integers from -127 to 127 times the scale of the
        channel, which maps 127 to the largest absolute value. In the gradient, rounding counts as
        the identity (straight-through estimator).

    Reference: Bengio et al., "Estimating or Propagating Gradients Through Stochastic Neurons for
        Conditional Computation", 2013.
    """
    matrix = ops.cast(matrix, "float32")
    values = ops.stop_gradient(matrix)
    scales = ops.max(ops.abs(values), axis, keepdims=True) / 127
    scales = ops.where(scales > 0, scales, ops.ones_like(scales))
    return matrix + (ops.round(values / scales) * scales - values)


def times_matrix(inputs: Tensor, matrix: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiply `inputs` (..., rows, input_dim) by `matrix` (input_dim, output_dim) in one product.

    `keras.ops.matmul` would use `tf.tensordot`, which computes shapes in the graph. The `bias`
    (output_dim,) is added to the rows of the product, which LiteRT computes in one operation.
    """
    rows = inputs if len(inputs.shape) == 2 else ops.reshape(inputs, (-1, inputs.shape[-1]))
    rows = ops.matmul(rows, matrix)
    rows = rows if bias is None else add_bias(rows, bias)
    if len(inputs.shape) == 2:
        return rows
    return ops.reshape(rows, (*sizes(inputs)[:-1], ops.shape(matrix)[-1]))


def sizes(tensor: Tensor) -> tuple[Any, ...]:
    """Return a tensor's sizes for `keras.ops.reshape`, with -1 for a single unknown size."""
    known = [-1 if size is None else size for size in tensor.shape]
    return tuple(known) if known.count(-1) <= 1 and 0 not in known else tuple(ops.shape(tensor))


def add_bias(outputs: Tensor, bias: Tensor) -> Tensor:
    """Return `outputs + bias`, added in float32 (float64 for float64) and rounded once.

    The gradient of `bias` is a sum over all rows. For bfloat16, compilers and kernels accumulate it
    in bfloat16, where a sum of thousands of terms stops growing: with 50,000 rows of the same sign
    on a CPU, it was off by 40% on JAX and by 98% on TensorFlow. Therefore, the sum must be computed
    in float32.

    Args:
        outputs: tensor (..., dim) of any float dtype.
        bias: tensor that broadcasts to the shape of `outputs`.

    Returns:
        Tensor with the shape and dtype of `outputs`.
    """
    dtype = precise_dtype(outputs)
    total = ops.add(ops.cast(outputs, dtype), ops.cast(bias, dtype))
    return ops.cast(total, outputs.dtype)


def precise_dtype(tensor: Tensor) -> str:
    """Return the dtype for precise sums and products: float64 for float64, otherwise float32."""
    return "float64" if keras.backend.standardize_dtype(tensor.dtype) == "float64" else "float32"


VALUES = 2**16  # of the random number that determines whether an activation is kept


@keras.saving.register_keras_serializable(package="keras_transformer")
class Dropout(RematerializedLayer, keras.layers.Dropout):
    """Keras's dropout with 16 random bits for each activation instead of 32.

    Generating random numbers takes up a tenth of a small model's training step on a CPU. The rate
    is rounded to a multiple of 1/65,536; the scale of kept activations matches the rounded rate.

    Args:
        rate: fraction of the activations to set to 0, in [0, 1).
        seed: integer seed for the masks; if None, Keras chooses a seed.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Call arguments:
        inputs: tensor of any shape.
        training: whether dropout is active.

    Returns:
        Tensor with the shape, dtype and Keras mask of `inputs`.

    Raises:
        ValueError: `noise_shape` is given.

    Example:
        >>> import numpy as np
        >>> tuple(Dropout(0.1)(np.ones((2, 3), "float32"), training=True).shape)
        (2, 3)

    Reference: Srivastava et al. (2014); Vaswani et al. (2017), section 5.4.
    """

    def __init__(self, rate: float, *, seed: int | None = None, **kwargs: Any) -> None:
        if kwargs.get("noise_shape") is not None:
            rule = "be None, as each activation has its own random number"
            refuse("noise_shape", rule, kwargs["noise_shape"])
        super().__init__(python_number(rate), seed=seed, **kwargs)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        dropped = min(round(self.rate * VALUES), VALUES - 1)
        if not dropped or not training:
            return inputs
        least = ops.cast(dropped - VALUES // 2, "int16")
        is_kept = ops.greater_equal(_random_integers(self.seed_generator, inputs), least)
        scale = ops.cast(VALUES / (VALUES - dropped), inputs.dtype)
        return ops.where(is_kept, inputs * scale, ops.zeros((), inputs.dtype))

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["noise_shape"]
        return config


def _random_integers(generator: keras.random.SeedGenerator, inputs: Tensor) -> Tensor:
    """Draw uniform 16-bit integers from -32,768 to 32,767 in the shape of `inputs`."""
    *rows, width = ops.shape(inputs)
    pairs = (*rows, (width + 1) // 2, 1)
    bits = keras.random.randint(pairs, -(2**31), 2**31 - 1, dtype="int32", seed=generator)
    bits = ops.reshape(ops.view(bits, "int16"), (*rows, 2 * pairs[-2]))
    return bits if width == inputs.shape[-1] and width % 2 == 0 else bits[..., :width]
