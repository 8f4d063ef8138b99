"""LibreTranslate's interface, as its clients use it."""

import json
import re

import httpx
import pytest

from keras_transformer.toolkit.app import AppLimits
from keras_transformer.toolkit.app.loaded_runs import LoadedTranslator
from tests.app.conftest import listening
from tests.app.fake_run import FakeParser, FakeRun

EN_DE = {"source": "en", "target": "de"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def run_of(source, target, **options):
    run = FakeRun(f"{source}_{target}", **options)
    run.source_language, run.target_language = source, target
    return run


def error_of(response):
    body = response.json()
    assert list(body) == ["error"]
    return response.status_code, body["error"]


@pytest.fixture
def run():
    return run_of("en", "de")


@pytest.fixture
def ask(start, run):
    """Send a translation request to an app with one run."""
    client = start(run)

    def ask(**fields):
        return client.post("translate", json=EN_DE | fields)

    return ask


@pytest.fixture(scope="module")
def shared():
    """A client of an app with one run, which tests share."""
    with (
        listening([run_of("en", "de")]) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        yield client


@pytest.fixture
def library(start, run):
    """An app with one run, and LibreTranslate's own client of it."""
    libretranslatepy = pytest.importorskip("libretranslatepy")
    address = str(start(run).base_url)
    return libretranslatepy.LibreTranslateAPI(address)


def test_its_own_client_works(library):
    assert library.translate("A house.\n\nA tree & more.", "en", "de") == (
        "A HOUSE.\n\nA TREE & MORE."
    )
    assert library.languages() == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": []},
    ]
    assert library.detect("A house.") == [{"confidence": 100, "language": "en"}]


def test_its_own_client_sends_the_key(start, run):
    libretranslatepy = pytest.importorskip("libretranslatepy")
    address = str(start(run, api_key="größe").base_url)
    client = libretranslatepy.LibreTranslateAPI(address, "größe")
    assert client.translate("a", "en", "de") == "A"
    assert client.detect("a")[0]["language"] == "en"
    assert len(client.languages()) == 2  # a GET request with a body


def test_forms_and_json_are_answered_alike(start, run):
    client = start(run)
    fields = {"q": "a ä & b=c+d", **EN_DE, "alternatives": 1, "secret": "ignored", "format": ""}
    answer = {"translatedText": "A Ä & B=C+D", "alternatives": []}
    assert client.post("translate", json=fields).json() == answer
    assert client.post("translate", data=fields).json() == answer
    assert client.post("translate", json=fields | {"format": None}).json() == answer


def test_a_list_has_a_list_of_answers(ask):
    answer = ask(q=["a.\nb", "", "c"], source="auto", alternatives=2).json()
    assert answer == {
        "translatedText": ["A.\nB", "", "C"],
        "alternatives": [[], [], []],
        "detectedLanguage": [{"confidence": 100, "language": "en"}] * 3,
    }
    assert ask(q=["a"]).json() == {"translatedText": ["A"]}
    assert ask(q="a", source="auto").json() == {
        "translatedText": "A",
        "detectedLanguage": {"confidence": 100, "language": "en"},
    }


class Candidates(FakeRun):
    """Its sentences have several translations, "b" has only one."""

    def compute(self, work, items):
        self.batches.append((work, list(items)))
        return [
            [(f"{item}{rank}", -rank) for rank in range(1 if item == "b" else work.n_best)]
            for item in items
        ]


def test_alternatives_are_other_texts_and_bounded_by_the_beam(start):
    run = Candidates()
    run.source_language, run.target_language = "en", "de"
    client = start(run)
    fields = EN_DE | {"q": "a\nb", "alternatives": 2}
    assert client.post("translate", json=fields).json() == {
        "translatedText": "a0\nb0",
        "alternatives": ["a1\nb0", "a2\nb0"],
    }
    assert len(
        client.post("translate", json=fields | {"alternatives": 99}).json()["alternatives"]
    ) == (run.search_options.beam_size - 1)
    for none in (0, -1, "-1"):
        answer = client.post("translate", json=fields | {"alternatives": none}).json()
        assert answer == {"translatedText": "a0\nb0"}


def test_languages_choose_the_run(start):
    runs = [
        FakeParser("trees"),
        FakeRun("unknown"),
        run_of("en", "de"),
        run_of("fr", "de"),
        run_of("de", "gsw"),
        run_of("en", None, languages=["fra", "pt-BR"]),
    ]
    client = start(*runs)
    assert client.get("languages").json() == [
        {"code": "en", "name": "English", "targets": ["de", "fra", "pt-BR"]},
        {"code": "de", "name": "German", "targets": ["gsw"]},
        {"code": "fr", "name": "French", "targets": ["de"]},
        {"code": "gsw", "name": "gsw", "targets": []},
        {"code": "fra", "name": "fra", "targets": []},
        {"code": "pt-BR", "name": "Portuguese (BR)", "targets": []},
    ]
    for source, target, run, tag in (
        ("en", "de", 2, None),
        ("fr", "de", 3, None),
        ("auto", "de", 2, None),
        ("auto", "gsw", 4, None),
        ("en", "pt-BR", 5, "pt-BR"),
    ):
        response = client.post("translate", json={"q": "a", "source": source, "target": target})
        assert response.status_code == 200, response.text
        ((work, _),) = runs[run].batches
        assert work.target_language == tag
        runs[run].batches.clear()
    answer = client.post("translate", json={"q": "a", "source": "auto", "target": "de"}).json()
    assert answer["detectedLanguage"] == {"confidence": 50, "language": "en"}
    assert [one["language"] for one in client.post("detect", json={"q": "a"}).json()] == [
        "en",
        "fr",
        "de",
    ]
    for fields, message in (
        ({"source": "xx"}, "xx is not supported"),
        ({"target": "xx"}, "xx is not supported"),
        ({"target": "auto"}, "auto is not supported"),
        (
            {"source": "fr", "target": "pt-BR"},
            "Portuguese (BR) (pt-BR) is not available as a target language from French (fr)",
        ),
    ):
        assert error_of(client.post("translate", json={"q": "a"} | EN_DE | fields)) == (
            400,
            message,
        )


def test_runs_without_languages_are_not_offered(start):
    client = start(FakeRun())
    message = "None of the translation runs specifies its languages."
    for path in ("languages", "frontend/settings"):
        assert error_of(client.get(path)) == (400, message)
    assert error_of(client.post("translate", json={"q": "a"} | EN_DE)) == (400, message)
    assert client.get("health").json() == {"status": "ok"}


def test_settings(start, run):
    settings = {
        "charLimit": 7,
        "frontendTimeout": 500,
        "apiKeys": False,
        "keyRequired": False,
        "suggestions": False,
        "filesTranslation": False,
        "supportedFilesFormat": [],
        "language": {
            "source": {"code": "en", "name": "English"},
            "target": {"code": "de", "name": "German"},
        },
    }
    limits = AppLimits(characters=7)
    assert start(run, limits=limits).get("frontend/settings").json() == settings
    with_key = start(run_of("en", "de"), limits=limits, api_key="k").get("frontend/settings")
    assert with_key.json() == settings | {"apiKeys": True, "keyRequired": True}
    assert with_key.headers["cache-control"] == "no-store"


def test_a_key_is_required(start, run, caplog):
    client = start(run, api_key="secret-key")
    fields = {"q": "a"} | EN_DE
    missing = (400, "Please contact the server operator to get an API key")
    for path in ("translate", "detect"):
        assert error_of(client.post(path, json=fields)) == missing
        assert error_of(client.post(path, data=fields | {"api_key": ""})) == missing
        for wrong in ("secret-kez", "secret-key ", "ß", "\ud800", 7, ["secret-key"], True):
            response = client.post(
                path,
                content=json.dumps(fields | {"api_key": wrong}),
                headers={"Content-Type": "application/json"},
            )
            assert error_of(response) == (403, "Invalid API key")
        for given in (
            {"json": fields | {"api_key": "secret-key"}},
            {"data": fields | {"api_key": "secret-key"}},
        ):
            assert client.post(path, **given).status_code == 200
    assert client.post("translate", json={"api_key": "secret-key"}).status_code == 400
    assert caplog.records == []
    assert client.get("languages").status_code == 200


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"q": ""}, "Invalid request: missing q parameter"),
        ({"q": []}, "Invalid request: missing q parameter"),
        ({"source": None}, "Invalid request: missing source parameter"),
        ({"target": ""}, "Invalid request: missing target parameter"),
        ({"q": 7}, "Invalid request: q parameter is invalid: .*"),
        ({"q": ["a", 7]}, "Invalid request: q parameter is invalid: .*"),
        ({"q": {"a": "b"}}, "Invalid request: q parameter is invalid: .*"),
        ({"q": "a\0"}, "A text must not have NUL characters or halves of surrogate pairs."),
        ({"format": "xml"}, "Invalid request: format parameter is invalid: .*'text' or 'html'.*"),
        ({"alternatives": "x"}, "Invalid request: alternatives parameter is invalid: .*integer.*"),
        ({"keep": r"\d+"}, "Invalid request: keep parameter is invalid: .*"),
        ({"q": "x" * 10_001}, "A request may have at most 10,000 characters. Received: 10,001"),
        ({"q": ["x" * 5000] * 3}, "A request may have at most 10,000 characters. Received: 15,000"),
        ({"q": ["a\n" * 60] * 2}, "A request may have at most 100 sentences. Received: 120"),
        ({"q": ["a", "b\nLONG"]}, "Sentence 3 has more than 256 tokens"),
        ({"q": "x" * 1_000_000}, "A request may have at most .* bytes."),
        ({"q": "damaged"}, "The model's scores are not finite numbers."),
        ({"q": ["<p>" * 2000] * 2, "format": "html"}, "A request may have at most 10,000 char.*"),
        ({"q": ["<p>a" * 60] * 2, "format": "html"}, "A request may have at most 100 sentences.*"),
        ({"q": ["a"], "glossary": {"a": []}}, "`glossary` is invalid: .*"),
        ({"q": "a", "glossary": {"a": ["b"] * 1001}}, "A request may have at most 1,000 terms.*"),
        (
            {"q": "a", "glossary": {"a": list(map(str, range(33)))}},
            "A sentence may have at most 32 targets .*",
        ),
    ],
)
def test_faults_are_told_in_its_form(shared, fields, message):
    status, error = error_of(shared.post("translate", json={"q": "a"} | EN_DE | fields))
    assert status == 400
    assert re.fullmatch(message, error)
    assert len(error) < 300


@pytest.mark.parametrize(
    ("content", "type", "message"),
    [
        (b"{", "application/json", "The body cannot be read: .*"),
        (b"[" * 100_000, "application/json", "The body cannot be read: .*"),
        (b"[]", "application/json", "Invalid JSON format"),
        (b'{"q": "\xff"}', "application/json", "The body cannot be read: .*"),
        (b"q=%FF", FORM["Content-Type"], "The body cannot be read: .*"),
        (b"\xff", FORM["Content-Type"], "The body cannot be read: .*"),
        (b"&q=a" * 200, FORM["Content-Type"], "The body cannot be read: Max number of fields .*"),
        (b"q=a&glossary={", FORM["Content-Type"], "The body cannot be read: .*"),
        (b"", FORM["Content-Type"], "Invalid request: missing q parameter"),
        (b"q=a", "text/plain", "The `Content-Type` of the body must be .*"),
        (b"q=a", "multipart/form-data; boundary=b", "The `Content-Type` of the body must be .*"),
    ],
)
def test_bodies_that_cannot_be_read(shared, content, type, message):
    response = shared.post("translate", content=content, headers={"Content-Type": type})
    status, error = error_of(response)
    assert status == 400
    assert re.fullmatch(message, error)


def test_refusals_of_the_guard_and_faults_of_the_app_have_its_form(start, run):
    client = start(run)
    host = client.post("translate", json={}, headers={"Host": "evil.example"})
    site = client.post("translate", data={}, headers={"Origin": "http://evil.example"})
    assert error_of(host)[0] == error_of(site)[0] == 403
    assert error_of(client.get("translate"))[0] == 405
    assert error_of(client.post("translate", json={"q": "broken"} | EN_DE))[0] == 500


def test_a_full_queue_slows_clients_down(start):
    run = run_of("en", "de", limits=AppLimits(waiting=1), turns=0)
    client = start(run)
    with client.stream("POST", "api/translate/stream", json={"text": "a\nb\nc"}) as first:
        arriving = first.iter_lines()  # closes the connection once it is collected
        next(arriving)
        response = client.post("translate", json={"q": "d"} | EN_DE)
    assert error_of(response)[0] == 429
    assert int(response.headers["retry-after"]) >= 1
    run.turns.release(100)


def test_variables_are_kept_unless_the_request_or_the_run_says_otherwise(start, run):
    run.takes_terms = True
    client = start(run)
    glossary = {"house": ["Haus", "Häuser"], "tree": "Baum"}
    for fields in (
        {},
        {"keep": "none"},
        {"glossary": glossary, "keep": "numbers"},
        {"glossary": json.dumps(glossary)},
    ):
        given = (
            {"data": EN_DE | {"q": "a"} | fields}
            if isinstance(fields.get("glossary"), str)
            else {"json": EN_DE | {"q": "a"} | fields}
        )
        assert client.post("translate", **given).status_code == 200
    works = [work for work, _ in run.batches]
    assert [work.keep for work in works] == ["auto", "none", "numbers", "auto"]
    for work in works[2:]:
        assert work.glossary.find("A house")[0].targets == ("Haus", "Häuser")
    run.takes_terms = False
    client.post("translate", json=EN_DE | {"q": "a"})
    assert run.batches[-1][0].keep == "none"


def test_html_keeps_its_markup_and_has_no_alternatives(shared):
    html = "<p class='house'>a house &amp; b</p>"
    fields = EN_DE | {"format": "html", "alternatives": 2, "source": "auto"}
    translated = html.replace("house", "HOUSE")
    detected = {"confidence": 100, "language": "en"}
    assert shared.post("translate", data=fields | {"q": html}).json() == {
        "translatedText": translated,
        "alternatives": [],
        "detectedLanguage": detected,
    }
    assert shared.post("translate", json=fields | {"q": [html, ""]}).json() == {
        "translatedText": [translated, ""],
        "alternatives": [[], []],
        "detectedLanguage": [detected, detected],
    }


# Weblate's client: its source is in weblate/machinery/libretranslate.py, the placeholders come from
# `cleanup_text` in base.py. It finds them again with `uncleanup_text`.
WEBLATE_TEXTS = [
    "one two [X8X] three",
    "[X0X] four, five [X11X]",
    "six [X4X][X9X] seven",
    "eight [X6X]nine",
    "[X0X]",
]


def weblate_requests(key=""):
    """The requests of Weblate 5, for several texts and for one, and of Weblate 4 (a form)."""
    yield {"json": {"api_key": key, "q": WEBLATE_TEXTS} | EN_DE}
    yield {"json": {"api_key": key, "q": WEBLATE_TEXTS[0]} | EN_DE}
    yield {"data": {"api_key": key, "q": WEBLATE_TEXTS[1]} | EN_DE}


@pytest.fixture
def digits(translator):
    run = LoadedTranslator("digits", translator, AppLimits())
    run.source_language, run.target_language = "en", "de"
    return run


@pytest.mark.slow
def test_placeholders_of_weblate_survive_once(digits):
    headers = {"Referer": "https://weblate.example/", "Accept": "application/json; charset=utf-8"}
    with (
        listening([digits]) as address,
        httpx.Client(base_url=address, timeout=120, headers=headers) as client,
    ):
        assert [one["code"] for one in client.get("languages").json()] == ["en", "de"]
        for asked in weblate_requests():
            (fields,) = asked.values()
            response = client.post("translate", **asked)
            assert response.status_code == 200, response.text
            texts, sources = response.json()["translatedText"], fields["q"]
            if isinstance(sources, str):
                texts, sources = [texts], [sources]
            assert len(texts) == len(sources)
            for text, source in zip(texts, sources, strict=True):
                found = re.findall(r"\[X\d+X\]", source)
                assert sorted(re.findall(r"\[X\d+X *\]", text)) == sorted(found)
        # Without `keep`, this model loses them.
        plain = client.post("translate", json=EN_DE | {"q": WEBLATE_TEXTS[0], "keep": "none"})
        assert "[X8X]" not in plain.json()["translatedText"]
        glossary = client.post(
            "translate", json=EN_DE | {"q": "one two", "glossary": {"two": "neun"}}
        )
        assert glossary.json()["translatedText"].split().count("neun") == 1
