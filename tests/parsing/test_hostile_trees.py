"""Trees of any characters and packed files of any kind: a tree, or one line."""

import gzip
import io
import random
import zipfile

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.parsing import Tree, clean, linearize, read_trees, rebuild, repair
from keras_transformer.parsing.evalb import evaluate

PARTS = ["(", ")", " ", "\t", "\n", "\0", "\x1c", "\u2028", "\u00a0", "\ud800", "S", "XX", "-LRB-",
         "-NONE-", "NP=2", "-", "=", "\\", "\u0301", "(N a)", "(S ", "((", "))"]  # fmt: skip
TREE = b"(S (N a) (V b))\n"


def texts(count):
    generator = random.Random(1)
    return ["".join(generator.choices(PARTS, k=generator.randrange(25))) for _ in range(count)]


@pytest.mark.parametrize("count", [3000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_any_text_is_a_tree_or_a_value_error(count):
    found = 0
    for text in texts(count):
        try:
            tree = Tree.fromstring(text)
        except ValueError:
            continue
        found += 1
        assert Tree.fromstring(str(tree)) == tree == Tree.fromstring(tree.pretty())
        cleaned = clean(tree)
        if cleaned is not None:
            assert rebuild(linearize(cleaned), cleaned.words(), cleaned.tags()) == cleaned
    assert found


def test_any_two_texts_are_compared():
    lines = texts(2000)
    result = evaluate(lines, lines[::-1])
    assert result.all.sentences == 2000


def test_any_tokens_are_repaired():
    for text in texts(1000):
        tree, _ = repair(text.split(" "), ["a", "b"])
        assert tree.words() == ["a", "b"]


def zipped():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("wsj.mrg", TREE)
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(TREE)[:-10], "is not a complete gzip file"),
        (gzip.compress(TREE) + b"garbage", "is not a complete gzip file"),
        (zipped(), "is not a complete gzip file"),
        (TREE, "is not a complete gzip file"),
        (b"", "is empty"),
        (gzip.compress(b"(S " * 6_000_000), "line 1: longer than 16,777,216 bytes"),
        (gzip.compress(b"(S\n" * 2_000_000), "line 1: .* must have at most 1,000,000 characters"),
    ],
    ids=["cut", "garbage", "zip", "text", "empty", "one-line", "many-lines"],
)
def test_a_packed_treebank_that_is_none(tmp_path, content, message):
    path = tmp_path / "train.mrg.gz"
    path.write_bytes(content)
    with pytest.raises(UserInputError, match=message):
        list(read_trees(path))


def test_a_packed_treebank_of_several_parts(tmp_path):
    path = tmp_path / "train.mrg.gz"
    path.write_bytes(gzip.compress(TREE) * 3)
    assert len(list(read_trees(path))) == 3
