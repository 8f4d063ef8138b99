"""Exports with terms: the strings of the translator that has them."""

import functools
import itertools
import re

import numpy as np
import pytest

from keras_transformer import Translator
from keras_transformer.errors import UserInputError
from keras_transformer.formats.format import NO_SCORE
from keras_transformer.formats.litert.reader import LiteRTTranslator
from keras_transformer.formats.litert.writer import export_litert
from keras_transformer.formats.saved_model.reader import SavedModelTranslator
from keras_transformer.formats.saved_model.writer import export_saved_model
from keras_transformer.text import Glossary, SentencePieceTokenizer, Shortlist
from tests.export.exported_signatures import ExportedSignatures
from tests.litert_exports import operations, padded, signature, unusual_translator
from tests.random_translation import WORDS, build, sentences
from tests.translation_training.number_text import ENGLISH

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

# From no term to more than the search has hypotheses for.
LINES = ["", *sentences(24), "house tree", "tree house house", " ".join(WORDS)]
# Half of the words, with one to three tokens a form.
GLOSSARY = Glossary(
    {
        word: [WORDS[-i - 1], f"{WORDS[i - 3]} {WORDS[i]}"][: 1 + i % 2]
        for i, word in enumerate(WORDS[:6])
    }
)
VARIABLES = ["{a b} tree", "a house (%s), %d", "old tree", "", "house https://x.org/?q=ä#b house"]
LIMITS = {"max_source_length": 40}
WRITERS = {"saved model": export_saved_model, "litert": export_litert}
READERS = {"saved model": SavedModelTranslator, "litert": LiteRTTranslator}


def usual(**options):
    tokenizer = SentencePieceTokenizer.train(sentences(200), vocabulary_size=64)
    return Translator(
        build(tokenizer), tokenizer, **{"beam_size": 3, "extra_length": 40, **options}
    )


def unusual():
    """Two models of every option, with a shortlist that lacks nearly all tokens."""
    models = unusual_translator()
    tokenizers = models.tokenizer, models.source_tokenizer
    shortlist = Shortlist([0], [], [4, 5, 6, 7], *tokenizers)
    options = {"beam_size": 3, "extra_length": 12, "min_length": 3, "no_repeat_ngram": 2}
    return Translator(
        models.models,
        tokenizers[0],
        source_tokenizer=tokenizers[1],
        shortlist=shortlist,
        **options,
    )


TRANSLATORS = {
    "usual": usual,
    "greedy": lambda: usual(beam_size=1),
    "marian": lambda: usual(beam_size=2, ending="marian", length_penalty="power"),
    "all options": unusual,
}


@pytest.fixture(scope="module")
def translator():
    return usual()


@pytest.fixture(scope="module")
def paths(translator, tmp_path_factory):
    base = tmp_path_factory.mktemp("exports")
    return {
        kind: write(translator, base / kind, terms=True, **LIMITS)
        for kind, write in WRITERS.items()
    }


def lines_of(glossary, text):
    """The terms of a text as `translate_with_terms` reads them."""
    return "\n".join("|".join(each.targets) for each in glossary.find(text))


def check(exported, translator, lines=LINES):
    expected = translator.translate(lines, glossary=GLOSSARY)
    assert exported.translate(lines, glossary=GLOSSARY) == expected
    assert exported.translate(lines[:6]) == translator.translate(lines[:6])


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("options", list(TRANSLATORS)[1:])
def test_translations_with_every_search(kind, options, tmp_path):
    translator = TRANSLATORS[options]()
    path = WRITERS[kind](translator, tmp_path / "model", terms=True, **LIMITS)
    short = [line for line in LINES if len(line.split()) < 6]
    check(READERS[kind](path), translator, short)


@pytest.mark.parametrize("kind", WRITERS)
def test_a_trained_model_translates_many_sentences_as_the_translator(kind, trained_run, tmp_path):
    translator = Translator.load(trained_run)
    glossary = {"two": ["zwo", "zweie"], "three": "drei Stück", "four": "vier"}
    lines = [" ".join(words) for words in itertools.product(ENGLISH[:4], repeat=3)]
    expected = translator.translate(lines, glossary=glossary)
    assert len(set(expected)) > 50
    for line, text in zip(lines, expected, strict=True):
        assert text.count("drei Stück") >= line.count("three")
    exported = READERS[kind](WRITERS[kind](translator, tmp_path / "model", terms=True, **LIMITS))
    assert exported.translate(lines, glossary=glossary) == expected


@pytest.mark.parametrize("kind", WRITERS)
def test_translations_have_the_terms_of_the_translator(paths, translator, kind):
    exported = READERS[kind](paths[kind])
    check(exported, translator)
    for how in ({"keep": "auto"}, {"keep": "numbers", "glossary": GLOSSARY}):
        assert exported.translate(VARIABLES, **how) == translator.translate(VARIABLES, **how)
    one = exported.translate(VARIABLES[1], keep="auto")
    assert one.count("%s") == one.count("%d") == 1
    assert exported.translate(LINES[:5]) == translator.translate(LINES[:5])
    with pytest.raises(UserInputError, match="terms of sentence 2 must fit into its translation"):
        exported.translate(["", "house"], glossary={"house": " ".join(WORDS * 9)})
    with pytest.raises(UserInputError, match="must have the characters of a term"):
        exported.translate("house", glossary={"house": "Ж"})


def test_strings_in_any_batch_are_the_translators(paths, translator):
    exported = ExportedSignatures(paths["saved model"])
    terms = [lines_of(GLOSSARY, line) for line in LINES]
    found = exported.run("translate_with_terms", inputs=LINES, terms=terms)
    expected = translator.translate_nbest(LINES, 1, glossary=GLOSSARY)
    assert found["outputs"].tolist() == [text for ((text, _),) in expected]
    scores = [score for ((_, score),) in expected]
    np.testing.assert_allclose(found["scores"], scores, atol=1e-3)
    texts = ["house tree"] * 5 + [""]
    terms = ["Ж", "house|Ж", "\n".join(["tree"] * 90), "", "a\x00b", "house"]
    found = exported.run("translate_with_terms", inputs=texts, terms=terms)
    possible = translator.translate(texts[0], glossary={"house": "house"})
    plain = translator.translate(texts[0])
    assert found["outputs"].tolist() == ["", possible, "", plain, "", ""]
    assert found["scores"][[0, 2, 4]].tolist() == [NO_SCORE] * 3
    assert (found["scores"][[1, 3]] > NO_SCORE).all()
    assert found["scores"][5] == 0
    empty = exported.run("translate_with_terms", inputs=[], terms=[])
    assert empty["outputs"].shape == (0,)


def test_any_array_of_terms_has_a_defined_output(paths, translator):
    ids = padded(translator.source_tokenizer.encode(["house tree"] * 4))
    (plain,) = translator.translate(["house tree"])
    token = translator.tokenizer.encode(["stone"])[0][0]
    generator = np.random.default_rng(0)
    saved_model = ExportedSignatures(paths["saved model"])
    runs = [
        functools.partial(saved_model.run, "translate_ids_with_terms"),
        signature(paths["litert"], "translate_ids_with_terms"),
    ]
    for run in runs:
        for shape in ((4, 0, 3), (4, 1, 3), (4, 0, 9), (4, 2, 4)):
            found = run(**ids, terms=np.zeros(shape, "int32"))
            assert (found["scores"] > NO_SCORE).all()
            if run is runs[0]:  # rows without terms use the search without terms
                assert translator.tokenizer.decode(found["output_ids"]) == [plain] * 4
        forms = [[9, 1, 0, token], [-9, 1, 0, token], [0, 1, 0, 64], [0, 1, 0, -1]]
        scores = run(**ids, terms=np.array(forms, "int32")[:, np.newaxis])["scores"]
        assert (scores[:2] > NO_SCORE).all()
        assert scores[2:].tolist() == [NO_SCORE] * 2
        for most in (70, 2**31 - 1):
            terms = generator.integers(-most, most, (4, 5, 7)).astype("int32")
            found = run(**ids, terms=terms)
            assert np.isfinite(found["scores"]).all()
            assert (found["output_lengths"] <= 2 + 40).all()


def test_litert_needs_built_in_operations_alone(paths):
    assert not {"CUSTOM", "DELEGATE"} & operations(paths["litert"])


def test_what_has_no_terms_says_so(translator, tmp_path):
    for kind, write in WRITERS.items():
        path = write(translator, tmp_path / kind, beam_size=1, max_source_length=8)
        exported = READERS[kind](path)
        for how in ({"glossary": {}}, {"keep": "auto"}):
            with pytest.raises(UserInputError, match=f"{re.escape(str(path))} has no search for"):
                exported.translate("house", **how)


def test_xla_compiles_only_the_search_without_terms(translator, tmp_path):
    path = export_saved_model(translator, tmp_path, terms=True, jit_compile=True, **LIMITS)
    check(SavedModelTranslator(path), translator, LINES[:6])
