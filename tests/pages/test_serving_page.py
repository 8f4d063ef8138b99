"""What docs/serving.md shows is what the programs do."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import requests
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from keras_transformer import Translator
from keras_transformer.models import with_alignment_head
from keras_transformer.serving import TranslationClient
from keras_transformer.toolkit.serving.model_server import ExportedModel, ServerOptions
from tests.pages.page import Page, run_code
from tests.pages.shell import curl
from tests.serving.servers.model_servers import ModelServer

pytestmark = pytest.mark.tensorflow

PAGE = Page("docs/serving.md")
CLI = "python -m keras_transformer.serving.saved_model_cli"
# The flags of the model server, of those in its own --help, that the page may name.
SERVER_FLAGS = {
    "port", "rest_api_port", "rest_api_timeout_in_ms", "model_name", "model_base_path",
    "enable_batching", "batching_parameters_file", "model_config_file",
    "model_config_file_poll_wait_seconds", "allow_version_labels_for_unavailable_models",
    "tensorflow_session_parallelism", "version",
}  # fmt: skip


def flag_names(words):
    return {re.fullmatch(r"--(\w+)=.*", word)[1] for word in words if word.startswith("--")}


@pytest.fixture(scope="module")
def place(trained_run, tmp_path_factory):
    """A directory like that of a reader: runs/en_de is trained, and the page's exports were run."""
    place = tmp_path_factory.mktemp("serving_page")
    (place / "runs").mkdir()
    (place / "runs" / "en_de").symlink_to(trained_run)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        page = run_code(PAGE.blocks("python")[:1], PAGE.path.name)
        path = page["export_saved_model"](page["translator"], "exports/en_de", terms=True)
        shutil.rmtree(page["path"])
        path.rename(page["path"])
        translator = page["translator"]
        aligned = Translator(
            with_alignment_head(translator.models[0]),
            translator.tokenizer,
            source_tokenizer=translator.source_tokenizer,
            beam_size=1,
        )
        page["export_saved_model"](aligned, "exports/en_de_aligned", terms=True)
    return place


@pytest.fixture(scope="module")
def server(place):
    with ModelServer({"en_de": place / "exports" / "en_de"}) as server:
        with TranslationClient(server.rest_address, "en_de", timeout=300) as client:
            client.translate("one", keep="auto")  # the first request takes long
        yield server


@pytest.fixture(scope="module")
def expected(trained_run):
    """What the translator makes of the sentences on the page."""
    sentences = ["one two three", "four five"]
    return dict(zip(sentences, Translator.load(trained_run).translate(sentences), strict=True))


def test_the_export_holds_what_the_page_lists(place):
    directory = place / "exports" / "en_de"
    (table,) = re.findall(r"\| path \| content \|\n(.*?)\n\n", PAGE.text, re.DOTALL)
    paths = [path for row in table.splitlines()[1:] for path in re.findall("`([^`]+)`", row)]
    assert len(paths) == 8
    assert [path for path in paths if not (directory / path).exists()] == []


def test_the_signatures_are_those_of_the_page(server):
    answer = requests.get(f"{server.rest_address}/v1/models/en_de/metadata", timeout=30).json()
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    rows = re.findall(r"^\| (`\w+`.*?) \| (.*?) \| (.*?) \|$", PAGE.text, re.MULTILINE)
    rows = [row for row in rows if "`: " in row[1]]
    told = {}
    for names, *sides in rows:
        for name in re.findall(r"`(\w+)`", names):
            told[name] = [
                {
                    key: (dtype, len(shape.split(",")))
                    for group, dtype, shape in re.findall(
                        r"((?:`\w+`,? ?)+): (\w+) \[(.*?)\]", side
                    )
                    for key in re.findall(r"`(\w+)`", group)
                }
                for side in sides
            ]
    types = {"DT_STRING": "string", "DT_INT32": "int32", "DT_FLOAT": "float32"}
    assert told == {
        name: [
            {
                key: (types[tensor["dtype"]], len(tensor["tensor_shape"]["dim"]))
                for key, tensor in signature[side].items()
            }
            for side in ("inputs", "outputs")
        ]
        for name, signature in signatures.items()
        if not name.startswith("__")
    }


@pytest.mark.slow
def test_every_curl_is_answered(server, expected):
    commands = PAGE.commands("curl")
    answers = [curl(words, server) for words in commands]
    for words, answer in zip(commands, answers, strict=True):
        if words[0] == "-d":
            assert ("predictions" in answer.json()) == ("instances" in json.loads(words[1]))
    assert [answer.status_code for answer in answers] == [200] * len(answers)
    assert len(answers) == 11
    assert "zwo" in answers[1].json()["outputs"]["outputs"][0]
    shown, _ = PAGE.blocks("json")
    first, shown = answers[0].json()["outputs"], json.loads(shown)["outputs"]
    assert first["outputs"] == [expected["one two three"], ""]
    assert {name: len(rows) for name, rows in first.items()} == {
        name: len(rows) for name, rows in shown.items()
    }


def test_the_code_runs_from_top_to_bottom(place, server, expected, monkeypatch, capsys):
    monkeypatch.chdir(place)
    first, second = expected.values()
    addresses = {
        "http://localhost:8501": server.rest_address,
        "grpc://localhost:8500": server.grpc_address,
        "localhost:8500": server.grpc_address.removeprefix("grpc://"),
    }
    code = "".join(PAGE.blocks("python")[1:])
    for address, there in addresses.items():
        code = code.replace(address, there)
    run_code([code], PAGE.path.name)
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch("[0-2]-[0-2]( [0-2]-[0-2])*", lines[0])  # the head has learned little
    assert re.fullmatch("<p>.*<b>.*</b>.*</p>", lines[1])
    lines = lines[2:]
    assert lines[0] == str([first, ""])
    assert lines[1].endswith(f"  {first}")
    assert [len(lines), lines[-5]] == [10, second]
    assert "zwei" in lines[-4] or "zwo" in lines[-4]
    assert "{name}" in lines[-3]
    assert lines[-2:] == [str([first])] * 2


def test_the_example_beside_the_saved_models_runs(server, capsys):
    page = Page("saved_models/README.md")
    (code,) = page.blocks("python")
    for there, here in (("http://localhost:8501", server.rest_address), ("number_words", "en_de")):
        assert code.count(there) == 1
        code = code.replace(there, here)
    run_code([code], page.path.name)
    assert capsys.readouterr().out.startswith("['")


@pytest.mark.slow
def test_saved_model_cli_shows_and_runs(place, expected):
    (show, run) = (
        subprocess.run(
            [sys.executable, *CLI.split()[1:], *arguments],
            cwd=place,
            capture_output=True,
            text=True,
            timeout=120,
        )
        for arguments in PAGE.commands(CLI)
    )
    assert (show.returncode, run.returncode) == (0, 0), show.stderr + run.stderr
    for signature in ("translate", "translate_nbest", "translate_ids", "score", "tokenize"):
        assert f"signature_def['{signature}']" in show.stdout
    assert str([expected["one two three"].encode()]) in run.stdout


def test_the_servers_flags_are_its_own():
    for words in PAGE.commands("tensorflow_model_server"):
        assert flag_names(words) <= SERVER_FLAGS
    options = ServerOptions(threads=2)
    model = object.__new__(ExportedModel)
    model.directory, model.name = pathlib.Path("/srv/exports/en_de"), "en_de"
    assert flag_names(model.server_command(options)) <= SERVER_FLAGS


def test_the_commands_by_hand_are_those_of_serve(place):
    model = ExportedModel(place / "exports" / "en_de")
    by_hand = PAGE.commands("tensorflow_model_server")[0]
    ours = [word for word in model.server_command(ServerOptions()) if "timeout" not in word]
    assert by_hand == [word.replace(str(place), "/srv") for word in ours[1:]]
    (by_hand,) = PAGE.commands("docker run")
    ours = [word for word in model.docker_command(ServerOptions()) if "timeout" not in word]
    assert by_hand == [word.replace(str(place), "$PWD") for word in ours[2:]]


def test_the_models_configs_are_read():
    for text in PAGE.blocks("proto"):
        config = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
        assert {one.model_platform for one in config.model_config_list.config} == {"tensorflow"}
    assert [one.name for one in config.model_config_list.config] == ["en_de", "de_en"]


def test_the_batching_parameters_are_those_of_the_export(place):
    (table,) = re.findall(r"\| parameter \| meaning \| default \|\n.*?\n\n", PAGE.text, re.DOTALL)
    shown = dict(re.findall(r"^\| `(\w+)` \|.*\| (\S+) \|$", table, re.MULTILINE))
    text = (place / "exports" / "en_de" / "batching.config").read_text("utf-8")
    written = re.findall(r"^(\w+)(?: { value)?: (\w+)", text, re.MULTILINE)
    assert {name: value.replace(",", "") for name, value in shown.items()} == dict(written)
