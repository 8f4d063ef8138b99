"""The small run that translates digits learns a domain, in which two is "zwo", not "zwei"."""

import json
import pathlib
import signal

import pytest
import sacrebleu

from keras_transformer import RunDirectory, Translator
from keras_transformer.files import write_json
from keras_transformer.toolkit.cli import main as keras_transformer
from keras_transformer.toolkit.cli import run_command
from keras_transformer.training.translation import training_start
from recipes.adapt import train
from recipes.adapt.adapt_options import adapt_options, adaptation_texts
from recipes.adapt.settings import AdaptSettings
from tests.evaluation.cost.recorded_runs import write_run
from tests.training.equal_runs import rows
from tests.training.small_training import At, interrupt
from tests.translation_training.number_text import flags, pairs
from tests.written_files import one_line

pytestmark = pytest.mark.tensorflow

# The recipe's learning rate is for large models and thousands of updates.
SETTINGS = {
    "steps": 120,
    "warmup_steps": 40,
    "learning_rate_scale": 0.15,
    "batch_tokens": 1024,
    "save_every": 40,
    "log_every": 1,
    "bleu_every": 0,
    "held_out": 50,
    "tensorboard": False,
    "probe": False,
}


def write(folder, name, lines):
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Flags of the domain's text, and of general text: part of what the run was trained on.

    A sentence of the domain begins with "five five", so a model can tell the two apart.
    """
    folder = tmp_path_factory.mktemp("texts")
    domain, general = [], []
    for english, german in zip(*pairs(5), strict=True):
        if english.startswith("five five"):
            domain.append((english, german.replace("zwei", "zwo")))
    for english, german in zip(*pairs(4), strict=True):
        if not english.startswith("five five"):
            general.append((english, german))
    parts = {"": domain[::2], "dev-": domain[1::2], "general-": general}
    given = {}
    for part, some in parts.items():
        for side, lines in zip(("source", "target"), zip(*some, strict=True), strict=True):
            given[f"{part}{side}"] = write(folder, f"{part}{side}.txt", lines)
    return given


def call(origin, texts, run, *arguments, **settings):
    """Run the recipe; `texts` are flags and files."""
    given = [part for name, path in texts.items() for part in (f"--{name}", path)]
    given += ["--from", str(origin), "--run", str(run), *flags(**{**SETTINGS, **settings})]
    return run_command(lambda: train.main([*given, *arguments]))


def adaptation(run):
    """BLEU before and after, by the name of the text."""
    scores = json.loads((run / "scores.json").read_text())
    return {row["name"]: (row["before"], row["after"]) for row in scores["adaptation"]}


@pytest.fixture(scope="module")
def adapted(trained_run, texts, tmp_path_factory):
    """A run that was adapted with general text."""
    run = tmp_path_factory.mktemp("adapted") / "run"
    assert call(trained_run, texts, run) == 0
    return run


def test_the_domain_is_learned_and_general_text_is_kept(adapted):
    (before, after), (general_before, general_after) = adaptation(adapted).values()
    assert before < 60 < 90 < after
    assert general_before > 95
    assert general_after > 90
    found = Translator.load(adapted).translate(["five five two one two", "one two one two"])
    assert found == ["fünf fünf zwo eins zwo", "eins zwei eins zwei"]


def test_the_scores_are_those_of_both_models(adapted, trained_run, texts):
    texts_of = json.loads((adapted / "scores.json").read_text())["adaptation"]
    domain, general = texts_of
    assert [(row["name"], row["sentences"]) for row in texts_of] == [
        ("domain", 62), ("general", 50)
    ]  # fmt: skip
    assert general["text"] == "pairs held out of general-source.txt"
    sources, references = (
        pathlib.Path(texts[f"dev-{side}"]).read_text("utf-8").splitlines()
        for side in ("source", "target")
    )
    for model, key in ((trained_run, "before"), (adapted, "after")):
        found = Translator.load(model).translate(sources)
        assert domain[key] == pytest.approx(sacrebleu.corpus_bleu(found, [references]).score)


def test_the_share_of_general_text_is_kept(trained_run, texts, tmp_path):
    given = [part for name, path in texts.items() for part in (f"--{name}", path)]
    given += ["--from", str(trained_run), "--run", str(tmp_path / "run")]
    for share in (0.2, 0.5, 0.75):
        options, values = adapt_options("", [*given, "--general-share", str(share)])
        data, general = adaptation_texts(values, options.settings)
        numbers = [
            weight * len(list(text)) for text, weight in zip(data.train, data.weights, strict=True)
        ]
        assert numbers[0] == 63
        assert numbers[1] / sum(numbers) == pytest.approx(share)
        assert general.num_pairs == 20  # `held_out` of the run to adapt
        assert not {*general} & {*data.train[1]}


def test_what_is_not_given_is_the_models_or_the_recipes(tmp_path):
    origin = tmp_path / "origin"
    write_run(origin, metrics=False)
    earlier = {"optimizer": "muon", "steps": 9, "learning_rate_scale": 3.0, "lora_rank": None}
    write_json(origin / "settings.json", earlier | {"hidden_dim": 32, "max_ratio": 7.0})
    texts = ["--source", "a", "--target", "b"]

    def read(*arguments):
        given = ["--from", str(origin), "--run", str(tmp_path / "run"), *texts, *arguments]
        return adapt_options("", given)[0].settings

    settings = read()
    assert (settings.hidden_dim, settings.max_ratio) == (32, 7.0)
    own = AdaptSettings()
    for name in ("optimizer", "steps", "learning_rate_scale", "average_of"):
        assert getattr(settings, name) == getattr(own, name)
    assert read("--lora-rank", "8").learning_rate_scale == 10 * own.learning_rate_scale
    (tmp_path / "some.toml").write_text("learning_rate_scale = 0.5")
    given = ["--settings", str(tmp_path / "some.toml"), "--lora-rank", "8", "--steps", "7"]
    assert (read(*given).learning_rate_scale, read(*given).steps) == (0.5, 7)


def test_bad_input_ends_in_one_line(trained_run, texts, tmp_path, capsys):
    run = tmp_path / "run"

    def refused(says, texts=texts, *arguments, origin=trained_run):
        assert call(origin, texts, run, *arguments) == 2
        assert says in one_line(capsys)
        assert not run.exists()

    domain = {name: path for name, path in texts.items() if "general" not in name}
    refused("There is no run directory", origin=tmp_path / "none")
    refused(
        "--general-share needs --general-source and --general-target",
        domain, "--general-share", "0.3",
    )  # fmt: skip
    refused("`general_share` must be less than 1", texts, "--general-share", "1")
    refused(
        "Pass both --general-test-source and --general-test-target, or neither",
        {**texts, "general-test-source": texts["general-source"]},
    )
    refused("has 63", {**texts, "target": texts["dev-target"]})
    few = {f"general-{side}": write(tmp_path, side, ["eins"] * 9) for side in ("source", "target")}
    refused("too few to hold out some", {**texts, **few})
    given = [part for name, path in domain.items() for part in (f"--{name}", path)]
    assert run_command(lambda: train.main(given)) == 2
    assert "Pass --from RUN" in capsys.readouterr().err


@pytest.mark.slow
def test_without_general_text_more_is_forgotten(adapted, trained_run, texts, tmp_path):
    given = {name: path for name, path in texts.items() if "general" not in name}
    general = {f"general-test-{side}": texts[f"general-{side}"] for side in ("source", "target")}
    run = tmp_path / "run"
    assert call(trained_run, given | general, run) == 0
    (_, after), (before, general_after) = adaptation(run).values()
    assert after > 90
    assert general_after < 80 < before
    assert general_after < adaptation(adapted)["general"][1]


@pytest.mark.slow
def test_adapters_alone_learn_too_and_are_exported(trained_run, texts, tmp_path, monkeypatch):
    run, lora = tmp_path / "run", {"lora_rank": 8, "learning_rate_scale": 1, "steps": 240}
    with monkeypatch.context() as patch:
        patch.setattr(training_start, "bleu_validators", lambda *arguments: [At(100, interrupt)])
        assert call(trained_run, texts, run, **lora) == 128 + signal.SIGINT
    assert not (run / "scores.json").exists()
    assert call(trained_run, texts, run, "--resume", **lora) == 0
    assert [int(row["step"]) for row in rows(run / "metrics.csv")] == list(range(1, 241))
    (before, after), (_, general) = adaptation(run).values()
    assert after > before + 20
    assert general > 90
    last = RunDirectory(run).checkpoints.last()[-1]
    assert last.stat().st_size < (run / "model.weights.h5").stat().st_size
    exported = tmp_path / "exported"
    assert keras_transformer(["export", "ctranslate2", str(run), str(exported)]) == 0
    assert (exported / "model.bin").is_file()
