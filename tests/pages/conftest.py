"""The run with random weights that the examples of several pages find."""

import pytest

from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.text import SentencePieceTokenizer
from tests.random_translation import build

LINES = ["A small house.", "A tree.", "Das kleine Haus.", "Ein kleines Haus.", "Ein Baum."]


@pytest.fixture
def untrained_run(tmp_path, monkeypatch):
    """`runs/en_de` in the working directory."""
    monkeypatch.chdir(tmp_path)
    tokenizer = SentencePieceTokenizer.train(LINES, vocabulary_size=40)
    model = build(tokenizer)
    run = RunDirectory.create("runs/en_de")
    run.start(model=model, tokenizer=tokenizer, settings={})
    model.save_weights(run.weights_path)
    model.save_weights(run.checkpoints.best_path)
    return run
