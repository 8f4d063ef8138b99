"""MkDocs hook: embeds drawings and step-by-step figures in the page.

The site's theme button changes the page, but not a document in an `<object>` or an `<iframe>`. The
contents of `<object data="NAME.svg">` and `<object data="NAME.html">` are therefore embedded in the
page, and a script passes the theme to frames. Elsewhere, such as on GitHub, readers see the image
or link inside the element.
"""

import pathlib
import posixpath
import re

OBJECT = re.compile(r'<object data="([^"]+\.(?:svg|html))"([^>]*)>.*?</object>', re.DOTALL)
DARK_RULES = re.compile(r"@media \(prefers-color-scheme: dark\)\{(.*?)\}(?=</style>)", re.DOTALL)
PART = re.compile(r"<!-- figure -->\n(.*?)<!-- /figure -->", re.DOTALL)  # in an HTML file
DARK = "[data-md-color-scheme=slate]"  # elements with Material's dark theme
# The frame's button is hidden because its label would be wrong after the page's button is used.
FRAME_SCRIPT = f"""\
<script>
(function () {{
  const frames = document.querySelectorAll("iframe");
  function follow(frame) {{
    try {{
      const inner = frame.contentDocument;
      const isDark = document.body.matches("{DARK}");
      inner.documentElement.dataset.theme = isDark ? "dark" : "light";
      inner.getElementById("theme").hidden = true;
    }} catch (error) {{ /* not loaded, or opened as a file: it follows the system's theme */ }}
  }}
  function all() {{ frames.forEach(follow); }}
  frames.forEach(function (frame) {{ frame.addEventListener("load", all); }});
  new MutationObserver(all).observe(document.body, {{ attributeFilter: ["data-md-color-scheme"] }});
  all();
}})();
</script>
"""


def part_of_page(path: pathlib.Path, address: str, label: str = "") -> str:
    """Return an SVG file, or the figure in an HTML file, for embedding in a page.

    `address` is the address of the file relative to the page, and `label` describes the image to
    readers who cannot see it.
    """
    text = path.read_text("utf-8")
    if path.suffix == ".html":
        found = PART.search(text)
        if not found:
            raise ValueError(f"{path} has no part between <!-- figure --> and <!-- /figure -->")
        return found[1]
    name = path.stem
    svg = re.sub(r" <metadata>.*?</metadata>\n", "", text[text.index("<svg") :], flags=re.DOTALL)
    svg = svg.replace("*{stroke-linejoin", f"#{name}-image *{{stroke-linejoin")
    svg = DARK_RULES.sub(lambda rules: _for_dark_theme(rules[1], name), svg)
    for mark in ('id="', 'href="#', "url(#"):  # other images on the page use the same ids
        svg = svg.replace(mark, f"{mark}{name}-")
    svg = re.sub(
        r'(?<=xlink:href=")(?!\w+:)[^"#]+',
        lambda link: posixpath.normpath(posixpath.join(posixpath.dirname(address), link[0])),
        svg,
    )
    svg = svg.replace("<svg", f'<svg role="group" aria-label="{label}" width="100%"', 1)
    return f'<div class="inline-figure" id="{name}-image">{svg}</div>'


def with_parts(html: str, folder: pathlib.Path) -> str:
    """Embed the objects of a page's HTML in a folder, and add the script for frames."""

    def embedded(found: re.Match) -> str:
        label = re.search(r'aria-label="([^"]*)"', found[2])
        return part_of_page(folder / found[1], found[1], label[1] if label else "")

    html = OBJECT.sub(embedded, html)
    return html + FRAME_SCRIPT if "<iframe" in html else html


def _for_dark_theme(rules: str, name: str) -> str:
    """Restrict rules with simple selectors to one image on a page with a dark theme."""
    return re.sub(r"(?:^|(?<=\}))(?=[^}])", f"{DARK} #{name}-image ", rules)


def on_page_content(html, page, config, files):
    folder = pathlib.Path(config.docs_dir) / posixpath.dirname(page.file.src_uri)
    return with_parts(html, folder)
