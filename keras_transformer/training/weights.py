"""A model's weights on disk, without its optimizer's."""

import os
from pathlib import Path

import keras
from keras import ops


def save_weights(model, path):
    """Write a functional model's weights to `path`, beside and renamed.

    A compiled model's own `save_weights` adds the optimizer's moments, twice the size of the
    weights. A model over the same layers has no optimizer.
    """
    path = Path(path)
    partial = path.with_name(f".partial-{path.name}")
    keras.Model(model.inputs, model.outputs, name=model.name).save_weights(partial)
    os.replace(partial, path)


def weights_are_finite(model):
    """Whether no weight of the model is NaN or infinite."""
    return all(bool(ops.all(ops.isfinite(weight))) for weight in model.trainable_variables)
