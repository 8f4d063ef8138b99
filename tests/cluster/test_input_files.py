"""Inputs of a job on a cluster: text, gzip and Parquet, in blocks."""

import gzip

import pyarrow
import pytest
from pyarrow import parquet

from keras_transformer.cluster.input_files import scan_file
from keras_transformer.errors import UserInputError

LINES = ["eins", "zwei", "", "vier Wörter mit Ümlaut", "fünf\u2028fünf", "sechs", "sieben"]


@pytest.fixture(params=["plain", "windows", "no end", "gzip", "parquet", "uri"])
def path(request, tmp_path):
    """The same lines in files of every kind."""
    text = "".join(f"{line}\n" for line in LINES)
    if request.param == "parquet":
        path = tmp_path / "news.parquet"
        texts = [line or None for line in LINES]
        parquet.write_table(pyarrow.table({"id": range(7), "de": texts}), path, row_group_size=3)
        return str(path)
    if request.param == "gzip":
        path = tmp_path / "news.de.gz"
        path.write_bytes(gzip.compress(text.encode()))
        return str(path)
    path = tmp_path / "news.de"
    if request.param == "windows":
        text = "\ufeff" + text.replace("\n", "\r\n")
    path.write_bytes(text.removesuffix("\n" if request.param == "no end" else "").encode())
    return path.as_uri() if request.param == "uri" else str(path)


@pytest.mark.parametrize("block_lines", [1, 2, 3, 7, 100])
def test_blocks_are_the_lines(path, block_lines):
    file = scan_file(path, "de", block_lines)
    assert file.lines == 7
    blocks = list(range(file.num_blocks))
    assert [line for lines in file.read(blocks) for line in lines] == LINES
    assert [len(lines) for lines in file.read(blocks)] == [file.size(block) for block in blocks]
    for block in blocks:
        start = file.first_line(block)
        assert list(file.read([block])) == [LINES[start : start + block_lines]]
    assert list(file.read(blocks[::2])) == list(file.read(blocks))[::2]


def test_the_digest_is_of_the_lines(tmp_path):
    path = tmp_path / "news"
    path.write_text("a\nb\n")
    first = scan_file(str(path), "text", 1)
    assert scan_file(str(path), "text", 1) == first
    path.write_text("a\nc\n")
    assert scan_file(str(path), "text", 1).digest != first.digest


def test_bad_inputs_are_named(tmp_path):
    for name, content, fault in (
        ("missing", None, "Cannot read .*missing: No such file"),
        ("empty", b"", "is empty"),
        ("cut.gz", gzip.compress(b"a\nb\n" * 999)[:-9], "not a whole gzip file"),
        ("bad.parquet", b"not a table", "Cannot read .*bad.parquet"),
    ):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(UserInputError, match=fault):
            scan_file(str(path), "text", 2)
    with pytest.raises(UserInputError, match="Cannot read file:///no/such"):
        scan_file("file:///no/such", "text", 2)
    with pytest.raises(UserInputError, match="Cannot read gopher://news"):
        scan_file("gopher://news", "text", 2)
    table = pyarrow.table({"id": [1, 2], "de": ["a", "b"]})
    parquet.write_table(table, tmp_path / "ids.parquet")
    for column in ("text", "id"):
        with pytest.raises(
            UserInputError, match=f"no column of texts named '{column}', but id, de"
        ):
            scan_file(str(tmp_path / "ids.parquet"), column, 2)


def test_text_that_is_not_utf_8_has_its_line_number(tmp_path):
    path = tmp_path / "news"
    path.write_bytes(b"a\nb\nc\n\xff\n")
    file = scan_file(str(path), "text", 2)
    with pytest.raises(UserInputError, match="line 4: not UTF-8"):
        list(file.read([1]))
