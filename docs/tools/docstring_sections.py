"""An extension of Griffe: our docstrings' sections, of which Google's style does not know all.

"Call arguments" are those of `call`, "Example" is shown as examples, and what has no names, such as
a single result or a reference, as text.
"""

import re
import textwrap

import griffe

TITLES = "Args|Call arguments|Attributes|Returns|Yields|Raises|Example|Reference"
NAMED = re.compile(r"\w+(, \w+)*: ")  # how an item begins; its further lines are indented


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
    """The sections that Griffe makes of a chunk, which is one of ours or the text before them."""
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
    # Without the empty line the first line's indentation would be taken for that of all.
    return griffe.Docstring(f"\n{text}", parent=parent).parse(
        "google",
        warn_missing_types=False,
        warn_unknown_params=False,  # several names may share a line
    )


def _indented(text):
    return textwrap.indent(text, "    ")
