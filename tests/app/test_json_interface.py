"""Each endpoint of the JSON interface: its answers are those of the Translator and the Parser."""

import json
import math
import re

import pytest

from keras_transformer.installation import __version__
from keras_transformer.interpretation import attention_maps
from keras_transformer.toolkit.app import AppLimits
from tests.app.fake_run import FakeParser, FakeRun

TEXT = "one two. three\n\nfour  five six\n"
SENTENCES = ["one two.", "three", "four  five six"]


def post(client, path, **body):
    response = client.post(f"api/{path}", json=body)
    assert response.status_code == 200, response.text
    return response.json()


def lines(client, path, **body):
    with client.stream("POST", f"api/{path}", json=body) as response:
        assert response.headers["content-type"] == "application/x-ndjson"
        return [json.loads(line) for line in response.iter_lines()]


def error_of(client, path, **body):
    response = client.post(f"api/{path}", json=body)
    error = response.json()["error"]
    return response.status_code, error["code"], error["message"]


def test_runs_tells_what_may_be_asked(client, translator, parser):
    found = client.get("api/runs").json()
    assert found["version"] == __version__
    assert found["limits"] == {"characters": 2000, "sentences": 20, "tokens": 64}
    first, second, third = found["runs"]
    search = {
        "beam_size": translator.beam_size,
        "alpha": translator.alpha,
        "length_penalty": "gnmt",
        "ending": "any",
        "extra_length": translator.extra_length,
    }
    assert search.items() <= first["search"].items()
    assert first == {
        "search": second["search"],
        "name": "digits",
        "kind": "translation",
        "source_language": None,
        "target_language": None,
        "target_languages": [],
        "takes_terms": True,
        "examples": [],
        "most_beam_size": 32,
        "most_extra_length": 400,
    }
    assert second == {**first, "name": "digits (2)"}
    assert (third["name"], third["kind"]) == ("trees", "parsing")
    assert third["search"]["beam_size"] == parser.beam_size


def test_a_translated_text_keeps_its_lines(client, translator):
    found = post(client, "translate", text=TEXT, n_best=2)
    expected = translator.translate_nbest(SENTENCES, 2)
    best = [candidates[0][0] for candidates in expected]
    assert found["run"] == "digits"
    assert found["text"] == f"{best[0]} {best[1]}\n\n{best[2]}\n"
    assert [(one["before"], one["source"]) for one in found["sentences"]] == list(
        zip(["", " ", "\n\n"], SENTENCES, strict=True)
    )
    for one, candidates in zip(found["sentences"], expected, strict=True):
        assert [translation["text"] for translation in one["translations"]] == [
            text for text, _ in candidates
        ]
        scores = [translation["score"] for translation in one["translations"]]
        assert scores == pytest.approx([score for _, score in candidates], rel=1e-5)


@pytest.mark.slow
def test_a_request_may_have_a_search_of_its_own(client, translator):
    greedy = type(translator)(
        translator.models, translator.tokenizer, beam_size=1, alpha=0.0, extra_length=3
    )
    search = {"beam_size": 1, "alpha": 0, "extra_length": 3}
    found = post(client, "translate", text="seven eight nine", search=search)
    ((text, score),) = greedy.translate_nbest(["seven eight nine"], 1)[0]
    (translation,) = found["sentences"][0]["translations"]
    assert translation == {"text": text, "score": pytest.approx(score, rel=1e-5)}


def test_a_stream_has_the_same_sentence_by_sentence(client):
    whole = post(client, "translate", text=TEXT, n_best=2, run="digits (2)")
    start, *found, end = lines(client, "translate/stream", text=TEXT, n_best=2, run="digits (2)")
    sources = [
        {"source": sentence["source"], "before": sentence["before"]}
        for sentence in whole["sentences"]
    ]
    assert start == {"event": "start", "run": "digits (2)", "sentences": sources, "after": "\n"}
    assert [line["index"] for line in found] == [0, 1, 2]
    assert [[one["text"] for one in line["translations"]] for line in found] == [
        [one["text"] for one in sentence["translations"]] for sentence in whole["sentences"]
    ]
    assert end == {"event": "end"}


def test_sentences_come_while_later_ones_are_computed(start):
    run = FakeRun(turns=1)
    client = start(run)
    with client.stream("POST", "api/translate/stream", json={"text": "a\nb\nc\nd"}) as response:
        arriving = map(json.loads, response.iter_lines())
        assert next(arriving)["event"] == "start"
        assert [next(arriving)["translations"][0]["text"] for _ in range(2)] == ["A", "B"]
        run.turns.release()
        assert [line["event"] for line in arriving] == ["sentence", "sentence", "end"]


def test_a_stream_that_breaks_off_says_why(start):
    events = lines(start(FakeRun()), "translate/stream", text="a\nb\ndamaged\nd")
    assert [line["event"] for line in events] == ["start", "sentence", "sentence", "error"]
    assert events[-1]["error"] == {
        "code": "refused",
        "message": "The model's scores are not finite numbers.",
    }


def test_a_mistake_in_the_program_is_an_answer_too(start, caplog):
    client = start(FakeRun())
    assert error_of(client, "translate", text="broken") == (
        500,
        "internal_error",
        "The app has failed. See its log for details.",
    )
    assert "a mistake in the program" in caplog.text
    assert post(client, "translate", text="a")["text"] == "A"


def test_alignments_are_the_translators(client, translator):
    pairs = [("one  two three", "eins zwei drei"), ("four", "vier fünf"), ("six", "")]
    found = post(
        client, "align", pairs=[{"source": source, "target": target} for source, target in pairs]
    )
    expected = translator.align(*zip(*pairs, strict=True))
    assert [[tuple(pair) for pair in one["pairs"]] for one in found["alignments"]] == [
        one.word_pairs() for one in expected
    ]
    assert found["alignments"][0]["source_words"] == ["one", "two", "three"]
    assert found["alignments"][1]["target_words"] == ["vier", "fünf"]
    assert found["alignments"][2]["target_words"] == []


def test_attention_is_that_of_the_interpretation(client, translator):
    found = post(client, "attention", source="one two", target="eins zwei")
    assert found == attention_maps(translator, "one two", "eins zwei").to_json()
    own = translator.translate(["three four"])[0]
    assert post(client, "attention", source="three four") == post(
        client, "attention", source="three four", target=own
    )


def test_trees_are_the_parsers(client, parser):
    text = "a small house\n\n(the old tree) river"
    found = post(client, "parse", text=text)
    expected = parser.parse_with_scores(["a small house", "(the old tree) river"])
    assert found["run"] == "trees"
    for one, parse in zip(found["sentences"], expected, strict=True):
        assert one["tree"] == str(parse.tree)
        assert one["score"] == pytest.approx(parse.score, rel=1e-4)
        words = [node["word"] for node in one["nodes"] if node["word"] is not None]
        assert words == parse.tree.words()
        assert [node["parent"] is None for node in one["nodes"]].count(True) == 1
        assert all(
            node["parent"] is None or one["nodes"][node["parent"]]["word"] is None
            for node in one["nodes"]
        )


def test_trees_come_as_a_stream_too(client):
    whole = post(client, "parse", text="a tree\nold bread")
    start, *found, end = lines(client, "parse/stream", text="a tree\nold bread")
    assert (start["run"], end) == ("trees", {"event": "end"})
    assert [line["tree"] for line in found] == [one["tree"] for one in whole["sentences"]]
    assert [len(line["nodes"]) for line in found] == [
        len(one["nodes"]) for one in whole["sentences"]
    ]
    assert all(math.isfinite(line["score"]) for line in found)


def test_a_language_to_translate_into_is_one_of_the_models(start):
    run = FakeRun(languages=["deu", "fra"])
    client = start(run)
    assert client.get("api/runs").json()["runs"][0]["target_languages"] == ["deu", "fra"]
    post(client, "translate", text="a", target_language="fra")
    post(client, "align", pairs=[{"source": "a", "target": "b"}], target_language="deu")
    assert [work.target_language for work, _ in run.batches] == ["fra", "deu"]
    status, code, message = error_of(client, "translate", text="a", target_language="eng")
    assert (status, code) == (422, "invalid_request")
    assert message.endswith("Received: 'eng'. Supported: deu, fra")


def test_a_text_is_split_by_the_rules_of_the_language_that_the_run_reads(start):
    run = FakeRun()
    client = start(run)
    assert len(post(client, "translate", text="Das ist bzw. war so.")["sentences"]) > 1
    run.source_language = "de"
    assert len(post(client, "translate", text="Das ist bzw. war so.")["sentences"]) == 1


def test_limits_are_told_in_the_error(start):
    client = start(FakeRun(), limits=AppLimits(characters=10, sentences=2))
    assert error_of(client, "translate", text="x" * 11) == (
        413,
        "too_many_characters",
        "A request may have at most 10 characters. Received: 11",
    )
    assert error_of(client, "translate/stream", text="a\nb\nc") == (
        413,
        "too_many_sentences",
        "A request may have at most 2 sentences. Received: 3",
    )
    pairs = [{"source": "a", "target": "b"}] * 3
    assert error_of(client, "align", pairs=pairs)[:2] == (413, "too_many_pairs")
    assert error_of(client, "translate", text="a\nLONG") == (
        422,
        "sentence_too_long",
        "Sentence 2 has more than 256 tokens",
    )


def test_a_sentence_with_too_many_tokens_is_named(client):
    text = "one two.\n" + "seven " * 70
    for path in ("translate", "translate/stream"):
        status, code, message = error_of(client, path, text=text)
        assert (status, code) == (422, "sentence_too_long")
        assert message.startswith("Sentence 2 has more than 64 tokens, end of sentence counted")
    # A target may have 400 tokens more, as many as the longest output.
    status, code, message = error_of(client, "attention", source="one", target="eins " * 500)
    assert (status, code) == (422, "sentence_too_long")
    assert message.startswith("Target 1 has more than 464 tokens, end of sentence counted")
    status, code, message = error_of(client, "parse", text="a\n" + "b " * 200)
    assert (status, code) == (422, "sentence_too_long")
    assert message.startswith("Sentence 2 has more than ")


def test_a_crowd_is_told_to_come_later(start):
    run = FakeRun(limits=AppLimits(waiting=1), turns=0)
    client = start(run)
    with client.stream("POST", "api/translate/stream", json={"text": "a\nb\nc"}) as first:
        arriving = first.iter_lines()
        assert json.loads(next(arriving))["event"] == "start"
        response = client.post("api/translate", json={"text": "d"})
        assert (response.status_code, response.json()["error"]["code"]) == (503, "busy")
        assert int(response.headers["retry-after"]) >= 1
        assert client.get("api/runs").status_code == 200  # asks no model
    run.turns.release(100)


def test_the_document_describes_every_endpoint(client):
    document = client.get("api/openapi.json").json()
    assert set(document["paths"]) == {
        "/api/runs",
        "/api/translate",
        "/api/translate/stream",
        "/api/align",
        "/api/attention",
        "/api/parse",
        "/api/parse/stream",
    }
    assert document["info"]["version"] == __version__
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert operation["summary"], path
            assert operation["description"], path
    answers = document["paths"]["/api/translate/stream"]["post"]["responses"]
    assert list(answers["200"]["content"]) == ["application/x-ndjson"]
    assert answers["413"]["content"]["application/json"]["schema"]["$ref"].endswith("/ErrorAnswer")
    objects = document["components"]["schemas"]
    assert objects["TranslateRequest"]["examples"]
    assert not objects["TranslateRequest"]["additionalProperties"]
    assert "HTTPValidationError" not in objects


def test_its_examples_are_answered(client):
    document = client.get("api/openapi.json").json()
    asked = 0
    for path, methods in document["paths"].items():
        content = methods.get("post", {}).get("requestBody", {}).get("content", {})
        for body in content.values():
            name = body["schema"]["$ref"].rpartition("/")[2]
            for example in document["components"]["schemas"][name]["examples"]:
                assert client.post(path, json=example).status_code == 200, path
                asked += 1
    assert asked == 7


LONG = "one.\nLONG one.\ntwo."
TOO_LONG = {"code": "sentence_too_long", "message": "Sentence 2 has more than 256 tokens"}


def test_a_sentence_that_is_too_long_can_be_skipped(start):
    run = FakeRun()
    found = post(start(run), "translate", text=LONG, long_sentences="skip")
    assert found["text"] == "ONE.\nLONG one.\nTWO."
    assert [len(one["translations"]) for one in found["sentences"]] == [1, 0, 1]
    assert [one["error"] for one in found["sentences"]] == [None, TOO_LONG, None]
    assert [item for _, items in run.batches for item in items] == ["one.", "two."]


def test_a_stream_skips_it_too(start):
    client = start(FakeRun(), FakeParser("trees"))
    for path, key in (("translate", "translations"), ("parse", "tree")):
        found = lines(client, f"{path}/stream", text=LONG, long_sentences="skip")
        assert [line["event"] for line in found] == [
            "start",
            "sentence",
            "refused",
            "sentence",
            "end",
        ]
        assert found[2] == {"event": "refused", "index": 1, "error": TOO_LONG}
        assert found[3]["index"] == 2
        assert found[3][key]
        nothing = lines(client, f"{path}/stream", text="LONG", long_sentences="skip")
        assert [line["event"] for line in nothing] == ["start", "refused", "end"]
    skipped = post(client, "parse", text=LONG, long_sentences="skip")["sentences"][1]
    assert (skipped["tree"], skipped["nodes"], skipped["error"]) == ("", [], TOO_LONG)


def test_terms_and_parts_to_keep_are_passed_on(start):
    run = FakeRun()
    client = start(run)
    glossary = {"house": ["Haus", "Häuser"], "tree": "Baum"}
    post(client, "translate", text="a house", glossary=glossary, keep="numbers")
    post(client, "translate", text="a", glossary={}, keep=None)
    lines(client, "translate/stream", text="a", keep="auto")
    (first, _), (second, _), (third, _) = run.batches
    assert [term.targets for term in first.glossary.find("house tree")] == [
        ("Haus", "Häuser"),
        ("Baum",),
    ]
    assert (first.keep, third.keep) == ("numbers", "auto")
    assert (second.glossary, second.keep) == (None, None)


def test_sentences_do_not_end_within_parts_to_keep(start):
    client = start(FakeRun())
    text = "{{ house.\nTree. River }} ends. Next one."
    for keep, sources in (
        ("auto", ["{{ house.\nTree. River }} ends.", "Next one."]),
        ("none", ["{{ house.", "Tree.", "River }} ends.", "Next one."]),
    ):
        found = post(client, "translate", text=text, keep=keep)
        assert [one["source"] for one in found["sentences"]] == sources
        assert found["text"] == text.upper()


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        (
            {"glossary": {"a": ["b"] * 501, "c": ["d"] * 500}},
            (413, "too_many_terms", "A request may have at most 1,000 terms. Received: 1,001"),
        ),
        (
            {"glossary": {"ä" * 50_001: "b"}},
            (
                413,
                "glossary_too_large",
                "A glossary may have at most 100,000 bytes. Received: 100,003",
            ),
        ),
        (
            {"glossary": {"a": [f"b{n}" for n in range(33)]}},
            (
                422,
                "too_many_terms",
                "A sentence may have at most 32 targets of terms and parts to keep. .*: 33 in .* 2",
            ),
        ),
        (
            {"glossary": {"b": "c"}, "text": "x\nb %s" + " %s" * 31, "keep": "auto"},
            (
                422,
                "too_many_terms",
                "A sentence may have at most 32 targets of terms and parts to keep. .*: 33 in .* 2",
            ),
        ),
        ({"glossary": {"a": []}}, (422, "invalid_request", r"`glossary` is invalid: .*")),
        ({"glossary": {" ": "b"}}, (422, "invalid_request", r"`glossary` is invalid: .*")),
        ({"glossary": {"a": "\0"}}, (422, "invalid_request", r"A text must not have NUL .*")),
        ({"glossary": {"a" * 10_000: 7}}, (422, "invalid_request", "`glossary.a{91}` is .*")),
        ({"glossary": [["a", "b"]]}, (422, "invalid_request", "`glossary` is invalid: .*")),
        ({"keep": r"\d+"}, (422, "invalid_request", "`keep` is invalid: .*")),
        ({"markup": "latex"}, (422, "invalid_request", "`markup` is invalid: .*")),
        (
            {"markup": "html", "n_best": 2},
            (422, "invalid_request", "With `markup`, `n_best` must be 1. Received: 2"),
        ),
        (
            {"markup": "html", "long_sentences": "skip"},
            (
                422,
                "invalid_request",
                "With `markup`, `long_sentences` must be refuse. Received: skip",
            ),
        ),
        ({"markup": "xml", "text": "<a>"}, (422, "invalid_request", ".*")),
        (
            {"markup": "html", "text": "<p>a" * 101},
            (413, "too_many_sentences", "A request may have at most 100 sentences. Received: 101"),
        ),
        (
            {"markup": "html", "text": "<p>a<p>LONG"},
            (422, "sentence_too_long", "Sentence 2 has more than 256 tokens"),
        ),
        (
            {"markup": "html", "text": "<p>" * 4000},
            (413, "too_many_characters", "A request may have at most 10,000 .*"),
        ),
    ],
)
def test_faulty_terms_and_documents_are_refused(fake_app, fields, answer):
    status, code, message = error_of(fake_app, "translate", **({"text": "x\na"} | fields))
    assert (status, code) == answer[:2]
    assert re.fullmatch(answer[2], message)
    assert len(message) < 300


@pytest.mark.slow
def test_a_document_keeps_its_markup(client, translator):
    html = "<!-- a --><p class='x'>one <b>two</b></p>\n<p>three {name} &amp;</p>"
    found = post(client, "translate", text=html, markup="html")
    assert found == {
        "run": "digits",
        "text": translator.translate(html, markup="html"),
        "sentences": [],
    }
    assert found["text"].startswith("<!-- a --><p class='x'>")
    assert found["text"].count("{name}") == found["text"].count("<b>") == 1


def test_a_stream_has_no_documents(fake_app):
    status, code, message = error_of(fake_app, "translate/stream", text="a", markup="html")
    assert (status, code) == (422, "invalid_request")
    assert message == "`markup` is not a field of this request."


@pytest.mark.slow
def test_terms_are_in_the_translation(client):
    found = post(client, "translate", text="one two", glossary={"two": "neun"}, n_best=2)
    texts = [one["text"] for one in found["sentences"][0]["translations"]]
    assert [text.split().count("neun") for text in texts] == [1, 1]
