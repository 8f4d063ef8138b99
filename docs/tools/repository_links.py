"""MkDocs hook: adds pages from outside `docs/` and converts links between pages.

Links in the Markdown files are relative to the repository, so they work on GitHub. On the site, a
link to a file that is not a page leads to the repository.
"""

import logging
import pathlib
import posixpath
import re
import tomllib

ROOT = pathlib.Path(__file__).parents[2]
LOG = logging.getLogger("mkdocs.hooks.repository_links")
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security_policy.md",
    "saved_models/README.md": "saved_models/README.md",
}
LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]+)(?=[)#])")
# GitHub chooses the picture by the reader's system, and the site by the selected theme.
PICTURE = re.compile(
    r'<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)">\s*'
    r'<img alt="([^"]+)" src="([^"]+)">\s*</picture>'
)
CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)


def repository_address() -> str:
    """Return the address of the repository from pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return project["urls"]["Repository"].rstrip("/")


def pages_outside() -> dict[str, str]:
    """Return the site paths of pages outside `docs/` by their repository paths."""
    recipes = (str(path.relative_to(ROOT)) for path in ROOT.glob("recipes/*/README.md"))
    return {**OUTSIDE, **{path: path for path in recipes}}


def on_config(config):
    config.nav.append({"Source code": repository_address()})


def on_files(files, config):
    from mkdocs.structure.files import File  # not needed by the other functions

    for path, address in pages_outside().items():
        files.append(File.generated(config, address, abs_src_path=str(ROOT / path)))


def on_page_markdown(markdown, page, config, files):
    inside = {address: path for path, address in pages_outside().items()}
    here = inside.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    places = {path: address for address, path in inside.items()}
    places |= {
        f"docs/{file.src_uri}": file.src_uri
        for file in files
        if not file.generated_by and file.inclusion.is_included()
    }

    def on_site(link):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(here), link[1]))
        if path in places:
            return posixpath.relpath(places[path], posixpath.dirname(page.file.src_uri) or ".")
        if not (ROOT / path).exists():
            LOG.warning("%s links to %s, which does not exist", here, path)
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{repository_address()}/{kind}/main/{path}"

    parts = CODE.split(markdown)  # text and code alternate
    pictures = r"![\2](\3#only-light)![\2](\1#only-dark)"
    parts[::2] = [LINK.sub(on_site, PICTURE.sub(pictures, text)) for text in parts[::2]]
    # In tables, GitHub requires vertical bars in code to be escaped, but the site does not.
    parts[1::2] = [code.replace(r"\|", "|") for code in parts[1::2]]
    return "".join(parts)
