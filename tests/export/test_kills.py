"""Exports that are killed twenty times: what can be seen is whole."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keras_transformer.files import PARTIAL_DIRECTORY
from tests.export.killed_exports import is_whole, next_name, write_files

KILLS = 20
PROGRAM = [sys.executable, "-m", "tests.export.killed_exports"]


def start(*arguments):
    """Start a process that exports on and on, and wait until it begins."""
    process = subprocess.Popen(
        [*PROGRAM, *map(str, arguments)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "KERAS_BACKEND": "tensorflow"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "begins\n"
    return process


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.communicate()


def left_over(directory):
    return [path.name for path in directory.iterdir() if path.name.startswith(PARTIAL_DIRECTORY)]


def visible(directory):
    return {path.name: path for path in directory.iterdir() if path.name.isdigit()}


def test_directories_of_a_killed_process_are_whole(tmp_path, random_seed):
    """At file operations of the first exports, of which each has some 25."""
    from keras_transformer.files import write_directory

    moments, seen_left_over = random.Random(random_seed), 0
    for number in range(KILLS):
        operation = moments.randint(1, 60)
        print(f"kill {number + 1} at operation {operation}")
        process = start("small", tmp_path, operation)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert all(is_whole(path) for path in visible(tmp_path).values())
        seen_left_over += len(left_over(tmp_path))
        assert len(left_over(tmp_path)) <= 1, f"kill {number}: what the one before left is there"
    assert seen_left_over  # some kills came while a directory was being written
    write_directory(tmp_path, lambda: next_name(tmp_path), write_files)
    assert left_over(tmp_path) == []
    numbers = sorted(map(int, visible(tmp_path)))
    assert numbers == list(range(1, len(numbers) + 1))


def test_two_processes_take_no_name_twice_and_leave_each_other_alone(tmp_path):
    processes = [start("small", tmp_path) for _ in range(2)]
    written = [[process.stdout.readline() for _ in range(15)] for process in processes]
    for process in processes:
        assert process.poll() is None  # no error has ended it
        kill(process)
    assert written == [["exported\n"] * 15] * 2
    numbers = sorted(map(int, visible(tmp_path)))
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 30
    assert all(is_whole(path) for path in visible(tmp_path).values())


@pytest.mark.slow
@pytest.mark.tensorflow
def test_every_version_that_a_killed_export_leaves_runs(trained_run, tmp_path, random_seed):
    """Each process exports on and on, and is killed somewhere in its first or second export."""
    from keras_transformer.formats.saved_model.writer import export_saved_model
    from keras_transformer.inference.translator import Translator
    from tests.export.exported_signatures import ExportedSignatures

    translator = Translator.load(trained_run)
    began = time.monotonic()
    directory = export_saved_model(translator, tmp_path / "digits").parent
    seconds = time.monotonic() - began
    expected = translator.translate(["one two three four"])
    moments, checked, seen_left_over = random.Random(random_seed), set(), 0
    for number in range(KILLS):
        process = start("saved-model", directory, trained_run)
        moment = moments.uniform(0, 1.2) * seconds
        time.sleep(moment)
        while number == 0 and not left_over(directory):
            time.sleep(0.001)  # one kill at least comes while a directory is being written
        kill(process)
        names = set(visible(directory)) - checked
        print(f"kill {number + 1} after {moment:.2f} s: versions {sorted(names)} are new")
        for name in names:
            found = ExportedSignatures(directory / name)
            outputs = found.run("translate", inputs=["one two three four"])["outputs"]
            assert outputs.tolist() == expected
        checked |= names
        seen_left_over += len(left_over(directory))
        assert len(left_over(directory)) <= 1
    assert seen_left_over
    assert checked >= {"1"}
    path = export_saved_model(translator, directory)
    assert path.name == str(len(checked) + 1)
    assert left_over(directory) == []
