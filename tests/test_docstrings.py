"""The examples in docstrings: `>>>` runs as a doctest, a fenced block is Python."""

import ast
import pathlib
import re
import textwrap

import pytest

PACKAGE = pathlib.Path(__file__).parents[1] / "keras_transformer"
SOURCES = {
    str(path.relative_to(PACKAGE)): path.read_text("utf-8") for path in PACKAGE.rglob("*.py")
}
FENCED = [
    pytest.param(block, id=name)
    for name, source in sorted(SOURCES.items())
    for block in re.findall(r"^ *```python\n(.*?)^ *```$", source, re.DOTALL | re.MULTILINE)
]


def test_no_example_is_skipped():
    assert [name for name, source in SOURCES.items() if "doctest: +SKIP" in source] == []


@pytest.mark.parametrize("block", FENCED)
def test_a_fenced_example_is_python(block):
    assert ast.parse(textwrap.dedent(block)).body
