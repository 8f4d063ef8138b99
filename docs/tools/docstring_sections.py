"""Griffe extension: parses our docstring sections, which extend Google's style.

"Call arguments" describes the arguments of `call`. "Example" is shown as examples. Entries without
names, such as a single result or a reference, are shown as text.
"""

import re
import textwrap

import griffe

TITLES = "Args|Call arguments|Attributes|Returns|Yields|Raises|Example|Reference"
NAMED = re.compile(r"\w+(, \w+)*: ")  # start of an item; continuation lines are indented


class DocstringSections(griffe.Extension):
    """Parses all docstrings section by section."""

    def on_package(self, *, pkg, **options):
        for docstring in _docstrings(pkg):
            docstring.parsed = [
                section
                for chunk in re.split(rf"^(?=(?:{TITLES}):)", docstring.value, flags=re.MULTILINE)
                for section in _sections(chunk, docstring)
            ]


def _docstrings(obj):
    """Yield every docstring within a package."""
    if obj.docstring:
        yield obj.docstring
    for member in obj.members.values():
        if not member.is_alias:
            yield from _docstrings(member)


def _sections(chunk, docstring):
    """Return Griffe's sections for a chunk: one of our sections, or the text before them."""
    title, _, content = chunk.partition(":")
    content = textwrap.dedent(content.lstrip("\n") if content.startswith("\n") else content.strip())
    first, *others = content.splitlines() or [""]
    named = NAMED.match(first) and all(
        NAMED.match(line) or line.startswith("    ") for line in others
    )
    if title == "Reference" or (title in ("Returns", "Yields") and not named):
        return [griffe.DocstringSectionText(f"**{title}:**\n\n{content}")]
    if title == "Example":
        return _parsed(f"Examples:\n{_indented(content)}", docstring.parent)
    if title == "Call arguments":
        call = docstring.parent.members.get("call", docstring.parent)
        sections = _parsed(f"Args:\n{_indented(content)}", call)
        sections[0].title = f"{title}:"
        return sections
    return _parsed(chunk, docstring.parent)


def _parsed(text, parent):
    # Without the empty line, the indentation of the first line would apply to all lines.
    return griffe.Docstring(f"\n{text}", parent=parent).parse(
        "google",
        warn_missing_types=False,
        warn_unknown_params=False,  # a line may describe several names
    )


def _indented(text):
    return textwrap.indent(text, "    ")
