"""What docs/scaling.md computes and shows."""

import contextlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

import pytest

from benchmarks import step_memory
from keras_transformer.models import PRESETS
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.toolkit.cli import make_parser
from keras_transformer.toolkit.cli.verbs.translate_command import line_options
from keras_transformer.training.step_sums import BLOCK_BYTES, BLOCK_BYTES_OF_ACCELERATORS
from tests.models.test_transformer import count_parameters
from tests.pages.page import Page
from tests.pages.shell import RECORDER, SMALL_PROGRAM, install, start, write_program
from tests.python_programs import run_python
from tests.training.devices.test_machines import ends, free_addresses
from tests.translation_training.number_text import SMALL, flags, write_pairs

PAGE = Page("docs/scaling.md")
TENSORFLOW, JAX = (block for block in PAGE.blocks("sh") if "resume" in block)
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


def test_its_measured_memory_is_that_of_the_notes():
    (table,) = re.findall(r"^\| device \| precision \| .*?\n\n", PAGE.text, re.M | re.DOTALL)
    notes = Page("docs/lab/scaling.md").text + Page("docs/lab/gpu.md").text
    figures = re.findall(r"([\d.]+) GiB", table)
    assert len(figures) == 6
    assert [one for one in figures if not re.search(rf"\b{re.escape(one)}\b", notes)] == []


def test_its_estimate_is_in_the_table_of_memory():
    (command,) = PAGE.commands("python -m benchmarks.step_memory")
    options = step_memory._parser().parse_args(command)
    (printed,) = PAGE.blocks("text")
    head, *sizes = printed.splitlines()
    assert head == (
        f"{options.preset}, {options.precision}, {options.rows} x {options.length} tokens a side"
    )
    *parts, total = [float(line.split()[1]) for line in sizes]
    assert sum(parts) == pytest.approx(total, abs=0.02)
    row = f"{options.precision} | {options.rows} of {options.length} tokens | {total:.1f} GiB |"
    assert row in PAGE.text


def test_its_logits_are_those_of_the_step():
    blocks = re.search(r"at most (\d+) MiB on CPUs and (\d+) MiB on GPUs", PAGE.text).groups()
    assert [int(size) << 20 for size in blocks] == [BLOCK_BYTES, BLOCK_BYTES_OF_ACCELERATORS]
    all_of_them = re.search(r"8 bytes .* subword: ([\d.]+) GB for 25,000 tokens", PAGE.text)[1]
    assert float(all_of_them) * UNITS["GB"] == 8 * 37_000 * 25_000


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
    ours = "KERAS_TRANSFORMER_"  # of who runs the tests
    assert {k: v for k, v in on_jax["environment"].items() if not k.startswith(ours)} == {
        "KERAS_BACKEND": "jax",
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": "10.0.0.1:12345,10.0.0.2:12345",
        "KERAS_DISTRIBUTION_NUM_PROCESSES": "2",
        "KERAS_DISTRIBUTION_PROCESS_ID": "0",
    }


def commands_with(text):
    """The commands of the page's shell blocks that have a text, each on one line."""
    blocks = [block.replace("\\\n", " ") for block in PAGE.blocks("sh")]
    return [line for block in blocks for line in block.splitlines() if text in line]


def test_commands_for_a_cluster(tmp_path):
    parser = make_parser()
    values = [parser.parse_args(shlex.split(line)[1:]) for line in commands_with("--cluster")]
    train, local, scores, several = values
    assert train.cluster == "10.0.0.1:6379"
    assert (local.cluster, local.input, local.output) == ("local", ["news/*.en"], "news_de")
    assert (scores.cluster, scores.target) == ("local", ["news/*.de"])
    assert (several.cluster, several.column) == ("10.0.0.1:6379", "en")
    line_options(several)


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


# Ray as on a machine of its own, with one CPU, which ends with its process.
ONE_NODE = """#!{python}
import os, sys
here = ["--block", "--num-cpus=1"] if sys.argv[1] == "start" else []
os.execv({ray!r}, [{ray!r}, *sys.argv[1:], *here])
"""


@pytest.fixture
def machines(tmp_path):
    """Starts Ray by the page's commands on two machines, which are this one."""
    pytest.importorskip("ray")
    (address,) = free_addresses(1)
    environment = install(tmp_path / "bin", SMALL_PROGRAM, small=flags(**{**SMALL, "steps": 2}))
    environment |= {
        "HOME": str(tmp_path),  # where the token is
        "RAY_AUTH_MODE": commands_with("RAY_AUTH_MODE")[0].split()[1].partition("=")[2],
        "RAY_worker_niceness": "0",
    }
    ray = pathlib.Path(sys.executable).with_name("ray")
    write_program(tmp_path / "bin" / "ray", ONE_NODE, ray=str(ray))

    def here(command):
        port = address.rpartition(":")[2]
        command = command.replace("10.0.0.1", "127.0.0.1").replace("6379", port)
        return command.replace("/shared/", "").replace("s3://bucket/", "")

    (token,) = commands_with("ray get-auth-token")
    assert ends(start(token, environment, tmp_path))[0] == 0
    assert (tmp_path / ".ray" / "auth_token").is_file()
    started = []
    for command in commands_with("ray start"):
        log = open(tmp_path / f"{len(started)}.log", "w")  # noqa: SIM115 - of the process
        started.append(
            subprocess.Popen(
                ["bash", "-c", f"exec {here(command)}"],
                env=environment, cwd=tmp_path, stdout=log, stderr=log, start_new_session=True,
            )
        )  # fmt: skip
    try:
        wait_for_nodes(len(started), here("10.0.0.1:6379"), environment)
        yield here, environment
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(timeout=60)


def wait_for_nodes(number, address, environment):
    """Wait until a cluster has so many nodes."""
    program = (
        "import ray; ray.init(%r, logging_level='ERROR', log_to_driver=False); "
        "print(sum(node['Alive'] for node in ray.nodes()))"
    )
    end = time.monotonic() + 300
    while time.monotonic() < end:
        with contextlib.suppress(subprocess.TimeoutExpired):
            found = subprocess.run(
                [sys.executable, "-c", program % address],
                env=environment, capture_output=True, text=True, timeout=60,
            )  # fmt: skip
            if found.stdout.strip().endswith(str(number)):
                return
            print(found.stdout, found.stderr)
        time.sleep(1)
    raise TimeoutError(f"No cluster of {number} nodes at {address}")


@pytest.mark.slow
@pytest.mark.tensorflow
def test_two_machines_form_a_cluster_by_the_page(tmp_path, machines):
    import pyarrow
    import pyarrow.parquet

    here, environment = machines
    (tmp_path / "news").mkdir()
    write_pairs(tmp_path, "train")
    write_pairs(tmp_path / "news", "monday", length=2)
    english = (tmp_path / "news" / "monday.en").read_text().splitlines()
    pyarrow.parquet.write_table(pyarrow.table({"en": english}), tmp_path / "web.parquet")
    for command in commands_with("--cluster"):
        code, _, errors = ends(start(here(command), environment, tmp_path))
        assert code == 0, (command, errors)
    assert RunDirectory(tmp_path / "runs" / "en_de").scores_path.exists()
    translations = [
        next((tmp_path / name).iterdir()).read_text().splitlines() for name in ("news_de", "web_de")
    ]
    assert len(translations[0]) == len(english)
    assert translations[0] == translations[1]
    (scores,) = (tmp_path / "scores").iterdir()
    assert len(scores.read_text().splitlines()) == len(english)


# What makes the division of a model small, without a word of the example but its numbers.
DIVIDED = {
    '"big", vocabulary_size=32_000': '"tiny", vocabulary_size=40, num_encoder_layers=1, '
    "num_decoder_layers=1",
    "(2, 4)": "(2, 2)",
    "transformer_adam(1024)": "transformer_adam(128)",
    "batch_tokens=25_000": "batch_tokens=256",
}
TEXTS = """
from tests.translation_training.number_text import pairs
from keras_transformer import SentencePieceTokenizer
sources, targets = pairs(2)
tokenizer = SentencePieceTokenizer.train([*sources, *targets], vocabulary_size=40)
"""
SHARES = """
for weight in model.weights:
    if weight.path.endswith(("token_embedding/matrix", "expand/kernel")):
        print(weight.path, weight.value.addressable_shards[0].data.shape)
"""


@pytest.mark.slow
def test_a_model_is_divided_as_the_page_says():
    (code,) = PAGE.blocks("python")
    for there, small in DIVIDED.items():
        assert code.count(there) == 1, there
        code = code.replace(there, small)
    done = run_python(
        "-c",
        TEXTS + code + SHARES,
        cwd=PAGE.path.parents[1],
        KERAS_BACKEND="jax",
        XLA_FLAGS=f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4",
    )
    assert done.stdout.splitlines()[-3:] == [
        "embedding/token_embedding/matrix (20, 128)",
        "encoder_layer_1/feed_forward/expand/kernel (128, 128)",
        "decoder_layer_1/feed_forward/expand/kernel (128, 128)",
    ]
