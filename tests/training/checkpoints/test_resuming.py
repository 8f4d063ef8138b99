"""Where a training begins: anew, at the last state, or not at all."""

import json

import keras
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.files import write_json
from keras_transformer.training import Devices, TrainingOptions
from keras_transformer.training.checkpoints import training_state
from keras_transformer.training.checkpoints.training_state import check_same_settings
from tests.training.small_training import train


class OfTwoMachines(Devices):
    """A machine of two, which knows what the other one brings to `largest`."""

    def __init__(self, process, other_step):
        super().__init__("CPU", replicas=2, processes=2, process=process)
        self.others = iter([other_step, 2**31 - 1 - other_step])

    def largest(self, number):
        return max(number, next(self.others))


def open_run(path, devices, **options):
    return training_state.open_run(path, devices, TrainingOptions(steps=4, **options))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "trained"
    run, _ = train(path, steps=4, save_every=2, settings={"seed": 1, "steps": 4})
    return run.directory


def test_a_new_run_has_no_state(tmp_path):
    run, state = open_run(tmp_path / "new", Devices("CPU"), settings={}, resume=True)
    assert state is None
    assert not run.path.exists()


def test_a_run_goes_on_at_its_last_state_with_settings_that_may_change(trained):
    settings = {"seed": 1, "steps": 9}
    options = {"settings": settings, "may_change": ["steps"], "resume": True}
    # They are written when the training goes on, not when it might yet be refused.
    with pytest.raises(UserInputError, match="with different text"):
        train(trained.path, steps=9, data_fingerprint="another", **options)
    assert json.loads(trained.settings_path.read_text()) == {"seed": 1, "steps": 4}
    run, _ = train(trained.path, steps=4, **options)
    assert run.step == 4
    assert json.loads(trained.settings_path.read_text()) == settings


def test_a_training_goes_on_with_the_backend_that_it_began_on(trained, monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "torch")
    with pytest.raises(
        UserInputError, match="started on the backend .* and cannot resume on torch"
    ):
        open_run(trained.path, Devices("CPU"), settings={"seed": 1, "steps": 4}, resume=True)


def test_a_state_without_settings_is_of_any():
    check_same_settings(None, {"seed": 1})


def test_a_run_is_replaced_or_goes_on_only_on_demand(trained):
    with pytest.raises(UserInputError, match="--resume"):
        open_run(trained.path, Devices("CPU"), settings={})
    assert open_run(trained.path, Devices("CPU"), settings={}, overwrite=True)[1] is None


def test_machines_that_see_other_states_do_not_train(trained, tmp_path):
    settings = {"settings": {"seed": 1, "steps": 4}, "resume": True}
    with pytest.raises(UserInputError, match="steps 0 and 4: it must be on a file system"):
        open_run(trained.path, OfTwoMachines(0, other_step=0), **settings)
    with pytest.raises(UserInputError, match="steps 0 and 4"):
        open_run(tmp_path / "elsewhere", OfTwoMachines(1, other_step=4), **settings)
    assert open_run(trained.path, OfTwoMachines(1, other_step=4), **settings)[1].step == 4


def test_a_run_whose_record_is_damaged_or_newer_can_be_replaced(tmp_path):
    path = tmp_path / "run"
    run = train(path, steps=1)[0].directory
    newer = {**json.loads(run.record_path.read_text()), "format_version": 99}
    for write, said in (
        (write_json, "its checksum is wrong"),
        (run.checksums.write_json, "has format version 99"),
    ):
        write(run.record_path, newer)
        with pytest.raises(UserInputError, match=said):
            train(path, steps=1, resume=True)
        train(path, steps=1, overwrite=True)
        assert run.record().format_version == 1


def test_an_integer_is_the_same_as_an_equal_float():
    check_same_settings({"r_drop": 5, "seed": 1}, {"r_drop": 5.0, "seed": 1})
    with pytest.raises(UserInputError, match="`r_drop` was 5 and is 5.5"):
        check_same_settings({"r_drop": 5}, {"r_drop": 5.5})
