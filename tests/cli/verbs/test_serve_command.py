import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from keras_transformer.runs.checksums import write_checksums
from keras_transformer.toolkit.serving.model_server import BINARY, ExportedModel, ServerOptions
from tests.cli.refusals import refusal

COMMAND = """
import sys
from keras_transformer.toolkit.cli import main

code = main()
heavy = {"keras", "tensorflow"} & sys.modules.keys()
sys.exit(f"imported {heavy}" if heavy else code)
"""
WARNING = (
    "warning: other machines can reach the server, which listens on all network interfaces: "
    "it has no password and no encryption.\n"
)
# Stands for the server: it prints its arguments, and ends as a server does.
FAKE_SERVER = '#!/bin/sh\nprintf "%s\\n" "$0" "$@"\nexit 7\n'
# Stands for Docker: what asks for the daemon's version is answered, or not.
FAKE_DOCKER = '#!/bin/sh\nif [ "$1" = version ]; then exit {}; fi\n' + FAKE_SERVER[10:]


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "en_de" / "1").mkdir(parents=True)
    (tmp_path / "en_de" / "1" / "saved_model.pb").touch()
    write_checksums(tmp_path / "en_de" / "1")
    return tmp_path / "en_de"


@pytest.fixture
def programs(tmp_path):
    """A directory that is the whole PATH, empty at first."""
    path = tmp_path / "programs"
    path.mkdir()
    return path


def add_program(programs, name, text):
    path = programs / name
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def serve(programs, directory):
    """Run the verb; gives (exit code, stdout as lines, stderr)."""

    def run(*flags):
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, "serve", str(directory), *flags],
            env=os.environ | {"PATH": str(programs)},
            capture_output=True,
            text=True,
            timeout=600,
        )
        return done.returncode, done.stdout.splitlines(), done.stderr

    return run


@pytest.fixture
def ports():
    """Flags with two ports that are free."""
    with socket.create_server(("", 0)) as first, socket.create_server(("", 0)) as second:
        port, rest_port = first.getsockname()[1], second.getsockname()[1]
    return ServerOptions(port=port, rest_port=rest_port)


def flags(options):
    return [f"--port={options.port}", f"--rest-port={options.rest_port}"]


def test_the_command_becomes_the_server(serve, programs, directory, ports):
    server = add_program(programs, BINARY, FAKE_SERVER)
    code, lines, stderr = serve(*flags(ports))
    assert (code, lines[0]) == (7, server)
    assert lines[1:] == ExportedModel(directory).server_command(ports)[1:]
    url = f"http://localhost:{ports.rest_port}/v1/models/en_de"
    greeting = f"Serving en_de, version 1: REST at {url}, gRPC on port {ports.port}\n"
    assert stderr == greeting + WARNING


def test_every_flag_arrives(serve, programs, directory):
    add_program(programs, BINARY, FAKE_SERVER)
    options = ServerOptions(port=8500, rest_port=0, batching=False, timeout=2, threads=3)
    code, (line,), stderr = serve(
        *("--name", "x", "--rest-port", "0", "--no-batching", "--timeout", "2", "--threads", "3"),
        "--print",
    )
    assert shlex.split(line) == ExportedModel(directory, "x").server_command(options)
    assert (code, stderr) == (0, "")


def test_docker_takes_the_place_of_a_missing_server(serve, programs, directory, ports):
    docker = add_program(programs, "docker", FAKE_DOCKER.format(0))
    code, lines, stderr = serve(*flags(ports))
    assert (code, lines[0]) == (7, docker)
    assert stderr.endswith(WARNING)
    assert lines[1:] == ExportedModel(directory).docker_command(ports)[1:]


def test_docker_is_taken_though_the_server_is_there_when_asked_for(serve, programs, directory):
    add_program(programs, BINARY, FAKE_SERVER)
    add_program(programs, "docker", FAKE_DOCKER.format(0))
    model, options = ExportedModel(directory), ServerOptions()
    _, (line,), _ = serve("--docker", "--print")
    assert shlex.split(line) == model.docker_command(options)
    _, (line,), _ = serve("--image", "mine:1", "--print")
    assert shlex.split(line) == model.docker_command(options, "mine:1")
    _, (line,), _ = serve("--print")
    assert shlex.split(line) == model.server_command(options)


def test_with_neither_one_line_says_how_to_get_it(serve, programs, directory):
    for _ in range(2):
        said = refusal(serve())
        assert said.startswith("error: `tensorflow_model_server` is not on the PATH")
        assert "https://www.tensorflow.org/tfx/serving/setup" in said
        assert "tensorflow/serving" in said
        assert "`keras-transformer app RUN` serves the run itself" in said
        add_program(programs, "docker", FAKE_DOCKER.format(1))  # its daemon does not answer
    assert serve("--docker")[2] == "error: No Docker daemon answers: install Docker, or start it.\n"
    _, (line,), _ = serve("--print")  # for a machine that has the server
    assert shlex.split(line) == ExportedModel(directory).server_command(ServerOptions())


def test_a_port_in_use_is_one_line_and_nothing_starts(serve, programs, ports):
    add_program(programs, BINARY, FAKE_SERVER)
    with socket.create_server(("127.0.0.1", ports.rest_port)):
        said = refusal(serve(*flags(ports)))
    assert said.startswith(f"error: Port {ports.rest_port} cannot be used")


def test_a_missing_model_is_one_line(serve, directory):
    shutil.rmtree(directory)
    assert "keras-transformer export saved-model RUN" in refusal(serve("--print"))


@pytest.mark.tensorflow
@pytest.mark.skipif(
    shutil.which(BINARY) is None, reason=f"{BINARY} is not on the PATH: the real server is untested"
)
def test_the_real_server_translates_as_the_translator(trained_run, tmp_path, ports):
    from keras_transformer import Translator
    from keras_transformer.export import export_saved_model
    from keras_transformer.serving import TranslationClient

    translator = Translator.load(trained_run)
    export_saved_model(translator, tmp_path / "digits")
    arguments = ["serve", str(tmp_path / "digits"), *flags(ports)]
    server = subprocess.Popen([sys.executable, "-c", COMMAND, *arguments])
    sentences = ["one two three", "four", "", "five six", "nine eight seven one"]
    expected = translator.translate(sentences)
    try:
        for address in (f"http://localhost:{ports.rest_port}", f"grpc://localhost:{ports.port}"):
            with TranslationClient(address, "digits") as client:
                client.wait_until_ready(timeout=600)
                assert client.translate(sentences) == expected
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=600)
