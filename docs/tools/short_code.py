"""MkDocs hook: prevents line breaks at hyphens in short inline code, such as flags."""

import re

SHORT = re.compile(r"(?<!<pre>)<code>([^<\n]{1,24})</code>")


def with_whole_words(html: str) -> str:
    """Return the HTML of a page with the class `word` added to short code."""
    return SHORT.sub(r'<code class="word">\1</code>', html)


def on_page_content(html, page, config, files):
    return with_whole_words(html)
