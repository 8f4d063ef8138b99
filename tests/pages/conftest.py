"""The run with random weights that the examples of several pages find."""

import pytest

from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.types import TERM_TAGS
from tests.random_translation import build, write_run

LINES = ["A small house.", "A tree.", "Das kleine Haus.", "Ein kleines Haus.", "Ein Baum."]
LETTERS = "ribeiro moradias Häuschen"  # of the terms on the pages


@pytest.fixture
def untrained_run(tmp_path, monkeypatch):
    """`runs/en_de` in the working directory."""
    monkeypatch.chdir(tmp_path)
    # Bytes, so that the pages may use any term.
    tokenizer = SentencePieceTokenizer.train(
        LINES, vocabulary_size=330, byte_fallback=True, user_defined_symbols=TERM_TAGS
    )
    model = build(tokenizer)
    run = write_run("runs/en_de", model, tokenizer)
    model.save_weights(run.checkpoints.best_path)
    return run
