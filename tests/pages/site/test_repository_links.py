"""Links and pictures of a page outside `docs/`, as the site shows them."""

import types

from docs.tools.repository_links import on_page_markdown, repository_address


def shown(markdown):
    page = types.SimpleNamespace(file=types.SimpleNamespace(src_uri="index.md"))
    names = ("training.md", "images/app_light.png")
    files = [types.SimpleNamespace(src_uri=name, generated_by=None) for name in names]
    return on_page_markdown(markdown, page, None, files)


def test_links_within_the_site_and_to_the_repository():
    text = "[a](docs/training.md#b) [c](Makefile) [d](recipes) `[e](docs/training.md)`"
    blob, tree = (f"{repository_address()}/{kind}/main" for kind in ("blob", "tree"))
    code = "`[e](docs/training.md)`"
    assert shown(text) == f"[a](training.md#b) [c]({blob}/Makefile) [d]({tree}/recipes) {code}"


def test_a_picture_becomes_an_image_for_each_theme():
    image = "docs/images/app_light.png"
    picture = f"""<picture>
  <source media="(prefers-color-scheme: dark)" srcset="{image}">
  <img alt="The app" src="{image}">
</picture>"""
    light, dark = (f"![The app](images/app_light.png#only-{name})" for name in ("light", "dark"))
    assert shown(picture) == light + dark
