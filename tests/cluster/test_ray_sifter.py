"""A corpus prepared on a cluster: byte for byte what one machine writes."""

import os
import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from keras_transformer.data import PairFilters, ParallelFiles, SentencePairs, prepare_corpus
from keras_transformer.errors import UserInputError
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.toolkit.cluster.ray_sifter import RaySifter
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
def test_the_files_are_the_same(cluster, text, tokenizer, options, tmp_path):
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
            if found := processes(cluster, "^ray::Map"):  # in the middle of its work
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


def test_a_text_that_cannot_be_read_is_one_error(cluster, tokenizer, tmp_path):
    for name, content in (("a.en", b"one\n\xff\n"), ("a.de", b"eins\nzwei\n")):
        (tmp_path / name).write_bytes(content)
    text = ParallelFiles(tmp_path / "a.en", tmp_path / "a.de")
    with pytest.raises(UserInputError, match="a.en, line 2: not UTF-8"):
        prepare_corpus(text, tokenizer, tmp_path / "many", sift=RaySifter(cluster.address))


def test_a_missing_cluster_leaves_no_corpus(text, tokenizer, tmp_path):
    with pytest.raises(UserInputError, match="cannot be joined"):
        prepare_corpus(text, tokenizer, tmp_path, sift=RaySifter("localhost:1"))
    assert list(tmp_path.iterdir()) == []
