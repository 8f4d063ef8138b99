"""`deploy/compose/compose.yaml`, without Docker: it starts the server as `serve` does."""

import ipaddress
import re

import yaml

from tests.external_data import ROOT
from tests.pages.page import Page

PATH = ROOT / "deploy" / "compose" / "compose.yaml"
TEXT = PATH.read_text("utf-8")
FILE = yaml.safe_load(TEXT)
(SERVICE,) = FILE["services"].values()
# Of https://github.com/compose-spec/compose-spec/blob/main/05-services.md, what the file may use.
ATTRIBUTES = {
    "image", "entrypoint", "command", "ports", "volumes", "healthcheck", "init", "restart",
    "security_opt", "mem_limit",
}  # fmt: skip
OF_HEALTHCHECK = {"test", "interval", "timeout", "retries", "start_period"}
OF_BIND = {"type", "source", "target", "read_only"}


def test_its_attributes_are_those_of_the_specification():
    assert set(FILE) == {"services"}
    assert set(SERVICE) <= ATTRIBUTES
    assert set(SERVICE["healthcheck"]) <= OF_HEALTHCHECK
    assert all(set(volume) <= OF_BIND for volume in SERVICE["volumes"])


def test_the_server_is_started_as_by_the_command_serve(served):
    options, arguments = served(SERVICE["image"])
    assert SERVICE["command"] == arguments
    assert [f"--entrypoint={word}" for word in SERVICE["entrypoint"]] == [
        word for word in options if word.startswith("--entrypoint")
    ]
    assert SERVICE["init"] is ("--init" in options)


def test_the_model_is_read_where_the_export_is_written():
    (volume,) = SERVICE["volumes"]
    assert volume["read_only"]
    assert f"--model_base_path={volume['target']}" in SERVICE["command"]
    exports = Page("docs/tutorials/docker_compose.md").commands("keras-transformer export")
    assert {f"./{command[-1]}" for command in exports} == {volume["source"]}


def test_only_the_machine_itself_reaches_it():
    (port,) = SERVICE["ports"]
    address, outside, inside = port.split(":")
    assert ipaddress.ip_address(address).is_loopback
    assert f"--rest_api_port={inside}" in SERVICE["command"]
    assert outside == inside


def test_it_is_healthy_once_the_rest_port_is_open():
    kind, shell, flag, script = SERVICE["healthcheck"]["test"]
    assert [kind, shell, flag] == ["CMD", "bash", "-c"]
    (port,) = re.fullmatch(r": < /dev/tcp/127\.0\.0\.1/(\d+)", script).groups()
    assert f"--rest_api_port={port}" in SERVICE["command"]


def test_the_page_shows_the_same_commands():
    page = Page("docs/tutorials/docker_compose.md").commands("docker compose")
    shown = [line.split()[3:] for line in TEXT.splitlines() if line.startswith("#   docker")]
    assert page == shown
    paths = [words[words.index("--file") + 1] for words in shown if "--file" in words]
    assert [ROOT / path for path in paths] == [PATH]  # without a path: `compose.yaml` is there
