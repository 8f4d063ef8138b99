"""Model parallelism: which weights are divided, and that the training is that of one device."""

import json
import os

import keras
import pytest

from keras_transformer.models import build_language_model, build_transformer, layout_map
from tests.models.model_parallel import SIZES
from tests.python_programs import run_python

on_jax = pytest.mark.skipif(keras.backend.backend() != "jax", reason="Keras divides models on JAX")
ATTENTION = {
    "query_key_value/kernel": (None, "model"),
    "query_key_value/bias": ("model",),
    "output/kernel": ("model", None),
}
MEMORY_ATTENTION = {
    "query/kernel": (None, "model"),
    "query/bias": ("model",),
    "key_value/kernel": (None, "model"),
    "key_value/bias": ("model",),
    "output/kernel": ("model", None),
}
FEED_FORWARD = {
    "expand/kernel": (None, "model"),
    "expand/bias": ("model",),
    "contract/kernel": ("model", None),
}
EMBEDDING = {
    "matrix": ("model", None),
    "reverse_matrix": (None, "model"),
    "logits_bias": ("model",),
}


def under(prefix, layouts):
    return {f"{prefix}/{path}": layout for path, layout in layouts.items()}


def mesh(shape=(1, 1), names=("batch", "model")):
    """A mesh of devices that need not exist."""
    count = shape[0] * shape[1]
    return keras.distribution.DeviceMesh(shape, names, [f"cpu:{i}" for i in range(count)])


def layouts_of(model, *arguments, **options):
    found = layout_map(model, *arguments, **options)
    return {path: layout.axes for path, layout in found.items()}


@on_jax
def test_every_large_weight_is_divided():
    model = build_transformer(
        "tiny",
        **SIZES,
        num_encoder_layers=1,
        use_bias=True,
        use_logits_bias=True,
        tie_weights=False,
        normalize_first=True,
    )
    found = layouts_of(model, mesh((2, 4)))
    assert found == {
        **under("embedding/token_embedding", EMBEDDING),
        **under("encoder_layer_1/self_attention", ATTENTION),
        **under("encoder_layer_1/feed_forward", FEED_FORWARD),
        **under("decoder_layer_1/self_attention", ATTENTION),
        **under("decoder_layer_1/cross_attention", MEMORY_ATTENTION),
        **under("decoder_layer_1/feed_forward", FEED_FORWARD),
    }
    whole = {weight.path for weight in model.trainable_weights} - found.keys()
    assert {path.split("/")[-1] for path in whole} == {"gamma", "beta", "bias"}
    assert {path.split("/")[-2] for path in whole if path.endswith("bias")} == {
        "output",
        "contract",
    }


@on_jax
def test_what_does_not_divide_stays_whole():
    model = build_language_model("tiny", **SIZES)  # 16 and 32 do not divide by 3, 24 and 48 do
    assert layouts_of(model, mesh((1, 3), ("data", "parts")), "parts") == {
        "embedding/token_embedding/matrix": ("parts", None),
        "decoder_layer_1/self_attention/query_key_value/kernel": (None, "parts"),
    }


@on_jax
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((mesh(), "parts"), "`model_parallel_dim_name` must be an axis .*='parts', axes="),
        ((mesh((1, 5)),), "whose sizes are multiples .* Received: axis='model', devices=5"),
    ],
)
def test_wrong_arguments(arguments, message):
    model = build_language_model("tiny", **SIZES)
    with pytest.raises(ValueError, match=message) as caught:
        layout_map(model, *arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="for the other backends")
def test_other_backends_are_refused():
    with pytest.raises(ValueError, match="`layout_map` needs JAX.* Received: KERAS_BACKEND=") as it:
        layout_map(build_language_model("tiny", **SIZES), mesh())
    assert "\n" not in str(it.value)


@pytest.fixture(scope="module")
def trainings():
    done = run_python(
        "-m",
        "tests.models.model_parallel",
        KERAS_BACKEND="jax",
        XLA_FLAGS=f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4",
    )
    return json.loads(done.stdout.splitlines()[-1])


@on_jax
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["transformer", "language_model"])
def test_the_training_is_that_of_one_device(trainings, kind):
    found = trainings[kind]
    assert found["moved"] > 1e-4
    assert found["losses"] < 1e-5
    assert found["weights"] < 1e-5


@on_jax
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["transformer", "language_model"])
def test_every_device_holds_its_part_of_weights_and_moments(trainings, kind):
    found = trainings[kind]
    parts = found["shares"]
    assert parts["embedding/token_embedding/matrix"] == [[24, 16], [12, 16]]
    assert parts["decoder_layer_1/self_attention/query_key_value/kernel"] == [[16, 48], [16, 24]]
    assert parts["decoder_layer_1/self_attention/output/kernel"] == [[16, 16], [8, 16]]
    assert parts["decoder_layer_1/feed_forward/expand/bias"] == [[32], [16]]
    assert parts["decoder_layer_1/feed_forward/contract/bias"] == [[16], [16]]
    divided = {path for path, (whole, part) in parts.items() if whole != part}
    moments = {path for path, (whole, part) in found["moments"].items() if whole != part}
    assert len(moments) == len(divided) * (1 if kind == "transformer" else 2)
