import io
import sys
import types

import pytest

from keras_transformer.toolkit import cli
from keras_transformer.toolkit.cli.named_models import NamedModels
from tests.cli.fake_translator import FakeTranslator


@pytest.fixture
def call(capfd):
    """Call `keras-transformer`; gives (exit code, stdout, stderr)."""

    def run(*arguments):
        capfd.readouterr()
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as exit:
            code = exit.code
        return (code, *capfd.readouterr())

    return run


@pytest.fixture
def printed(call):
    """Call `keras-transformer`, which must end well; gives its standard output."""

    def run(*arguments):
        code, out, err = call(*arguments)
        assert code == 0, err
        return out

    return run


@pytest.fixture
def dev_set(tmp_path):
    """Write sources and references to files; gives their flags."""

    def write(sources, references):
        texts = {"--source": ("dev.en", sources), "--reference": ("dev.de", references)}
        for name, lines in texts.values():
            (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
        return [f"{flag}={tmp_path / name}" for flag, (name, _) in texts.items()]

    return write


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
