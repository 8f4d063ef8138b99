"""A hook of mkdocs: GitHub's alerts, such as `> [!NOTE]`, become admonitions of the site."""

import re

# A block of code stays as it is, with any alert that it shows.
ALERT = re.compile(r"^```.*?^```$|^> \[!(\w+)\]\n((?:^>[^\n]*\n?)+)", re.DOTALL | re.MULTILINE)
KINDS = {
    "NOTE": "note",
    "TIP": "tip",
    "IMPORTANT": 'info "Important"',
    "WARNING": "warning",
    "CAUTION": 'danger "Caution"',
}


def with_admonitions(markdown: str) -> str:
    """The Markdown of a page in which each alert is an admonition.

    Example:
        >>> print(with_admonitions("> [!TIP]\\n> Use `--quiet`."))
        !!! tip
        <BLANKLINE>
            Use `--quiet`.
    """

    def admonition(found):
        kind, text = found.groups()
        if kind not in KINDS:  # a block of code
            return found[0]
        lines = [re.sub("^> ?", "", line) for line in text.splitlines()]
        end = "\n" * text.endswith("\n")
        lines = [f"!!! {KINDS[kind]}", "", *(f"    {line}".rstrip() for line in lines)]
        return "\n".join(lines) + end

    return ALERT.sub(admonition, markdown)


def on_page_markdown(markdown, page, config, files):
    return with_admonitions(markdown)
