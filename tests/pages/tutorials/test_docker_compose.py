"""docs/tutorials/docker_compose.md: its requests, with a server that holds a small model."""

import contextlib
import json

import pytest

from keras_transformer.toolkit import cli
from tests.pages.page import Page, run_code
from tests.pages.shell import curl
from tests.serving.servers.model_servers import ModelServer

PAGE = Page("docs/tutorials/docker_compose.md")


@pytest.fixture(scope="module")
def place(trained_run, tmp_path_factory):
    """A folder in which the page's first command was typed."""
    place = tmp_path_factory.mktemp("docker_compose")
    (place / "runs").mkdir()
    (place / "runs" / "en_de").symlink_to(trained_run)
    with contextlib.chdir(place):
        assert cli.main(PAGE.commands()[0]) == 0
    return place


@pytest.mark.slow
@pytest.mark.tensorflow
def test_it_answers_as_the_page_says(place, capsys):
    with ModelServer({"en_de": place / "exports" / "en_de"}) as server:
        answers = [curl(words, server) for words in PAGE.commands("curl")]
        (code,) = PAGE.blocks("python")
        assert "http://localhost:8501" in code
        run_code([code.replace("http://localhost:8501", server.rest_address)], PAGE.path.name)
    assert [answer.status_code for answer in answers] == [200] * 3
    status, translations = (json.loads(block) for block in PAGE.blocks("json"))
    assert answers[0].json() == status
    here, there = answers[1].json()["predictions"], translations["predictions"]
    assert [row.keys() for row in here] == [row.keys() for row in there]
    assert [row["outputs"] for row in here] == [row["outputs"] for row in there]
    assert "eins zwei drei vier" in str(answers[2].json()["outputs"])
    printed = capsys.readouterr().out
    assert printed == "['eins zwei drei vier']\n"
    assert printed in PAGE.blocks()


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_next_export_is_the_next_version(place):
    first, second = PAGE.commands("keras-transformer export")
    assert first == second
    with contextlib.chdir(place):
        assert cli.main(["export", *second]) == 0
    assert (place / "exports" / "en_de" / "2" / "saved_model.pb").is_file()
