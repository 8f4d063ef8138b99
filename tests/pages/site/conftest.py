"""A browser for the tests of the built site."""

from tests.browser import browser, visit  # noqa: F401
