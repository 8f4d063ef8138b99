"""Links and pictures of a page outside `docs/`, as the site shows them."""

import types

from docs.tools.repository_links import on_page_markdown, repository_address


class File:
    """One that mkdocs has found in `docs/`."""

    generated_by = None

    def __init__(self, src_uri, *, is_in_site=True):
        self.src_uri = src_uri
        self.inclusion = types.SimpleNamespace(is_included=lambda: is_in_site)


def shown(markdown):
    page = types.SimpleNamespace(file=File("index.md"))
    files = [File("training.md"), File("images/app_light.png")]
    files.append(File("tools/built_site.py", is_in_site=False))
    return on_page_markdown(markdown, page, None, files)


def test_links_within_the_site_and_to_the_repository():
    blob, tree = (f"{repository_address()}/{kind}/main" for kind in ("blob", "tree"))
    code = "`[e](docs/training.md)`"
    text = f"[a](docs/training.md#b) [c](Makefile) [d](recipes) {code}"
    assert shown(text) == f"[a](training.md#b) [c]({blob}/Makefile) [d]({tree}/recipes) {code}"
    tool = "docs/tools/built_site.py"
    assert shown(f"[f]({tool})") == f"[f]({blob}/{tool})"


def test_a_picture_becomes_an_image_for_each_theme():
    image = "docs/images/app_light.png"
    picture = f"""<picture>
  <source media="(prefers-color-scheme: dark)" srcset="{image}">
  <img alt="The app" src="{image}">
</picture>"""
    light, dark = (f"![The app](images/app_light.png#only-{name})" for name in ("light", "dark"))
    assert shown(picture) == light + dark
