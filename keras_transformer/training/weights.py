"""A model's weights on disk, without its optimizer's."""

import os
from pathlib import Path

import keras
from keras import ops


def save_weights(model, path):
    """Write a functional model's weights to `path`, beside and renamed.

    A compiled model's own `save_weights` adds the optimizer's moments, twice the size of the
    weights.
    """
    path = Path(path)
    partial = path.with_name(f".partial-{path.name}")
    _without_optimizer(model).save_weights(partial)
    os.replace(partial, path)


def load_weights(model, path):
    """Read what `save_weights` wrote; a compiled model's own method misses the optimizer's part."""
    _without_optimizer(model).load_weights(path)


def _without_optimizer(model):
    """A model over the same layers."""
    return keras.Model(model.inputs, model.outputs, name=model.name)


def weights_are_finite(model):
    """Whether no weight of the model is NaN or infinite."""
    return all(bool(ops.all(ops.isfinite(weight))) for weight in model.trainable_variables)
