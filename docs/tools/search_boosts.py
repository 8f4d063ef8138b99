"""MkDocs hook: sets the priority of pages in the site search.

A word in a title counts a thousand times as much as a word in the text. A boost multiplies both.
With 0.01, a title in the reference outranks the text of guides but not their titles.
"""

BOOSTS = {
    "api/": 0.01,
    "architecture.md": 0.01,
    "changelog.md": 0.01,
    "command_line.md": 0.01,
    "contributing.md": 0.01,
    "glossary.md": 0.3,  # has a title for each term that the guides explain
    "lab/": 0.01,
    "recipes/": 0.1,
    "results.md": 0.1,
    "saved_models/": 0.01,
    "security_policy.md": 0.1,
}


def on_page_markdown(markdown, page, config, files):
    for start, boost in BOOSTS.items():
        if page.file.src_uri.startswith(start):
            page.meta["search"] = {"boost": boost}
    return markdown
