"""GitHub's alerts become admonitions on the site."""

import pytest

from docs.tools.admonitions import with_admonitions


@pytest.mark.parametrize(
    ("kind", "admonition"),
    [
        ("NOTE", "note"),
        ("TIP", "tip"),
        ("IMPORTANT", 'info "Important"'),
        ("WARNING", "warning"),
        ("CAUTION", 'danger "Caution"'),
    ],
)
def test_each_kind(kind, admonition):
    text = f"Before.\n\n> [!{kind}]\n> One `line`.\n> Another.\n\nAfter.\n"
    shown = f"Before.\n\n!!! {admonition}\n\n    One `line`.\n    Another.\n\nAfter.\n"
    assert with_admonitions(text) == shown


def test_paragraphs_lists_and_code_inside():
    text = "> [!NOTE]\n> A:\n>\n> - b\n>\n> ```sh\n> ls  # c\n> ```"
    shown = "!!! note\n\n    A:\n\n    - b\n\n    ```sh\n    ls  # c\n    ```"
    assert with_admonitions(text) == shown


@pytest.mark.parametrize(
    "text",
    ["> A quotation.\n", "```text\n> [!NOTE]\n> An example.\n```\n", "> [!OTHER]\n> Not known.\n"],
)
def test_what_is_no_alert_stays(text):
    assert with_admonitions(text) == text
