"""Copies of models in other number formats."""

import keras
import numpy as np
import pytest

from keras_transformer.formats.guarded_generator import with_precision
from tests.random_translation import build

INPUTS = {
    "source_ids": np.array([[7, 8, 9, 2], [7, 2, 0, 0]], "int32"),
    "target_ids": np.array([[1, 8, 5], [1, 6, 0]], "int32"),
}


def dtypes(model):
    return {keras.backend.standardize_dtype(weight.dtype) for weight in model.weights}


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"positions": "learned", "max_length": 9, "use_bias": True, "normalize_first": True},
        {"source_vocabulary_size": 40, "value_dim": 4},
    ],
)
def test_a_copy_has_the_same_weights_rounded(tokenizer, overrides):
    model = build(tokenizer, **overrides)
    copy = with_precision(model, "bfloat16")
    assert dtypes(copy) == {"bfloat16"}
    assert dtypes(model) == {"float32"}
    for ours, original in zip(copy.weights, model.weights, strict=True):
        found = keras.ops.convert_to_numpy(keras.ops.cast(ours, "float32"))
        expected = keras.ops.convert_to_numpy(original)
        np.testing.assert_allclose(found, expected, rtol=2**-8)  # 8 bits of mantissa
    logits, expected = copy(INPUTS), model(INPUTS)
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    difference = keras.ops.convert_to_numpy(logits) - keras.ops.convert_to_numpy(expected)
    assert 0 < np.abs(difference).mean() < 0.05 * np.abs(expected).mean()


def test_a_model_that_has_the_format_is_no_copy(tokenizer):
    model = build(tokenizer)
    assert with_precision(model, "float32") is model


def test_a_model_that_was_trained_in_mixed_precision_computes_in_float32(tokenizer):
    mixed = build(tokenizer, dtype="mixed_bfloat16")
    copy = with_precision(mixed, "float32")
    assert {layer.compute_dtype for layer in copy.layers} == {"float32"}
    model = build(tokenizer)
    model.set_weights(mixed.get_weights())
    logits, expected = (keras.ops.convert_to_numpy(each(INPUTS)) for each in (copy, model))
    np.testing.assert_allclose(logits, expected, rtol=1e-6)
