import dataclasses

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.models import (
    PRESETS,
    ModelOptions,
    Transformer,
    build_language_model,
    build_transformer,
)
from keras_transformer.models.model_options import TransformerKeywords

VOCABULARY = 37
VARIANTS = {
    "post-norm": {},
    "pre-norm": {"normalize_first": True},
    "learned positions": {"positions": "learned", "max_length": 9},
    "attention biases": {"use_bias": True},
    "restricted attention": {"attention_window": 3},
    "free head sizes": {"num_heads": 3, "key_dim": 4, "value_dim": 5},
    "separate vocabularies": {"source_vocabulary_size": 29},
    "every other option": {
        "activation": "gelu",
        "layer_norm_epsilon": 1e-2,
        "kernel_initializer": "he_uniform",
        "bias_initializer": "ones",
        "final_norm": True,
        "attention_window": 5,
        "tie_weights": False,
        "use_logits_bias": True,
    },
    "deepnorm": {"residual_connection": "deepnorm", "word_dropout": 0.2},
    "b2t": {"residual_connection": "b2t"},
    "normalized queries and keys": {"qk_norm": True},
    "pre-norm without final norm": {"normalize_first": True, "final_norm": False},
    "positions of words": {
        "positions": "words",
        "source_vocabulary_size": 29,
        "source_word_starts": (2, *range(5, 20)),
        "target_word_starts": (1, *range(5, 20)),
    },
}
CASES = [pytest.param(overrides, id=name) for name, overrides in VARIANTS.items()]
SOME_CASES = [
    pytest.param(
        overrides,
        id=name,
        marks=() if name in ("post-norm", "every other option") else pytest.mark.slow,
    )
    for name, overrides in VARIANTS.items()
]
# Millions of parameters in Table 3, and how close ours are at 37,000 tokens.
PAPER_PARAMETERS = {
    "base": 65, "B-dk16": 58, "B-dk32": 60, "C-N2": 36, "C-N4": 50, "C-N8": 80, "C-d256": 28,
    "C-d1024": 168, "C-ff1024": 53, "C-ff4096": 90, "big": 213,
}  # fmt: skip


def small_model(**overrides):
    sizes = {
        "num_encoder_layers": 2,
        "num_decoder_layers": 2,
        "hidden_dim": 12,
        "intermediate_dim": 16,
        "num_heads": 2,
    }
    return build_transformer("tiny", vocabulary_size=VOCABULARY, **{**sizes, **overrides})


def batch(seed=0):
    generator = np.random.default_rng(seed)
    source_ids = generator.integers(4, 29, (3, 7)).astype("int32")
    source_ids[1, 4:] = 0
    target_ids = generator.integers(4, VOCABULARY, (3, 5)).astype("int32")
    return {"source_ids": source_ids, "target_ids": target_ids}


def logits_of(model, inputs):
    return ops.convert_to_numpy(model(inputs))


@pytest.mark.parametrize("overrides", CASES)
def test_steps_equal_the_model(overrides):
    model, inputs = small_model(**overrides), batch()
    expected = logits_of(model, inputs)
    memory_state, cache = model.start(inputs["source_ids"], beam_size=2, length=6)
    other_beam = batch(seed=1)["target_ids"]
    for index in range(5):
        token_ids = np.stack([other_beam[:, index], inputs["target_ids"][:, index]], axis=1)
        logits, cache = model.step(ops.convert_to_tensor(token_ids), index, memory_state, cache)
        actual = ops.convert_to_numpy(logits)[:, 1]
        np.testing.assert_allclose(actual, expected[:, index], atol=1e-5)


@pytest.mark.parametrize("overrides", SOME_CASES)
def test_saved_models_reload_in_safe_mode(overrides, tmp_path):
    model, inputs = small_model(**overrides), batch()
    model.save(tmp_path / "model.keras")
    reloaded = keras.saving.load_model(tmp_path / "model.keras", safe_mode=True)
    np.testing.assert_allclose(logits_of(reloaded, inputs), logits_of(model, inputs), atol=1e-6)
    rebuilt = keras.models.model_from_json(model.to_json())
    rebuilt.set_weights(model.get_weights())
    np.testing.assert_allclose(logits_of(rebuilt, inputs), logits_of(model, inputs), atol=1e-6)
    assert reloaded.vocabulary_size == VOCABULARY


def test_one_matrix_embeds_source_and_target_and_gives_the_logits():
    model = small_model()
    matrices = [weight for weight in model.weights if VOCABULARY in weight.shape]
    assert len(matrices) == 1
    assert len([w for w in small_model(source_vocabulary_size=29).weights if 29 in w.shape]) == 1


def test_untied_logits_have_a_matrix_of_their_own():
    for options, number in (({}, 2), ({"source_vocabulary_size": 29}, 2)):
        model = small_model(tie_weights=False, **options)
        assert len([weight for weight in model.weights if VOCABULARY in weight.shape]) == number
        inputs = batch()
        expected = logits_of(model, inputs)
        matrix = model.target_embedding.token_embedding.reverse_matrix
        matrix.assign(2 * matrix)
        np.testing.assert_allclose(logits_of(model, inputs), 2 * expected, rtol=1e-4, atol=1e-5)


def test_every_layer_has_the_options():
    options = VARIANTS["every other option"]
    layers = small_model(**options)
    for layer in (*layers.encoder_layers, *layers.decoder_layers):
        config = layer.get_config()
        assert (config["activation"], config["layer_norm_epsilon"]) == ("gelu", 1e-2)
        assert config["attention_window"] == 5
        assert (ops.convert_to_numpy(layer.feed_forward.expand.bias) == 1).all()
    for norm in (layers.encoder_norm, layers.decoder_norm):
        assert norm.epsilon == 1e-2
    for options in ({}, {"normalize_first": True, "final_norm": False}):
        assert small_model(**options).decoder_norm is None
    assert small_model(normalize_first=True).encoder_norm is not None


def test_deepnorm_has_the_scales_of_its_depths():
    layers = small_model(residual_connection="deepnorm", num_encoder_layers=3, num_decoder_layers=2)
    for layer in layers.encoder_layers:
        assert layer.residual_scale == pytest.approx(0.81 * (3**4 * 2) ** (1 / 16))
        assert layer.initial_gain == pytest.approx(0.87 * (3**4 * 2) ** (-1 / 16))
    for layer in layers.decoder_layers:
        assert layer.residual_scale == pytest.approx((3 * 2) ** 0.25)
        assert layer.initial_gain == pytest.approx((12 * 2) ** -0.25)
        assert layer.cross_attention_block.scale == layer.residual_scale
    in_both = layers.encoder_layers[0]
    layers = small_model(
        residual_connection="encoder_deepnorm", num_encoder_layers=3, num_decoder_layers=2
    )
    for layer in layers.encoder_layers:
        assert layer.residual_scale == in_both.residual_scale
        assert layer.initial_gain == in_both.initial_gain
    for layer in layers.decoder_layers:
        assert (layer.residual_scale, layer.initial_gain) == (1, 1)


def test_deepnorm_has_scales_without_an_encoder():
    sizes = {"hidden_dim": 8, "intermediate_dim": 8, "num_heads": 2, "num_decoder_layers": 2}
    model = build_language_model(vocabulary_size=9, residual_connection="deepnorm", **sizes)
    for layer in model.decoder_layers:
        assert layer.residual_scale == pytest.approx((2 * 2) ** 0.25)
        assert layer.initial_gain == pytest.approx((8 * 2) ** -0.25)


def test_other_residual_connections_are_for_post_norm():
    with pytest.raises(ValueError, match="must be 'plain' with .*, normalize_first=True"):
        small_model(residual_connection="deepnorm", normalize_first=True)
    with pytest.raises(ValueError, match="must be different for a model without an encoder"):
        build_language_model(vocabulary_size=9, residual_connection="encoder_deepnorm")
    with pytest.raises(ValueError, match="`residual_connection` must be one of"):
        small_model(residual_connection="rezero")


def test_the_keywords_are_the_options():
    assert TransformerKeywords.__annotations__.keys() == {
        field.name for field in dataclasses.fields(ModelOptions)
    }


def test_padding_of_the_source_changes_nothing():
    model, inputs = small_model(), batch()
    padded = np.pad(inputs["source_ids"], ((0, 0), (0, 4)))
    expected = logits_of(model, inputs)
    actual = logits_of(model, {**inputs, "source_ids": padded})
    np.testing.assert_allclose(actual, expected, atol=1e-5)
    alone = {name: ids[1:2] for name, ids in inputs.items()}
    alone["source_ids"] = alone["source_ids"][:, :4]
    np.testing.assert_allclose(logits_of(model, alone)[0], expected[1], atol=1e-5)


def test_the_padding_id_is_free():
    model, inputs = small_model(padding_id=9), batch()
    inputs["source_ids"][inputs["source_ids"] == 9] = 10
    inputs["source_ids"][inputs["source_ids"] == 0] = 9
    shorter = {**inputs, "source_ids": inputs["source_ids"][:, :4]}
    np.testing.assert_allclose(logits_of(model, inputs)[1], logits_of(model, shorter)[1], atol=1e-5)
    assert model.padding_id == 9


def test_logits_are_float32_and_the_model_is_functional():
    model = small_model(dtype="mixed_bfloat16")
    assert model.output.dtype == "float32"
    assert [tensor.name for tensor in model.inputs] == ["source_ids", "target_ids"]
    assert {tensor.dtype for tensor in model.inputs} == {"int32"}
    assert type(model) is Transformer
    assert tuple(model.output.shape) == (None, None, VOCABULARY)
    state, cache = model.start(batch()["source_ids"], beam_size=1, length=2)
    logits, new_cache = model.step(np.ones((3, 1), "int32"), 0, state, cache)
    assert keras.backend.standardize_dtype(logits.dtype) == model.output.dtype
    dtypes = [keras.tree.map_structure(lambda tensor: tensor.dtype, c) for c in (new_cache, cache)]
    assert dtypes[0] == dtypes[1]


@pytest.mark.tensorflow
def test_weights_made_before_a_loop_change_nothing():
    layers = small_model(dtype="mixed_bfloat16", tie_weights=False)
    weights = layers.step_weights()
    assert len(weights.cast) == 7 * len(layers.decoder_layers)  # all that a step multiplies by
    with weights.in_place():
        assert all(variable.value.dtype == "bfloat16" for variable, _ in weights.cast)
    state, cache = layers.start(batch()["source_ids"], beam_size=1, length=1)
    tokens = np.ones((3, 1), "int32")
    expected, _ = layers.step(tokens, 0, state, cache)
    logits, _ = layers.step(tokens, 0, state, cache, weights)
    np.testing.assert_array_equal(logits, expected)


@pytest.mark.parametrize("preset", PAPER_PARAMETERS)
def test_parameters_of_table_3(preset):
    sizes = PRESETS[preset]
    millions = PAPER_PARAMETERS[preset]
    count = count_parameters(sizes, 37_000)
    assert count / 1e6 == pytest.approx(millions, rel=0.07 if preset == "C-N2" else 0.05)


def count_parameters(sizes, vocabulary_size):
    """By hand: embeddings, attention matrices, feed-forward networks, norms."""
    d, inner, heads = sizes.hidden_dim, sizes.intermediate_dim, sizes.num_heads
    key, value = sizes.key_dim or d // heads, sizes.value_dim or sizes.key_dim or d // heads
    attention = 2 * d * heads * (key + value)
    feed_forward = 2 * d * inner + inner + d
    encoder_layer = attention + feed_forward + 2 * 2 * d
    decoder_layer = 2 * attention + feed_forward + 3 * 2 * d
    return (
        vocabulary_size * d
        + sizes.num_encoder_layers * encoder_layer
        + sizes.num_decoder_layers * decoder_layer
    )


@pytest.mark.tensorflow  # sizes are no business of the backend
@pytest.mark.parametrize("preset", ["tiny", "B-dk16", "C-N2", "C-d256", "A-h32"])
def test_built_models_have_the_counted_parameters(preset):
    model = build_transformer(preset, vocabulary_size=50)
    assert model.count_params() == count_parameters(PRESETS[preset], 50)


@pytest.mark.tensorflow
def test_every_row_of_table_3_builds():
    rows = (
        "A-h1 A-h4 A-h16 A-h32 B-dk16 B-dk32 C-N2 C-N4 C-N8 C-d256 C-d1024 C-ff1024 C-ff4096 "
        "D-drop0 D-drop2 D-ls0 D-ls2 E-learned"
    ).split()
    assert set(PRESETS) == {"tiny", "small", "base", "big", *rows}
    for row in rows:
        # A thinner model of the same kind: the sizes themselves are checked above.
        model = build_transformer(
            row, vocabulary_size=20, num_encoder_layers=1, num_decoder_layers=1
        )
        assert model.output_shape == (None, None, 20)


def test_training_values_of_table_3():
    assert PRESETS["base"].training_steps == 100_000
    assert PRESETS["big"].training_steps == 300_000
    assert (PRESETS["big"].dropout, PRESETS["D-drop0"].dropout) == (0.3, 0.0)
    assert (PRESETS["D-ls0"].label_smoothing, PRESETS["D-ls2"].label_smoothing) == (0.0, 0.2)
    assert PRESETS["A-h1"].hidden_dim // PRESETS["A-h1"].num_heads == 512


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"preset": "huge"}, r"`preset` must be one of .*'base'"),
        ({"layer_norm_epsilon": 0}, r"`layer_norm_epsilon` must be a finite number > 0"),
        ({"positions": "rotated"}, r"`positions` must be one of .*'words'.*'rotated'"),
        ({"positions": "rotary", "key_dim": 3}, r"`key_dim` must be even .*key_dim=3$"),
        ({"num_heads": 7}, r"multiple of `num_heads`, .*Received: hidden_dim=128, num_heads=7"),
        ({"num_heads": 7, "value_dim": 8}, r"multiple of `num_heads`, unless `key_dim` is given"),
        ({"padding_id": 20}, r"`padding_id` must be less than `vocabulary_size`. .*=20, .*=20$"),
        ({"padding_id": -1}, r"`padding_id` must be an integer >= 0. Received: padding_id=-1"),
        (
            {"source_vocabulary_size": 9, "padding_id": 9},
            r"`padding_id` must be less than `source_vocabulary_size`. .*=9, .*=9$",
        ),
        ({"num_encoder_layers": 0}, r"`num_encoder_layers` must be a positive integer"),
        ({"vocabulary_size": 0}, r"`vocabulary_size` must be a positive integer"),
        ({"final_norm": "no"}, r"`final_norm` must be True or False"),
        ({"attention_dropout": None}, r"`attention_dropout` must be a number .*=None"),
        ({"kernel_initializer": None}, r"`kernel_initializer` must be an initializer.*=None"),
        ({"attention_window": 4}, r"`attention_window` must be an odd positive .*=4"),
        ({"dropout": 2}, r"`dropout` must be a number in \[0, 1\)"),
        ({"positions": "words"}, r"`positions=\"words\"` needs all of .*source_word_starts"),
        (
            {"source_vocabulary_size": 9, "target_word_starts": [1]},
            r"are only for `positions=\"words\"`. Received: positions='sinusoidal'",
        ),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    arguments = {"preset": "tiny", "vocabulary_size": 20, **arguments}
    with pytest.raises(ValueError, match=message):
        build_transformer(**arguments)


@pytest.mark.parametrize("build", [build_transformer, build_language_model])
def test_values_are_as_wide_as_keys_unless_they_are_given(build):
    sizes = {"vocabulary_size": 9, "num_decoder_layers": 1, "num_heads": 7, "key_dim": 8}
    layer = build("tiny", **sizes).get_layer("decoder_layer_1")
    assert (layer.key_dim, layer.value_dim) == (8, 8)
    assert ModelOptions.of("base", vocabulary_size=9).value_dim == 64
    assert ModelOptions.of("base", vocabulary_size=9, key_dim=16, value_dim=4).value_dim == 4
    rows = [ModelOptions.of(name, vocabulary_size=9) for name in ("B-dk16", "B-dk32")]
    assert [(row.key_dim, row.value_dim) for row in rows] == [(16, 64), (32, 64)]


def test_no_activation_is_none():
    options = {"num_encoder_layers": 1, "num_decoder_layers": 1, "activation": None}
    model = build_transformer("tiny", vocabulary_size=20, **options)
    assert model.get_layer("encoder_layer_1").activation is keras.activations.linear


def test_an_unknown_option_is_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'hidden'"):
        build_transformer("tiny", vocabulary_size=20, hidden=3)
    with pytest.raises(TypeError, match="Did you mean .*`num_encoder_layers`"):
        build_transformer("tiny", vocabulary_size=20, num_layers=3)


def test_a_foreign_model_is_refused():
    inputs = keras.Input((4,))
    with pytest.raises(ValueError, match="must come from `build_transformer`"):
        Transformer.of(keras.Model(inputs, inputs + 1))
