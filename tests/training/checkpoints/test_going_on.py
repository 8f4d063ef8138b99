"""A run whose training goes on: what is removed, counted and advised, and where it may stop."""

import json
import signal

import pytest

from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.training import BleuValidation, Devices, StepWork
from keras_transformer.training.checkpoints.checkpoints import DeviceTime
from keras_transformer.training.checkpoints.training_state import find_state
from tests.training.equal_runs import rows
from tests.training.small_training import TOKENS, At, batches, small_model, started_run, train


def finish(directory):
    """Write the weights and scores of the end, as a training command does."""
    directory.publish(directory.checkpoints.paths()[-1])
    directory.checksums.write_json(directory.scores_path, {"bleu": 1.0})


def terminate(model=None):
    signal.raise_signal(signal.SIGTERM)


def test_results_of_the_end_go_when_the_training_goes_on(tmp_path):
    path = tmp_path / "run"
    run = train(path, steps=4, save_every=4)[0].directory
    finish(run)
    table = path / "table.md"
    table.write_text("| system |\n")
    train(path, steps=4, save_every=4, resume=True, results=["table.md"])
    assert run.weights_path.is_file()
    assert run.scores_path.is_file()
    assert table.is_file()
    options = {"results": ["table.md", "another.md"], "callbacks": [At(2, terminate)]}
    train(path, steps=12, save_every=4, resume=True, **options)
    assert run.find_weights() == run.checkpoints.path_of(6)
    assert not run.scores_path.exists()
    assert not table.exists()
    run.checksums.check_files()


def test_a_tuned_search_goes_when_the_training_goes_on(tmp_path):
    path, tuned = tmp_path / "run", {"alpha": 1.5, "beam_size": 4}
    options = {"save_every": 4, "resume": True, "may_change": ["alpha"]}
    settings = {"beam_size": 4, "alpha": 0.6}
    run = train(path, steps=4, settings=settings, **options)[0].directory
    before = run.record_path.read_bytes()
    run.write_search_defaults(tuned, in_training=True)
    train(path, steps=4, settings=settings, **options)
    assert run.search_defaults() == tuned
    train(path, steps=8, settings={**settings, "alpha": 0.9}, **options)
    assert run.record_path.read_bytes() == before
    run.checksums.check_files()
    run.write_search_defaults({"alpha": 1.2})  # as `keras-transformer tune` does
    train(path, steps=12, settings=settings, **options)
    assert run.search_defaults() == {"alpha": 1.2}


@pytest.mark.parametrize("stays", ["SHA256SUMS", ".partial-"])
def test_a_removal_that_is_broken_off_leaves_file_and_checksum_or_neither(
    tmp_path, monkeypatch, stays
):
    run = RunDirectory(tmp_path)
    run.checksums.write_json(run.scores_path, {"bleu": 1.0})
    unlink = type(tmp_path).unlink

    def broken_off(path, **options):
        if path.name.startswith(stays):
            raise KeyboardInterrupt
        unlink(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(type(tmp_path), "unlink", broken_off)
        with pytest.raises(KeyboardInterrupt):
            run.checksums.remove(run.scores_path)
    assert run.scores_path.is_file() == run.checksums.path.is_file() == (stays == "SHA256SUMS")
    assert not run.checksums.is_damaged(run.scores_path)
    for _ in range(2):
        run.checksums.remove(run.scores_path)
        assert not run.scores_path.exists()


def test_the_time_of_devices_is_that_of_each_number(clock):
    first = DeviceTime(Devices("NVIDIA H200", replicas=2))
    clock.now += 10
    assert (first.seconds, first.changed) == (20, False)
    second = DeviceTime(Devices("NVIDIA H200", replicas=4), elapsed=10)
    second.progress = json.loads(json.dumps(first.progress))
    clock.now += 5
    assert (second.seconds, second.changed) == (20 + 20, True)
    third = DeviceTime(Devices("NVIDIA H200", replicas=4), elapsed=15)
    third.progress = second.progress
    assert (third.seconds, third.changed) == (40, True)
    of_another_kind = DeviceTime(Devices("NVIDIA L4", replicas=4), elapsed=15)
    of_another_kind.progress = third.progress
    assert (of_another_kind.seconds, of_another_kind.changed) == (None, True)
    back = DeviceTime(Devices("NVIDIA H200", replicas=4), elapsed=15)
    back.progress = of_another_kind.progress
    assert (back.seconds, back.changed) == (None, True)


@pytest.mark.usefixtures("clock")
def test_states_of_older_versions_know_no_devices():
    time = DeviceTime(Devices("CPU", replicas=3), elapsed=10.0)
    assert time.seconds == 30
    assert not time.changed
    with pytest.raises(TypeError):
        time.progress = {"device": "CPU", "number": 3, "seconds": "30"}


def test_the_record_leaves_out_what_is_of_other_devices(tmp_path):
    work = StepWork(lambda step: TOKENS, flops=lambda step: 10**6, peak_flops=10**12)
    records = []
    for steps, device in ((3, "CPU"), (6, "CPU"), (9, "another CPU")):
        run, _ = train(
            tmp_path / "run", steps=steps, resume=True, work=work, devices=Devices(device)
        )
        records.append(run.record)
    for record in records[:2]:
        assert record.flop_utilisation > 0
        assert record.device_seconds > 0
    assert (records[2].flop_utilisation, records[2].device_seconds) == (None, None)
    assert records[2].flops == 9 * 10**6


def test_a_signal_ends_a_measurement_of_bleu_between_its_parts(tmp_path):
    sentences, translated = ["a b c d", "e f g h", "i j k l"], []

    def translate(some):
        translated.append(some)
        terminate()
        return some

    def validated(translate, **options):
        bleu = BleuValidation(translate, sentences, sentences, parts=[[2], [0, 1]])
        options = {"steps": 2, "save_every": 2, "validation": next(batches()), **options}
        return train(tmp_path / "run", validators=[bleu], **options)[0]

    run = validated(translate)
    assert run.record.stopped_because == "terminated"
    assert translated == [["i j k l"]]
    state = find_state(run.directory)
    assert (state.step, state.progress["validation_due"]) == (2, True)
    assert not run.directory.validation_path.exists()
    assert validated(list, resume=True).record.stopped_because == "steps"
    (row,) = rows(run.directory.validation_path)
    assert float(row["val_bleu"]) == pytest.approx(100)


@pytest.mark.parametrize(
    ("search", "settings", "kept"),
    [
        (None, {"alpha": 0.8}, None),
        ({"alpha": 1.1, "ending": "any"}, {}, {"alpha": 1.1, "ending": "any"}),
        (
            {"beam_size": 6, "num_results": 6, "length_penalty": "power"},
            {"alpha": 0.8, "beam_size": 4, "steps": 2},
            {"beam_size": 4, "num_results": None, "length_penalty": "power", "alpha": 0.8},
        ),
    ],
    ids=["none", "the run's", "given"],
)
def test_a_training_from_a_run_keeps_the_search_that_it_is_scored_with(
    tmp_path, search, settings, kept
):
    model = small_model()
    origin = started_run(tmp_path / "origin", model)
    model.save_weights(origin.weights_path)
    if search:
        origin.write_search_defaults(search)
    run, _ = train(tmp_path / "run", steps=2, origin=origin.path, settings=settings)
    assert run.directory.record().search == kept
