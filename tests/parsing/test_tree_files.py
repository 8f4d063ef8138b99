"""Files of trees and their clean-up, against trees written down by hand."""

import gzip

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.parsing import Tree, clean, read_trees
from tests.parsing.sample_trees import FILES, needs_sample, sample_trees
from tests.written_files import write

RAW = """
( (S
    (NP-SBJ-1 (DT The) (NN dog) )
    (VP (VBD was)
      (VP (VBN seen)
        (NP (-NONE- *-1) )
        (PP (-NONE- *ICH*-2) )))
    (. .) ))
( (S (NP-SBJ=2 (-LRB- -LRB-) (PRP it) (-RRB- -RRB-))
     (ADVP|PRT-CLR (RP up)) (VP (VBZ is) (SBAR (-NONE- 0) (S (-NONE- *T*-1))))))
"""
CLEAN = [
    "(S (NP (DT The) (NN dog)) (VP (VBD was) (VP (VBN seen))) (. .))",
    "(S (NP (-LRB- -LRB-) (PRP it) (-RRB- -RRB-)) (ADVP|PRT (RP up)) (VP (VBZ is)))",
]


@pytest.mark.parametrize("name", ["raw.mrg", "raw.mrg.gz"])
def test_treebank_files_are_cleaned(tmp_path, name):
    assert [str(tree) for tree in read_trees(write(tmp_path / name, RAW))] == CLEAN


def test_without_clean_up_all_stays(tmp_path):
    trees = list(read_trees(write(tmp_path / "raw.mrg", RAW), clean=False))
    assert [tree.label for tree in trees] == ["", ""]
    assert trees[0].children[0].children[0].label == "NP-SBJ-1"
    assert trees[0].words() == ["The", "dog", "was", "seen", "*-1", "*ICH*-2", "."]


@pytest.mark.parametrize("layout", ["\n".join, " ".join, "\r\n\r\n".join, "".join])
def test_lines_do_not_matter(tmp_path, layout):
    path = write(tmp_path / "trees", layout(CLEAN))
    assert [str(tree) for tree in read_trees(path)] == CLEAN


def test_indented_trees_read_as_they_were(tmp_path):
    trees = [Tree.fromstring(line) for line in CLEAN]
    path = write(tmp_path / "trees", "\n".join(tree.pretty() for tree in trees))
    assert list(read_trees(path, clean=False)) == trees


def test_trees_come_before_the_file_is_read_to_its_end(tmp_path):
    trees = read_trees(write(tmp_path / "trees", f"{CLEAN[0]}\n)"))
    assert str(next(trees)) == CLEAN[0]
    with pytest.raises(UserInputError):
        next(trees)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("( (S (NP (NN tea))) )", "(S (NP (NN tea)))"),
        ("(TOP (S (NP (NN tea))))", "(TOP (S (NP (NN tea))))"),
        ("( (NN tea) )", "(TOP (NN tea))"),
        ("( (S (NP (NN tea))) (. .) )", "(TOP (S (NP (NN tea))) (. .))"),
        ("( (S (NP (-NONE- *))) (NP (NN tea)) )", "(NP (NN tea))"),
        ("(S (NP) (VP (VB go)))", "(S (VP (VB go)))"),
        ("(S ( (NP (NN tea))) (VP (VB go)))", "(S (NP (NN tea)) (VP (VB go)))"),
        ("(-X- (=Y (NN tea-time=2)))", "(-X- (=Y (NN tea-time=2)))"),
        ("(S=1-PRD (NP=2-TMP (NN-X tea)))", "(S (NP (NN-X tea)))"),
    ],
)
def test_what_clean_takes_out(raw, expected):
    tree = clean(Tree.fromstring(raw))
    assert str(tree) == expected
    assert clean(tree) == tree


def test_a_tree_of_traces_alone_is_passed_over(tmp_path):
    assert clean(Tree.fromstring("(S (NP (-NONE- *)))")) is None
    path = write(tmp_path / "trees", f"(())\n(S (NP (-NONE- *)))\n{CLEAN[0]}\n")
    assert [str(tree) for tree in read_trees(path)] == CLEAN[:1]


def test_a_phrase_10_000_deep_around_a_trace():
    raw = "(S (NN tea) " + "(NP-SBJ " * 10_000 + "(-NONE- *)" + ")" * 10_001
    assert str(clean(Tree.fromstring(raw))) == "(S (NN tea))"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{CLEAN[0]}\n{CLEAN[1]})\n", "line 2: a closing bracket too many"),
        (f"{CLEAN[0]}\n\n{CLEAN[1][:-1]}\n", "line 3: .* not closed: 1 closing bracket missing"),
        (f"\n{CLEAN[0][:-1]}\n{CLEAN[1]}\n", "line 2: .* not closed: 1 closing bracket missing"),
        (f"{CLEAN[0]}\nS\n", "line 2: 'S' is in no tree"),
        ("(S\n (NP the dog))", "line 2: the word 'dog' has no bracket and tag"),
        (b"(S (NN tea))\n(S (NN caf\xe9))\n", "line 2: not UTF-8"),
        ("\n\n", "contains no tree"),
        ("", "is empty"),
    ],
)
@pytest.mark.parametrize("name", ["bad.mrg", "bad.mrg.gz"])
def test_errors_name_the_file_and_the_line(tmp_path, name, text, message):
    with pytest.raises(UserInputError, match=f"{name}.*{message}"):
        list(read_trees(write(tmp_path / name, text)))


def test_files_that_cannot_be_read(tmp_path):
    for name, reason in (("missing", "No such file"), ("", "Is a directory")):
        with pytest.raises(UserInputError, match=f"Cannot read .*: {reason}"):
            list(read_trees(tmp_path / name))


def test_a_byte_order_mark_is_no_word(tmp_path):
    path = write(tmp_path / "trees", b"\xef\xbb\xbf" + CLEAN[0].encode())
    assert [str(tree) for tree in read_trees(path)] == CLEAN[:1]


@needs_sample
def test_the_sample_is_written_as_it_was_read_and_is_clean():
    text = b"".join(gzip.decompress(file.read_bytes()) for file in FILES)
    lines = text.decode().splitlines()
    assert len(lines) == 3669
    assert [str(tree) for tree in sample_trees()] == lines
    assert [clean(tree) for tree in sample_trees()] == sample_trees()
