"""The search that a run has by default: writing it, and going back."""

import json
import shutil

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.runs.run_directory import RunDirectory

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def run(trained_run, tmp_path):
    """A copy of the run without a search, with a field in run.json of a later version."""
    run = RunDirectory.open(shutil.copytree(trained_run, tmp_path / "run"))
    content = content_of(run) | {"of_later": [1, {"größer": 2}]}
    del content["search"]
    run.checksums.write_json(run.record_path, content)
    return run


def change(run, **fields):
    content = {**json.loads(run.record_path.read_text("utf-8")), **fields}
    run.checksums.write_json(run.record_path, content)


def content_of(run):
    return json.loads(run.record_path.read_text("utf-8"))


def test_options_are_merged_and_all_else_stays(run):
    before = content_of(run)
    run.write_search_defaults({"alpha": 1.1, "beam_size": 5})
    run.write_search_defaults({"alpha": 1.2})
    assert run.search_defaults() == {"alpha": 1.2, "beam_size": 5}
    assert content_of(run) == {
        **before, "search": {"alpha": 1.2, "beam_size": 5}, "untuned_search": {}
    }  # fmt: skip
    assert not run.checksums.is_damaged(run.record_path)
    assert run.checksums.check_files() > 0
    run.write_search_defaults(None)
    assert content_of(run) == before
    run.write_search_defaults(None)
    assert content_of(run) == before


def test_a_search_without_end_is_lowered_in_one_line(run, capsys):
    run.write_search_defaults({"beam_size": 10_000, "extra_length": 1_000_000, "min_length": 10**6})
    capsys.readouterr()
    for _ in range(2):
        found = run.search_defaults()
        assert found == {"beam_size": 100, "extra_length": 1_000, "min_length": 100}
    (line,) = capsys.readouterr().err.splitlines()
    assert str(run.record_path) in line
    assert "lowered to beam_size=100, extra_length=1000, min_length=100" in line


def test_the_search_of_a_model_that_came_with_one_returns(run):
    own = {"alpha": 1.0, "length_penalty": "power", "renormalize": True, "num_results": None}
    change(run, search=own)
    run.write_search_defaults({"alpha": 0.4})
    assert run.search_defaults() == {**own, "alpha": 0.4}
    run.write_search_defaults(None)
    assert run.search_defaults() == own
    assert run.record().untuned_search is None


def test_results_of_a_larger_beam_give_way(run):
    own = {"beam_size": 6, "num_results": 6}
    change(run, search=own)
    run.write_search_defaults({"beam_size": 2, "alpha": 1.0})
    assert run.search_defaults() == {"beam_size": 2, "num_results": None, "alpha": 1.0}
    run.write_search_defaults(None)
    assert run.search_defaults() == own


def test_what_the_training_has_tuned_goes_and_what_was_tuned_since_stays(run):
    own, settings = {"ending": "transformers"}, {"beam_size": 4, "alpha": 0.6}
    tuned = {"beam_size": 5, "alpha": 1.4}
    before = content_of(run)
    run.undo_tuning(settings)
    run.write_search_defaults(tuned, in_training=True)
    assert content_of(run) == {
        **before, "search": tuned, "untuned_search": {}, "tuned_in_training": True
    }  # fmt: skip
    run.undo_tuning(settings)
    assert content_of(run) == before
    run.write_search_defaults(tuned, in_training=True)
    run.write_search_defaults({"alpha": 1.2})
    run.undo_tuning(settings)
    assert run.search_defaults() == {**tuned, "alpha": 1.2}
    run.write_search_defaults(tuned, in_training=True)
    run.write_search_defaults(None)
    assert content_of(run) == before

    change(run, search=own)  # of the run that the training started from
    run.write_search_defaults(tuned, in_training=True)
    run.undo_tuning(settings)
    assert content_of(run) == {**before, "search": {**own, **settings}}
    run.undo_tuning({"alpha": 0.8})
    assert run.search_defaults() == {**own, **settings, "alpha": 0.8}
    change(run, search={"length_penalty": "power"})
    with pytest.raises(UserInputError, match="`alpha` must be less than 9 with"):
        run.undo_tuning({"alpha": 9.5})
    assert run.search_defaults() == {"length_penalty": "power"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": -1.0}, "`alpha` must be a number >= 0. Received: alpha=-1.0"),
        ({"beam_size": 2, "num_results": 3}, "`num_results` must be at most `beam_size`"),
    ],
)
def test_an_option_that_breaks_its_rule_changes_nothing(run, options, message):
    change(run, search={"num_results": 3})
    before = run.record_path.read_bytes()
    with pytest.raises(ValueError, match=message):
        run.write_search_defaults(options)
    assert run.record_path.read_bytes() == before


@pytest.mark.parametrize("untuned", [{"alpha": "much"}, {"no_such": 1}, ["alpha"], {"alpha": []}])
def test_a_hostile_record_is_refused_and_not_written(run, untuned):
    run.write_search_defaults({"alpha": 1.1})
    change(run, untuned_search=untuned)
    before = run.record_path.read_bytes()
    with pytest.raises(UserInputError, match=r"run\.json"):
        run.write_search_defaults(None)
    assert run.record_path.read_bytes() == before
    change(run, untuned_search=untuned, tuned_in_training=True)
    before = run.record_path.read_bytes()
    with pytest.raises(UserInputError, match=r"run\.json"):
        run.undo_tuning({})
    assert run.record_path.read_bytes() == before


def test_a_damaged_record_is_refused(run):
    content = bytearray(run.record_path.read_bytes())
    content[len(content) // 2] ^= 1
    run.record_path.write_bytes(content)
    with pytest.raises(UserInputError, match="is damaged"):
        run.write_search_defaults({"alpha": 1.1})
