"""A training that is killed, stopped, damaged or out of disk goes on as if nothing had happened."""

import random
import shutil
import zipfile

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.training.checkpoints.training_state import (
    check_same_settings,
    cut_rows,
    find_state,
)
from tests.training.equal_runs import assert_equal_runs, place
from tests.training.small_training import train


def test_killed_at_random_moments(trainings, whole, tmp_path, random_seed):
    """Twice: in the file operations of a beginning or a checkpoint, and anywhere."""
    run, moments = trainings().run, random.Random(random_seed)
    operation, seconds = moments.randint(1, 60), moments.uniform(0.1, 4)
    print(f"killed at operation {operation}, and after {seconds} seconds")
    assert run(tmp_path / "run", kill=operation, ema=True)[0] == -9
    assert run(tmp_path / "run", kill=seconds, ema=True)[0] in (-9, 0)
    code, errors = run(tmp_path / "run", ema=True)
    assert (code, "damaged" in errors) == (0, False)
    assert_equal_runs(tmp_path / "run", whole)


def test_stopped_in_an_epoch_in_a_validation_and_between_them(trainings, whole, tmp_path):
    """The other ways to stop are in test_stops.py."""
    run = trainings().run
    path = tmp_path / "run"
    code, errors = run(path, ema=True, at=["train_batch_end", 6, "SIGTERM"])
    assert code == 143
    assert "Terminated. The weights are saved: " in errors
    assert "step-00000006.weights.h5. Run the same command with --resume to continue." in errors
    assert place(path) == (6, False)
    assert run(path, ema=True, at=["test_batch_end", 2, "SIGTERM"])[0] == 143
    assert place(path) == (8, True)
    assert run(path, ema=True, at=["train_batch_end", 4, "SIGINT"])[0] == 130
    assert place(path) == (12, True)
    # So late that its checkpoint would be among the last at the end.
    assert run(path, ema=True, at=["train_batch_end", 6, "SIGTERM"])[0] == 143
    assert place(path) == (18, False)
    assert run(path, ema=True)[0] == 0
    assert_equal_runs(path, whole)


def flip_a_bit(path, place=None):
    """Flip a bit of the byte at a place, or in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if place is None else place] ^= 1
    path.write_bytes(content)


def flip_in_an_array(path):
    """Flip a bit within the largest array of a state: one between arrays may not matter."""
    with zipfile.ZipFile(path) as archive:
        largest = max(archive.infolist(), key=lambda member: member.compress_size)
    begin, content = largest.header_offset, path.read_bytes()
    names = int.from_bytes(content[begin + 26 : begin + 28], "little")
    extra = int.from_bytes(content[begin + 28 : begin + 30], "little")
    flip_a_bit(path, begin + 30 + names + extra + largest.compress_size // 2)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


@pytest.fixture
def copy(whole, tmp_path):
    return RunDirectory.open(shutil.copytree(whole, tmp_path / "copy"))


@pytest.mark.parametrize("damage", [flip_in_an_array, truncate])
@pytest.mark.parametrize("checksums", [True, False])
def test_a_damaged_state_is_named_and_the_one_before_is_taken(copy, capsys, damage, checksums):
    if not checksums:
        copy.checksums.path.unlink()
    before, last = copy.checkpoints.states()
    assert [before, last] == [copy.checkpoints.state_path(step) for step in (16, 20)]
    assert find_state(copy).step == 20
    assert capsys.readouterr().err == ""
    damage(last)
    assert find_state(copy).step == 16
    assert f"{last} is damaged: " in capsys.readouterr().err
    damage(before)
    with pytest.raises(UserInputError, match="Every state of the run .* is damaged"):
        find_state(copy)


def test_a_training_goes_on_from_the_state_before_a_damaged_one(trainings, whole, copy):
    flip_in_an_array(copy.checkpoints.state_path(20))
    code, errors = trainings().run(copy.path, ema=True)
    assert (code, "step-00000020.state.npz is damaged" in errors) == (0, True)
    assert_equal_runs(copy.path, whole)


def test_weights_without_a_state_are_never_taken_for_a_beginning(copy):
    for path in copy.checkpoints.states():
        path.unlink()
    with pytest.raises(UserInputError, match="has weights, but no state to resume from"):
        find_state(copy)


def test_a_trained_model_is_never_taken_for_a_beginning(tmp_path):
    run = train(tmp_path / "run", steps=1)[0].directory
    beginning, last = run.checkpoints.states()
    assert beginning == run.checkpoints.state_path(0)
    truncate(last)
    files = sorted(run.path.rglob("*"))
    with pytest.raises(UserInputError, match="has weights, but only the state from its start"):
        train(run.path, steps=2, resume=True)
    assert sorted(run.path.rglob("*")) == files


@pytest.mark.parametrize("name", ["model.safetensors", "checkpoints/best.weights.h5"])
def test_weights_of_any_kind_are_kept(name, tmp_path):
    run = RunDirectory(tmp_path)
    assert find_state(run) is None
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / name).touch()
    with pytest.raises(UserInputError, match="has weights, but no state to resume from"):
        find_state(run)


def test_damaged_weights_are_left_out_aloud(copy, capsys):
    first, last = copy.checkpoints.paths()[-2:]
    assert copy.checkpoints.whole([first, last]) == [first, last]
    flip_a_bit(first)
    assert copy.checkpoints.whole([first, last]) == [last]
    assert f"{first} is damaged and left out" in capsys.readouterr().err


def test_a_state_of_another_model_or_text_is_refused(trainings, copy):
    code, errors = trainings().run(copy.path, ema=False)
    assert code == 2
    assert "belongs to a different model or optimizer: " in errors


def test_other_settings_are_named_with_both_values():
    earlier = {"seed": 1, "batch_tokens": 4096, "steps": 5, "old": None}
    with pytest.raises(UserInputError) as error:
        check_same_settings(earlier, {"seed": 2, "batch_tokens": 4096, "steps": 9}, ["steps"])
    assert str(error.value) == (
        "Training cannot resume with different settings: "
        "`old` was null and is not given, `seed` was 1 and is 2."
    )


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("step,loss\n1,2.5\n2,2.25\n", "step,loss\n1,2.5\n"),
        ("step,loss\n1,2.5\n1", "step,loss\n1,2.5\n"),  # killed in a row, of step 12 maybe
        ("step,loss\n", "step,loss\n"),
        ("step,lo", ""),
        ("", ""),
    ],
)
def test_rows_behind_the_state_are_cut(tmp_path, text, kept):
    path = tmp_path / "metrics.csv"
    path.write_text(text)
    cut_rows(path, 1)
    assert path.read_text() == kept


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "file"),
    [
        ("full disk", "checkpoints/step-00000012.weights.h5"),
        ("no disk", "metrics.csv"),
    ],
)
def test_a_full_disk_is_one_line_and_takes_nothing(trainings, whole, tmp_path, limit, file):
    run = trainings().run
    path = tmp_path / "run"
    code, errors = run(path, ema=True, at=["train_batch_end", 10, limit])
    assert code == 2
    assert errors[errors.index("error: ") :] == (
        f"error: Cannot write {path}/{file}: File too large. The last good checkpoint is "
        f"{path}/checkpoints/step-00000008.weights.h5.\n"
    )
    assert "Traceback" not in errors
    assert not list(path.rglob(".partial-*"))
    assert place(path) == (8, False)
    assert run(path, ema=True)[0] == 0
    assert_equal_runs(path, whole)


@pytest.mark.slow
def test_event_files_for_which_there_is_no_room(trainings, whole, tmp_path):
    """To Keras, TensorFlow's error of a file that is too large is the end of the data."""
    run, path = trainings().run, tmp_path / "run"
    code, errors = run(path, ema=True, at=["train_batch_end", 10, "full events"], tensorboard=True)
    assert code == 2
    assert errors[errors.index("error: ") :] == (
        f"error: Cannot write {path}/tensorboard: File too large. The last good checkpoint is "
        f"{path}/checkpoints/step-00000008.weights.h5.\n"
    )
    assert run(path, ema=True)[0] == 0
    assert_equal_runs(path, whole)


def fills_up(run, path, operation, whole):
    """Fill the disk at a file operation, go on with room, and compare."""
    print(f"full at operation {operation}")
    code, errors = run(path, fill=operation, ema=True)
    if code == 0:
        return False
    assert code == 2, errors
    assert errors.count("error: Cannot write ") == 1
    assert "Traceback" not in errors
    assert not list(path.rglob(".partial-*"))
    code, errors = run(path, ema=True)
    assert (code, "damaged" in errors) == (0, False)
    assert_equal_runs(path, whole)
    return True


def test_a_disk_that_gets_full_anywhere(trainings, whole, tmp_path, random_seed):
    operation = random.Random(random_seed).randint(1, 80)
    assert fills_up(trainings().run, tmp_path / str(operation), operation, whole)


@pytest.mark.slow
def test_a_disk_that_gets_full_everywhere(trainings, whole, tmp_path, random_seed):
    """At every 13th file operation, 13 having no part in the number of those of a save."""
    operation = random.Random(random_seed).randint(1, 13)
    while fills_up(trainings().run, tmp_path / str(operation), operation, whole):
        operation += 13
    assert operation > 100
