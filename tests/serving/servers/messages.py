"""What errors must say."""

import pytest

from keras_transformer.serving import TranslationClient
from tests.serving.servers.scripted_server import ScriptedServer


def is_one_line(error, *parts):
    """Whether the message of a caught exception is one line that has some parts."""
    text = str(error.value)
    return len(text.splitlines()) == 1 and text.isprintable() and all(map(text.__contains__, parts))


def chain_text(error):
    """The texts of a caught exception and of all that led to it."""
    texts, one = [], error.value
    while one is not None:
        texts += [str(one), repr(one)]
        one = one.__cause__ or one.__context__
    return " ".join(texts)


def told(error, *answers, **options):
    """The message of a translation that such answers of a server let fail: a line that says where.

    Args:
        error: the class of the error.
        answers: those of a `ScriptedServer`.
        options: those of the client.
    """
    with ScriptedServer(*answers) as server, pytest.raises(error) as caught:
        TranslationClient(server.address, "en_de", **options).translate(["one"])
    assert is_one_line(caught, server.address, "en_de")
    assert len(str(caught.value)) < 1000
    return str(caught.value)
