"""docs/keras/coming_from_pipeline.md, with small models in place of those on the hub."""

import inspect
import re
import sys
import types

import pytest

from keras_transformer import SearchOptions, Translator
from tests.interop.marian_folders import TAGS, write_hugging_face
from tests.pages.page import Page

PAGE = Page("docs/keras/coming_from_pipeline.md")
ROWS = [line.split("|")[1:3] for line in PAGE.text.splitlines() if line.startswith("| `")]


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub where every name of OPUS-MT is the same model; returns the names that are asked for."""
    names = []

    def snapshot_download(repository, revision, **patterns):
        names.append(repository)
        return str(tmp_path / "model")

    write_hugging_face(tmp_path / "model")
    module = types.ModuleType("huggingface_hub")
    module.snapshot_download = snapshot_download
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return names


@pytest.mark.commands
def test_the_code_runs_from_top_to_bottom(hub, capsys):
    names = PAGE.run_code()
    assert set(hub) == {"Helsinki-NLP/opus-mt-en-de", "Helsinki-NLP/opus-mt-en-roa"}
    assert names["translator"].beam_size == 6
    assert names["greedy"].beam_size == 1
    assert len(names["alternatives"]) == 3
    assert len(names["samples"]) == 2
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == str(tuple(tag[2:-2] for tag in TAGS))


def parameters(function):
    return set(inspect.signature(function).parameters)


def test_what_the_table_names_exists():
    options = parameters(Translator.__init__) | {*SearchOptions.__dataclass_fields__}
    keywords = options | parameters(Translator.sample)
    named = {name for _, ours in ROWS for name in re.findall(r"(\w+)=[\w\"]", ours)}
    assert len(named) >= 12
    assert named - {"CUDA_VISIBLE_DEVICES"} <= keywords
    methods = {name for _, ours in ROWS for name in re.findall(r"\b[tT]ranslator\.(\w+)\(", ours)}
    assert len(methods) >= 5
    assert [name for name in methods if not hasattr(Translator, name)] == []
    for _, ours in ROWS:
        for keyword, value in re.findall(r'(ending|length_penalty)="(\w+)"', ours):
            SearchOptions(**{keyword: value})


def test_the_old_code_is_python():
    blocks = PAGE.blocks("py")
    assert len(blocks) == 6
    for block in blocks:
        assert block.startswith("# Transformers 4\n")
        compile(block, PAGE.path.name, "exec")
