"""`keras-transformer translate` on a few lines, with a graph that an earlier command has made."""

import io
import sys
import types

import pytest

from keras_transformer.inference import graph_maker, litert_graph
from keras_transformer.inference.litert_graph import ENGINE
from keras_transformer.inference.translator import Translator
from keras_transformer.toolkit import cli
from keras_transformer.toolkit.cli.named_models import NamedModels

pytestmark = [pytest.mark.slow, pytest.mark.tensorflow]
FLAGS = {"max_source_length": 40}


@pytest.fixture(scope="module")
def cache(trained_run, tmp_path_factory):
    """A cache with the graph of the run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(ENGINE)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        graph = Translator.load(trained_run, **FLAGS)._generator.graph
        graph_maker.make(graph._recipe, litert_graph._folder() / graph._name)
        yield litert_graph.user_cache("").parent


class Waiting:
    """Stands in for a process that makes a graph, and never ends."""

    def __init__(self, *_, **__):
        pass

    def poll(self):
        return None


@pytest.fixture
def translated(trained_run, cache, monkeypatch, capfdbinary):
    """Translate standard input; gives the lines, and how often a `Translator` was loaded."""
    monkeypatch.delenv(ENGINE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr(litert_graph.subprocess, "Popen", Waiting)
    loads = []
    load = NamedModels.load
    monkeypatch.setattr(
        NamedModels,
        "load",
        lambda self, **how: loads.append(how.get("engine", "auto")) or load(self, **how),
    )

    def run(text, *flags):
        loads.clear()
        stdin = types.SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(text.encode())))
        monkeypatch.setattr(sys, "stdin", stdin)
        assert cli.main(["translate", str(trained_run), "--max-source-length=40", *flags]) == 0
        return capfdbinary.readouterr().out.decode().splitlines(), [*loads]

    return run


def test_a_few_lines_need_no_keras(trained_run, translated):
    own = Translator.load(trained_run, engine="own", **FLAGS)
    assert translated("one two\n") == (own.translate(["one two"]), [])
    assert translated("one\n\nfive two\n") == (own.translate(["one", "", "five two"]), [])
    assert translated("one\n", "--tag=<BT>") == ([f"<BT> {own.translate('one')}"], [])
    many = ["one", "two", "three four", "five", "three"]
    assert translated("\n".join([*many, ""])) == (own.translate(many), ["auto"])


def test_what_the_graph_cannot_do_needs_keras(translated):
    assert translated("one\n", "--n-best=2")[1] == ["auto"]
    assert translated("one\tfour\n", "--tab-prefix")[1] == ["auto"]
    assert translated("one %s\n", "--keep=auto")[1] == ["auto"]
    assert translated("one\n", "--beam-size=3")[1] == ["auto"]  # another search
    assert translated("one\n", "--sample")[1] == ["auto"]
    assert translated("one\n", "--engine=own")[1] == ["own"]
    long = "one " * 100
    found, loads = translated(f"{long}\n", "--long-lines=split")
    assert (len(found), loads) == (1, ["auto"])


def test_another_precision_is_another_graph(translated, capfdbinary):
    assert translated("one\n", "--precision=float32")[1] == []
    assert translated("one\n", "--precision=int8")[1] == ["auto"]


def test_it_can_be_turned_off(translated, monkeypatch):
    monkeypatch.setenv(ENGINE, "own")
    assert translated("one\n")[1] == ["auto"]
