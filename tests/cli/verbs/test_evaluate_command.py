"""`keras-transformer evaluate` on a small run, from files to the scorecard."""

import contextlib
import dataclasses
import gzip
import io
import json
import os
import pathlib
import shutil
import sys
import threading
from types import MappingProxyType

import numpy as np
import pytest

from keras_transformer.evaluation import bleu, paired_bootstrap, system_scores
from keras_transformer.evaluation.scores import METRICS
from keras_transformer.files import MissingStream
from keras_transformer.formats.litert.reader import LiteRTTranslator
from keras_transformer.formats.litert.writer import export_litert
from keras_transformer.inference.translator import Translator
from keras_transformer.models import build_transformer
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.search_options import SearchOptions
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.toolkit import cli
from tests.cli.fake_translator import FakeTranslator
from tests.cli.refusals import refusal

SOURCES = ["a small house by the sea", "the tree", "", "a house"]
REFERENCES = ["ein kleines Haus am Meer", "der Baum", "nichts", "ein Haus"]
SCORES = {
    *METRICS, *(f"{name}_signature" for name in METRICS), "tokenized_compound_split_bleu",
    "length_ratio", "brevity_penalty", "perplexity", "search",
    "path",
}  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train(SOURCES + REFERENCES, vocabulary_size=48)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with test.en, test.de.gz and translations of another system."""
    folder = tmp_path_factory.mktemp("text")
    (folder / "test.en").write_text("\n".join(SOURCES) + "\n", encoding="utf-8")
    with gzip.open(folder / "test.de.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(REFERENCES) + "\n")
    (folder / "other.de").write_text("ein kleines Haus am See\nder\n\nein Haus\n", encoding="utf-8")
    (folder / "short.de").write_text("eins\nzwei\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory, tokenizer):
    """A run with two checkpoints of random weights, whose final weights give equal logits."""
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1, "hidden_dim": 8}
    sizes |= {"intermediate_dim": 16, "num_heads": 2}
    model = build_transformer("tiny", vocabulary_size=tokenizer.vocabulary_size, **sizes)
    run = RunDirectory.create(tmp_path_factory.mktemp("runs") / "first")
    run.start(model=model, tokenizer=tokenizer, target_language="de-AT", settings={})
    generator = np.random.default_rng(0)
    for step in (9, 10):
        model.set_weights([generator.normal(0, 1, w.shape) for w in model.get_weights()])
        model.save_weights(run.checkpoints.path_of(step))
    model.set_weights([np.zeros_like(w) for w in model.get_weights()])
    model.save_weights(run.weights_path)
    return run


@pytest.fixture
def evaluate(files, run, call):
    """Run the verb on the test set; gives (exit code, stdout, stderr)."""

    def main(*arguments, path=run.path, reference="test.de.gz"):
        test_set = [f"--source={files / 'test.en'}", f"--reference={files / reference}"]
        return call("evaluate", path, *test_set, "--beam-size=2", *arguments)

    return main


@pytest.fixture
def copied_run(tmp_path, run):
    """A function that copies the run without the files named."""

    def copy(*without):
        path = shutil.copytree(run.path, tmp_path / "copy")
        for name in without:
            for file in path.glob(name):
                file.unlink()
        return RunDirectory.open(path)

    return copy


class KnownTranslator(FakeTranslator):
    """Gives the texts that are set for its file of weights, and known scores."""

    texts = None  # name of the weights -> translations
    options = None  # keyword arguments of the last `load`
    loaded = MappingProxyType({})

    def __init__(self, path):
        self.path, self.name = path, path.name
        self.tokenizer = self
        self.models = [self]
        self.search_options = SearchOptions()

    @classmethod
    def load(cls, run, checkpoint, **options):
        cls.options = options
        loaded = cls(checkpoint)
        names = {field.name for field in dataclasses.fields(SearchOptions)}
        given = {name: value for name, value in options.items() if name in names}
        loaded.search_options = SearchOptions(**{**RunDirectory(run).search_defaults(), **given})
        return loaded

    def translate(self, sentences, progress=False):
        return self.texts[self.name]

    def get_weights(self):
        return [np.frombuffer(self.path.read_bytes(), "uint8")]

    def score(self, sources, targets, progress=False):
        return [-2.0, -1.0, -3.0, 0.0]

    def encode(self, sentences):
        return [[5, 6], [7], [], [8]]


@pytest.fixture
def known(monkeypatch):
    """The dict `KnownTranslator.texts`, with the translator in the place of the real one."""
    monkeypatch.setattr("keras_transformer.inference.translator.Translator", KnownTranslator)
    texts = {"step-00000010.weights.h5": REFERENCES, "model.weights.h5": [""] * 4}
    monkeypatch.setattr(KnownTranslator, "texts", texts)
    return texts


@pytest.fixture(scope="module")
def translated(run, files, tmp_path_factory):
    """The scorecard of the run as translated by itself, and the lines that were written."""
    output = tmp_path_factory.mktemp("output") / "averaged.de"
    flags = [f"--source={files / 'test.en'}", f"--reference={files / 'test.de.gz'}"]
    flags += ["--beam-size=1", "--tokenize=none", "--json", f"--output={output}"]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert cli.main(["evaluate", str(run.path), *flags]) == 0
    return json.loads(out.getvalue()), output.read_text("utf-8").split("\n")


def test_json_holds_the_scores_of_the_translations_written(translated, run, files):
    card, lines = translated
    assert card["sentences"] == 4
    assert card["source"] == str(files / "test.en")
    assert card["reference"] == str(files / "test.de.gz")
    assert card["versions"]["sacremoses"]
    assert "paired_bootstrap" not in card
    assert set(card["systems"]) == {"single", "averaged"}
    for name, weights in {
        "single": run.checkpoints.path_of(10),
        "averaged": run.weights_path,
    }.items():
        translations = Translator.load(run.path, weights, beam_size=1).translate(SOURCES)
        scores = card["systems"][name]
        expected = system_scores(translations, REFERENCES, tokenize="none", language="de")
        assert set(scores) == SCORES
        assert scores.items() >= expected.items()
        assert scores["path"] == str(weights)
    assert lines == [*translations, ""]


@pytest.mark.slow
def test_int8_is_scored_as_well(run, files, capsys, tmp_path):
    flags = [f"--source={files / 'test.en'}", f"--reference={files / 'test.de.gz'}", "--int8"]
    flags += ["--beam-size=1", "--against", str(files / "other.de"), "--json"]
    assert cli.main(["evaluate", str(run.path), *flags]) == 0
    card = json.loads(capsys.readouterr().out)
    assert list(card["systems"]) == ["single", "averaged", "against", "int8"]
    scores = card["systems"]["int8"]
    assert (scores["path"], scores["perplexity"]) == (str(run.weights_path), None)
    assert list(card["paired_bootstrap"]) == ["single", "averaged", "int8"]
    translator = Translator.load(run.path, beam_size=1)
    path = export_litert(translator, tmp_path / "litert", precision="int8")
    expected = system_scores(LiteRTTranslator(path).translate(SOURCES), REFERENCES, language="de")
    assert scores.items() >= expected.items()


def test_perplexity_of_equal_logits_is_the_size_of_the_vocabulary(translated, tokenizer):
    scores = translated[0]["systems"]
    assert scores["averaged"]["perplexity"] == pytest.approx(tokenizer.vocabulary_size, rel=1e-5)


def test_perplexity_counts_the_end_of_each_sentence(evaluate, known):
    _, out, _ = evaluate("--json", "--alpha=1", "--extra-length=9", "--batch-size=7")
    # 6 nats on 4 tokens and 4 ends.
    perplexity = json.loads(out)["systems"]["averaged"]["perplexity"]
    assert perplexity == pytest.approx(np.exp(6 / 8))
    assert KnownTranslator.options == {
        "beam_size": 2,
        "alpha": 1.0,
        "extra_length": 9,
        "batch_size": 7,
        "target_language": None,
        "engine": "own",
    }


def test_perplexity_of_a_training_that_has_diverged_is_infinite(evaluate, known, monkeypatch):
    monkeypatch.setattr(KnownTranslator, "score", lambda *_, **__: [-2000.0] * 4)  # 1,000 a token
    code, out, _ = evaluate("--json")
    assert (code, json.loads(out)["systems"]["averaged"]["perplexity"]) == (0, None)
    assert " inf " in evaluate()[1]


def test_the_best_checkpoint_goes_before_the_last(evaluate, copied_run, known):
    run = copied_run()
    run.checkpoints.best_path.write_bytes(run.checkpoints.path_of(9).read_bytes())
    known["best.weights.h5"] = REFERENCES
    _, out, _ = evaluate("--json", path=run.path)
    systems = json.loads(out)["systems"]
    assert systems["single"]["path"] == str(run.checkpoints.best_path)
    assert systems["single"]["bleu"] == pytest.approx(100)
    assert systems["averaged"]["bleu"] == 0


def test_a_bleu_of_0_of_short_translations_is_explained(evaluate, known):
    known["model.weights.h5"] = ["ein Haus", "der Baum", "nichts", "ein Haus"]
    _, _, err = evaluate()
    assert "BLEU is 0 if no translation has four tokens in a row of its reference\n" in err


def test_equal_weights_are_scored_once(evaluate, copied_run, known, monkeypatch):
    run = copied_run()
    run.checkpoints.best_path.write_bytes(run.weights_path.read_bytes())
    known["best.weights.h5"] = REFERENCES
    translate, calls = KnownTranslator.translate, []
    monkeypatch.setattr(
        KnownTranslator,
        "translate",
        lambda self, *lists, **options: calls.append(self.name) or translate(self, *lists),
    )
    code, out, _ = evaluate("--json", path=run.path)
    assert (code, calls) == (0, ["best.weights.h5"])
    single, averaged = json.loads(out)["systems"].values()
    assert single["bleu"] == pytest.approx(100)
    assert averaged == {**single, "path": str(run.weights_path), "same_weights_as": "single"}
    _, out, _ = evaluate(path=run.path)
    assert "\naveraged (= single)  " in out


def test_a_table_names_systems_scores_and_signatures(evaluate, known):
    code, out, err = evaluate("--tokenize=none")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].endswith("test.de.gz: 4 sentences, beam 2, alpha 0.6")
    single, averaged = ([*line.split()] for line in lines if line[:3] in ("sin", "ave"))
    of_single = ["single", "100.00", "100.00", "0.00", "100.00", "1.000", "1.000", "2.117"]
    assert single[:8] == of_single
    assert averaged[:7] == ["averaged", "0.00", "0.00", "100.00", "0.00", "0.000", "0.000"]
    assert single[8].endswith("step-00000010.weights.h5")
    assert f"BLEU       {bleu(REFERENCES, REFERENCES, 'none')[1]}" in lines
    assert any(line.startswith("tok. BLEU  tokens as given, compounds split") for line in lines)
    assert "bootstrap" not in out
    assert [line.split(":")[0] for line in err.splitlines()] == ["single", "averaged"]


def test_against_a_file_of_translations(evaluate, files, known):
    other = files / "other.de"
    code, out, _ = evaluate("--json", f"--against={other}")
    assert code == 0
    card = json.loads(out)
    translations = other.read_text("utf-8").splitlines()
    against = card["systems"]["against"]
    assert against["bleu"] == bleu(translations, REFERENCES)[0]
    assert against["perplexity"] is None
    assert against["path"] == str(other)
    assert card["paired_bootstrap"] == {
        "single": paired_bootstrap(REFERENCES, translations, REFERENCES),
        "averaged": paired_bootstrap([""] * 4, translations, REFERENCES),
    }
    code, out, _ = evaluate(f"--against={other}")
    assert f"Paired bootstrap against {other}, 1,000 samples" in out
    rows = [line.split() for line in out.splitlines() if " ± " in line]
    assert [row[:2] for row in rows] == [
        [system, score] for system in ("single", "averaged") for score in ("BLEU", "chrF", "TER")
    ]
    for row, system in ((rows[0], "single"), (rows[3], "averaged")):
        found = card["paired_bootstrap"][system]["bleu"]
        own = ["{mean:.2f}", "±", "{confidence_interval:.2f}"]
        other = ["{baseline_mean:.2f}", "±", "{baseline_confidence_interval:.2f}"]
        assert row[2:] == [cell.format(**found) for cell in (*own, *other, "{p_value:.4f}")]


def test_against_another_run_translates_with_its_final_weights(evaluate, copied_run, known):
    other = copied_run()
    code, out, _ = evaluate("--json", f"--against={other.path}")
    assert code == 0
    card = json.loads(out)
    assert card["systems"]["against"]["path"] == str(other.weights_path)
    assert card["systems"]["against"]["perplexity"] == pytest.approx(np.exp(6 / 8))
    assert card["systems"]["against"]["search"] == card["systems"]["averaged"]["search"]
    # The same translations as those of the run's own final weights.
    assert card["paired_bootstrap"]["averaged"]["bleu"]["p_value"] == 1.0
    other.write_search_defaults({"alpha": 1.3})
    code, out, _ = evaluate(f"--against={other.path}")
    assert code == 0
    assert "\nagainst searches with beam size 2, alpha 1.3\n" in out
    other.write_search_defaults({"no_repeat_ngram": 3})
    _, out, _ = evaluate(f"--against={other.path}")
    assert "\nagainst searches with beam size 2, alpha 1.3, no repeat ngram 3\n" in out


def test_a_run_without_final_weights_is_scored_with_what_there_is(
    evaluate, copied_run, known, tmp_path
):
    run = copied_run("model.weights.h5")
    known["step-00000010.weights.h5"] = ["a\nb", "größer", "", "c"]
    output = tmp_path / "out"
    code, out, err = evaluate("--json", f"--output={output}", path=run.path)
    assert code == 0
    assert set(json.loads(out)["systems"]) == {"single"}
    assert "no system `averaged`" in err
    assert f"{output} contains the translations of `single`" in err
    assert output.read_bytes() == "a b\ngrößer\n\nc\n".encode()


def test_a_run_without_checkpoints_is_scored_with_what_there_is(evaluate, copied_run, known):
    run = copied_run("checkpoints/*")
    known["model.weights.h5"] = REFERENCES
    code, out, err = evaluate("--json", path=run.path)
    assert code == 0
    assert set(json.loads(out)["systems"]) == {"averaged"}
    assert "no system `single`" in err


def test_a_run_without_any_weights_is_refused(evaluate, copied_run):
    run = copied_run("checkpoints/*", "model.weights.h5")
    expected = f"error: The run {run.path} contains no weights yet.\n"
    assert refusal(evaluate(path=run.path)) == expected


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"reference": "short.de"}, "must have the same number of lines"),
        ({"reference": "missing.de"}, "missing.de"),
        ({"path": "nowhere"}, "There is no run directory nowhere."),
        (["--tokenize=moses"], "`tokenize` must be one of none, zh, 13a"),
        (["--language=german"], "Received: language='german'"),
        (["--against=missing.de"], "Cannot read missing.de"),
        (["--against={files}/short.de"], "short.de has 2"),
        (["--against={files}"], "is not a run of keras_transformer"),
        (["--output={files}"], "`--output` must be a file. Received: "),
        (["--output="], "`--output` must be a file. Received: ''"),
        (["--output={files}/new/out"], "`--output` must be in an existing folder. Received: "),
    ],
)
def test_what_cannot_work_is_one_line_before_anything_is_translated(
    evaluate, files, known, arguments, complaint
):
    keywords = arguments if isinstance(arguments, dict) else {}
    flags = [] if keywords else [argument.format(files=files) for argument in arguments]
    assert complaint in refusal(evaluate(*flags, **keywords))


def test_a_line_that_is_too_long_is_named_before_anything_is_translated(
    evaluate, files, known, monkeypatch
):
    monkeypatch.setattr(KnownTranslator, "translate", None)
    (files / "long.de").write_text("eins\nzwei\nLONG\nvier\n")
    code, out, err = evaluate(reference="long.de")
    assert (code, out) == (2, "")
    assert err.splitlines()[-1] == f"error: Line 3 of {files / 'long.de'} is too long"


def test_a_device_as_output_is_written_to(evaluate, known):
    assert evaluate("--output=/dev/null")[0] == 0
    assert pathlib.Path("/dev/null").is_char_device()
    code, _, err = evaluate("--output=/dev/full")
    assert code == 2
    assert err.splitlines()[-1] == "error: Cannot write /dev/full: No space left on device."


def test_the_sentences_of_a_pipe_are_read_once(evaluate, files, known, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[b"a\nb\nc\nd\n"])
    writer.start()
    code, out, _ = evaluate("--json", f"--against={tmp_path / 'pipe'}")
    writer.join()
    assert (code, json.loads(out)["sentences"]) == (0, 4)


def test_closed_standard_output_is_told_before_anything_is_translated(evaluate, known, monkeypatch):
    monkeypatch.setattr(sys, "stdout", MissingStream("Standard output"))
    monkeypatch.setattr(KnownTranslator, "load", None)
    code, _, err = evaluate()
    assert (code, err) == (2, "error: Standard output is closed.\n")
