"""Models traced for any batch and length, as an export on JAX does."""

import keras
import numpy as np
import pytest

from keras_transformer.models import build_language_model

pytestmark = [
    pytest.mark.core,
    pytest.mark.skipif(keras.backend.backend() != "jax", reason="symbolic shapes are JAX's"),
]


@pytest.mark.parametrize(
    "options",
    [{}, {"positions": "learned", "max_length": 32}, {"attention_window": 5}],
    ids=["sinusoidal", "learned", "window"],
)
def test_a_model_is_exported_for_any_length(options):
    import jax

    sizes = {"hidden_dim": 8, "intermediate_dim": 8, "num_heads": 2, "num_decoder_layers": 1}
    model = build_language_model(vocabulary_size=12, **sizes, **options)
    shape = jax.export.symbolic_shape("batch, length")
    exported = jax.export.export(jax.jit(lambda ids: model({"token_ids": ids}, training=False)))(
        jax.ShapeDtypeStruct(shape, "int32")
    )
    ids = np.random.default_rng(0).integers(1, 12, (2, 9)).astype("int32")
    expected = keras.ops.convert_to_numpy(model({"token_ids": ids}, training=False))
    np.testing.assert_allclose(np.asarray(exported.call(ids)), expected, atol=1e-5)
