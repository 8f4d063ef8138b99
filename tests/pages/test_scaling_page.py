"""What docs/scaling.md computes and shows."""

import json
import re
import shlex

import pytest

from keras_transformer.cli import make_parser
from keras_transformer.commands.arguments.translate_arguments import check_combinations
from keras_transformer.models import PRESETS
from keras_transformer.runs.run_directory import RunDirectory
from tests.models.test_transformer import count_parameters
from tests.pages.page import Page
from tests.pages.shell import RECORDER, SMALL_PROGRAM, install, start
from tests.training.devices.test_machines import ends, free_addresses
from tests.translation_training.number_text import SMALL, flags, write_pairs

PAGE = Page("docs/scaling.md")
TENSORFLOW, JAX = (block for block in PAGE.blocks("sh") if "export" in block)
UNITS = {"B": 1, "MB": 1e6, "GB": 1e9}


def parameters(name):
    return count_parameters(PRESETS[name], 37_000)


def test_it_names_the_numbers_of_parameters():
    said = re.search(r"([\d.]+) million for the base model and ([\d.]+) million for", PAGE.text)
    for text, name in zip(said.groups(), ("base", "big"), strict=True):
        assert float(text) == pytest.approx(parameters(name) / 1e6, abs=0.05)


def test_its_bytes_are_those_of_the_formulas():
    rows = re.findall(r"^\| .*?\| ?(\d+) P \| ([\d.]+ GB) \| ([\d.]+ GB) \|", PAGE.text, re.M)
    assert len(rows) == 6
    for factor, *cells in rows:
        for cell, name in zip(cells, ("base", "big"), strict=True):
            number, unit = cell.split()
            expected = int(factor) * parameters(name)
            assert float(number) * UNITS[unit] == pytest.approx(expected, rel=0.03), (factor, cell)
    pair = re.search(r"ids 4 x (\d+), offsets (\d+), line number (\d+) \| (\d+) B", PAGE.text)
    ids, offsets, line_number, total = map(int, pair.groups())
    assert 4 * ids + offsets + line_number == total


def test_every_machine_gets_a_description_of_the_group(tmp_path):
    calls = tmp_path / "calls"
    calls.mkdir()
    environment = install(tmp_path / "bin", RECORDER, calls=str(calls))
    for block in (TENSORFLOW, JAX):
        code, _, errors = ends(start(block, environment, tmp_path))
        assert code == 0, errors
    on_tensorflow, on_jax = (json.loads((calls / f"{i}.json").read_text()) for i in range(2))
    for call in (on_tensorflow, on_jax):
        assert make_parser().parse_args(call["arguments"]).resume
    cluster = json.loads(on_tensorflow["environment"]["TF_CONFIG"])
    assert len(cluster["cluster"]["worker"]) == 2
    assert cluster["task"] == {"type": "worker", "index": 0}
    assert on_jax["environment"] == {
        "KERAS_BACKEND": "jax",
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": "10.0.0.1:12345,10.0.0.2:12345",
        "KERAS_DISTRIBUTION_NUM_PROCESSES": "2",
        "KERAS_DISTRIBUTION_PROCESS_ID": "0",
    }


def test_lines_are_answered_on_a_cluster(tmp_path):
    parser = make_parser()
    blocks = [block.replace("\\\n", " ") for block in PAGE.blocks("sh") if "--cluster" in block]
    lines = [line for block in blocks for line in block.splitlines() if "--cluster" in line]
    local, scores, several = (parser.parse_args(shlex.split(line)[1:]) for line in lines)
    assert (local.cluster, local.input, local.output) == ("local", ["news/*.en"], "news_de")
    assert (scores.cluster, scores.target) == ("local", ["news/*.de"])
    assert (several.cluster, several.column) == ("10.0.0.1:6379", "en")
    check_combinations(several)


@pytest.mark.slow
@pytest.mark.tensorflow  # once, not again in the run of JAX
@pytest.mark.parametrize(
    ("block", "of_the_second"),
    [
        (TENSORFLOW, ('"index": 0}', '"index": 1}')),
        (JAX, ("PROCESS_ID=0", "PROCESS_ID=1")),
    ],
    ids=["tensorflow", "jax"],
)
def test_two_machines_train_by_the_page(tmp_path, block, of_the_second):
    write_pairs(tmp_path, "train")
    environment = install(tmp_path / "bin", SMALL_PROGRAM, small=flags(**{**SMALL, "steps": 2}))
    addresses = zip(("10.0.0.1:12345", "10.0.0.2:12345"), free_addresses(2), strict=True)
    block = block.replace("/shared/", "")
    for there, here in addresses:
        assert there in block
        block = block.replace(there, here)
    assert block.count(of_the_second[0]) == 1
    scripts = (block, block.replace(*of_the_second))
    for process in [start(script, environment, tmp_path) for script in scripts]:
        code, _, errors = ends(process)
        assert code == 0, errors
    assert RunDirectory(tmp_path / "runs" / "en_de").scores_path.exists()
