"""`python -m tests.cli.fake_command VERB ...`: the command as a process, with a fake model."""

import sys
import types

from keras_transformer import backend_start, cli
from keras_transformer.cli import model_arguments, pair_verbs
from keras_transformer.cli.named_models import NamedModels
from tests.cli.fake_translator import FakeTranslator


def main():
    """Run the command as its own process would, without Keras."""
    sys.modules["keras"] = None  # an import would take seconds, unseen
    sys.modules["keras_transformer.inference.translator"] = types.SimpleNamespace(
        Translator=FakeTranslator
    )
    for module in (backend_start, model_arguments, pair_verbs):
        module.start_backend_quietly = lambda **_: None
    NamedModels.digests = lambda _: [FakeTranslator.weights]
    FakeTranslator.calls = []
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
