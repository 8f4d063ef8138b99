"""A self-contained HTML page that can show the attention of a sentence pair."""

import html
import importlib.resources
from typing import TYPE_CHECKING

from keras_transformer.errors import UserInputError
from keras_transformer.formats.page.single_file import json_in_html, source_of

if TYPE_CHECKING:
    from keras_transformer.inference.attention_maps import AttentionMaps

_MOST_WEIGHTS = 50_000_000  # bytes before base64: 580 tokens, 6 layers, 8 heads
# The policy blocks everything that is not listed, so the page makes no requests.
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{title}</h1><button id="theme" type="button">Dark</button></header>
{body}
<script id="data" type="application/json">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def offline_page(
    title: str, body: str, maps: "AttentionMaps | None" = None, *, style: str = ""
) -> str:
    """Create a page as a single HTML file for a browser.

    The file contains all styles, scripts and data. A content security policy prevents the page from
    loading or running anything else.

    Args:
        title: title and heading of the page, as plain text.
        body: HTML below the heading. An element with the id "attention" shows the maps.
        maps: the `AttentionMaps` of a sentence pair.
        style: additional CSS.

    Returns:
        The HTML, which can be encoded as UTF-8.

    Raises:
        UserInputError: the pair is too long for a browser to show its weights.
    """
    num_weights = sum(maps.weights(kind).size for kind in maps.kinds) if maps else 0
    if maps and num_weights > _MOST_WEIGHTS:
        raise UserInputError(
            f"A page shows at most {_MOST_WEIGHTS:,} weights. Received: {num_weights:,}, of "
            f"{len(maps.source_tokens)} and {len(maps.target_tokens)} tokens: use a shorter pair"
        )
    style = _file("attention.css") + _file("page.css") + style
    script = _file("attention.js") + _file("page.js")
    policy = (
        f"default-src 'none'; script-src {source_of(script)}; style-src {source_of(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    page = _PAGE.format(
        policy=policy,
        title=html.escape(title),
        style=style,
        body=body,
        script=script,
        data=json_in_html(maps.to_json() if maps else None),
    )
    # Unpaired surrogates cannot be written to a file.
    return page.encode("utf-8", "replace").decode("utf-8")


def _file(name: str) -> str:
    folder = importlib.resources.files("keras_transformer.inference") / "page"
    return folder.joinpath(name).read_text("utf-8")


def attention_page(maps: "AttentionMaps", title: str) -> str:
    """Show the attention of a sentence pair in a self-contained HTML file for a browser.

    Args:
        maps: the `AttentionMaps` of the pair.
        title: title and heading of the page.

    Returns:
        The HTML, which can be encoded as UTF-8.

    Raises:
        UserInputError: the pair is too long for a browser to show its weights.

    Example:
        >>> import numpy as np
        >>> from keras_transformer.inference.attention_maps import AttentionMaps
        >>> one = np.ones((1, 1, 1, 1), "float32")
        >>> maps = AttentionMaps(["</s>"], ["<s>"], ["</s>"], one, one, one)
        >>> page = attention_page(maps, "A < B")
        >>> page.splitlines()[0], "<title>A &lt; B</title>" in page
        ('<!DOCTYPE html>', True)
    """
    return offline_page(title, '<main id="attention"></main>', maps)


__all__ = ["attention_page"]
