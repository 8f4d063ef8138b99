"""The NumPy program of the page, and a browser."""

import pytest

from docs.tools import paper_program
from tests.browser import browser, visit  # noqa: F401


@pytest.fixture(scope="session")
def toy():
    """The names that the program defines."""
    names, _ = paper_program.run([one.code for one in paper_program.blocks() if one.is_part])
    return names
