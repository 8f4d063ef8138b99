"""A corpus prepared on a cluster: byte for byte what one machine writes."""

import os
import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from keras_transformer.cluster import ray_sifter
from keras_transformer.cluster.ray_sifter import RaySifter
from keras_transformer.data import PairFilters, SentencePairs, prepare_corpus
from keras_transformer.errors import UserInputError
from keras_transformer.text import SentencePieceTokenizer
from tests.cluster.processes import processes

PAIRS = 25_000  # three chunks
WORDS = ("one", "two", "three", "four", "five")


@pytest.fixture(scope="module")
def text():
    """Pairs of which some repeat, some are empty, some copies and some too long."""
    generator = random.Random(1)
    sides = []
    for _ in range(2):
        lines = [
            " ".join(generator.choices(WORDS, k=generator.randint(0, 6))) for _ in range(PAIRS)
        ]
        sides.append(lines)
    return SentencePairs(*sides)


@pytest.fixture(scope="module")
def tokenizer(text):
    return SentencePieceTokenizer.train(text.sources[:999], vocabulary_size=40)


def files_of(cache):
    """Names and contents of the files of the only corpus in a folder."""
    (corpus,) = (path for path in cache.iterdir() if path.is_dir())
    return {path.name: path.read_bytes() for path in corpus.iterdir()}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {
            "filters": PairFilters(max_tokens=9, max_ratio=3, duplicates=True, copies=True),
            "keep_text": True,
        },
    ],
    ids=["plain", "filtered"],
)
def test_the_files_are_the_same(cluster, text, tokenizer, options, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_sifter, "GROUP_CHUNKS", 2)
    monkeypatch.setattr(ray_sifter, "PART_PAIRS", 10_000)
    prepare_corpus(text, tokenizer, tmp_path / "one", **options)
    sift = RaySifter(cluster.address)
    found = prepare_corpus(text, tokenizer, tmp_path / "many", **options, sift=sift)
    assert files_of(tmp_path / "many") == files_of(tmp_path / "one")
    assert bool(found.dropped["duplicate"]) == bool(options)


@pytest.mark.slow
def test_a_killed_worker_costs_nothing(cluster, text, tokenizer, tmp_path):
    filters = PairFilters(duplicates=True)
    prepare_corpus(text, tokenizer, tmp_path / "one", filters=filters)
    done = threading.Event()

    def kill_one():
        while not done.wait(0.01):
            if found := processes(cluster, "^ray::_sifted"):  # in the middle of its work
                os.kill(found[0], signal.SIGKILL)
                return found[0]
        return None

    with ThreadPoolExecutor(1) as thread:
        killed = thread.submit(kill_one)
        try:
            sift = RaySifter(cluster.address, window=2)
            prepare_corpus(text, tokenizer, tmp_path / "many", filters=filters, sift=sift)
        finally:
            done.set()
    assert killed.result()
    assert files_of(tmp_path / "many") == files_of(tmp_path / "one")


def test_a_pair_that_repeats_without_end_fills_no_memory():
    hashes = np.array([7, 7, 4, 7, 9, 4, 7], np.uint64)
    inside, *parts = ray_sifter._divided(2, hashes)
    assert inside.tolist() == [1, 3, 5, 6]
    assert [part.hashes.tolist() for part in parts] == [[4], [7, 9]]
    assert [part.places.tolist() for part in parts] == [[2], [0, 4]]


def test_a_text_that_grows_is_refused(cluster, text, tokenizer, tmp_path, monkeypatch):
    class Growing(SentencePairs):
        """A text that has more pairs when it is read again."""

        reads = 0

        def __iter__(self):
            self.reads += 1
            yield from super().__iter__()
            yield from super().__iter__() if self.reads > 1 else ()

    monkeypatch.setattr(ray_sifter, "GROUP_CHUNKS", 1)
    growing = Growing(text.sources, text.targets)
    with pytest.raises(UserInputError, match="changed while it was read. Start again."):
        prepare_corpus(
            growing,
            tokenizer,
            tmp_path,
            filters=PairFilters(duplicates=True),
            sift=RaySifter(cluster.address),
        )


def test_a_missing_cluster_leaves_no_corpus(text, tokenizer, tmp_path):
    with pytest.raises(UserInputError, match="cannot be joined"):
        prepare_corpus(text, tokenizer, tmp_path, sift=RaySifter("localhost:1"))
    assert list(tmp_path.iterdir()) == []
