"""A translator with a shortlist: other strings only where the shortlist lacks tokens."""

import numpy as np
import pytest

from keras_transformer import Translator
from keras_transformer.errors import UserInputError
from keras_transformer.text import SentencePieceTokenizer, Shortlist
from tests.random_translation import build, sentences

LINES = sentences(40)


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train(LINES, vocabulary_size=60)


@pytest.fixture(scope="module")
def shortlist(tokenizer):
    """Three translations of each token at random, and 4 of all."""
    generator = np.random.default_rng(0)
    translations = np.sort(generator.integers(2, 60, (60, 3)), axis=1)
    return Shortlist(np.arange(0, 181, 3), translations.ravel(), [4, 5, 6, 7], tokenizer)


@pytest.fixture(scope="module")
def translator(tokenizer):
    model = build(tokenizer)

    def translator(shortlist, **options):
        options = {"beam_size": 2, "extra_length": 3, "batch_size": 8, **options}
        return Translator(model, tokenizer, shortlist=shortlist, **options)

    return translator


def test_translations_are_of_candidates_and_independent_of_the_batch(
    translator, tokenizer, shortlist
):
    short = translator(shortlist)
    rows, outputs = short.translate_ids(LINES[:20])
    eos = tokenizer.special_tokens.eos
    for row, output in zip(rows, outputs, strict=True):
        assert set(output) <= set(shortlist.candidates([[*row, eos]]).ravel().tolist())
    texts = short.translate(LINES[:20])
    assert texts == tokenizer.decode(outputs)
    assert [short.translate([line])[0] for line in LINES[:4]] == texts[:4]
    whole = short.with_search(beam_size=2)
    assert whole.shortlist is shortlist
    assert texts != translator(None).translate(LINES[:20])
    assert short.translate_with_alphas(LINES[:4], [short.alpha]) == [texts[:4]]


def test_a_shortlist_of_all_tokens_changes_nothing(translator, tokenizer):
    everything = Shortlist([0], [], np.arange(60), tokenizer)
    found = translator(everything, renormalize=True).translate_nbest(LINES[:9], 2)
    expected = translator(None, renormalize=True).translate_nbest(LINES[:9], 2)
    for one, other in zip(found, expected, strict=True):
        assert [text for text, _ in one] == [text for text, _ in other]
        np.testing.assert_allclose([s for _, s in one], [s for _, s in other], rtol=1e-4)


def test_prefixes_are_candidates_and_scores_are_of_all_tokens(translator, tokenizer):
    nothing = Shortlist(
        [0], [], [], tokenizer, SentencePieceTokenizer.train(LINES, vocabulary_size=50)
    )
    assert not nothing.copies
    own = translator(Shortlist([0], [], [], tokenizer))
    assert own.translate(["tree"], prefixes=["green lamp"])[0].startswith("green lamp")
    whole = translator(None)
    assert own.score(LINES[:3], LINES[3:6]) == pytest.approx(whole.score(LINES[:3], LINES[3:6]))
    assert own.sample(LINES[:2], seed=3) == whole.sample(LINES[:2], seed=3)


def test_presets_keep_it(translator, shortlist, tmp_path):
    short = translator(shortlist)
    short.save_to_preset(tmp_path / "preset.zip")
    again = Translator.from_preset(tmp_path / "preset.zip", shortlist=True)
    np.testing.assert_array_equal(again.shortlist.translations, shortlist.translations)
    assert Translator.from_preset(tmp_path / "preset.zip").shortlist is None
    translator(None).save_to_preset(tmp_path / "run")
    with pytest.raises(
        UserInputError, match=r"The run .*run has no shortlist. `train --shortlist`"
    ):
        Translator.load(tmp_path / "run", shortlist=True)
    short.save_to_preset(tmp_path / "short")
    path = tmp_path / "short" / "shortlist.npz"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserInputError, match=r"Damaged: .*shortlist.npz"):
        Translator.load(tmp_path / "short", shortlist=True)


def test_shortlists_of_others_are_refused(translator):
    other = SentencePieceTokenizer.train(LINES, vocabulary_size=55)
    with pytest.raises(UserInputError, match="`shortlist` must be for the tokenizers of the model"):
        translator(Shortlist([0], [], [], other))
    with pytest.raises(UserInputError, match="`shortlist` must be a `text.Shortlist`"):
        translator("shortlist.npz")
