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
from keras_transformer.toolkit.app import API_KEY
from keras_transformer.toolkit.app.server import bound_socket
from keras_transformer.toolkit.cli.verbs import app_command
from tests.cli.refusals import refusal


@pytest.fixture
def run(tmp_path):
    """The path of a run whose record is all that is read before Keras is there."""
    tokenizer = SentencePieceTokenizer.train(["a house"], vocabulary_size=15)
    (tmp_path / "run").mkdir()
    record = new_record(tokenizer).as_json()
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    return str(tmp_path / "run")


@pytest.fixture
def refused(monkeypatch, call):
    """Run the verb without Keras; gives its one line of error."""

    def no_backend():
        raise AssertionError("It loads Keras before it knows that it can listen.")

    monkeypatch.setattr(app_command, "start_backend_quietly", no_backend)

    return lambda *arguments: refusal(call("app", *arguments))


def test_a_run_that_is_none_is_one_line(refused, run, tmp_path):
    said = refused(run, str(tmp_path))
    assert said == f"error: The directory {tmp_path} is not a run of keras_transformer.\n"


def test_a_port_in_use_is_one_line(refused, run):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert refused(run, "--port", str(port)) == (
            f"error: Port {port} of 127.0.0.1 cannot be used (Address already in use): choose "
            "another with `--port`, or 0 for any free port.\n"
        )


def test_of_two_apps_that_start_together_one_has_the_port(refused, run):
    with bound_socket("127.0.0.1", 0) as other:  # which loads its runs
        port = other.getsockname()[1]
        assert "Address already in use" in refused(run, "--port", str(port))


WRONG = {
    "--port": (["65536", "100000"], "must be a number from 0 to 65535. Received: "),
    "--host": (
        ["example.org", "256.0.0.1", "", "0", "x" * 300, "\u2603"],
        "must be an address of this machine, such as 127.0.0.1 or 0.0.0.0, or ",
    ),
    "--name": (
        ["", "a b", "example.org:80", "http://example.org", "a..b", "ä"],
        "must be a host name such as translate.example.org, without a port. ",
    ),
    "--title": (
        ["", " ", "a\nb", "\x1b[31m", "\ud800", "x" * 101],
        "must be a line of 1 to 100 printable characters. Received: ",
    ),
    "--source-language": (
        ["", "english", "e", "../en", "en\n"],
        "must be a code such as en or pt-BR. ",
    ),
}


@pytest.mark.parametrize(
    ("flag", "value"), [(flag, value) for flag, (wrong, _) in WRONG.items() for value in wrong]
)
def test_a_wrong_value_is_one_line(refused, run, flag, value):
    said = refused(run, "--port=0", "--name=example.org", f"{flag}={value}")
    assert said.startswith(f"error: `{flag}` {WRONG[flag][1]}")


@pytest.mark.parametrize("key", ["", " \n"])
def test_an_empty_key_is_refused(refused, run, monkeypatch, key):
    monkeypatch.setenv(API_KEY, key)
    expected = f"error: The environment variable `{API_KEY}` must not be empty.\n"
    assert refused(run) == expected


def test_without_fastapi_the_command_to_install_it_is_told(refused, run, monkeypatch):
    imported = builtins.__import__

    def without_fastapi(name, *arguments, **keywords):
        if name == "fastapi":
            raise ModuleNotFoundError("No module named 'fastapi'", name="fastapi")
        return imported(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without_fastapi)
    expected = f"error: FastAPI and uvicorn are not installed: {pip_install('app')}\n"
    assert refused(run) == expected


@pytest.mark.slow
def test_it_listens_answers_and_ends_with_ctrl_c(trained_run, tmp_path):
    command = [sys.executable, "-m", "keras_transformer", "app", str(trained_run), "--port", "0"]
    options = "--host 0.0.0.0 --most-sentences 2 --name translate.example".split()
    with subprocess.Popen(
        [*command, *options, "--title", "Our <translator>"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2", API_KEY: "secret-key"},
    ) as process:
        said = process.stdout.readline()
        port = re.fullmatch(r"Open http://0\.0\.0\.0:(\d+)/ in a browser\. .*\n", said)[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
            assert "<h1>Our &lt;translator&gt;</h1>" in client.get("/").text
            runs = client.get("/api/runs").json()
            assert [run["name"] for run in runs["runs"]] == [trained_run.name]
            assert runs["limits"]["sentences"] == 2
            assert client.post("/api/translate", json={"text": "one\ntwo\nsix"}).status_code == 413
            for name, status in (("translate.example", 200), ("another.example", 403)):
                assert client.get("/api/runs", headers={"Host": name}).status_code == status
            fields = {"q": "one", "source": "en", "target": "de"}
            for key, status in (("wrong", 403), ("secret-key", 400)):  # the run has no languages
                response = client.post("/translate", data=fields | {"api_key": key})
                assert response.status_code == status
            with client.stream(
                "POST", "/api/translate/stream", json={"text": "one two\nthree"}
            ) as response:
                assert response.read().endswith(b'{"event":"end"}\n')
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        warning = process.stderr.read()
    assert warning == (
        f"warning: other machines can reach http://0.0.0.0:{port}/: it has no password and no "
        "encryption.\n"
        "warning: slow clients can block the app for everyone. To give other people access, "
        "listen on 127.0.0.1 behind a proxy such as nginx (docs/app.md).\n"
    )
