"""A hook of mkdocs: short code in a line, such as a flag, is not broken at its hyphens."""

import re

SHORT = re.compile(r"(?<!<pre>)<code>([^<\n]{1,24})</code>")


def with_whole_words(html: str) -> str:
    """The HTML of a page in which short code has the class `word`."""
    return SHORT.sub(r'<code class="word">\1</code>', html)


def on_page_content(html, page, config, files):
    return with_whole_words(html)
