"""Exports of models with an alignment head: the links and weights of the translator."""

import functools
import re

import numpy as np
import pytest

from keras_transformer import Translator
from keras_transformer.errors import UserInputError
from keras_transformer.formats.litert.reader import LiteRTTranslator
from keras_transformer.formats.litert.writer import export_litert
from keras_transformer.formats.saved_model.reader import SavedModelTranslator
from keras_transformer.formats.saved_model.writer import export_saved_model
from keras_transformer.models import with_alignment_head
from keras_transformer.runs.model_weights import rounded_to_int8
from keras_transformer.text import Glossary, SentencePieceTokenizer
from keras_transformer.text.term_forms import array_of_terms
from tests.export.exported_signatures import ExportedSignatures
from tests.litert_exports import operations, padded, signature
from tests.random_translation import WORDS, build, sentences

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

LINES = ["", *sentences(12), "house Ж tree", " ".join(WORDS * 2), "  "]
GLOSSARY = Glossary({"house": "green tree", "tree": ["bread", "old"]})
PAGE = '<p>house <b>tree <i class="x">old</i></b> lamp</p><ul><li>green <b>bread</b></ul>{x}'
LIMITS = {"max_source_length": 60, "extra_length": 12, "min_length": 4}
WRITERS = {"saved model": export_saved_model, "litert": export_litert}
READERS = {"saved model": SavedModelTranslator, "litert": LiteRTTranslator}


def own_head():
    tokenizer = SentencePieceTokenizer.train(sentences(200), vocabulary_size=64)
    model = build(tokenizer, num_decoder_layers=2, alignment_layer=1)
    return Translator(model, tokenizer, beam_size=3, **LIMITS)


def cross_attention():
    """The head of a Bergamot model, with few positions and two vocabularies."""
    source_tokenizer = SentencePieceTokenizer.train(sentences(50), vocabulary_size=70)
    tokenizer = SentencePieceTokenizer.train(sentences(50, seed=1), vocabulary_size=50)
    sizes = {"source_vocabulary_size": 70, "positions": "learned", "max_length": 64}
    model = with_alignment_head(build(tokenizer, num_decoder_layers=2, **sizes), 2, 2)
    return Translator(model, tokenizer, source_tokenizer=source_tokenizer, beam_size=1, **LIMITS)


def recurrent():
    """The head of a model with SSRUs, which compute their states in a loop."""
    tokenizer = SentencePieceTokenizer.train(sentences(200), vocabulary_size=64)
    model = with_alignment_head(build(tokenizer, num_decoder_layers=2, decoder_unit="ssru"), 2, 1)
    return Translator(model, tokenizer, beam_size=1, **LIMITS)


TRANSLATORS = {
    "own head": own_head,
    "cross-attention": cross_attention,
    "recurrent": recurrent,
}


@pytest.fixture(scope="module", params=TRANSLATORS)
def translator(request):
    return TRANSLATORS[request.param]()


@pytest.fixture(scope="module")
def has_terms(translator):
    """Whether the exports have terms, which take long to load."""
    return translator.beam_size == 3


@pytest.fixture(scope="module")
def paths(translator, has_terms, tmp_path_factory):
    base = tmp_path_factory.mktemp("exports")
    return {
        kind: write(translator, base / kind, terms=has_terms, **LIMITS)
        for kind, write in WRITERS.items()
    }


def test_an_ssru_aligns_in_int8_with_one_table_of_tokens(tmp_path):
    tokenizer = SentencePieceTokenizer.train(sentences(200), vocabulary_size=64)
    model = build(tokenizer, decoder_unit="ssru", alignment_layer=1)
    weights = model.get_weights()
    translator = Translator(model, tokenizer, beam_size=1, **LIMITS)
    path = export_litert(translator, tmp_path / "export", precision="int8", **LIMITS)
    for weight, before in zip(model.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(weight, before)
    matrix = np.array(model.target_embedding.token_embedding.matrix)
    values, _ = rounded_to_int8(matrix, by_rows=True)
    assert (path / "model.tflite").read_bytes().count(values.tobytes()) == 1
    reader = LiteRTTranslator(path)
    texts = reader.translate(LINES)
    assert [bool(text) for text in texts] == [bool(line.strip()) for line in LINES]
    found, expected = reader.align(LINES, texts), translator.align(LINES, texts)
    errors = [
        np.abs(ours.weights - theirs.weights).max(initial=0)
        for ours, theirs in zip(found, expected, strict=True)
    ]
    assert np.mean(errors) < 0.1  # links of a model whose weights are random


@functools.cache
def signatures(path, kind):
    """The signatures of an export, as a function of a name and arrays."""
    if kind == "litert":
        return lambda name, **inputs: signature(path, name)(**inputs)
    return ExportedSignatures(path).run


def check_weights(weights, lengths, rows, expected):
    """The weights of pairs are the translator's, and 0 beyond them."""
    expected = dict(expected)
    for i, (found, length, row) in enumerate(zip(weights, lengths, rows, strict=True)):
        np.testing.assert_allclose(found[:length, : len(row) + 1], expected[i], atol=1e-5)
        assert not found[length:].any()
        assert not found[:, len(row) + 1 :].any()


def test_strings_have_the_links_of_the_translator(paths, translator, has_terms):
    run = signatures(paths["saved model"], "saved model")
    found = run("translate", inputs=LINES)
    expected = translator.align(LINES, found["outputs"].tolist())
    assert found["alignments"].tolist() == [each.pharaoh() for each in expected]
    assert {"", "0-0"} < set(found["alignments"])
    assert run("translate", inputs=[])["alignments"].shape == (0,)
    n_best = run("translate_nbest", inputs=LINES)
    assert n_best["alignments"].shape == n_best["outputs"].shape
    for texts, links in zip(n_best["outputs"].T, n_best["alignments"].T, strict=True):
        expected = translator.align(LINES, texts.tolist())
        assert links.tolist() == [each.pharaoh() for each in expected]
    if not has_terms:
        return
    terms = ["\n".join("|".join(e.targets) for e in GLOSSARY.find(line)) for line in LINES]
    found = run("translate_with_terms", inputs=LINES, terms=terms)
    expected = translator.align(LINES, found["outputs"].tolist())
    assert found["alignments"].tolist() == [each.pharaoh() for each in expected]


@pytest.mark.parametrize("kind", WRITERS)
def test_ids_have_the_weights_of_the_translator(paths, translator, has_terms, kind):
    run = signatures(paths[kind], kind)
    rows = translator.source_tokenizer.encode(LINES)
    calls = {"translate_ids": {}}
    if has_terms:
        calls["translate_ids_with_terms"] = {"terms": array_of_terms([()] * len(rows))}
    for name, more in calls.items():
        found = run(name, **padded(rows), **more)
        lengths = found["output_lengths"]
        outputs = [ids[:n].tolist() for ids, n in zip(found["output_ids"], lengths, strict=True)]
        assert found["alignments"].shape[1] == found["output_ids"].shape[1]
        expected = translator._generator.alignment(rows, outputs)
        check_weights(found["alignments"], lengths, rows, expected)
        assert lengths.max() > 2
        alone = run(name, **padded(rows[3:4]), **{key: value[3:4] for key, value in more.items()})
        weights = alone["alignments"][0]
        same = found["alignments"][3, : len(weights), : weights.shape[1]]
        np.testing.assert_allclose(weights, same, atol=1e-5)


@pytest.mark.parametrize("kind", WRITERS)
def test_any_pair_of_ids_has_defined_weights(paths, translator, kind):
    run = signatures(paths[kind], kind)
    sources, targets = [[4, 5], [], [6, 7, 8], [4], [9, 10]], [[5, 3, 9], [4], [], [4] * 99, [7]]
    target = {name.replace("input", "target"): ids for name, ids in padded(targets).items()}
    found = run("align_ids", **padded(sources), **target)["alignments"]
    most = 63 if translator.max_length else 71
    lengths = [min(len(row), most) for row in targets]
    expected = translator._generator.alignment(sources, [row[:most] for row in targets])
    check_weights(found, lengths, sources, expected)
    strange = {"target_ids": np.array([[-7, 2**31 - 1, 9]] * 5, "int32")}
    strange["target_lengths"] = np.array([99, -1, 3, 1, 2], "int32")
    found = run("align_ids", **padded(sources), **strange)["alignments"]
    expected = translator._generator.alignment(
        sources, [row[:n] for row, n in zip([[3, 3, 9]] * 5, (3, 0, 3, 1, 2), strict=True)]
    )
    check_weights(found, (3, 0, 3, 1, 2), sources, expected)


@pytest.mark.parametrize("kind", WRITERS)
def test_readers_align_pairs_and_place_tags(paths, translator, has_terms, kind):
    exported = READERS[kind](paths[kind], batch_size=4, long_sentences="refuse")
    for targets in (exported.translate(LINES), LINES[::-1]):
        found = exported.align(LINES, targets)
        for own, expected in zip(found, translator.align(LINES, targets), strict=True):
            assert own.source_pieces == expected.source_pieces
            assert own.target_pieces == expected.target_pieces
            np.testing.assert_allclose(own.weights, expected.weights, atol=1e-5)
    if not has_terms:
        return
    pages = [PAGE, "", "house <br> tree"]
    expected = translator.translate(pages, markup="html")
    assert exported.translate(pages, markup="html") == expected
    glossary = {"house": "green"}
    expected = translator.translate(PAGE, markup="html", glossary=glossary)
    assert exported.translate(PAGE, markup="html", glossary=glossary) == expected
    cutting = READERS[kind](paths[kind])
    with pytest.raises(UserInputError, match="`markup` cannot be combined with `long_sentences="):
        cutting.translate(PAGE, markup="html")


def test_litert_needs_built_in_operations_alone(paths):
    assert not {"CUSTOM", "DELEGATE"} & operations(paths["litert"])


def test_a_litert_model_may_leave_its_head_out(tmp_path):
    translator = recurrent()
    path = export_litert(translator, tmp_path / "litert", alignments=False)
    exported = LiteRTTranslator(path)
    assert exported.translate(LINES) == translator.translate(LINES)
    assert "alignments" not in signature(path, "translate_ids")(**padded([[5, 6]]))
    with pytest.raises(UserInputError, match="has no alignment head"):
        exported.align(["house"], ["tree"])


def test_a_model_without_a_head_has_no_alignments(tokenizer, tmp_path):
    translator = Translator(build(tokenizer), tokenizer, beam_size=1, extra_length=8)
    path = export_saved_model(translator, tmp_path / "saved_model")
    specs = ExportedSignatures(path).specs()
    assert not {"align_ids", "tokenizers"} & set(specs)
    assert all("alignments" not in outputs for _, outputs in specs.values())
    lite = export_litert(translator, tmp_path / "litert", terms=True)
    assert "alignments" not in signature(lite, "translate_ids")(**padded([[4, 5]]))
    for exported, place in ((SavedModelTranslator(path), path), (LiteRTTranslator(lite), lite)):
        message = f"{re.escape(str(place))} has no alignment head: train one with"
        with pytest.raises(UserInputError, match=message):
            exported.align(["house"], ["tree"])
    with pytest.raises(UserInputError, match="has no alignment head: train one with"):
        LiteRTTranslator(lite).translate(PAGE, markup="html")
