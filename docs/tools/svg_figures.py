"""The style of figures, and SVG files that adapt to a light or dark page.

`DARK` maps each color to its counterpart on dark pages. Browsers choose between them by the color
scheme of the page. Other programs show the light colors.
"""

import io
import re
from collections.abc import Callable

from matplotlib import rc_context
from matplotlib.figure import Figure

PAPER, INK, FAINT, FILL = "#ffffff", "#1f2430", "#8a92a0", "#eef1f6"
DARK = {PAPER: "#1e2129", INK: "#e6e8ee", FAINT: "#8f97a6", FILL: "#2b303b"}
DARK |= {"#1b1f27": "#e6e8ee", "#5a6272": "#a3abbb", "#dde0e8": "#444c5c"}  # the package's figures
BLUE, ORANGE, GREEN, PURPLE = "#2b7bba", "#d55e00", "#17936f", "#9a62d6"  # for light and dark pages
SERIES = (BLUE, ORANGE, GREEN, PURPLE)
STYLE = {
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "figure.titlesize": 10,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "grid.color": FAINT,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "text.color": INK,
    "xtick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.color": FAINT,
    "ytick.labelcolor": INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "keras_transformer",  # makes the files reproducible
}


def svg_of(draw: Callable[[], Figure]) -> str:
    """Return a function's drawing as the text of an SVG file.

    Links open in the full window. Files with links have no fixed size.
    """
    content = io.StringIO()
    with rc_context(STYLE):
        draw().savefig(content, format="svg", bbox_inches="tight", metadata={"Date": None})
    rules = "".join(
        f'[style*="{what}: {light}"]{{{what}:{dark} !important}}'
        for light, dark in DARK.items()
        for what in ("fill", "stroke")
    )
    text = content.getvalue().replace(' target="_blank"', "")
    for old, new in (
        ("<a xlink:href", '<a target="_top" xlink:href'),
        ("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif"),  # of similar width
    ):
        text = text.replace(old, new)
    if "<a target" in text:
        text = re.sub(r'(<svg [^>]*?) width="[^"]*" height="[^"]*"', r"\1", text)
    rule = f"<style>@media (prefers-color-scheme: dark){{{rules}}}</style>\n <defs>"
    return re.sub(r"[ \t]+$", "", text.replace("<defs>", rule, 1), flags=re.MULTILINE)
