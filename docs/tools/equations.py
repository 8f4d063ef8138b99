"""MkDocs hook: converts TeX in the pages to MathML.

As on GitHub, `$...$` is an inline equation, and `$$...$$` is an equation in its own paragraph. Code
stays unchanged. Browsers render MathML without a script. In the Markdown converter, each equation
is represented by a word of hexadecimal digits, which contains no special characters.
"""

import re

CODE = re.compile(r"(^ *```.*?^ *```$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
INLINE = re.compile(r"(?<![\\\w$])\$(?![\s$])([^$\n]*?[^\s\\$])\$(?![\w$])")
OPENED, CLOSED = "\ue000", "\ue001"  # private-use characters, which do not occur in pages
PLACE = re.compile(f"(<p>)?{OPENED}([bi])([0-9a-f]+){CLOSED}(</p>)?")


def with_places(markdown: str) -> str:
    """Replace each equation outside code with a placeholder."""
    parts = CODE.split(markdown)  # text and code alternate
    for index in range(0, len(parts), 2):
        text = BLOCK.sub(lambda found: _place("b", found[1]), parts[index])
        parts[index] = INLINE.sub(lambda found: _place("i", found[1]), text)
    return "".join(parts)


def with_equations(html: str) -> str:
    """Replace the placeholders in a page's HTML with MathML."""
    return PLACE.sub(_equation, html)


def mathml(tex: str, *, is_block: bool = False) -> str:
    """Convert an equation to MathML."""
    from latex2mathml.converter import convert  # from the `docs` extra

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
