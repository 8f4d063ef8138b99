"""Lines answered on a cluster of two nodes: as on one machine, whatever is killed."""

import contextlib
import gzip
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.toolkit import cli
from keras_transformer.toolkit.cluster import line_workers
from keras_transformer.toolkit.cluster.line_workers import answered_parts, scan_inputs
from keras_transformer.toolkit.cluster.ray_start import ray_cluster
from keras_transformer.toolkit.cluster.worker_resources import Workers
from tests.cluster.processes import processes
from tests.python_programs import run_python
from tests.translation_training.number_text import ENGLISH
from tests.waiting import wait_until

pytestmark = pytest.mark.tensorflow

SECONDS = 120
WORKER = "ray::MapWorker.*submit"  # one that is at a part


@pytest.fixture
def sentences(tmp_path):
    """A file of 600 sentences."""
    return write_sentences(tmp_path / "many.en", 600)


@pytest.fixture
def few_sentences(tmp_path):
    """A file of three parts."""
    return write_sentences(tmp_path / "few.en", 120)


def write_sentences(path, number):
    generator = random.Random(1)
    lines = [" ".join(generator.choices(ENGLISH, k=generator.randint(1, 4))) for _ in range(number)]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def expected(sentences, trained_run, tmp_path):
    """Their translations by one process."""
    return translations(sentences, trained_run, tmp_path)


def translations(sentences, trained_run, folder):
    """What one process translates."""
    path = folder / "expected"
    arguments = ["--input", sentences, "--output", path, "--batch-size", "5"]
    assert call("translate", trained_run, *arguments) == 0
    return path.read_text()


def call(*arguments):
    return cli.main([str(argument) for argument in arguments])


def on_cluster(cluster, trained_run, sentences, output, *arguments):
    """The arguments of a translation in parts of 50 lines."""
    return [
        "translate",
        trained_run,
        *("--input", sentences, "--output", output),
        *("--cluster", cluster.address, "--worker-cpus", 1),
        *("--batch-size", 5, "--block-lines", 50, *arguments),
    ]


@contextlib.contextmanager
def at_first_part(output, action):
    """Run `action` in a thread once a part of an output is written."""

    def wait():
        wait_for_lines(output, 1)
        action()

    thread = threading.Thread(target=wait)
    thread.start()
    yield
    thread.join()


@contextlib.contextmanager
def driving(command):
    """A process of the command line, which is killed if the block fails."""
    with subprocess.Popen([sys.executable, "-m", "keras_transformer", *command]) as driver:
        try:
            yield driver
        finally:
            driver.kill()


def wait_for_lines(output, number):
    wait_until(lambda: lines_done(output) >= number, SECONDS)


def lines_done(output):
    """How many lines of its only input an unfinished output covers."""
    with contextlib.suppress(FileNotFoundError):
        return json.loads(record_of(output).read_text())["lines_read"]
    return 0


def record_of(output):
    return output / ".partial-many.en.json"


def test_many_files_of_every_kind_are_translated_in_order(
    cluster, trained_run, few_sentences, tmp_path, capfd
):
    expected = translations(few_sentences, trained_run, tmp_path)
    compressed, output = tmp_path / "more.en.gz", tmp_path / "out"
    compressed.write_bytes(gzip.compress(few_sentences.read_bytes()))
    command = on_cluster(cluster, trained_run, few_sentences, output)
    command.insert(command.index("--output"), compressed)
    capfd.readouterr()
    assert call(*command) == 0
    assert (output / "few.en").read_text() == expected
    assert (output / "more.en").read_text() == expected
    assert sorted(os.listdir(output)) == ["few.en", "more.en"]
    assert capfd.readouterr().err == ""
    assert call(*command) == 2
    assert "few.en exists. It is not overwritten." in capfd.readouterr().err


@pytest.mark.slow
def test_scores_are_those_of_one_machine(
    cluster, trained_run, sentences, expected, tmp_path, capfd
):
    targets, output = tmp_path / "many.de", tmp_path / "scores"
    targets.write_text(expected)
    pairs = ["score", trained_run, "--source", sentences, "--target", targets, "--batch-size", 5]
    assert call(*pairs) == 0
    printed = capfd.readouterr().out
    cluster_flags = ["--cluster", cluster.address, "--worker-cpus", 1, "--block-lines", 160]
    assert call(*pairs, *cluster_flags, "--output", output) == 0
    assert (output / "many.en").read_text() == printed


@pytest.mark.slow
def test_a_line_that_is_too_long_for_a_score_waits_for_a_larger_limit(
    cluster, trained_run, sentences, tmp_path, capfd
):
    with sentences.open("a") as file:
        file.write("one " * 40 + "\n")
    output = tmp_path / "scores"
    flags = ["--cluster", cluster.address, "--worker-cpus", 1, "--block-lines", 50]
    command = ["score", trained_run, "--source", sentences, "--target", sentences, *flags]
    command += ["--output", output, "--workers", 1]
    assert call(*command, "--max-source-length", 30) == 2
    assert f"Line 601 of {sentences} has" in capfd.readouterr().err
    assert call(*command, "--max-source-length", 300) == 0
    assert re.search(r"resuming after line \d+ of 601", capfd.readouterr().err)
    assert len((output / "many.en").read_text().splitlines()) == 601


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "flags"),
    [
        ("jax", []),
        ("tensorflow", ["--engine", "ctranslate2"]),
        ("tensorflow", ["--engine", "saved-model"]),
        ("tensorflow", ["--engine", "litert"]),
    ],
)
def test_other_backends_and_engines_answer_as_well(
    cluster, trained_run, sentences, tmp_path, backend, flags
):
    run = shutil.copytree(trained_run, tmp_path / "run")
    expected = tmp_path / "expected"
    alone = ["--input", sentences, "--output", expected, "--batch-size", 5, *flags]
    assert call("translate", run, *alone) == 0
    command = on_cluster(cluster, run, sentences, tmp_path / "out", "--workers", 1, *flags)
    program = ["-m", "keras_transformer", *command]
    run_python(*program, KERAS_BACKEND=backend, JAX_PLATFORMS="cpu")
    assert (tmp_path / "out" / "many.en").read_text() == expected.read_text()


@pytest.mark.slow
def test_a_killed_worker_costs_its_part(cluster, trained_run, sentences, expected, tmp_path, capfd):
    output, killed = tmp_path / "out", []

    def kill():
        killed.append(processes(cluster, WORKER)[0])
        os.kill(killed[0], signal.SIGKILL)

    with at_first_part(output, kill):
        assert call(*on_cluster(cluster, trained_run, sentences, output)) == 0
    assert killed
    assert (output / "many.en").read_text() == expected
    assert re.search(
        rf"A worker was lost while processing lines \d+ to \d+ of {sentences}: "
        r"another worker repeats them\n",
        capfd.readouterr().err,
    )


def test_bad_lines_and_clusters_are_one_line_on_stderr(
    cluster, trained_run, few_sentences, tmp_path, capfd
):
    with few_sentences.open("a") as file:
        file.write("one " * 40 + "\n")
    output = tmp_path / "out"
    flags = ["--max-source-length", 30, "--workers", 1]
    assert call(*on_cluster(cluster, trained_run, few_sentences, output, *flags)) == 2
    error = capfd.readouterr().err.splitlines()
    assert len(error) == 1
    assert f"Line 121 of {few_sentences} has" in error[0]
    # The same with lines cut goes on, in parts of the size that it began with.
    flags += ["--long-lines", "cut", "--block-lines", 7]
    assert call(*on_cluster(cluster, trained_run, few_sentences, output, *flags)) == 0
    printed = capfd.readouterr().err
    assert "keeping blocks of 50 lines" in printed
    assert re.search(r"resuming after line \d+ of 121", printed)
    assert len((output / "few.en").read_text().splitlines()) == 121
    output = tmp_path / "other"
    for_a_uri = on_cluster(cluster, trained_run, few_sentences, "s3://bucket/out")
    assert call(*for_a_uri) == 2
    assert "not a URI. Received: s3://bucket/out" in capfd.readouterr().err
    assert call(*on_cluster(cluster, trained_run, few_sentences, output, "--workers", 9)) == 2
    assert "room for 2 workers of 1 CPUs. Received: 9 workers" in capfd.readouterr().err
    cluster_of_none = on_cluster(cluster, trained_run, few_sentences, output, "--cluster", "no:1")
    assert call(*cluster_of_none) == 2
    assert "The Ray cluster no:1 cannot be joined" in capfd.readouterr().err


class BackendName:
    """Work that answers each line with the backend of its worker."""

    def load(self):
        import keras

        return lambda lines, paths, first_index: [keras.backend.backend() for _ in lines]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_workers_have_the_backend_of_the_command(cluster, tmp_path, monkeypatch, backend):
    path = tmp_path / "lines.en"
    path.write_text("a\nb\n")
    monkeypatch.setattr(line_workers, "backend_name", lambda: backend)
    assert answers(cluster, BackendName().load, path, Workers(1, 1)) == [backend] * 2


def answers(cluster, work, path, workers):
    """The answers to the lines of a file."""
    with ray_cluster(cluster.address) as ray:
        inputs = scan_inputs(ray, [[(str(path), "text")]], 5)
        parts = answered_parts(ray, work, inputs, [0], workers)
        return [line for part in parts for line in part.lines]


class Deadly:
    """Work that ends its worker, at loading or at a line."""

    def __init__(self, line):
        self.line = line

    def load(self):
        return self.answer if self.line else os._exit(1)

    def answer(self, lines, paths, first_index):
        return os._exit(1) if self.line in lines else lines


@pytest.mark.slow
@pytest.mark.parametrize(("line", "first"), [("line 30", 26), (None, 1)])
def test_what_ends_every_worker_ends_the_job(cluster, tmp_path, line, first):
    path = tmp_path / "numbered.en"
    path.write_text("".join(f"line {i + 1}\n" for i in range(60)))
    message = (
        f"4 workers were lost while processing lines {first} to {first + 4} of {path}, as happens "
        "if memory"
    )
    done = [0]
    with ray_cluster(cluster.address) as ray:
        inputs = scan_inputs(ray, [[(str(path), "text")]], 5)
        with pytest.raises(UserInputError, match=message):
            list(answered_parts(ray, Deadly(line).load, inputs, done, Workers(2, 1)))
    assert done == [first - 1]


class FailsOnce:
    """Work that raises an error in its first worker, as a damaged device does."""

    def __init__(self, path):
        self.path = path

    def load(self):
        return self.answer

    def answer(self, lines, paths, first_index):
        if first_index == 10 and not self.path.exists():
            self.path.touch()
            raise RuntimeError("device lost")
        return [line.upper() for line in lines]


@pytest.mark.slow
def test_an_error_of_a_worker_is_tried_in_another(cluster, tmp_path, capfd):
    path = tmp_path / "numbered.en"
    path.write_text("".join(f"line {i + 1}\n" for i in range(20)))
    found = answers(cluster, FailsOnce(tmp_path / "failed").load, path, Workers(2, 1))
    assert found == [f"LINE {i + 1}" for i in range(20)]
    assert "A worker was lost (RuntimeError: device lost): the others continue" in (
        capfd.readouterr().err
    )


@pytest.mark.slow
def test_thousands_of_sentences_survive_every_loss(cluster, trained_run, tmp_path, pytestconfig):
    number = pytestconfig.getoption("--lines")
    sentences = write_sentences(tmp_path / "many.en", number)
    expected, output = tmp_path / "expected", tmp_path / "out"
    batches = ["--batch-size", 50]
    assert call("translate", trained_run, "--input", sentences, "--output", expected, *batches) == 0
    command = on_cluster(cluster, trained_run, sentences, output, *batches)
    command = [str(x) for x in command]
    node = cluster.add_node(num_cpus=1)
    with driving(command) as driver:
        wait_for_lines(output, number // 20)
        os.kill(processes(cluster, WORKER)[0], signal.SIGKILL)
        wait_for_lines(output, number // 5)
        wait_until(lambda: processes(cluster, WORKER, node), SECONDS)
        cluster.remove_node(node, allow_graceful=False)
        wait_for_lines(output, number * 2 // 5)
        driver.kill()
        assert driver.wait(SECONDS) == -signal.SIGKILL
    done = lines_done(output)
    assert number * 2 // 5 <= done < number
    partial = output / ".partial-many.en"
    with partial.open("r+b") as file:
        file.write(b"X")  # it is not made again
    before = partial.read_bytes()[: json.loads(record_of(output).read_text())["bytes"]]
    with driving(command) as driver:
        wait_for_lines(output, done + number // 20)
        assert partial.read_bytes().startswith(before)
        assert driver.wait(10 * SECONDS) == 0
    assert (output / "many.en").read_text() == "X" + expected.read_text()[1:]
