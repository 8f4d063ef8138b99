"""Curves of runs: every value is where the logs have it."""

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.figures import RunCurves
from tests.evaluation.cost.recorded_runs import write_run
from tests.figures.logged_run import METRICS, VALIDATION, write_logged_run


def test_values_are_at_their_updates_minutes_and_tokens(tmp_path):
    curves = RunCurves.read(write_logged_run(tmp_path / "run")).curves
    assert [*curves] == ["loss", "perplexity", "bleu", "learning_rate"]
    loss = curves["loss"]
    assert loss.step.tolist() == [1, 2, 12, 22]
    assert loss.values.tolist() == [8, 6, 4, 2]
    # The clock says 60 s at update 2 and 180 s at 12; ten more updates take a second each.
    assert loss.minutes.tolist() == pytest.approx([0.5, 1, 3, 3 + 10 / 60])
    # 200 tokens each of the first two updates, then 200 in a second; the last rate is unknown.
    assert loss.tokens.tolist() == [200, 400, 2400, 2400]
    assert curves["learning_rate"].step.tolist() == [1, 2, 12]  # one cell is empty
    bleu = curves["bleu"]
    assert (bleu.step.tolist(), bleu.values.tolist()) == ([12], [20])
    assert (bleu.minutes.tolist(), bleu.tokens.tolist()) == ([3], [2400])


def test_without_validations_the_time_is_that_of_the_updates(tmp_path):
    curves = RunCurves.read(write_logged_run(tmp_path / "run", validation=None)).curves
    assert [*curves] == ["loss", "learning_rate"]
    assert (60 * curves["loss"].minutes).tolist() == pytest.approx([2, 4, 14, 24])


def test_an_unfinished_row_is_left_out(tmp_path):
    run = write_logged_run(tmp_path / "run", METRICS + "32,1.", VALIDATION + "22,")
    curves = RunCurves.read(run).curves
    assert curves["loss"].step[-1] == 22
    assert curves["perplexity"].step[-1] == 12


def test_a_smooth_curve_keeps_its_ends_and_averages_between(tmp_path):
    rows = [f"{step},{value}" for step, value in enumerate([9, 0, 3, 0, 9], 1)]
    run = write_logged_run(tmp_path / "run", "step,loss\n" + "\n".join(rows) + "\n", None)
    smooth = RunCurves.read(run).curves["loss"].smoothed()
    assert smooth.tolist() == pytest.approx([9, 4, 21 / 5, 4, 9])


NO_METRICS = "run has no metrics.csv with values: it was tr"


@pytest.mark.parametrize(
    ("metrics", "validation", "message"),
    [
        (None, None, NO_METRICS),
        ("", None, NO_METRICS),
        ("step,loss\n", None, NO_METRICS),
        (METRICS + "x,1,1,1,1\n", None, "metrics.csv is damaged: could not convert string"),
        (METRICS, "seconds,step\n1,1\n", "validation.csv is damaged: its first column is not `st"),
    ],
)
def test_a_log_that_is_missing_or_damaged_is_named(tmp_path, metrics, validation, message):
    run = write_logged_run(tmp_path / "run", metrics, validation)
    with pytest.raises(UserInputError, match=message):
        RunCurves.read(run)


def test_validations_without_a_clock_are_at_the_time_of_the_updates(tmp_path):
    run = write_logged_run(tmp_path / "run", validation="step,val_bleu\n12,20.0\n")
    assert (60 * RunCurves.read(run).curves["bleu"].minutes).tolist() == pytest.approx([14])


def test_a_folder_that_is_no_run_is_named(tmp_path):
    write_run(tmp_path / "run")
    with pytest.raises(UserInputError, match=r"is not a run of keras_transformer"):
        RunCurves.read(tmp_path)
