"""The search of an ensemble: said where its runs differ, and chosen by `tune --dry-run`."""

import json
import shutil

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.evaluation import bleu
from keras_transformer.inference.translator import Translator
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.toolkit.cli.named_models import NamedModels
from tests.cli.refusals import refusal
from tests.cli.verbs.test_tune_command import REFERENCES, SOURCES, WordTranslator

pytestmark = pytest.mark.tensorflow

SAYS = "The runs differ in their search options: using alpha 1.3 of {}.\n"


@pytest.fixture
def runs(trained_run, tmp_path):
    """Three runs that were tuned to alphas of their own."""
    paths = [str(tmp_path / name) for name in ("one", "two", "three")]
    for path, alpha in zip(paths, (1.3, 1.4, 1.5), strict=True):
        run = RunDirectory.open(shutil.copytree(trained_run, path))
        run.write_search_defaults({"alpha": alpha, "beam_size": 6})
    return paths


@pytest.fixture
def files(dev_set):
    """The flags of a dev set."""
    return dev_set(SOURCES, REFERENCES)


@pytest.fixture
def tune(files, monkeypatch, call):
    """Run the verb; gives (exit code, stdout, stderr)."""
    monkeypatch.setattr("keras_transformer.inference.translator.Translator", WordTranslator)
    return lambda *arguments, files=files: call("tune", *arguments, *files)


def test_translate_says_whose_search_it_takes(command, runs, tmp_path):
    said = SAYS.format(runs[0]).encode()
    assert command("translate", *runs, stdin=b"a\n") == (0, b"A\n", said)
    (tmp_path / "in.txt").write_text("a\n")
    files = [f"--input={tmp_path / 'in.txt'}", f"--output={tmp_path / 'out.txt'}"]
    assert command("translate", *runs, *files) == (0, b"", said)


def test_nothing_is_said_where_nothing_is_chosen(command, runs):
    for arguments in (
        [*runs, "--alpha=1"],
        [*runs, "--sample"],
        [runs[0]],
        [runs[0], runs[0]],
        [runs[0], "--checkpoint=best", "--checkpoint=best"],
    ):
        assert command("translate", *arguments, stdin=b"") == (0, b"", b"")
    assert refusal(command("translate", *runs, "missing", stdin=b""))


@pytest.mark.parametrize(
    ("verb", "arguments", "searches"),
    [
        (["attention"], ["--source=a", "--output={}/a.html"], True),
        (["attention"], ["--source=a", "--target=b", "--output={}/a.html"], False),
        (["export", "saved-model"], ["{}/export"], True),
        (["export", "saved-model"], ["{}/export", "--alpha=1"], False),
        (["score"], ["--source={}/text", "--target={}/text"], False),
    ],
)
def test_other_verbs_that_search_say_it_too(
    runs, tmp_path, monkeypatch, call, verb, arguments, searches
):
    def stop(*arguments, **settings):
        raise UserInputError("stopped")

    monkeypatch.setattr(NamedModels, "load", stop)
    (tmp_path / "text").write_text("a\n")
    code, _, err = call(*verb, *runs, *(one.format(tmp_path) for one in arguments))
    said = SAYS.format(runs[0]) if searches else ""
    assert (code, err) == (2, f"{said}error: stopped\n")


def test_tune_finds_the_search_of_an_ensemble_and_writes_it_nowhere(tune, runs, tmp_path):
    records = [RunDirectory(path).record_path for path in runs]
    before = [path.read_bytes() for path in records]
    scores = tmp_path / "scores.json"
    # Two words more than with a beam of 4.
    code, out, err = tune(*runs, "--dry-run", "--alphas=0.5,0.75,1", f"--json={scores}")
    assert (code, err) == (0, "")  # all alphas are tried
    assert out.splitlines()[-1] == (
        "Flags for an ensemble with this search: --alpha 0.75 --beam-size 6 --extra-length 50"
    )
    assert WordTranslator.arguments == (runs, None, None, None)
    assert json.loads(scores.read_text("utf-8"))["runs"] == runs
    assert [path.read_bytes() for path in records] == before
    assert tune(runs[0], "--checkpoint=a", "--checkpoint=b", "--dry-run")[0] == 0
    assert WordTranslator.arguments[:2] == ([runs[0]], ["a", "b"])


def test_tune_says_which_search_it_takes_where_it_tries_no_other(tune, runs):
    RunDirectory(runs[1]).write_search_defaults({"alpha": 1.4, "beam_size": 7})
    said = f"The runs differ in their search options: using beam size 6 of {runs[0]}.\n"
    assert tune(*runs, "--dry-run")[2] == said
    assert tune(*runs, "--dry-run", "--beam-sizes=4,6")[2] == ""


def test_an_ensemble_without_a_dry_run_is_refused(tune, runs):
    before = RunDirectory(runs[0]).record_path.read_bytes()
    for arguments in (runs, [runs[0], "--checkpoint=a", "--checkpoint=b"]):
        said = refusal(tune(*arguments))
        assert (
            "The search of an ensemble cannot be stored in a run: tune it with `--dry-run`" in said
        )
    said = f"error: `--reset` takes one RUN, without `--checkpoint`. Received: {' '.join(runs)}\n"
    assert tune(*runs, "--reset", files=[]) == (2, "", said)
    assert RunDirectory(runs[0]).record_path.read_bytes() == before


@pytest.mark.slow
def test_the_scores_of_an_ensemble_are_those_of_its_translations(runs, files, printed):
    checkpoints = RunDirectory(runs[0]).checkpoints.last()[-2:]
    named = [f"--checkpoint={path}" for path in checkpoints]
    out = printed("tune", runs[0], *named, "--dry-run", "--alphas=0.6", *files)
    assert len(checkpoints) == 2
    ensemble = Translator.load(runs[0], checkpoints, alpha=0.6)
    score, _ = bleu(ensemble.translate(SOURCES), REFERENCES)
    assert f"chosen: alpha 0.6, beam size 6, extra length 50: BLEU {score:.2f}," in out
