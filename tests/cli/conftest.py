import io
import sys
import types

import pytest

from keras_transformer.toolkit import cli
from keras_transformer.toolkit.cli.named_models import NamedModels
from tests.cli.fake_translator import FakeTranslator


@pytest.fixture
def command(monkeypatch, capfdbinary):
    """Run `keras-transformer` with a fake translator; gives (exit code, stdout, stderr)."""
    module = types.SimpleNamespace(Translator=FakeTranslator)
    monkeypatch.setitem(sys.modules, "keras_transformer.inference.translator", module)
    monkeypatch.setattr(NamedModels, "digests", lambda _: [FakeTranslator.weights])
    FakeTranslator.calls = []

    def run(*arguments, stdin=b""):
        stream = types.SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(stdin)))
        monkeypatch.setattr(sys, "stdin", stream)
        code = cli.main([str(argument) for argument in arguments])
        return (code, *capfdbinary.readouterr())

    return run
