"""What holds for every page: the program understands its commands, and its links lead somewhere."""

import pytest

from keras_transformer.cli import make_parser
from tests.pages.page import ROOT, Page

NAMES = [
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/*.md", "recipes/**/*.md")
    for path in sorted(ROOT.glob(pattern))
]
COMMANDS = [command for name in NAMES for command in Page(name).commands()]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_every_command_is_understood(arguments):
    assert make_parser().parse_args(arguments).verb.__name__ == arguments[0]


@pytest.mark.parametrize("name", NAMES)
def test_linked_files_exist(name):
    assert [str(path) for path in Page(name).links() if not path.exists()] == []


def test_there_are_commands_and_links():
    assert len(COMMANDS) >= 25
    assert len([link for name in NAMES for link in Page(name).links()]) >= 50
