"""A hook of mkdocs: short code in tables, such as a flag, is not broken at its hyphens."""

import re

TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
SHORT = re.compile(r"<code>([^<]{1,24})</code>")


def with_whole_words(html: str) -> str:
    """The HTML of a page in which short code in tables has the class `word`."""
    return TABLE.sub(lambda table: SHORT.sub(r'<code class="word">\1</code>', table[0]), html)


def on_page_content(html, page, config, files):
    return with_whole_words(html)
