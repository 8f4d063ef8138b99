"""The parsing recipe on trees of a toy grammar, with words in the dev set that no training saw."""

import json
import shutil

import numpy as np
import pytest

from keras_transformer import models
from keras_transformer.parsing import Tree, linearize, read_trees
from keras_transformer.parsing.evalb import evaluate
from keras_transformer.parsing.linearization import TreeTokenizer
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.toolkit import cli
from keras_transformer.toolkit.cli.program import run_command
from recipes.wsj_parsing.report import parse_dev, with_gold_tags
from recipes.wsj_parsing.settings import ParsingSettings
from recipes.wsj_parsing.train import main
from tests.recipes.toy_treebank import NOUNS, toy_trees, with_tags, write_treebank
from tests.training.equal_runs import rows
from tests.translation_training.number_text import flags
from tests.written_files import one_line

pytestmark = pytest.mark.tensorflow

SMALL = {
    "num_layers": 1,
    "hidden_dim": 64,
    "intermediate_dim": 128,
    "dropout": 0.1,
    "vocabulary_size": 330,  # 256 of them bytes
    "phrase_swaps": 0,
    "batch_tokens": 1024,
    "steps": 400,
    "warmup_steps": 100,
    "learning_rate_scale": 0.5,
    "save_every": 100,
    "average": 2,
    "beam_size": 3,
    "extra_length": 40,
}
# For a training whose trees do not matter.
FEW = {"probe": False, "average": 1, "beam_size": 1, "extra_length": 2}


def train(data, run, *arguments, **settings):
    given = [*flags(**{**SMALL, **settings}), *arguments]
    return run_command(lambda: main(["--data", str(data), "--run", str(run), *given]))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_treebank(tmp_path_factory.mktemp("wsj") / "data")


@pytest.fixture(scope="module")
def trained(data):
    """The directory of a run that parses the toy language."""
    run = data.parent / "runs" / "toy"
    assert train(data, run) == 0
    return run


def scores_of(run):
    return json.loads((run / "scores.json").read_text())


def evalb_figures(capsys, gold, test):
    capsys.readouterr()
    assert cli.main(["evalb", str(gold), str(test), "--json"]) in (0, None)
    return json.loads(capsys.readouterr().out)


def test_the_trained_parser_is_far_better_than_flat_trees(trained, data):
    gold = list(read_trees(data / "dev.mrg"))
    flat = evaluate(gold, [Tree("S", tree.leaves()) for tree in gold])
    scores = scores_of(trained)
    assert flat.all.f1 < 40
    assert scores["evalb"]["all"]["f1"] >= flat.all.f1 + 45
    assert scores["evalb"]["all"]["valid"] == scores["sentences"] == 30
    assert scores["evalb"]["all"]["tagging_accuracy"] == 100
    assert scores["well_formed"] == 1
    assert (scores["repaired_sentences"], scores["repairs"], scores["flat_trees"]) == (0, 0, 0)


def test_the_scores_say_how_they_came_about(trained, data):
    scores = scores_of(trained)
    assert set(scores["evalb"]) == {"all", "len<=40"}
    repair = scores["repair"]
    assert repair["evalb"]["all"]["valid"] == 30
    assert repair["well_formed"] == pytest.approx(1 - repair["repaired_sentences"] / 30)
    assert (repair["repairs"] > 0) == (repair["repaired_sentences"] > 0)
    assert scores["training_trees"] == 400
    assert scores["averaged_checkpoints"] == 2
    assert scores["steps"] == 400
    assert scores["settings"] == json.loads((trained / "settings.json").read_text())
    assert scores["command"].startswith(f"python -m recipes.wsj_parsing.train --data {data}")
    for name in ("seconds", "step_seconds", "target_tokens_per_second", "parsing_seconds"):
        assert scores[name] > 0
    assert set(repair) <= set(scores)
    assert repair["parsing_seconds"] > 0
    assert {"training_cost", "versions", "machine"} <= set(scores)


@pytest.mark.parametrize("name", ["parsed", "repaired"])
def test_the_evalb_command_gives_the_same_figures(trained, name, capsys):
    scores = scores_of(trained)
    figures = scores["evalb"] if name == "parsed" else scores["repair"]["evalb"]
    files = trained / "dev.gold.mrg", trained / f"dev.{name}.mrg"
    assert evalb_figures(capsys, *files) == figures


def test_the_command_line_parses_with_the_run(trained, data, capsys, monkeypatch):
    gold = list(read_trees(data / "dev.mrg"))
    parsed = list(read_trees(trained / "dev.parsed.mrg"))
    text = "".join(" ".join(tree.words()) + "\n" for tree in gold[:5])
    stdin = (trained.parent / "stdin").with_suffix(".txt")
    stdin.write_text(text, encoding="utf-8")
    with stdin.open(encoding="utf-8") as file:
        monkeypatch.setattr("sys.stdin", file)
        search = ["--beam-size", "3", "--alpha", "0.3"]
        assert cli.main(["parse", str(trained), *search]) in (0, None)
    lines = capsys.readouterr().out.splitlines()
    trees = [
        with_gold_tags(Tree.fromstring(line), tree)
        for line, tree in zip(lines, gold[:5], strict=True)
    ]
    assert trees == parsed[:5]


@pytest.mark.slow
def test_resuming_a_finished_training_changes_nothing(trained, data):
    before = scores_of(trained)
    parsed = (trained / "dev.parsed.mrg").read_text()
    assert train(data, trained, "--resume") == 0
    assert scores_of(trained)["evalb"] == before["evalb"]
    assert (trained / "dev.parsed.mrg").read_text() == parsed


@pytest.mark.slow
def test_a_resumed_training_ends_as_one_without_a_break(data, tmp_path, monkeypatch):
    few = {
        **FEW,
        "save_every": 4,
        "warmup_steps": 4,
        "deterministic": True,
        "subword_sampling": 0.1,
        "phrase_swaps": 1,
    }
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert train(data, whole, steps=8, **few) == 0
    assert train(data, broken, steps=4, **few) == 0
    monkeypatch.setattr(models, "build_transformer", None)  # the run has its model
    assert train(data, broken, "--resume", steps=8, **few) == 0
    assert losses(broken) == losses(whole)
    for name in ("dev.parsed.mrg", "dev.repaired.mrg"):
        assert (broken / name).read_text() == (whole / name).read_text()


def losses(run, name="loss"):
    return [(row["step"], row[name]) for row in rows(run / "metrics.csv")]


def test_labels_are_smoothed(trained):
    (_, loss), (_, nll) = losses(trained)[-1], losses(trained, "nll")[-1]
    # A tenth of the target is off the right token, which costs most where the model is sure.
    assert float(loss) > float(nll) + 0.2


def test_the_mean_of_the_last_checkpoints_parses(trained):
    run = RunDirectory(trained)
    checkpoints = run.checkpoints.paths()[-2:]
    assert [path.name[5:13] for path in checkpoints] == ["00000300", "00000400"]
    first, last, final = (
        run.load_model(path).get_weights() for path in (*checkpoints, run.weights_path)
    )
    for a, b, mean in zip(first, last, final, strict=True):
        np.testing.assert_allclose(mean, (a + b) / 2, atol=1e-6)
    assert any(np.abs(a - b).max() > 1e-3 for a, b in zip(first, last, strict=True))


def test_a_training_goes_on_with_its_own_dev_set_alone(trained, data, tmp_path, capsys):
    other = tmp_path / "data"
    shutil.copytree(data, other)
    with (other / "dev.mrg").open("a") as file:
        file.write("\n(S (NP (DT the) (NN dog)) (. .))\n")
    assert train(other, trained, "--resume", steps=500) == 2
    assert "cannot resume" in one_line(capsys)
    assert scores_of(trained)["steps"] == 400


def test_gold_tags_reach_the_scorer_alone(trained, data):
    gold = list(read_trees(data / "dev.mrg"))
    other = [with_tags(tree, ["FW"] * len(tree.words())) for tree in gold]
    settings = ParsingSettings(**SMALL)
    found = parse_dev(RunDirectory(trained), other, settings, constrained=True)
    assert [linearize(tree) for tree in found.trees] == [
        linearize(tree) for tree in read_trees(trained / "dev.parsed.mrg")
    ]
    assert {tag for tree in found.trees for tag in tree.tags()} == {"FW"}


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("train.mrg", None, ["Neither train.mrg nor train.mrg.gz"]),
        ("dev.mrg", None, ["Neither dev.mrg nor dev.mrg.gz"]),
        ("train.mrg", "(S (NP (DT the)", ["train.mrg, line 1", "not closed"]),
        ("dev.mrg", "", ["dev.mrg"]),
        (
            "train.mrg",
            "\n".join(["(S\n(NN dog))", *toy_trees(98, NOUNS, 1), f"(S {'(NN dog) ' * 2000})"]),
            ["`batch_tokens`", "tree 100 of train.mrg", "2001 source", "2003 target"],
        ),
    ],
    ids=["no training trees", "no dev trees", "not closed", "empty", "too long"],
)
def test_bad_data_ends_in_one_line_and_leaves_no_run(tmp_path, name, content, says, capsys):
    data, run = write_treebank(tmp_path / "data"), tmp_path / "run"
    for path in (data / name, data / f"{name}.gz"):
        path.unlink(missing_ok=True)
    if content is not None:
        (data / name).write_text(content)
    assert train(data, run) == 2
    message = one_line(capsys)
    assert all(text in message for text in says), message
    assert not run.exists()


def test_a_dev_tree_too_long_to_be_parsed_is_refused_before_the_training(tmp_path, capsys):
    data, run = write_treebank(tmp_path / "data"), tmp_path / "run"
    with (data / "dev.mrg").open("a") as file:
        file.write(f"\n(S {'(NN dog) ' * 1100})")
    assert train(data, run, batch_tokens=4096) == 2
    assert "Tree 31 of the dev set has more than 1,024 tokens" in one_line(capsys)
    assert not run.exists()


@pytest.mark.slow
def test_further_trees_are_trained_on_and_a_label_nobody_taught_is_named(tmp_path, capsys):
    data, run = write_treebank(tmp_path / "data"), tmp_path / "run"
    more = tmp_path / "more.mrg"
    more.write_text("\n".join([*toy_trees(100, ["bird"], seed=4), "(FRAG (NN bird) (. .))"]))
    with (data / "dev.mrg").open("a") as file:
        file.write("\n(S (WHADJP (WRB how) (JJ old)) (. .))\n")
    few = {**FEW, "label_smoothing": 0.0}
    assert train(data, run, "--more-trees", str(more), **few, steps=2) == 0
    printed = capsys.readouterr().out
    assert "No training tree has WHADJP" in printed
    assert {"(FRAG", ")FRAG"} <= set(TreeTokenizer.load(RunDirectory(run).tokenizer_path).tokens)
    assert scores_of(run)["training_trees"] == 501
    assert scores_of(run)["sentences"] == 31
    assert losses(run, "nll") == losses(run)  # without label smoothing the loss is the likelihood
    # What a run leaves is gone as soon as another one replaces it.
    assert train(data, run, "--overwrite", **FEW, learning_rate_scale=1e18) == 2
    assert not list(run.glob("dev.*.mrg"))
