"""What holds for every page: the program understands its commands, and its links lead somewhere."""

import importlib
import re
import subprocess

import pytest

from keras_transformer.files import write_json
from keras_transformer.toolkit.cli import make_parser
from tests.evaluation.cost.recorded_runs import write_run
from tests.pages.page import ROOT, Page

NAMES = [
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "recipes/**/*.md", "saved_models/README.md")
    for path in sorted(ROOT.glob(pattern))
]
COMMANDS = [command for name in NAMES for command in Page(name).commands()]
TRAININGS = [
    (recipe, command)
    for name in NAMES
    for recipe in sorted(set(re.findall(r"python -m recipes\.(\w+)\.train", Page(name).text)))
    for command in Page(name).commands(f"python -m recipes.{recipe}.train")
    if "--help" not in command
]
TARGETS = sorted({command[0] for name in NAMES for command in Page(name).commands("make")})


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_every_command_is_understood(arguments):
    assert make_parser().parse_args(arguments).verb.__name__.rstrip("_") == arguments[0]


@pytest.mark.tensorflow
@pytest.mark.parametrize(("recipe", "arguments"), TRAININGS, ids=lambda value: str(value)[:60])
def test_every_command_of_a_recipe_is_understood(recipe, arguments, monkeypatch, tmp_path):
    class Understood(Exception):
        pass

    def stop(options, **arguments):
        raise Understood

    if "--from" in arguments:  # opened before the training starts
        origin = tmp_path / "origin"
        write_run(origin, metrics=False)
        write_json(origin / "settings.json", {})
        arguments = [*arguments, "--from", str(origin)]
    training = importlib.import_module(f"recipes.{recipe}.train")
    monkeypatch.chdir(ROOT)  # for files of settings
    monkeypatch.setattr("keras_transformer.training.TrainingRun.of", stop)
    with pytest.raises(Understood):
        training.main(arguments)


def test_every_target_of_make_is_there():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    (parts,) = re.findall(r"^PARTS := (.+)$", makefile, re.MULTILINE)
    targets |= {f"test-{part}" for part in parts.split()}
    assert {"demo", "test"} <= set(TARGETS) <= targets


@pytest.mark.parametrize("name", NAMES)
def test_no_link_is_dead(name):
    dead = []
    for path, anchor in Page(name).links():
        if not path.exists() or (anchor and anchor not in Page(path).anchors()):
            dead.append(f"{path}#{anchor}")
    assert dead == []


@pytest.mark.parametrize("name", NAMES)
def test_its_shell_blocks_are_shell(name):
    script = "\n".join(Page(name).blocks("sh"))
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", NAMES)
def test_its_python_blocks_are_python(name):
    for block in Page(name).blocks("python"):
        if not block.startswith(">>>"):
            compile(block, name, "exec")


def test_there_are_commands_and_links():
    links = [link for name in NAMES for link in Page(name).links()]
    assert len(COMMANDS) >= 25
    assert len(TRAININGS) >= 10
    assert len(links) >= 80
    assert any(anchor for _, anchor in links)


def test_a_dead_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A b\n[x](#a-b) [y](no.md) [z](page.md#nowhere) `[code](no2.md)`", "utf-8")
    assert Page(page).links() == [
        (page, "a-b"),
        (tmp_path / "no.md", ""),
        (page, "nowhere"),
    ]
    assert Page(page).anchors() == ["a-b"]
