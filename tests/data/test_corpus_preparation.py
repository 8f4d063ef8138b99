"""Preparation of a corpus: once, whole or not at all, and in no way different from the text."""

import hashlib
import os
import pathlib
import signal
import tracemalloc

import numpy as np
import pytest

from keras_transformer.data import (
    PairFilters,
    ParallelCorpus,
    ParallelFiles,
    ParallelText,
    SentencePairs,
    corpus_preparation,
    prepare_corpus,
)
from keras_transformer.errors import CannotWrite, UserInputError
from tests.data.corpora import LetterTokenizer
from tests.python_programs import start_python
from tests.written_files import room_for

SOURCES = ["a b", "c", "", "d e f", "  "]
TARGETS = ["x", "y z", "w", "v v v v", ""]


def prepared(directory, sources=SOURCES, targets=TARGETS, tokenizer=None, **options):
    text = SentencePairs(sources, targets)
    return prepare_corpus(text, tokenizer or LetterTokenizer(), directory, **options)


def pairs(corpus):
    return [(corpus.source(i).tolist(), corpus.target(i).tolist()) for i in range(len(corpus))]


def test_every_pair_is_kept_in_order(tmp_path):
    corpus = prepared(tmp_path)
    assert pairs(corpus) == [([97, 98], [120]), ([99], [121, 122]), ([100, 101, 102], [118] * 4)]
    assert corpus.source(0).dtype == np.int32
    np.testing.assert_array_equal(corpus.source_lengths, [2, 1, 3])
    np.testing.assert_array_equal(corpus.target_lengths, [1, 2, 4])
    (directory,) = tmp_path.iterdir()
    opened = ParallelCorpus.open(directory)
    assert pairs(opened) == pairs(corpus)
    assert not opened.source_ids.flags.writeable
    with pytest.raises(UserInputError, match="contains no prepared corpus"):
        ParallelCorpus.open(tmp_path)


def test_pairs_with_an_empty_side_are_left_out_aloud(tmp_path, capsys):
    corpus = prepared(tmp_path)
    assert capsys.readouterr().err == (
        "pairs: 3 of 5 pairs kept, 6 source and 7 target tokens; dropped: 2 with an empty side\n"
    )
    np.testing.assert_array_equal(corpus.line_numbers, [1, 2, 4])
    assert corpus.metadata["pairs"] == 3
    assert {reason for reason, number in corpus.dropped.items() if number} == {"empty"}
    prepared(tmp_path, ["a"], ["b"])  # nothing is said of a clean corpus
    assert capsys.readouterr() == ("", "")


def test_chunks_leave_no_trace(tmp_path, monkeypatch):
    whole = prepared(tmp_path / "whole")
    monkeypatch.setattr(corpus_preparation, "CHUNK_PAIRS", 2)
    chunked = prepared(tmp_path / "chunked")
    assert pairs(chunked) == pairs(whole)
    np.testing.assert_array_equal(chunked.line_numbers, whole.line_numbers)
    assert chunked.metadata == whole.metadata


def test_metadata(tmp_path):
    corpus = prepared(tmp_path, source_tokenizer=LetterTokenizer("source letters"))
    assert corpus.metadata == {
        "format_version": 3,
        "content": next(tmp_path.iterdir()).name.removesuffix("-3"),
        "checksums": {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in tmp_path.glob("*/*.bin")
        },
        "pairs": 3,
        "source_tokens": 6,
        "target_tokens": 7,
        "keep_text": False,
        "dropped": corpus.dropped,
        "vocabulary_size": 128,
        "tokenizer_fingerprint": hashlib.sha256(b"letters").hexdigest(),
        "source_vocabulary_size": 128,
        "source_tokenizer_fingerprint": hashlib.sha256(b"source letters").hexdigest(),
    }


def test_second_run_tokenizes_nothing(tmp_path):
    tokenizer = LetterTokenizer()
    first = prepared(tmp_path, tokenizer=tokenizer)
    calls = tokenizer.calls
    assert calls > 0
    assert pairs(prepared(tmp_path, tokenizer=tokenizer)) == pairs(first)
    assert tokenizer.calls == calls


@pytest.mark.parametrize(
    "changed",
    [
        {"sources": ["a b", "c", "", "d e g", "  "]},
        {"targets": ["x", "y z", "w", "v v v w", ""]},
        {"sources": TARGETS, "targets": SOURCES},
        {"sources": [*SOURCES, "a"], "targets": [*TARGETS, "b"]},
        # The same letters, another line.
        {"sources": ["a ", "bc", "", "d e f", "  "]},
        {"tokenizer": LetterTokenizer("other letters")},
        {"source_tokenizer": LetterTokenizer("other letters")},
        {"keep_text": True},
        {"filters": PairFilters(max_tokens=9)},
        {"filters": PairFilters(max_ratio=9)},
        {"filters": PairFilters(duplicates=True)},
        {"filters": PairFilters(copies=True)},
    ],
)
def test_any_change_of_content_is_prepared_anew(tmp_path, changed):
    prepared(tmp_path)
    prepared(tmp_path, **changed)
    assert len(list(tmp_path.iterdir())) == 2


def test_text_that_changes_while_it_is_read_is_no_corpus(tmp_path):
    """Otherwise its words would be found under the hash of the older ones."""
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text("a b\n")
    text = ParallelFiles(tmp_path / "a.en", tmp_path / "a.de")

    def changing(*arguments):
        (tmp_path / "a.en").write_text("c c c\n")
        yield from corpus_preparation.sift(*arguments)

    with pytest.raises(UserInputError, match="a.en changed while it was being read"):
        prepare_corpus(text, LetterTokenizer(), tmp_path / "cache", sift=changing)
    assert not list((tmp_path / "cache").glob("*/"))
    corpus = prepare_corpus(text, LetterTokenizer(), tmp_path / "cache")
    assert pairs(corpus) == [([99] * 3, [97, 98])]


def test_an_error_of_the_text_is_no_fault_of_the_folder(tmp_path):
    class Broken(SentencePairs):
        def __iter__(self):
            raise ConnectionResetError(104, "Connection reset by peer")

    with pytest.raises(ConnectionResetError):
        prepare_corpus(Broken(["a"], ["b"]), LetterTokenizer(), tmp_path)
    with pytest.raises(ValueError, match="`keep_text` must be True or False"):
        prepared(tmp_path, keep_text=1)


def test_indices_are_those_of_a_list(tmp_path):
    corpus = prepared(tmp_path, keep_text=True)
    assert corpus.source(-1).tolist() == corpus.source(2).tolist() == [100, 101, 102]
    assert corpus.target(-3).tolist() == corpus.target(0).tolist()
    assert corpus.source_text([-1, 0]) == ["d e f", "a b"]
    for read in (corpus.source, corpus.target, lambda index: corpus.target_text([index])):
        for index in (3, -4):
            with pytest.raises(IndexError):
                read(index)


class Interrupt(LetterTokenizer):
    def encode(self, sentences):
        raise KeyboardInterrupt


def test_interrupted_preparation_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        prepared(tmp_path, tokenizer=Interrupt())
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
import test_corpus_preparation as here
from keras_transformer.data import corpus_preparation

corpus_preparation.CHUNK_PAIRS = 1

class Killed(here.LetterTokenizer):
    def encode(self, sentences):
        if self.calls == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().encode(sentences)

here.prepared({directory!r}, tokenizer=Killed())
"""


def test_killed_preparation_is_never_taken_for_a_whole_one(tmp_path):
    tests = str(pathlib.Path(__file__).parent)
    program = KILLED.format(tests=tests, directory=str(tmp_path))
    with start_python("-c", program) as killed:
        assert killed.wait() == -signal.SIGKILL
    assert all(".partial-" in path.name for path in tmp_path.iterdir())
    (partial,) = filter(pathlib.Path.is_dir, tmp_path.iterdir())
    with pytest.raises(UserInputError, match="contains no prepared corpus"):
        ParallelCorpus.open(partial)
    assert len(prepared(tmp_path)) == 3
    assert len(list(tmp_path.iterdir())) == 1


SLOW = """
import os, pathlib, sys, time
sys.path.insert(0, {tests!r})
import test_corpus_preparation as here

class Slow(here.LetterTokenizer):
    def encode(self, sentences):
        with open({calls!r}, "a") as file:
            file.write("call ")
        while not waiting.exists():
            time.sleep(0.01)
        return super().encode(sentences)

class Stderr:  # notes that this process says it waits
    def write(self, text):
        if "waiting for another process" in text:
            waiting.touch()
        return sys.__stderr__.write(text)

    def flush(self):
        sys.__stderr__.flush()

waiting = pathlib.Path({calls!r}).with_name("waiting")
sys.stderr = Stderr()
print(len(here.prepared({directory!r}, tokenizer=Slow())))
"""


def test_of_several_processes_one_prepares(tmp_path):
    calls, tests = tmp_path / "calls", str(pathlib.Path(__file__).parent)
    program = SLOW.format(tests=tests, calls=str(calls), directory=str(tmp_path / "cache"))
    processes = [start_python("-c", program) for _ in range(2)]
    outputs = [process.communicate(timeout=600) for process in processes]
    assert [out for out, _ in outputs] == ["3\n", "3\n"]
    assert calls.read_text() == "call call "  # sources and targets, once
    assert sum("waiting for another process" in err for _, err in outputs) == 1
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path):
    with room_for(0), pytest.raises(CannotWrite) as raised:
        prepared(tmp_path)
    assert str(raised.value).startswith(f"Cannot write {tmp_path}{os.sep}")
    assert str(raised.value).endswith(": File too large.")
    assert list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="file"):
        prepared(tmp_path / "file")


@pytest.mark.parametrize(
    ("sources", "targets", "message"),
    [
        ([], [], "pairs contains no sentence pairs"),
        (["", "a"], ["b", " "], "No pair of pairs is left: 2 with an empty side"),
    ],
)
def test_no_pair_is_left(tmp_path, sources, targets, message):
    with pytest.raises(UserInputError, match=message):
        prepared(tmp_path, sources, targets)
    assert list(tmp_path.iterdir()) == []


def test_two_lists_are_no_text(tmp_path):
    with pytest.raises(ValueError, match="must be a ParallelText.* Received: text of type list"):
        prepare_corpus(SOURCES, LetterTokenizer(), tmp_path)


def test_large_ids_survive(tmp_path):
    class LargeIds(LetterTokenizer):
        vocabulary_size = 2**31

        def encode(self, sentences):
            return [[257, 65_537, 2**31 - 1] for _ in sentences]

    assert prepared(tmp_path, tokenizer=LargeIds()).source(2).tolist() == [257, 65_537, 2**31 - 1]


def test_sources_may_have_a_tokenizer_of_their_own(tmp_path):
    class OtherLetters(LetterTokenizer):
        vocabulary_size = 256

        def encode(self, sentences):
            return [[token + 103 for token in row] for row in super().encode(sentences)]

    corpus = prepared(tmp_path, ["a"], ["b"], source_tokenizer=OtherLetters("other"))
    assert pairs(corpus) == [([200], [98])]


def test_kept_text_is_the_text_as_it_was(tmp_path):
    sources = ["  a  b ", "", "Grüße\u2028\U0001f600", "c\td"]
    targets = ["x", "y", "z\n", "\u00e9 e\u0301"]
    tokenizer = LetterTokenizer()
    tokenizer.vocabulary_size = 0x110000
    corpus = prepared(tmp_path, sources, targets, tokenizer, keep_text=True)
    assert corpus.source_text([0, 1, 2]) == [sources[0], sources[2], sources[3]]
    assert corpus.target_text(np.array([2, 0, 2])) == [targets[3], targets[0], targets[3]]
    assert corpus.source_text([]) == []


def test_text_that_was_not_kept_is_asked_for_in_vain(tmp_path):
    with pytest.raises(ValueError, match="keep_text=True"):
        prepared(tmp_path).source_text([0])


class ManyPairs(ParallelText):
    """Pairs made as they are read, and counted."""

    def __init__(self, number):
        super().__init__("many pairs")
        self.number = number

    def __iter__(self):
        for number in range(self.number):
            yield chr(97 + number % 7) * 20 + chr(97 + number % 11), chr(98 + number % 5) * 20

    def fingerprint(self):
        return f"many {self.number}"


def peak_memory(directory, number):
    tracemalloc.start()
    try:
        corpus = prepare_corpus(ManyPairs(number), LetterTokenizer(), directory, keep_text=True)
        return len(corpus), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_text(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_preparation, "CHUNK_PAIRS", 500)
    (few, little), (many, much) = (peak_memory(tmp_path, number) for number in (1_000, 8_000))
    assert (few, many) == (1_000, 8_000)
    # Held as a whole the longer text would take 8,000 x 41 tokens of 4 bytes and more.
    assert much < little + 100_000
