"""The LiteRT graphs of translators that were loaded from files."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from keras_transformer import Translator
from keras_transformer.errors import CannotWrite
from keras_transformer.formats.litert.reader import LiteRTTranslator
from keras_transformer.formats.litert.writer import export_litert
from keras_transformer.inference import graph_maker, litert_graph
from keras_transformer.inference.graph_maker import MOST_GRAPHS
from keras_transformer.inference.litert_graph import ENGINE, GraphRecipe, ModelFiles
from keras_transformer.runs import shipped_models
from keras_transformer.runs.shipped_models import LIST
from keras_transformer.text import SentencePieceTokenizer, Shortlist
from tests.pages.page import ROOT
from tests.random_translation import build, sentences

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]
LINES = sentences(6)
REAL = subprocess.Popen


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    tokenizer = SentencePieceTokenizer.train(sentences(200), vocabulary_size=64)
    translator = Translator(build(tokenizer), tokenizer, beam_size=2, extra_length=8)
    return translator.save_to_preset(tmp_path_factory.mktemp("preset") / "model")


@pytest.fixture(scope="module")
def expected(preset):
    return Translator.from_preset(preset, engine="own").translate(LINES)


class Process:
    """Stands in for the process that makes a graph: it makes it in `finish`."""

    def __init__(self, command, stderr, **options):
        self.recipe, self.path = command[-2:]
        self.stderr, self.is_running = stderr, True
        PROCESSES.append(self)

    def poll(self):
        return None if self.is_running else 0

    def finish(self):
        values = json.loads(self.recipe)
        recipe = GraphRecipe(**{**values, "files": ModelFiles(**values["files"])})
        try:
            graph_maker.make(recipe, litert_graph.Path(self.path))
        except Exception as error:
            self.stderr.write(f"{error}\n".encode())
        self.is_running = False


PROCESSES = []


@pytest.fixture
def graphs(tmp_path, monkeypatch):
    """The folder of the graphs, in an empty cache."""
    monkeypatch.delenv(ENGINE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(litert_graph.subprocess, "Popen", Process)
    PROCESSES.clear()
    return tmp_path / "cache" / "keras_transformer" / "graphs"


@pytest.fixture
def made(tmp_path_factory, preset, graphs):
    """The same with the graph of the preset, made once."""
    shared = tmp_path_factory.getbasetemp() / "graphs"
    if not shared.exists():
        Translator.from_preset(preset).translate(LINES[0])
        PROCESSES.pop().finish()
        shutil.copytree(graphs, shared)
    elif not graphs.exists():
        shutil.copytree(shared, graphs)
    graphs.chmod(0o700)
    return graphs


@pytest.fixture
def calls(monkeypatch):
    """The numbers of rows that LiteRT translated."""
    numbers = []
    run = LiteRTTranslator._run_ids

    def counted(self, rows, terms):
        numbers.append(len(rows))
        return run(self, rows, terms)

    monkeypatch.setattr(LiteRTTranslator, "_run_ids", counted)
    return numbers


def test_the_first_answers_come_from_keras(preset, expected, graphs, calls):
    translator = Translator.from_preset(preset)
    assert PROCESSES == []  # nothing happens before the first use
    assert [translator.translate(line) for line in LINES[:2]] == expected[:2]
    (process,) = PROCESSES
    assert calls == []
    process.finish()
    assert [translator.translate(line) for line in LINES] == expected
    assert calls == [1] * len(LINES)
    assert len(PROCESSES) == 1


def test_only_a_few_sentences_use_the_graph(preset, expected, made, calls):
    translator = Translator.from_preset(preset)
    assert translator.translate(LINES[:2]) == expected[:2]
    assert calls == [2]
    assert translator.translate(["", LINES[0], " "]) == ["", expected[0], ""]
    assert calls == [2, 1]
    translator.translate(LINES)
    translator.translate_nbest(LINES[:1], 2)
    translator.translate(LINES[:1], ["house"])
    translator.translate(LINES[0], glossary={"house": "tree", "tree": "house", "old": "old"})
    translator.translate([])
    assert calls == [2, 1]
    assert PROCESSES == []  # the graph was found


def test_a_search_has_a_graph_of_its_own(preset, made, calls):
    own = Translator.from_preset(preset, engine="own", beam_size=1)
    other = Translator.from_preset(preset).with_search(beam_size=1)
    assert other.translate(LINES[0]) == own.translate(LINES[0])
    assert (calls, PROCESSES) == ([], [])  # such as those of every visitor of a page
    greedy = Translator.from_preset(preset, beam_size=1)
    assert greedy.translate(LINES[0]) == own.translate(LINES[0])
    assert calls == []
    PROCESSES.pop().finish()
    assert [greedy.translate(line) for line in LINES] == own.translate(LINES)
    assert len(list(made.iterdir())) == 2


def int8_of(path):
    return json.loads((path / "translation.json").read_text())["precision"] == "int8"


def test_int8_is_a_choice(preset, made, calls):
    translator = Translator.from_preset(preset, precision="int8")
    translator.translate(LINES[0])
    PROCESSES.pop().finish()
    translator.translate(LINES[0])
    assert calls == [1]
    calls.clear()
    many = translator.translate([*LINES, "", LINES[0]])
    assert sum(calls) == len(LINES) + 1
    assert max(calls) > 1
    path = next(path for path in made.iterdir() if int8_of(path))
    assert many[:-2] == LiteRTTranslator(path).translate(LINES)
    assert many[-2:] == ["", many[0]]
    settings = [json.loads((path / "translation.json").read_text()) for path in made.iterdir()]
    assert sorted(each["precision"] for each in settings) == ["float32", "int8"]


def test_a_graph_is_asked_for_before_it_is_used(preset, graphs, made, calls):
    translator = Translator.from_preset(preset, beam_size=1)
    assert not translator.has_graph(5)  # only a few sentences use it
    assert not PROCESSES
    assert not translator.has_graph(1)
    PROCESSES.pop().finish()
    assert translator.has_graph(1)
    assert not Translator.from_preset(preset, engine="own").has_graph(1)


@pytest.mark.parametrize(
    "other", [lambda one: one, lambda one: one.with_search(beam_size=1), lambda one: one.into(None)]
)
def test_changed_weights_are_used(preset, made, calls, other):
    translator = Translator.from_preset(preset)
    (model,) = other(translator).models
    assert translator.translate(LINES[0])
    assert calls == [1]
    calls.clear()
    model.set_weights([-weight for weight in model.get_weights()])
    own = Translator(model, translator.tokenizer, **translator.search_options.__dict__)
    assert translator.translate(LINES[0]) == own.translate(LINES[0])
    assert calls == []


def test_changed_files_have_another_graph(preset, made, tmp_path, calls):
    other = shutil.copytree(preset, tmp_path / "model")
    translator = Translator.from_preset(other)
    assert translator.translate(LINES[0])
    assert calls == [1]  # the same contents
    model = Translator.from_preset(other, engine="own").models[0]
    model.set_weights([weight + 1 for weight in model.get_weights()])
    model.save_weights(other / "model.weights.h5")
    (other / "SHA256SUMS").unlink(missing_ok=True)
    Translator.from_preset(other).translate(LINES[0])
    assert calls == [1]
    assert len(PROCESSES) == 1
    model.set_weights([weight + 1 for weight in model.get_weights()])
    model.save_weights(other / "model.weights.h5")
    PROCESSES[0].finish()  # the files have changed again since then
    assert len(list(made.iterdir())) == 1


def damage(graphs, change):
    (graph,) = graphs.iterdir()
    change(graph)
    return graph


def cut(graph):
    path = graph / "model.tflite"
    path.write_bytes(path.read_bytes()[:5000])


def replaced(graph):
    (graph / "model.tflite").write_bytes(b"another model")


def linked(graph):
    shutil.copytree(graph, graph.parent.parent / "elsewhere")
    shutil.rmtree(graph)
    graph.symlink_to(graph.parent.parent / "elsewhere")


def emptied(graph):
    for path in graph.iterdir():
        path.unlink()


def not_a_folder(graph):
    shutil.rmtree(graph)
    graph.write_text("x")


@pytest.mark.parametrize("change", [cut, replaced, linked, emptied, not_a_folder])
def test_a_damaged_graph_is_made_anew(preset, expected, made, calls, capfd, change):
    graph = damage(made, change)
    translator = Translator.from_preset(preset)
    assert translator.translate(LINES[0]) == expected[0]
    assert calls == []
    PROCESSES.pop().finish()
    assert translator.translate(LINES[0]) == expected[0]
    assert calls == [1]
    assert not graph.is_symlink()
    assert "graph" not in capfd.readouterr().err


def test_a_graph_of_another_user_is_not_read(preset, expected, made, calls, monkeypatch, capfd):
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    translator = Translator.from_preset(preset)
    assert [translator.translate(line) for line in LINES[:2]] == expected[:2]
    assert (calls, PROCESSES) == ([], [])
    (told,) = capfd.readouterr().err.splitlines()
    assert told == (
        "Single sentences are translated without a LiteRT graph: "
        f"{made} must belong to this user, with the mode 0700."
    )


def test_a_folder_that_others_can_write_is_not_read(preset, expected, made, calls, capfd):
    made.chmod(0o777)
    assert Translator.from_preset(preset).translate(LINES[0]) == expected[0]
    assert (calls, PROCESSES) == ([], [])
    assert "with the mode 0700" in capfd.readouterr().err


def test_without_space_keras_goes_on(preset, expected, graphs, monkeypatch, capfd):
    def full(*_, **__):
        raise CannotWrite("Cannot write x: No space left on device.")

    monkeypatch.setattr(graph_maker, "export_litert", full)
    translator = Translator.from_preset(preset)
    assert translator.translate(LINES[0]) == expected[0]
    PROCESSES.pop().finish()
    assert [translator.translate(line) for line in LINES[:2]] == expected[:2]
    (told,) = capfd.readouterr().err.splitlines()
    assert told.endswith("without a LiteRT graph: Cannot write x: No space left on device.")
    assert PROCESSES == []  # it is not tried again and again


def test_without_a_home_keras_goes_on(preset, expected, graphs, monkeypatch, capfd):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(litert_graph.Path, "home", no_home)
    assert Translator.from_preset(preset).translate(LINES[0]) == expected[0]
    (told,) = capfd.readouterr().err.splitlines()
    assert told.endswith("Could not determine home directory.")


def test_where_nothing_can_be_written_keras_goes_on(preset, expected, graphs, monkeypatch, capfd):
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc")
    assert Translator.from_preset(preset).translate(LINES[0]) == expected[0]
    (told,) = capfd.readouterr().err.splitlines()
    assert "without a LiteRT graph: " in told


def test_old_graphs_are_removed(preset, made, calls):
    for number in range(MOST_GRAPHS):
        (made / f"old{number}").mkdir()
        os.utime(made / f"old{number}", (number, number))
    Translator.from_preset(preset, beam_size=1).translate(LINES[0])
    PROCESSES.pop().finish()
    names = {path.name for path in made.iterdir()}
    assert len(names) == MOST_GRAPHS
    assert not {"old0", "old1"} & names


def test_a_shortlist_of_ones_own_has_no_graph(preset, made, calls):
    translator = Translator.from_preset(preset, engine="own")
    tokenizer = translator.tokenizer
    size = tokenizer.vocabulary_size
    shortlist = Shortlist(np.arange(size + 1), np.arange(size), [4], tokenizer)
    translator = Translator.from_preset(preset, shortlist=shortlist)
    expected = Translator.from_preset(preset, shortlist=shortlist, engine="own")
    assert translator.translate(LINES[0]) == expected.translate(LINES[0])
    assert (calls, PROCESSES) == ([], [])


def test_the_engine_can_be_chosen(preset, made, calls, monkeypatch):
    Translator.from_preset(preset, engine="own").translate(LINES[0])
    monkeypatch.setenv(ENGINE, "own")
    Translator.from_preset(preset).translate(LINES[0])
    assert (calls, PROCESSES) == ([], [])
    for options in ({"engine": "fast"}, {"precision": "int4"}):
        with pytest.raises(ValueError, match=next(iter(options))):
            Translator.from_preset(preset, **options)


@pytest.fixture(scope="module")
def shipped(preset, tmp_path_factory):
    """The `saved_models` of a clone, with a model and its graph."""
    folder = tmp_path_factory.mktemp("clone")
    head = (ROOT / "saved_models" / LIST).read_text("utf-8").splitlines()[0]
    (folder / LIST).write_text(f"{head}\nen_de,en,de,1,1,dev,1,CC0,Small\n", "utf-8")
    model = Translator.from_preset(preset, engine="own").save_to_preset(
        folder / "en_de", precision="int8"
    )
    export_litert(Translator.load(model, engine="own"), model / "litert", precision="int8")
    return folder


@pytest.fixture
def clone(shipped, graphs, calls, monkeypatch):
    monkeypatch.setattr(shipped_models, "_CLONE", shipped)
    monkeypatch.setattr(os, "getuid", lambda: 12345)  # its files belong to whoever installed it
    return shipped


def test_a_shipped_model_has_its_graph_at_once(clone, graphs, calls):
    for translator in (Translator.from_preset("en_de"), Translator.load(clone / "en_de")):
        calls.clear()
        lines = [translator.translate(line) for line in LINES]
        assert calls == [1] * len(LINES)
        assert lines == LiteRTTranslator(clone / "en_de" / "litert").translate(LINES)
    assert (PROCESSES, graphs.exists()) == ([], False)


def test_its_graph_needs_the_same_search_and_the_right_checksums(
    clone, calls, monkeypatch, tmp_path
):
    monkeypatch.setattr(os, "getuid", os.geteuid)
    others = [Translator.from_preset("en_de", beam_size=1)]
    copy = shutil.copytree(clone, tmp_path / "copy")
    others.append(Translator.from_preset(copy / "en_de"))  # not a shipped model
    monkeypatch.setattr(shipped_models, "_CLONE", copy)
    cut(copy / "en_de" / "litert")
    others.append(Translator.from_preset("en_de"))
    for translator in others:
        own = translator.with_search()  # Keras
        assert translator.translate(LINES[0]) == own.translate(LINES[0])
    assert calls == []
    assert len(PROCESSES) == 3


def test_commands_read_a_shipped_graph_without_keras(clone, monkeypatch):
    monkeypatch.setattr(litert_graph.subprocess, "Popen", REAL)
    program = (
        "import sys; from keras_transformer.runs import shipped_models; from pathlib import Path;"
        f"shipped_models._CLONE = Path({str(clone)!r});"
        "from keras_transformer.toolkit.cli import main;"
        "assert main(['translate', 'en_de']) == 0; assert 'keras' not in sys.modules"
    )
    environment = {name: text for name, text in os.environ.items() if name != ENGINE}
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=f"{LINES[0]}\n",
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    expected = LiteRTTranslator(clone / "en_de" / "litert").translate(LINES[:1])
    assert done.stdout.splitlines() == expected
    assert done.stderr == f"en_de: the shipped model in {clone / 'en_de'}\n"


def test_two_processes_make_one_graph(preset, expected, graphs, monkeypatch):
    monkeypatch.setattr(litert_graph.subprocess, "Popen", REAL)
    translators = [Translator.from_preset(preset) for _ in range(2)]
    for translator in translators:
        translator.translate(LINES[0])
    makers = [translator._generator.graph._maker for translator in translators]
    assert [maker.wait(300) for maker in makers] == [0, 0]
    assert len(list(graphs.iterdir())) == 1
    assert [translator.translate(LINES[1]) for translator in translators] == [expected[1]] * 2
    assert all(translator._generator.graph._reader for translator in translators)
    np.testing.assert_array_equal(graphs.stat().st_mode & 0o777, 0o700)
