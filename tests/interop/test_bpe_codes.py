"""Folders of older OPUS-MT releases: text segmented by subword-nmt's codes."""

import collections
import itertools
import json

import pytest

from keras_transformer.formats.marian.configurations import Architecture
from keras_transformer.formats.marian.reader import import_marian
from keras_transformer.formats.marian.vocabulary import make_tokenizer, read_bpe
from tests.interop import numpy_marian
from tests.interop.marian_folders import (
    ENGLISH,
    GERMAN,
    SMALL,
    count_refused,
    make_config,
    make_tensors,
    message_of,
    write_native,
)

WORDS = [word for line in ENGLISH + GERMAN for word in line.split()]
SENTENCES = [*ENGLISH[:3], "the gardens stand green", ">>deu<< old bread", "z older", "a", ""]


def merged(word, pair):
    """A word's symbols with all pairs like this one as one symbol."""
    found = []
    for symbol in word:
        if found and (found[-1], symbol) == pair:
            found[-1] += symbol
        else:
            found.append(symbol)
    return found


def symbols(word):
    return [*word[:-1], word[-1] + "</w>"]


def learned(number):
    """Merges as BPE learns them: always the most frequent pair."""
    words, merges = [symbols(word) for word in WORDS], []
    for _ in range(number):
        pairs = collections.Counter(pair for word in words for pair in itertools.pairwise(word))
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        words = [merged(word, best) for word in words]
    return merges


MERGES = learned(60)


def segmented(line):
    """The tokens of a line: each word's pairs are merged, always the first of the list."""
    tokens = []
    for word in line.split():
        parts = symbols(word)
        while pairs := [pair for pair in MERGES if pair in itertools.pairwise(parts)]:
            parts = merged(parts, pairs[0])
        tokens += [f"{part}@@" for part in parts[:-1]] + [parts[-1].removesuffix("</w>")]
    return tokens


TOKENS = sorted({token for line in ENGLISH + GERMAN for token in segmented(line)})
VOCABULARY = ["</s>", "<unk>", *TOKENS, ">>deu<<"]


def codes(merges, version="#version: 0.2"):
    return "".join(f"{line}\n" for line in [version, *(" ".join(pair) for pair in merges)])


def write_folder(path):
    """A folder with codes on both sides; returns NumPy's configuration and tensors."""
    size = len(VOCABULARY) + 1
    ids = {"vocab_size": size, "decoder_vocab_size": size, "pad_token_id": size - 1}
    config = make_config(**SMALL, **ids, decoder_start_token_id=size - 1, is_native=True)
    tensors = make_tensors(config)
    write_native(path, tensors)
    for side in ("source", "target"):
        (path / f"{side}.spm").unlink()
        (path / f"{side}.bpe").write_text(codes(MERGES), "utf-8")
    lines = [f"{json.dumps(token)}: {number}\n" for number, token in enumerate(VOCABULARY)]
    (path / "vocab.yml").write_text("".join(lines), "utf-8")
    return config, tensors


def ids_of(line):
    tag = [">>deu<<"] if line.startswith(">>deu<< ") else []
    tokens = tag + segmented(line.removeprefix(">>deu<< "))
    return [VOCABULARY.index(token if token in VOCABULARY else "<unk>") for token in tokens]


def test_tokens_and_logits_are_those_of_the_codes(tmp_path):
    config, tensors = write_folder(tmp_path)
    imported = import_marian(tmp_path)
    assert imported.source_tokenizer is imported.tokenizer
    tokenizer = imported.tokenizer
    found = tokenizer.encode(SENTENCES)
    assert found == [ids_of(line) for line in SENTENCES]
    assert max(map(len, found)) > 10
    assert tokenizer.decode(found[:3]) == SENTENCES[:3]
    assert tokenizer.target_languages == ("deu",)
    source, target = [*found[0], 0], [len(VOCABULARY), *found[1]]
    numpy_marian.check_logits(imported, tensors, config, source, target)


@pytest.mark.tensorflow
def test_graphs_segment_alike(tmp_path):
    model_bytes, pieces = read_bpe_of(tmp_path, codes(MERGES))
    lines = ENGLISH + GERMAN
    expected = [[f"{token}▁".replace("@@▁", "") for token in segmented(line)] for line in lines]
    assert {*itertools.chain(*expected)} <= pieces.keys()
    import tensorflow_text

    tokenizer = tensorflow_text.SentencepieceTokenizer(model_bytes, out_type="string")
    found = [[piece.decode() for piece in row] for row in tokenizer.tokenize(lines).to_list()]
    assert found == expected


def read_bpe_of(path, text):
    (path / "source.bpe").write_text(text, "utf-8")
    return read_bpe(path / "source.bpe", {token: i for i, token in enumerate(VOCABULARY)})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (codes(MERGES, "#version: 0.1"), "must start with #version: 0.2. Received: '#version: 0"),
        ("t h\n", "must start with #version: 0.2. Received: 't h'"),
        ("", "must start with #version: 0.2. Received: ''"),
        (codes([("a", "b", "c")]), "Line 2 of "),
        (codes([("a", "b"), ("a",)]), "Line 3 of "),
        (codes([("a", "")]), "must be a merge of two symbols. Received: 'a'"),
        (codes([("a", "▁")]), "must be a merge of two symbols. Received: 'a ▁'"),
        (codes([("a", "b")] * 250_001), "must have at most 250,000 merges"),
        (codes(itertools.product("абвгдежз", "абвгдежз")), "are from different models"),
    ],
)
def test_codes_that_are_none(text, message, tmp_path):
    write_folder(tmp_path)
    (tmp_path / "source.bpe").write_text(text, "utf-8")
    message_of(tmp_path, "source.bpe", message)


@pytest.mark.slow
def test_mutated_codes_raise_nothing_else(tmp_path, random_seed):
    write_folder(tmp_path)
    architecture = Architecture(
        options={},
        pad=len(VOCABULARY),
        start=len(VOCABULARY),
        eos=0,
        source_eos=0,
        source_rows=len(VOCABULARY),
        target_rows=len(VOCABULARY),
        search={},
    )
    tokens = {token: number for number, token in enumerate([*VOCABULARY, "<pad>"])}
    path, whole = tmp_path / "source.bpe", codes(MERGES).encode()

    def read(path):
        make_tokenizer(path, tmp_path / "vocab.yml", tokens, len(tokens), architecture, 0)

    values = b"abcdehrst</>wxyz\0\n\xe2"
    found = count_refused(path, whole, read, random_seed, number=5_000, values=values, cut=False)
    assert 300 < found < 4_700


def test_a_token_that_cannot_be_a_piece(tmp_path):
    write_folder(tmp_path)
    content = (tmp_path / "vocab.yml").read_text("utf-8")
    other = content.replace(f'"{TOKENS[0]}"', '"the▁@@"')
    assert other != content
    (tmp_path / "vocab.yml").write_text(other, "utf-8")
    message_of(tmp_path, "source.bpe must not contain the character ▁")
