"""The mean of several checkpoints' weights."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import h5py
import keras
import numpy as np

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.errors import UserInputError
from keras_transformer.files.weight_files import make_weight_file, open_weights
from keras_transformer.files.whole_files import write_bytes
from keras_transformer.runs.adapter_weights import holds_adapters, merge_adapters, not_finite
from keras_transformer.runs.model_weights import save_weights
from keras_transformer.runs.run_checksums import keeping_in_run
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.types import PathLike


def average_checkpoints(paths: Sequence[PathLike], destination: PathLike) -> None:
    """Write the arithmetic mean of weight files, computed in float64, one tensor at a time.

    Only the model's floating-point weights are averaged. Integers, such as the state of random
    generators, are taken from the last file; an optimizer's variables are left out. If the files
    hold LoRA adapters, the merged weights are averaged and written.

    Args:
        paths: `.weights.h5` files of one model, oldest first.
        destination: the file to write. If it is in a run, its checksum is kept there.

    Raises:
        UserInputError: `paths` is empty, a file cannot be read or is refused (see `open_weights`),
            weights are not finite, the files are from different models, or adapters are not from
            the checkpoints of one run.
    """
    if not paths:
        raise UserInputError("No checkpoints to average.")
    with contextlib.ExitStack() as stack:
        files = [_of_model(stack.enter_context(open_weights(path))) for path in paths]
        for path, file in zip(paths, files, strict=True):
            _check_alike(path, file, paths[-1], files[-1])
        if holds_adapters(files[-1]):
            model = _base_model(paths)
            merge_adapters(model, paths, files)
            return save_weights(model, destination)
        content = make_weight_file(_means(paths, files))
    write_bytes(destination, content.getbuffer(), keeping_in_run(destination))


def average_best(
    paths: Sequence[PathLike],
    destination: PathLike,
    validation_value: Callable[[Path], float],
    most: int,
) -> int:
    """Write the mean of the last n checkpoints, for the n that is best in validation.

    A long training gains from a large n; in a short one, the older checkpoints are too poor to
    help.

    Args:
        paths: `.weights.h5` files of one model, oldest first.
        destination: the file to write.
        validation_value: returns the value of a weight file, such as its validation perplexity; the
            lowest is best.
        most: positive integer, the largest n. The values 1, 2, 4, ... and `most` are tried.

    Returns:
        The best n.

    Raises:
        UserInputError: the same errors as `average_checkpoints`.
    """
    check_positive_int("most", most)
    most = min(int(most), len(paths))
    destination = Path(destination)
    candidate = destination.with_name(f".candidate-{destination.name}")
    values = {}
    try:
        for n in sorted({most, *(2**power for power in range(most.bit_length()))}):
            average_checkpoints(paths[-n:], candidate)
            values[n] = validation_value(candidate)
    finally:
        candidate.unlink(missing_ok=True)
    best = min(values, key=values.__getitem__)
    average_checkpoints(paths[-best:], destination)
    return best


def _base_model(paths: Sequence[PathLike]) -> keras.Model:
    """The model to which the adapters in some files belong."""
    directories = {Path(path).resolve().parent for path in paths}
    if len(directories) > 1:
        raise UserInputError(
            "Adapters must be checkpoints of one run to be averaged. Received: files in "
            f"{', '.join(sorted(map(str, directories)))}"
        )
    run = RunDirectory.open(directories.pop().parent)
    return run.load_model(run.checkpoints.base_path)


def _of_model(datasets: dict[str, h5py.Dataset]) -> dict[str, h5py.Dataset]:
    """The datasets without the optimizer's."""
    return {name: item for name, item in datasets.items() if not name.startswith("optimizer/")}


def _means(
    paths: Sequence[PathLike], files: Sequence[dict[str, h5py.Dataset]]
) -> Iterator[tuple[h5py.Dataset, np.ndarray]]:
    """Yield each dataset of the last file, and the mean of all files as an array."""
    for name, dataset in files[-1].items():
        if not np.issubdtype(dataset.dtype, np.floating):
            yield dataset, dataset[...]
            continue
        total = np.zeros(dataset.shape)
        for path, file in zip(paths, files, strict=True):
            values = file[name][...].astype("float64")
            if not np.isfinite(values).all():
                raise not_finite(path)
            total += values
        yield dataset, total / len(files)


def _check_alike(
    path: PathLike,
    file: dict[str, h5py.Dataset],
    last_path: PathLike,
    last_file: dict[str, h5py.Dataset],
) -> None:
    """Require the same arrays in both files: names, shapes and types."""
    for name in sorted(file.keys() | last_file.keys()):
        one, other = (_description(datasets.get(name)) for datasets in (file, last_file))
        if one != other:
            raise UserInputError(
                f"The checkpoints are of different models: {name} is {one} in {path} and {other} "
                f"in {last_path}."
            )


def _description(dataset: h5py.Dataset | None) -> str:
    return "missing" if dataset is None else f"{dataset.dtype}{list(dataset.shape)}"
