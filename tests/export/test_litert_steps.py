"""`encode` and `step` of LiteRT models: what an app needs that searches by itself."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.formats.format import NO_SCORE
from keras_transformer.search_options import SearchOptions
from tests.litert_exports import (
    litert_export,
    padded,
    signature,
    translator_of,
    unusual_export,
    unusual_translator,
)
from tests.random_translation import sentences

pytestmark = pytest.mark.tensorflow

TEXTS = ["one two three four", "five", "three three one"]


@pytest.fixture(scope="module")
def translator(trained_run):
    return translator_of(trained_run)


@pytest.fixture(scope="module")
def exported(trained_run):
    return litert_export(trained_run, "float32")


@pytest.fixture(scope="module")
def unusual():
    return unusual_translator()


@pytest.fixture(scope="module")
def unusual_path(trained_run):
    return unusual_export(trained_run.parent)


def numpy_greedy(path, translator, text):
    """Greedy search as an app writes it: ids with EOS, and their log-probability."""
    encode, step = signature(path, "encode"), signature(path, "step")
    (row,) = translator.source_tokenizer.encode([text])
    limit = len(row) + translator.extra_length
    state = encode(**padded([row]), beam_size=np.int32(1), cache_length=np.int32(limit + 1))
    token, ids, total = translator.tokenizer.special_tokens.bos, [], 0.0
    eos = translator.tokenizer.special_tokens.eos
    while token != eos:
        outputs = step(
            tokens=np.array([[token]], "int32"),
            parents=np.zeros((1, 1), "int32"),
            index=np.int32(len(ids)),
            **state,
        )
        log_probs = outputs.pop("log_probs")[0, 0]
        state |= outputs
        token = int(log_probs.argmax()) if len(ids) < limit else eos
        ids.append(token)
        total += log_probs[token]
    return ids, total


def sources_of(translator, text):
    (row,) = translator.source_tokenizer.encode([text])
    return [[*row, translator.source_tokenizer.special_tokens.eos]]


@pytest.mark.parametrize("text", TEXTS)
def test_greedy_search_over_the_steps(translator, exported, text):
    ids, total = numpy_greedy(exported, translator, text)
    generator = SequenceGenerator(translator.models, translator.tokenizer.special_tokens)
    options = SearchOptions(beam_size=1, alpha=0.0, extra_length=translator.extra_length)
    expected, log_probs = generator.search(sources_of(translator, text), options=options)
    assert ids == ops.convert_to_numpy(expected)[0, 0, : len(ids)].tolist()
    np.testing.assert_allclose(total, ops.convert_to_numpy(log_probs)[0, 0], atol=1e-4)


def numpy_beam(path, translator, text, beam_size, num_steps):
    """The best `beam_size` beginnings of a translation, of `num_steps` tokens without EOS."""
    encode, step = signature(path, "encode"), signature(path, "step")
    rows = translator.source_tokenizer.encode([text])
    state = encode(
        **padded(rows), beam_size=np.int32(beam_size), cache_length=np.int32(num_steps + 1)
    )
    special_tokens = translator.tokenizer.special_tokens
    tokens = np.full(beam_size, special_tokens.bos, "int32")
    parents, beginnings = np.zeros(beam_size, "int32"), [[] for _ in range(beam_size)]
    scores = np.array([0.0] + [-np.inf] * (beam_size - 1))
    for index in range(num_steps):
        outputs = step(tokens=tokens[None], parents=parents[None], index=np.int32(index), **state)
        log_probs = outputs.pop("log_probs")[0]  # (beams, vocabulary)
        state |= outputs
        log_probs[:, special_tokens.eos] = -np.inf
        total = scores[:, None] + log_probs
        best = np.argsort(-total, axis=None)[:beam_size]
        parents, tokens = (part.astype("int32") for part in np.divmod(best, total.shape[1]))
        beginnings = [[*beginnings[p], int(t)] for p, t in zip(parents, tokens, strict=True)]
        scores = total.ravel()[best]
    return beginnings, scores


def test_hypotheses_fork_and_die_in_the_steps(unusual, unusual_path):
    text, beam_size = sentences(1, seed=5)[0], 4
    beginnings, scores = numpy_beam(unusual_path, unusual, text, beam_size, num_steps=5)
    generator = SequenceGenerator(unusual.models, unusual.tokenizer.special_tokens)
    tokens = unusual.tokenizer.special_tokens
    sources = np.repeat(sources_of(unusual, text), beam_size, axis=0)
    inputs = [[tokens.bos, *row[:-1]] for row in beginnings]
    expected = generator.score(ops.convert_to_tensor(sources), np.array(inputs), beginnings)
    np.testing.assert_allclose(scores, ops.convert_to_numpy(expected), atol=1e-4)
    assert len({tuple(row) for row in beginnings}) == beam_size


def test_a_step_never_offers_what_is_no_output(unusual, unusual_path):
    rows = unusual.source_tokenizer.encode(sentences(2))
    sizes = {"beam_size": np.int32(1), "cache_length": np.int32(2)}
    state = signature(unusual_path, "encode")(**padded(rows), **sizes)
    tokens = unusual.tokenizer.special_tokens
    log_probs = signature(unusual_path, "step")(
        tokens=np.full((2, 1), tokens.bos, "int32"),
        parents=np.zeros((2, 1), "int32"),
        index=np.int32(0),
        **state,
    )["log_probs"]
    assert log_probs.shape == (2, 1, unusual.tokenizer.vocabulary_size)
    assert np.unique(np.nonzero(log_probs == NO_SCORE)[2]).tolist() == [tokens.pad, tokens.bos]
