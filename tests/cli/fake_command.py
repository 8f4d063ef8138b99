"""`python -m tests.cli.fake_command VERB ...`: the command as a process, with a fake model."""

import sys
import types

from keras_transformer import installation
from keras_transformer.toolkit import cli
from keras_transformer.toolkit.cli import named_models
from keras_transformer.toolkit.cli.verbs import score_command
from tests.cli.fake_translator import FakeTranslator


def main():
    """Run the command as its own process would, without Keras."""
    sys.modules["keras"] = None  # an import would take seconds, unseen
    sys.modules["keras_transformer.inference.translator"] = types.SimpleNamespace(
        Translator=FakeTranslator
    )
    for module in (installation, named_models, score_command):
        module.start_backend_quietly = lambda **_: None
    named_models.NamedModels.digests = lambda _: [FakeTranslator.weights]
    FakeTranslator.calls = []
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
