"""The reading benchmark: its corpus, its figures, its table."""

import itertools
import re

import numpy as np
import pytest

from benchmarks import reading
from benchmarks.reading import InventedText, InventedTokenizer, main, measure
from keras_transformer.data import BatchPlan, prepare_corpus


def test_corpus_has_the_lengths_of_wmt(tmp_path):
    corpus = prepare_corpus(InventedText(20_000), InventedTokenizer(), tmp_path)
    assert len(corpus) == 20_000
    assert corpus.target_lengths.mean() == pytest.approx(28, abs=1)
    assert corpus.target_lengths.max() <= 200
    assert corpus.target_ids.min() >= 4
    assert corpus.target_ids.max() == pytest.approx(32_000, abs=5)
    assert np.corrcoef(corpus.source_lengths, corpus.target_lengths)[0, 1] > 0.8


class Clock:
    """Stands for the `time` module: a batch takes a second, an eighth of it on the processor."""

    def __init__(self):
        self.batches = 0

    def perf_counter(self):
        return float(self.batches)

    def process_time(self):
        return self.batches / 8

    def next_batch(self):
        self.batches += 1


def test_measures_tokens_and_time(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(reading, "time", clock)
    plan = BatchPlan(np.full(100, 100), np.full(100, 100), batch_tokens=1000, seed=1)
    batches = (clock.next_batch() for _ in itertools.count())
    assert measure(batches, plan, seconds=10) == (1000, 8000)  # batches of 1,000 target tokens
    assert clock.batches == 11  # the first starts everything, and does not count


def test_prints_a_table(capsys):
    main(["--data-pairs", "2000", "--seconds", "0.01"])
    out = capsys.readouterr().out
    assert "2,000 pairs, 28" in out
    rows = re.findall(r"^ +([\d,]+)  (\w.*\w) +([\d,]+) +([\d,]+) +([\d.]+)%$", out, re.MULTILINE)
    assert [(row[0], row[1]) for row in rows] == [
        ("25,000", "fit_batches"),
        ("25,000", "the plain reader"),
        ("4,096", "fit_batches"),
        ("4,096", "the plain reader"),
    ]
    for row in rows:
        assert int(row[2].replace(",", "")) > 0
    assert [row[4] for row in rows][::2] == [row[4] for row in rows][1::2]
    assert 0 < float(rows[2][4]) < 25
