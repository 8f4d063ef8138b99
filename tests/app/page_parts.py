"""Parts of the app's page that its tests find."""

SENTENCE = ".sentence[role=button]"


def field(page):
    return page.get_by_role("textbox", name="Text")
