"""A hook of mkdocs: drawings and stepping figures become part of the page that shows them.

The site's theme button changes the page, but not a document in an `<object>` or an `<iframe>`. So
the content of `<object data="NAME.svg">` and `<object data="NAME.html">` is put into the page, and
a script passes the theme on to frames. Elsewhere, such as on GitHub, readers see what the element
contains: an image or a link.
"""

import pathlib
import posixpath
import re

OBJECT = re.compile(r'<object data="([^"]+\.(?:svg|html))"([^>]*)>.*?</object>', re.DOTALL)
DARK_RULES = re.compile(r"@media \(prefers-color-scheme: dark\)\{(.*?)\}(?=</style>)", re.DOTALL)
PART = re.compile(r"<!-- figure -->\n(.*?)<!-- /figure -->", re.DOTALL)  # of an HTML file
DARK = "[data-md-color-scheme=slate]"  # where Material's dark theme is on
# The button in the frame would say the wrong thing after the page's button was used.
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
    """An SVG file, or the figure in an HTML file, as a part of a page.

    `address` is where the page would load the file from, and `label` names the image to readers
    who cannot see it.
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
    for mark in ('id="', 'href="#', "url(#"):  # other images of the page have the same ids
        svg = svg.replace(mark, f"{mark}{name}-")
    svg = re.sub(
        r'(?<=xlink:href=")(?!\w+:)[^"#]+',
        lambda link: posixpath.normpath(posixpath.join(posixpath.dirname(address), link[0])),
        svg,
    )
    svg = svg.replace("<svg", f'<svg role="group" aria-label="{label}" width="100%"', 1)
    return f'<div class="inline-figure" id="{name}-image">{svg}</div>'


def with_parts(html: str, folder: pathlib.Path) -> str:
    """The HTML of a page in a folder, with its objects' contents and the script for its frames."""

    def embedded(found: re.Match) -> str:
        label = re.search(r'aria-label="([^"]*)"', found[2])
        return part_of_page(folder / found[1], found[1], label[1] if label else "")

    html = OBJECT.sub(embedded, html)
    return html + FRAME_SCRIPT if "<iframe" in html else html


def _for_dark_theme(rules: str, name: str) -> str:
    """Rules with simple selectors, for one image of a page whose theme is dark."""
    return re.sub(r"(?:^|(?<=\}))(?=[^}])", f"{DARK} #{name}-image ", rules)


def on_page_content(html, page, config, files):
    folder = pathlib.Path(config.docs_dir) / posixpath.dirname(page.file.src_uri)
    return with_parts(html, folder)
