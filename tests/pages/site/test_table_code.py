"""Short code in tables stays in one line."""

from docs.tools.table_code import with_whole_words


def test_only_short_code_in_tables_has_the_class():
    flag, long = "<code>--batch-tokens</code>", f"<code>{'a-' * 13}</code>"
    html = f"<p>{flag}</p><table><tr><td>{flag} {long}</td></tr></table><p>{flag}</p>"
    word = '<code class="word">--batch-tokens</code>'
    shown = f"<p>{flag}</p><table><tr><td>{word} {long}</td></tr></table><p>{flag}</p>"
    assert with_whole_words(html) == shown
