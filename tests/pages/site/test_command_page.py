"""The page of the command line has every verb and, on the site, every flag."""

import argparse
import re
import subprocess
import sys

import pytest

from docs.tools.command_page import BLOCK, COMMON, flags_of, parsers, usage_of
from keras_transformer.toolkit.cli import GROUPS
from keras_transformer.toolkit.cli.program import CommandParser
from tests.pages.page import ROOT, Page

PAGE = Page("docs/command_line.md")


def test_every_verb_and_kind_has_a_heading_and_a_block():
    headings = re.findall(r"^##+ (.+)$", PAGE.text, re.MULTILINE)
    assert headings == [found[1] for found in BLOCK.finditer(PAGE.text)]
    assert sorted(headings) == sorted(parsers())


def test_the_table_has_the_verbs_of_each_group():
    table = PAGE.text.partition("\n|---|---|\n")[2].partition("\n\n")[0]
    rows = [tuple(re.findall(r"\[(\w+)\]", row)) for row in table.splitlines()]
    assert rows == list(GROUPS.values())


@pytest.mark.parametrize("words", parsers())
def test_every_flag_is_shown_once(words):
    shown = re.findall(r"<dt.*?>(.+)</dt>", flags_of(words))
    flags = [flag for one in shown for flag in re.findall(r"<code>(--?[\w-]+)</code>", one)]
    actions = [action for action in parsers()[words]._actions if action.option_strings]
    assert sorted({*flags, *COMMON, "-h"}) == sorted(
        {flag for action in actions for flag in action.option_strings} | COMMON
    )
    assert len(flags) == len(set(flags))


def test_anchors_are_unique():
    anchors = [
        anchor for words in parsers() for anchor in re.findall('id="(.*?)"', flags_of(words))
    ]
    assert len(anchors) > 300
    assert len(set(anchors)) == len(anchors)
    assert "translate-beam-size" in anchors


def test_a_row_has_the_value_the_help_and_the_default(monkeypatch):
    parser = CommandParser(prog="keras-transformer grow", description="Grow `trees` & <more>.")
    parser.add_argument("--size", metavar="N", required=True, help="height (default: 2 (two))")
    parser.add_argument("--kind", choices=["oak", "elm"], help="50 %% of %(prog)s")
    parser.add_argument("seeds", nargs=argparse.ONE_OR_MORE, metavar="SEED", help="what to sow")
    monkeypatch.setattr("docs.tools.command_page.parsers", lambda: {"grow": parser})
    assert usage_of(parser) == "keras-transformer grow --size N [FLAG ...] SEED [SEED ...]"
    text = flags_of("grow")
    assert text.startswith("Grow <code>trees</code> &amp; &lt;more&gt;.\n\n")
    assert '<dt id="grow-seeds"><code>SEED [SEED ...]</code></dt>\n<dd>what to sow</dd>' in text
    default = '<span class="default">(default: 2 (two))</span>'
    size = "<code>--size</code> <code>N</code>"
    assert f'<dt id="grow-size">{size}</dt>\n<dd>height {default}</dd>' in text
    kind = "<code>--kind</code> <code>oak|elm</code>"
    assert f'<dt id="grow-kind">{kind}</dt>\n<dd>50 % of keras-transformer</dd>' in text


def test_neither_keras_nor_tensorflow_is_imported():
    code = (
        "import sys; from docs.tools.command_page import flags_of, parsers\n"
        "for words in parsers(): flags_of(words)\n"
        "print({'keras', 'tensorflow', 'jax', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("set()\n", "")
