"""A hook of mkdocs: which pages the search of the site prefers.

Reference, recipes and results have the words of the guides too, where a reader finds the answer.
"""

BOOSTS = {
    "api/": 0.3,
    "recipes/": 0.3,
    "saved_models/": 0.3,
    "architecture.md": 0.3,
    "changelog.md": 0.3,
    "contributing.md": 0.3,
    "results.md": 0.3,
    "tutorials/": 1.5,
    "training.md": 3,  # long: the search takes off for length
}


def on_page_markdown(markdown, page, config, files):
    for start, boost in BOOSTS.items():
        if page.file.src_uri.startswith(start):
            page.meta["search"] = {"boost": boost}
    return markdown
