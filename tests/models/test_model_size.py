"""The size of a model, told before it is built."""

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.models import (
    PRESETS,
    build_language_model,
    build_transformer,
    check_model_fits,
    model_options,
)

SMALL = {"num_decoder_layers": 3, "hidden_dim": 16, "intermediate_dim": 24}
WORDS = {"source_vocabulary_size": 20, "source_word_starts": (2,), "target_word_starts": (1,)}


OF_TRANSFORMERS = [
    {},
    {"num_heads": 2, "key_dim": 3, "value_dim": 5},
    {"use_bias": True, "num_heads": 2, "key_dim": 3},
    {"normalize_first": True},
    {"positions": "learned", "max_length": 50},
    {"positions": "learned", "max_length": 50, "source_vocabulary_size": 20},
    {"positions": "words", **WORDS},
    {"qk_norm": True, "num_heads": 2, "key_dim": 3},
    {"tie_weights": False, "final_norm": True},
    {"tie_weights": False, "source_vocabulary_size": 20, "normalize_first": True},
    {"normalize_first": True, "final_norm": False, "use_logits_bias": True},
]
OF_LANGUAGE_MODELS = [
    {},
    {"use_bias": True, "num_heads": 2, "key_dim": 3, "value_dim": 5},
    {"normalize_first": True, "tie_weights": False, "use_logits_bias": True},
    {"positions": "learned", "max_length": 50},
    {"positions": "words", "word_starts": (2,)},
]


@pytest.mark.parametrize("overrides", OF_TRANSFORMERS)
def test_the_arithmetic_is_that_of_the_model(overrides):
    options = {"vocabulary_size": 30, "num_encoder_layers": 2, **SMALL, **overrides}
    model = build_transformer("base", **options)
    assert check_model_fits("base", **options).count_weights() == model.count_params()


@pytest.mark.parametrize("overrides", OF_LANGUAGE_MODELS)
def test_the_arithmetic_is_that_of_the_language_model(overrides):
    model = build_language_model(vocabulary_size=30, **SMALL, **overrides)
    assert model.options.count_weights() == model.count_params()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"hidden_dim": 10_000_000}, "too large: its [0-9,]+ weights take [0-9,.]+ GB, and this"),
        ({"vocabulary_size": 10**12}, "too large: its [0-9,]+ weights take"),
        ({"intermediate_dim": 10**18}, "too large"),
        ({"positions": "learned", "max_length": 10**18}, "too large"),
        ({"num_decoder_layers": 10**6}, "at most 1,000 layers in a stack. Received: 1,000,000"),
        ({"hidden_dim": 8, "num_decoder_layers": 10**30}, "at most 1,000 layers in a stack"),
    ],
)
def test_what_does_not_fit_is_refused_before_it_is_built(overrides, message):
    arguments = {"vocabulary_size": 100, **overrides}
    for function in (build_transformer, check_model_fits, build_language_model):
        with pytest.raises(UserInputError, match=message):
            function("base", **arguments)


def test_a_training_takes_its_copies(monkeypatch):
    count = check_model_fits("tiny", vocabulary_size=100).count_weights()
    monkeypatch.setattr(model_options, "machine_memory", lambda: 4 * count)
    assert check_model_fits("tiny", vocabulary_size=100)
    with pytest.raises(UserInputError, match="weights, 4 times in training, take"):
        check_model_fits("tiny", vocabulary_size=100, copies=4)
    assert check_model_fits("tiny", vocabulary_size=100, copies=2, dtype="float16")


def test_every_preset_fits():
    assert all(check_model_fits(preset, vocabulary_size=37_000) for preset in PRESETS)
