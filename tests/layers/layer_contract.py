"""What every layer of the package promises, in one check."""

import keras
import numpy as np


def check_layer_contract(layer, *inputs, **keyword_inputs):
    """Require that the layer's config round-trips to an equal layer and its shapes are as declared.

    Args:
        layer: a `keras.layers.Layer`.
        *inputs, **keyword_inputs: NumPy call arguments.
    """
    config = layer.get_config()
    output = layer(*inputs, **keyword_inputs)
    copy = type(layer).from_config(config)
    assert copy.get_config() == config
    assert keras.saving.get_registered_name(type(layer)).startswith("keras_transformer>")

    copy(*inputs, **keyword_inputs)
    copy.set_weights(layer.get_weights())
    np.testing.assert_allclose(
        copy(*inputs, **keyword_inputs),
        output,
        atol=1e-6,
    )

    symbols = [keras.KerasTensor(array.shape, str(array.dtype)) for array in inputs]
    symbolic_keywords = {
        name: keras.KerasTensor(value.shape, str(value.dtype))
        if isinstance(value, np.ndarray)
        else value
        for name, value in keyword_inputs.items()
    }
    spec = type(layer).from_config(config)(*symbols, **symbolic_keywords)
    assert tuple(spec.shape) == tuple(output.shape)
    shapes = [array.shape for array in inputs]
    if "reverse" not in keyword_inputs:
        assert tuple(copy.compute_output_shape(*shapes)) == tuple(output.shape)
    assert spec.dtype == keras.backend.standardize_dtype(output.dtype)
