import os
import socket

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.toolkit.serving import model_server
from keras_transformer.toolkit.serving.model_server import ExportedModel, ServerOptions


@pytest.fixture
def directory(tmp_path):
    """That of an exported model with the versions 2 and 10."""
    for version in ("2", "10"):
        (tmp_path / "en_de" / version).mkdir(parents=True)
        (tmp_path / "en_de" / version / "saved_model.pb").touch()
    (tmp_path / "en_de" / "batching.config").touch()
    return tmp_path / "en_de"


def test_versions_are_sorted_as_numbers_and_nothing_else_is_one(directory):
    for name in ("old", "3x", "-1", "²", ".partial-directory-7"):
        (directory / name).mkdir()
        (directory / name / "saved_model.pb").touch()
    (directory / "11").mkdir()  # not a model yet
    (directory / "12").touch()
    assert model_server.versions(directory) == [2, 10]
    assert model_server.versions(directory / "missing") == []


def test_the_command_of_the_server(directory):
    assert ExportedModel(directory).server_command(ServerOptions()) == [
        "tensorflow_model_server",
        "--port=8500",
        "--rest_api_port=8501",
        "--rest_api_timeout_in_ms=30000",
        "--model_name=en_de",
        f"--model_base_path={directory}",
        "--enable_batching=true",
        f"--batching_parameters_file={directory}/batching.config",
    ]


def test_every_option_is_a_flag(directory):
    options = ServerOptions(port=1, rest_port=0, batching=False, timeout=1.5, threads=3)
    assert ExportedModel(directory, "first").server_command(options) == [
        "tensorflow_model_server",
        "--port=1",
        "--rest_api_port=0",
        "--rest_api_timeout_in_ms=1500",
        "--model_name=first",
        f"--model_base_path={directory}",
        "--tensorflow_session_parallelism=3",
    ]


def test_the_command_of_docker_has_the_ports_outside_and_the_paths_inside(directory):
    options = ServerOptions(port=9000, rest_port=9001)
    model = ExportedModel(directory, "first")
    assert model.docker_command(options, "mine:1") == [
        "docker",
        "run",
        "--rm",
        "--init",
        "--publish=9000:8500",
        "--publish=9001:8501",
        f"--mount=type=bind,source={directory},target=/models/first,readonly",
        "--entrypoint=tensorflow_model_server",
        "mine:1",
        "--port=8500",
        "--rest_api_port=8501",
        "--rest_api_timeout_in_ms=30000",
        "--model_name=first",
        "--model_base_path=/models/first",
        "--enable_batching=true",
        "--batching_parameters_file=/models/first/batching.config",
    ]


def test_docker_without_rest_publishes_one_port(directory):
    command = ExportedModel(directory).docker_command(ServerOptions(port=9000, rest_port=0))
    assert [word for word in command if "port" in word or "publish" in word] == [
        "--publish=9000:8500",
        "--port=8500",
        "--rest_api_port=0",
    ]


def test_a_path_with_a_comma_is_one_field_for_docker(directory):
    there = directory.parent / 'a,"b'
    there.mkdir()
    model = ExportedModel(directory.rename(there / "en_de"))
    (mount,) = (word for word in model.docker_command(ServerOptions()) if "mount" in word)
    quoted = str(there / "en_de").replace('"', '""')
    assert mount == f'--mount=type=bind,"source={quoted}",target=/models/en_de,readonly'


def test_without_its_file_batching_has_the_parameters_of_the_server(directory):
    (directory / "batching.config").unlink()
    command = ExportedModel(directory).server_command(ServerOptions())
    assert command[-1] == "--enable_batching=true"


def test_a_relative_path_becomes_absolute_and_names_the_model(directory, monkeypatch):
    monkeypatch.chdir(directory / "2")
    model = ExportedModel(os.path.join("..", "10", ".."))
    assert (model.directory, model.name) == (directory, "en_de")


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a:b", "ä", ".", ".."])
def test_a_name_that_urls_or_flags_would_break_is_refused(directory, name):
    with pytest.raises(UserInputError, match="`name` must be letters, digits") as caught:
        ExportedModel(directory, name)
    assert repr(name) in str(caught.value)


def test_a_run_is_told_from_its_export(tmp_path):
    (tmp_path / "run.json").touch()
    told = (
        f"{tmp_path} is a run, .* saved-model {tmp_path} exports/.*or serve it: .*app {tmp_path}$"
    )
    with pytest.raises(UserInputError, match=told):
        ExportedModel(tmp_path)


def test_a_directory_without_a_version_says_how_to_export(directory):
    with pytest.raises(UserInputError, match="does not exist.*export saved-model RUN"):
        ExportedModel(directory / "missing")
    with pytest.raises(UserInputError, match="contains no version of a SavedModel.*_saved_model$"):
        ExportedModel(directory.parent)
    (directory.parent / "empty").mkdir()
    with pytest.raises(UserInputError, match="contains no version of a SavedModel.*RUN .*/empty$"):
        ExportedModel(directory.parent / "empty")
    with pytest.raises(UserInputError, match="is one version of a model: pass the directory above"):
        ExportedModel(directory / "2")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("model.tflite", "LiteRT model"), ("model.bin", "CTranslate2 model")],
)
def test_the_export_of_another_format_is_named_and_another_path_proposed(tmp_path, name, kind):
    (tmp_path / name).touch()
    told = f"contains a {kind}, not a SavedModel. Export one: .* RUN {tmp_path}_saved_model$"
    with pytest.raises(UserInputError, match=told):
        ExportedModel(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"port": 0}, "`port` must be a number from 1 to 65535. Received: port=0"),
        ({"port": 65536}, "`port` must be a number from 1 to 65535. Received: port=65536"),
        ({"rest_port": -1}, "`rest_port` must be a number from 0 to 65535"),
        ({"timeout": 0.0001}, "`timeout` must be a number of seconds from 0.001 to 86400"),
        ({"timeout": 1e7}, "`timeout` must be a number of seconds from 0.001 to 86400"),
        ({"port": 7, "rest_port": 7}, "`port` must be different from `rest_port`"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(UserInputError, match=message):
        ServerOptions(**options)


@pytest.mark.parametrize("flag", ["--port", "--rest-port"])
def test_a_port_in_use_is_told_with_its_flag(flag):
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        ports = [taken.getsockname()[1], other.getsockname()[1]]
        other.close()
        port, rest_port = ports if flag == "--port" else reversed(ports)
        with pytest.raises(UserInputError, match=f"Port {ports[0]} .*in use.*`{flag}`"):
            model_server.check_ports(ServerOptions(port=port, rest_port=rest_port))
    model_server.check_ports(ServerOptions(port=port, rest_port=rest_port))
    model_server.check_ports(ServerOptions(port=port, rest_port=0))
