"""The model and the optimizer that settings describe, and settings that are refused at once."""

import keras
import pytest

from keras_transformer.data import SentencePairs
from keras_transformer.errors import UserInputError
from keras_transformer.models import build_transformer, vocabulary_options
from keras_transformer.optimizers import AdamWithGradientNorm, transformer_optimizer
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.translation_training import (
    TranslationData,
    TranslationSettings,
    train_translation,
)
from tests.translation_training.number_text import ENGLISH, GERMAN, SMALL


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train([*ENGLISH, *GERMAN], vocabulary_size=35)


def model_and_optimizer(tokenizer, **changes):
    settings = TranslationSettings(**{**SMALL, **changes})
    options = settings.model_options(tokenizer, tokenizer)
    model = build_transformer("tiny", **vocabulary_options(tokenizer, tokenizer), **options)
    dtype = model.dtype_policy.compute_dtype
    options = settings.optimizer_options()
    return model, transformer_optimizer(model.hidden_dim, dtype=dtype, **options)


@pytest.mark.parametrize(
    ("precision", "optimizer_class"),
    [
        ("float32", AdamWithGradientNorm),
        ("mixed_bfloat16", AdamWithGradientNorm),
        ("mixed_float16", keras.optimizers.LossScaleOptimizer),
    ],
)
def test_float16_alone_scales_the_loss(tokenizer, precision, optimizer_class):
    model, optimizer = model_and_optimizer(tokenizer, precision=precision)
    assert type(optimizer) is optimizer_class
    assert model.get_layer("encoder_layer_1").dtype_policy.name == precision


def test_the_schedule_is_that_of_the_models_width(tokenizer):
    _, optimizer = model_and_optimizer(tokenizer, learning_rate_scale=2.0, warmup_steps=100)
    rate = optimizer.get_config()["learning_rate"]["config"]
    assert (rate["hidden_dim"], rate["warmup_steps"], rate["scale"]) == (32, 100, 2.0)


def test_two_vocabularies_have_two_sizes(tokenizer):
    source_tokenizer = SentencePieceTokenizer.train(ENGLISH, vocabulary_size=20)
    options = vocabulary_options(source_tokenizer, tokenizer)
    assert options == {"vocabulary_size": 40, "padding_id": 0, "source_vocabulary_size": 24}


class UnreadText(SentencePairs):
    """Text that nobody may read."""

    def __iter__(self):
        raise AssertionError("the text was read")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden_dim": 10_000_000}, "too large: its .* weights, 4 times in training"),
        (
            {"hidden_dim": 10_000_000, "positions": "words", "separate_vocabularies": True},
            "too large: its .* weights, 4 times in training",
        ),
        ({"language": "German"}, "`language` must be a code of two or three lowercase letters"),
        ({"bleu_tokenize": "moses"}, "moses"),
    ],
)
def test_what_can_be_known_is_refused_before_the_text_is_read(tmp_path, values, message):
    settings = TranslationSettings(preset="tiny", **values)
    data = TranslationData([UnreadText(["a"], ["b"])])
    with pytest.raises(UserInputError, match=message):
        train_translation(settings, data, tmp_path / "run")
