"""What docs/jax.md shows; `tests/recipes/test_jax.py` trains the same without TensorFlow."""

import importlib.metadata
import re
import shlex

import pytest

from benchmarks import training_step
from tests.pages.page import ROOT, Page
from tests.pages.shell import SMALL_PROGRAM, install, start
from tests.training.devices.test_machines import ends
from tests.translation_training.number_text import SMALL, flags, write_pairs

PAGE = Page("docs/jax.md")


def test_its_benchmarks_are_understood():
    commands = PAGE.commands("make benchmark-training")
    assert len(commands) == 2
    for (arguments,) in commands:
        options = training_step._parser().parse_args(shlex.split(arguments.removeprefix("ARGS=")))
        assert options.backend == "jax"
    (small,) = re.findall("`(--preset tiny .*?)`", PAGE.text)
    assert training_step._parser().parse_args(small.split()).steps == 20


def test_its_cuda_is_that_of_the_docker_image_and_of_tensorflow():
    (extra,) = re.findall(r"jax\[(cuda\d+)\]", PAGE.text)
    dockerfile = (ROOT / "deploy" / "docker" / "Dockerfile").read_text("utf-8")
    assert re.findall(r"jax\[(.*?)\]", dockerfile) == [extra]
    version = extra.removeprefix("cuda")
    assert f"CUDA {version}" in Page("docs/tutorials/get_started.md").text
    assert extra in importlib.metadata.metadata("jax").get_all("Provides-Extra")
    of_tensorflow = " ".join(importlib.metadata.requires("tensorflow"))
    assert set(re.findall(r"nvidia-\S+-cu(\d+)", of_tensorflow)) == {version}


@pytest.mark.slow
@pytest.mark.tensorflow  # once, not again in the run of JAX
def test_its_commands_train_and_translate(tmp_path):
    write_pairs(tmp_path, "train")
    (tmp_path / "new.en").write_text("one two\n\nfive\n", "utf-8")
    environment = install(tmp_path / "bin", SMALL_PROGRAM, small=flags(**{**SMALL, "steps": 2}))
    block = PAGE.blocks("sh")[0]
    install_line, rest = block.split("\n", 1)
    assert install_line.startswith("pip install")
    code, out, errors = ends(start(rest, environment, tmp_path))
    assert code == 0, errors
    assert len(out.splitlines()) >= 3
    assert out.splitlines()[-2] == ""
