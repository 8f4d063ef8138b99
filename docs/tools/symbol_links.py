"""MkDocs hook: links public names in code, such as `Translator.translate`, to the API reference.

In the reference, every mention is linked; in guides, only the first mention on a page.
"""

import re
from collections.abc import Mapping

from docs.tools.api_pages import Entry, entries

# Elements that stay unchanged: links, code blocks, headings.
KEPT = re.compile(r"(<(a|pre|h[1-6]|script|style|svg)\b.*?</\2>)", re.DOTALL)
CODE = re.compile(r'<code(?: class="word")?>([A-Za-z_][\w.]*)(?:\(\))?</code>')
ANCHOR = re.compile(r'\bid="(keras_transformer\.[\w.]+)"')
COMMON = {"length_penalty"}  # also an option, so the function is linked only with its module
UNLINKED = ("changelog.md", "command_line.md")


def targets_of(found: list[Entry], anchors: Mapping[str, str]) -> dict[str, str]:
    """Return the addresses of the API's names.

    Args:
        found: entries of the reference.
        anchors: the page of each anchor. An anchor is the full name of a class, function or member.

    Returns:
        An address for each way to write a name: with its module, and also without the module if
        the name contains capitals or underscores.
    """
    addresses = {}
    for entry in found:
        for anchor, page in anchors.items():
            if anchor != entry.home and not anchor.startswith(f"{entry.home}."):
                continue
            name = entry.name + anchor.removeprefix(entry.home)
            short = entry.module.removeprefix("keras_transformer").lstrip(".")
            names = {f"{entry.module}.{name}", anchor, f"{short}.{name}".lstrip(".")}
            if re.search("[A-Z_]", name):
                names.add(name)
            addresses |= dict.fromkeys(names - COMMON, f"{page}#{anchor}")
    return addresses


def with_links(html: str, targets: Mapping[str, str], *, once: bool = False) -> str:
    """Link the names in a page's code. With `once`, only the first mention is linked."""
    linked = set()

    def link(found):
        name = found[1]
        if name not in targets or (once and name in linked):
            return found[0]
        linked.add(name)
        return f'<a class="symbol" href="{targets[name]}">{found[0]}</a>'

    parts = KEPT.split(html)  # text, unchanged element, its tag name, and so on
    parts[::3] = [CODE.sub(link, text) for text in parts[::3]]
    del parts[2::3]
    return "".join(parts)


def on_env(env, config, files):
    from mkdocs.utils import get_relative_url  # not needed by the other functions

    pages = [file.page for file in files.documentation_pages() if file.page]
    anchors = {
        anchor: page.url
        for page in pages
        if page.file.src_uri.startswith("api/")
        for anchor in ANCHOR.findall(page.content or "")
    }
    targets = targets_of(entries(), anchors)
    for page in pages:
        is_reference = page.file.src_uri.startswith("api/")
        if page.content and page.file.src_uri not in UNLINKED:
            here = {name: get_relative_url(address, page.url) for name, address in targets.items()}
            page.content = with_links(page.content, here, once=not is_reference)
    return env
