"""Short code stays in one line."""

from docs.tools.short_code import with_whole_words


def test_only_short_code_in_a_line_has_the_class():
    flag, long = "<code>--batch-tokens</code>", f"<code>{'a-' * 13}</code>"
    html = f"<p>{flag} {long}</p><pre>{flag}</pre><pre><code>a\nb</code></pre>"
    word = '<code class="word">--batch-tokens</code>'
    assert with_whole_words(html) == html.replace(flag, word, 1)
