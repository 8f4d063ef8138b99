"""Exports of models with options of attention, on sources so long that windows take blocks.

And of models whose decoder has a recurrent unit instead.
"""

import numpy as np
import pytest

from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.formats.litert.writer import export_litert
from keras_transformer.formats.saved_model.writer import export_saved_model
from keras_transformer.inference.translator import Translator
from keras_transformer.layers import SSRU, MultiHeadAttention
from keras_transformer.search_options import SearchOptions
from tests.export.exported_signatures import ExportedSignatures, check_equal
from tests.export.test_litert import check_equal_translations, numpy_greedy, sources_of
from tests.random_translation import build, sentences

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]
LIMITS = {"max_source_length": 250, "extra_length": 4}


OPTIONS = [("attention_window", 5), ("positions", "rotary"), ("decoder_unit", "ssru")]


@pytest.fixture(scope="module", params=OPTIONS, ids=str)
def translator(tokenizer, request):
    name, value = request.param
    model = build(tokenizer, **{name: value})
    if name == "decoder_unit":
        assert isinstance(model.decoder_layers[0].ssru, SSRU)
    else:
        values = [
            getattr(part, name)
            for part in model._flatten_layers()
            if isinstance(part, MultiHeadAttention)
        ]
        assert sorted(values, key=str) == sorted([value, value, None], key=str)
    return Translator(model, tokenizer, beam_size=3, extra_length=LIMITS["extra_length"])


@pytest.fixture(scope="module")
def texts(translator):
    """Sources of less than a block, of two and of more."""
    texts = [" ".join(sentences(number, seed=number)) for number in (1, 4, 8, 20)]
    lengths = [len(ids) for ids in translator.tokenizer.encode(texts)]
    assert min(lengths) < 64 < 128 < max(lengths) < LIMITS["max_source_length"]
    return texts


def test_a_saved_model_equals_the_model(translator, texts, tmp_path):
    exported = ExportedSignatures(export_saved_model(translator, tmp_path))
    check_equal(exported, translator, texts, 3)


def test_a_litert_model_equals_the_model(translator, texts, tmp_path):
    path = export_litert(translator, tmp_path / "model", **LIMITS)
    check_equal_translations(translator, path, texts)
    for text in texts[::2]:
        ids, total = numpy_greedy(path, translator, text)
        generator = SequenceGenerator(translator.models, translator.tokenizer.special_tokens)
        options = SearchOptions(beam_size=1, alpha=0.0, extra_length=LIMITS["extra_length"])
        expected, log_probs = generator.search(sources_of(translator, text), options=options)
        assert ids == np.array(expected)[0, 0, : len(ids)].tolist()
        np.testing.assert_allclose(total, np.array(log_probs)[0, 0], atol=1e-3)
