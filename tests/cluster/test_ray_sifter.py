"""A corpus prepared on a cluster: byte for byte what one machine writes."""

import itertools
import os
import random
import signal
import subprocess

import pytest

from keras_transformer.cluster import ray_sifter
from keras_transformer.cluster.ray_sifter import RaySifter
from keras_transformer.data import PairFilters, SentencePairs, prepare_corpus
from keras_transformer.errors import UserInputError
from keras_transformer.text import SentencePieceTokenizer

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
    killed = []

    class Killing(RaySifter):
        def __call__(self, *arguments):
            for number, kept in enumerate(super().__call__(*arguments)):
                yield kept
                if not number:
                    pids = subprocess.run(
                        ["pgrep", "-f", "^ray::(_sifted|IDLE)"], capture_output=True, text=True
                    )
                    for pid in itertools.islice(pids.stdout.split(), 1):
                        os.kill(int(pid), signal.SIGKILL)
                        killed.append(pid)

    filters = PairFilters(duplicates=True)
    prepare_corpus(text, tokenizer, tmp_path / "one", filters=filters)
    sift = Killing(cluster.address, window=2)
    prepare_corpus(text, tokenizer, tmp_path / "many", filters=filters, sift=sift)
    assert killed
    assert files_of(tmp_path / "many") == files_of(tmp_path / "one")


def test_a_missing_cluster_leaves_no_corpus(text, tokenizer, tmp_path):
    with pytest.raises(UserInputError, match="cannot be joined"):
        prepare_corpus(text, tokenizer, tmp_path, sift=RaySifter("localhost:1"))
    assert list(tmp_path.iterdir()) == []
