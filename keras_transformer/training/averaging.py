"""The mean of several checkpoints' weights."""

import os
import shutil
from pathlib import Path

import h5py
import numpy as np

from keras_transformer.errors import UserInputError


def average_checkpoints(paths, destination):
    """Write the arithmetic mean of weight files, computed in float64, one tensor at a time.

    Only floating-point weights of the model are averaged; integers, such as the state of random
    generators, are the last file's, and an optimizer's variables are left out.

    Args:
        paths: `.weights.h5` files of one model, oldest first.
        destination: the file to write.

    Raises:
        UserInputError: no files, or files of different models.
    """
    paths = [Path(path) for path in paths]
    if not paths:
        raise UserInputError("There are no checkpoints to average.")
    destination = Path(destination)
    partial = destination.with_name(f".partial-{destination.name}")
    shutil.copyfile(paths[-1], partial)
    with h5py.File(partial, "r+") as mean:
        mean.pop("optimizer", None)
        shapes = _shapes(mean)
        for path in paths[:-1]:
            _check_same_shapes(path, paths[-1], shapes)
        for name in _names_to_average(mean):
            mean[name][...] = _mean_of(paths, name)
    os.replace(partial, destination)


def _shapes(file):
    shapes = {}
    file.visititems(
        lambda name, item: shapes.update({name: item.shape})
        if isinstance(item, h5py.Dataset) and not name.startswith("optimizer/")
        else None
    )
    return shapes


def _check_same_shapes(path, last_path, shapes):
    with h5py.File(path, "r") as file:
        other = _shapes(file)
    for name in sorted(shapes.keys() | other.keys()):
        if shapes.get(name) != other.get(name):
            raise UserInputError(
                f"The checkpoints are of different models: {name} has shape {other.get(name)} "
                f"in {path} and {shapes.get(name)} in {last_path}."
            )


def _names_to_average(file):
    return [name for name in _shapes(file) if np.issubdtype(file[name].dtype, np.floating)]


def _mean_of(paths, name):
    total = 0.0
    for path in paths:
        with h5py.File(path, "r") as file:
            total = total + file[name][...].astype(np.float64)
    return total / len(paths)
