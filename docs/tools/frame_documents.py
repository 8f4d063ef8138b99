"""MkDocs hook: embeds the documents of `<iframe>` elements in the page.

If a page is opened as a file, it cannot access a document that its frame loads from another file,
so the theme button could not change the frame. A document in `srcdoc` belongs to the page.
"""

import pathlib
import posixpath
import re
from html import escape

FRAME = re.compile(r'<iframe src="(?!\w+:)([^"]+\.html)"')


def with_documents(text: str, folder: pathlib.Path) -> str:
    """Return the HTML of a page in a folder with the contents of its frames in `srcdoc`."""

    def frame(found):
        content = (folder / found[1]).read_text("utf-8")
        return f'<iframe srcdoc="{escape(content)}"'

    return FRAME.sub(frame, text)


def on_page_content(html, page, config, files):
    folder = pathlib.Path(config.docs_dir) / posixpath.dirname(page.file.src_uri)
    return with_documents(html, folder)
