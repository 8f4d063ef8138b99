"""The client with terms and variables: it answers as the translator does."""

import concurrent.futures
import re

import pytest

from keras_transformer import Translator
from keras_transformer.errors import UserInputError
from keras_transformer.formats.saved_model.writer import export_saved_model
from keras_transformer.serving import TranslationClient
from keras_transformer.text import Glossary, SentencePieceTokenizer
from keras_transformer.toolkit.serving.connection import InvalidAnswer
from tests.random_translation import WORDS, build, sentences
from tests.serving.servers.model_servers import ModelServer
from tests.serving.servers.servables import Servable

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

LINES = ["", *sentences(12), "house {name}, tree", "%s"]
GLOSSARY = Glossary({"house": ["stone", "old tree"], "tree": "lamp lamp", "old": "bread"})


def translator(seed):
    """A translator; each seed has its own vocabulary."""
    lines = [f"{line} {'xyz'[seed]}" for line in sentences(200, seed)]
    tokenizer = SentencePieceTokenizer.train(lines, vocabulary_size=60 + seed)
    return Translator(build(tokenizer, seed), tokenizer, beam_size=2, extra_length=30)


@pytest.fixture(scope="module")
def translators():
    return [translator(0), translator(1)]


@pytest.fixture(scope="module")
def servables(translators, tmp_path_factory):
    base = tmp_path_factory.mktemp("served")
    return [
        Servable(export_saved_model(each, base / str(i), terms=True, max_source_length=40))
        for i, each in enumerate(translators)
    ]


@pytest.fixture(scope="module", params=[None, {"timeout": 0.2}], ids=["plain", "batching"])
def server(request, servables):
    with ModelServer({"model": {1: servables[0]}}, batching=request.param) as server:
        yield server


@pytest.mark.parametrize("api", ["rest", "grpc"])
def test_translations_have_the_terms_of_the_translator(server, translators, api):
    address = server.rest_address if api == "rest" else server.grpc_address
    with TranslationClient(address, "model", batch_size=4, timeout=300) as client:
        for how in ({"glossary": GLOSSARY}, {"keep": "auto"}, {"glossary": {}, "keep": "auto"}):
            assert client.translate(LINES, **how) == translators[0].translate(LINES, **how)
        assert client.translate("%s", keep="auto") == translators[0].translate("%s", keep="auto")
        assert client.translate(LINES[:4]) == translators[0].translate(LINES[:4])
        with pytest.raises(UserInputError, match="terms of sentence 2 must fit"):
            client.translate(["", "house"], glossary={"house": " ".join(WORDS * 9)})


def test_requests_that_the_server_combines_keep_their_terms(server, translators):
    """It pads arrays of terms, which have different sizes, with their first element."""
    expected = translators[0].translate(LINES, glossary=GLOSSARY)
    with (
        TranslationClient(server.grpc_address, "model", timeout=300) as client,
        concurrent.futures.ThreadPoolExecutor(len(LINES)) as pool,
    ):
        client.translate(LINES[1], glossary=GLOSSARY)
        found = pool.map(lambda line: client.translate(line, glossary=GLOSSARY), LINES)
        assert [*found] == expected


def test_a_new_version_may_have_another_vocabulary(servables, translators):
    models = {"model": {1: servables[0]}}
    with (
        ModelServer(models) as server,
        TranslationClient(server.rest_address, "model", timeout=300) as client,
    ):
        for number, translator in enumerate(translators, start=1):
            models["model"][number] = servables[number - 1]
            expected = translator.translate(LINES, glossary=GLOSSARY)
            assert client.translate(LINES, glossary=GLOSSARY) == expected


def test_a_model_without_terms_is_one_line(loaded_model):
    with (
        ModelServer({"en_de": loaded_model}) as server,
        TranslationClient(server.rest_address, "en_de") as client,
    ):
        place = re.escape(f"{server.rest_address}, model `en_de` has no search for `glossary`")
        with pytest.raises(UserInputError, match=f"^{place} and `keep`: export the model again"):
            client.translate("one", glossary={"one": "eins"})


def test_broken_tokenizers_are_one_line(server, monkeypatch):
    with TranslationClient(server.rest_address, "model", timeout=300) as client:
        for models in (["?", "?"], ["é", ""], ["AAAA", "AAAA"]):
            monkeypatch.setattr(client, "_predict_text", lambda *_, models=models, **__: [models])
            with pytest.raises(InvalidAnswer, match="`tokenizers` must return SentencePiece"):
                client.translate("house", keep="auto")
