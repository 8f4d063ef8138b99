"""The bars of LiteRT exports, on a trained Multi30k model where there is one."""

import pytest

from keras_transformer.data import find_text, read_text
from keras_transformer.evaluation import bleu
from keras_transformer.formats.litert.reader import LiteRTTranslator
from keras_transformer.formats.litert.writer import export_litert
from keras_transformer.inference.translator import Translator
from tests.export.nasty_sentences import NASTY
from tests.external_data import MULTI30K, MULTI30K_RUN, needs_multi30k_run
from tests.litert_exports import returning_ids

TIE = 1e-4  # scores this close are equal: rounding decides which translation comes first

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.slow,
    needs_multi30k_run,
]


@pytest.fixture(scope="module")
def translator():
    return Translator.load(MULTI30K_RUN)


@pytest.fixture(scope="module")
def corpus():
    return [read_text(find_text(MULTI30K, f"test_2016_flickr.{side}")) for side in ("en", "de")]


@pytest.fixture(scope="module")
def expected(translator, corpus):
    """Token ids and score of each translation."""
    return [best[0] for best in returning_ids(translator).translate_nbest(corpus[0], 1)]


@pytest.fixture(scope="module")
def exports(translator, tmp_path_factory):
    directory = tmp_path_factory.mktemp("litert")
    return {
        precision: export_litert(translator, directory / precision, precision=precision)
        for precision in ("float32", "int8")
    }


def test_float32_finds_the_same_tokens_but_for_few_ties(corpus, expected, exports):
    found = returning_ids(LiteRTTranslator(exports["float32"])).translate_with_scores(corpus[0])
    differences = [
        abs(score - other_score)
        for (ids, score), (other, other_score) in zip(found, expected, strict=True)
        if ids != other
    ]
    assert all(difference <= TIE for difference in differences)
    assert len(differences) <= len(found) / 200


def test_int8_loses_at_most_half_a_bleu_point(translator, corpus, expected, exports):
    sources, references = corpus
    found = LiteRTTranslator(exports["int8"]).translate(sources)
    score, _ = bleu(found, references, "none")
    texts = translator.tokenizer.decode([ids for ids, _ in expected])
    assert score >= bleu(texts, references, "none")[0] - 0.5


def test_int8_is_half_the_size_or_less(exports):
    sizes = {name: (path / "model.tflite").stat().st_size for name, path in exports.items()}
    assert sizes["int8"] < sizes["float32"] / 2


def test_nasty_input_at_the_full_limits(exports):
    translator = LiteRTTranslator(exports["float32"])
    texts = [text.decode("utf-8", "replace") for text in NASTY]
    found = translator.translate(texts)
    assert {text for text, source in zip(found, texts, strict=True) if not source.strip()} == {""}
    most = translator.settings["limits"]["max_source_length"] - 1
    rows = translator.source_tokenizer.encode(texts)
    long = [i for i, row in enumerate(rows) if len(row) > most]
    assert len(long) > 3
    for i in long[:2]:
        cut = translator.source_tokenizer.decode([rows[i][: most // 2]])
        assert translator.translate([texts[i]]) == [found[i]] != translator.translate(cut)
