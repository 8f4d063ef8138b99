"""The mean of weight files against literals and NumPy in float64."""

import h5py
import keras
import numpy as np
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.runs.model_weights import save_weights
from keras_transformer.training import average_best, average_checkpoints
from tests.training.small_training import batches, loaded, small_model, started_run


def write(path, **datasets):
    with h5py.File(path, "w") as file:
        for name, value in datasets.items():
            file[name.replace("__", "/")] = value
    return path


def read(path, name):
    with h5py.File(path) as file:
        return file[name][...]


def test_the_mean_is_computed_in_float64(tmp_path):
    # In float32 2^24 + 1 + 1 is 2^24, and a third of it 5592405.5.
    values = [np.array([2.0**24], "float32"), np.array([1], "float32"), np.array([1], "float32")]
    paths = [
        write(tmp_path / f"{i}.weights.h5", layers__a__vars__0=value)
        for i, value in enumerate(values)
    ]
    average_checkpoints(paths, tmp_path / "mean.weights.h5")
    mean = read(tmp_path / "mean.weights.h5", "layers/a/vars/0")
    assert mean.dtype == np.float32
    assert mean[0] == 5592406.0


def test_integers_are_the_last_file_s_and_the_optimizer_is_left_out(tmp_path):
    paths = [
        write(
            tmp_path / f"{i}.weights.h5",
            layers__a__vars__0=np.array([float(i)], "float32"),
            layers__seed__vars__0=np.array([i, 10 * i], "uint32"),
            optimizer__vars__0=np.array(i, "int64"),
        )
        for i in (1, 2, 6)
    ]
    average_checkpoints(paths, tmp_path / "mean.weights.h5")
    assert read(tmp_path / "mean.weights.h5", "layers/a/vars/0") == [3.0]
    assert read(tmp_path / "mean.weights.h5", "layers/seed/vars/0").tolist() == [6, 60]
    with h5py.File(tmp_path / "mean.weights.h5") as file:
        assert "optimizer" not in file
    assert read(paths[-1], "layers/a/vars/0") == [6.0]  # the files averaged stay as they are


def test_a_model_of_the_mean_weights(tmp_path):
    model = small_model()
    rng = np.random.default_rng(0)
    paths, expected = [], []
    for i in range(3):
        weights = [rng.normal(size=weight.shape) for weight in model.get_weights()]
        model.set_weights(weights)
        expected.append([weight.astype("float32").astype("float64") for weight in weights])
        paths.append(tmp_path / f"{i}.weights.h5")
        model.save_weights(paths[-1])
    average_checkpoints(paths, tmp_path / "mean.weights.h5")
    mean = keras.Model(model.inputs, model.outputs)
    mean.load_weights(tmp_path / "mean.weights.h5")
    for ours, each in zip(mean.get_weights(), zip(*expected, strict=True), strict=True):
        np.testing.assert_array_equal(ours, np.mean(each, axis=0).astype("float32"))
    labels = next(batches())[0]
    assert np.isfinite(mean.predict(labels, verbose=0)).all()


def test_one_file_is_its_own_mean_and_may_be_replaced(tmp_path):
    path = write(tmp_path / "a.weights.h5", layers__a__vars__0=np.array([0.1], "float32"))
    average_checkpoints([path], path)
    assert read(path, "layers/a/vars/0")[0] == np.float32(0.1)
    assert [file.name for file in tmp_path.iterdir()] == ["a.weights.h5"]


@pytest.mark.parametrize(
    "other",
    [
        {"layers__a__vars__0": np.zeros(3, "float32")},
        {"layers__b__vars__0": np.zeros(2, "float32")},
        {"layers__a__vars__0": np.zeros(2, "float32"), "layers__b__vars__0": np.zeros(2)},
    ],
)
def test_files_of_different_models_are_refused(tmp_path, other):
    paths = [
        write(tmp_path / "a.weights.h5", **other),
        write(tmp_path / "b.weights.h5", layers__a__vars__0=np.zeros(2, "float32")),
    ]
    with pytest.raises(UserInputError, match=r"different models: layers/.*a\.weights\.h5 and"):
        average_checkpoints(paths, tmp_path / "mean.weights.h5")
    assert not (tmp_path / "mean.weights.h5").exists()


def test_unreadable_and_missing_files_are_named(tmp_path):
    with pytest.raises(UserInputError, match="No checkpoints to average"):
        average_checkpoints([], tmp_path / "mean.weights.h5")
    (tmp_path / "broken.weights.h5").write_bytes(b"not HDF5")
    for name in ("broken.weights.h5", "missing.weights.h5"):
        with pytest.raises(UserInputError, match=f"Cannot read the weights .*{name}"):
            average_checkpoints([tmp_path / name], tmp_path / "mean.weights.h5")


@pytest.mark.parametrize(
    ("wanted", "most", "best"), [(9.0, 5, 1), (8.5, 5, 2), (7.0, 5, 5), (5.0, 9, 9), (7.5, 3, 3)]
)
def test_validation_decides_how_many_are_averaged(tmp_path, wanted, most, best):
    paths = [
        write(tmp_path / f"{i}.weights.h5", layers__a__vars__0=np.array([i], "float32"))
        for i in range(1, 10)
    ]
    mean = tmp_path / "mean.weights.h5"
    n = average_best(paths, mean, lambda path: abs(read(path, "layers/a/vars/0")[0] - wanted), most)
    assert n == best
    assert read(mean, "layers/a/vars/0")[0] == np.mean(range(10 - best, 10))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["mean.weights.h5", *(path.name for path in paths)]
    )


def test_a_failed_validation_leaves_no_candidate(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.save_weights(tmp_path / "step-00000001.weights.h5")

    def fail(path):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        average_best(
            [tmp_path / "step-00000001.weights.h5"], tmp_path / "model.weights.h5", fail, most=1
        )
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001.weights.h5"]


def test_a_mean_that_replaces_the_final_weights_of_a_run_is_not_taken_for_damaged(tmp_path):
    model = small_model()
    run = started_run(tmp_path / "run", model)
    for step in (1, 2):
        save_weights(model, run.checkpoints.path_of(step))
        model.set_weights([weight + 1 for weight in model.get_weights()])
        average_checkpoints(run.checkpoints.paths(), run.weights_path)
        assert not run.checksums.is_damaged(run.weights_path)
    assert run.checksums.check_files() >= 3
    loaded(run)
