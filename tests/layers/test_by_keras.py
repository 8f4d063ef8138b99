"""Every public layer under Keras's own test: config, saving, dtypes, mixed precision, training."""

import pytest
from keras.src.testing import TestCase

from keras_transformer import layers

VECTORS = (2, 4, 8)
IDS = {"input_shape": (2, 4), "input_dtype": "int32"}
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
        {"input_shape": VECTORS, "expected_output_shape": VECTORS, "supports_masking": True},
    ),
    "MultiHeadAttention": (
        {"num_heads": 2, "key_dim": 3, "dropout": 0.1, "use_bias": True},
        {
            "input_shape": VECTORS,
            "expected_output_shape": VECTORS,
            "expected_num_trainable_weights": 4,
            "supports_masking": True,
        },
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
        {
            "input_shape": VECTORS,
            "expected_output_shape": VECTORS,
            "expected_num_trainable_weights": 3,
            "supports_masking": True,
        },
    ),
    "PaddingMask": (
        {"padding_id": 3},
        {**IDS, "expected_output_shape": (2, 1, 4), "expected_output_dtype": "bool", **PAIR},
    ),
    "PositionalEmbedding": (
        {"vocabulary_size": 10, "hidden_dim": 6, "positions": "learned", "max_length": 5},
        {
            **IDS,
            "expected_output_shape": (2, 4, 6),
            "expected_num_trainable_weights": 2,
            "supports_masking": True,
        },
    ),
    "PositionalEmbedding with a mask": (
        {"vocabulary_size": 10, "hidden_dim": 6, "mask_id": 0},
        {
            **IDS,
            "expected_output_shape": (2, 4, 6),
            "expected_num_trainable_weights": 1,
            "supports_masking": True,
        },
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
        {
            **IDS,
            "expected_output_shape": (2, 4, 6),
            "expected_num_trainable_weights": 1,
            "supports_masking": True,
        },
    ),
    "TransformerDecoderLayer": (
        EVERYTHING,
        {
            "input_shape": VECTORS,
            "expected_output_shape": VECTORS,
            "expected_num_trainable_weights": 12,
            "supports_masking": True,
        },
    ),
    "TransformerDecoderLayer with a memory": (
        SIZES,
        {
            "input_shape": {"inputs_shape": VECTORS, "memory_shape": (2, 5, 6)},
            "expected_output_shape": VECTORS,
            "expected_num_trainable_weights": 15,
            **PAIR,
        },
    ),
    "TransformerEncoderLayer": (
        EVERYTHING,
        {
            "input_shape": VECTORS,
            "expected_output_shape": VECTORS,
            "expected_num_trainable_weights": 12,
            "supports_masking": True,
        },
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
