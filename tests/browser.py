"""Pages in a real browser: an installed Chromium, driven by Playwright.

A folder's `conftest.py` imports the fixtures; tests that ask for them are skipped, with the reason
in pytest's summary, where Chromium or Playwright is missing.

    from tests.browser import browser, visit  # noqa: F401

    def test_it_greets(visit):
        page = visit("http://127.0.0.1:8000/")  # or a path of a file
        assert page.title() == "Hello"
        assert violations(page) == []

`visit(address, dark=False, phone=False, allow=(), **options)` opens a page of Playwright in a
context of its own, with `options` of `Browser.new_context`. What the page asks for from another
origin is refused. A test fails at its end if any of its pages wrote an error or a warning to the
console, threw an error or asked for anything elsewhere; `allow` lists parts of messages to expect.

`violations(page)` are the serious and critical findings of axe-core, a line each.

`browser` is Playwright's `Browser`. It lives as long as a file's tests: Playwright keeps an event
loop in the thread, in which no other could run.
"""

import os
import pathlib
import shutil
import urllib.parse

import pytest

DESKTOP = {"width": 1180, "height": 900}
PHONE = {"width": 390, "height": 844}
PATIENCE = 20_000  # milliseconds, on a busy machine
SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module")
def browser():
    """Chromium without a window."""
    driver = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("Chromium is not installed")
    # Chromium refuses to put root into its sandbox.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with driver.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser):
    """Open a page; what goes wrong in it fails the test."""
    visits = []

    def open_page(address, *, dark=False, phone=False, allow=(), **options):
        context = browser.new_context(
            color_scheme="dark" if dark else "light",
            viewport=PHONE if phone else DESKTOP,
            has_touch=phone,
            is_mobile=phone,
            **options,
        )
        visits.append(Visit(context, str(address), allow))
        return visits[-1].page

    yield open_page
    for one in visits:
        one.context.close()
    if faults := [fault for one in visits for fault in one.faults]:
        pytest.fail(f"A page: {'; '.join(faults)}")


class Visit:
    """One page in its context, and what went wrong in it."""

    def __init__(self, context, address, allow):
        if "://" not in address:
            address = pathlib.Path(address).resolve().as_uri()
        self.faults = []
        self.context = context
        self._allow = allow
        self._own = urllib.parse.urlsplit(address)
        context.set_default_timeout(PATIENCE)
        context.route("**/*", self._answer)
        self.page = context.new_page()
        self.page.on("console", self._note_message)
        self.page.on("pageerror", lambda error: self._note("uncaught", str(error)))
        self.page.goto(address)

    def _answer(self, route):
        asked = urllib.parse.urlsplit(route.request.url)
        parts = 3 if self._own.scheme == "file" else 2  # a file is on its own, a server is not
        if asked[:parts] == self._own[:parts] or asked.scheme in ("data", "blob"):
            route.continue_()
        else:
            self.faults.append(f"asked for {route.request.url}")
            route.abort()

    def _note_message(self, message):
        if message.type in ("error", "warning"):
            self._note(message.type, message.text)

    def _note(self, kind, text):
        if not any(part in text for part in self._allow):
            self.faults.append(f"{kind}: {text}")


def violations(page):
    """The serious and critical findings of axe-core, a line each: the rule, and what breaks it."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is missing")
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{violation['id']} ({violation['impact']}): {node['html']} {node['failureSummary']}"
        for violation in found
        if violation["impact"] in SERIOUS
        for node in violation["nodes"]
    ]
