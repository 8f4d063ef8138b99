"""MkDocs hook: adds the table of shipped models to their page, from `saved_models/models.csv`."""

from keras_transformer.runs.shipped_models import presets, table_of

PAGE = "models.md"
PLACE = "The list is ["  # the table comes before this line


def table() -> str:
    """Return the table as Markdown, or a sentence if no models are shipped."""
    head, *rows = table_of(presets())
    if not rows:
        return "This version has no shipped models yet."
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def on_page_markdown(markdown, page, config, files):
    if page.file.src_uri != PAGE:
        return markdown
    return markdown.replace(PLACE, f"{table()}\n\n{PLACE}", 1)
