"""A hook of mkdocs: TeX in the pages becomes MathML when the site is built.

As on GitHub, `$...$` is an equation in a line of text, and `$$...$$` one in its own paragraph. Code
stays as it is. Browsers show MathML without a script. Each equation passes through the Markdown
converter as a word of hexadecimal digits, in which no character has a meaning.
"""

import re

CODE = re.compile(r"(^ *```.*?^ *```$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
INLINE = re.compile(r"(?<![\\\w$])\$(?![\s$])([^$\n]*?[^\s\\$])\$(?![\w$])")
OPENED, CLOSED = "\ue000", "\ue001"  # private characters, which no page contains
PLACE = re.compile(f"(<p>)?{OPENED}([bi])([0-9a-f]+){CLOSED}(</p>)?")


def with_places(markdown: str) -> str:
    """The Markdown of a page, with a place for each equation outside code."""
    parts = CODE.split(markdown)  # text and code in turn
    for index in range(0, len(parts), 2):
        text = BLOCK.sub(lambda found: _place("b", found[1]), parts[index])
        parts[index] = INLINE.sub(lambda found: _place("i", found[1]), text)
    return "".join(parts)


def with_equations(html: str) -> str:
    """The HTML of a page, with MathML in the places."""
    return PLACE.sub(_equation, html)


def mathml(tex: str, *, is_block: bool = False) -> str:
    """An equation in MathML."""
    from latex2mathml.converter import convert  # the `docs` extra; the rest needs only Python

    return convert(tex, display="block" if is_block else "inline")


def _place(kind: str, tex: str) -> str:
    return f"{OPENED}{kind}{tex.strip().encode().hex()}{CLOSED}"


def _equation(found: re.Match) -> str:
    before, kind, digits, after = found.groups(default="")
    equation = mathml(bytes.fromhex(digits).decode(), is_block=kind == "b")
    if kind == "b" and before and after:
        return f'<div class="equation">{equation}</div>'
    return before + equation + after


def on_page_markdown(markdown, page, config, files):
    return with_places(markdown)


def on_page_content(html, page, config, files):
    return with_equations(html)
