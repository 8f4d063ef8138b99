"""Many users at once, nasty requests, and clients that go away."""

import concurrent.futures
import json
import logging
import random
import socket

import httpx
import pytest

from tests.app.conftest import listening
from tests.app.fake_run import FakeRun
from tests.waiting import wait_until

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def random_text(generator):
    """One to three sentences."""
    return "\n".join(
        " ".join(generator.choices(WORDS, k=generator.randint(1, 4)))
        for _ in range(generator.randint(1, 3))
    )


def test_200_requests_of_20_threads_are_all_answered_and_none_mixed_up(
    address, translator, random_seed
):
    generator = random.Random(random_seed)
    texts = [random_text(generator) for _ in range(200)]
    sentences = sorted({line for text in texts for line in text.splitlines()})
    expected = dict(zip(sentences, translator.translate_nbest(sentences, 2), strict=True))

    def ask(number):
        text = texts[number]
        run = "digits (2)" if number % 2 else "digits"
        body = {"text": text, "run": run, "n_best": 2}
        with httpx.Client(base_url=address, timeout=300) as client:
            if number % 3:
                return client.post("api/translate", json=body).json()["sentences"]
            with client.stream("POST", "api/translate/stream", json=body) as response:
                _, *found, end = map(json.loads, response.iter_lines())
            assert (end["event"], [one["index"] for one in found]) == ("end", [*range(len(found))])
            return found

    with concurrent.futures.ThreadPoolExecutor(20) as threads:
        answers = list(threads.map(ask, range(200)))
    for text, answer in zip(texts, answers, strict=True):
        found = [[tuple(one.values()) for one in sentence["translations"]] for sentence in answer]
        for line, candidates in zip(text.splitlines(), found, strict=True):
            assert [said for said, _ in candidates] == [said for said, _ in expected[line]]
            assert [score for _, score in candidates] == pytest.approx(
                [score for _, score in expected[line]], rel=1e-4
            )


def test_a_client_that_goes_away_stops_its_work(start):
    run = FakeRun(turns=1)
    client = start(run)
    body = {"text": "\n".join("abcdefghij")}
    with client.stream("POST", "api/translate/stream", json=body) as response:
        arriving = response.iter_lines()
        assert [json.loads(next(arriving))["event"] for _ in range(3)][-1] == "sentence"
        assert run.queue.waiting() > 0
    wait_until(lambda: run.queue.waiting() == 0)
    run.turns.release(100)
    assert client.post("api/translate", json={"text": "later"}).json()["text"] == "LATER"
    computed = [item for _, items in run.batches for item in items]
    assert len(computed) == 5  # two batches of two, of which one had begun, and the later text


def test_so_does_one_that_waits_for_a_whole_answer(start):
    run = FakeRun(turns=0)
    client = start(run)
    body = json.dumps({"text": "\n".join("abcdefghij")}).encode()
    with socket.create_connection((client.base_url.host, client.base_url.port)) as connection:
        connection.sendall(
            b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        wait_until(lambda: run.queue.waiting() == 8)
    wait_until(lambda: run.queue.waiting() == 0)


def test_who_waits_when_the_app_ends_is_told_at_once(monkeypatch, caplog):
    run = FakeRun(turns=0)
    close = run.queue.close

    def compute_to_the_end():
        run.turns.release(9)
        close()

    monkeypatch.setattr(run.queue, "close", compute_to_the_end)
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        with listening([run]) as address:
            body = {"text": "a"}
            asked = threads.submit(httpx.post, f"{address}api/translate", json=body, timeout=60)
            wait_until(lambda: run.batches)
        answer = asked.result()
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "ending")
    # No traceback, of a request or of the thread that computes.
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


# Nasty requests: what is sent, and the status and code that answer it.

JSON = {"Content-Type": "application/json"}
DEEP = b'{"text": ' + b"[" * 20_000 + b"]" * 20_000 + b"}"


def wrong(**fields):
    """A request for a translation with a wrong field."""
    return ("translate", json.dumps({"text": "one", **fields}).encode(), 422, "invalid_request")


NASTY = [
    # Not JSON
    ("translate", b"{", 400, "bad_json"),
    ("translate", b"{'text': 'one'}", 400, "bad_json"),
    ("translate", b'{"text": "one"', 400, "bad_json"),
    ("translate", b'{"text": "one"} x', 400, "bad_json"),
    ("translate", b'{"text": "a\nb"}', 400, "bad_json"),
    ("translate", b'{"text": NaN}', 422, "invalid_request"),
    ("translate", b'{"text": "one", "n_best": Infinity}', 422, "invalid_request"),
    ("translate", b'{"text": "one", "search": {"alpha": -Infinity}}', 422, "invalid_request"),
    ("translate", b'{"text": "one", "n_best": ' + b"9" * 5000 + b"}", 400, "bad_json"),
    ("translate", DEEP, 400, "bad_json"),
    ("translate", b"\xef\xbb\xbf{}", 422, "invalid_request"),
    ("translate", b"\0", 400, "bad_json"),
    ("translate", b"<script>alert(1)</script>", 400, "bad_json"),
    ("align", b"[", 400, "bad_json"),
    ("attention", b'{"source": ', 400, "bad_json"),
    ("parse", b"tree", 400, "bad_json"),
    # Not UTF-8
    ("translate", b'{"text": "\xff"}', 400, "not_utf8"),
    ("translate", b'{"text": "\xc3"}', 400, "not_utf8"),
    ("translate", b'{"text": "\xed\xa0\x80"}', 422, "invalid_request"),
    ("translate", b'{"text": "\xc0\x80"}', 400, "not_utf8"),
    ("translate", '{"text": "größe"}'.encode("latin-1"), 400, "not_utf8"),
    # No object
    ("translate", b"", 422, "invalid_request"),
    ("translate", b"null", 422, "invalid_request"),
    ("translate", b"[]", 422, "invalid_request"),
    ("translate", b'"one"', 422, "invalid_request"),
    ("translate", b"7", 422, "invalid_request"),
    ("translate", b"{}", 422, "invalid_request"),
    ("translate", b'[{"text": "one"}]', 422, "invalid_request"),
    # Wrong types, unknown fields, values out of range
    wrong(text=None),
    wrong(text=7),
    wrong(text=["one"]),
    wrong(text={"text": "one"}),
    wrong(text=True),
    wrong(n_best="2"),
    wrong(n_best=0),
    wrong(n_best=-1),
    wrong(n_best=1.5),
    wrong(n_best=True),
    wrong(n_best=100),
    wrong(n_best=2**63),
    wrong(n_best=None),
    wrong(run=7),
    wrong(run=["digits"]),
    wrong(texts="one"),
    wrong(Text="one"),
    wrong(__proto__={"a": 1}),
    wrong(**{"\ud800": 1}),
    wrong(**{"x" * 2000: 1}),
    wrong(search=7),
    wrong(search=[]),
    wrong(search=None),
    wrong(search={"beam": 4}),
    wrong(search={"beam_size": 0}),
    wrong(search={"beam_size": 33}),
    wrong(search={"beam_size": 10**30}),
    wrong(search={"beam_size": 4.0}),
    wrong(search={"beam_size": "4"}),
    wrong(search={"alpha": -1}),
    wrong(search={"alpha": 10}),
    wrong(search={"alpha": 9.5, "length_penalty": "power"}),
    wrong(search={"alpha": "0.6"}),
    wrong(search={"alpha": []}),
    ("translate", b'{"text": "one", "search": {"alpha": 1e400}}', 422, "invalid_request"),
    wrong(search={"length_penalty": "wu"}),
    wrong(search={"length_penalty": 1}),
    wrong(search={"ending": "ANY"}),
    wrong(search={"extra_length": 0}),
    wrong(search={"extra_length": 10**9}),
    wrong(search={"max_source_length": 10**9}),
    wrong(target_language="deu"),
    wrong(target_language=">>deu<<"),
    wrong(target_language=1),
    wrong(source_language="../../etc"),
    wrong(source_language=""),
    wrong(source_language="e\0n"),
    wrong(source_language="x" * 1000),
    # What is no character
    wrong(text="one\0two"),
    wrong(text="\ud83c"),
    wrong(text="\udf89 one"),
    ("attention", b'{"source": "a", "target": "\\ud800"}', 422, "invalid_request"),
    ("align", b'{"pairs": [{"source": "a\\u0000", "target": "b"}]}', 422, "invalid_request"),
    # Empty
    ("translate", b'{"text": ""}', 422, "empty_text"),
    ("translate", '{"text": " \\n\\t\u2003\u2028 "}'.encode(), 422, "empty_text"),
    ("translate/stream", b'{"text": ""}', 422, "empty_text"),
    ("parse", b'{"text": "  "}', 422, "empty_text"),
    ("align", b'{"pairs": []}', 422, "empty_text"),
    ("align", b'{"pairs": [{"source": " ", "target": "b"}]}', 422, "empty_text"),
    ("attention", b'{"source": ""}', 422, "empty_text"),
    # Other fields
    ("align", b'{"pairs": [["a", "b"]]}', 422, "invalid_request"),
    ("align", b'{"pairs": [{"source": "a"}]}', 422, "invalid_request"),
    ("align", b'{"pairs": {"source": "a", "target": "b"}}', 422, "invalid_request"),
    ("attention", b'{"source": ["a"]}', 422, "invalid_request"),
    ("parse", b'{"text": "a", "n_best": 2}', 422, "invalid_request"),
    # Runs
    ("translate", b'{"text": "one", "run": "no"}', 404, "unknown_run"),
    ("translate", b'{"text": "one", "run": ""}', 404, "unknown_run"),
    ("translate", b'{"text": "one", "run": "../digits"}', 404, "unknown_run"),
    ("translate", b'{"text": "one", "run": "\\ud800"}', 404, "unknown_run"),
    ("translate", b'{"text": "one", "run": "trees"}', 422, "wrong_kind"),
    ("parse", b'{"text": "one", "run": "digits"}', 422, "wrong_kind"),
    ("align", b'{"pairs": [{"source": "a", "target": "b"}], "run": "trees"}', 422, "wrong_kind"),
    # Too much
    ("translate", json.dumps({"text": "x" * 2001}).encode(), 413, "too_many_characters"),
    ("translate", json.dumps({"text": "🎉" * 2001}).encode(), 413, "too_many_characters"),
    ("translate", json.dumps({"text": "one\n" * 21}).encode(), 413, "too_many_sentences"),
    ("translate/stream", json.dumps({"text": "one\n" * 21}).encode(), 413, "too_many_sentences"),
    ("translate", json.dumps({"text": "x" * 1_000_000}).encode(), 413, "body_too_large"),
    ("translate", json.dumps({"text": "seven " * 100}).encode(), 422, "sentence_too_long"),
    ("translate", json.dumps({"text": "ñ" * 2000}).encode(), 422, "sentence_too_long"),
    ("attention", json.dumps({"source": "seven " * 100}).encode(), 422, "sentence_too_long"),
]
ODD_BUT_FINE = [
    '<b>one</b> & "two" \'; DROP TABLE x; --',
    "🎉👩‍👩‍👧‍👦 \u202eone\u202c \ufeff \x1b[31m",
    "e\u0301\u0301\u0301 ﷽ ∅ \U0010ffff \ufffe",
    "one" + "\u2028" * 50 + "two" + "\r\n" * 50,
    "Vitamin B\u00a0. two",
    ">>deu<< one {{7*7}} ${7*7} %s %n ../../etc/passwd",
    "." * 60,
]


def test_100_nasty_requests_have_clear_answers(client):
    assert len(NASTY) >= 100
    for path, content, status, code in NASTY:
        response = client.post(f"api/{path}", content=content, headers=JSON)
        error = response.json()["error"]
        said = (response.status_code, error["code"])
        assert said == (status, code), (content[:80], error)
        assert 0 < len(error["message"]) < 500, content[:80]
        assert "\n" not in error["message"]
        assert response.headers["content-type"] == "application/json"
    for text in ODD_BUT_FINE:
        found = client.post("api/translate", json={"text": text}).json()
        assert len(found["text"]) >= 1, text
    assert client.post("api/translate", json={"text": "one"}).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "code"),
    [
        ("POST", "api/translate", {}, 415, "not_json"),
        ("POST", "api/translate", {"Content-Type": "text/plain"}, 415, "not_json"),
        (
            "POST",
            "api/translate",
            {"Content-Type": "application/x-www-form-urlencoded"},
            415,
            "not_json",
        ),
        ("GET", "api/translate", {}, 405, "method_not_allowed"),
        ("POST", "api/runs", JSON, 405, "method_not_allowed"),
        ("DELETE", "api/runs", JSON, 405, "method_not_allowed"),
        ("GET", "api/nothing", {}, 404, "not_found"),
        ("GET", "page/nothing.js", {}, 404, "not_found"),
        ("GET", "page/", {}, 404, "not_found"),
        ("GET", "page/..%2flimits.py", {}, 404, "not_found"),
        ("GET", "attention/attention_page.py", {}, 404, "not_found"),
        ("GET", "docs", {}, 404, "not_found"),
    ],
)
def test_wrong_places_and_types_have_clear_answers(client, method, path, headers, status, code):
    response = client.request(method, path, content=b"{}", headers=headers)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)


def test_what_is_no_request_harms_nobody(address, client):
    host, port = httpx.URL(address).host, httpx.URL(address).port
    for sent in (
        b"",
        b"\0" * 100,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/translate HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{",
    ):
        with socket.create_connection((host, port), timeout=60) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.makefile("rb").read()
        assert not answer or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")), sent[:40]
    assert client.post("api/translate", json={"text": "one"}).status_code == 200
