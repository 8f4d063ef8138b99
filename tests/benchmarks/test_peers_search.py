"""The searches that are compared with peers: their inputs, and the lengths of their outputs."""

import gzip

import numpy as np
import pytest

from benchmarks.peers.inputs import Inputs
from benchmarks.peers.rows import Row
from benchmarks.peers.workers.search_inputs import EOS, num_tokens, parts, read_batches
from keras_transformer.errors import UserInputError
from tests.benchmarks.test_peers import job_of


def prepared(worker, row, inputs):
    """The work of a worker."""
    return worker.prepare(job_of(worker.__name__, row, inputs))


@pytest.fixture
def mixed(tmp_path):
    """A row of 5 real sentences, and its inputs."""
    texts = tmp_path / "multi30k" / "tok"
    texts.mkdir(parents=True)
    english = ["a dog runs", "a", "two dogs run far", "dogs", "a dog and a dog"]
    german = ["ein hund", "ein hund rennt weit", "zwei", "hunde und hunde", "ein"]
    for name, text in {"train": 20, "test_2016_flickr": 1}.items():
        for language, sentences in (("en", english), ("de", german)):
            with gzip.open(texts / f"{name}.{language}.gz", "wt") as file:
                file.write("".join(f"{sentence}\n" for sentence in sentences * text))
    sizes = {"preset": "tiny", "vocabulary_size": 40, "beam_size": 1, "batch_size": 3}
    row = Row(name="mixed", corpus="multi30k", sentences=5, **sizes)
    return row, Inputs(tmp_path, tmp_path)


def test_real_sentences_have_the_lengths_of_their_translations(mixed):
    row, inputs = mixed
    batches = read_batches(inputs.of(row), vars(row))
    assert [len(batch.tokens) for batch in batches] == [3, 2]
    lengths = np.concatenate([batch.num_tokens for batch in batches])
    assert (np.diff(lengths) >= 0).all()
    assert lengths[0] < lengths[-1]
    outputs = np.concatenate([batch.output_lengths for batch in batches])
    assert len(set(outputs.tolist())) > 2
    assert batches[0].ended.shape[1] == batches[0].num_tokens.max() + 1
    assert (batches[0].ended == EOS).sum(axis=1).tolist() == [1, 1, 1]
    assert [batch.tokens.shape[0] for batch in parts(batches, True)] == [1]
    with pytest.raises(UserInputError, match="Missing: train.en.gz"):
        Inputs(inputs.tokenizer(row).parent / "no", None).of(row)


def test_tokens_are_counted_to_the_end_of_a_sentence():
    assert num_tokens(np.array([[5, EOS, 0, 0], [5, 6, 7, 8], [EOS, EOS, 4, 4]])) == 2 + 4 + 1


@pytest.fixture
def one_layer(monkeypatch):
    """Workers of this package build models of one layer."""
    from benchmarks.peers.workers import own_search
    from keras_transformer.models import build_transformer

    def build(preset, **options):
        return build_transformer(preset, num_encoder_layers=1, num_decoder_layers=1, **options)

    monkeypatch.setattr(own_search, "build_transformer", build)
    return own_search


@pytest.mark.tensorflow
def test_outputs_of_the_search_have_the_forced_length(one_layer, tmp_path):
    sizes = {"preset": "tiny", "vocabulary_size": 40, "beam_size": 2, "batch_size": 2, "length": 4}
    row = Row(name="random", repeats=3, **sizes)
    work = prepared(one_layer, row, Inputs(tmp_path, None).of(row))
    assert work(True) == 4 + 1
    assert work(False) == 3 * 2 * (4 + 1)


@pytest.mark.tensorflow
def test_outputs_of_real_sentences_have_the_lengths_of_their_translations(one_layer, mixed):
    row, inputs = mixed
    path = inputs.of(row)
    work = prepared(one_layer, row, path)
    assert work(False) == sum(
        int(batch.output_lengths.sum()) + len(batch.tokens)
        for batch in read_batches(path, vars(row))
    )
