"""Transformers over layers that no `ModelOptions` say are saved and copied."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.formats.guarded_generator import with_precision
from keras_transformer.layers import (
    PaddingMask,
    PositionalEmbedding,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from keras_transformer.models import Transformer, build_transformer
from keras_transformer.runs.model_weights import model_record

SIZES = {"intermediate_dim": 8, "num_heads": 2}
INPUTS = {
    "source_ids": np.array([[3, 4, 5, 2], [6, 2, 0, 0]], "int32"),
    "target_ids": np.array([[1, 5, 6], [1, 7, 8]], "int32"),
}


@pytest.fixture
def model():
    """Decoder layers of two rates of dropout, one of them with a regularizer."""
    embedding = PositionalEmbedding(12, 8, num_tables=2, name="embedding")
    return Transformer.from_layers(
        embedding,
        [
            TransformerDecoderLayer(**SIZES, dropout=0.1, name="decoder_layer_1"),
            TransformerDecoderLayer(**SIZES, kernel_regularizer="l2", name="decoder_layer_2"),
        ],
        source_mask=PaddingMask(name="source_mask"),
        source_embedding=embedding,
        encoder_layers=[TransformerEncoderLayer(**SIZES, name="encoder_layer_1")],
    )


def check_equal(other, model):
    assert type(other) is Transformer
    assert other.decoder_layers[0].dropout == 0.1
    assert other.decoder_layers[1].kernel_regularizer is not None
    expected, found = (ops.convert_to_numpy(each(INPUTS)) for each in (model, other))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_it_is_saved_with_all_that_its_layers_have(model, tmp_path):
    model.save(tmp_path / "model.keras")
    check_equal(keras.saving.load_model(tmp_path / "model.keras"), model)


def test_a_regularizer_alone_is_no_option_either():
    layer = TransformerDecoderLayer(**SIZES, kernel_regularizer="l2")
    with pytest.raises(ValueError, match="`kernel_regularizer` must be None"):
        Transformer.from_layers(PositionalEmbedding(12, 8), [layer]).options  # noqa: B018


def test_a_run_does_not_load_it(model):
    with pytest.warns(UserWarning, match="cannot be loaded from its run: `kernel_regularizer`"):
        assert model_record(model) is None


def test_it_has_a_copy_of_another_precision(model):
    copy = with_precision(model, "bfloat16")
    assert copy.dtype_policy.name == "bfloat16"
    assert copy.decoder_layers[0].dropout == 0.1


@pytest.mark.parametrize("model", [keras.Sequential(), 3, None], ids=str)
def test_what_is_no_model_of_layers_is_refused(model):
    with pytest.raises(ValueError, match="`model` must"):
        Transformer.of(model)
    with pytest.raises(ValueError, match="`model` must"):
        SequenceGenerator(model)


def test_arguments_are_named():
    with pytest.raises(ValueError, match="`options` must be .*: options='tiny'"):
        Transformer("tiny")
    embedding, layer = PositionalEmbedding(12, 8), TransformerDecoderLayer(**SIZES)
    for options, message in (
        ({"source_mask": PaddingMask()}, "`source_mask` must be None without an encoder"),
        ({"encoder_norm": PaddingMask()}, "`encoder_norm` must be None without an encoder"),
        ({"source_embedding": embedding}, "`source_embedding` must be given together"),
        ({"encoder_layers": [layer]}, "`source_embedding` must be given together"),
        ({"source_embedding": embedding, "encoder_layers": [layer]}, "`mask_id` of `source_emb"),
        ({"decoder_norm": "layer"}, "`decoder_norm` must be a layer, such as"),
        ({"encoder_norm": 1e-6}, "`encoder_norm` must be a layer, such as"),
    ):
        with pytest.raises(ValueError, match=message):
            Transformer.from_layers(embedding, [layer], **options)


def test_a_model_has_the_name_that_it_is_given():
    embedding, layer = PositionalEmbedding(12, 8), TransformerDecoderLayer(**SIZES)
    assert Transformer.from_layers(embedding, [layer], name="mine").name == "mine"
    assert Transformer.from_layers(embedding, [layer]).name == "transformer"


def test_the_mask_of_the_source_is_by_default_that_of_its_embedding():
    embedding = PositionalEmbedding(12, 8, mask_id=0)
    encoder, decoder = TransformerEncoderLayer(**SIZES), TransformerDecoderLayer(**SIZES)
    parts = {"source_embedding": embedding, "encoder_layers": [encoder]}
    models = [
        Transformer.from_layers(embedding, [decoder], **parts, source_mask=mask)
        for mask in (None, PaddingMask(padding_id=0))
    ]
    found = [model.generate([[5, 6, 2], [7, 2, 0]], extra_length=4) for model in models]
    np.testing.assert_array_equal(*(ops.convert_to_numpy(ids) for ids, _ in found))
    alone, _ = models[0].generate([[7, 2]], extra_length=4)
    np.testing.assert_array_equal(ops.convert_to_numpy(alone)[0], np.asarray(found[0][0])[1, :, :6])


def test_a_model_that_runs_eagerly_is_searched_eagerly(monkeypatch):
    model = build_transformer("tiny", vocabulary_size=12, num_encoder_layers=1, **SIZES)
    functional = keras.Model(model.input, model.output, name=model.name)
    functional.compile(run_eagerly=True)
    generator = SequenceGenerator(functional)
    monkeypatch.setattr(generator, "_compiled", None)  # so that a compiled call would fail
    ids, _ = generator.search([[5, 6, 2]])
    assert ids.shape[0] == 1
