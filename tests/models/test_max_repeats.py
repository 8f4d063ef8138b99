"""`max_repeats`: on every path of a model's search, in exports, and in a run's own search."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding.next_tokens import constraints_of
from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.inference.translator import Translator
from keras_transformer.search_options import SearchOptions
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.types import SpecialTokens
from tests.decoding.numpy_constraints import num_repeats
from tests.random_translation import build, sentences

EOS = 2
SOURCES = np.array([[7, 8, 9, 2, 0], [20, 20, 20, 20, 2]])
PREFIXES = np.array([[30, 30, 30, 30], [32, 0, 0, 0]])
CANDIDATES = np.tile(np.array([2, *range(10, 40)]), (2, 1))


@pytest.fixture(scope="module")
def translator():
    """Models that loop, because their outputs cannot end soon."""
    tokenizer = SentencePieceTokenizer.train(sentences(50), vocabulary_size=50)
    models = [build(tokenizer, seed=seed, max_length=60) for seed in (1, 2)]
    return Translator(models, tokenizer, beam_size=3, extra_length=30, min_length=30)


def longest_loop(ids, first=0):
    """The most tokens after the first ones that equal the one 1 to 8 places before, less n - 1."""
    rows = np.reshape(np.asarray(ids), (-1, np.shape(ids)[-1]))
    rows = [[int(token) for token in row if token not in (0, EOS)] for row in rows]
    return max(
        num_repeats(row[:end], n) - n + 1
        for row in rows
        for end in range(first, len(row) + 1)
        for n in range(1, 9)
    )


@pytest.mark.parametrize("beam_size", [1, 3])
def test_no_search_of_an_ensemble_loops(beam_size, translator):
    generator = SequenceGenerator(translator.models, vocabulary_size=50, jit_compile=False)
    uniforms = np.random.default_rng(0).random((2, 2, 40))
    options = {"beam_size": beam_size, "extra_length": 30, "min_length": 30}
    for max_repeats in (0, 1):
        search = SearchOptions(**options, max_repeats=max_repeats)
        found = [
            generator.search(SOURCES, options=search),
            generator.search(SOURCES, PREFIXES, options=search),
            generator.search(SOURCES, None, CANDIDATES, options=search),
            generator.search_alphas(SOURCES, [0.0, 1.0], options=search),
            generator.sample(SOURCES, uniforms, options=search, temperature=0.1),
        ]
        for number, (ids, scores) in enumerate(found):
            assert np.isfinite(ops.convert_to_numpy(scores)).all()
            ids = ops.convert_to_numpy(ids)
            if not max_repeats:
                assert longest_loop(ids[0]) > 3
                continue
            first = PREFIXES.shape[1] + 1 if number == 1 else 0
            assert longest_loop(ids[0], first) == 0  # after the prefix, which loops itself
            assert longest_loop(ids[1], first) <= 3  # as the source repeats a token three times


def test_without_a_guard_nothing_is_computed():
    assert not constraints_of(SearchOptions(), SpecialTokens(), 6, SOURCES)


@pytest.mark.tensorflow
def test_exports_contain_it(translator, tmp_path):
    from keras_transformer.export import export_litert, export_saved_model
    from keras_transformer.serving import LiteRTTranslator, SavedModelTranslator

    texts = sentences(8, seed=3)
    free = translator.translate(texts)
    translator = translator.with_search(max_repeats=2)
    expected = translator.translate(texts)
    assert expected != free
    path = export_litert(translator, tmp_path / "litert")
    assert LiteRTTranslator(path).translate(texts) == expected
    path = export_saved_model(translator, tmp_path / "saved_model")
    assert SavedModelTranslator(path).translate(texts) == expected
