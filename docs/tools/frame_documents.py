"""A hook of mkdocs: a document in an `<iframe>` becomes a part of the page that shows it.

Opened as a file, a page cannot reach a document that its frame loads from another file, so the
theme button could not change the frame. A document in `srcdoc` belongs to the page.
"""

import pathlib
import posixpath
import re
from html import escape

FRAME = re.compile(r'<iframe src="(?!\w+:)([^"]+\.html)"')


def with_documents(text: str, folder: pathlib.Path) -> str:
    """The HTML of a page in a folder, with the content of its frames in `srcdoc`."""

    def frame(found):
        content = (folder / found[1]).read_text("utf-8")
        return f'<iframe srcdoc="{escape(content)}"'

    return FRAME.sub(frame, text)


def on_page_content(html, page, config, files):
    folder = pathlib.Path(config.docs_dir) / posixpath.dirname(page.file.src_uri)
    return with_documents(html, folder)
