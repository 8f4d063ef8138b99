"""`TrainingRun` from its first step to each of its ends."""

import itertools
import signal
import threading
import typing

import keras
import numpy as np
import pytest

from keras_transformer.data import BatchPlan, BatchReader
from keras_transformer.errors import TrainingDiverged
from keras_transformer.optimizers import transformer_adam
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.training import (
    BleuValidation,
    Devices,
    StepWork,
    TrainingKeywords,
    TrainingOptions,
    TrainingRun,
)
from keras_transformer.types import SpecialTokens
from tests.data.corpora import corpus_of
from tests.training.equal_runs import rows
from tests.training.event_files import events
from tests.training.small_training import (
    TOKENS,
    At,
    TokenizerStub,
    batches,
    interrupt,
    loaded,
    small_model,
    train,
)

# A step of a million operations on devices that could do a million million in a second.
KNOWN_WORK = StepWork(
    target_tokens=lambda step: TOKENS,
    padding_share=lambda step: 0.25,
    flops=lambda step: 10**6 + step,
    peak_flops=10**12,
)


def fit(path, model=None, **options):
    defaults = {"save_every": 10, "validation": next(batches()), "log_every": 4}
    run, model = train(path / "run", model, **{**defaults, "tensorboard": True, **options})
    return run.directory, model, run.record


def names(run):
    return [path.name.removesuffix(".weights.h5") for path in run.checkpoints.paths()]


def equal_weights(model, run, checkpoint):
    pairs = zip(loaded(run, checkpoint).get_weights(), model.get_weights(), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


@pytest.fixture
def ctrl_c_interrupts():
    """Python's own handler: a worker of pytest-xdist ignores the signal."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


def break_weights(model):
    model.set_weights([np.full_like(weight, np.nan) for weight in model.get_weights()])


def test_steps_are_exact_and_everything_is_written(tmp_path):
    run, model, record = fit(tmp_path, steps=23, keep_last=2)
    assert (record.steps, record.stopped_because, record.interrupted) == (23, "steps", False)
    assert record.seconds > 0
    assert record.target_tokens_per_second > 0
    assert names(run) == ["step-00000020", "step-00000023"]
    assert equal_weights(model, run, "step-00000023")
    assert [int(row["step"]) for row in rows(run.metrics_path)] == [*range(1, 11), 12, 16, 20]
    validation = rows(run.validation_path)
    assert [int(row["step"]) for row in validation] == [10, 20, 23]
    assert set(validation[0]) == {
        "step", "seconds", "val_accuracy", "val_perplexity", "val_token_loss"
    }  # fmt: skip
    perplexities = [float(row["val_perplexity"]) for row in validation]
    assert perplexities[2] < perplexities[0]
    best = loaded(run, "best")
    assert np.isfinite(best.get_weights()[0]).all()
    for row in rows(run.metrics_path):
        # Of the smoothed loss 0.9 - 0.1 / 11 is the plain one, at least.
        assert 0 < 0.89 * float(row["nll"]) < float(row["loss"])
        assert float(row["gradient_norm"]) > 0


def test_the_record_says_how_much_work_it_was(tmp_path):
    _, _, record = fit(tmp_path, steps=12, work=KNOWN_WORK)
    assert record.target_tokens == 12 * TOKENS
    assert record.flops == 12 * 10**6 + sum(range(12))
    assert 0 < 11 * record.step_seconds < record.training_seconds < record.seconds
    # All steps but the first, which traces the graph.
    rate = (11 * 10**6 + sum(range(12))) / (11 * record.step_seconds)
    assert record.flop_utilisation == pytest.approx(rate / 1e12)
    assert record.target_tokens_per_second == pytest.approx(TOKENS / record.step_seconds)


def test_what_is_not_known_of_the_work_is_left_empty(tmp_path):
    run, _, record = fit(tmp_path, steps=2)
    assert (record.flops, record.flop_utilisation) == (None, None)
    for row in rows(run.metrics_path):
        assert (row["padding_share"], row["flop_utilisation"]) == ("", "")
        assert float(row["step_seconds"]) > 0


def test_minutes_end_it_too(tmp_path, slow_steps):
    options = {"steps": 1_000_000, "save_every": 1_000_000, "callbacks": [slow_steps]}
    run, model, record = fit(tmp_path, minutes=1.1, **options)
    assert (record.stopped_because, record.steps, record.seconds) == ("minutes", 7, 70)
    assert names(run) == ["step-00000007"]
    assert equal_weights(model, run, names(run)[0])


def test_the_record_counts_no_time_after_the_training(tmp_path, clock, slow_steps):
    run, _ = train(tmp_path / "run", steps=2, callbacks=[slow_steps])
    clock.now += 1000
    assert run.record.seconds == 20


@pytest.mark.parametrize(
    "options",
    [
        {"steps": 0}, {"minutes": -1}, {"save_every": 0}, {"keep_last": 0}, {"keep_best": 0},
        {"patience": 0}, {"log_every": 0}, {"mode": "maximum"},
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_argument_costs_no_run(tmp_path, options):
    with pytest.raises(ValueError, match=f"`{next(iter(options))}` must be"):
        TrainingRun(tmp_path, **{"steps": 2, **options})


def test_options_are_one_record_or_its_fields(tmp_path):
    fields, keywords = (
        typing.get_type_hints(each, localns={"Devices": Devices, "RunDirectory": RunDirectory})
        for each in (TrainingOptions, TrainingKeywords)
    )
    assert fields == keywords
    record = TrainingOptions(steps=3, keep_last=2)
    assert TrainingRun(tmp_path, steps=3, keep_last=2).options == record
    assert TrainingRun(tmp_path, record, log_every=7).options == TrainingOptions(
        steps=3, keep_last=2, log_every=7
    )


def test_batches_are_those_of_a_training_that_has_begun(tmp_path):
    with (
        TrainingRun(tmp_path / "run", steps=2) as run,
        pytest.raises(RuntimeError, match="`begin` must be called before `batches`"),
    ):
        run.batches(None)


def test_diagnostics_measure_the_middle_of_the_dev_text(tmp_path):
    sentences = [[5] * length for length in range(1, 30)]
    corpus = corpus_of(sentences, sentences)
    plan = BatchPlan.of(corpus, batch_tokens=64, seed=1, shuffle=False)
    dev = BatchReader(corpus, plan, SpecialTokens())
    options = {"steps": 1, "show_progress": False, "tensorboard": False}
    with TrainingRun(tmp_path / "run", **options) as run:
        run.begin(small_model(), validation=dev, tokenizer=TokenizerStub(), work=KNOWN_WORK)
        _, labels, _ = run.diagnostic_batch
    first, last = (dev.batch(step)[1].shape[1] for step in (0, plan.steps_per_epoch - 1))
    assert first + 5 < labels.shape[1] < last - 5


class Bleu(keras.callbacks.Callback):
    """Scores when it is told that the training has come to its end, as `BleuValidation` does."""

    def on_epoch_end(self, epoch, logs=None):
        if self.model.stop_training:
            logs["val_bleu"] = 50.0


def test_a_due_validation_knows_that_a_limit_is_reached(tmp_path):
    options = {"steps": 2, "save_every": 2, "validation": next(batches()), "log_every": 1}
    stopping = At(1, interrupt, "test_batch_end")
    run, _ = train(tmp_path / "run", callbacks=[stopping], validators=[Bleu()], **options)
    assert run.record.interrupted
    run, _ = train(tmp_path / "run", validators=[Bleu()], resume=True, **options)
    assert (run.record.steps, run.record.stopped_because) == (2, "steps")
    assert [row["val_bleu"] for row in rows(run.directory.validation_path)] == ["50"]


def test_a_training_that_had_ended_holds_the_moving_average_again(tmp_path):
    def averaging():
        return small_model(transformer_adam(8, 5, 0.1, use_ema=True, ema_momentum=0.75))

    run, _ = train(tmp_path / "run", averaging(), steps=3, save_every=10)
    _, model = train(tmp_path / "run", averaging(), steps=3, save_every=10, resume=True)
    assert equal_weights(model, run.directory, "step-00000003")


def test_finite_data_end_it(tmp_path):
    three_batches = (batch for batch in itertools.islice(batches(), 3))
    with pytest.warns(UserWarning, match="ran out of data"):
        record = train(tmp_path / "run", data=three_batches, steps=5)[0].record
    assert (record.steps, record.stopped_because) == (3, "data")


def test_ctrl_c_saves_the_step_it_waited_for(tmp_path, capsys):
    handler = signal.getsignal(signal.SIGINT)
    run, model, record = fit(tmp_path, steps=100, callbacks=[At(14, interrupt)])
    assert record.interrupted
    assert record.steps == 14
    assert names(run) == ["step-00000010", "step-00000014"]
    assert equal_weights(model, run, "step-00000014")
    assert "The weights are saved" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is handler


def test_the_second_ctrl_c_does_not_wait(tmp_path, capsys, ctrl_c_interrupts):
    def twice(model):
        interrupt(model)
        interrupt(model)

    run, _, record = fit(tmp_path, steps=100, callbacks=[At(14, twice)])
    assert record.interrupted
    assert names(run) == ["step-00000010"]
    assert "The last good checkpoint is" in capsys.readouterr().err


def test_ctrl_c_before_and_after_the_training_says_what_to_do(tmp_path, capsys):
    def interrupted(*trainings):
        with TrainingRun(tmp_path / "run", steps=3) as run:
            for model in trainings:
                run.begin(model, tokenizer=TokenizerStub(), work=KNOWN_WORK)
                model.fit(batches(), callbacks=run.callbacks, **run.fit_options)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "Training has not started." in capsys.readouterr().err
    with pytest.raises(KeyboardInterrupt):
        interrupted(small_model())
    assert "Training is complete." in capsys.readouterr().err


@pytest.mark.slow
def test_outside_the_main_thread_signals_are_left_alone(tmp_path):
    records = []
    thread = threading.Thread(target=lambda: records.append(fit(tmp_path, steps=3)[2]))
    thread.start()
    thread.join()
    assert records[0].steps == 3


def test_a_loss_that_is_no_number_names_step_and_checkpoint(tmp_path):
    with pytest.raises(TrainingDiverged, match=r"step 13: .*step-00000010\.weights\.h5"):
        fit(tmp_path, steps=100, callbacks=[At(12, break_weights)])
    kept = sorted(path.name for path in (tmp_path / "run" / "checkpoints").glob("*.weights.h5"))
    assert kept == ["best.weights.h5", "step-00000010.weights.h5"]
    assert len(rows(tmp_path / "run" / "metrics.csv")) == 11  # 1 to 10 and 12


def test_weights_that_are_no_numbers_are_not_saved(tmp_path):
    """The loss of the step that breaks the weights is still a number."""
    with pytest.raises(TrainingDiverged, match="step 20.*step-00000010"):
        fit(tmp_path, steps=100, callbacks=[At(20, break_weights)])
    kept = sorted(path.name for path in (tmp_path / "run" / "checkpoints").glob("*.weights.h5"))
    assert kept == ["best.weights.h5", "step-00000010.weights.h5"]


def test_several_steps_an_execution(tmp_path):
    run, _, record = fit(tmp_path, small_model(steps_per_execution=4), steps=24, save_every=12)
    assert record.steps == 24
    assert names(run) == ["step-00000012", "step-00000024"]
    assert [int(row["step"]) for row in rows(run.metrics_path)] == [4, 8, 12, 16, 20, 24]


class Weights(keras.callbacks.Callback):
    """The weights after every step."""

    def __init__(self):
        super().__init__()
        self.steps = []

    def on_train_batch_end(self, batch, logs=None):
        self.steps.append([np.array(weight.numpy()) for weight in self.model.trainable_weights])


def fit_with_average(path, use_ema=True, steps=23, callbacks=(), **options):
    """A training of which every step's weights are kept: run, weights of the steps, model."""
    keras.utils.set_random_seed(3)
    optimizer = transformer_adam(8, 5, 0.1, use_ema=use_ema, ema_momentum=0.75)
    weights = Weights()
    run, model, record = fit(
        path, small_model(optimizer), steps=steps, callbacks=[weights, *callbacks],
        **options,
    )  # fmt: skip
    return run, weights.steps, model, record


def moving_average(steps):
    """`m^(t-1) w_1 + (1 - m) sum_k m^(t-k) w_k` with m = 0.75, in float64."""
    last = len(steps)
    factors = [0.75 ** (last - 1)] + [0.25 * 0.75 ** (last - k) for k in range(2, last + 1)]
    return [
        sum(factor * weight.astype("float64") for factor, weight in zip(factors, each, strict=True))
        for each in zip(*steps, strict=True)
    ]


def assert_close(model, expected):
    for weight, value in zip(model.trainable_weights, expected, strict=True):
        np.testing.assert_allclose(weight.numpy(), value, rtol=1e-5, atol=1e-7)


def perplexity(model):
    return model.evaluate(batches(), steps=1, verbose=0, return_dict=True)["perplexity"]


def test_checkpoints_hold_the_moving_average_and_the_training_goes_on_without_it(tmp_path):
    run, steps, model, _ = fit_with_average(tmp_path / "average")
    assert names(run) == ["step-00000010", "step-00000020", "step-00000023"]
    for step in (10, 20, 23):
        checkpoint = loaded(run, f"step-{step:08d}")
        assert_close(checkpoint, moving_average(steps[:step]))
    assert equal_weights(model, run, "step-00000023")
    last_validation = float(rows(run.validation_path)[-1]["val_perplexity"])
    assert last_validation == pytest.approx(perplexity(model), rel=1e-6)
    _, plain_steps, plain_model, _ = fit_with_average(tmp_path / "plain", use_ema=False)
    for ours, theirs in zip(steps, plain_steps, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
    for weight, value in zip(plain_model.trainable_weights, steps[-1], strict=True):
        np.testing.assert_array_equal(weight.numpy(), value)
    assert last_validation != pytest.approx(perplexity(plain_model), rel=1e-4)


def test_an_interrupted_training_saves_the_moving_average_too(tmp_path):
    run, steps, model, record = fit_with_average(tmp_path, callbacks=[At(14, interrupt)])
    assert record.interrupted
    assert_close(loaded(run, "step-00000014"), moving_average(steps))
    assert equal_weights(model, run, "step-00000014")


class Scores(keras.callbacks.Callback):
    """A validator with known scores."""

    def __init__(self, scores):
        super().__init__()
        self.scores = scores

    def on_epoch_end(self, epoch, logs=None):
        logs["val_score"] = self.scores[epoch]


def test_validators_decide_what_is_best_and_when_to_stop(tmp_path):
    scores = Scores([1.0, 5.0, 2.0, 4.0, 3.0, 9.0])
    run, _, record = fit(
        tmp_path, steps=60, keep_last=1, keep_best=2, validators=[scores],
        monitor="val_score", mode="max", patience=3,
    )  # fmt: skip
    assert (record.steps, record.stopped_because) == (50, "patience")
    assert [path.name[5:13] for path in run.checkpoints.best()] == ["00000020", "00000040"]
    assert names(run) == ["step-00000020", "step-00000040", "step-00000050"]
    assert [float(row["val_score"]) for row in rows(run.validation_path)] == scores.scores[:5]
    written, _ = events(run.tensorboard_path)
    assert written["val_score"] == dict(zip([10, 20, 30, 40, 50], scores.scores, strict=False))


def test_patience_needs_something_to_wait_for(tmp_path):
    with pytest.raises(ValueError, match="`patience` needs `validation` or `validators`"):
        fit(tmp_path, steps=1, validation=None, patience=1)


def test_tensorboard_shows_what_metrics_csv_holds(tmp_path):
    sources, references = ["a b c d e"], ["a b c d e"]
    bleu = BleuValidation(lambda lines: lines, sources, references, path=tmp_path / "samples.txt")
    run, _, _ = fit(tmp_path, steps=12, validators=[bleu], work=KNOWN_WORK, log_every=6)
    written, _ = events(run.tensorboard_path)
    table = rows(run.metrics_path)
    for name in ("loss", "learning_rate", "nll", "gradient_norm", "padding_share"):
        assert written[name] == pytest.approx({int(row["step"]): float(row[name]) for row in table})
    assert set(written["padding_share"].values()) == {0.25}
    for step, seconds in written["step_seconds"].items():
        # 1,000,000 operations of a step on devices that can do 10^12 in a second.
        assert written["flop_utilisation"][step] == pytest.approx(1e-6 / seconds, rel=1e-4)
    assert written["val_bleu"] == pytest.approx({10: 100.0, 12: 100.0})
    assert [row[0] for row in written["samples"][12]] == [b"source", b"a b c d e"]
    assert set(written) >= {"target_tokens_per_second", "val_perplexity", "val_token_loss"}


def test_tensorboard_may_be_off(tmp_path):
    run, _, _ = fit(tmp_path, steps=1, tensorboard=False)
    assert not run.tensorboard_path.exists()


def test_a_limit_is_needed(tmp_path):
    with pytest.raises(ValueError, match="One of `steps` and `minutes` must be given"):
        fit(tmp_path)


@pytest.mark.slow  # of one seed, the trainings of test_resume.py are bit-equal too
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_one_seed_gives_bit_equal_losses(trainings, tmp_path, backend):
    losses = []
    for name, seed in (("first", 5), ("second", 5), ("other", 6)):
        assert trainings(backend).run(tmp_path / name, seed=seed)[0] == 0
        losses.append([row["loss"] for row in rows(tmp_path / name / "metrics.csv")])
    first, second, other = losses
    assert len(first) == 20
    assert first == second != other


@pytest.mark.parametrize(("steps", "warns"), [(4, True), (5, False)])
def test_a_training_that_ends_in_its_warm_up_is_told(tmp_path, capsys, steps, warns):
    train(tmp_path / "run", steps=steps)  # with a warm-up of 5
    told = "warning: training ended after 4 of the 5 warm-up updates"
    assert (told in capsys.readouterr().err) == warns
