"""Lexical shortlists: the candidates of sentences, their files, and their making from text."""

import gzip
import struct
import zipfile

import numpy as np
import pytest

from keras_transformer.data import read_parallel_text
from keras_transformer.errors import UserInputError
from keras_transformer.input_files import write_archive
from keras_transformer.text import SentencePieceTokenizer, Shortlist
from keras_transformer.text.shortlist import best_translations
from tests.external_data import MULTI30K, needs
from tests.text.shortlist_binary import binary, checksum

ENGLISH = ["a small house", "the big house", "a small tree", "the big tree", "the house"]
GERMAN = ["ein kleines haus", "das große haus", "ein kleiner baum", "der große baum", "das haus"]


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train(ENGLISH + GERMAN, vocabulary_size=70)


@pytest.fixture(scope="module")
def english():
    return SentencePieceTokenizer.train(ENGLISH, vocabulary_size=30)


ROWS = [[], [], [], [], [9, 12], [7], [], [5, 9, 11]]


def candidate_sets(found):
    """Of each sentence, after a check of the form: one token a column, in ascending order."""
    tokens = found.max(axis=0)
    used = tokens[tokens >= 0]
    assert (tokens[: len(used)] >= 0).all()
    assert (np.diff(used) > 0).all()
    assert ((found == tokens) | (found == -1)).all()
    assert found.dtype == "int32"
    return [set(row[row >= 0].tolist()) for row in found]


def test_candidates_of_a_binary_file(tmp_path, tokenizer, english):
    """Marian's rule, sentence by sentence: translations, the first ids, EOS, and own tokens."""
    path = tmp_path / "lex.bin"
    path.write_bytes(binary(ROWS))
    source_ids = np.array([[4, 7, 2], [5, 2, 0], [15, 2, 0]])
    eos, unk = 2, 3
    for source_tokenizer, copies in ((None, True), (english, False)):
        shortlist = Shortlist.load(path, tokenizer, source_tokenizer)
        assert shortlist.copies == copies
        expected = []
        for row in source_ids.tolist():
            tokens = {0, 1, 2, eos}.union(*(ROWS[i] for i in row if i < len(ROWS)))
            expected.append((tokens | set(row if copies else [])) - {0, 1})  # padding, BOS
        found = shortlist.candidates(source_ids)
        assert candidate_sets(found) == expected
        assert found.shape[1] % 8 == 0
    assert shortlist.candidates(source_ids, in_few_sizes=True).shape == (3, 8)
    found = shortlist.candidates(source_ids, np.array([[20, unk], [21, 0], [0, 0]]))
    assert [tokens & {unk, 20, 21} for tokens in candidate_sets(found)] == [{unk, 20}, {21}, set()]
    assert shortlist.candidates(source_ids[:0]).shape[0] == 0


def test_few_sizes_are_powers_of_2(tokenizer):
    rows = [list(range(4, 4 + n)) for n in range(40)]
    shortlist = Shortlist(np.cumsum([0, *map(len, rows)]), np.concatenate(rows), [], tokenizer)
    widths = {shortlist.candidates([[i]], in_few_sizes=True).shape[1] for i in range(40)}
    assert widths == {8, 16, 32, 64}


def test_own_files_and_both_of_marians_come_back(tmp_path, tokenizer, english):
    pieces, source_pieces = (side.pieces(range(30)) for side in (tokenizer, english))
    lines = [f"{pieces[9]} {source_pieces[4]} 0.5", f"{pieces[12]} {source_pieces[4]} 0.25"]
    lines += [f"{pieces[11]} {source_pieces[4]} 0.125", f"{pieces[8]} NULL 0.9", "NULL ▁a 1"]
    lines += [f"{pieces[11]} {source_pieces[4]} 0.0625", f"no-piece {source_pieces[7]} 1e-3"]
    text = tmp_path / "lex.s2t.gz"
    text.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    shortlist = Shortlist.load(text, tokenizer, english, first=5, best=2)
    assert shortlist.translations.tolist() == [9, 12, tokenizer.special_tokens.unk]
    assert np.diff(shortlist.offsets).tolist() == [2 * (i == 4) + (i == 7) for i in range(30)]
    assert shortlist.always.tolist() == [0, 1, 2, 3, 4]

    shortlist.save(tmp_path / "shortlist.npz")
    (tmp_path / "lex.bin").write_bytes(
        binary([[], [], [], [], [9, 12], [], [], [3]] + [[]] * 22, first=5)
    )
    for name in ("shortlist.npz", "lex.bin"):
        again = Shortlist.load(tmp_path / name, tokenizer, english)
        for array in ("offsets", "translations", "always"):
            np.testing.assert_array_equal(getattr(again, array), getattr(shortlist, array))


def test_ids_take_two_bytes_and_files_of_older_versions_are_read(tmp_path, tokenizer):
    arrays = {"offsets": [0, 2, 3], "translations": [9, 12, 5], "always": [4]}
    Shortlist(*arrays.values(), tokenizer).save(tmp_path / "new.npz")
    older = {
        name: np.array(each, "<i8" if name == "offsets" else "<i4") for name, each in arrays.items()
    }
    with open(tmp_path / "old.npz", "wb") as file:
        write_archive(file, {name: len(each) for name, each in arrays.items()}, older.items())
    with zipfile.ZipFile(tmp_path / "new.npz") as archive:
        sizes = {info.filename: info.file_size - 128 for info in archive.infolist()}
    assert sizes["translations.npy"] == 6
    for name in ("old.npz", "new.npz"):
        again = Shortlist.load(tmp_path / name, tokenizer)
        assert {array: getattr(again, array).tolist() for array in arrays} == arrays
    # The types of one version with the record of the other.
    for short, kinds in ((True, older), (False, {k: v.astype("<u2") for k, v in older.items()})):
        record = {"short": short, **{name: len(each) for name, each in arrays.items()}}
        with open(tmp_path / "bad.npz", "wb") as file:
            write_archive(file, record, kinds.items())
        with pytest.raises(UserInputError, match="bad.npz is not a shortlist, or it is damaged"):
            Shortlist.load(tmp_path / "bad.npz", tokenizer)


def test_bytes_for_marian_give_the_candidates_of_every_sentence(tmp_path, tokenizer, english):
    """Of sources with EOS: whatever every sentence may use are translations of EOS."""
    eos = english.special_tokens.eos
    offsets = np.cumsum([0, *([0] * 4), 2, 0, 0, 1])  # of fewer tokens than the vocabulary has
    shortlist = Shortlist(offsets, [9, 12, 0], [5, 40], tokenizer, english)
    path = tmp_path / "lex.bin"
    path.write_bytes(shortlist.marian_bytes())
    assert path.read_bytes() == binary(
        [[9, 12] if i == 4 else [2, 5, 40] if i == eos else [] for i in range(30)], 0, best=3
    )
    source_ids = [[4, 7, eos], [8, 29, eos]]
    found = Shortlist.load(path, tokenizer, english).candidates(source_ids)
    assert candidate_sets(found) == candidate_sets(shortlist.candidates(source_ids))


def test_a_text_in_blocks_gives_the_same(tmp_path, tokenizer, monkeypatch):
    generator = np.random.default_rng(0)
    pieces = tokenizer.pieces(range(70))
    entries = [(*generator.integers(4, 70, 2), generator.integers(9) / 8) for _ in range(3000)]
    path = tmp_path / "lex.s2t"
    path.write_text("".join(f"{pieces[t]} {pieces[s]} {p}\n" for t, s, p in entries), "utf-8")
    expected = Shortlist.load(path, tokenizer, best=3)
    best = {}
    for target, source, probability in entries:
        row = best.setdefault(int(source), {})
        row[int(target)] = max(probability, row.get(int(target), 0))
    for source, row in best.items():
        most = sorted(sorted(row, key=lambda token: (-row[token], -token))[:3])
        begin, end = expected.offsets[source : source + 2]
        assert expected.translations[begin:end].tolist() == most
    monkeypatch.setattr("keras_transformer.text.shortlist._BLOCK", 100)
    monkeypatch.setattr("keras_transformer.text.shortlist._MOST_BLOCKS", 2)
    again = Shortlist.load(path, tokenizer, best=3)
    np.testing.assert_array_equal(again.translations, expected.translations)
    np.testing.assert_array_equal(again.offsets, expected.offsets)


def changed_header(place, value):
    """A file whose checksum is right, with another number in its header."""
    content = bytearray(binary(ROWS))
    content[8 * place : 8 * place + 8] = struct.pack("<Q", value)
    content[8:16] = struct.pack("<Q", checksum(bytes(content[16:])))
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (binary(ROWS)[:40], "damaged: it ends early"),
        (binary(ROWS)[:-4], "do not make up its size"),
        (binary(ROWS)[:-4] + b"\0" * 4, "its checksum is wrong"),
        (changed_header(4, 2**63), "9,223,372,036,854,775,808 offsets"),
        (changed_header(5, 2**62), "do not make up its size"),
        (binary([[]] * 71), "a source vocabulary of at most 70 tokens. Received: 71 source tokens"),
        (binary([[70]]), "target ids from 0 to 69. Received: ids from 70 to 70"),
        (binary([[2**31]]), "an id is too large"),
        (binary([]), None),
        (b"other", "not a Marian shortlist, or it is damaged"),
        (b"PK\3\4 and no archive", "not a shortlist, or it is damaged"),
    ],
    ids=range(11),
)
def test_hostile_files_are_one_line(tmp_path, tokenizer, content, message):
    path = tmp_path / "lex.bin"
    path.write_bytes(content)
    if message is None:
        assert Shortlist.load(path, tokenizer).always.tolist() == [0, 1, 2]
        return
    with pytest.raises(UserInputError, match=f"{path}.*{message}") as caught:
        Shortlist.load(path, tokenizer)
    assert "\n" not in str(caught.value)


def test_offsets_that_go_back_and_texts_that_are_none(tmp_path, tokenizer):
    with pytest.raises(UserInputError, match="`offsets` of a shortlist must ascend from 0"):
        Shortlist([0, 2, 1], [5], [], tokenizer)
    for offsets in ([], [0, 2**63 - 1, -(2**63), 1], [0, -1, 1]):  # differences may overflow
        with pytest.raises(UserInputError, match="must ascend from 0"):
            Shortlist(offsets, offsets[:1], [], tokenizer)
    path = tmp_path / "lex.s2t"
    for text, message in (
        ("a b\n", "line 1 must be"),
        ("a b c\n", "line 1 must be"),
        ("a b 0.5\na b nan\n", "line 2 must be .* a probability from 0 to 1"),
        ("a b inf\n", "line 1 must be"),
        ("a b -1\n", "line 1 must be"),
        ("a b 1.5\n", "line 1 must be"),
        ("", "empty"),
    ):
        path.write_text(text)
        with pytest.raises(UserInputError, match=f"{path}.*{message}"):
            Shortlist.load(path, tokenizer)
    with pytest.raises(
        UserInputError, match=r"none.bin is not a shortlist, or it is damaged: .*No such file"
    ):
        Shortlist.load(tmp_path / "none.bin", tokenizer)


def model_1(pairs, sources, targets, rounds=4, prior=0.01):
    """IBM Model 1 with a prior, as its equations say: expected counts (sources + 1, targets)."""
    there = np.zeros((sources + 1, targets))
    for source, target in pairs:
        there[np.ix_([*source, sources], target)] = prior
    counts = np.zeros_like(there)
    for _ in range(rounds):
        table = there + counts
        table /= np.maximum(table.sum(axis=1, keepdims=True), 1e-30)
        counts = np.zeros_like(there)
        for source, target in pairs:
            words = [*source, sources]  # with the empty one
            for token in target:
                total = sum(table[word, token] for word in words)
                for word in words:
                    counts[word, token] += table[word, token] / total
    return counts


def test_translations_are_those_of_model_1():
    generator = np.random.default_rng(0)
    pairs = []
    for _ in range(60):
        source = generator.integers(0, 9, generator.integers(1, 6)).tolist()
        target = [(word + shift) % 12 for word in source for shift in (0, generator.integers(3))]
        pairs.append((source, target))
    counts = model_1(pairs, 9, 12)
    offsets, translations, frequencies = best_translations(*zip(*pairs, strict=True), 9, 12, 3)
    for word in range(9):
        best = np.argsort(-counts[word], kind="stable")[:3]
        expected = sorted(token for token in best if counts[word, token] >= 0.01)
        assert translations[offsets[word] : offsets[word + 1]].tolist() == expected
        assert word in expected  # what a word is always translated by
    expected = np.bincount([token for _, target in pairs for token in target], minlength=12)
    np.testing.assert_array_equal(frequencies, expected)


def test_blocks_of_pairs_continue_each_other(monkeypatch):
    monkeypatch.setattr("keras_transformer.text.shortlist._LINKS", 20)
    words = np.random.default_rng(1).integers(0, 8, (200, 3))
    offsets, translations, _ = best_translations(words, words + 1, 8, 9, 1)
    assert offsets.tolist() == list(range(9))
    assert translations.tolist() == list(range(1, 9))


def test_empty_sides_are_left_out_and_numbers_of_rows_agree(tokenizer):
    rows = [[5, 6], [], [7]]
    shortlist = Shortlist.build(rows, [[8], [9], []], tokenizer, first=9, best=2)
    assert (shortlist.translations.tolist(), shortlist.always.tolist()) == ([8, 8], [8])
    nothing = Shortlist.build([], [], tokenizer)
    assert candidate_sets(nothing.candidates([[2]])) == [{2}]
    with pytest.raises(ValueError, match="shorter"):
        Shortlist.build(rows, [[8]], tokenizer)
    with pytest.raises(ValueError, match="`best` must be"):
        Shortlist.build(rows, rows, tokenizer, best=0)


@needs(MULTI30K)
def test_captions_translations_are_among_their_candidates():
    """Made of 3,000 pairs: most tokens of the references of 300 others."""
    texts = read_parallel_text(MULTI30K / "train.en.gz", MULTI30K / "train.de.gz")
    texts = [text[:3300] for text in texts]
    lines = [line for text in texts for line in text[:3000]]
    tokenizer = SentencePieceTokenizer.train(lines, vocabulary_size=3000)
    sources, targets = (tokenizer.encode(text) for text in texts)
    shortlist = Shortlist.build(sources[:3000], targets[:3000], tokenizer)
    hits = total = size = 0
    for source, target in zip(sources[3000:], targets[3000:], strict=True):
        (found,) = candidate_sets(shortlist.candidates([[*source, 2]]))
        hits += sum(token in found for token in target)
        total, size = total + len(target), size + len(found)
    assert hits / total > 0.9
    assert size / 300 < 600
