import keras
import pytest

from keras_transformer.data import SentencePairs
from keras_transformer.errors import UserInputError
from keras_transformer.optimizers import AdamWithGradientNorm
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.translation_training import (
    TranslationData,
    TranslationSettings,
    train_translation,
)
from keras_transformer.translation_training.models import compile_model, make_model
from tests.translation_training.number_text import ENGLISH, GERMAN, SMALL


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train([*ENGLISH, *GERMAN], vocabulary_size=35)


@pytest.mark.parametrize(
    ("precision", "optimizer_class"),
    [
        ("float32", AdamWithGradientNorm),
        ("mixed_bfloat16", AdamWithGradientNorm),
        ("mixed_float16", keras.optimizers.LossScaleOptimizer),
    ],
)
def test_float16_alone_scales_the_loss(tokenizer, precision, optimizer_class):
    settings = TranslationSettings(**{**SMALL, "precision": precision})
    model = compile_model(make_model(settings, tokenizer, tokenizer), settings, tokenizer)
    assert type(model.optimizer) is optimizer_class
    assert model.get_layer("encoder_layer_1").dtype_policy.name == precision


def test_the_schedule_is_that_of_the_models_width(tokenizer):
    settings = TranslationSettings(**{**SMALL, "learning_rate_scale": 2.0, "warmup_steps": 100})
    model = compile_model(make_model(settings, tokenizer, tokenizer), settings, tokenizer)
    rate = model.optimizer.get_config()["learning_rate"]["config"]
    assert (rate["hidden_dim"], rate["warmup_steps"], rate["scale"]) == (32, 100, 2.0)


class UnreadText(SentencePairs):
    """Text that nobody may read."""

    def __iter__(self):
        raise AssertionError("the text was read")


def test_a_model_that_is_too_large_is_refused_before_its_text_is_read(tmp_path):
    settings = TranslationSettings(preset="tiny", hidden_dim=10_000_000)
    data = TranslationData([UnreadText(["a"], ["b"])])
    with pytest.raises(UserInputError, match="too large: its .* weights, 4 times in a training"):
        train_translation(settings, data, tmp_path / "run")
