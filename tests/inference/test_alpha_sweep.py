"""`Translator.translate_with_alphas` against `translate` with one alpha after the other."""

import warnings

import pytest

from keras_transformer.errors import SentenceTooLong
from keras_transformer.inference.translator import Translator
from tests.translation_training.number_text import pairs

pytestmark = pytest.mark.tensorflow

ALPHAS = [round(0.1 * i, 1) for i in range(21)]
SOURCES = pairs(length=4)[0]


def lines(number):
    """Sentences of one to eight words, an empty one, and some that the model knows nothing of."""
    known = [" ".join(SOURCES[i * 61 % 625].split()[: 1 + i % 4]) for i in range(number)]
    longer = [f"{SOURCES[i * 17 % 625]} {SOURCES[i * 31 % 625]}" for i in range(number)]
    return [*known, *longer, "", "nothing that it has seen", "five fifty-five  "]


def assert_equal_to_each_search(translator, sentences, alphas):
    """Return the translations of each alpha, which are those of `translate`."""
    found = translator.translate_with_alphas(sentences, alphas)
    assert len(found) == len(alphas)
    for alpha, texts in zip(alphas, found, strict=True):
        assert texts == translator.with_search(alpha=alpha).translate(sentences), alpha
    return found


@pytest.fixture(scope="module")
def translator(trained_run):
    return Translator.load(trained_run)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("checkpoints", "options", "number", "alphas"),
    [
        (None, {}, 6, [0.0, 9.9]),
        (None, {}, 40, ALPHAS),
        ([None, "step-00000080"], {}, 40, ALPHAS),
        (
            None,
            {"length_penalty": "power", "min_length": 2, "no_repeat_ngram": 1, "beam_size": 3},
            40,
            [0.0, 0.6, 1.0, 2.0],
        ),
        # This ending takes a search for each alpha.
        (None, {"ending": "transformers", "length_penalty": "power"}, 20, [0.0, 1.0, 2.5]),
    ],
)
def test_equals_translate_with_each_alpha(trained_run, checkpoints, options, number, alphas):
    translator = Translator.load(trained_run, checkpoints, **options)
    found = assert_equal_to_each_search(translator, lines(number), alphas)
    if 9.9 in alphas:  # so far apart that translations differ
        assert len({tuple(texts) for texts in found}) > 1


def test_greedy_translations_are_the_same_for_all(translator):
    greedy = translator.with_search(beam_size=1)
    sentences = lines(3)
    assert greedy.translate_with_alphas(sentences, [0.0, 2.0]) == [greedy.translate(sentences)] * 2


@pytest.mark.slow
def test_long_sentences_are_split_as_in_translate(trained_run):
    translator = Translator.load(
        trained_run, beam_size=2, long_sentences="split", max_source_length=6
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = assert_equal_to_each_search(
            translator, ["one two three four five one two", "", "two"], [0.6]
        )
    assert len(found[0][0].split()) > 4
    refusing = Translator.load(trained_run, max_source_length=6)
    with pytest.raises(SentenceTooLong, match=r"`sentences\[0\]` has more than 6 tokens"):
        refusing.translate_with_alphas(["one two three four five one two"], [0.6])


def test_no_sentences(translator):
    assert translator.translate_with_alphas([], [0.6, 1.0]) == [[], []]
    assert translator.translate_with_alphas(["", " "], [0.6]) == [["", ""]]


def test_another_search_of_the_same_models(translator):
    other = translator.with_search(beam_size=2, extra_length=3)
    assert [a is b for a, b in zip(other.models, translator.models, strict=True)] == [True]
    assert (other.beam_size, other.extra_length, other.alpha) == (2, 3, translator.alpha)
    assert translator.beam_size == 4
    assert other.origins == translator.origins


def test_another_search_compiles_as_the_first(translator):
    plain = Translator(translator.models, translator.tokenizer, jit_compile=False)
    assert plain.with_search(beam_size=1).jit_compile is False
