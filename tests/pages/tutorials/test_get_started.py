"""docs/tutorials/get_started.md: its commands in order, and what it states about versions."""

import json
import re
import shlex
import subprocess
import tomllib
import urllib.request

import pytest

from keras_transformer.installation import __version__
from tests.interop.marian_folders import write_hugging_face
from tests.pages.environments import distributions, make_environment
from tests.pages.page import ROOT, Page
from tests.pages.shell import start
from tests.small_trained_run import SETTINGS
from tests.translation_training.number_text import flags, write_pairs

PAGE = Page("docs/tutorials/get_started.md")
INSTALLS = ("git ", "cd ", "make ", ". ", "pip ")
SMALL_DEMO = flags(
    numbers=300, held_out=30, validation=30, num_layers=1, hidden_dim=64, intermediate_dim=128,
    vocabulary_size=80, steps=60, warmup_steps=20, save_every=30, beam_size=1,
)  # fmt: skip


def extras_of(line):
    """The extras in the brackets of a command."""
    return re.findall(r"\[([\w,]+)\]", line)[0].split(",")


def installs():
    """The commands that install the package, in order."""
    lines = "".join(PAGE.blocks("sh")).splitlines()
    return [line for line in lines if line.startswith("pip install")]


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A folder, and an environment in which nothing but the page's first line was installed."""
    folder = tmp_path_factory.mktemp("get_started")
    environment = make_environment(
        folder / "environment",
        extras_of(installs()[0]),
        train=flags(**SETTINGS),
        demo=SMALL_DEMO,
        app=["--port", "0"],
    )
    # The hub's cache, as if the model had been downloaded.
    cached = folder / "hub" / "hub" / "models--Helsinki-NLP--opus-mt-en-de"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text("0" * 40)
    (cached / "snapshots").mkdir()
    write_hugging_face(cached / "snapshots" / ("0" * 40))
    write_pairs(folder, "train", length=4)
    (folder / "english.txt").write_text("one two three four\nfive five one two\n")
    environment |= {"HF_HOME": str(folder / "hub"), "HF_HUB_OFFLINE": "1", "BROWSER": "true"}
    return folder, environment


@pytest.mark.slow
@pytest.mark.tensorflow
def test_its_commands_run_in_order_in_an_empty_environment(reader):
    folder, environment = reader
    outputs = {}
    for line in "".join(PAGE.blocks("sh")).replace("\\\n", " ").splitlines():
        if not line.startswith(INSTALLS):
            call = use_app if " app " in line else output_of
            outputs[line] = call(line, environment, folder)
    assert len(outputs) == 6
    shown = iter(outputs.values())
    assert "keras-transformer app runs/number_words" in next(shown)  # what to try next
    assert (folder / "german.txt").read_text("utf-8").splitlines() == [
        "eins zwei drei vier",
        "fünf fünf eins zwei",
    ]
    (translated,) = (text for line, text in outputs.items() if line.startswith("echo"))
    assert len(translated.splitlines()) == 1


def output_of(line, environment, folder):
    process = start(line, environment, folder)
    output, errors = process.communicate(timeout=900)
    assert process.returncode == 0, f"{line}\n{errors}"
    return output


def use_app(line, environment, folder):
    """Start the app, ask it for its runs, and stop it."""
    process = subprocess.Popen(
        shlex.split(line), cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        (address,) = re.findall(r"http://\S+/", process.stdout.readline())
        with urllib.request.urlopen(f"{address}api/runs", timeout=60) as answer:
            runs = json.load(answer)
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert [run["name"] for run in runs["runs"]] == [line.split()[2].rpartition("/")[2]]
    return address


@pytest.mark.tensorflow
def test_all_its_installations_have_what_the_page_needs():
    needed = {"tensorflow", "num2words", "huggingface-hub", "fastapi", "uvicorn", "matplotlib"}
    for line in installs():
        assert needed <= set(distributions(extras_of(line)))


def test_the_code_builds_the_papers_base_model(capsys):
    PAGE.run_code()
    printed = capsys.readouterr().out
    assert printed in PAGE.blocks()
    (weights,) = re.findall(r"([\d,]+) weights", printed)
    assert round(int(weights.replace(",", "")) / 1e6) == 63  # 65 in Table 3, of another count


def test_its_versions_and_extras_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    versions = [
        line.rpartition(" ")[2] for line in project["classifiers"] if "Python :: 3." in line
    ]
    assert all(version in PAGE.text for version in versions)
    (table,) = re.findall(r"\| extra \| installs \|\n(.*?)\n\n", PAGE.text, re.DOTALL)
    named = [name for row in table.splitlines()[1:] for name in row_names(row)]
    assert set(named) - {"torch"} <= set(project["optional-dependencies"])
    (demo,) = project["optional-dependencies"]["demo"]
    assert all(f"`{extra}`" in table for extra in extras_of(demo))
    assert f"keras_transformer_garden-{__version__}-" in PAGE.text


def row_names(row):
    """The names in the first cell of a row."""
    return re.findall(r"`(\w+)`", row.split("|")[1])


def test_the_systems_are_those_of_the_page_on_compatibility():
    other = Page("docs/project/compatibility.md").text
    rows = re.findall(r"^\| ((?:macOS|Windows) .*?) \| (.*) \|$", PAGE.text, re.MULTILINE)
    assert len(rows) == 3
    for system, works in rows:
        (there,) = re.findall(rf"^\| {system} \| (.*?) \|", other, re.MULTILINE)
        for word in ("SavedModels", "model server", "clusters"):
            assert (word in works) is (word in there)
