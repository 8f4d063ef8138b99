"""`deploy/docker/Dockerfile`, without Docker: what it copies, what it runs, whom it runs as."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from keras_transformer.installation import __version__
from keras_transformer.toolkit.cli import make_parser
from tests.deploy.conftest import lint
from tests.external_data import ROOT
from tests.pages.page import Page
from tests.pages.shell import write_program

DOCKERFILE = ROOT / "deploy" / "docker" / "Dockerfile"
# `pip` of a test: it shows its arguments, and runs with those of the test added.
PIP = """#!{python}
import os, subprocess, sys
print("pip", *sys.argv[1:])
more = os.environ["MORE"].split()
sys.exit(subprocess.call([sys.executable, "-m", "pip", *sys.argv[1:], *more]) if more else 0)
"""
# What is needed is found in the environment of the tests.
WITHOUT_NETWORK = ["--no-index", "--no-build-isolation", "--disable-pip-version-check"]


def instructions():
    """The instructions of the file, as pairs of a word and the text behind it."""
    lines = DOCKERFILE.read_text("utf-8").replace("\\\n", "").splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def texts(word):
    return [text for name, text in instructions() if name == word]


def copied():
    """The paths that are copied; each lands under its own name."""
    sources = []
    for text in texts("COPY"):
        *paths, target = text.split()
        assert target in ("./", paths[-1])
        sources += paths
    return sources


@pytest.fixture
def image(tmp_path):
    """A folder with what is copied, as far as git has it."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]
    for source in copied():
        names = subprocess.check_output([*listed, source], cwd=ROOT, text=True).split("\0")[:-1]
        assert names, source
        for name in filter(lambda name: (ROOT / name).is_file(), names):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def install(image, device, more=()):
    """Run the instruction that installs the package; returns the ended process."""
    (command,) = [text for text in texts("RUN") if "pip install" in text]
    write_program(image / "programs" / "pip", PIP)
    environment = {
        **os.environ,
        "PATH": f"{image / 'programs'}{os.pathsep}{os.environ['PATH']}",
        "DEVICE": device,
        "MORE": " ".join(map(str, more)),
    }
    return subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=image,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_builder_gets_what_is_copied_and_no_more():
    ignored = pathlib.Path(f"{DOCKERFILE}.dockerignore").read_text("utf-8").splitlines()
    rules = [line for line in ignored if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert [rule[1:] for rule in rules if rule.startswith("!")] == copied()


def test_it_runs_the_program_as_a_user_who_is_not_root():
    words = [word for word, _ in instructions()]
    assert int(texts("USER")[-1]) > 0
    assert f"--uid {texts('USER')[-1]} " in texts("RUN")[-1]
    assert words.index("USER") > max(i for i, word in enumerate(words) if word == "RUN")
    (program,) = json.loads(*texts("ENTRYPOINT"))
    assert f'{program} = "keras_transformer.__main__:main"' in (ROOT / "pyproject.toml").read_text()


def test_the_commands_that_it_shows_are_understood():
    text = DOCKERFILE.read_text("utf-8")
    ((flags, run),) = re.findall(r"^#   docker run (.*) keras-transformer (.+)", text, re.MULTILINE)
    assert make_parser().parse_args(run.split()).verb.__name__ == "translate"
    assert "--interactive" in flags.split()  # it reads standard input
    arguments = [dict(re.findall(r"--build-arg (\w+)=(\w+)", line)) for line in text.splitlines()]
    assert [argument for argument in arguments if argument] == [{"DEVICE": "gpu"}]


def test_the_page_shows_the_same_commands():
    (block,) = (block for block in Page("docs/scaling.md").blocks("sh") if "docker " in block)
    shown = re.findall(r"^#   (docker .+)", DOCKERFILE.read_text("utf-8"), re.MULTILINE)
    assert block.strip().splitlines() == shown


def test_its_python_is_that_of_the_constraints():
    (image,) = texts("FROM")
    version = image.partition(":")[2].partition("-")[0]
    assert f"(Python {version}," in (ROOT / "constraints.txt").read_text("utf-8")


def test_the_device_decides_what_is_installed(image):
    lines = {}
    for device in ("cpu", "gpu", "tpu"):
        done = install(image, device)
        shutil.rmtree(image / "programs")
        lines[device] = done.stdout.strip() or (done.returncode, done.stderr.strip())
    assert lines["gpu"] == lines["cpu"] + " tensorflow[and-cuda] jax[cuda12]"
    assert lines["tpu"] == (2, "DEVICE must be cpu or gpu. Received: tpu")
    assert dict(part.split("=") for part in texts("ARG")) == {"DEVICE": "cpu"}


@pytest.mark.slow
def test_what_is_copied_installs_and_runs(image):
    done = install(image, "cpu", ["--target=installed", "--no-deps", *WITHOUT_NETWORK])
    assert done.returncode == 0, done.stderr
    called = subprocess.run(
        [sys.executable, image / "installed" / "bin" / "keras-transformer", "--version"],
        cwd=image / "installed",
        env={**os.environ, "PYTHONPATH": str(image / "installed")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert called.stdout == f"keras-transformer {__version__}\n"


@pytest.mark.slow
def test_the_constraints_fit_what_is_installed(image):
    done = install(image, "cpu", ["--dry-run", *WITHOUT_NETWORK])
    assert done.returncode == 0, done.stderr
    assert f"Would install keras-transformer-garden-{__version__}\n" in done.stdout


def test_hadolint_finds_nothing():
    assert lint("hadolint", DOCKERFILE) == (0, "")
