"""Makes the images of docs/app.md: `python -m docs.tools.app_images RUN OTHER_RUN PARSER_RUN`.

The first two translate English into German, such as those of `recipes.multi30k_en_de`, the third is
one of `recipes.wsj_parsing`. Chromium and the extra `dev` are needed.
"""

import contextlib
import io
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from docs.tools.attention_images import IMAGES, PHONE

HOST = "127.0.0.1"
DESKTOP = {"width": 1240, "height": 800}
TEXT = """A man in a blue shirt is riding a bicycle.

A woman is playing the guitar on the street. A dog runs through the snow.
People are sitting at a table in front of a restaurant."""
PARSED = "The company said it will sell its shares to a group of investors ."


@contextlib.contextmanager
def app(runs: list[str]) -> Iterator[str]:
    """The address of an app with these runs."""
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
    """The page with a text, once it is translated or parsed."""
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
    """Choose a sentence of the first column and point at a word of its translation."""
    found = page.locator(".column").first.locator(".sentence").nth(sentence)
    found.click()
    page.locator("#sentence .words").nth(1).wait_for()
    page.mouse.move(1, 1)
    found.locator(".word").nth(word).hover()


def save(name, page):
    """Photograph all of a page."""
    from PIL import Image

    page.wait_for_timeout(500)
    image = Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")
    # A palette of the colours that cover most: the panels differ little from the ground.
    image = image.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    image.save(IMAGES / f"app_{name}.png", optimize=True)
    page.close()


def main() -> None:
    """Start the apps and make the images."""
    from playwright.sync_api import sync_playwright

    run, other, parser = sys.argv[1:]
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with (
        app([run]) as one,
        app([run, other]) as two,
        app([parser]) as trees,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=arguments
        )
        page = open_page(browser, one)
        choose(page, 1, 1)
        save("light", page)

        page = open_page(browser, one, dark=True)
        choose(page, 1, 1)
        page.get_by_role("button", name="Show attention").click()
        page.locator(".kt-query .kt-token").nth(1).click()
        save("dark", page)

        page = open_page(browser, one, size=PHONE)
        choose(page, 1, 1)
        save("phone", page)

        page = open_page(browser, two)
        choose(page, 1, 1)
        save("runs", page)

        page = open_page(browser, trees, PARSED)
        page.get_by_text("In brackets").click()
        page.get_by_role("treeitem", name="VP").first.hover()
        save("trees", page)
        browser.close()


if __name__ == "__main__":
    main()
