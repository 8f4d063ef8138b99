"""Text in pairs: read as often as wished, and known again by its content."""

import gzip
import math

import pytest

from keras_transformer.data import ParallelFiles, SentencePairs
from keras_transformer.errors import UserInputError


def write(directory, **texts):
    """Files from their contents; `a_en_gz="x"` is the packed `a.en.gz`."""
    for name, text in texts.items():
        path = directory / name.replace("_", ".")
        content = text.encode("utf-8")
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def test_lists_are_read_again_and_again():
    text = SentencePairs(["a", "b"], ("c", "d"), name="letters")
    assert list(text) == list(text) == [("a", "c"), ("b", "d")]
    assert (text.name, text.num_pairs) == ("letters", 2)


@pytest.mark.parametrize(
    "other",
    [
        (["a", "bc"], ["d", "e"]),
        (["ab", "c"], ["d", "f"]),
        (["d", "e"], ["ab", "c"]),
        (["ab", "c", ""], ["d", "e", ""]),
    ],
)
def test_other_sentences_have_another_fingerprint(other):
    text = SentencePairs(["ab", "c"], ["d", "e"])
    assert text.fingerprint() == SentencePairs(("ab", "c"), ("d", "e"), "name").fingerprint()
    assert text.fingerprint() != SentencePairs(*other).fingerprint()


def test_lists_that_cannot_be_paired():
    with pytest.raises(UserInputError, match="Received: 2 sources, 1 targets"):
        SentencePairs(["a", "b"], ["c"])
    with pytest.raises(ValueError, match="`targets` must be a list of strings"):
        SentencePairs(["a", "b"], "cd")
    for other in (None, math.nan, b"bytes"):
        with pytest.raises(ValueError, match=r"Received: sources\[1\]="):
            SentencePairs(["a", other], ["b", "c"])


def test_files_are_paired_in_order(tmp_path):
    write(tmp_path, a_en="1\n2\n", b_en_gz="3", a_de_gz="eins\nzwei", b_de="drei\n")
    text = ParallelFiles(tmp_path / "*.en*", tmp_path / "*.de*")
    assert list(text) == list(text) == [("1", "eins"), ("2", "zwei"), ("3", "drei")]
    assert text.name == "a.en and 1 more"
    backwards = ParallelFiles(
        [tmp_path / "b.en.gz", tmp_path / "a.en"], [tmp_path / "b.de", tmp_path / "a.de.gz"]
    )
    assert next(iter(backwards)) == ("3", "drei")


def test_one_file_a_side(tmp_path):
    write(tmp_path, a_en="1\n2\n", a_de="eins\nzwei\n")
    text = ParallelFiles(str(tmp_path / "a.en"), tmp_path / "a.de")
    assert list(text) == [("1", "eins"), ("2", "zwei")]
    assert text.name == "a.en"
    assert ParallelFiles(tmp_path / "a.en", tmp_path / "a.de", name="news").name == "news"


def test_pairs_are_counted_with_the_fingerprint(tmp_path):
    write(tmp_path, a_en="1\n2\n", b_en="3", a_de="eins\nzwei\n", b_de="drei")
    text = ParallelFiles(tmp_path / "*.en", tmp_path / "*.de")
    assert text.num_pairs is None
    text.fingerprint()
    assert text.num_pairs == 3


def test_a_changed_file_has_another_fingerprint(tmp_path):
    source, target = tmp_path / "a.en", tmp_path / "a.de"
    source.write_text("one\n")
    target.write_text("eins\n")
    text = ParallelFiles(source, target)
    before = text.fingerprint()
    source.write_text("one two\n")
    assert text.fingerprint() == ParallelFiles(source, target).fingerprint() != before


def test_any_strings_are_pairs():
    text = SentencePairs((word for word in ["a\ud800"]), ["b"])
    assert list(text) == [("a\ufffd", "b")]
    assert text.fingerprint()


def test_the_fingerprint_is_that_of_the_lines(tmp_path):
    write(
        tmp_path,
        x_en="1\n2\n3\n",
        x_de="a\nb\nc\n",
        x_en_gz="\ufeff1\n2\n3",
        y_en="1\n2",
        z_en="3",
        wrong_en="1\n23\n\n",
    )

    def fingerprint(*sources):
        targets = ["x.de"] if len(sources) == 1 else ["y.de", "z.de"]
        write(tmp_path, y_de="a\nb\n", z_de="c")
        return ParallelFiles(
            [tmp_path / name for name in sources], [tmp_path / name for name in targets]
        ).fingerprint()

    assert fingerprint("x.en") == fingerprint("x.en.gz") == fingerprint("y.en", "z.en")
    assert fingerprint("x.en") != fingerprint("wrong.en")
    swapped = ParallelFiles(tmp_path / "x.de", tmp_path / "x.en")
    assert swapped.fingerprint() != fingerprint("x.en")


def test_unequal_numbers_of_files_are_named(tmp_path):
    write(tmp_path, a_en="1", b_en="2", a_de="eins")
    with pytest.raises(UserInputError, match=r"2 \(.*a\.en, .*b\.en\) against 1 \(.*a\.de\)"):
        ParallelFiles(tmp_path / "*.en", tmp_path / "*.de")


@pytest.mark.parametrize("read", [ParallelFiles.fingerprint, list])
def test_unequal_numbers_of_lines_are_named(tmp_path, read):
    write(tmp_path, a_en="1\n", b_en="1\n2\n3\n", a_de="1\n", b_de="1\n2\n")
    with pytest.raises(UserInputError, match=r"b\.en has 3, .*b\.de has 2$"):
        read(ParallelFiles(tmp_path / "*.en", tmp_path / "*.de"))
