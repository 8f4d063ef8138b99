"""MkDocs hook: converts GitHub alerts, such as `> [!NOTE]`, to admonitions."""

import re

# Code blocks stay unchanged, including any alerts in them.
ALERT = re.compile(r"^```.*?^```$|^> \[!(\w+)\]\n((?:^>[^\n]*\n?)+)", re.DOTALL | re.MULTILINE)
KINDS = {
    "NOTE": "note",
    "TIP": "tip",
    "IMPORTANT": 'info "Important"',
    "WARNING": "warning",
    "CAUTION": 'danger "Caution"',
}


def with_admonitions(markdown: str) -> str:
    """Return the Markdown of a page with its alerts converted to admonitions.

    Example:
        >>> print(with_admonitions("> [!TIP]\\n> Use `--quiet`."))
        !!! tip
        <BLANKLINE>
            Use `--quiet`.
    """

    def admonition(found):
        kind, text = found.groups()
        if kind not in KINDS:  # a code block
            return found[0]
        lines = [re.sub("^> ?", "", line) for line in text.splitlines()]
        end = "\n" * text.endswith("\n")
        lines = [f"!!! {KINDS[kind]}", "", *(f"    {line}".rstrip() for line in lines)]
        return "\n".join(lines) + end

    return ALERT.sub(admonition, markdown)


def on_page_markdown(markdown, page, config, files):
    return with_admonitions(markdown)
