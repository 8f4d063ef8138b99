"""`keras-transformer tune`: what it prints, what it writes into a run, and who takes it."""

import io
import json
import shutil
import sys
import types
from pathlib import Path

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.evaluation import bleu, chrf
from keras_transformer.formats.litert.reader import LiteRTTranslator
from keras_transformer.formats.saved_model.reader import SavedModelTranslator
from keras_transformer.inference.translator import Translator
from keras_transformer.runs.run_checkpoints import run_lock
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.search_options import SearchOptions
from keras_transformer.toolkit import cli
from keras_transformer.toolkit.cli.verbs import tune_command
from tests.cli.fake_translator import FakeTranslator
from tests.cli.refusals import refusal
from tests.runs.lock_holder import holder_of

pytestmark = pytest.mark.tensorflow

SOURCES = ["one two three four five", "five four three two one"]
REFERENCES = ["eins zwei drei vier fünf", "fünf vier drei zwei eins"]


class WordTranslator(FakeTranslator):
    """Translates right up to a number of words: one more for every 0.25 of alpha."""

    arguments = None  # of `load`
    loaded = types.MappingProxyType({})

    def __init__(self, **options):
        self.search_options = SearchOptions(**options)

    @classmethod
    def load(cls, runs, checkpoint, batch_size, engine, target_language=None, **options):
        cls.arguments = (runs, checkpoint, batch_size, target_language)
        return cls(**{**RunDirectory.open(runs[0]).search_defaults(), **options})

    def with_search(self, **options):
        return WordTranslator(**options)

    def translate_with_alphas(self, sentences, alphas, progress=False):
        bonus = self.search_options.beam_size - 4
        return [[words(int(alpha / 0.25) + bonus, text) for text in REFERENCES] for alpha in alphas]


def words(number, text):
    return " ".join([*text.split(), "zu", "viel"][:number])


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr("keras_transformer.inference.translator.Translator", WordTranslator)


@pytest.fixture
def run(trained_run, tmp_path):
    return RunDirectory.open(shutil.copytree(trained_run, tmp_path / "run"))


@pytest.fixture
def files(dev_set):
    return dev_set(SOURCES, REFERENCES)


@pytest.fixture
def tune(run, files, call):
    """Run the verb on the dev set; gives (exit code, stdout, stderr)."""

    def main(*arguments, path=run.path, files=files):
        return call("tune", path, *files, *arguments)

    return main


@pytest.mark.usefixtures("fake")
def test_the_best_alpha_is_shown_and_written(tune, run, tmp_path):
    own = run.search_defaults()
    code, out, err = tune("--alphas", "0.75:1.5:0.25")
    assert (code, err) == (0, "")
    signature = bleu(REFERENCES, REFERENCES)[1]
    three, two = (bleu([words(n, text) for text in REFERENCES], REFERENCES)[0] for n in (3, 2))
    assert out.splitlines() == [
        f"{tmp_path / 'dev.en'} -> {tmp_path / 'dev.de'}: 2 sentences, BLEU {signature}",
        "   alpha    BLEU  length ratio",
        f"    0.75   {three:5.2f}         0.600",
        "       1   77.88         0.800",  # exp(1 - 10 / 8)
        "*   1.25  100.00         1.000",
        f"     1.5  {bleu([words(6, text) for text in REFERENCES], REFERENCES)[0]:6.2f}"
        "         1.200",
        f"before: alpha 0.6, beam size 4, extra length 50: BLEU {two:.2f}, length ratio 0.400",
        "chosen: alpha 1.25, beam size 4, extra length 50: BLEU 100.00, length ratio 1.000",
        f"Written to {run.record_path}: all verbs and exports use this search unless a flag "
        f"overrides it. To undo it: keras-transformer tune {run.path} --reset",
    ]
    assert run.search_defaults() == {**own, "alpha": 1.25, "beam_size": 4, "extra_length": 50}
    assert run.checksums.check_files() > 0


@pytest.mark.usefixtures("fake")
def test_a_dry_run_writes_nothing_but_the_scores(tune, run, tmp_path):
    before = run.record_path.read_bytes()
    flags = ["--alphas=0.5,1", "--beam-sizes=4,5", "--extra-lengths=9", "--metric=chrf"]
    code, out, _ = tune("--dry-run", *flags, f"--json={tmp_path / 'scores.json'}")
    assert code == 0
    assert run.record_path.read_bytes() == before
    lines = out.splitlines()
    assert lines[1].split() == ["alpha", "beam", "extra", "chrF", "length", "ratio"]
    assert lines[5].split() == ["*", "1", "5", "9", "100.00", "1.000"]
    assert lines[-1] == f"{run.record_path} was not changed."
    record = json.loads((tmp_path / "scores.json").read_text("utf-8"))
    assert [(one["alpha"], one["beam_size"]) for one in record["results"]] == [
        (0.5, 4), (1.0, 4), (0.5, 5), (1.0, 5)
    ]  # fmt: skip
    assert record["best"] == {
        "alpha": 1.0, "beam_size": 5, "extra_length": 9,
        "score": pytest.approx(100), "length_ratio": 1.0,
    }  # fmt: skip
    assert (record["written"], record["run"], record["metric"]) == (False, str(run.path), "chrf")
    assert record["signature"] == chrf(REFERENCES, REFERENCES)[1]


@pytest.mark.usefixtures("fake")
def test_a_reset_brings_back_the_search_of_before(tune, run):
    own = run.search_defaults()
    before = json.loads(run.record_path.read_text("utf-8"))
    assert tune("--alphas=1.25")[0] == 0
    assert tune("--alphas=1,1.5", "--beam-sizes=6")[0] == 0
    assert run.search_defaults() == {**own, "alpha": 1.0, "beam_size": 6, "extra_length": 50}
    code, out, err = tune("--reset", files=[])
    assert (code, err) == (0, "")
    expected = "has its earlier search options again: alpha 0.6, beam size 4, extra length 50."
    assert out == f"{run.record_path} {expected}\n"
    assert json.loads(run.record_path.read_text("utf-8")) == before
    code, out, _ = tune("--reset", files=[])
    assert (code, out) == (
        0, f"The search of {run.path} has not been tuned: nothing to undo.\n"
    )  # fmt: skip


@pytest.mark.usefixtures("fake")
def test_the_flags_of_the_model_reach_it(tune, run):
    flags = ["--checkpoint=best", "--batch-size=7", "--target-language=deu"]
    assert tune("--dry-run", *flags)[0] == 0
    assert WordTranslator.arguments == ([str(run.path)], ["best"], 7, "deu")


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--alphas=0:2"], "argument --alphas: must be FIRST:LAST:STEP or comma-separated numbers"),
        (["--alphas=0:2:0"], "Received: '0:2:0'"),
        (["--alphas=2:0:0.1"], "Received: '2:0:0.1'"),
        (["--alphas=0:2:1e-9"], "at most 500"),
        (["--alphas=0:1e999999999999999999:1e-99999999999999"], "at most 500"),
        (["--alphas=0:9:nan"], "Received: '0:9:nan'"),
        (["--alphas=0.6,,1"], "Received: '0.6,,1'"),
        (["--alphas=inf"], "Received: 'inf'"),
        (["--alphas=-1"], "Received: '-1'"),
        (["--alphas=10"], "from 0 and below 10. Received: '10'"),
        (["--alphas=much"], "Received: 'much'"),
        (["--beam-sizes=4,0"], "--beam-sizes: must be comma-separated positive integers. Received"),
        (["--beam-sizes=10001"], "`beam_size` must be at most 10,000"),
        (["--extra-lengths="], "--extra-lengths: must be comma-separated positive integers"),
        (["--tokenize=moses"], "`tokenize` must be one of none, zh, 13a"),
        (["--metric=meteor"], "argument --metric: invalid choice: 'meteor'"),
        (["another_run"], "unrecognized arguments: another_run"),
        (["--json={tmp}"], "`--json` must be a file"),
        (["--reset", "--dry-run"], "argument --dry-run: not allowed with argument --reset"),
        (["--reset"], "`--source` cannot be combined with `--reset`"),
    ],
)
def test_what_cannot_work_is_one_line(tune, run, tmp_path, arguments, complaint):
    before = run.record_path.read_bytes()
    said = refusal(tune(*(argument.format(tmp=tmp_path) for argument in arguments)))
    assert complaint in said
    assert run.record_path.read_bytes() == before


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("dev.en", "", "dev.en is empty"),
        ("dev.de", "eins\n", "dev.de has 1"),
        ("dev.de", None, "dev.de"),
        ("dev.en", "one\nLONG\n", "Line 2 of {folder}/dev.en is too long"),
    ],
)
def test_a_dev_set_that_cannot_work_is_one_line(tune, tmp_path, name, text, complaint):
    (tmp_path / name).unlink()
    if text is not None:
        (tmp_path / name).write_text(text)
    assert complaint.format(folder=tmp_path) in refusal(tune())


@pytest.mark.parametrize(
    "argument",
    [
        "--source=dev.en",
        "--reference=dev.de",
        "--metric=chrf",
        "--tokenize=none",
        "--alphas=0.6",
        "--beam-sizes=2",
        "--extra-lengths=9",
        "--checkpoint=best",
        "--target-language=deu",
        "--batch-size=8",
        "--max-source-length=9",
        "--json=scores.json",
    ],
)
def test_a_reset_measures_nothing(argument):
    def check(*arguments):
        tune_command.check_flags(cli.make_parser().parse_args(["tune", "run", *arguments]))

    check("--reset")
    flag = argument.partition("=")[0]
    with pytest.raises(UserInputError, match=f"`{flag}` cannot be combined with `--reset`, which"):
        check("--reset", argument)
    check("--source=dev.en", "--reference=dev.de", "--dry-run", argument)


def test_runs_that_cannot_be_tuned_are_one_line(tune, run, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "is not a run" in refusal(tune(path=tmp_path / "empty"))
    assert "There is no run directory" in refusal(tune(path=tmp_path / "missing"))
    content = json.loads(run.record_path.read_text("utf-8"))
    for change, complaint in (
        ({"output": "trees"}, "are trees, not text"),
        ({"search": {"alpha": "rm -rf"}}, "is damaged: `alpha` must be a number"),
        ({"search": {"no_such": 1}}, "run.json is damaged"),
        ({"format_version": 99}, "format version 99"),
    ):
        run.checksums.write_json(run.record_path, {**content, **change})
        assert complaint in refusal(tune())
    expected = "error: `--source` and `--reference` must be given, or `--reset`.\n"
    assert refusal(tune(files=[])) == expected


@pytest.mark.usefixtures("fake")
def test_a_run_in_training_is_left_alone(tune, run):
    with holder_of(run.path) as holder:
        before, own = run.record_path.read_bytes(), run.search_defaults()
        for arguments in ([], ["--reset"]):
            said = refusal(tune(*arguments, **({"files": []} if arguments else {})))
            assert f"in use by a training run: process {holder.pid} on" in said
        assert tune("--dry-run")[0] == 0
        assert run.record_path.read_bytes() == before
    with run_lock(run.path):
        run.write_search_defaults({"alpha": 1.0})  # as a training does, which holds the lock
    assert run.search_defaults() == {**own, "alpha": 1.0}


@pytest.mark.slow
def test_every_verb_and_export_takes_it(tune, run, files, tmp_path, printed, monkeypatch):
    sentences = ["one two three", "nothing that it has seen", "five fifty-five"]
    source = "".join(f"{line}\n" for line in sentences).encode()

    def translate(*flags):
        stdin = types.SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(source)))
        monkeypatch.setattr(sys, "stdin", stdin)
        return printed("translate", run.path, *flags).splitlines()

    code, out, _ = tune("--alphas=9.5", "--beam-sizes=3")
    assert code == 0
    assert "chosen: alpha 9.5, beam size 3" in out
    expected = Translator.load(run.path, beam_size=3, alpha=9.5).translate(sentences)
    assert expected != Translator.load(run.path, beam_size=4, alpha=0.6).translate(sentences)
    assert translate() == translate("--engine=litert") == expected
    card = json.loads(printed("evaluate", run.path, *files, "--json"))
    assert (card["alpha"], card["beam_size"]) == (9.5, 3)
    path = Path(printed("export", "saved-model", run.path, tmp_path / "digits").strip())
    assert SavedModelTranslator(path).translate(sentences) == expected
    card = json.loads((path / "model_card.json").read_text("utf-8"))
    assert (card["options"]["alpha"], card["options"]["beam_size"]) == (9.5, 3)
    printed("export", "litert", run.path, tmp_path / "litert")
    assert LiteRTTranslator(tmp_path / "litert").translate(sentences) == expected
    preset = Translator.load(run.path).save_to_preset(tmp_path / "preset")
    assert RunDirectory.open(preset).search_defaults()["alpha"] == 9.5


@pytest.mark.slow
def test_the_scores_are_those_of_evaluate(tune, run, files, printed):
    code, out, _ = tune("--alphas=0,0.6,2")
    assert code == 0
    chosen = next(line for line in out.splitlines() if line.startswith("*")).split()
    card = json.loads(printed("evaluate", run.path, *files, "--json"))
    scores = card["systems"]["averaged"]
    assert chosen[2:] == [f"{scores['bleu']:.2f}", f"{scores['length_ratio']:.3f}"]
