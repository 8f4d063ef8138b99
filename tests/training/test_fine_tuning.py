"""What is frozen, and that it stays as it was."""

import keras
import numpy as np
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.models import build_transformer
from keras_transformer.training import freeze


def model(**options):
    sizes = {"hidden_dim": 8, "intermediate_dim": 8, "num_heads": 2, "vocabulary_size": 12}
    layers = {"num_encoder_layers": 2, "num_decoder_layers": 2, "normalize_first": True}
    return build_transformer("tiny", **{**sizes, **layers, **options})


@pytest.mark.parametrize(
    ("patterns", "frozen"),
    [
        ([], []),
        (["encoder"], ["encoder_layer_1", "encoder_layer_2", "encoder_norm"]),
        (["decoder"], ["decoder_layer_1", "decoder_layer_2", "decoder_norm"]),
        (["embeddings"], ["embedding"]),
        (["*_layer_1"], ["encoder_layer_1", "decoder_layer_1"]),
        (["decoder_norm", "encoder_layer_[12]"], None),
        (["encoder", "encoder_norm", "embedding"], None),
    ],
)
def test_names_words_and_patterns(patterns, frozen):
    if frozen is None:
        frozen = {
            "decoder_norm": ["encoder_layer_1", "encoder_layer_2", "decoder_norm"],
            "encoder": ["encoder_layer_1", "encoder_layer_2", "encoder_norm", "embedding"],
        }[patterns[0]]
    network = model()
    names = freeze(network, patterns)
    assert sorted(names) == sorted(frozen)
    order = [layer.name for layer in network.layers]
    assert names == sorted(names, key=order.index)


def test_separate_embeddings_are_frozen_together_or_alone():
    separate = {"source_vocabulary_size": 20}
    assert set(freeze(model(**separate), ["embeddings"])) == {
        "source_embedding", "target_embedding"
    }  # fmt: skip
    assert freeze(model(**separate), ["source_embedding"]) == ["source_embedding"]


@pytest.mark.slow
def test_frozen_weights_stay_and_the_others_learn():
    network = model(dropout=0.0)
    freeze(network, ["encoder", "embeddings"])
    network.compile(
        keras.optimizers.Adam(0.1),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    before = {weight.path: np.array(weight.numpy()) for weight in network.weights}
    ids = np.array([[3, 4, 5]], "int32")
    network.fit({"source_ids": ids, "target_ids": ids}, ids, epochs=1, verbose=0)
    changed = {
        weight.path.split("/")[0]
        for weight in network.weights
        if not np.array_equal(weight.numpy(), before[weight.path])
        and "seed_generator" not in weight.path
    }
    assert changed == {"decoder_layer_1", "decoder_layer_2", "decoder_norm"}


def test_a_pattern_without_a_layer_names_those_there_are():
    network = model()
    with pytest.raises(UserInputError, match=r"called encoders\. .*embedding, encoder_layer_1, .*"):
        freeze(network, ["decoder", "encoders"])
    assert all(layer.trainable for layer in network.layers)


def test_something_must_be_left_to_train():
    network = model()
    with pytest.raises(UserInputError, match="none is left to train"):
        freeze(network, ["encoder", "decoder", "embeddings"])
    freeze(network, ["encoder", "decoder"])
    with pytest.raises(UserInputError, match="none is left to train"):
        freeze(network, ["embeddings"])
