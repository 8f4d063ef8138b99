"""The mean of several checkpoints' weights."""

import contextlib
import shutil
from pathlib import Path

import h5py
import numpy as np

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.errors import UserInputError
from keras_transformer.files.whole_files import whole_file


def average_checkpoints(paths, destination):
    """Write the arithmetic mean of weight files, computed in float64, one tensor at a time.

    Only floating-point weights of the model are averaged. Integers, such as the state of random
    generators, are the last file's; an optimizer's variables are left out.

    Args:
        paths: `.weights.h5` files of one model, oldest first.
        destination: the file to write.

    Raises:
        UserInputError: no files, a file that cannot be read, or files of different models.
    """
    paths = [Path(path) for path in paths]
    if not paths:
        raise UserInputError("There are no checkpoints to average.")
    with contextlib.ExitStack() as stack:
        partial = stack.enter_context(whole_file(destination))
        files = [stack.enter_context(_open(path)) for path in paths]
        shapes = _shapes(files[-1])
        for path, file in zip(paths, files, strict=True):
            _check_shapes(path, _shapes(file), paths[-1], shapes)
        shutil.copyfile(paths[-1], partial)
        with h5py.File(partial, "r+") as mean:
            mean.pop("optimizer", None)
            for name in shapes:
                if np.issubdtype(mean[name].dtype, np.floating):
                    total = sum(file[name][...].astype("float64") for file in files)
                    mean[name][...] = total / len(files)


def average_best(paths, destination, validation_value, most):
    """Write the mean of the last n checkpoints, for the n whose mean is best in validation.

    A long training gains from many; in a short one the older of them are still too bad to help.

    Args:
        paths: `.weights.h5` files of one model, oldest first.
        destination: the file to write.
        validation_value: function from a file of weights to a number, such as its validation
            perplexity; the least is best.
        most: positive integer, the largest n that is tried. Tried are 1, 2, 4, ... and `most`.

    Returns:
        The n that was best.

    Raises:
        UserInputError: as from `average_checkpoints`.
    """
    check_positive_int("most", most)
    most = min(most, len(paths))
    destination = Path(destination)
    candidate = destination.with_name(f".candidate-{destination.name}")
    values = {}
    try:
        for n in sorted({most, *(2**power for power in range(most.bit_length()))}):
            average_checkpoints(paths[-n:], candidate)
            values[n] = validation_value(candidate)
    finally:
        candidate.unlink(missing_ok=True)
    best = min(values, key=values.get)
    average_checkpoints(paths[-best:], destination)
    return best


def _open(path):
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise UserInputError(f"Cannot read the checkpoint {path}.") from error


def _shapes(file):
    """Return name and shape of every tensor but the optimizer's."""
    shapes = {}

    def visit(name, item):
        if isinstance(item, h5py.Dataset) and not name.startswith("optimizer/"):
            shapes[name] = item.shape

    file.visititems(visit)
    return shapes


def _check_shapes(path, shapes, last_path, last_shapes):
    for name in sorted(shapes.keys() | last_shapes.keys()):
        if shapes.get(name) != last_shapes.get(name):
            raise UserInputError(
                f"The checkpoints are of different models: {name} has shape {shapes.get(name)} "
                f"in {path} and {last_shapes.get(name)} in {last_path}."
            )
