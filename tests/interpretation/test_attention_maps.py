import base64
import json
import math

import numpy as np
import pytest

from keras_transformer.errors import SentenceTooLong, UserInputError
from keras_transformer.inference.parser import Parser
from keras_transformer.inference.translator import Translator
from keras_transformer.interpretation import AttentionMaps, attention_maps, text_attention_maps
from keras_transformer.models import build_language_model
from keras_transformer.parsing.linearization import TreeTokenizer
from keras_transformer.text import SentencePieceTokenizer
from tests.interpretation.numpy_attention import attention_weights, language_model_weights
from tests.random_translation import build, sentences

pytestmark = pytest.mark.core
SOURCE, TARGET = "small green house", "old stone tree lamp"
SIZES = {"num_encoder_layers": 2, "num_decoder_layers": 3, "num_heads": 4}


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train(sentences(50), vocabulary_size=60)


@pytest.fixture(scope="module")
def translator(tokenizer):
    return Translator(build(tokenizer, **SIZES), tokenizer, extra_length=4, beam_size=1)


def check_rows(weights):
    assert weights.dtype == "float32"
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)


@pytest.mark.parametrize("normalize_first", [False, True])
def test_the_weights_are_those_of_the_formula(tokenizer, normalize_first):
    model = build(tokenizer, **SIZES, normalize_first=normalize_first)
    maps = attention_maps(Translator(model, tokenizer), SOURCE, TARGET)
    (source, target), eos = tokenizer.encode([SOURCE, TARGET]), tokenizer.special_tokens.eos
    ids = [*source, eos], [tokenizer.special_tokens.bos, *target]
    expected = attention_weights(model, *ids)
    for found, formula in zip((maps.encoder, maps.decoder, maps.cross), expected, strict=True):
        np.testing.assert_allclose(found, formula, atol=1e-5)
        check_rows(found)
    assert maps.cross.shape == (3, 4, len(target) + 1, len(source) + 1)
    assert np.abs(np.diff(maps.cross, axis=1)).max() > 0.01  # the heads differ


def test_a_window_is_all_that_a_position_looks_at(tokenizer):
    model = build(tokenizer, **SIZES, attention_window=3)
    maps = attention_maps(Translator(model, tokenizer), SOURCE, TARGET)
    for weights, before, after in ((maps.encoder, 1, 1), (maps.decoder, 2, 0)):
        check_rows(weights)
        rows, columns = np.indices(weights.shape[-2:])
        seen = (rows - before <= columns) & (columns <= rows + after)
        assert (weights[:, :, seen] > 0).all()
        assert (weights[:, :, ~seen] == 0).all()
    check_rows(maps.cross)


def test_tokens_are_the_pieces_with_begin_and_end(translator, tokenizer):
    maps = attention_maps(translator, SOURCE, TARGET)
    source, target = map(tokenizer.pieces, tokenizer.encode([SOURCE, TARGET]))
    assert maps.source_tokens == [*source, "</s>"]
    assert maps.target_tokens == ["<s>", *target]
    assert maps.output_tokens == [*target, "</s>"]


def spells_otherwise(tokenizer):
    """A translator, the ids of its best translation, and the text, which is tokenized otherwise."""
    for seed in range(20):
        model = build(tokenizer, seed=seed, **SIZES)
        options = {"extra_length": 4, "beam_size": 1, "no_repeat_ngram": 1}
        translator = Translator(model, tokenizer, **options)
        _, (row,) = translator.translate_ids([SOURCE])
        best = tokenizer.decode([row])
        if tokenizer.encode(best) != [row]:
            return translator, row, best
    raise AssertionError("every seed's translation is tokenized as the search spells it")


def test_without_a_target_it_is_the_best_translation(tokenizer):
    translator, row, best = spells_otherwise(tokenizer)
    assert translator.translate([SOURCE]) == best
    found = attention_maps(translator, SOURCE)
    assert found.output_tokens == [*tokenizer.pieces(row), "</s>"]
    (source,), special = tokenizer.encode([SOURCE]), tokenizer.special_tokens
    model = translator.models[0]
    *_, cross = attention_weights(model, [*source, special.eos], [special.bos, *row])
    np.testing.assert_allclose(found.cross, cross, atol=1e-5)
    assert attention_maps(translator, "").output_tokens == ["</s>"]


def test_a_translation_of_the_search_may_be_longer_than_a_source(translator, tokenizer):
    options = {"max_source_length": 4, "min_length": 6, "beam_size": 1, "extra_length": 8}
    short = Translator(translator.models[0], tokenizer, **options)
    assert len(attention_maps(short, "old").output_tokens) > 6


def test_the_mean_over_the_heads_is_that_of_the_alignment(translator):
    maps = attention_maps(translator, SOURCE, TARGET)
    (alignment,) = translator.align([SOURCE], [TARGET])
    np.testing.assert_allclose(maps.cross[-2].mean(axis=0)[:-1], alignment.weights, atol=1e-5)


def test_an_ensemble_has_the_maps_of_each_model(tokenizer, translator):
    models = [translator.models[0], build(tokenizer, seed=1, **SIZES)]
    ensemble = Translator(models, tokenizer)
    for index, model in enumerate(models):
        alone = attention_maps(Translator(model, tokenizer), SOURCE, TARGET)
        found = attention_maps(ensemble, SOURCE, TARGET, index=index)
        np.testing.assert_array_equal(found.cross, alone.cross)
    with pytest.raises(UserInputError, match="`index` must be less than 2. Received: index=2"):
        attention_maps(ensemble, SOURCE, TARGET, index=2)


def test_an_empty_pair_looks_at_the_end(translator):
    maps = attention_maps(translator, "", "")
    assert (maps.source_tokens, maps.output_tokens) == (["</s>"], ["</s>"])
    np.testing.assert_array_equal(maps.cross, np.ones((3, 4, 1, 1)))


def test_weights_that_are_no_numbers_are_refused(tokenizer):
    model = build(tokenizer, **SIZES)
    model.set_weights([np.full_like(weight, np.nan) for weight in model.get_weights()])
    with pytest.raises(UserInputError, match="not finite numbers"):
        attention_maps(Translator(model, tokenizer), SOURCE, TARGET)


def test_what_is_too_long_is_refused(tokenizer, translator):
    short = Translator(translator.models[0], tokenizer, max_source_length=3)
    with pytest.raises(SentenceTooLong, match="sources"):
        attention_maps(short, SOURCE, "old")
    with pytest.raises(SentenceTooLong, match="targets"):
        attention_maps(short, "old", TARGET)


def test_a_language_model_has_the_decoders_attention_alone(tokenizer):
    model = build_language_model(
        "tiny", vocabulary_size=60, num_decoder_layers=2, hidden_dim=16, num_heads=2
    )
    maps = text_attention_maps(model, tokenizer, SOURCE)
    (row,) = tokenizer.encode([SOURCE])
    expected = language_model_weights(model, [tokenizer.special_tokens.bos, *row])
    np.testing.assert_allclose(maps.decoder, expected, atol=1e-5)
    check_rows(maps.decoder)
    assert (maps.kinds, maps.source_tokens) == (["decoder"], [])
    assert list(maps.to_json()["maps"]) == ["decoder"]
    with pytest.raises(UserInputError, match=r"one of \['decoder'\]. Received: kind='cross'"):
        maps.entropies("cross")


def test_a_text_is_of_a_language_model(translator, tokenizer):
    with pytest.raises(ValueError, match="`model` must be a language model"):
        text_attention_maps(translator.models[0], tokenizer, "old lamp")


def test_a_text_beyond_a_language_models_positions_is_refused(tokenizer):
    model = build_language_model(
        "tiny", vocabulary_size=60, num_decoder_layers=1, positions="learned", max_length=5
    )
    with pytest.raises(UserInputError, match=r"the model's 5 positions.* Received: \d+ tokens"):
        text_attention_maps(model, tokenizer, "small green house stone lamp")


@pytest.fixture(scope="module")
def parser(tokenizer):
    target = TreeTokenizer.of(["(NP", "(S", ")NP", ")S", "XX"])
    model = build(target, source_vocabulary_size=tokenizer.vocabulary_size)
    return Parser(model, target, tokenizer, beam_size=1, extra_length=20)


@pytest.mark.tensorflow
def test_a_parser_has_the_maps_of_sentence_and_tree(parser):
    tree = "(S (NP-SBJ (DT small) (NN house)) (NP (NN tree)))"
    maps = attention_maps(parser, "small house tree", tree)
    assert maps.output_tokens == [*"(S (NP XX XX )NP (NP XX )NP )S".split(), "</s>"]
    check_rows(maps.cross)
    with pytest.raises(UserInputError, match="`target` must be a bracketed tree: "):
        attention_maps(parser, "small house", "(S (NP")


@pytest.mark.slow
@pytest.mark.tensorflow
def test_without_a_tree_it_is_the_parsers_best(parser):
    (best,) = parser.parse(["small house"])
    found = attention_maps(parser, "small house")
    expected = attention_maps(parser, "small house", str(best))
    assert found.output_tokens == expected.output_tokens
    np.testing.assert_array_equal(found.cross, expected.cross)


def test_entropies_and_distances_by_hand(maps):
    half = -(0.2 * math.log(0.2) + 0.8 * math.log(0.8))
    np.testing.assert_allclose(
        maps.entropies("cross"), [[0, half], [math.log(4), math.log(4)]], atol=1e-6
    )
    # Head 2: distances of row i to the row before, at 20 %, and to place 3, at 80 %.
    second = np.mean([0.8 * 3, 0.2 * 1 + 0.8 * 2, 0.2 * 1 + 0.8 * 1, 0.2 * 1])
    uniform = np.mean([6 / 4, 4 / 4, 4 / 4, 6 / 4])
    np.testing.assert_allclose(
        maps.mean_distances("cross"), [[0, second], [uniform, uniform]], atol=1e-6
    )
    causal = np.mean([math.log(count) for count in (1, 2, 3, 4)])
    np.testing.assert_allclose(maps.entropies("decoder"), np.full((2, 2), causal), atol=1e-6)
    with pytest.raises(ValueError, match="`kind` must be one of"):
        maps.entropies("self")


def test_json_has_one_byte_for_each_weight(maps):
    values = json.loads(json.dumps(maps.to_json()))
    assert values["source_tokens"] == maps.source_tokens
    assert values["target_tokens"] == maps.target_tokens
    assert values["output_tokens"] == maps.output_tokens
    assert list(values["maps"]) == ["encoder", "decoder", "cross"]
    for kind, found in values["maps"].items():
        sizes = tuple(found[name] for name in ("layers", "heads", "rows", "columns"))
        assert sizes == maps.weights(kind).shape
        levels = np.frombuffer(base64.b64decode(found["weights"]), "uint8").reshape(sizes)
        np.testing.assert_allclose((levels / 255) ** 2, maps.weights(kind), atol=0.004)
        np.testing.assert_allclose(found["entropies"], maps.entropies(kind), atol=1e-4)
        np.testing.assert_allclose(found["mean_distances"], maps.mean_distances(kind), atol=1e-4)


def test_small_weights_keep_two_digits():
    weights = np.full((1, 1, 1, 1), 0.005, "float32")  # of one in two hundred tokens
    (kind, *_) = AttentionMaps([], [], [], weights, weights, weights).to_json()["maps"].values()
    (level,) = base64.b64decode(kind["weights"])
    assert (level / 255) ** 2 == pytest.approx(0.005, rel=0.01)
