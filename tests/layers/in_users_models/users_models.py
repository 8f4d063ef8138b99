"""Models as users make them of the layers; as a program it loads what a folder has of them.

`python -m tests.layers.in_users_models.users_models FOLDER` prints, as JSON, by how much the
predictions of what it loads are off, or what went wrong.
"""

import functools
import json
import pathlib
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

import keras_transformer as kt
from keras_transformer import layers

VOCABULARY, HIDDEN = 10, 8


def ids(length):
    """Ids (2, length); the second row has padding, 0, at its end."""
    rows = np.random.default_rng(length).integers(1, VOCABULARY, (2, length)).astype("int32")
    rows[1, -2:] = 0
    return rows


def vectors(length, width=HIDDEN):
    return np.random.default_rng(length).normal(size=(2, length, width)).astype("float32")


class Case(NamedTuple):
    """A layer, the tensors of a call, and the call."""

    make: Callable[[], Any]
    tensors: list[np.ndarray]
    call: Callable[..., Any] = lambda layer, *tensors: layer(*tensors)


SIZES = {"intermediate_dim": 12, "num_heads": 2}
MODEL_SIZES = {"vocabulary_size": VOCABULARY, "hidden_dim": HIDDEN, "num_heads": 2}
embedding = functools.partial(layers.PositionalEmbedding, VOCABULARY, HIDDEN)
attention = functools.partial(layers.MultiHeadAttention, 2, 4, use_bias=True)
CASES = {
    "FeedForward": Case(lambda: layers.FeedForward(12), [vectors(4)]),
    "MultiHeadAttention": Case(attention, [vectors(4)]),
    "MultiHeadAttention to a value": Case(attention, [vectors(4), vectors(6, 7)]),
    "MultiHeadAttention to a value by keys": Case(
        attention, [vectors(4), vectors(6, 7), vectors(6, 5)]
    ),
    "PaddingMask": Case(lambda: layers.PaddingMask(padding_id=3), [ids(4)]),
    "PositionalEmbedding": Case(lambda: embedding(mask_id=0), [ids(4)]),
    "PositionalEmbedding, learned": Case(lambda: embedding(positions="learned"), [ids(4)]),
    "PositionalEmbedding, words": Case(
        lambda: embedding(positions="words", word_starts=[1, 2, 3]), [ids(4)]
    ),
    "PositionalEmbedding, logits": Case(
        lambda: embedding(mask_id=0, use_logits_bias=True),
        [ids(4)],
        lambda layer, ids: layer(layer(ids), reverse=True),
    ),
    "ResidualBlock": Case(layers.ResidualBlock, [vectors(4), vectors(4)]),
    "ResidualBlock with a shortcut": Case(
        lambda: layers.ResidualBlock(scale=1.5), [vectors(4), vectors(4), vectors(4)]
    ),
    "SSRU": Case(layers.SSRU, [vectors(4)]),
    "TokenEmbedding": Case(lambda: layers.TokenEmbedding(VOCABULARY, HIDDEN), [ids(4)]),
    "TransformerDecoderLayer": Case(
        lambda: layers.TransformerDecoderLayer(**SIZES, normalize_first=True), [vectors(4)]
    ),
    "TransformerDecoderLayer with a memory": Case(
        lambda: layers.TransformerDecoderLayer(**SIZES), [vectors(4), vectors(6, 7)]
    ),
    "TransformerDecoderLayer with an SSRU": Case(
        lambda: layers.TransformerDecoderLayer(**SIZES, decoder_unit="ssru"),
        [vectors(4), vectors(6, 7)],
    ),
    "TransformerEncoderLayer": Case(
        lambda: layers.TransformerEncoderLayer(**SIZES, attention_window=3), [vectors(4)]
    ),
    "build_language_model": Case(
        lambda: kt.build_language_model("tiny", num_decoder_layers=1, **MODEL_SIZES),
        [ids(4)],
        lambda model, ids: model({"token_ids": ids}),
    ),
    "build_transformer": Case(
        lambda: kt.build_transformer(
            "tiny", num_encoder_layers=1, num_decoder_layers=1, **MODEL_SIZES
        ),
        [ids(4), ids(6)],
        lambda model, *pair: model(dict(zip(("source_ids", "target_ids"), pair, strict=True))),
    ),
    "a translator": Case(lambda: Translator(), [ids(4), ids(6)]),
}


@keras.saving.register_keras_serializable("users_models")
class Translator(keras.layers.Layer):
    """A user's own layer, of the package's: each sequence has its mask."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.embedding = embedding(mask_id=0)
        self.encoder = layers.TransformerEncoderLayer(**SIZES)
        self.decoder = layers.TransformerDecoderLayer(**SIZES)

    def build(self, source_ids_shape, target_ids_shape):
        memory_shape = (*source_ids_shape, HIDDEN)
        self.embedding.build(source_ids_shape)
        self.encoder.build(memory_shape)
        self.decoder.build((*target_ids_shape, HIDDEN), memory_shape)

    def call(self, source_ids, target_ids):
        memory = self.encoder(self.embedding(source_ids))
        hidden = self.decoder(self.embedding(target_ids), memory)
        return self.embedding(hidden, reverse=True)


class UsersModel(keras.Model):
    """A subclassed model with the layer of a case."""

    def __init__(self, case, **kwargs):
        super().__init__(**kwargs)
        self.case = case
        self.layer = CASES[case].make()

    def get_config(self):
        return {**super().get_config(), "case": self.case}

    def together(self, *tensors):
        """The layer's outputs; it is called for each tensor if it takes one."""
        call = functools.partial(CASES[self.case].call, self.layer)
        if len(CASES[self.case].tensors) == len(tensors):
            return call(*tensors)
        return ops.concatenate([call(tensor) for tensor in tensors], axis=1)


@keras.saving.register_keras_serializable("users_models")
class OfATensor(UsersModel):
    def call(self, inputs):
        return self.together(inputs)


@keras.saving.register_keras_serializable("users_models")
class OfATuple(UsersModel):
    def call(self, inputs):
        return self.together(*inputs)


@keras.saving.register_keras_serializable("users_models")
class OfADict(UsersModel):
    def call(self, inputs):
        return self.together(*(inputs[name] for name in NAMES[: len(inputs)]))


NAMES = ["first", "second", "third"]


def functional(case):
    """A functional model of a case's layer."""
    inputs = [keras.Input(tensor.shape[1:], dtype=tensor.dtype.name) for tensor in case.tensors]
    outputs = case.call(case.make(), *inputs)
    return keras.Model(inputs if len(inputs) > 1 else inputs[0], outputs)


def nested(case):
    """A sequential model in a functional one."""
    (tensor,) = case.tensors
    given = keras.Input(tensor.shape[1:], dtype=tensor.dtype.name)
    return keras.Model(given, keras.Sequential([case.make()])(given))


# How a model is made of the name of a case, and the kinds that take one tensor.
KINDS = {
    "subclassed, a tensor": OfATensor,
    "subclassed, a tuple": OfATuple,
    "subclassed, a dict": OfADict,
    "sequential": lambda name: keras.Sequential([CASES[name].make()]),
    "functional": lambda name: functional(CASES[name]),
    "nested": lambda name: nested(CASES[name]),
}

OF_ONE_TENSOR = ["subclassed, a tensor", "sequential", "nested"]


def why_not(name, kind, way="model.keras", backend="tensorflow"):
    """Why a case does not apply to a kind of model, or a model to a way; None if it does."""
    if kind in OF_ONE_TENSOR and len(CASES[name].tensors) > 1:
        return "it takes several tensors"
    if kind in ("sequential", "nested") and name.endswith("logits"):
        return "a sequential model calls its layers with their inputs alone"
    if way == "export" and backend == "torch":
        return "Keras exports a model of torch by way of TensorFlow"
    if way == "saved_model" and backend != "tensorflow":
        return "`tf.saved_model.save` writes TensorFlow's variables"
    return None


def inputs_of(kind, name):
    """What a model of a kind is called with."""
    tensors = CASES[name].tensors
    if kind in ("subclassed, a tuple", "subclassed, a dict") and len(tensors) == 1:
        tensors = [*tensors, tensors[0][::-1].copy()]
    if kind == "subclassed, a tuple":
        return tuple(tensors)
    if kind == "subclassed, a dict":
        return dict(zip(NAMES, tensors, strict=False))
    return tensors[0] if len(tensors) == 1 else tensors


def difference(found, expected):
    return float(np.abs(np.asarray(found, "float64") - expected).max())


def loaded_model(folder):
    """The predictions of a `.keras` file: a function of the inputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        return keras.models.load_model(folder / "model.keras")


def loaded_export(folder):
    """Those of what `keras.Model.export` has written."""
    import tensorflow as tf

    archive = tf.saved_model.load(folder / "export")

    def serve(inputs):
        (function,) = archive.serve.concrete_functions
        specs = tf.nest.flatten(function.structured_input_signature)
        flat = tf.nest.flatten(inputs)
        cast = [tf.cast(one, spec.dtype) for one, spec in zip(flat, specs, strict=True)]
        return archive.serve(tf.nest.pack_sequence_as(inputs, cast))

    return serve


def loaded_saved_model(folder):
    """Those of what `tf.saved_model.save` has written."""
    import tensorflow as tf

    archive = tf.saved_model.load(folder / "saved_model")
    signature = archive.signatures["serving_default"]

    def serve(inputs):
        specs = signature.structured_input_signature[1]
        flat = tf.nest.flatten(inputs)
        given = {
            name: tf.cast(one, specs[name].dtype)
            for name, one in zip(sorted(specs, key=place), flat, strict=True)
        }
        (found,) = signature(**given).values()
        return found

    return serve


def place(name):
    """The place of an argument: they are `inputs`, `inputs_1` and so on, or `keras_tensor_7`."""
    number = name.rpartition("_")[2]
    return int(number) if number.isdigit() else -1


WAYS = {"model.keras": loaded_model, "export": loaded_export, "saved_model": loaded_saved_model}


def main(folder):
    found = {}
    for path in sorted(pathlib.Path(folder).glob("*/record.json")):
        record = json.loads(path.read_text())
        inputs = inputs_of(record["kind"], record["case"])
        expected = np.load(path.parent / "expected.npy")
        for way in record["ways"]:
            try:
                outputs = ops.convert_to_numpy(WAYS[way](path.parent)(inputs))
                result = difference(outputs, expected)
            except Exception as error:
                result = f"{type(error).__name__}: {error}"
            found[f"{record['case']} | {record['kind']} | {way}"] = result
    print(json.dumps(found))


if __name__ == "__main__":
    # Not as `__main__`: the classes are those that the models name.
    from tests.layers.in_users_models import users_models

    users_models.main(sys.argv[1])
