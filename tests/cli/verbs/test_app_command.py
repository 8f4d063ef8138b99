"""`keras-transformer app`: as a process, and what it refuses before it loads a model."""

import builtins
import json
import os
import re
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from keras_transformer.installation import pip_install
from keras_transformer.runs.run_records import new_record
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.toolkit import cli
from keras_transformer.toolkit.app.server import bound_socket
from keras_transformer.toolkit.cli.verbs import app_command


@pytest.fixture
def run(tmp_path):
    """The path of a run whose record is all that is read before Keras is there."""
    tokenizer = SentencePieceTokenizer.train(["a house"], vocabulary_size=15)
    (tmp_path / "run").mkdir()
    record = new_record(tokenizer).as_json()
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    return str(tmp_path / "run")


@pytest.fixture
def refused(monkeypatch, capsys):
    """Run the verb without Keras; gives its one line of error."""

    def no_backend():
        raise AssertionError("It loads Keras before it knows that it can listen.")

    monkeypatch.setattr(app_command, "start_backend_quietly", no_backend)

    def run(*arguments):
        assert cli.main(["app", *arguments]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.count("\n") == 1
        return printed.err.removesuffix("\n")

    return run


def test_a_run_that_is_none_is_one_line(refused, run, tmp_path):
    said = refused(run, str(tmp_path))
    assert said == f"error: The directory {tmp_path} is not a run of keras_transformer."


def test_a_port_in_use_is_one_line(refused, run):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert refused(run, "--port", str(port)) == (
            f"error: Port {port} of 127.0.0.1 cannot be used (Address already in use): choose "
            "another with `--port`, or 0 for any free port."
        )


def test_of_two_apps_that_start_together_one_has_the_port(refused, run):
    with bound_socket("127.0.0.1", 0) as other:  # which loads its runs
        port = other.getsockname()[1]
        assert "Address already in use" in refused(run, "--port", str(port))


@pytest.mark.parametrize("port", ["65536", "100000"])
def test_a_port_beyond_the_last_is_one_line(refused, run, port):
    said = refused(run, "--port", port)
    assert said == f"error: `--port` must be a number from 0 to 65535. Received: {port}"


@pytest.mark.parametrize("host", ["example.org", "256.0.0.1", "", "0", "x" * 300, "\u2603"])
def test_a_host_of_another_machine_is_one_line(refused, run, host):
    assert refused(run, "--port", "0", "--host", host).startswith(
        "error: `--host` must be an address of this machine, such as 127.0.0.1 or 0.0.0.0, or "
    )


@pytest.mark.parametrize("name", ["", "a b", "example.org:80", "http://example.org", "a..b", "ä"])
def test_a_name_is_that_of_a_host(refused, run, name):
    said = refused(run, "--name", "example.org", f"--name={name}")
    assert said.startswith(
        "error: `--name` must be a host name such as translate.example.org, without a port. "
    )


@pytest.mark.parametrize("code", ["", "english", "e", "../en", "en\n"])
def test_a_language_is_given_by_its_code(refused, run, code):
    said = refused(run, "--source-language", code)
    assert said.startswith("error: `--source-language` must be a code such as en or pt-BR. ")


def test_without_fastapi_the_command_to_install_it_is_told(refused, run, monkeypatch):
    imported = builtins.__import__

    def without_fastapi(name, *arguments, **keywords):
        if name == "fastapi":
            raise ModuleNotFoundError("No module named 'fastapi'", name="fastapi")
        return imported(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without_fastapi)
    assert refused(run) == (f"error: FastAPI and uvicorn are not installed: {pip_install('app')}")


@pytest.mark.slow
def test_it_listens_answers_and_ends_with_ctrl_c(trained_run, tmp_path):
    command = [sys.executable, "-m", "keras_transformer", "app", str(trained_run), "--port", "0"]
    with subprocess.Popen(
        [*command, "--host", "0.0.0.0", "--most-sentences", "2", "--name", "translate.example"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"},
    ) as process:
        said = process.stdout.readline()
        port = re.fullmatch(r"Open http://0\.0\.0\.0:(\d+)/ in a browser\. .*\n", said)[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
            runs = client.get("/api/runs").json()
            assert [run["name"] for run in runs["runs"]] == [trained_run.name]
            assert runs["limits"]["sentences"] == 2
            assert client.post("/api/translate", json={"text": "one\ntwo\nsix"}).status_code == 413
            for name, status in (("translate.example", 200), ("another.example", 403)):
                assert client.get("/api/runs", headers={"Host": name}).status_code == status
            with client.stream(
                "POST", "/api/translate/stream", json={"text": "one two\nthree"}
            ) as response:
                assert response.read().endswith(b'{"event":"end"}\n')
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        warning = process.stderr.read()
    assert warning == (
        f"warning: others can reach http://0.0.0.0:{port}/: it has neither a password nor "
        "encryption.\n"
    )
