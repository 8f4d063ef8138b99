"""Numbers as arguments: NumPy's are taken as Python's are, and configs hold Python's own."""

import json
import math

import numpy as np
import pytest

from keras_transformer import layers
from keras_transformer.argument_checks import (
    check_positive_int,
    check_positive_number,
    check_rate,
    check_window,
)
from keras_transformer.layers import (
    FeedForward,
    MultiHeadAttention,
    PaddingMask,
    PositionalEmbedding,
    ResidualBlock,
    TransformerDecoderLayer,
)
from keras_transformer.layers.dense import Dropout
from keras_transformer.losses import LabelSmoothingCrossEntropy
from keras_transformer.metrics import Perplexity
from keras_transformer.models.model_options import ModelOptions
from keras_transformer.schedules import TransformerSchedule

THREE, HALF = np.int64(3), np.float32(0.5)


@pytest.mark.parametrize(
    "made",
    [
        lambda: Dropout(HALF),
        lambda: FeedForward(THREE, dropout=HALF, initial_gain=HALF),
        lambda: MultiHeadAttention(
            THREE, THREE, value_dim=THREE, dropout=HALF, attention_window=THREE, initial_gain=HALF
        ),
        lambda: PaddingMask(padding_id=THREE),
        lambda: PositionalEmbedding(
            THREE, THREE, max_length=THREE, num_tables=THREE, dropout=HALF, word_dropout=HALF,
            mask_id=np.int64(2),
        ),
        lambda: PositionalEmbedding(THREE, THREE).token_embedding,
        lambda: ResidualBlock(dropout=HALF, layer_norm_epsilon=HALF, scale=HALF),
        lambda: TransformerDecoderLayer(
            THREE, THREE, key_dim=THREE, value_dim=THREE, dropout=HALF, attention_dropout=HALF,
            activation_dropout=HALF, layer_norm_epsilon=HALF, attention_window=THREE,
            residual_scale=HALF, initial_gain=HALF,
        ),
        lambda: LabelSmoothingCrossEntropy(HALF, padding_id=THREE, vocabulary_size=THREE),
        lambda: Perplexity(padding_id=THREE),
        lambda: TransformerSchedule(THREE, warmup_steps=THREE, scale=HALF),
    ],
)  # fmt: skip
def test_a_config_with_numpy_numbers_is_json(made):
    config = made().get_config()
    assert json.loads(json.dumps(config)) == config


def test_a_model_counts_with_python_integers():
    options = ModelOptions.of("tiny", vocabulary_size=np.int32(2**20), hidden_dim=np.int32(2**12))
    assert options.vocabulary_size * options.hidden_dim == 2**32


@pytest.mark.parametrize("value", [True, np.True_, "3", None, np.array(3), 3.0, np.float64(3)])
def test_what_is_no_integer_is_refused(value):
    with pytest.raises(ValueError, match="`n` must be a positive integer. Received: n="):
        check_positive_int("n", value)


@pytest.mark.parametrize("value", [True, np.True_, "0.5", None, np.array(0.5), math.nan, np.inf])
def test_what_is_no_finite_number_is_refused(value):
    with pytest.raises(ValueError, match="`x` must be a finite number > 0. Received: x="):
        check_positive_number("x", value)
    with pytest.raises(ValueError, match=r"`x` must be a number in \[0, 1\). Received: x="):
        check_rate("x", value)


@pytest.mark.parametrize("value", [0, 4, -3, 2.0, True, "5", 2**31 + 1])
def test_a_window_is_odd(value):
    rule = f"`n` must be an odd positive integer, or None. Received: n={value!r}"
    with pytest.raises(ValueError, match=rule):
        check_window("n", value)


SIZES = {
    "FeedForward": {"intermediate_dim": 12},
    "MultiHeadAttention": {"num_heads": 2, "key_dim": 4},
    "PositionalEmbedding": {"vocabulary_size": 10, "hidden_dim": 6},
    "TokenEmbedding": {"vocabulary_size": 10, "hidden_dim": 6},
    "TransformerDecoderLayer": {"intermediate_dim": 12, "num_heads": 2},
    "TransformerEncoderLayer": {"intermediate_dim": 12, "num_heads": 2},
}
WRONG = {
    "intermediate_dim": 0, "vocabulary_size": 0, "hidden_dim": 0, "max_length": 0, "num_heads": 2.0,
    "key_dim": 0, "value_dim": -1, "num_tables": 1.5, "padding_id": -1, "hidden_id": -1,
    "mask_id": -1, "zero_id": 0.5, "dropout": 1.5, "attention_dropout": 1.0,
    "activation_dropout": -0.1, "word_dropout": True, "layer_norm_epsilon": math.inf,
    "residual_scale": 0, "initial_gain": -1.0, "scale": 0, "use_bias": 0.1, "normalize_first": 1,
    "b2t_connection": 1, "qk_norm": None, "tie_weights": 0.1, "use_logits_bias": 0,
    "attention_window": 4, "seed": 0.5, "kernel_initializer": None, "bias_initializer": "ohnes",
}  # fmt: skip


@pytest.mark.parametrize("name", layers.__all__)
def test_wrong_arguments_of_layers_are_named(name):
    layer_class, sizes = getattr(layers, name), SIZES.get(name, {})
    for argument in layer_class(**sizes).get_config().keys() & WRONG.keys():
        value = WRONG[argument]
        with pytest.raises(ValueError, match=f"`{argument}` must be .*{argument}={value!r}"):
            layer_class(**{**sizes, argument: value})


@pytest.mark.parametrize("name", layers.__all__)
def test_only_sizes_are_positional(name):
    with pytest.raises(TypeError, match="positional"):
        getattr(layers, name)(*SIZES.get(name, {}).values(), 1)
