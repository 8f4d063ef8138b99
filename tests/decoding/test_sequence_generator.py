"""Stepwise generation against whole passes of the same model."""

import dataclasses
import functools
import itertools
from collections.abc import Callable

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.models import build_language_model, build_transformer, model_layers
from keras_transformer.search_options import SearchOptions
from keras_transformer.types import SpecialTokens
from tests.decoding.numpy_beam_search import numpy_beam_search, without_padding
from tests.models.compiled_function import compiled

TOKENS = SpecialTokens()
SHORT = SearchOptions(extra_length=3)
VOCABULARY_SIZE = 12
SOURCE_IDS = np.array(
    [
        [4, 5, 6, 7, TOKENS.eos],
        [8, 9, TOKENS.eos, TOKENS.pad, TOKENS.pad],
        [11, TOKENS.eos, TOKENS.pad, TOKENS.pad, TOKENS.pad],
    ]
)


PROMPTS = np.array([[4, 5, 6], [8, 0, 0], [0, 0, 0]], "int32")
SIZES = {"num_decoder_layers": 2, "hidden_dim": 16, "intermediate_dim": 32, "num_heads": 2}
SIZES |= {"vocabulary_size": VOCABULARY_SIZE}


def build(seed=0, **overrides):
    """A model small enough for whole passes per token, with an opinion on what comes next."""
    keras.utils.set_random_seed(seed)  # the fixture of the module is made before that of each test
    sizes = {**SIZES, "num_encoder_layers": 2, **overrides}
    return with_opinion(build_transformer("tiny", **sizes), seed)


def build_causal(seed=0, **overrides):
    """Such a language model."""
    keras.utils.set_random_seed(seed)
    return with_opinion(build_language_model("tiny", **{**SIZES, **overrides}), seed)


def with_opinion(model, seed=0):
    generator = np.random.default_rng(seed)
    model.set_weights([w + generator.normal(0, 0.4, w.shape) for w in model.get_weights()])
    return model


@pytest.fixture(scope="module")
def model():
    return build()


@dataclasses.dataclass(frozen=True)
class Task:
    """What a model is asked for, and how whole passes do it.

    Args:
        build: makes the model.
        ids: what it is asked for: sources, or prompts.
        lengths: the number of tokens of each row, EOS excluded.
        prefixes: what each row's outputs begin with.
        unlike: options of an ensemble's other member.
    """

    build: Callable
    ids: np.ndarray
    lengths: tuple
    prefixes: tuple
    unlike: dict

    def log_probs(self, model, row, prefix):
        """Log-probabilities after BOS and a prefix, in float64, from one whole pass."""
        ids = np.full((1, 9), TOKENS.pad)  # one shape for every prefix: JAX compiles for each
        ids[0, : len(prefix) + 1] = (TOKENS.bos, *prefix)
        source = {} if model.is_causal else {"source_ids": self.ids[row : row + 1]}
        inputs = {**source, "token_ids" if model.is_causal else "target_ids": ids}
        logits = ops.convert_to_numpy(model(inputs))[0, len(prefix)].astype("float64")
        return logits - np.log(np.sum(np.exp(logits)))

    def may_follow(self, row, extra_length, prefix):
        """The tokens that the prefix and the limit of a row's outputs allow."""
        own, limit = self.prefixes[row], self.lengths[row] + extra_length
        if len(prefix) < len(own):
            return [own[len(prefix)]]
        return range(2, VOCABULARY_SIZE) if len(prefix) < limit else [TOKENS.eos]

    def output(self, model, row, extra_length, choose):
        """The output of chosen tokens, and its log-probability."""
        output, total = (), 0.0
        while output[-1:] != (TOKENS.eos,):
            values = self.log_probs(model, row, output)
            allowed = self.may_follow(row, extra_length, output)
            token = choose(values, len(output)) if len(allowed) > 1 else allowed[0]
            output, total = (*output, token), total + values[token]
        return output, total

    def best_outputs(self, models, row, extra_length, beam_size):
        """What a beam search finds with the mean of the models' probabilities."""

        def log_probs_after(prefix):
            each = [self.log_probs(model, row, prefix) for model in models]
            return functools.reduce(np.logaddexp, each) - np.log(len(each))

        return numpy_beam_search(
            log_probs_after,
            beam_size=beam_size,
            alpha=0.6,
            limit=self.lengths[row] + extra_length,
            special_tokens=TOKENS,
            allowed_after=functools.partial(self.may_follow, row, extra_length),
        )


TASKS = {
    "translation": Task(build, SOURCE_IDS, (4, 2, 1), ((), (), ()), {}),
    "continuation": Task(build_causal, PROMPTS, (3, 1, 0), ((4, 5, 6), (8,), ()), {"mask_id": 0}),
}
QUICK_TASKS = [pytest.param("translation", marks=pytest.mark.slow), "continuation"]


def to_numpy(tensors):
    return keras.tree.map_structure(ops.convert_to_numpy, tensors)


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("name", TASKS)
def test_greedy_takes_the_argmax_of_whole_passes(name, window):
    task = TASKS[name]
    model = task.build(attention_window=window)
    options = SearchOptions(beam_size=1, alpha=0.0, extra_length=3)
    ids, scores = to_numpy(SequenceGenerator(model).search(task.ids, options=options))
    for row in range(3):
        expected, total = task.output(model, row, 3, lambda values, _: 2 + int(values[2:].argmax()))
        assert without_padding(ids[row, 0]) == expected
        np.testing.assert_allclose(scores[row, 0], total, atol=1e-4)


@functools.cache
def model_and_best_outputs(name, **overrides):
    """A model, and what a search with a beam of 3 must find for each row."""
    model = TASKS[name].build(**overrides)
    return model, [TASKS[name].best_outputs([model], row, 2, beam_size=3) for row in range(3)]


@pytest.mark.parametrize(
    ("name", "overrides", "most_sharing"),
    [
        ("translation", {}, 8),
        ("translation", {}, 2),
        ("translation", {"normalize_first": True, "positions": "learned"}, 8),
        ("translation", {"attention_window": 3}, 8),
        ("translation", {"qk_norm": True, "positions": "rotary"}, 8),
        ("translation", {"attention_window": 3}, 2),
        ("continuation", {"normalize_first": True, "use_bias": True}, 8),
        ("continuation", {"positions": "learned", "max_length": 9, "final_norm": True}, 8),
    ],
)
def test_beam_search_equals_the_reference_on_whole_passes(
    name, overrides, most_sharing, monkeypatch
):
    monkeypatch.setattr(model_layers, "MOST_SHARING", most_sharing)
    model, best_outputs = model_and_best_outputs(name, **overrides)
    options = SearchOptions(beam_size=3, alpha=0.6, extra_length=2)
    ids, scores = to_numpy(SequenceGenerator(model).search(TASKS[name].ids, options=options))
    for row, expected in enumerate(best_outputs):
        found = [without_padding(i) for i in ids[row] if i.any()]
        assert found == [tokens for tokens, _ in expected]
        expected_scores = [score for _, score in expected]
        np.testing.assert_allclose(scores[row, : len(found)], expected_scores, atol=1e-4)


@pytest.mark.parametrize("name", TASKS)
def test_score_is_the_sum_of_log_softmax(name):
    task = TASKS[name]
    model = task.build()
    source_ids = None if model.is_causal else task.ids
    target_ids = np.array([[1, 4, 5, 6], [1, 7, 0, 0], [1, 0, 0, 0]])
    labels = np.array([[4, 5, 6, 2], [7, 2, 0, 0], [2, 0, 0, 0]])
    for generator in (SequenceGenerator(model), SequenceGenerator([model, model])):
        scores = to_numpy(generator.score(source_ids, target_ids, labels))
        for row, tokens in enumerate([(4, 5, 6, 2), (7, 2), (2,)]):
            expected = sum(
                task.log_probs(model, row, tokens[:i])[token] for i, token in enumerate(tokens)
            )
            np.testing.assert_allclose(scores[row], expected, atol=1e-4)


def test_a_row_of_padding_fills_up_a_batch(model):
    generator = SequenceGenerator(model)
    filled = np.concatenate([SOURCE_IDS, np.zeros_like(SOURCE_IDS)])
    ids, scores = to_numpy(generator.search(filled, options=SHORT))
    alone_ids, alone_scores = to_numpy(generator.search(SOURCE_IDS, options=SHORT))
    assert ids[:3].tolist() == alone_ids.tolist()
    np.testing.assert_allclose(scores[:3], alone_scores, atol=1e-5)
    assert [without_padding(row) for row in ids[3:, 0]] == [(TOKENS.eos,)] * 3


@pytest.mark.slow
def test_padding_behind_the_source_changes_nothing(model):
    generator = SequenceGenerator(model)
    wide = np.pad(SOURCE_IDS, ((0, 0), (0, 4)))
    ids, scores = to_numpy(generator.search(SOURCE_IDS, options=SHORT))
    wide_ids, wide_scores = to_numpy(generator.search(wide, options=SHORT))
    assert wide_ids[..., : ids.shape[2]].tolist() == ids.tolist()
    np.testing.assert_allclose(wide_scores, scores, atol=1e-5)


@pytest.mark.parametrize("name", TASKS)
def test_outputs_end_where_learned_positions_do(name):
    model = TASKS[name].build(positions="learned", max_length=6)
    # So strong a penalty favors the longest output: five tokens behind BOS, and EOS.
    options = SearchOptions(alpha=9.0)
    ids, _ = to_numpy(SequenceGenerator(model).search(TASKS[name].ids, options=options))
    assert [len(without_padding(row)) for row in ids[:, 0]] == [6, 6, 6]


@pytest.mark.slow
def test_mixed_bfloat16_stays_close_to_float32(model):
    low = build(dtype="mixed_bfloat16")
    low.set_weights(model.get_weights())
    _, low_scores = to_numpy(SequenceGenerator(low).search(SOURCE_IDS, options=SHORT))
    _, scores = to_numpy(SequenceGenerator(model).search(SOURCE_IDS, options=SHORT))
    assert low_scores.dtype == np.float32
    np.testing.assert_allclose(low_scores, scores, atol=0.3)


OPTIONS = SearchOptions(extra_length=4, min_length=2, no_repeat_ngram=2)
SEARCHES = {
    "greedy": dataclasses.replace(OPTIONS, beam_size=1),
    "beam": dataclasses.replace(OPTIONS, beam_size=2),
}
PREFIX_IDS = np.array([[6, 5, 5, 5, 5, 5, 5, 5, 5, 5], [4] + [0] * 9, [0] * 10])


def test_options_hold_for_every_search(model):
    generator = SequenceGenerator(model, vocabulary_size=11)
    uniforms = np.random.default_rng(0).random((3, 5, 11))
    outputs = {
        name: generator.search(SOURCE_IDS, PREFIX_IDS, options=options)[0]
        for name, options in SEARCHES.items()
    }
    outputs["sample"] = generator.sample(SOURCE_IDS, uniforms, PREFIX_IDS, options=OPTIONS)[0]
    for name, ids in to_numpy(outputs).items():
        assert ids.shape[2] == 11  # the longest prefix and EOS: more than source + extra_length
        for row, (prefix, limit) in enumerate([(PREFIX_IDS[0], 10), ([4], 6), ([], 5)]):
            found = [without_padding(i) for i in ids[row] if i.any()]
            assert found, name
            for tokens in found:
                assert tokens[: len(prefix)] == tuple(prefix)
                assert tokens[-1] == TOKENS.eos
                assert 2 <= len(tokens) - 1 <= limit
                assert max(tokens) < 11
                free = tokens[max(len(prefix) - 1, 0) :]
                assert len(set(itertools.pairwise(free))) == len(free) - 1


@pytest.mark.parametrize("name", QUICK_TASKS)
def test_samples_follow_their_numbers_in_whole_passes(name):
    task = TASKS[name]
    model, uniforms = task.build(), np.random.default_rng(1).random((3, 2, 8), dtype="float32")
    generator = SequenceGenerator(model)
    ids, scores = to_numpy(generator.sample(task.ids, uniforms, temperature=0.7, options=SHORT))
    for row, one in np.ndindex(3, 2):

        def draw(values, place, numbers=uniforms[row, one]):
            cumulative = np.cumsum(np.exp(values[2:] / 0.7))
            return 2 + int(np.sum(cumulative <= numbers[place] * cumulative[-1]))

        expected, total = task.output(model, row, 3, draw)
        assert without_padding(ids[row, one]) == expected
        np.testing.assert_allclose(scores[row, one], total, atol=1e-4)


@pytest.mark.parametrize("name", QUICK_TASKS)
def test_an_ensemble_searches_with_the_mean_of_probabilities(name):
    task = TASKS[name]
    models = [task.build(), task.build(seed=1, **task.unlike)]
    options = SearchOptions(beam_size=2, extra_length=1)
    ids, scores = to_numpy(SequenceGenerator(models).search(task.ids, options=options))
    for row in range(3):
        expected = task.best_outputs(models, row, 1, beam_size=2)
        assert [without_padding(i) for i in ids[row]] == [tokens for tokens, _ in expected]
        np.testing.assert_allclose(scores[row], [score for _, score in expected], atol=1e-4)


def test_the_alignment_of_equal_models_is_that_of_one(model):
    one, three = SequenceGenerator(model), SequenceGenerator([model] * 3)
    target_ids = np.array([[1, 4, 5]] * 3)
    expected = to_numpy(one.alignment(SOURCE_IDS, target_ids))
    found = to_numpy(three.alignment(SOURCE_IDS, target_ids))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def looking_for_the_same_token():
    """A model whose decoder layers attend to the source's tokens that equal the target's.

    A token's vector is one-hot; only the embeddings, the norms and layer 2's queries and keys work.
    """
    model = build(num_encoder_layers=1, num_decoder_layers=3, hidden_dim=12, num_heads=2)
    model.set_weights([np.zeros(weight.shape) for weight in model.weights])
    for weight in model.weights:
        if weight.path.endswith("gamma"):
            weight.assign(np.ones(weight.shape))
        if weight.path.endswith("matrix"):
            weight.assign(100 * np.eye(12))  # drowns the positions
        if "decoder_layer_2/" in weight.path and weight.path.endswith(
            ("/query/kernel", "/key_value/kernel")
        ):
            weight.assign(4 * np.eye(12, weight.shape[1]))  # the values stay 0
    return model


def test_alignment_finds_the_same_token_in_the_last_layer_but_one():
    generator = SequenceGenerator(looking_for_the_same_token())
    source_ids = np.array([[4, 5, 6, 2], [9, 4, 2, 0]])
    target_ids = np.array([[1, 6, 4, 5], [1, 4, 9, 9]])
    weights = to_numpy(generator.alignment(source_ids, target_ids))
    assert (weights.shape, weights.dtype) == ((2, 4, 4), np.float32)
    assert weights[:, 1:].argmax(axis=-1).tolist() == [[2, 0, 1], [1, 0, 0]]
    # Of two heads, the one with the component of token 4 finds it. To the other, 4 and EOS are
    # alike, and 9, whose component it has, is the farthest.
    np.testing.assert_allclose(weights[1, 1], [0, 3 / 4, 1 / 4, 0], atol=0.01)
    np.testing.assert_array_equal(weights, to_numpy(generator.alignment(source_ids, target_ids, 1)))
    uniform = to_numpy(generator.alignment(source_ids, target_ids, layer=2))
    np.testing.assert_allclose(uniform[0], 1 / 4, atol=1e-6)
    np.testing.assert_allclose(uniform[1], np.tile([1 / 3, 1 / 3, 1 / 3, 0], (4, 1)), atol=1e-6)


def test_alignment_of_a_single_layer_is_of_that_one():
    generator = SequenceGenerator(build(num_decoder_layers=1))
    target_ids = np.array([[1, 6, 4]] * 3)
    weights = to_numpy(generator.alignment(SOURCE_IDS, target_ids))
    np.testing.assert_array_equal(weights, to_numpy(generator.alignment(SOURCE_IDS, target_ids, 0)))
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
    assert (weights[1, :, 3:] == 0).all()


@pytest.mark.slow
def test_an_ensembles_searches_with_all_options_run_compiled(model):
    generator = SequenceGenerator([model, build(seed=1)], vocabulary_size=11)
    uniforms = np.random.default_rng(0).random((3, 2, 11), dtype="float32")

    def every_search(source_ids, prefix_ids, uniforms):
        outputs = {
            name: generator.search(source_ids, prefix_ids, options=options)
            for name, options in SEARCHES.items()
        }
        inputs = source_ids, uniforms, prefix_ids
        outputs["sample"] = generator.sample(*inputs, top_k=4, top_p=0.9, options=OPTIONS)
        free = SearchOptions(extra_length=4)
        outputs["free sample"] = generator.sample(source_ids, uniforms, options=free)
        return outputs

    inputs = SOURCE_IDS.astype("int32"), PREFIX_IDS.astype("int32"), uniforms
    expected = to_numpy(every_search(*inputs))
    for name, (ids, scores) in compiled(every_search, *inputs).items():
        assert ids.tolist() == expected[name][0].tolist(), name
        np.testing.assert_allclose(scores, expected[name][1], atol=1e-4)


def test_alignment_is_float32_under_a_mixed_policy(model):
    low = build(dtype="mixed_bfloat16")
    low.set_weights(model.get_weights())
    target_ids = np.array([[1, 6, 4]] * 3)
    weights = to_numpy(SequenceGenerator(low).alignment(SOURCE_IDS, target_ids))
    assert weights.dtype == np.float32
    expected = to_numpy(SequenceGenerator(model).alignment(SOURCE_IDS, target_ids))
    np.testing.assert_allclose(weights, expected, atol=0.05)


def test_refuses_another_padding_id(model):
    with pytest.raises(ValueError, match="`special_tokens.pad` must be the model's padding id"):
        SequenceGenerator(model, SpecialTokens(pad=3, unk=0))


@pytest.mark.parametrize("size", [0, 13])
def test_refuses_a_vocabulary_that_the_model_has_not(model, size):
    with pytest.raises(ValueError, match="`vocabulary_size` must be"):
        SequenceGenerator(model, vocabulary_size=size)


@pytest.mark.parametrize("layer", [-1, 2])
def test_refuses_a_layer_that_the_decoder_has_not(model, layer):
    with pytest.raises(ValueError, match="`layer` must be"):
        SequenceGenerator(model).alignment(SOURCE_IDS, SOURCE_IDS, layer)
