"""What is frozen, and that it stays as it was; what has adapters."""

import keras
import numpy as np
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.layers import TransformerEncoderLayer
from keras_transformer.losses import LabelSmoothingCrossEntropy
from keras_transformer.models import build_language_model, build_transformer
from keras_transformer.training import enable_lora, freeze, round_to_int8

SIZES = {"hidden_dim": 8, "intermediate_dim": 8, "num_heads": 2, "vocabulary_size": 12}


def model(**options):
    layers = {"num_encoder_layers": 2, "num_decoder_layers": 2, "normalize_first": True}
    return build_transformer("tiny", **{**SIZES, **layers, **options})


@pytest.mark.parametrize(
    ("patterns", "frozen"),
    [
        ([], []),
        (["encoder"], ["encoder_layer_1", "encoder_layer_2", "encoder_norm"]),
        (["decoder"], ["decoder_layer_1", "decoder_layer_2", "decoder_norm"]),
        (["embeddings"], ["embedding"]),
        (["*_layer_1"], ["encoder_layer_1", "decoder_layer_1"]),
        (
            ["decoder_norm", "encoder_layer_[12]"],
            ["encoder_layer_1", "encoder_layer_2", "decoder_norm"],
        ),
        (
            ["encoder", "encoder_norm", "embedding"],
            ["encoder_layer_1", "encoder_layer_2", "encoder_norm", "embedding"],
        ),
    ],
)
def test_names_words_and_patterns(patterns, frozen):
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
    with pytest.raises(UserInputError, match="None is left to train"):
        freeze(network, ["encoder", "decoder", "embeddings"])
    freeze(network, ["encoder", "decoder"])
    with pytest.raises(UserInputError, match="None is left to train"):
        freeze(network, ["embeddings"])


def test_adapters_are_all_that_lora_trains():
    network = model(use_bias=True, dropout=0.0)
    ids = np.array([[3, 4, 5]], "int32")
    before = np.array(network({"source_ids": ids, "target_ids": ids}))
    enable_lora(network, 2)
    names = [weight.name for weight in network.trainable_weights]
    assert set(names) == {
        "lora_embeddings_a", "lora_embeddings_b", "lora_kernel_a", "lora_kernel_b"
    }  # fmt: skip
    # Of the embeddings, and of each layer: two projections of self-attention, three of attention
    # to the encoder, two maps.
    assert len(names) == 2 * (1 + 2 * 4 + 2 * 7)
    after = np.array(network({"source_ids": ids, "target_ids": ids}))
    np.testing.assert_allclose(after, before, atol=1e-6)


def test_lora_leaves_out_what_is_frozen():
    network = model()
    freeze(network, ["encoder", "embeddings"])
    enable_lora(network, 2)
    owners = {weight.path.split("/")[0] for weight in network.trainable_weights}
    assert owners == {"decoder_layer_1", "decoder_layer_2"}
    assert not any("lora" in w.path for w in network.weights if "decoder" not in w.path)


def test_a_file_of_a_compiled_model_with_adapters_is_loaded(tmp_path):
    network, ids = model(), np.array([[5, 6, 2]], "int32")
    freeze(network, ["encoder"])  # then the adapters are as many as the matrices
    enable_lora(network, 2)
    network.compile("adam", LabelSmoothingCrossEntropy())
    network.fit({"source_ids": ids, "target_ids": ids}, ids, verbose=0)
    network.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert not loaded.compiled
    expected, found = (
        np.array(each({"source_ids": ids, "target_ids": ids})) for each in (network, loaded)
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_lora_on_a_language_model():
    network = build_language_model(num_decoder_layers=1, **SIZES)
    enable_lora(network, rank=2, lora_alpha=4)
    assert len(network.trainable_weights) == 2 * (1 + 4)


def constrained():
    inputs = keras.Input((3, 8))
    layer = TransformerEncoderLayer(8, 2, kernel_constraint=keras.constraints.MaxNorm(1))
    return keras.Model(inputs, layer(inputs))


def quantized():
    network = model()
    network.quantize("int8")
    return network


def adapted():
    network = model()
    enable_lora(network, 2)
    return network


def dense():
    inputs = keras.Input((3,))
    return keras.Model(inputs, keras.layers.Dense(3, name="logits")(inputs))


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (model, {"rank": 0}, "`rank` must be a positive integer. Received: rank=0"),
        (model, {"rank": 2.5}, "`rank` must be a positive integer. Received: rank=2.5"),
        (model, {"rank": 9}, "`rank` must be at most 8, the smaller side of .*Received: rank=9"),
        (model, {"rank": 2, "lora_alpha": -1}, "`lora_alpha` must be .*Received: lora_alpha=-1"),
        (adapted, {"rank": 2}, "`enable_lora` must be called once"),
        (dense, {"rank": 2}, "must have attention, feed-forward .*Received: .*logits"),
        (constrained, {"rank": 2}, "cannot have a constraint .*with kernel_constraint="),
        (quantized, {"rank": 2}, "or be quantized. Received: .* with quantization_mode=int8"),
    ],
)
def test_models_that_lora_does_not_suit(make, options, message):
    network = make()
    before = [weight.path for weight in network.trainable_weights]
    with pytest.raises(ValueError, match=message):
        enable_lora(network, **options)
    assert [weight.path for weight in network.trainable_weights] == before


def test_a_rounded_model_computes_with_int8_matrices_and_trains_its_own_weights():
    network = model(dropout=0.0, use_bias=True)
    ids = np.array([[3, 4, 5, 2], [6, 2, 0, 0]])
    inputs = {"source_ids": ids, "target_ids": ids}
    kept = network.get_weights()
    for weight in network.weights:
        values = keras.ops.convert_to_numpy(weight)
        if values.ndim == 2:  # the vectors of tokens are rows; other channels are columns
            scales = (
                np.abs(values).max(-1 if "embedding" in weight.path else 0, keepdims=True) / 127
            )
            weight.assign(np.rint(values / scales) * scales)
    expected = keras.ops.convert_to_numpy(network(inputs))
    network.set_weights(kept)
    plain = keras.ops.convert_to_numpy(network(inputs))
    round_to_int8(network)
    found = keras.ops.convert_to_numpy(network(inputs))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(found - plain).max() > 1e-4
    network.compile(keras.optimizers.SGD(1e-4), LabelSmoothingCrossEntropy(0.1, padding_id=0))
    network.fit(inputs, ids, verbose=0)
    for before, now in zip(kept, network.get_weights(), strict=True):
        assert np.abs(before - now).max() < 1e-3  # not rounded
    assert any(
        (before != now).any() for before, now in zip(kept, network.get_weights(), strict=True)
    )
