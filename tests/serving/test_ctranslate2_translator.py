"""`CTranslate2Translator`: what it has beyond the translators of other exports."""

import json
import shutil

import numpy as np
import pytest

from keras_transformer.errors import LongSentenceWarning, SentenceTooLong, UserInputError
from keras_transformer.formats.ctranslate2.reader import CTranslate2Translator
from keras_transformer.formats.ctranslate2.writer import export_ctranslate2
from keras_transformer.inference.translator import Translator
from keras_transformer.text import SentencePieceTokenizer
from tests.random_translation import build, sentences
from tests.translation_training.number_text import pairs

SEARCH = {"beam_size": 4, "alpha": 0.0, "extra_length": 8}
TEXTS = ["one two three four", "", "five", "  ", "three three one", "two five five one four two"]


@pytest.fixture(scope="module")
def translator(trained_run):
    return Translator.load(trained_run, **SEARCH)


@pytest.fixture(scope="module")
def exported(translator, tmp_path_factory):
    return export_ctranslate2(translator, tmp_path_factory.mktemp("ctranslate2") / "model")


@pytest.fixture(scope="module")
def engine(exported):
    return CTranslate2Translator(exported, num_threads=1, **SEARCH)


@pytest.fixture
def copied(exported, tmp_path):
    return shutil.copytree(exported, tmp_path / "copied")


def short_sentences(number):
    return [" ".join(line.split()[:4]) for line in sentences(number)]


def test_nbest_lists_are_the_translators(translator, engine):
    found = engine.translate_nbest(iter(TEXTS), 2)
    # CTranslate2's search gives no share of the probability to what it never produces, and with an
    # alpha of 0 it ends at the best hypothesis: the second may be another.
    wide = translator.with_search(renormalize=True, beam_size=8).translate_nbest(TEXTS, 8)
    for best, others in zip(found, map(dict, wide), strict=True):
        assert best[0][0] in others
        for text, score in best:
            assert score == pytest.approx(others.get(text, score), abs=1e-4)
    assert engine.translate(TEXTS) == [best[0][0] for best in found]
    assert engine.translate_nbest(["", " "], 1) == [[("", 0.0)]] * 2


def test_greedy_search_is_the_same(translator, exported):
    sources = pairs()[0][::7]
    options = SEARCH | {"beam_size": 1}
    expected = Translator(translator.models, translator.tokenizer, **options).translate(sources)
    assert CTranslate2Translator(exported, **options).translate(sources) == expected


def test_prefixes_scores_and_alignments_are_the_same(translator, engine):
    sources, targets = ["one two three four", "five", "", "two"], ["1 2 3", "", "5", "2 2 2 2 2 2"]
    prefixes = ["1 3", "", "4", "2"]
    assert engine.translate(sources, prefixes) == translator.translate(sources, prefixes)
    expected = translator.score(sources, targets)
    assert engine.score(sources, targets) == pytest.approx(expected, abs=1e-3)
    expected = translator.score(sources, targets, normalize=True)
    assert engine.score(sources, targets, normalize=True) == pytest.approx(expected, abs=1e-3)
    alignments = engine.align(sources, targets), translator.align(sources, targets)
    for found, expected in zip(*alignments, strict=True):
        assert found.source_pieces == expected.source_pieces
        assert found.target_pieces == expected.target_pieces
        np.testing.assert_allclose(found.weights, expected.weights, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"extra_length": 2},  # each sentence its own limit
        {"extra_length": 6, "min_length": 5},
        {"extra_length": 6, "no_repeat_ngram": 2},
    ],
    ids=str,
)
def test_options_of_the_search_hold(options, tmp_path):
    """With separate vocabularies, padded, learned positions, outputs that end nowhere."""
    source_tokenizer = SentencePieceTokenizer.train(sentences(50), vocabulary_size=60)
    tokenizer = SentencePieceTokenizer.train(sentences(50, seed=1), vocabulary_size=50)
    sizes = {"vocabulary_size": 56, "source_vocabulary_size": 64}
    model = build(tokenizer, **sizes, positions="learned", max_length=24)
    options = {"beam_size": 1, "alpha": 0.0, "batch_size": 4, **options}
    expected = Translator(model, tokenizer, source_tokenizer=source_tokenizer, **options)
    path = export_ctranslate2(expected, tmp_path / "model")
    found = CTranslate2Translator(path, num_threads=1, **options)
    assert found.max_length == 24
    texts = short_sentences(9)
    assert found.translate(texts) == expected.translate(texts)
    assert found.source_tokenizer.fingerprint == source_tokenizer.fingerprint
    assert found.tokenizer.fingerprint == tokenizer.fingerprint


def test_long_sentences(translator, exported):
    options = SEARCH | {"max_source_length": 12}
    long = "one two three four five one two three. four five one two."
    with pytest.raises(SentenceTooLong, match=r"`sentences\[1\]` has more than 12 tokens"):
        CTranslate2Translator(exported, **options).translate(["one", long])
    with pytest.raises(SentenceTooLong, match=r"`targets\[0\]` has more than 12 tokens"):
        CTranslate2Translator(exported, **options).check_lengths(["one"], [long])
    for choice in ("cut", "split"):
        own = Translator(translator.models, translator.tokenizer, **options, long_sentences=choice)
        engine = CTranslate2Translator(exported, **options, long_sentences=choice)
        with pytest.warns(LongSentenceWarning):
            expected = own.translate(["one", long])
        with pytest.warns(LongSentenceWarning):
            assert engine.translate(["one", long]) == expected


def test_the_export_of_another_format(copied):
    card = json.loads((copied / "model_card.json").read_text("utf-8"))
    for other in ([], card | {"kind": "LiteRT model"}):
        (copied / "model_card.json").write_text(json.dumps(other), "utf-8")
        with pytest.raises(
            UserInputError, match=r"model_card.json does not belong to a CTranslate2 export"
        ):
            CTranslate2Translator(copied)


def test_damage_that_no_checksum_shows_is_one_line(copied):
    (copied / "SHA256SUMS").unlink()
    content = (copied / "model.bin").read_bytes()
    (copied / "model.bin").write_bytes(content[:-1000])
    with pytest.raises(UserInputError, match="CTranslate2 cannot open .*copied: ") as raised:
        CTranslate2Translator(copied)
    assert "\n" not in str(raised.value)
    other = SentencePieceTokenizer.train(["another vocabulary"], vocabulary_size=20)
    other.save(copied / "tokenizer.model")
    with pytest.raises(UserInputError, match=r"tokenizer.model is not the tokenizer of the export"):
        CTranslate2Translator(copied)
    card = json.loads((copied / "model_card.json").read_text("utf-8"))
    for change in ({"options": {"max_positions": "24"}}, {"source_vocabulary": None}):
        (copied / "model_card.json").write_text(json.dumps(card | change), "utf-8")
        with pytest.raises(UserInputError, match=r"model_card.json is damaged: .*Copy the export"):
            CTranslate2Translator(copied)


def test_misuse(exported, engine):
    with pytest.raises(ValueError, match="`beam_size`"):
        CTranslate2Translator(exported, beam_size=0)
    fixed = {"ending": "transformers", "renormalize": True, "max_repeats": 8, "num_results": 1}
    for name, other in fixed.items():
        with pytest.raises(
            UserInputError, match=f"`{name}` must be .* with CTranslate2, .* {name}="
        ):
            CTranslate2Translator(exported, **{name: other})
    same = CTranslate2Translator(exported, ending="any", length_penalty="power", num_results=None)
    assert same.length_penalty == "power"
    with pytest.raises(UserInputError, match="`n` must be at most the beam size"):
        engine.translate_nbest(["one"], 5)
    with pytest.raises(UserInputError, match="`prefixes` must have the same length as `sentences`"):
        engine.translate(["one"], ["1", "2"])
