"""Settings of every training: sizes, options of the model, parts of a step, shapes."""

import argparse
import dataclasses

import keras
import pytest

from keras_transformer import losses, models, optimizers
from keras_transformer.errors import UserInputError
from keras_transformer.training import TrainingSettings, training_model
from keras_transformer.training.devices import device_start
from keras_transformer.translation_training import TranslationSettings

SIZES = {
    "num_encoder_layers": 2,
    "num_decoder_layers": 1,
    "hidden_dim": 6,
    "intermediate_dim": 10,
    "num_heads": 4,
    "key_dim": 3,
    "value_dim": 5,
    "use_bias": True,
    "positions": "learned",
    "max_length": 7,
}


def test_every_size_is_the_models():
    model = models.build_transformer(
        "base", vocabulary_size=11, **TrainingSettings(num_layers=9, **SIZES).model_options()
    )
    attention = 2 * (6 * 12 + 12) + (6 * 20 + 20) + (20 * 6 + 6)
    feed_forward = (6 * 10 + 10) + (10 * 6 + 6)
    norm = 2 * 6
    encoder = 2 * (attention + feed_forward + 2 * norm)
    decoder = 2 * attention + feed_forward + 3 * norm
    assert model.count_params() == encoder + decoder + (11 + 2 * 7) * 6


def test_what_is_not_given_is_the_presets():
    assert TrainingSettings(precision="float32").model_options() == {
        "dropout": 0.1,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "word_dropout": 0.0,
        "normalize_first": False,
        "use_bias": False,
        "qk_norm": False,
        "use_logits_bias": False,
        "dtype": "float32",
    }
    new = {"activation": "gelu", "final_norm": False, "layer_norm_epsilon": 1e-5}
    new |= {
        "tie_weights": False,
        "use_logits_bias": True,
        "attention_window": 5,
        "residual_connection": "b2t",
    }
    options = TrainingSettings(num_layers=2, num_decoder_layers=3, **new).model_options()
    assert options.items() > new.items()
    assert (options["num_encoder_layers"], options["num_decoder_layers"]) == (2, 3)


def test_heads_of_their_own_size_need_not_divide_the_hidden_size():
    with pytest.raises(UserInputError, match="`hidden_dim` must be a multiple of `num_heads`"):
        TrainingSettings(num_heads=7, value_dim=8)
    assert TrainingSettings(num_heads=7, key_dim=8).hidden_dim is None


def settings_of(settings_class, *flags):
    parser = argparse.ArgumentParser()
    settings_class.add_arguments(parser)
    return settings_class.from_arguments(parser.parse_args(flags))


def test_flags_of_the_model_reach_the_model():
    flags = ["--activation", "swish", "--layer-norm-epsilon", "1e-5", "--final-norm"]
    flags += ["--attention-window", "7", "--no-tie-weights", "--num-layers", "1"]
    options = settings_of(TrainingSettings, *flags).model_options()
    model = models.build_transformer("tiny", vocabulary_size=9, **options)
    config = model.get_layer("decoder_layer_1").get_config()
    assert (config["activation"], config["layer_norm_epsilon"]) == ("silu", 1e-5)
    assert config["attention_window"] == 7
    assert model.get_layer("encoder_norm").epsilon == 1e-5
    assert model.get_layer("embedding").tie_weights is False
    wrong = {"activation": "relu6", "layer_norm_epsilon": 0, "attention_window": 4}
    for name, value in wrong.items():
        with pytest.raises(UserInputError, match=f"`{name}` must be"):
            TrainingSettings(**{name: value})


def test_the_norm_of_the_gradients_is_limited():
    settings = TrainingSettings(warmup_steps=7, learning_rate_scale=0.5, global_clipnorm=2.0)
    adam = optimizers.transformer_optimizer(16, **settings.optimizer_options())
    assert type(adam) is optimizers.AdamWithGradientNorm
    assert adam.global_clipnorm == 2.0
    schedule = adam.get_config()["learning_rate"]["config"]
    assert schedule == {"hidden_dim": 16, "warmup_steps": 7, "scale": 0.5}


def test_matrices_may_be_updated_by_muon():
    settings = TrainingSettings(optimizer="muon", rms_rate=0.3, cooldown=0.2)
    muon = optimizers.transformer_optimizer(16, **settings.optimizer_options())
    assert isinstance(muon, optimizers.Muon)
    assert (muon.rms_rate, muon.cooldown, muon.beta_2) == (0.3, 0.2, 0.98)
    with pytest.raises(UserInputError, match="`optimizer` must be one of adam, muon"):
        TrainingSettings(optimizer="sgd")


def test_parts_of_a_step_follow_from_what_a_device_can_hold():
    assert TrainingSettings().micro_batches(replicas=8) == 1
    assert TrainingSettings(accumulate=3).micro_batches(replicas=8) == 3
    small_device = TrainingSettings(device_tokens=4000)
    assert small_device.micro_batches(replicas=1) == 7  # 25,000 / 7 = 3,571
    assert small_device.micro_batches(replicas=4) == 2  # 25,000 / 8 = 3,125
    assert small_device.micro_batches(replicas=8) == 1
    twice = TrainingSettings(device_tokens=4000, r_drop=5.0)  # R-Drop reads a batch twice
    assert twice.micro_batches(replicas=4) == 4  # 50,000 / 16 = 3,125


def test_given_and_computed_parts_exclude_each_other():
    with pytest.raises(UserInputError, match="accumulate=2, device_tokens=4000"):
        TrainingSettings(accumulate=2, device_tokens=4000)


def test_tensorflow_does_not_compile_deterministic_operations():
    with pytest.raises(UserInputError, match="xla='on', deterministic=True"):
        TrainingSettings(xla=True, deterministic=True)


def test_compiled_steps_have_one_shape_or_few():
    compiled = TrainingSettings(batch_tokens=512, seed=3, xla="on")
    plan = {"batch_tokens": 512, "seed": 3}
    assert compiled.plan_options() == {**plan, "shapes": None, "packing": True}
    apart = dataclasses.replace(compiled, packing="off")
    assert apart.plan_options() == {**plan, "shapes": 16, "packing": False}
    is_jax = keras.backend.backend() == "jax"
    assert TrainingSettings().plan_options()["packing"] == is_jax
    off = TrainingSettings(packing=False).plan_options()
    assert off["shapes"] == (16 if is_jax else None)
    assert TrainingSettings(packing=True).plan_options()["packing"]


def test_tensorflow_compiles_on_demand_and_jax_always():
    is_jax = keras.backend.backend() == "jax"
    assert TrainingSettings().jit_compile() == is_jax
    assert TrainingSettings(xla=False).jit_compile() == is_jax
    assert TrainingSettings(xla="on").jit_compile()
    decided = TrainingSettings().decided()
    assert (decided.xla, decided.packing) == (("on", "on") if is_jax else ("off", "off"))


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="JAX always compiles")
def test_tensorflow_compiles_where_there_is_a_gpu(monkeypatch):
    import tensorflow as tf
    from tensorflow.python.framework import config

    gpu = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: [gpu])
    # A test may have made this process deterministic before.
    monkeypatch.setattr(device_start, "_made_deterministic", False)
    monkeypatch.setattr(config, "is_op_determinism_enabled", lambda: False)
    assert TrainingSettings().jit_compile()
    assert TrainingSettings().packs()
    assert not TrainingSettings(xla="off").jit_compile()
    assert not TrainingSettings(deterministic=True).jit_compile()
    exact = training_model(models.build_transformer("tiny", vocabulary_size=20))
    for given, compiles in (("auto", True), (False, False), (True, True)):
        exact.compile("sgd", losses.LabelSmoothingCrossEntropy(), jit_compile=given)
        assert exact.jit_compile is compiles
    exact.compile("sgd", losses.LabelSmoothingCrossEntropy())
    assert exact.jit_compile is True
    exact.compile("sgd", losses.LabelSmoothingCrossEntropy(), run_eagerly=True)
    assert exact.jit_compile is False


def test_a_model_is_compiled_as_the_settings_say():
    settings = TrainingSettings(r_drop=5.0, global_clipnorm=1.0)
    model = models.build_transformer("tiny", vocabulary_size=20)
    loss = losses.LabelSmoothingCrossEntropy(reduction="sum")
    exact = settings.compile(model, loss, accumulate=2)
    assert (exact.r_drop, exact.accumulate, exact.loss) == (5.0, 2, loss)
    assert exact.optimizer.global_clipnorm == 1.0
    assert exact.jit_compile == (keras.backend.backend() == "jax")
    assert exact.step_losses[0].loss is loss
    assert exact.trainable_weights[0] is model.trainable_weights[0]


def test_one_way_to_say_the_parts_of_a_step_replaces_the_other():
    """Of a run that goes on, or of a file; given together they exclude each other."""
    earlier = TrainingSettings(device_tokens=4000).to_dict()
    merged = TrainingSettings.merge(earlier, {"accumulate": 3})
    assert TrainingSettings.from_dict(merged).micro_batches(replicas=1) == 3
    merged = TrainingSettings.merge(merged, {"device_tokens": 25_000})
    assert TrainingSettings.from_dict(merged).micro_batches(replicas=1) == 1
    assert TrainingSettings.merge(earlier, {"accumulate": None}) == earlier
    assert TrainingSettings.merge({}, {"accumulate": 3}) == {"accumulate": 3}
    with pytest.raises(UserInputError, match="accumulate=3, device_tokens=9"):
        TrainingSettings.from_dict(
            TrainingSettings.merge(earlier, {"accumulate": 3, "device_tokens": 9})
        )


def test_a_flag_without_effect_is_refused():
    with pytest.raises(UserInputError, match="Received: max_length=9, positions='sinusoidal'"):
        settings_of(TrainingSettings, "--max-length", "9")
    assert settings_of(TrainingSettings, "--max-length", "9", "--positions", "learned").max_length
    assert settings_of(TrainingSettings, "--max-length", "none").max_length is None
    with pytest.raises(UserInputError, match="Received: ema_momentum=0.9, ema=False"):
        settings_of(TranslationSettings, "--ema-momentum", "0.9")
    assert settings_of(TranslationSettings, "--ema-momentum", "0.9", "--ema").ema
    # Runs of earlier versions have such values, and go on.
    values = {**TranslationSettings().to_dict(), "max_length": 9, "ema_momentum": 0.9}
    settings = TranslationSettings.from_arguments(argparse.Namespace(), base=values)
    assert (settings.max_length, settings.ema_momentum) == (9, 0.9)
