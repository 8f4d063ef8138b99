"""Creates the images in README.md and docs/app.md: `python -m docs.tools.app_images RUN`.

RUN must translate from English, like the English-Portuguese model in docs/tutorials/fine_tune.md,
with languages in run.json and a beam size of 4. `--runs RUN OTHER_RUN` creates the image of two
`recipes.multi30k_en_de` runs, and `--parser RUN` creates the image of a `recipes.wsj_parsing` run.
Chromium and the `dev` extra are required.
"""

import argparse
import contextlib
import io
import os
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

from docs.tools.attention_images import IMAGES, PHONE

HOST = "127.0.0.1"
DESKTOP = {"width": 1240, "height": 800}
TEXT = """Where is the train station?

We will meet in front of the library. My brother bought a new bicycle yesterday.
The museum opens at nine o'clock."""
CAPTIONS = """A man in a blue shirt is riding a bicycle.

A woman is playing the guitar on the street. A dog runs through the snow.
People are sitting at a table in front of a restaurant."""
PARSED = "The company said it will sell its shares to a group of investors ."


@contextlib.contextmanager
def app(runs: list[str]) -> Iterator[str]:
    """Start an app with these runs and yield its address."""
    from keras_transformer.toolkit.app import AppLimits
    from keras_transformer.toolkit.app.application import create_app
    from keras_transformer.toolkit.app.loaded_runs import loaded_runs
    from keras_transformer.toolkit.app.server import address_of, bound_socket, make_server, serve

    started = threading.Event()
    with (
        bound_socket(HOST, 0) as bound,
        loaded_runs([Path(run) for run in runs], AppLimits()) as loaded,
    ):
        server = make_server(create_app(loaded, host=HOST), started.set, lambda: None)
        thread = threading.Thread(target=serve, args=(server, bound))
        thread.start()
        started.wait()
        try:
            yield address_of(bound, HOST)
        finally:
            server.should_exit = True
            thread.join()


def open_page(browser, address, text=TEXT, *, dark=False, size=DESKTOP):
    """Open the page with a text and wait until the text is translated or parsed."""
    page = browser.new_page(
        color_scheme="dark" if dark else "light",
        viewport=size,
        device_scale_factor=2 if size is PHONE else 1.5,
        has_touch=size is PHONE,
    )
    page.set_default_timeout(60_000)
    page.goto(address)
    page.get_by_role("textbox", name="Text").fill(text)
    for column in page.locator(".column").all():
        column.get_by_text(re.compile(r"^\d+ sentences?$")).wait_for()
    return page


def choose(page, sentence, word):
    """Select a sentence in the first column and hover over a word of its translation."""
    found = page.locator(".column").first.locator(".sentence").nth(sentence)
    found.click()
    page.locator("#sentence .words").nth(1).wait_for()
    page.mouse.move(1, 1)
    found.locator(".word").nth(word).hover()


def save(name, page):
    """Take a screenshot of the full page."""
    from PIL import Image

    page.wait_for_timeout(500)
    image = Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")
    # A palette of the most frequent colors, because panels and background are similar.
    image = image.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    image.save(IMAGES / f"app_{name}.png", optimize=True)
    page.close()


def parsed_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description="Make the images of README.md and docs/app.md.")
    parser.add_argument("run", nargs="?", help="translates English text into another language")
    parser.add_argument("--runs", nargs=2, help="two runs that translate captions into German")
    parser.add_argument("--parser", help="draws trees of English sentences")
    return parser.parse_args()


def translations(browser, run: str) -> None:
    """Create screenshots in both themes, with attention, and on a phone."""
    with app([run]) as address:
        for name, dark in ("light", False), ("translation_dark", True):
            page = open_page(browser, address, dark=dark)
            choose(page, 1, 2)
            save(name, page)

        page = open_page(browser, address, dark=True)
        choose(page, 1, 2)
        page.get_by_role("button", name="Show attention").click()
        page.locator(".kt-query .kt-token").nth(2).click()
        save("dark", page)

        page = open_page(browser, address, size=PHONE)
        choose(page, 1, 2)
        save("phone", page)


def two_runs(browser, runs: list[str]) -> None:
    """Create a screenshot of two runs side by side."""
    with app(runs) as address:
        page = open_page(browser, address, CAPTIONS)
        choose(page, 1, 1)
        save("runs", page)


def trees(browser, run: str) -> None:
    """Create a screenshot of a parse tree."""
    with app([run]) as address:
        page = open_page(browser, address, PARSED)
        page.get_by_text("In brackets").click()
        page.get_by_role("treeitem", name="VP").first.hover()
        save("trees", page)


def main() -> None:
    """Start the apps and create the images."""
    from playwright.sync_api import sync_playwright

    given = parsed_arguments()
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=arguments
        )
        for take, of in (translations, given.run), (two_runs, given.runs), (trees, given.parser):
            if of:
                take(browser, of)
        browser.close()


if __name__ == "__main__":
    main()
