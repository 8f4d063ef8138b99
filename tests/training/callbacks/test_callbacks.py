"""Each callback by itself."""

import io
import json
import math

import h5py
import keras
import numpy as np
import pytest

from keras_transformer.errors import TrainingDiverged
from keras_transformer.training import (
    Checkpoints,
    MetricsLog,
    ProgressBar,
    StepLimit,
    StepWork,
    StopOnNaN,
    StopOnPlateau,
    TimeLimit,
)
from keras_transformer.training.callbacks.step_callback import StepMeter
from keras_transformer.training.fit_callbacks import EpochCallbacks, StepLogs
from tests.training.small_training import WORK, batches, drive, loaded, small_model, started_run


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_checkpoints_keep_the_last_and_the_best(tmp_path):
    model = small_model()
    run = started_run(tmp_path / "run", model)
    checkpoints = Checkpoints(run, keep_last=2)
    for epoch, value in enumerate([5.0, 3.0, math.nan, 4.0]):
        model.set_weights([np.full_like(weight, epoch) for weight in model.get_weights()])
        model.optimizer.iterations.assign(epoch)
        drive(checkpoints, model, 1)
        checkpoints.on_epoch_end(epoch, {"val_perplexity": value})
    assert steps_on_disk(run) == [2, 3, 4]  # the best one besides the last two
    record = json.loads(run.checkpoints.best_record_path.read_text())
    assert (record["step"], record["monitor"], record["value"]) == (2, "val_perplexity", 3.0)
    assert loaded(run, "best").get_weights()[0].max() == 1.0
    assert loaded(run, "step-00000004").get_weights()[0].max() == 3.0
    assert not list(run.checkpoints.directory.glob(".*"))


def epochs(checkpoints, model, values, name="val_perplexity", first_step=0):
    """One step, then the end of an epoch, for each value of its validation."""
    for step, value in enumerate(values, start=first_step):
        model.optimizer.iterations.assign(step)
        drive(checkpoints, model, 1)
        checkpoints.on_epoch_end(step, {} if value is None else {name: value})


def steps_on_disk(run):
    return [int(path.name[5:13]) for path in run.checkpoints.paths()]


def test_a_continued_training_knows_the_best_so_far(tmp_path):
    model = small_model()
    run = started_run(tmp_path / "run", model)
    epochs(Checkpoints(run), model, [3.0])
    epochs(Checkpoints(run), model, [4.0], first_step=1)
    assert json.loads(run.checkpoints.best_record_path.read_text())["value"] == 3.0
    epochs(Checkpoints(run), model, [2.0], first_step=2)
    assert json.loads(run.checkpoints.best_record_path.read_text())["value"] == 2.0


def test_values_of_another_kind_are_not_compared(tmp_path):
    model = small_model()
    run = started_run(tmp_path / "run", model)
    epochs(Checkpoints(run), model, [3.0])
    by_bleu = Checkpoints(run, monitor="val_bleu", mode="max")
    epochs(by_bleu, model, [1.5], "val_bleu", first_step=1)
    record = json.loads(run.checkpoints.best_record_path.read_text())
    assert (record["monitor"], record["value"], record["step"]) == ("val_bleu", 1.5, 2)


def test_the_best_few_outlive_the_last_few(tmp_path):
    model = small_model()
    run = started_run(tmp_path / "run", model)
    checkpoints = Checkpoints(run, keep_last=2, keep_best=3, monitor="val_bleu", mode="max")
    epochs(checkpoints, model, [1.0, 7.0, None, 9.0, 8.0, math.nan, 7.0, 2.0], "val_bleu")
    assert json.loads(run.checkpoints.best_record_path.read_text()) == {
        "step": 4,
        "monitor": "val_bleu",
        "value": 9.0,
        "kept": [  # of the two with 7.0 the earlier one
            {"step": 4, "value": 9.0},
            {"step": 5, "value": 8.0},
            {"step": 2, "value": 7.0},
        ],
        "keep_last": 2,
    }
    assert steps_on_disk(run) == [2, 4, 5, 7, 8]
    assert run.checkpoints.best() == [run.checkpoints.path_of(step) for step in (4, 5, 2)]
    assert run.checkpoints.best_path.read_bytes() == run.checkpoints.path_of(4).read_bytes()


def test_checkpoints_every_few_steps(tmp_path):
    model = small_model()
    run = started_run(tmp_path / "run", model)
    drive(Checkpoints(run, save_every=3), model, 7)
    assert [path.name[:13] for path in run.checkpoints.paths()] == [
        "step-00000003",
        "step-00000006",
    ]


def test_a_checkpoint_holds_weights_alone(tmp_path):
    model = small_model()
    model.fit(*next(batches())[:2], verbose=0)  # makes the optimizer's variables
    run = started_run(tmp_path / "run", model)
    checkpoints = Checkpoints(run)
    drive(checkpoints, model, 1)
    with h5py.File(checkpoints.save()) as file:
        groups = set(file)
        sizes = []
        file.visititems(lambda _, item: sizes.append(getattr(item, "size", 0)))
    assert "optimizer" not in groups
    assert sum(sizes) == model.count_params()


def test_metrics_log_rows(tmp_path):
    path = tmp_path / "metrics.csv"
    log = MetricsLog(path, WORK, every=6)
    drive(log, small_model(), 19, {"step_loss": np.float32(1 / 3)})
    log.on_train_end()
    header, *rows = path.read_text().splitlines()
    assert header == (
        "step,loss,learning_rate,target_tokens_per_second,nll,gradient_norm,"
        "step_seconds,padding_share,flop_utilisation"
    )
    cells = [row.split(",") for row in rows]
    assert [int(row[0]) for row in cells] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 18]
    assert {row[1] for row in cells} == {"0.333333343"}
    # scale * hidden_dim^-0.5 * min(n^-0.5, n * warmup^-1.5), with 0.1, 8 and 5
    expected = [0.1 * 8**-0.5 * min(n**-0.5, n * 5**-1.5) for n in (1, 2, 18)]
    measured = [float(cells[index][2]) for index in (0, 1, -1)]
    assert measured == pytest.approx(expected, rel=1e-6)


def test_metrics_log_goes_on_in_its_file(tmp_path):
    path = tmp_path / "metrics.csv"
    model = small_model()
    for _ in range(2):
        log = MetricsLog(path, WORK)
        drive(log, model, 2)
        log.on_train_end()
        model.optimizer.iterations.assign(2)
    assert [line.split(",")[0] for line in path.read_text().splitlines()] == [
        "step", "1", "2", "3", "4"
    ]  # fmt: skip


def test_metrics_log_counts_tokens_since_the_last_row(tmp_path, clock):
    log = MetricsLog(tmp_path / "metrics.csv", StepWork(lambda step: 1000 + step), every=5)
    drive(log, small_model(), 15, before_step=lambda step: setattr(clock, "now", clock.now + 2))
    log.close()
    rows = [row.split(",") for row in log.path.read_text().splitlines()[1:]]
    assert {float(row[6]) for row in rows} == {2.0}  # seconds of a step
    rates = [float(row[3]) for row in rows]
    assert rates[:2] == [500.0, 500.5]  # 1000 and 1001 tokens in 2 seconds each
    assert rates[-1] == 506.0  # steps 11 to 15: 1010 to 1014 tokens in 10 seconds


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: keras.optimizers.SGD(0.5),
        lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.5)),
    ],
)
def test_metrics_log_works_with_a_constant_rate_and_tells_what_it_needs(tmp_path, optimizer):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer(), "mse")
    log = MetricsLog(tmp_path / "metrics.csv", WORK)
    drive(log, model, 1)
    assert log.path.read_text().splitlines()[1].split(",")[2] == "0.5"
    with pytest.raises(ValueError, match=r"needs `metrics\.StepLoss`"):
        log.on_step_end({"loss": 1.0})
    log.close()


def test_a_meter_goes_on_where_another_ended(clock):
    work = StepWork(lambda step: 5, flops=lambda step: 10**18)
    earlier = StepMeter(work)
    drive(earlier, small_model(), 3, before_step=lambda step: setattr(clock, "now", 100 + step))
    meter = StepMeter(work)
    meter.progress = json.loads(json.dumps(earlier.progress))
    drive(meter, small_model(), 20, before_step=lambda step: setattr(clock, "now", 200 + step))
    everything, rate = meter.all_steps, meter.rate
    assert (everything.steps, everything.tokens, everything.flops) == (23, 115, 23 * 10**18)
    assert (rate.steps, rate.seconds) == (2 + 19, 2 + 19)  # each without its first


def test_steps_that_compile_a_shape_are_not_in_the_rate(clock):
    shapes = ["short", "short", "long", "short", "long", "long"]
    meter = StepMeter(StepWork(lambda step: 6, shape_to_compile=shapes.__getitem__))
    seconds = [50, 1, 70, 1, 4, 4]
    drive(
        meter, small_model(), 6,
        before_step=lambda step: setattr(clock, "now", clock.now + seconds[step - 1]),
    )  # fmt: skip
    assert (meter.rate.steps, meter.rate.seconds) == (4, 10)
    assert meter.rate.tokens_per_second == pytest.approx(2.4)
    assert (meter.all_steps.steps, meter.all_steps.seconds) == (6, 130)


def test_time_limit_counts_from_the_start(clock):
    model = small_model()
    model.stop_training = False
    limit = TimeLimit(minutes=1.5)
    stopped = []

    def next_step(step):
        stopped.append(model.stop_training)
        clock.now += 30

    drive(limit, model, 4, before_step=next_step)
    assert stopped == [False, False, False, True]
    assert limit.reached


@pytest.mark.parametrize(
    ("make", "options", "rule"),
    [
        *((TimeLimit, {"minutes": value}, "a finite number > 0") for value in (0, -1, "5")),
        *((StepLimit, {"steps": value}, "a positive integer") for value in (0, -1, "5")),
        *((Checkpoints, {"mode": value, "run": None}, "one of") for value in ("middle", None)),
        (StopOnPlateau, {"mode": "least", "monitor": "val_x", "patience": 1}, "one of"),
        (StopOnPlateau, {"patience": 0, "monitor": "val_x", "mode": "min"}, "a positive integer"),
    ],
)
def test_wrong_arguments_are_refused(make, options, rule):
    with pytest.raises(ValueError, match=f"`{next(iter(options))}` must be {rule}"):
        make(**options)


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_stop_on_nan(loss):
    stop = StopOnNaN(lambda: "Take the third.", log_every=1)
    with pytest.raises(TrainingDiverged, match="step 1: training stopped. Take the third."):
        drive(stop, small_model(), 1, {"step_loss": loss})
    for ends in (
        lambda stop: stop.on_step_end({"step_loss": 1.0}),
        lambda stop: stop.on_epoch_end(0),
    ):
        stop = StopOnNaN()
        drive(stop, small_model(), 1, {"step_loss": loss})
        with pytest.raises(TrainingDiverged, match="step 1: training stopped."):
            ends(stop)


class OnDevice:
    """A value that counts how often it is read."""

    def __init__(self, value):
        self.value, self.reads = value, 0

    def __float__(self):
        self.reads += 1
        return self.value


def test_values_of_a_step_are_read_when_they_are_asked_for():
    losses = [OnDevice(0.5), OnDevice(0.25), OnDevice(0.125)]
    bar = ProgressBar(WORK, steps=10, file=Terminal())
    callbacks = EpochCallbacks([StopOnNaN(), bar], small_model(), None, 10, 1, lambda: None)
    callbacks.on_train_begin()
    callbacks.on_epoch_begin(0)
    for batch, loss in enumerate(losses):
        bar._drawn = -math.inf  # however quick the steps are
        callbacks.on_train_batch_begin(batch)
        callbacks.on_train_batch_end(batch, {"step_loss": loss, "loss": loss})
    bar.close()
    assert losses[0].reads > 1
    assert losses[1].reads > 0
    assert losses[2].reads == 0  # of the last step
    logs = StepLogs(loss=losses[0])
    assert (logs["loss"], logs.get("loss"), logs.get("none")) == (0.5, 0.5, None)
    assert (list(logs.items()), list(logs.values())) == ([("loss", 0.5)], [0.5])


def test_utilisation_is_of_the_steps_since_the_last_row(tmp_path, clock):
    work = StepWork(
        lambda step: 1, padding_share=lambda step: step / 100, flops=lambda step: 10, peak_flops=40
    )
    log, terminal = MetricsLog(tmp_path / "metrics.csv", work, every=2), Terminal()
    bar = ProgressBar(work, steps=12, file=terminal)
    for callback in (log, bar):  # steps of 1 second, from step 11 on of 2
        drive(
            callback, small_model(), 12,
            before_step=lambda step: setattr(clock, "now", clock.now + (1 if step < 11 else 2)),
        )  # fmt: skip
        callback.close()
    rows = [row.split(",") for row in log.path.read_text().splitlines()[1:]]
    assert [row[7:] for row in (rows[9], rows[10])] == [["0.0900", "0.2500"], ["0.1100", "0.1250"]]
    # 11 steps after the first in 9 + 4 seconds
    assert f"{11 * 10 / 13 / 40:.1%} of peak FLOP/s" in terminal.getvalue().split("\r")[-1]


def test_progress_without_a_terminal_is_a_few_lines():
    file = io.StringIO()
    drive(ProgressBar(WORK, steps=1000, file=file), small_model(), 1000)
    lines = file.getvalue().splitlines()
    assert len(lines) == 21
    assert lines[0].split()[:3] == ["0%", "step", "1/1000"]
    assert lines[10].split()[:5] == ["50%", "00:00", "left", "step", "500/1000"]
    assert lines[-1].split()[:5] == ["100%", "00:00", "left", "step", "1000/1000"]
    for part in ("loss 2.0000", "perplexity 7.39", "target tokens/s", "left"):
        assert part in lines[-1]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"steps": 11}, "00:14 left"),  # 7 steps of 2 s; the first, of 50 s, says nothing
        ({"minutes": 2}, "01:04 left"),  # 120 s - 50 s - 3 steps of 2 s
        ({"steps": 11, "minutes": 2}, "00:14 left"),
        ({"steps": 1000, "minutes": 2}, "01:04 left"),
        ({"minutes": 2, "elapsed": 30.0}, "00:34 left"),  # 30 s before the training went on
    ],
)
def test_time_left_is_that_of_the_first_limit(clock, limits, expected):
    file = Terminal()
    bar = ProgressBar(WORK, file=file, **limits)

    def next_step(step):
        clock.now += 50 if step == 1 else 2

    drive(bar, small_model(), 4, before_step=next_step)
    bar.on_train_end()
    last = file.getvalue().split("\r")[-1]
    assert expected in last
    assert "step 4" in last
    assert "10 target tokens/s  2 s per step" in last
    assert ("step 4/" in last) == ("minutes" not in limits)


def test_progress_shows_the_last_perplexity_on_dev():
    file = io.StringIO()
    bar = ProgressBar(WORK, steps=1, file=file)
    bar.set_model(small_model())
    bar.on_train_begin()
    bar.on_epoch_end(0, {"val_perplexity": 7.654})
    assert "perplexity 7.39  on dev 7.65" in bar._line({"loss": 2.0, "perplexity": 7.39}, 1.0)
