"""The client before a server that holds the real SavedModel: it answers as the translator does."""

import concurrent.futures
import itertools
import random
import threading

import numpy as np
import pytest

from keras_transformer import Translator
from keras_transformer.serving import TranslationClient
from keras_transformer.toolkit.serving.connection import (
    InvalidAnswer,
    ModelNotFound,
    ModelNotReady,
    RequestRefused,
    RequestTimedOut,
    ServerUnavailable,
    ServerUnreachable,
    VersionNotFound,
)
from tests.export.nasty_sentences import NASTY
from tests.translation_training.number_text import ENGLISH, pairs

pytestmark = pytest.mark.tensorflow

APIS = ("rest", "grpc")
NUM_REQUESTS, NUM_THREADS = 1000, 32
UNAVAILABLE, RESOURCE_EXHAUSTED, INVALID_ARGUMENT, DEADLINE_EXCEEDED = 14, 8, 3, 4


def address(server, api):
    return server.rest_address if api == "rest" else server.grpc_address


@pytest.fixture(scope="module")
def translator(trained_run):
    return Translator.load(trained_run)


@pytest.fixture(params=APIS)
def client(request, server):
    with TranslationClient(address(server, request.param), "en_de", backoff=0.01) as client:
        yield client


SENTENCES = ["one two three four", "", "five", " ", "two two", "\x00", "🎉 one\ntwo", "three one"]


def test_translations_are_the_translators(client, translator):
    assert client.translate(iter(SENTENCES)) == translator.translate(SENTENCES)


def test_one_sentence_has_one_translation(client, translator):
    (expected,) = translator.translate(SENTENCES[:1])
    assert client.translate(SENTENCES[0]) == client(SENTENCES[0]) == expected
    assert client(SENTENCES[:1]) == [expected]
    assert client("") == ""


def test_nbest_lists_are_the_translators(client, translator):
    found, expected = client.translate_nbest(SENTENCES), translator.translate_nbest(SENTENCES, 4)
    assert [[text for text, _ in row] for row in found] == [
        [text for text, _ in row] for row in expected
    ]
    for row, expected_row in zip(found, expected, strict=True):
        scores = [score for _, score in expected_row]
        assert [score for _, score in row] == pytest.approx(scores, abs=1e-5)
    assert found[1] == [("", 0.0)]
    assert client.translate_nbest(SENTENCES, 2) == [row[:2] for row in found]
    with pytest.raises(ValueError, match=r"`n` must be at most .*`num_results`, 4\. Received: n=5"):
        client.translate_nbest(SENTENCES, 5)


def test_scores_are_the_translators(client, translator):
    targets = SENTENCES[::-1]
    expected = translator.score(SENTENCES, targets)
    assert client.score(SENTENCES, targets) == pytest.approx(expected, abs=1e-4)


def test_ids_are_the_tokenizers(client, translator):
    rows = client.tokenize(SENTENCES)
    assert rows == translator.source_tokenizer.encode(SENTENCES)
    translations = translator.tokenizer.decode(client.translate_ids(rows))
    assert translations == translator.translate(SENTENCES)
    assert client.translate_ids([[]]) == [[]]


def test_nasty_sentences(client, translator):
    sentences = [text.decode("utf-8", "surrogateescape") for text in NASTY]
    clean = [
        "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
        for text in sentences
    ]
    assert client.tokenize(sentences) == translator.source_tokenizer.encode(clean)
    short = [i for i, text in enumerate(clean) if len(text.encode()) < 40]
    assert len(short) > 30
    expected = translator.translate([clean[i] for i in short])
    assert client.translate([sentences[i] for i in short]) == expected


def test_batches_hold_what_is_asked_and_the_order_is_kept(client, server, translator):
    sentences = [text for n in (1, 2, 3) for text in pairs(n)[0]][:100]
    client.batch_size = 7
    before = server.servables.num_requests
    found = client.translate(sentences)
    assert server.servables.num_requests - before == 15  # 100 / 7
    client.batch_size = 32
    assert found == client.translate(sentences) == translator.translate(sentences)


def test_a_progress_bar(client, capsys):
    client.translate(["one", "two"], progress=True)
    assert "2/2" in capsys.readouterr().err


def test_grpc_brings_large_answers(server, monkeypatch):
    """gRPC's own limit is 4 MB."""
    ids = np.full([1, 2_500_000], 300, "int32")
    outputs = {"ids": ids, "lengths": np.array([2_500_000], "int32")}
    monkeypatch.setattr(server.servables, "predict", lambda *_: outputs)
    with TranslationClient(server.grpc_address, "en_de") as client:
        assert client.tokenize(["one"]) == ids.tolist()


def test_an_answer_with_too_few_rows(client, server, monkeypatch):
    outputs = {"outputs": np.array([b"eins"], object), "scores": np.array([-1.0], "float32")}
    monkeypatch.setattr(server.servables, "predict", lambda *_: outputs)
    with pytest.raises(InvalidAnswer, match=r"`translate` must return 2 rows of `outputs`"):
        client.translate(["one", "two"])


def test_metadata(client):
    metadata = client.metadata()
    signatures = metadata.pop("signatures")
    assert metadata == {"name": "en_de", "version": 1}
    assert sorted(signatures) == [
        "score",
        "serving_default",
        "tokenize",
        "translate",
        "translate_ids",
        "translate_nbest",
    ]
    assert signatures["translate_ids"]["inputs"] == {
        "input_ids": {"dtype": "DT_INT32", "shape": [-1, -1]},
        "input_lengths": {"dtype": "DT_INT32", "shape": [-1]},
    }
    assert signatures["translate"]["outputs"] == {
        "outputs": {"dtype": "DT_STRING", "shape": [-1]},
        "scores": {"dtype": "DT_FLOAT", "shape": [-1]},
    }


@pytest.fixture(scope="module")
def requests_and_answers(translator):
    """Pairs of sentences, no sentence twice, and their translations."""
    sentences = [
        " ".join(words) for n in (5, 4, 3, 2) for words in itertools.product(ENGLISH, repeat=n)
    ][-2 * NUM_REQUESTS :]
    random.Random(1).shuffle(sentences)
    translations = translator.translate(sentences)
    return [
        [list(pair) for pair in zip(texts[::2], texts[1::2], strict=True)]
        for texts in (sentences, translations)
    ]


@pytest.mark.parametrize("api", ["grpc", pytest.param("rest", marks=pytest.mark.slow)])
def test_a_thousand_requests_of_many_threads(api, loaded_model, requests_and_answers):
    """None is lost and none gets another's answer, though the server batches them together."""
    from tests.serving.servers.model_servers import ModelServer

    requests, expected = requests_and_answers
    assert len(set(itertools.chain(*requests))) == 2 * NUM_REQUESTS
    assert len(set(map(tuple, expected))) > 0.9 * NUM_REQUESTS  # so a mix-up would be seen
    (servable,) = loaded_model.values()
    servable.largest_batch = 0
    with (
        ModelServer(
            {"en_de": loaded_model}, batching={"max_batch_size": 64, "timeout": 0.5}
        ) as server,
        TranslationClient(address(server, api), "en_de") as client,
        concurrent.futures.ThreadPoolExecutor(NUM_THREADS) as threads,
    ):
        answers = list(threads.map(client.translate, requests))
        assert server.servables.num_requests == NUM_REQUESTS
    assert servable.largest_batch > 8
    assert answers == expected


@pytest.mark.parametrize("api", APIS)
def test_every_method_in_a_batch_with_others(api, loaded_model, translator):
    from tests.serving.servers.model_servers import ModelServer

    texts = [text for n in (1, 2, 3) for text in pairs(n)[0]][::8]
    rows = translator.source_tokenizer.encode(texts)
    with (
        ModelServer({"en_de": loaded_model}, batching={}) as server,
        TranslationClient(address(server, api), "en_de") as client,
        concurrent.futures.ThreadPoolExecutor(NUM_THREADS) as threads,
    ):
        ids = threads.map(lambda row: client.translate_ids([row])[0], rows)
        scores = threads.map(lambda text: client.score([text], [text])[0], texts)
        tokens = threads.map(lambda text: client.tokenize([text])[0], texts)
        nbest = threads.map(lambda text: client.translate_nbest([text], 1)[0][0][0], texts)
        expected = translator.translate(texts)
        assert translator.tokenizer.decode(list(ids)) == expected
        assert list(nbest) == expected
        assert list(tokens) == rows
        assert list(scores) == pytest.approx(translator.score(texts, texts), abs=1e-4)


@pytest.mark.parametrize("code", [UNAVAILABLE, RESOURCE_EXHAUSTED])
def test_a_server_that_has_too_much_to_do_is_asked_again(client, server, code):
    server.servables.fail_next(3, code)
    before = server.servables.num_requests
    assert client.translate(["one two three four"]) == ["eins zwei drei vier"]
    assert server.servables.num_requests - before == 4
    server.servables.fail_next(4, code, "The batch scheduling queue is full")
    with pytest.raises(ServerUnavailable, match=r"queue is full\. Tried 4 times\.$"):
        client.translate(["one"])


def test_a_wrong_request_is_not_sent_again(client, server):
    server.servables.fail_next(1, INVALID_ARGUMENT, "Batch size 64 is too large")
    before = server.servables.num_requests
    with pytest.raises(RequestRefused, match="Batch size 64 is too large") as caught:
        client.translate(["one"])
    assert server.servables.num_requests - before == 1
    assert client.address in str(caught.value)


def test_a_request_that_takes_the_server_too_long_is_not_sent_again(client, server):
    server.servables.fail_next(1, DEADLINE_EXCEEDED, "Timed out by the server")
    before = server.servables.num_requests
    with pytest.raises(RequestTimedOut, match="Timed out by the server.* `batch_size`"):
        client.translate(["one"])
    assert server.servables.num_requests - before == 1


@pytest.mark.parametrize("api", APIS)
def test_a_hanging_server_times_out(api, server):
    released = threading.Event()
    server.servables.fail_next(1, 0, after=released)
    with (
        TranslationClient(address(server, api), "en_de", timeout=0.3) as client,
        pytest.raises(RequestTimedOut, match=r"en_de`: no answer within 0\.3 s"),
    ):
        client.translate(["one"])
    released.set()


@pytest.mark.parametrize("api", APIS)
def test_what_the_server_does_not_have(api, server, pauses):
    with (
        TranslationClient(address(server, api), "de_en") as client,
        pytest.raises(ModelNotFound, match="the server has no model `de_en`"),
    ):
        client.translate(["one"])
    with TranslationClient(address(server, api), "en_de", version=7) as client:
        with pytest.raises(
            VersionNotFound, match=r"the server has no version 7\. Its versions are 1\.$"
        ):
            client.translate(["one"])
        with pytest.raises(VersionNotFound, match="version 7"):
            client.metadata()
        assert not client.ready()
        with pytest.raises(VersionNotFound, match="Waited 60 s"):
            client.wait_until_ready(60)
    with TranslationClient(address(server, api), "en_de", version=1) as client:
        assert client.ready()
        assert client.translate(["one two three four"]) == ["eins zwei drei vier"]


@pytest.mark.parametrize("api", APIS)
def test_versions(api, loaded_model):
    """The latest loaded version answers, unless one is asked for."""
    from tests.serving.servers.model_servers import ModelServer

    versions = {0: loaded_model[1], 3: loaded_model[1], 12: loaded_model[1]}
    with ModelServer({"en_de": versions}) as server:
        with TranslationClient(address(server, api), "en_de") as client:
            assert client.metadata()["version"] == 12
            server.servables.set_state("en_de", 12, "LOADING")
            assert client.metadata()["version"] == 3
            with TranslationClient(address(server, api), "en_de", version=0) as first:
                assert first.metadata()["version"] == 0
                assert first.translate(["one two three four"]) == ["eins zwei drei vier"]
            server.servables.set_state("en_de", 0, "END")
            server.servables.set_state("en_de", 3, "UNLOADING")
            assert not client.ready()
            with pytest.raises(ModelNotReady, match="3 is UNLOADING, version 12 is LOADING"):
                client.translate(["one"])
        with TranslationClient(address(server, api), "en_de", version=3) as client:
            assert not client.ready()


@pytest.mark.parametrize("api", APIS)
def test_a_server_that_stops_and_comes_back(api, loaded_model):
    from tests.serving.servers.model_servers import ModelServer

    with ModelServer({"en_de": loaded_model}) as server:
        client = TranslationClient(address(server, api), "en_de", retries=1, backoff=0.01)
        client.wait_until_ready(600)
        rest_port, grpc_port = (
            int(one.rpartition(":")[2]) for one in (server.rest_address, server.grpc_address)
        )
    with client:
        with pytest.raises(ServerUnreachable, match=r"no model server answers there .* 2 times"):
            client.translate(["one"])
        assert not client.ready()
        again = ModelServer({"en_de": loaded_model}, rest_port=rest_port, grpc_port=grpc_port)
        with again:
            client.wait_until_ready(600)
            assert client.translate(["one two three four"]) == ["eins zwei drei vier"]


@pytest.mark.parametrize("api", APIS)
def test_the_port_of_the_other_api(api, server):
    port = address(server, "grpc" if api == "rest" else "rest").rpartition(":")[2]
    scheme = "http" if api == "rest" else "grpc"
    with (
        TranslationClient(f"{scheme}://127.0.0.1:{port}", "en_de", retries=0) as client,
        pytest.raises(ServerUnreachable, match="port"),
    ):
        client.translate(["one"])
