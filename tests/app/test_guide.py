"""What docs/app.md shows is what the app does."""

import json
import re

from keras_transformer.toolkit.app import AppLimits
from tests.pages.page import Page, run_code

PAGE = Page("docs/app.md")
ADDRESS = "http://127.0.0.1:8080/"


def test_its_python_asks_the_app(fake_app, capsys):
    code = [block.replace(ADDRESS, str(fake_app.base_url)) for block in PAGE.blocks("python")]
    run_code(code, str(PAGE.path))
    assert capsys.readouterr().out == (
        "A SMALL HOUSE.\n\nA TREE.\n0 A SMALL HOUSE. -0.5\n1 A TREE. -0.5\nA SMALL HOUSE.\n"
    )


def test_its_requests_by_curl_are_answered(fake_app):
    commands = [command for command in PAGE.commands("curl") if "install" not in command]
    assert len(commands) == 8
    for *options, address in commands:
        path = address.removeprefix(ADDRESS)
        if not options:
            assert fake_app.get(path).status_code == 200
            continue
        assert options[-2] == "--json"
        response = fake_app.post(path, json=json.loads(options[-1]))
        assert response.status_code == 200, response.text


def shape(value):
    """A value with each text, number and null replaced by its type; lists keep their first item."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    return [shape(one) for one in value[:1]] if isinstance(value, list) else type(value)


def test_its_answer_has_the_form_of_the_apps(fake_app):
    (request,) = (word for words in PAGE.commands("curl") for word in words if '"n_best"' in word)
    answer = fake_app.post("api/translate", json=json.loads(request)).json()
    (shown,) = map(json.loads, PAGE.blocks("json"))
    assert shape(shown) == shape(answer)
    assert len(shown["sentences"][0]["translations"]) == json.loads(request)["n_best"]


def test_its_endpoints_and_limits_are_the_apps(fake_app):
    endpoints = set(fake_app.get("api/openapi.json").json()["paths"])
    table = PAGE.text.split("| endpoint |")[1].split("\n\n")[0]
    assert set(re.findall(r"/api/[a-z/]+", table)) == endpoints
    limits = AppLimits()
    table = PAGE.text.split("| limit |")[1].split("\n\n")[0]
    shown = [
        [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", line)]
        for line in table.splitlines()[2:]
    ]
    assert shown == [
        [limits.characters],
        [limits.sentences],
        [limits.tokens],
        [limits.beam_size, limits.extra_length],
        [limits.terms],
        [limits.glossary_bytes],
        [limits.sentence_terms],
        [limits.waiting],
        [limits.body_seconds],
    ]
