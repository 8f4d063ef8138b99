"""MkDocs hook: adds the shipped models to the home page, where they translate in the browser.

Each model becomes a file of the site, made by `export page`. The browser loads the file when the
reader opens the section of the model.
"""

import functools
import html
import pathlib
import tempfile

from docs.tools.paper_embeds import FRAME_SCRIPT
from keras_transformer.runs.shipped_models import presets

PAGE = "index.md"
PLACE = '<h2 id="install">'  # the models come before this heading
CALIBRATION = "calibration.txt"  # in the folder of a model: sentences of its source language


@functools.cache
def pages() -> dict[str, bytes]:
    """Return the exported page of each shipped model by its name."""
    if not presets():
        return {}
    from keras_transformer.installation import start_backend_quietly

    start_backend_quietly()
    from keras_transformer import Translator
    from keras_transformer.export import export_page

    found = {}
    for model in presets():
        translator = Translator.load(model.path, shortlist=True, engine="own")
        calibration = (model.path / CALIBRATION).read_text("utf-8").splitlines()
        notice = [f"{model.description} License: {model.license}."]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, f"{model.name}.html")
            export_page(translator, path, calibration=calibration, notice=notice)
            found[model.name] = path.read_bytes()
    return found


def address(name: str) -> str:
    """Return the address of a model's page from the home page."""
    return f"translate/{name}.html"


def sections() -> str:
    """Return HTML with a closed section for each model."""
    found = "\n".join(
        f"<details><summary>{model.languages}: translate in this "
        f"browser, without a server ({len(pages()[model.name]) / 1e6:.0f} MB)</summary>"
        f'<iframe class="translator" loading="lazy" title="Translator {html.escape(model.name)}" '
        f'src="{address(model.name)}"></iframe></details>'
        for model in presets()
    )
    return found and found + FRAME_SCRIPT


def on_files(files, config):
    from mkdocs.structure.files import File  # not needed by the other functions

    for name, content in pages().items():
        files.append(File.generated(config, address(name), content=content))


def on_page_content(content, page, config, files):
    if page.file.src_uri != PAGE:
        return content
    if PLACE not in content:
        raise ValueError(f"{PAGE} has no {PLACE}")
    return content.replace(PLACE, f"{sections()}\n{PLACE}", 1)
