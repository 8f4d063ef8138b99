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
from tests.app.flood import FLOODS, Flood, ask
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


JSON = {"Content-Type": "application/json"}
DEEP = b'{"text": ' + b"[" * 20_000 + b"]" * 20_000 + b"}"


def body(**fields):
    return json.dumps({"text": "one", **fields}).encode()


# Values of a request's fields that are of a wrong type, out of range, or no characters.
WRONG = {
    "text": [None, 7, ["one"], {"text": "one"}, True, "one\0two", "\ud83c", "\udf89 one"],
    "n_best": ["2", 0, -1, 1.5, True, 100, 2**63, None],
    "run": [7, ["digits"]],
    "texts": ["one"],
    "Text": ["one"],
    "__proto__": [{"a": 1}],
    "\ud800": [1],
    "x" * 2000: [1],
    "search": [
        7, [], None, {"beam": 4}, {"beam_size": 0}, {"beam_size": 33}, {"beam_size": 10**30},
        {"beam_size": 4.0}, {"beam_size": "4"}, {"alpha": -1}, {"alpha": 10},
        {"alpha": 9.5, "length_penalty": "power"}, {"alpha": "0.6"}, {"alpha": []},
        {"length_penalty": "wu"}, {"length_penalty": 1}, {"ending": "ANY"}, {"extra_length": 0},
        {"extra_length": 10**9}, {"max_source_length": 10**9},
    ],
    "target_language": ["deu", ">>deu<<", 1],
    "source_language": ["../../etc", "", "e\0n", "x" * 1000],
}  # fmt: skip
# By the answer's status and code, and by the path.
NASTY_BY_ANSWER = {
    (400, "bad_json"): {
        "translate": [
            b"{", b"{'text': 'one'}", b'{"text": "one"', b'{"text": "one"} x', b'{"text": "a\nb"}',
            b'{"text": "one", "n_best": ' + b"9" * 5000 + b"}", DEEP, b"\0",
            b"<script>alert(1)</script>",
        ],
        "align": [b"["],
        "attention": [b'{"source": '],
        "parse": [b"tree"],
    },
    (400, "not_utf8"): {
        "translate": [
            b'{"text": "\xff"}', b'{"text": "\xc3"}', b'{"text": "\xc0\x80"}',
            '{"text": "größe"}'.encode("latin-1"),
        ],
    },
    (422, "invalid_request"): {
        "translate": [
            # No object
            b"\xef\xbb\xbf{}", b"", b"null", b"[]", b'"one"', b"7", b"{}", b'[{"text": "one"}]',
            # What Python reads and JSON has not
            b'{"text": NaN}', b'{"text": "one", "n_best": Infinity}', b'{"text": "\xed\xa0\x80"}',
            b'{"text": "one", "search": {"alpha": -Infinity}}',
            b'{"text": "one", "search": {"alpha": 1e400}}',
            *(body(**{name: value}) for name, values in WRONG.items() for value in values),
        ],
        "align": [
            b'{"pairs": [["a", "b"]]}', b'{"pairs": [{"source": "a"}]}',
            b'{"pairs": {"source": "a", "target": "b"}}',
            b'{"pairs": [{"source": "a\\u0000", "target": "b"}]}',
        ],
        "attention": [b'{"source": ["a"]}', b'{"source": "a", "target": "\\ud800"}'],
        "parse": [body(n_best=2)],
    },
    (422, "empty_text"): {
        "translate": [b'{"text": ""}', '{"text": " \\n\\t\u2003\u2028 "}'.encode()],
        "translate/stream": [b'{"text": ""}'],
        "parse": [b'{"text": "  "}'],
        "align": [b'{"pairs": []}', b'{"pairs": [{"source": " ", "target": "b"}]}'],
        "attention": [b'{"source": ""}'],
    },
    (404, "unknown_run"): {
        "translate": [body(run=run) for run in ("no", "", "../digits", "\ud800")],
    },
    (422, "wrong_kind"): {
        "translate": [body(run="trees")],
        "parse": [body(run="digits")],
        "align": [b'{"pairs": [{"source": "a", "target": "b"}], "run": "trees"}'],
    },
    (413, "too_many_characters"): {"translate": [body(text="x" * 2001), body(text="🎉" * 2001)]},
    (413, "too_many_sentences"): {
        "translate": [body(text="one\n" * 21)],
        "translate/stream": [body(text="one\n" * 21)],
    },
    (413, "body_too_large"): {"translate": [body(text="x" * 1_000_000)]},
    (422, "sentence_too_long"): {
        "translate": [body(text="seven " * 100), body(text="ñ" * 2000)],
        "attention": [json.dumps({"source": "seven " * 100}).encode()],
    },
}  # fmt: skip
NASTY = [
    (path, content, answer)
    for answer, paths in NASTY_BY_ANSWER.items()
    for path, contents in paths.items()
    for content in contents
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
    for path, content, answer in NASTY:
        response = client.post(f"api/{path}", content=content, headers=JSON)
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == answer, (content[:80], error)
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


@pytest.mark.parametrize("kind", FLOODS)
def test_300_slow_programs_on_the_machine_shut_nobody_out(fake_app, kind):
    with Flood(fake_app.base_url.port, kind, 300):
        ask(fake_app.base_url.port)
