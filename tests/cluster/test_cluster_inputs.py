"""Inputs of a job on a cluster: text, gzip and Parquet, in parts."""

import gzip
import pathlib

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from keras_transformer.errors import UserInputError
from keras_transformer.toolkit.cluster.cluster_inputs import is_parquet, path_of, scan_file

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


@pytest.mark.parametrize("part_lines", [1, 2, 3, 7, 100])
def test_parts_are_the_lines(path, part_lines):
    scanned = scan_file(path, "de", part_lines)
    assert scanned.file.lines == 7
    for first in range(0, 7, part_lines):
        expected = [LINES[x : x + part_lines] for x in range(first, 7, part_lines)]
        assert list(scanned.parts(first)) == expected
        assert scanned.num_parts(first) == len(expected)


def test_the_digest_is_of_the_lines(tmp_path):
    path = tmp_path / "news"
    path.write_text("a\nb\n")
    first = scan_file(str(path), "text", 1)
    assert scan_file(str(path), "text", 1) == first
    path.write_text("a\nc\n")
    assert scan_file(str(path), "text", 1).file.digest != first.file.digest


def test_other_lines_are_noticed_while_a_job_runs(path):
    scanned = scan_file(path, "de", 3)
    content = pathlib.Path(path.removeprefix("file://"))
    if is_parquet(path):
        texts = [*LINES[:4], "other", *LINES[5:]]
        parquet.write_table(pyarrow.table({"id": range(7), "de": texts}), content)
    else:
        opened = gzip.open if content.suffix == ".gz" else open
        with opened(content, "rb") as old:
            text = old.read()
        with opened(content, "wb") as new:
            new.write(text.replace(b"sechs", b"sIchs"))
    parts = scanned.parts(0)
    assert next(parts) == LINES[:3]
    with pytest.raises(UserInputError, match="changed while the job was running"):
        next(parts)


def test_bad_inputs_are_named(tmp_path):
    for name, content, fault in (
        ("missing", None, "Cannot read .*missing: No such file"),
        ("empty", b"", "is empty"),
        ("cut.gz", gzip.compress(b"a\nb\n" * 999)[:-9], "not a complete gzip file"),
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
        with pytest.raises(UserInputError, match=f"no text column named '{column}', but id, de"):
            scan_file(str(tmp_path / "ids.parquet"), column, 2)


def test_texts_of_parquet_may_be_categories_and_must_be_utf_8(tmp_path):
    path = tmp_path / "news.parquet"
    texts = pyarrow.array(["b", "a", "b", None]).dictionary_encode()
    parquet.write_table(pyarrow.table({"text": texts}), path)
    assert list(scan_file(str(path), "text", 3).parts(0)) == [["b", "a", "b"], [""]]
    offsets, broken = np.array([0, 1, 2], "int32"), b"a\xff"
    buffers = [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(broken)]
    texts = pyarrow.Array.from_buffers(pyarrow.string(), 2, buffers)
    parquet.write_table(pyarrow.table({"text": texts}), path)
    with pytest.raises(UserInputError, match="news.parquet, rows 1 to 2: a text is not UTF-8"):
        scan_file(str(path), "text", 3)


def test_text_that_is_not_utf_8_has_its_line_number(tmp_path):
    path = tmp_path / "news"
    path.write_bytes(b"a\nb\nc\n\xff\n")
    with pytest.raises(UserInputError, match="line 4: not UTF-8"):
        scan_file(str(path), "text", 2)


@pytest.mark.parametrize("name", ["news", "news.gz"])
def test_a_file_that_has_changed_is_named(tmp_path, name):
    path = tmp_path / name
    write = gzip.open if name.endswith(".gz") else open
    for text in ("a\nb\nc\nd\n", "a\nb\n"):
        with write(path, "wt") as file:
            file.write(text)
        if "c" in text:
            parts = scan_file(str(path), "text", 2).parts(0)
    assert next(parts) == ["a", "b"]
    with pytest.raises(UserInputError, match=f"{name} changed while the job was running"):
        next(parts)


def test_a_uri_is_named_by_its_path():
    assert is_parquet("s3://bucket/web.parquet?endpoint_override=minio:9000")
    assert path_of("/data/what?.gz") == "/data/what?.gz"
    with pytest.raises(UserInputError, match=r"Cannot read s3://\[web/x: Invalid"):
        path_of("s3://[web/x")
    with pytest.raises(UserInputError, match="password.*Received: s3://key:...@bucket/x") as found:
        path_of("s3://key:secret@bucket/x")
    assert "secret" not in str(found.value)
