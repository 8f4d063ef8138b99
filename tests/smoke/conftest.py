import pytest

from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.text import SentencePieceTokenizer
from tests.random_translation import build, sentences


@pytest.fixture(scope="package")
def post_norm_run(tmp_path_factory):
    """The path of a run with random weights of an architecture that Marian has."""
    tokenizer = SentencePieceTokenizer.train(sentences(50), vocabulary_size=320, byte_fallback=True)
    model = build(tokenizer)
    run = RunDirectory.create(tmp_path_factory.mktemp("post_norm") / "run")
    run.start(model=model, tokenizer=tokenizer, settings={})
    model.save_weights(run.weights_path)
    return run.path
