"""Language models: the forward pass, its steps, and generation from prompts."""

import dataclasses
import itertools

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.layers import (
    PositionalEmbedding,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from keras_transformer.models import Transformer, build_transformer
from keras_transformer.search_options import SearchOptions
from tests.decoding.numpy_beam_search import without_padding
from tests.decoding.test_sequence_generator import (
    PROMPTS,
    TOKENS,
    VOCABULARY_SIZE,
    build_causal,
    to_numpy,
    with_opinion,
)
from tests.models.compiled_function import compiled

LENGTHS = [3, 1, 0]
VARIANTS = {
    "post-norm": {},
    "pre-norm": {"normalize_first": True, "use_bias": True},
    "learned positions": {"positions": "learned", "max_length": 9, "final_norm": True},
    "restricted attention": {"attention_window": 3},
    "positions of words": {"positions": "words", "word_starts": (5, 6)},
    "all that is new": {"activation": "swish", "layer_norm_epsilon": 1e-2, "tie_weights": False},
}


@pytest.fixture(scope="module")
def model():
    return build_causal()


def logits_of(model, token_ids):
    return ops.convert_to_numpy(model({"token_ids": token_ids}))


@pytest.mark.parametrize("overrides", VARIANTS.values(), ids=VARIANTS)
def test_steps_equal_the_model(overrides):
    model = build_causal(**overrides)
    token_ids = np.random.default_rng(0).integers(4, VOCABULARY_SIZE, (3, 5)).astype("int32")
    expected = logits_of(model, token_ids)
    state, cache = model.start(token_ids, beam_size=2, length=6)
    for index in range(5):
        both = np.stack([token_ids[::-1, index], token_ids[:, index]], axis=1)
        logits, cache = model.step(ops.convert_to_tensor(both), index, state, cache)
        actual = ops.convert_to_numpy(logits)[:, 1]
        np.testing.assert_allclose(actual, expected[:, index], atol=1e-5)


def test_saved_models_reload_and_generate(tmp_path):
    options = VARIANTS["positions of words"] | VARIANTS["all that is new"]
    model, options = build_causal(**options), SearchOptions(beam_size=1, extra_length=2)
    model.save(tmp_path / "model.keras")
    reloaded = keras.saving.load_model(tmp_path / "model.keras", safe_mode=True)
    np.testing.assert_allclose(logits_of(reloaded, PROMPTS), logits_of(model, PROMPTS), atol=1e-6)
    ids, _ = to_numpy(SequenceGenerator(reloaded).search(PROMPTS, options=options))
    expected, _ = to_numpy(SequenceGenerator(model).search(PROMPTS, options=options))
    assert ids.tolist() == expected.tolist()


def test_later_tokens_change_no_earlier_logits(model):
    token_ids = np.array([[1, 4, 5, 6, 7]])
    expected = logits_of(model, token_ids)
    changed = logits_of(model, np.where(np.arange(5) < 3, token_ids, 9))
    np.testing.assert_allclose(changed[:, :3], expected[:, :3], atol=1e-6)
    assert np.abs(changed[:, 3:] - expected[:, 3:]).max() > 0.1


def test_padding_is_masked_for_losses_where_its_id_is_given():
    model = build_causal(mask_id=0)
    token_ids, labels = np.array([[1, 4, 0], [1, 4, 5]]), np.array([[4, 2, 0], [4, 5, 2]])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    padded, alone = model({"token_ids": token_ids}), model({"token_ids": token_ids[:1, :2]})
    np.testing.assert_allclose(to_numpy(padded)[0, :2], to_numpy(alone)[0], atol=1e-5)
    total = 2 * loss(labels[:1, :2], alone) + 3 * loss(labels[1:], to_numpy(padded)[1:])
    assert float(loss(labels, padded)) == pytest.approx(float(total) / 5, abs=1e-5)


OPTIONS = SearchOptions(extra_length=5, min_length=5, no_repeat_ngram=2)
SEARCHES = {
    "greedy": dataclasses.replace(OPTIONS, beam_size=1),
    "beam": dataclasses.replace(OPTIONS, beam_size=2),
}


def every_search(generator, prompts, uniforms):
    outputs = {
        name: generator.search(prompts, options=options) for name, options in SEARCHES.items()
    }
    outputs["sample"] = generator.sample(prompts, uniforms, top_k=6, options=OPTIONS)
    return outputs


def test_options_hold_for_every_search(model):
    generator = SequenceGenerator(model, vocabulary_size=11)
    uniforms = np.random.default_rng(0).random((3, 3, 9), dtype="float32")
    for name, (ids, _) in to_numpy(every_search(generator, PROMPTS, uniforms)).items():
        for row, length in enumerate(LENGTHS):
            for tokens in map(without_padding, ids[row]):
                assert tokens[:length] == tuple(PROMPTS[row, :length]), name
                assert tokens[-1] == TOKENS.eos
                assert 5 <= len(tokens) - 1 <= length + 5
                assert max(tokens) < 11
                assert len(set(itertools.pairwise(tokens))) == len(tokens) - 1


def test_a_search_runs_compiled():
    model = build_causal(num_decoder_layers=1)
    model.run_eagerly = True  # a generator alone; it has no say in a graph
    generator, options = SequenceGenerator(model), SearchOptions(beam_size=2, extra_length=3)
    expected_ids, expected_scores = to_numpy(generator.search(PROMPTS, options=options))
    ids, scores = compiled(lambda prompts: generator.search(prompts, options=options), PROMPTS)
    assert ids.tolist() == expected_ids.tolist()
    np.testing.assert_allclose(scores, expected_scores, atol=1e-4)


def test_a_model_made_by_hand_generates():
    embedding = PositionalEmbedding(VOCABULARY_SIZE, 16, positions="learned", max_length=20)
    layers = [TransformerDecoderLayer(32, 2, activation="gelu", name=f"mine_{i}") for i in "ab"]
    norm = keras.layers.LayerNormalization()
    inputs = keras.Input((None,), dtype="int32")
    hidden = embedding(inputs)
    for layer in layers:
        hidden = layer(hidden)
    model = with_opinion(keras.Model(inputs, embedding(norm(hidden), reverse=True)))
    generator = SequenceGenerator(Transformer.from_layers(embedding, layers, norm))
    options = SearchOptions(alpha=0.0, beam_size=2, extra_length=3)
    ids, scores = to_numpy(generator.search(PROMPTS, options=options))
    for row in range(3):
        tokens = without_padding(ids[row, 0])
        logits = ops.convert_to_numpy(model(np.array([[TOKENS.bos, *tokens[:-1]]])))[0]
        values = logits - np.log(np.exp(logits.astype("float64")).sum(-1, keepdims=True))
        expected = values[np.arange(len(tokens)), list(tokens)].sum()
        np.testing.assert_allclose(scores[row, 0], expected, atol=1e-3)


def test_layers_of_other_classes_are_refused():
    embedding, layer = PositionalEmbedding(12, 8), TransformerDecoderLayer(8, 2)
    with pytest.raises(ValueError, match="must be a `PositionalEmbedding`.*Embedding"):
        Transformer.from_layers(keras.layers.Embedding(12, 8), [layer])
    for layers in ([], [layer, TransformerEncoderLayer(8, 2)]):
        with pytest.raises(ValueError, match=r"`decoder_layers` must be one or more .*=\["):
            Transformer.from_layers(embedding, layers)


def test_a_model_of_ones_own_layers_is_saved_by_their_options(tmp_path):
    embedding = PositionalEmbedding(12, 8, mask_id=0)
    layers = [TransformerDecoderLayer(16, 2, dropout=0.0, name=f"mine_{i}") for i in "ab"]
    model = with_opinion(Transformer.from_layers(embedding, layers, name="mine"))
    assert (model.options.intermediate_dim, model.options.padding_id, model.name) == (16, 0, "mine")
    model.save(tmp_path / "mine.keras")
    loaded = keras.saving.load_model(tmp_path / "mine.keras")
    np.testing.assert_allclose(logits_of(loaded, PROMPTS), logits_of(model, PROMPTS), atol=1e-6)
    layers.append(TransformerDecoderLayer(24, 2, dropout=0.0))
    model = Transformer.from_layers(embedding, layers)
    assert logits_of(model, PROMPTS).shape == (3, 3, 12)
    with pytest.raises(
        ValueError, match=r"`intermediate_dim` must be the same .*intermediate_dim=\[16, 16, 24\]"
    ):
        model.save(tmp_path / "other.keras")


def test_what_needs_an_encoder_is_refused(model):
    generator = SequenceGenerator(model)
    with pytest.raises(ValueError, match=r"`prefix_ids` must be None .*Received: .*\(3, 3\)"):
        generator.search(PROMPTS, PROMPTS)
    with pytest.raises(ValueError, match=r"has no attention to a source. Received: .*\(3, 3\)"):
        generator.alignment(PROMPTS, PROMPTS)
    with pytest.raises(ValueError, match="has no attention to a source. Received: source_ids None"):
        generator.alignment(None, PROMPTS)
    with pytest.raises(ValueError, match=r"`source_ids` must be None .*Received: .*\(3, 3\)"):
        generator.score(PROMPTS, PROMPTS, PROMPTS)


@pytest.mark.parametrize(
    "prompt",
    [[1, 4], [4, 2, 5], [0, 4, 5], [4, 0, 5], [4, 11], [4, -1]],
    ids=["BOS", "EOS", "padding first", "padding between", "no token", "negative"],
)
def test_prompts_that_no_output_could_begin_with_are_refused(model, prompt):
    generator = SequenceGenerator(model, vocabulary_size=11)
    message = rf"must be prompts: tokens less than 11 .*padding, 0. Received: row=\[{prompt[0]}"
    for prompts in ([prompt], np.array([prompt])):
        with pytest.raises(ValueError, match=message):
            generator.search(prompts)
        with pytest.raises(ValueError, match=message):
            generator.sample(prompts, np.zeros((1, 1, 60), "float32"))
    with pytest.raises(
        ValueError, match=r"`source_ids` must have .*\(batch, length\).* Received: .*\(2,\)"
    ):
        generator.search([4, 5])


def test_prompts_are_within_the_learned_positions():
    generator = SequenceGenerator(build_causal(positions="learned", max_length=4))
    ids, _ = to_numpy(generator.search([[4, 5, 6]]))
    assert ids[0, 0, :5].tolist() == [4, 5, 6, TOKENS.eos, 0]
    for prompts in ([[4, 5, 6, 7]], ops.convert_to_tensor([[4, 5, 6, 7]])):
        with pytest.raises(ValueError, match=r"at most 3 tokens: .*4 positions.*length=4"):
            generator.search(prompts)


def test_models_of_other_kinds_are_refused(model):
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1, "hidden_dim": 8, "num_heads": 2}
    translator = build_transformer("tiny", vocabulary_size=VOCABULARY_SIZE, **sizes)
    with pytest.raises(ValueError, match=r"the same `is_causal`. Received: \[True, False\]"):
        SequenceGenerator([model, translator])
    inputs = keras.Input((4,), name="mine")
    foreign = keras.Model(inputs, inputs + 1)
    with pytest.raises(ValueError, match="must come from .* Received: a model with the layers"):
        Transformer.of(foreign)
    with pytest.raises(ValueError, match="must come from .* Received: a model with the layers"):
        SequenceGenerator([model, foreign])


def test_a_mask_with_another_padding_id_is_refused():
    with pytest.raises(ValueError, match="`special_tokens.pad` must be the model's padding id"):
        SequenceGenerator(build_causal(mask_id=3))
