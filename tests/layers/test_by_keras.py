"""Every public layer under Keras's own test: config, saving, dtypes, mixed precision, training.

And under `check_layer_contract`: a copy of equal weights, and the shapes that it declares.
"""

import numpy as np
import pytest
from keras.src.testing import TestCase

from keras_transformer import layers
from tests.layers.layer_contract import check_layer_contract
from tests.layers.numpy_layers import random

VECTORS = (2, 4, 8)
IDS = {"input_shape": (2, 4), "input_dtype": "int32"}
OF_VECTORS = {
    "input_shape": VECTORS,
    "expected_output_shape": VECTORS,
    "supports_masking": True,
}
OF_IDS = {**IDS, "expected_output_shape": (2, 4, 6), "supports_masking": True}
PAIR = {"run_training_check": False}  # that training hands over one tensor alone
SIZES = {"intermediate_dim": 12, "num_heads": 2}
EVERYTHING = {
    **SIZES,
    "key_dim": 3,
    "value_dim": 5,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "activation_dropout": 0.1,
    "activation": "gelu",
    "kernel_initializer": "he_normal",
    "bias_initializer": "random_normal",
    "layer_norm_epsilon": 1e-5,
    "normalize_first": True,
    "use_bias": True,
    "attention_window": 3,
}
CASES = {
    "FeedForward": (
        {"intermediate_dim": 12, "dropout": 0.1, "activation": "swish"},
        OF_VECTORS,
    ),
    "MultiHeadAttention": (
        {"num_heads": 2, "key_dim": 3, "dropout": 0.1, "use_bias": True},
        {**OF_VECTORS, "expected_num_trainable_weights": 4},
    ),
    "MultiHeadAttention to a value by keys": (
        {"num_heads": 2, "key_dim": 3, "value_dim": 5},
        {
            "input_shape": {
                "query_shape": VECTORS,
                "value_shape": (2, 6, 7),
                "key_shape": (2, 6, 5),
            },
            "expected_output_shape": VECTORS,
            "expected_num_trainable_weights": 4,
            **PAIR,
        },
    ),
    "SSRU": (
        {"kernel_initializer": "he_normal"},
        {**OF_VECTORS, "expected_num_trainable_weights": 3},
    ),
    "PaddingMask": (
        {"padding_id": 3},
        {**IDS, "expected_output_shape": (2, 1, 4), "expected_output_dtype": "bool", **PAIR},
    ),
    "PositionalEmbedding": (
        {"vocabulary_size": 10, "hidden_dim": 6, "positions": "learned", "max_length": 5},
        {**OF_IDS, "expected_num_trainable_weights": 2},
    ),
    "PositionalEmbedding with a mask": (
        {"vocabulary_size": 10, "hidden_dim": 6, "mask_id": 0},
        {**OF_IDS, "expected_num_trainable_weights": 1},
    ),
    "ResidualBlock": (
        {"dropout": 0.1, "normalize_first": True},
        {
            "input_shape": {"inputs_shape": VECTORS, "outputs_shape": VECTORS},
            "expected_output_shape": VECTORS,
            "supports_masking": True,
            **PAIR,
        },
    ),
    "TokenEmbedding": (
        {"vocabulary_size": 10, "hidden_dim": 6},
        {**OF_IDS, "expected_num_trainable_weights": 1},
    ),
    "TransformerDecoderLayer": (
        EVERYTHING,
        {**OF_VECTORS, "expected_num_trainable_weights": 12},
    ),
    "TransformerDecoderLayer with a memory": (
        {**SIZES, "b2t_connection": True, "residual_scale": 1.2, "positions": "rotary"},
        {
            "input_shape": {"inputs_shape": VECTORS, "memory_shape": (2, 5, 6)},
            "expected_output_shape": VECTORS,
            "expected_num_trainable_weights": 15,
            **PAIR,
        },
    ),
    "TransformerEncoderLayer": (
        EVERYTHING,
        {**OF_VECTORS, "expected_num_trainable_weights": 12},
    ),
    "TransformerEncoderLayer with scores": (
        SIZES,
        {
            "input_shape": VECTORS,
            "call_kwargs": {"return_attention_scores": True},
            "expected_output_shape": (VECTORS, (2, 2, 4, 4)),
            **PAIR,
        },
    ),
}


def test_every_public_layer_is_there():
    assert {case.split()[0] for case in CASES} == set(layers.__all__)


@pytest.mark.parametrize("case", CASES)
def test_a_layer_by_keras(case):
    init_kwargs, expectations = CASES[case]
    if isinstance(expectations["input_shape"], dict):
        shapes = expectations["input_shape"]
        expectations = {**expectations, "input_dtype": dict.fromkeys(shapes, "float32")}
    TestCase().run_layer_test(getattr(layers, case.split()[0]), init_kwargs, **expectations)


@pytest.mark.parametrize("case", [case for case in CASES if not case.endswith("scores")])
def test_a_layer_keeps_its_contract(case):
    init_kwargs, expectations = CASES[case]
    if "input_dtype" in expectations:
        inputs = [np.array([[5, 2, 9, 3], [1, 0, 0, 0]], "int32")]
    else:
        shapes = expectations["input_shape"]
        shapes = shapes.values() if isinstance(shapes, dict) else [shapes]
        inputs = [random(*shape) for shape in shapes]
    check_layer_contract(getattr(layers, case.split()[0])(**init_kwargs), *inputs)
