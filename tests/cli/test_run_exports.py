"""`keras-transformer translate --engine`: the translator's strings, an export made once."""

import contextlib
import dataclasses
import json
import shutil
import sys

import numpy as np
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.files import checksum, file_lock
from keras_transformer.formats.format import Format, Reading
from keras_transformer.formats.litert.reader import LiteRTTranslator
from keras_transformer.inference.translator import Translator
from keras_transformer.installation import pip_install
from keras_transformer.runs.checksums import write_checksums
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.search_options import SearchOptions
from keras_transformer.text import Shortlist
from keras_transformer.toolkit import cli
from keras_transformer.toolkit.cli.named_models import NamedModels
from keras_transformer.toolkit.cli.run_exports import AUTO, ENGINES, OWN, LineOptions, RunExport
from tests.cli.fake_translator import FakeTranslator
from tests.cli.refusals import refusal
from tests.litert_exports import LIMITS, litert_export
from tests.python_programs import run_python

TEXT = "one two three four\n\nfive\n  \nthree three one\n"


@pytest.fixture
def run(trained_run, tmp_path):
    """A copy of a trained run, without exports."""
    return shutil.copytree(trained_run, tmp_path / "run")


@pytest.fixture
def translated(monkeypatch, capfd, tmp_path):
    """Translate `TEXT` by the command; gives (exit code, lines on stdout, lines on stderr)."""
    (tmp_path / "in.txt").write_text(TEXT)

    def translate(run, engine, *flags, text=None):
        path = tmp_path / "in.txt"
        if text is not None:
            path.write_text(text)
        with open(path) as stdin, contextlib.ExitStack() as stack:
            stack.callback(monkeypatch.undo)
            monkeypatch.setattr(sys, "stdin", stdin)
            code = cli.main(["translate", str(run), f"--engine={engine}", *flags])
        shown = capfd.readouterr()
        return code, shown.out.splitlines(), shown.err.splitlines()

    return translate


@pytest.fixture
def path(run):
    """The run's export for CTranslate2."""
    return run / "engines" / "ctranslate2-float32"


def made(path, reason, engine="ctranslate2"):
    """What is told of an export that is made."""
    return f"Creating {path} for `--engine {engine}`: it {reason}."


def times(directory):
    """When the files of a directory were changed."""
    return {path.name: path.stat().st_mtime_ns for path in directory.iterdir()}


def test_ctranslate2_says_what_the_translator_says_from_one_export(run, path, translated):
    code, lines, told = translated(run, "ctranslate2", "--beam-size=1")
    assert (code, lines) == (0, Translator.load(run, beam_size=1).translate(TEXT.splitlines()))
    assert told == [made(path, "is missing")]
    before = times(path)
    assert translated(run, "ctranslate2", "--beam-size=4", "--alpha=0") == (0, lines, [])
    assert translated(run, "ctranslate2", "--n-best=2", "--tab-prefix", text="five\t4\n")[0] == 0
    assert times(path) == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.slow
@pytest.mark.tensorflow
def test_an_export_for_litert_is_of_one_search(trained_run, run, translated, monkeypatch, capfd):
    shared = litert_export(trained_run, "float32")
    monkeypatch.setattr(RunExport, "export", lambda self, path: shutil.copytree(shared, path))
    path = run / "engines" / "litert-float32"
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in LIMITS.items()]
    told = f"Creating {path} for `--engine litert`: it "
    expected = LiteRTTranslator(shared).translate(TEXT.splitlines())
    capfd.readouterr()  # LiteRT tells how it computes
    assert translated(run, "litert", *flags) == (0, expected, [told + "is missing."])
    before = times(path)
    assert translated(run, "litert", *flags, "--batch-size=2") == (0, expected, [])
    assert times(path) == before
    command = ["-m", "keras_transformer", "translate", run, "--engine=litert", *flags]
    alone = run_python(*command, input=TEXT)  # in a process's first call, LiteRT writes a log
    assert (alone.stdout.splitlines(), alone.stderr) == (expected, "")
    code, lines, (refusal,) = translated(run, "litert", *flags, text="one " * 100)
    assert (code, lines) == (2, [])
    assert "Line 1 of standard input has more than 40 tokens" in refusal
    assert refusal.endswith("(`--long-lines cut` drops its end)")
    code, _, lines = translated(run, "litert", *flags, "--beam-size=1")
    # The fake export is the same.
    assert lines[0] == told + "was made with different search options."
    code, _, lines = translated(run, "litert", *flags, "--beam-size=1", "--keep=auto")
    assert lines[0] == told + "was made without terms."


@pytest.mark.slow
@pytest.mark.tensorflow
def test_an_export_has_terms_if_the_command_needs_them(run, translated, tmp_path, capfd):
    path, text = run / "engines" / "litert-float32", "one two %s\n\nfive\n"
    (tmp_path / "terms.tsv").write_text("one\tzwei|drei drei\n")
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in LIMITS.items()]
    needed = [f"--glossary={tmp_path / 'terms.tsv'}", "--keep=auto"]
    translator = Translator.load(run, **LIMITS)
    expected = translator.translate(
        text.splitlines(), glossary={"one": ["zwei", "drei drei"]}, keep="auto"
    )
    code, lines, told = translated(run, "litert", *flags, *needed, text=text)
    assert (code, lines, told[:1]) == (0, expected, [made(path, "is missing", "litert")])
    before = times(path)
    expected = translator.translate(text.splitlines())
    assert translated(run, "litert", *flags, text=text)[:2] == (0, expected)
    assert times(path) == before
    code, lines, told = translated(run, "litert", *flags, "--markup=html", text="<p>one</p>")
    assert (code, lines) == (2, [])
    assert told[-1].startswith(f"error: {path} has no alignment head: train one with ")


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("engine", ["litert", "saved-model"])
def test_an_engine_with_a_shortlist_is_an_export_of_its_own(engine, run, translated):
    tokenizer, _ = RunDirectory.open(run).load_tokenizers()
    digits = tokenizer.encode(["1 2 3", "4"])
    shortlist = Shortlist([0], [], np.unique(np.concatenate(digits)), tokenizer)
    RunDirectory.open(run).write_shortlist(shortlist)
    flags = ["--beam-size=2", "--extra-length=8", "--max-source-length=40", "--shortlist"]
    expected = translated(run, "own", *flags)[1]
    assert set("".join(expected)) <= set("1234 onetwhrfuiv")
    code, lines, (told,) = translated(run, engine, *flags)
    assert (code, lines) == (0, expected)
    assert told.endswith("it is missing.")
    assert translated(run, engine, *flags)[2] == []
    code, lines, (told,) = translated(run, engine, *flags[:-1])
    assert (code, lines) == (0, translated(run, "own", *flags[:-1])[1])
    assert told.endswith("it was made with different search options.")
    assert lines != expected


@pytest.mark.tensorflow
def test_a_saved_model_says_what_the_translator_says(run, translated):
    path = run / "engines" / "saved-model-float32" / "1"
    flags = ["--beam-size=2", "--extra-length=8", "--max-source-length=40"]
    expected = Translator.load(run, beam_size=2, extra_length=8).translate(TEXT.splitlines())
    long = "one " * 100 + "\n"
    code, lines, (told, refusal) = translated(run, "saved-model", *flags, text=TEXT + long)
    assert (code, lines) == (2, expected)
    assert told == made(path, "is missing", "saved-model")
    assert "Line 6 of standard input has more than 40 tokens" in refusal
    flags += ["--batch-size=2", "--long-lines=cut"]
    code, lines, (cut,) = translated(run, "saved-model", *flags, text=long + TEXT)
    assert (code, lines[1:]) == (0, expected)
    assert "Line 1 of standard input has more than 40 tokens" in cut
    for flag in ("--n-best=2", "--target-language=deu", "--long-lines=split"):
        assert translated(run, "saved-model", flag)[0] == 2


def test_an_export_of_few_positions_is_opened_again(run, monkeypatch, capsys):
    reading, (place,) = Reading(SearchOptions()), (run / "engines" / "format-float32",)
    format = Format("format", "", "", runtime="format:at", reader="format:at", has_search=True)
    monkeypatch.setattr(Format, "check_runtime", lambda self: None)
    monkeypatch.setattr(Format, "open", lambda self, path, reading: path)
    options = {**dataclasses.asdict(reading.search), "max_source_length": 40}
    weights = [{"weights_sha256": checksum(RunDirectory(run).final_weights())}]

    def write(self, directory):
        directory.mkdir()
        card = {"precision": "", "models": weights, "options": options, "max_length": 40}
        (directory / "model_card.json").write_text(json.dumps(card))
        write_checksums(directory)

    monkeypatch.setattr(RunExport, "export", write)
    export = RunExport(format, NamedModels([run]), reading)
    assert (export.load(), export.load()) == (place, place)
    assert capsys.readouterr().err.count("\n") == 1
    options["max_source_length"] = 41
    (place / "model_card.json").unlink()
    export.load()
    assert "it is damaged" in capsys.readouterr().err
    export.load()
    assert "it was made with different search options" in capsys.readouterr().err


def test_engines_have_the_search_that_the_run_was_tuned_to(run):
    own = {"beam_size": 3, "alpha": 1.25, "extra_length": 8, "max_repeats": 5}
    RunDirectory(run).write_search_defaults(own)
    search = LineOptions(NamedModels([run]), {"no_repeat_ngram": 2}).full_search
    assert search == SearchOptions(**own, no_repeat_ngram=2)


def test_other_weights_and_damage_make_it_anew(run, path, translated):
    other = run / "checkpoints" / "step-00000080.weights.h5"
    of_other = translated(run, "ctranslate2", f"--checkpoint={other}")[1]
    code, lines, told = translated(run, "ctranslate2")
    assert told == [made(path, "was made from different weights")]
    assert (code, lines != of_other) == (0, True)
    for name in ("model.bin", "model_card.json", "SHA256SUMS", "tokenizer.model"):
        (path / name).unlink()
        told = [made(path, "is damaged")]
        assert translated(run, "ctranslate2") == (0, lines, told)
    (path / "model.bin").write_bytes(b"damaged")
    assert translated(run, "ctranslate2") == (0, lines, told)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_an_export_that_its_engine_refuses_is_made_anew(run, path, translated):
    """As one of a version of CTranslate2 to come."""
    code, lines, _ = translated(run, "ctranslate2")
    (path / "model.bin").write_bytes(b"\xff" * 99)
    write_checksums(path)
    told = [made(path, "cannot be opened")]
    assert translated(run, "ctranslate2") == (code, lines, told)
    assert translated(run, "ctranslate2") == (0, lines, [])


def test_a_good_export_stays_whatever_else_is_wrong(run, path, translated, monkeypatch):
    assert translated(run, "ctranslate2")[0] == 0
    before = times(path)
    code, _, (refusal,) = translated(run, "ctranslate2", "--target-language=deuu")
    assert (code, "`target_language` must be a code" in refusal) == (2, True)

    def fail(self, path):
        raise UserInputError("no room")

    monkeypatch.setattr(RunExport, "export", fail)
    other = run / "checkpoints" / "step-00000080.weights.h5"
    code, _, told = translated(run, "ctranslate2", f"--checkpoint={other}")
    assert (code, told[1:]) == (2, ["error: no room"])
    assert times(path) == before
    assert translated(run, "ctranslate2")[2] == []
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_what_a_runs_own_search_has_and_ctranslate2_lacks_is_left_out(run, translated, monkeypatch):
    module = "keras_transformer.toolkit.cli.run_exports.search_of"
    own = {"beam_size": 2, "renormalize": True, "ending": "transformers", "num_results": 2}
    own |= {"max_repeats": 8}
    monkeypatch.setattr(module, lambda given, run: own)
    assert translated(run, "ctranslate2")[0] == 0


def test_a_process_waits_for_one_that_makes_the_export(run, path, translated, monkeypatch):
    (run / "engines").mkdir()
    lock = run / "engines" / ".ctranslate2-float32.lock"
    with contextlib.ExitStack() as other:
        other.enter_context(file_lock(lock))
        waited = []

        def note(message):
            waited.append(message)
            other.close()

        monkeypatch.setattr("keras_transformer.toolkit.cli.run_exports.note", note)
        assert translated(run, "ctranslate2")[0] == 0
    assert waited[0] == f"Waiting for another process that uses {path}."
    assert waited[1:] == [made(path, "is missing")]


def test_nothing_is_written_through_links(run, translated, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (run / "engines").symlink_to(tmp_path / "elsewhere")
    code, _, told = translated(run, "ctranslate2")
    assert (code, len(told)) == (2, 1)
    assert "engines is a symbolic link" in told[0]
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    ("engine", "flags"),
    [
        ("ctranslate2", ["--glossary=terms.tsv"]),
        ("ctranslate2", ["--keep=auto"]),
        ("ctranslate2", ["--sample"]),
        ("ctranslate2", ["--length-penalty=power"]),
        ("ctranslate2", ["--ending=transformers"]),
        ("litert", ["--sample"]),
        ("litert", ["--n-best=1"]),
        ("litert", ["--tab-prefix"]),
        ("litert", ["--long-lines split"]),
    ],
)
def test_what_an_engine_lacks_is_one_line(command, engine, flags):
    said = refusal(command("translate", "run", f"--engine={engine}", *flags[0].split()))
    assert (
        said == f"error: `{flags[0].partition('=')[0]}` is not supported by `--engine {engine}`.\n"
    )
    assert FakeTranslator.calls == []
    assert ENGINES == (AUTO, OWN, "ctranslate2", "litert", "saved-model")


def test_an_ensemble_is_for_the_own_engine(command):
    for flags in (["one", "two"], ["one", "--checkpoint=a", "--checkpoint=b"]):
        assert refusal(command("translate", *flags, "--engine=ctranslate2")) == (
            "error: Ensembles are not supported by `--engine ctranslate2`: pass one RUN and at "
            "most one `--checkpoint`.\n"
        )


def test_a_missing_library_is_told_before_an_export_is_made(run, translated, monkeypatch):
    for engine, module in (
        ("ctranslate2", "ctranslate2"),
        ("litert", "ai_edge_litert.interpreter"),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        code, _, told = translated(run, engine)
        assert (code, len(told)) == (2, 1)
        assert pip_install(engine) in told[0]
    assert not (run / "engines").exists()
