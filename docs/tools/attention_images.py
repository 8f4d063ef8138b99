"""Creates the images in docs/attention.md: `python -m docs.tools.attention_images RUN`.

RUN must translate English to German, like the runs of `recipes.multi30k_en_de`. Chromium and the
`dev` extra are required.
"""

import io
import os
import pathlib
import shutil
import sys
import tempfile

IMAGES = pathlib.Path(__file__).parents[1] / "images"
SOURCE = "A man in a blue shirt is standing on a ladder."
DESKTOP = {"width": 1240, "height": 720}
PHONE = {"width": 390, "height": 844}


def screenshots(page_path: pathlib.Path) -> None:
    """Create screenshots of lines in the light theme, a matrix in the dark theme, and a phone."""
    from playwright.sync_api import sync_playwright

    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=arguments
        )
        for name, scheme, view, size in (
            ("light", "light", "Lines", DESKTOP),
            ("dark", "dark", "Matrix", DESKTOP),
            ("phone", "light", "Lines", PHONE),
        ):
            page = browser.new_page(color_scheme=scheme, viewport=size, device_scale_factor=2)
            page.goto(page_path.as_uri())
            page.get_by_role("radio", name=view).check()
            page.locator(".kt-query .kt-token").nth(2).click()
            page.mouse.move(1, 1)
            write(f"attention_{name}", page.screenshot())
        browser.close()


def write(name: str, png: bytes) -> None:
    """Write a PNG with a palette, at a third of the size. An octree preserves all hues."""
    from PIL import Image

    image = Image.open(io.BytesIO(png)).convert("RGB")
    image = image.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    image.save(IMAGES / f"{name}.png", optimize=True)


def main() -> None:
    """Translate a sentence and create its images."""
    from keras_transformer import Translator
    from keras_transformer.figures import figure_file
    from keras_transformer.interpretation import attention_figure, attention_maps, attention_page

    (run,) = sys.argv[1:]
    maps = attention_maps(Translator.load(run), SOURCE)
    IMAGES.mkdir(exist_ok=True)
    figure = attention_figure(maps, "cross", len(maps.cross) - 2)
    # Without a palette, which would blur the faint lines.
    (IMAGES / "attention_figure.png").write_bytes(figure_file(figure, "png"))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "attention.html")
        path.write_text(attention_page(maps, SOURCE), "utf-8")
        screenshots(path)


if __name__ == "__main__":
    main()
