"""Strings in, strings out, with Keras's own `compile` and `fit` between."""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from tests.python_programs import run_python
from tests.translation_training.number_text import pairs

ENGLISH, GERMAN = ([*pairs(1)[side], *pairs(2)[side]] for side in (0, 1))
SMALL = {
    "vocabulary_size": 40,
    "num_decoder_layers": 1,
    "hidden_dim": 32,
    "intermediate_dim": 64,
    "num_heads": 2,
    "dropout": 0.0,
    "normalize_first": True,
}


@pytest.fixture(scope="module")
def tokenizer():
    return kt.SentencePieceTokenizer.train([*ENGLISH, *GERMAN], vocabulary_size=40)


def mean_loss(model, dataset):
    """The mean negative log-likelihood of real tokens, in float64, of a dataset of one batch."""
    ((inputs, labels, mask),) = list(dataset)
    logits = np.asarray(keras.ops.convert_to_numpy(model(inputs)), "float64")
    scores = logits - logits.max(-1, keepdims=True)
    scores -= np.log(np.exp(scores).sum(-1, keepdims=True))
    losses = -np.take_along_axis(scores, labels[..., None], -1)[..., 0]
    return losses[mask > 0].mean()


def test_a_translator_learns_from_strings(tokenizer):
    training = kt.data.fit_texts(ENGLISH, GERMAN, tokenizer, batch_tokens=64)
    assert len(training) > 1
    # The rate falls to 0: at a constant one, the last updates undo what the model has learned.
    rate = keras.optimizers.schedules.CosineDecay(0.01, 40 * len(training))
    model = kt.build_transformer("tiny", num_encoder_layers=1, **SMALL)
    model.compile(
        keras.optimizers.Adam(rate),
        keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        ),
        weighted_metrics=["accuracy"],
    )
    validation = kt.data.fit_texts(
        ENGLISH[3:9], GERMAN[3:9], tokenizer, batch_tokens=128, shuffle=False
    )
    history = model.fit(training, epochs=40, validation_data=validation, verbose=0).history
    assert history["loss"][-1] < 0.2 * history["loss"][0]
    assert history["accuracy"][-1] > 0.9  # of real tokens: with padding it would be less
    assert history["val_loss"][-1] == pytest.approx(mean_loss(model, validation), rel=1e-4)
    translations = kt.Translator(model, tokenizer).translate(ENGLISH)
    assert sum(map(str.__eq__, translations, GERMAN)) >= 27  # of 30


def test_a_language_model_learns_from_strings(tokenizer):
    model = kt.build_language_model("tiny", **SMALL)
    model.compile(keras.optimizers.Adam(0.01), kt.LabelSmoothingCrossEntropy(0.0))
    dataset = kt.data.fit_texts(None, GERMAN, tokenizer, batch_tokens=512)
    assert len(dataset) == 1
    before = mean_loss(model, dataset)
    history = model.fit(dataset, epochs=15, verbose=0).history
    assert history["loss"][0] == pytest.approx(before, rel=1e-4)  # padding is not counted
    assert mean_loss(model, dataset) < 0.6 * before


WITHOUT_TENSORFLOW = """
import sys
sys.modules["tensorflow"] = None
import keras_transformer as kt
texts = ["one two", "two one one", "one"]
tokenizer = kt.SentencePieceTokenizer.train(texts, vocabulary_size=14)
model = kt.build_transformer(
    "tiny", vocabulary_size=14, num_encoder_layers=1, num_decoder_layers=1, hidden_dim=4,
    intermediate_dim=4, num_heads=1
)
model.compile("sgd", kt.LabelSmoothingCrossEntropy())
model.fit(kt.data.fit_texts(texts, texts, tokenizer, batch_tokens=64))
"""


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="without TensorFlow")
def test_fit_does_without_tensorflow():
    assert "loss" in run_python("-c", WITHOUT_TENSORFLOW).stdout
