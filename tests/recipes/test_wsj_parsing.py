"""The parsing recipe on trees of a toy grammar, with words in the dev set that no training saw."""

import csv
import json
import math
import pathlib
import shutil
import types

import numpy as np
import pytest

import recipes.wsj_parsing
from keras_transformer import cli, models
from keras_transformer.command_errors import run_command
from keras_transformer.errors import UserInputError
from keras_transformer.parser import Parse, Parser
from keras_transformer.parsing import Tree, linearize, read_trees, rebuild, source_text
from keras_transformer.parsing.evalb import evaluate
from keras_transformer.parsing.tree_tokenizer import TreeTokenizer
from keras_transformer.run_directory import RunDirectory
from keras_transformer.settings import read_settings_file
from keras_transformer.text import SentencePieceTokenizer
from recipes.wsj_parsing.report import parse_dev, score_parses, with_gold_tags
from recipes.wsj_parsing.settings import ParsingSettings
from recipes.wsj_parsing.train import main
from recipes.wsj_parsing.treebank import TreePairs, make_tokenizers
from tests.parsing.sample_trees import SAMPLE, needs_sample
from tests.recipes.toy_treebank import NOUNS, toy_trees, write_treebank
from tests.translation_training.number_text import flags

pytestmark = pytest.mark.tensorflow

PAPER = pathlib.Path(recipes.wsj_parsing.__file__).with_name("paper.toml")
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
WORDS = SentencePieceTokenizer.train(NOUNS, vocabulary_size=290, byte_fallback=True)
TREES = TreeTokenizer.of(["(S", ")S", "XX"])


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


def test_resuming_a_finished_training_changes_nothing(trained, data):
    before = scores_of(trained)
    parsed = (trained / "dev.parsed.mrg").read_text()
    assert train(data, trained, "--resume") == 0
    assert scores_of(trained)["evalb"] == before["evalb"]
    assert (trained / "dev.parsed.mrg").read_text() == parsed


def test_a_resumed_training_ends_as_one_without_a_break(data, tmp_path):
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
    assert train(data, broken, "--resume", steps=8, **few) == 0
    assert losses(broken) == losses(whole)
    for name in ("dev.parsed.mrg", "dev.repaired.mrg"):
        assert (broken / name).read_text() == (whole / name).read_text()


def losses(run, name="loss"):
    with (run / "metrics.csv").open() as file:
        return [(row["step"], row[name]) for row in csv.DictReader(file)]


def test_labels_are_smoothed(trained):
    (_, loss), (_, nll) = losses(trained)[-1], losses(trained, "nll")[-1]
    # A tenth of the target is off the right token, which costs most where the model is sure.
    assert float(loss) > float(nll) + 0.2


def test_the_mean_of_the_last_checkpoints_parses(trained):
    run = RunDirectory(trained)
    checkpoints = run.checkpoints()[-2:]
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
    assert "cannot go on" in one_line(capsys)
    assert scores_of(trained)["steps"] == 400


@pytest.fixture
def untrained(data, tmp_path):
    """A run with random weights."""
    settings = ParsingSettings(**{**SMALL, "extra_length": 10})
    words, trees = make_tokenizers([TreePairs(data / "dev.mrg")], settings)
    model = models.build_transformer(**settings.model_options(words, trees))
    run = RunDirectory.create(tmp_path / "untrained")
    run.start(model=model, tokenizer=trees, source_tokenizer=words, settings=settings.to_dict())
    model.save_weights(run.weights_path)
    return run, settings


def test_a_free_search_is_repaired_and_one_among_trees_is_not(untrained, data):
    gold = list(read_trees(data / "dev.mrg"))[:8]
    run, settings = untrained
    free = parse_dev(run, gold, settings, constrained=False)
    constrained = parse_dev(run, gold, settings, constrained=True)
    assert (constrained.repaired, constrained.repairs, constrained.well_formed) == (0, 0, 1)
    assert free.repairs >= free.repaired > 0
    assert free.well_formed == 1 - free.repaired / 8
    assert free.evalb.all.valid == constrained.evalb.all.valid == 8


def test_the_settings_of_the_search_reach_the_parser(tmp_path, monkeypatch):
    gold = [Tree.fromstring("(S (XX ah))")]
    received = []

    def load(path, **options):
        received.append((path, options))
        found = Parse(gold[0], -1.0, 0)
        return types.SimpleNamespace(parse_with_scores=lambda sentences, _: [found])

    monkeypatch.setattr(Parser, "load", load)
    settings = ParsingSettings(beam_size=7, alpha=0.9, extra_length=55)
    for constrained in (True, False):
        parse_dev(RunDirectory(tmp_path), gold, settings, constrained=constrained)
    search = {"beam_size": 7, "alpha": 0.9, "extra_length": 55}
    assert received == [
        (tmp_path, search | {"constrained": constrained}) for constrained in (True, False)
    ]


def test_gold_tags_reach_the_scorer_alone(trained, data):
    gold = list(read_trees(data / "dev.mrg"))
    other = [with_tags(tree, ["FW"] * len(tree.words())) for tree in gold]
    settings = ParsingSettings(**SMALL)
    found = parse_dev(RunDirectory(trained), other, settings, constrained=True)
    assert [linearize(tree) for tree in found.trees] == [
        linearize(tree) for tree in read_trees(trained / "dev.parsed.mrg")
    ]
    assert {tag for tree in found.trees for tag in tree.tags()} == {"FW"}


def test_each_word_is_one_to_the_model(data):
    words, _ = make_tokenizers([TreePairs(data / "dev.mrg")], ParsingSettings(**SMALL))
    sentence = ["the", "1\u00a0000", "\u200b", "cat\u2028", "\u2581", "("]
    (ids,) = words.encode([source_text(sentence)])
    assert sum(number in words.word_starts for number in ids) == len(sentence)


def test_training_pairs_know_no_tags(tmp_path):
    tree = Tree.fromstring("(S (NP (DT the) (NN [)) (VP (VBZ barks)))")
    texts = []
    for name, tags in (("a", ["DT", "NN", "VBZ"]), ("b", ["X", "Y", "Z"])):
        path = tmp_path / f"{name}.mrg"
        path.write_text(str(with_tags(tree, tags)))
        texts.append(TreePairs(path))
    assert list(texts[0]) == [("the -LSB- barks", "(S (NP XX XX )NP (VP XX )VP )S")]
    assert texts[0].fingerprint() == texts[1].fingerprint()


def with_tags(tree, tags):
    return rebuild(linearize(tree), tree.words(), tags)


def test_a_sentence_without_a_tree_counts_as_a_flat_one():
    gold = [Tree.fromstring(text) for text in toy_trees(3, NOUNS, seed=3)]
    tagless = [with_tags(tree, ["XX"] * len(tree.words())) for tree in gold]
    parses = [
        Parse(tagless[0], score=-1.0, repairs=0),
        Parse(tagless[1], score=-math.inf, repairs=7),
        Parse(tagless[2], score=-2.0, repairs=3),
    ]
    scores = score_parses(parses, gold)
    flat = Tree("S", gold[1].leaves())
    assert scores.trees == [gold[0], flat, gold[2]]
    assert (scores.flat_trees, scores.repaired, scores.repairs) == (1, 1, 3)
    assert scores.well_formed == pytest.approx(1 / 3)
    assert scores.evalb.all.valid == 3
    lost = scores.evalb.scores[1]
    assert (lost.matched, lost.test_brackets) == (1, 1)  # the sentence itself
    whole = [score.gold_brackets for score in scores.evalb.scores]
    assert scores.evalb.all.recall == pytest.approx(100 * (sum(whole) - whole[1] + 1) / sum(whole))


def one_line(capsys):
    """What stderr says last; it is a single line behind `error:`."""
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert len(lines) == 1
    return lines[0]


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


def test_further_trees_are_trained_on_and_a_label_nobody_taught_is_named(tmp_path, capsys):
    data, run = write_treebank(tmp_path / "data"), tmp_path / "run"
    more = tmp_path / "more.mrg"
    more.write_text("\n".join([*toy_trees(100, ["bird"], seed=4), "(FRAG (NN bird) (. .))"]))
    with (data / "dev.mrg").open("a") as file:
        file.write("\n(S (WHADJP (WRB how) (JJ old)) (. .))\n")
    few = {**FEW, "label_smoothing": 0.0}
    assert train(data, run, "--more-trees", str(more), **few, steps=2) == 0
    printed = capsys.readouterr().out
    assert "dev.mrg: no training tree has WHADJP" in printed
    assert {"(FRAG", ")FRAG"} <= set(TreeTokenizer.load(RunDirectory(run).tokenizer_path).tokens)
    assert scores_of(run)["training_trees"] == 501
    assert scores_of(run)["sentences"] == 31
    assert losses(run, "nll") == losses(run)  # without label smoothing the loss is the likelihood
    # What a run leaves is gone as soon as another one replaces it.
    assert train(data, run, "--overwrite", **FEW, learning_rate_scale=1e30) == 2
    assert not list(run.glob("dev.*.mrg"))


def test_heads_must_divide_the_hidden_size():
    with pytest.raises(UserInputError, match="`hidden_dim` must be a multiple of `num_heads`"):
        ParsingSettings(hidden_dim=126)


@pytest.mark.parametrize("name", [None, "dropout", "attention_dropout", "activation_dropout"])
def test_each_rate_of_dropout_is_the_models(name):
    rates = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    rates |= {name: 0.5} if name else {}
    settings = ParsingSettings(num_layers=1, hidden_dim=16, intermediate_dim=32, **rates)
    model = models.build_transformer(**settings.model_options(WORDS, TREES))
    inputs = {"source_ids": np.array([[7, 8, 9, 2]]), "target_ids": np.array([[1, 4, 6, 6]])}
    first, second = (np.asarray(model(inputs, training=True)) for _ in range(2))
    assert np.allclose(first, second) == (name is None)


def test_learned_positions_hold_whatever_a_batch_holds():
    sizes = {"num_layers": 1, "hidden_dim": 16, "intermediate_dim": 32, "batch_tokens": 1100}
    settings = ParsingSettings(positions="learned", **sizes)
    model = models.build_transformer(**settings.model_options(WORDS, TREES))
    for side in ("source", "target"):
        ids = {"source_ids": np.ones((1, 3)), "target_ids": np.ones((1, 3))}
        assert model(ids | {f"{side}_ids": np.ones((1, 1100))}).shape[0] == 1
        with pytest.raises(ValueError, match="longer than the learned positions"):
            model(ids | {f"{side}_ids": np.ones((1, 1101))})


def test_the_papers_model_has_its_sizes():
    settings = ParsingSettings.from_dict(read_settings_file(PAPER))
    assert (settings.num_layers, settings.hidden_dim) == (4, 1024)
    assert (settings.beam_size, settings.alpha, settings.extra_length) == (21, 0.3, 300)
    model = models.build_transformer(**settings.model_options(WORDS, TREES))
    d, inner = 1024, 2048
    attention, norm = 4 * d * d, 2 * d
    feed_forward = 2 * d * inner + inner + d
    encoder = 4 * (attention + feed_forward + 2 * norm)
    decoder = 4 * (2 * attention + feed_forward + 3 * norm)
    embeddings = (WORDS.vocabulary_size + TREES.vocabulary_size) * d
    assert model.count_params() == encoder + decoder + embeddings


@pytest.mark.slow
@needs_sample
def test_4000_updates_on_the_wall_street_journal_make_a_parser(tmp_path):
    """The real sample, where a flat tree has an F1 of 9.6; 12 minutes on 2 quiet cores."""
    run = tmp_path / "run"
    few = ["--steps", "4000", "--phrase-swaps", "0", "--beam-size", "4"]
    assert run_command(lambda: main(["--data", str(SAMPLE), "--run", str(run), *few])) == 0
    scores = scores_of(run)
    assert scores["well_formed"] == 1
    assert scores["evalb"]["all"]["valid"] == scores["sentences"] == 273
    assert scores["evalb"]["all"]["f1"] >= 45
    assert scores["evalb"]["all"]["f1"] >= scores["repair"]["evalb"]["all"]["f1"]
