"""Random sentences, and models with random weights that translate them into others."""

import numpy as np

from keras_transformer.models import build_transformer
from keras_transformer.runs.run_directory import RunDirectory

WORDS = ["house", "tree", "river", "cloud", "stone", "bread", "lamp", "green", "small", "old"]


def sentences(number, seed=0):
    """Sentences of 1 to 12 words."""
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice(WORDS, generator.integers(1, 13))) for _ in range(number)]


def build(tokenizer, seed=0, **overrides):
    """A model of one layer a side with random weights, whose translations vary."""
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1, "hidden_dim": 16}
    sizes |= {"intermediate_dim": 32, "num_heads": 2}
    sizes |= {"vocabulary_size": tokenizer.vocabulary_size}
    model = build_transformer("tiny", **sizes | overrides)
    generator = np.random.default_rng(seed)
    model.set_weights([w + generator.normal(0, 0.4, w.shape) for w in model.get_weights()])
    return model


def build_parser(target, source):
    """The same for the tokens of trees, which count their positions in words."""
    return build(
        target,
        source_vocabulary_size=source.vocabulary_size,
        positions="words",
        source_word_starts=source.word_starts,
        target_word_starts=target.word_starts,
    )


def write_run(path, model, tokenizer, source_tokenizer=None):
    """The `RunDirectory` of a model, as after a training."""
    run = RunDirectory.create(path)
    run.start(model=model, tokenizer=tokenizer, source_tokenizer=source_tokenizer, settings={})
    model.save_weights(run.weights_path)
    return run
