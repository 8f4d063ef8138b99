"""Every public layer in models of a user: saved, exported, loaded in a new process, and trained."""

import collections
import json
import pathlib

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import layers
from tests.layers.in_users_models.users_models import (
    CASES,
    KINDS,
    WAYS,
    inputs_of,
    why_not,
)
from tests.python_programs import run_python

ROOT = pathlib.Path(__file__).parents[3]
BACKEND = keras.backend.backend()
TOLERANCE = 1e-6
ALL = [(name, kind, way) for name in CASES for kind in KINDS for way in WAYS]


def applicable(chosen):
    return [one for one in chosen if why_not(*one, backend=BACKEND) is None]


def write(folder, name, kind, ways):
    """Write a model with random weights in some ways, and what it predicts."""
    model, inputs = KINDS[kind](name), inputs_of(kind, name)
    model(inputs)
    for number, weight in enumerate(model.weights):
        values = np.random.default_rng(number).normal(size=weight.shape, scale=0.3)
        weight.assign(values)
    folder.mkdir()
    np.save(folder / "expected.npy", ops.convert_to_numpy(model(inputs)))
    for way in ways:
        if way == "model.keras":
            model.save(folder / way)
        elif way == "export":
            model.export(folder / way, verbose=False)
        else:
            import tensorflow as tf

            tf.saved_model.save(model, str(folder / way))
    record = {"case": name, "kind": kind, "ways": ways}
    (folder / "record.json").write_text(json.dumps(record))


def check_in_a_new_process(folder, chosen):
    """Require that what a new process loads predicts what this one does."""
    models = collections.defaultdict(list)
    for name, kind, way in applicable(chosen):
        models[name, kind].append(way)
    for number, ((name, kind), ways) in enumerate(models.items()):
        write(folder / str(number), name, kind, ways)
    program = "tests.layers.in_users_models.users_models"
    done = run_python("-m", program, folder, KERAS_BACKEND=BACKEND)
    differences = json.loads(done.stdout.splitlines()[-1])
    assert set(differences) == {" | ".join(one) for one in applicable(chosen)}
    wrong = {
        one: found
        for one, found in differences.items()
        if not (isinstance(found, float) and found <= TOLERANCE)
    }
    assert wrong == {}


def test_every_public_layer_is_there_and_nothing_is_left_out_in_silence():
    names = {name.split(",")[0].split()[0] for name in CASES}
    assert names == {*layers.__all__, "build_language_model", "build_transformer", "a"}
    left_out = collections.defaultdict(set)
    for name, kind, way in ALL:
        reason = why_not(name, kind, way, BACKEND)
        if reason is not None:
            left_out[reason].add((name, kind, way))
    several = {
        "MultiHeadAttention to a value",
        "MultiHeadAttention to a value by keys",
        "ResidualBlock",
        "ResidualBlock with a shortcut",
        "TransformerDecoderLayer with a memory",
        "TransformerDecoderLayer with an SSRU",
        "build_transformer",
        "a translator",
    }
    of_one = {"subclassed, a tensor", "sequential", "nested"}
    expected = {
        "it takes several tensors": {
            (name, kind, way) for name in several for kind in of_one for way in WAYS
        },
        "a sequential model calls its layers with their inputs alone": {
            ("PositionalEmbedding, logits", kind, way)
            for kind in ("sequential", "nested")
            for way in WAYS
        },
    }
    others = set().union(*expected.values())
    of_backends = {
        "export": ("torch", "Keras exports a model of torch by way of TensorFlow"),
        "saved_model": ("torch jax", "`tf.saved_model.save` writes TensorFlow's variables"),
    }
    for way, (backends, reason) in of_backends.items():
        if BACKEND in backends.split():
            expected[reason] = {one for one in ALL if one[2] == way and one not in others}
    for reason, these in left_out.items():
        print(f"{len(these)} times not: {reason}")
    assert left_out == expected


# Each public layer, its forms aside, saved; and each way once with a tensor, a tuple and a dict.
SAVED = [*layers.__all__, "TransformerDecoderLayer with a memory", "a translator"]
EXPORTED = [
    ("PositionalEmbedding", "subclassed, a tensor"),
    ("TransformerDecoderLayer with a memory", "subclassed, a tuple"),
    ("a translator", "subclassed, a dict"),
    ("PositionalEmbedding, learned", "sequential"),
]


@pytest.mark.slow
def test_models_that_are_saved_predict_the_same_in_a_new_process(tmp_path):
    chosen = [(name, kind, "model.keras") for name in SAVED for kind in KINDS]
    if BACKEND == "tensorflow":
        chosen += [(*one, way) for one in EXPORTED for way in ("export", "saved_model")]
    check_in_a_new_process(tmp_path, chosen)


@pytest.mark.slow
def test_every_model_predicts_the_same_in_a_new_process(tmp_path):
    check_in_a_new_process(tmp_path, ALL)


TRAINED = [name for name in CASES if why_not(name, "sequential") is None and name != "PaddingMask"]


def test_what_is_trained_is_all_but_what_has_no_weights():
    assert KINDS["sequential"]("PaddingMask").weights == []
    assert {name.split(",")[0] for name in TRAINED} == {
        *set(layers.__all__) - {"PaddingMask", "ResidualBlock"},
        "build_language_model",
    }


def assert_a_step_trains_all(model, inputs, targets):
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.build([one.shape for one in inputs] if isinstance(inputs, list) else inputs.shape)
    before = [ops.convert_to_numpy(weight) for weight in model.trainable_weights]
    history = model.fit(inputs, targets, epochs=1, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    assert before
    for weight, old in zip(model.trainable_weights, before, strict=True):
        assert np.abs(ops.convert_to_numpy(weight) - old).max() > 0, weight.path


def test_sequential_models_in_a_functional_one_are_trained():
    inputs, means = [], []
    for name in TRAINED:
        (tensor,) = CASES[name].tensors
        inputs.append(keras.Input(tensor.shape[1:], dtype=tensor.dtype.name))
        inner = keras.Sequential([CASES[name].make(), keras.layers.Dense(3)])
        means.append(keras.layers.GlobalAveragePooling1D()(inner(inputs[-1])))
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Concatenate()(means)))
    tensors = [CASES[name].tensors[0] for name in TRAINED]
    assert_a_step_trains_all(model, tensors, np.ones((2, 1), "float32"))
