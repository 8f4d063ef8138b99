"""MkDocs hook: reports dead links in the built pages, and resources loaded from other sites."""

import html.parser
import logging
import pathlib
import urllib.parse

LOG = logging.getLogger("mkdocs.hooks.built_site")
LOADED = {
    "img",
    "script",
    "source",
    "iframe",
    "video",
    "audio",
    "embed",
    "object",
}  # and stylesheets


class _BuiltPage(html.parser.HTMLParser):
    """The anchors, links and loaded resources of a page or an SVG image."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        href = values.get("href") or values.get("xlink:href")  # SVG uses the second name
        address = values.get("src") or values.get("data")  # an <object> uses the second name
        if tag == "a" and href:
            self.links.append(href)
        elif tag == "link" and values.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(values["href"])
        elif tag in LOADED and address:
            self.loaded.append(address)


def dead_links(site: pathlib.Path) -> list[str]:
    """Return one line for each faulty link in a built site."""
    paths = [*site.rglob("*.html"), *site.rglob("*.svg")]
    pages = {path: _BuiltPage(path) for path in paths if path.name != "404.html"}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site)
        found += [f"{name} loads {url}" for url in page.loaded if _is_elsewhere(url)]
        for url in page.links + page.loaded:
            parts = urllib.parse.urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve()
            if not parts.path:
                target = path
            anchor = urllib.parse.unquote(parts.fragment)
            if not target.is_file():
                found.append(f"{name} links to {url}: no such file")
            elif anchor and target in pages and anchor not in pages[target].anchors:
                found.append(f"{name} links to {url}: no such anchor")
    return found


def _is_elsewhere(url: str) -> bool:
    parts = urllib.parse.urlsplit(url)
    return bool(parts.netloc) or parts.scheme in ("http", "https")


def on_config(config):
    """Make strict builds fail on warnings. `--quiet` would drop them before they are counted."""
    logger = logging.getLogger("mkdocs")
    if config.strict and logger.level > logging.WARNING:
        logger.setLevel(logging.WARNING)


def on_post_build(config):
    for line in dead_links(pathlib.Path(config.site_dir).resolve()):
        LOG.warning(line)
