"""States from strangers: arrays of the right shapes and numbers, or one line."""

import io
import json
import os
import pickle
import zipfile

import numpy as np
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.evaluation.step_work import StepWork
from keras_transformer.training import TrainingOptions, start_devices
from keras_transformer.training.callbacks.step_callback import StepMeter
from keras_transformer.training.checkpoints.checkpoints import Progress
from keras_transformer.training.checkpoints.training_state import (
    cut_rows,
    find_state,
    open_run,
    save_state,
)
from tests.training.small_training import batches, small_model, started_run

pytestmark = pytest.mark.usefixtures("no_garbage_collection")  # brackets are nested deep

WHOLE = {"seconds": 1.0, "best": {}, "validation_due": False}


@pytest.fixture(scope="module")
def model():
    model = small_model()
    model.fit(batches(), steps_per_epoch=1, verbose=0)
    return model


@pytest.fixture
def run(tmp_path, model):
    run = started_run(tmp_path / "run", model)
    save_state(run, 3, model, settings={}, data_fingerprint="x", progress=WHOLE)
    run.checksums.path.unlink()  # a stranger has right ones
    return run


def rewrite(run, change, compression=zipfile.ZIP_STORED):
    """Write the state anew, with members that `change(members)` has changed, a dict of bytes."""
    path = run.checkpoints.state_path(3)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def test_what_was_written_is_restored(run, model):
    expected = [np.array(variable) for variable in model.variables]
    rewrite(run, lambda members: None)
    other = small_model()
    find_state(run).restore(other)
    for variable, value in zip(other.variables, expected, strict=True):
        np.testing.assert_array_equal(variable, value)


def with_record(**changes):
    def change(members):
        record = json.loads(members["state.json"])
        members["state.json"] = json.dumps(record | changes).encode()

    return change


def with_member(name, content):
    return lambda members: members.update({name: content})


class Evil:
    def __reduce__(self):
        return print, ("code of a stranger ran",)


NESTED = b"[" * 200_000
HUGE = npy(np.zeros((1, 1), "float32")).replace(b"(1, 1), ", b"(99999999999, 999), ")[: 128 + 4]


@pytest.mark.parametrize(
    "change",
    [
        with_record(step=4),
        with_record(step="3"),
        with_record(format="1"),
        with_record(settings=[]),
        with_record(progress=None),
        with_record(progress={"seconds": "x", "best": {}, "validation_due": False}),
        with_record(progress={"seconds": 1.0, "best": {}}),
        with_record(progress={**WHOLE, "best": {"kept": [{"step": "../x", "value": 1}]}}),
        with_record(variables=[["weights/0", [-1], "float32"]]),
        with_record(variables={}),
        with_member("state.json", NESTED),
        with_member("state.json", b"[]"),
        with_member("state.json", b"\xff"),
        lambda members: members.pop("state.json"),
    ],
)
def test_a_damaged_record_is_told(run, change, capsys):
    rewrite(run, change)
    with pytest.raises(UserInputError, match="Every state of the run .* is damaged"):
        find_state(run)
    assert "step-00000003.state.npz is damaged: it" in capsys.readouterr().err


def test_a_bomb_is_not_unpacked(run, capsys):
    rewrite(run, with_member("more.npy", bytes(1 << 24)), zipfile.ZIP_DEFLATED)
    with pytest.raises(UserInputError, match="is damaged"):
        find_state(run)
    assert "it is incomplete" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content",
    [
        npy(np.array([Evil()], dtype=object)),
        npy(np.zeros((2, 2), "float32")),
        npy(np.zeros((12, 8), "complex128")),
        npy(np.asfortranarray(np.zeros((12, 8), "float32"))),
        npy(np.zeros((12, 8), "float32"))[:-4],
        HUGE,
        b"no array",
        b"",
        pickle.dumps(Evil()),
    ],
)
def test_an_array_that_is_another_is_told(run, content, capsys):
    rewrite(run, with_member("weights/0.npy", content))
    state = find_state(run)
    with pytest.raises(UserInputError, match="The state .*step-00000003.* is damaged: "):
        state.restore(small_model())
    assert "code of a stranger" not in capsys.readouterr().out


def test_a_counter_that_is_another_is_told(run):
    rewrite(run, with_record(progress={**WHOLE, "meter": "x"}))
    state = find_state(run)

    class Counter:
        @property
        def progress(self):
            return {}

        @progress.setter
        def progress(self, value):
            self.steps = value["steps"]

    with pytest.raises(UserInputError, match="its `meter` is not what was written"):
        Progress({"meter": Counter()}, state)
    for sums in ({"add": 1}, {"steps": "1", "seconds": 1.0, "tokens": 1, "flops": None}):
        rewrite(run, with_record(progress={**WHOLE, "meter": {"all_steps": sums, "rate": sums}}))
        with pytest.raises(UserInputError, match="its `meter` is not what was written"):
            Progress({"meter": StepMeter(StepWork(lambda step: 1))}, find_state(run))


@pytest.mark.parametrize(
    "text",
    ["step,loss\nx,2\n", "step,loss\n\n", "step,loss\n1,2,3\n", 'step,loss\n"1,2\n',
     "step,loss\n" + "9" * 5000 + ",2\n"],
)  # fmt: skip
def test_a_damaged_log_is_told(tmp_path, text):
    (tmp_path / "metrics.csv").write_text(text)
    with pytest.raises(UserInputError, match="metrics.csv is damaged: .* remove it"):
        cut_rows(tmp_path / "metrics.csv", 1)
    (tmp_path / "metrics.csv").write_bytes(b"step,loss\n1,\xff\n")
    with pytest.raises(UserInputError, match="metrics.csv is damaged: .* remove it"):
        cut_rows(tmp_path / "metrics.csv", 1)


def test_a_log_that_is_a_link_becomes_a_file(tmp_path):
    (tmp_path / "elsewhere").write_text("step,loss\n1,2\n")
    (tmp_path / "metrics.csv").symlink_to(tmp_path / "elsewhere")
    cut_rows(tmp_path / "metrics.csv", 1)
    with open(tmp_path / "metrics.csv", "a") as file:
        file.write("2,1\n")
    assert (tmp_path / "elsewhere").read_text() == "step,loss\n1,2\n"


def test_a_log_is_neither_a_pipe_nor_a_link_to_nothing(tmp_path):
    (tmp_path / "metrics.csv").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "layers.csv")
    for name in ("metrics.csv", "layers.csv"):
        cut_rows(tmp_path / name, 1)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["checkpoints", "tensorboard"])
def test_a_training_writes_nothing_through_a_link(run, tmp_path, name):
    directory = run.path / name
    directory.mkdir(exist_ok=True)
    directory.rename(tmp_path / "elsewhere")
    directory.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserInputError, match=f"{name} is a symbolic link: nothing is written"):
        open_run(run.path, start_devices(), TrainingOptions(steps=1, resume=True))
    again = type(run).create(run.path, overwrite=True)
    with pytest.raises(UserInputError, match=f"{name} is a symbolic link: nothing is written"):
        again.start(model=None, tokenizer=None, settings={})
