"""Stepwise models of a few lines, whose every probability a test can know, and their searches."""

import numpy as np
from keras import ops

from keras_transformer.types import SpecialTokens

EOS, A, B, C, D = 2, 3, 4, 5, 6


def run(search, step, state=(), *, limits, max_length=None, **options):
    """What a search finds for sentences with these limits, as NumPy arrays."""
    found = search(
        step,
        state,
        batch_size=len(limits),
        limits=list(limits),
        max_length=max(limits) if max_length is None else max_length,
        **{"special_tokens": SpecialTokens(), **options},
    )
    return tuple(map(ops.convert_to_numpy, found))


def chain_step(probabilities, *, vocabulary_size=7, padding_id=0):
    """A `step` whose next token depends on the last one: `{token: {next token: probability}}`.

    What a row leaves to 1 goes to padding, which is no output.
    """
    table = np.zeros((vocabulary_size, vocabulary_size))
    for token in range(vocabulary_size):
        row = probabilities.get(token, {})
        table[token, padding_id] = 1 - sum(row.values())
        for following, probability in row.items():
            table[token, following] += probability
    table = np.log(np.maximum(table, 1e-9)).astype("float32")

    def step(tokens, index, state):
        return ops.take(ops.convert_to_tensor(table), tokens, axis=0), state

    return step


class HistoryModel:
    """A random recurrent model: the next token depends on the sentence and on all tokens so far.

    It runs as a `step` with one vector per hypothesis as its state, and in float64 on one prefix.
    """

    def __init__(self, seed, vocabulary_size=11, dim=8, sharpness=1.5):
        generator = np.random.default_rng(seed)
        self.embedding = generator.normal(size=(vocabulary_size, dim))
        self.transition = generator.normal(size=(dim, dim)) / np.sqrt(dim)
        self.output = sharpness * generator.normal(size=(dim, vocabulary_size))

    def start(self, sentences, beam_size):
        """State (batch, beam_size, dim) for sentences (batch, dim)."""
        return ops.convert_to_tensor(np.repeat(sentences[:, None], beam_size, 1).astype("float32"))

    def step(self, tokens, index, state):
        embedding, transition, output = (
            ops.convert_to_tensor(matrix.astype("float32"))
            for matrix in (self.embedding, self.transition, self.output)
        )
        state = ops.tanh(ops.matmul(state, transition) + ops.take(embedding, tokens, axis=0))
        return ops.matmul(state, output), state

    def log_probs_after(self, sentence, bos):
        """Function from a prefix to the log-probabilities (vocabulary,) in float64."""

        def log_probs(prefix):
            state = sentence
            for token in (bos, *prefix):
                state = np.tanh(state @ self.transition + self.embedding[token])
            logits = state @ self.output
            return logits - np.log(np.sum(np.exp(logits)))

        return log_probs
