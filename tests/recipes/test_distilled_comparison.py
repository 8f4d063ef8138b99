"""The comparison of a student with its teacher: its rows, what is left out, and what it leaves."""

import json
import shutil
import types

import keras
import pytest

from keras_transformer import RunDirectory, SearchOptions
from keras_transformer.errors import UserInputError
from keras_transformer.runs import run_lock
from recipes.distilled import comparison, measure, runtimes
from recipes.distilled.runtimes import Runtime, runtimes_of

pytestmark = pytest.mark.tensorflow


class EchoTranslator:
    """Answers with the sources, at once."""

    def __init__(self, paths, **search):
        self.paths = paths
        self.search_options = SearchOptions(**search)
        self.beam_size = self.search_options.beam_size
        self.models = [types.SimpleNamespace(count_params=lambda: 7) for _ in paths]
        self.origins = [(RunDirectory(path), path / "model.weights.h5") for path in paths]

    @classmethod
    def load(cls, paths, long_sentences, engine, shortlist, **search):
        return cls(paths, **search)

    def with_search(self, **options):
        return EchoTranslator(self.paths, **{**vars(self.search_options), **options})

    def translate(self, sentences):
        return list(sentences)


@pytest.fixture
def runs(trained_run, tmp_path, monkeypatch):
    """Two teachers that were tuned, and a student that gave them a search: their paths."""
    monkeypatch.setattr(comparison, "Translator", EchoTranslator)
    one, two, student = (
        shutil.copytree(trained_run, tmp_path / name) for name in ("one", "two", "student")
    )
    RunDirectory(one).write_search_defaults({"alpha": 1.5})
    RunDirectory(two).write_search_defaults({"alpha": 0.9})
    run = RunDirectory(student)
    given = {"teacher_beam_size": 8, "teacher_alpha": 1.25, "teacher_extra_length": 9}
    run.checksums.write_json(run.settings_path, {**run.settings(), **given})
    return one, two, student


@pytest.fixture
def compared(runs, tmp_path):
    """Compare the student with some teachers; gives the content of distilled.json."""
    for side in ("en", "de"):
        (tmp_path / f"test.{side}").write_text("one two three four\nfive\n")
    texts = [f"--test-source={tmp_path}/test.en", f"--test-target={tmp_path}/test.de"]
    student = runs[-1]

    def compare(*teachers, exports=True):
        flags = ["--teacher", *map(str, teachers), *texts, *([] if exports else ["--no-exports"])]
        measure.main([str(student), *flags])
        return json.loads((student / "distilled.json").read_text())

    return compare


def test_the_teacher_as_a_whole_has_the_search_that_it_was_given(runs, compared, capsys):
    one, two, _ = runs
    content = compared(one, two, exports=False)
    assert [(system["system"], system["search"]) for system in content["systems"]] == [
        ("teacher one", "beam 4, alpha 1.5"),
        ("teacher two", "beam 4, alpha 0.9"),
        ("ensemble of 2", "beam 4, alpha 1.25"),
        ("student", "beam 4, alpha 0.6"),
        ("teacher one", "greedy"),
        ("student", "greedy"),
    ]
    assert (
        "The ensemble of 2 searches with beam 4, alpha 1.25: what the student's --teacher-alpha "
        f"and --teacher-extra-length do not set is taken from {one}\n"
    ) in capsys.readouterr().out
    alone = compared(one, exports=False)["systems"][0]
    assert (alone["system"], alone["search"]) == ("teacher", "beam 4, alpha 1.25")


def test_what_cannot_be_measured_is_named_once_and_left_out(runs, compared, capsys, monkeypatch):
    def saved_model(translator, folder):
        assert folder.parent.is_dir()
        if len(translator.paths) > 1:
            raise UserInputError("an ensemble is too large")
        return Runtime(translator.translate, 5_000_000)

    def litert(translator, folder, precision="float32"):
        raise UserInputError("LiteRT is not installed")

    monkeypatch.setattr(runtimes, "_saved_model", saved_model)
    monkeypatch.setattr(runtimes, "_litert", litert)
    one, two, student = runs
    content = compared(one)
    assert [list(system["runtimes"]) for system in content["systems"]] == [
        ["Translator", "SavedModel"]
    ] * 4
    assert capsys.readouterr().out.count("Skipping LiteRT: LiteRT is not installed\n") == 1
    head = (student / "distilled.md").read_text().splitlines()[0]
    assert "SavedModel, sentences/s" in head
    assert "LiteRT" not in head

    content = compared(one, two)  # nothing is compared that a system lacks
    assert [list(system["runtimes"]) for system in content["systems"]] == [["Translator"]] * 6
    out = capsys.readouterr().out
    assert out.count("Skipping SavedModel: an ensemble is too large\n") == 1


def test_another_backend_has_no_exports(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    said = []
    found = runtimes_of(EchoTranslator([runs[0]]), tmp_path, said.append)
    assert list(found) == ["Translator"]
    assert [line.split(":")[0] for line in said] == [
        "Skipping SavedModel", "Skipping LiteRT", "Skipping LiteRT int8"
    ]  # fmt: skip
    assert all("set KERAS_BACKEND=tensorflow" in line for line in said)


def test_exports_of_a_killed_comparison_are_removed(runs, compared):
    one, _, student = runs
    left = student / ".partial-directory-left" / "0"
    left.mkdir(parents=True)
    (left / "saved_model.pb").write_bytes(b"half")
    compared(one, exports=False)
    assert list(student.glob(".partial-*")) == []


def test_a_student_in_training_is_left_alone(runs, compared):
    one, _, student = runs
    with run_lock(student), pytest.raises(UserInputError, match="is in use by a training run"):
        compared(one, exports=False)
    assert not (student / "distilled.json").exists()
