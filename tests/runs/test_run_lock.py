"""Two trainings in one run directory: one trains, the other says who does."""

import errno
import fcntl
import json
import re
import signal
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from keras_transformer.errors import CannotWrite, UserInputError
from keras_transformer.runs.run_checkpoints import LOCK_NAME, run_lock
from keras_transformer.runs.run_directory import RunDirectory
from tests.forked_processes import ForkServer
from tests.runs.lock_holder import holder_of
from tests.translation_training.number_text import SMALL, write_pairs


@pytest.fixture
def holder(tmp_path):
    """Another process that holds tmp_path/run."""
    with holder_of(tmp_path / "run") as process:
        yield process


def take(path):
    with run_lock(path):
        return (path / LOCK_NAME).is_file()


def test_the_other_is_told_who_holds_it(holder, tmp_path):
    with pytest.raises(UserInputError) as error:
        take(tmp_path / "run")
    assert re.fullmatch(
        f"The run directory .*/run is in use by a training run: process {holder.pid} on "
        rf"{re.escape(socket.gethostname())} since \d{{4}}-\S+\. Wait until it ends, or choose "
        r"another directory\.",
        str(error.value),
    )


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, None])
def test_no_lock_outlives_its_process(holder, tmp_path, end):
    if end is None:
        holder.stdin.close()
    else:
        holder.send_signal(end)
    holder.wait()
    assert take(tmp_path / "run")


def test_what_was_empty_leaves_no_trace(tmp_path):
    assert take(tmp_path / "runs" / "first")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "thesis.txt").write_text("years of work")
    assert take(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_locked_directory_is_still_a_new_one(tmp_path):
    with run_lock(tmp_path / "run"):
        assert RunDirectory.create(tmp_path / "run").has_not_started()


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CannotWrite, match="Cannot write .*/file/run: Not a directory"):
        take(tmp_path / "file" / "run")


@pytest.fixture
def no_locks(monkeypatch):
    """A file system without locks."""

    def refuse(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)


@pytest.mark.usefixtures("no_locks")
@pytest.mark.filterwarnings("ignore:flock not supported")
def test_without_locks_the_file_says_who_holds_it(holder, tmp_path):
    run = tmp_path / "run"
    with pytest.raises(UserInputError, match=f"in use by a training run: process {holder.pid} on "):
        take(run)
    record = (run / LOCK_NAME).read_text()
    holder.kill()
    holder.wait()
    assert take(run)  # its process is gone
    run.mkdir(exist_ok=True)
    (run / LOCK_NAME).write_text(record.replace(socket.gethostname(), "another"))
    with pytest.raises(UserInputError, match="on another since "):
        take(run)  # nobody here can know


def trainings_at_once(servers, directory, path):
    """Exit codes and stderr of two trainings that are started together."""
    source, target = write_pairs(directory, "train", length=4)
    settings = directory / "settings.json"
    settings.write_text(json.dumps(SMALL | {"steps": 6, "save_every": 3}))
    texts = ["--source", source, "--target", target]
    command = ["train", *texts, "--run", str(path), "--settings", str(settings)]
    with ThreadPoolExecutor() as pool:
        ends = pool.map(lambda server: server.run(arguments=command), servers)
        return sorted((code, errors) for code, errors, _ in ends)


def check_one_trained(servers, directory, path):
    (code, _), (other_code, error) = trainings_at_once(servers, directory, path)
    assert (code, other_code) == (0, 2)
    assert re.search(
        "^error: The run directory .* (is in use by a training run|exists)", error, re.M
    )
    assert "Traceback" not in error
    run = RunDirectory.open(path)
    steps = [line.split(",")[0] for line in run.metrics_path.read_text().splitlines()]
    assert steps == ["step", *map(str, range(1, 7))]
    assert not any(
        map(
            run.checksums.is_damaged,
            [*run.checkpoints.paths(), *run.checkpoints.states(), run.weights_path],
        )
    )
    run.load_model()


@pytest.mark.slow
def test_two_trainings_at_once(tmp_path):
    servers = [ForkServer("tests.kills.killed_commands", "tensorflow") for _ in range(2)]
    for number in range(20):
        check_one_trained(servers, tmp_path, tmp_path / f"run{number}")
    for server in servers:
        server.close()
