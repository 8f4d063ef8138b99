"""`repetition_penalty`: against ten lines of NumPy, and on every path of a search."""

import itertools

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import beam_search, beam_search_of_alphas, greedy_search, sample
from keras_transformer.decoding.next_tokens import constraints_of
from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.inference.translator import Translator
from keras_transformer.search_options import SearchOptions
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.types import SpecialTokens
from tests.decoding.fake_models import run
from tests.random_translation import build, sentences

BOS, EOS, TOKENS, LIMIT = 1, 2, (3, 4, 5), 3
PENALTIES = [0.5, 1.0, 1.3, 5.0]


@pytest.fixture
def rng(random_seed):
    return np.random.default_rng(random_seed)


@pytest.fixture
def table(rng):
    """Logits of the next token, by the last token."""
    return rng.normal(0, 2, (6, 6)).astype("float32")


def penalized(table, output, penalty):
    """Scores of all next tokens: as in Transformers, score * penalty if it is < 0 and repeated."""
    logits = table[output[-1] if output else BOS].astype("float64")
    scores = logits - np.log(np.exp(logits).sum())
    for token in set(output):
        scores[token] *= penalty
    return scores


def score(table, output, penalty):
    return sum(penalized(table, output[:i], penalty)[token] for i, token in enumerate(output))


def search(function, table, penalty, **options):
    """The first output without padding, and its score."""
    ids, scores = run(
        function,
        lambda tokens, index, state: (ops.take(table, tokens, axis=0), state),
        limits=[LIMIT],
        constraints=constraints_of(
            SearchOptions(repetition_penalty=penalty), SpecialTokens(), 6, source_ids=None
        ),
        **options,
    )
    return [int(token) for token in ids.reshape(-1, LIMIT + 1)[0] if token], scores.flatten()[0]


@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_beam_of_all_hypotheses_finds_the_best_of_all_outputs(penalty, table):
    outputs = [
        [*tokens, EOS]
        for length in range(LIMIT + 1)
        for tokens in itertools.product(TOKENS, repeat=length)
    ]
    best = max(outputs, key=lambda output: score(table, output, penalty))
    expected = pytest.approx(score(table, best, penalty), abs=1e-5)
    beam = {"beam_size": 27, "length_penalty": "gnmt"}
    assert search(beam_search, table, penalty, alpha=0.0, **beam) == (best, expected)
    assert search(beam_search_of_alphas, table, penalty, alphas=[0.0], **beam) == (best, expected)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_greedy_search_and_samples(penalty, table, rng):
    uniforms = rng.random(LIMIT + 1)
    greedy, drawn = [], []
    while greedy[-1:] != [EOS]:
        possible = [EOS, *TOKENS] if len(greedy) < LIMIT else [EOS]
        greedy.append(max(possible, key=lambda token: penalized(table, greedy, penalty)[token]))
    while drawn[-1:] != [EOS]:
        possible = [EOS, *TOKENS] if len(drawn) < LIMIT else [EOS]
        shares = np.exp(penalized(table, drawn, penalty)[possible])
        place = np.searchsorted(np.cumsum(shares / shares.sum()), uniforms[len(drawn)])
        drawn.append(possible[place])
    expected = pytest.approx(score(table, greedy, penalty), abs=1e-5)
    assert search(greedy_search, table, penalty) == (greedy, expected)
    expected = pytest.approx(score(table, drawn, penalty), abs=1e-5)
    options = {"uniforms": uniforms.reshape(1, 1, -1), "num_samples": 1}
    assert search(sample, table, penalty, **options) == (drawn, expected)


def test_without_a_penalty_nothing_is_computed():
    assert not constraints_of(SearchOptions(), SpecialTokens(), 6, source_ids=None)


@pytest.mark.parametrize("penalty", [0, -1.0, 101, float("nan"), float("inf"), "1", True])
def test_other_numbers_are_refused(penalty):
    with pytest.raises(ValueError, match="`repetition_penalty` must be"):
        SearchOptions(repetition_penalty=penalty)


@pytest.fixture(scope="module")
def translator():
    """Two models that repeat themselves without a penalty."""
    tokenizer = SentencePieceTokenizer.train(sentences(50), vocabulary_size=50)
    models = [build(tokenizer, seed=seed, max_length=40) for seed in (1, 2)]
    return Translator(models, tokenizer, beam_size=3, extra_length=6, min_length=6)


SOURCES = np.array([[7, 8, 9, 2, 0], [20, 21, 22, 23, 2]])
PREFIXES = np.array([[30, 31], [32, 0]])
CANDIDATES = np.tile(np.array([2, *range(10, 40)]), (2, 1))


def repetitions(ids):
    """How often a token occurs again, in all outputs together."""
    rows = np.reshape(np.asarray(ids), (-1, np.shape(ids)[-1]))
    rows = [[token for token in row if token not in (0, EOS)] for row in rows]
    return sum(len(row) - len(set(row)) for row in rows)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_every_search_of_an_ensemble_repeats_nothing_at_the_largest_penalty(beam_size, translator):
    generator = SequenceGenerator(translator.models, vocabulary_size=50, jit_compile=False)
    uniforms = np.random.default_rng(0).random((2, 2, 16))
    for penalty, may_repeat in ((1.0, True), (100.0, False)):
        options = SearchOptions(
            beam_size=beam_size, extra_length=6, min_length=6, repetition_penalty=penalty
        )
        found = [
            generator.search(SOURCES, options=options),
            generator.search(SOURCES, PREFIXES, options=options),
            generator.search(SOURCES, None, CANDIDATES, options=options),
            generator.search_alphas(SOURCES, [0.0, 1.0], options=options),
            generator.sample(SOURCES, uniforms, options=options),
        ]
        for ids, scores in found:
            assert (repetitions(ops.convert_to_numpy(ids)) > 0) == may_repeat
            assert np.isfinite(ops.convert_to_numpy(scores)).all()


@pytest.mark.tensorflow
def test_exports_contain_it(translator, tmp_path):
    from keras_transformer.export import export_litert, export_saved_model
    from keras_transformer.serving import LiteRTTranslator, SavedModelTranslator

    translator = translator.with_search(repetition_penalty=2.0)
    texts = sentences(8, seed=3)
    expected = translator.translate(texts)
    assert expected != translator.with_search(repetition_penalty=1.0).translate(texts)
    path = export_litert(translator, tmp_path / "litert")
    assert LiteRTTranslator(path).translate(texts) == expected
    path = export_saved_model(translator, tmp_path / "saved_model")
    assert SavedModelTranslator(path).translate(texts) == expected
