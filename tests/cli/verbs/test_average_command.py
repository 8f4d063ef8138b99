import numpy as np
import pytest

from keras_transformer.models import build_transformer
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.text import SentencePieceTokenizer
from tests.cli.refusals import refusal


@pytest.fixture
def run(tmp_path):
    """A run of a model whose weights are the step's number in each of its checkpoints."""
    model = build_transformer(
        "tiny", vocabulary_size=15, hidden_dim=2, num_heads=1, intermediate_dim=2
    )
    tokenizer = SentencePieceTokenizer.train(["a small house"], vocabulary_size=15)
    run = RunDirectory.create(tmp_path / "run")
    run.start(model=model, tokenizer=tokenizer, settings={})
    for step in (10, 20, 30, 40):
        model.set_weights([np.full_like(weight, step) for weight in model.get_weights()])
        model.save_weights(run.checkpoints.path_of(step))
    return run


def weight_of(run, name):
    return run.load_model(name).trainable_weights[0].numpy().ravel()[0]


def test_the_mean_of_the_last_is_a_checkpoint_by_its_printed_name(run, call):
    expected = (0, "average-last-3-step-00000040\n", "")
    assert call("average", run.path, "--last", 3) == expected
    assert weight_of(run, "average-last-3-step-00000040") == pytest.approx(30)
    # The mean is none of the last.
    assert run.checkpoints.paths() == [run.checkpoints.path_of(step) for step in (10, 20, 30, 40)]


def test_the_mean_of_the_best_is_named_by_the_latest_of_them(run, call):
    kept = [{"step": step, "value": value} for step, value in [(20, 5.0), (10, 6.0), (40, 7.0)]]
    run.checkpoints.write_best_record({"step": 20, "value": 5.0, "kept": kept})
    expected = (0, "average-best-2-step-00000020\n", "")
    assert call("average", run.path, "--best", 2) == expected
    assert weight_of(run, "average-best-2-step-00000020") == pytest.approx(15)


def test_more_than_there_are_is_one_line(run, call):
    said = refusal(call("average", run.path, "--last", 5))
    assert said == f"error: The run {run.path} has 4 checkpoints. Received: --last 5\n"
    said = refusal(call("average", run.path, "--best", 1))
    assert "has 0 best checkpoints. Received: --best 1" in said


def test_an_older_checkpoint_kept_as_best_is_none_of_the_last(run, call):
    run.checksums.write_json(run.settings_path, {"save_every": 10})
    run.checkpoints.path_of(20).unlink()
    said = refusal(call("average", run.path, "--last", 3))
    assert "has 2 checkpoints. Received: --last 3" in said
