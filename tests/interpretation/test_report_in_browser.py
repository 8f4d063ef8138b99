"""The report of a real training in Chromium: light and dark, on a desktop and a phone."""

import pytest

from tests.browser import violations

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("phone", [False, True], ids=["desktop", "phone"])
def test_it_is_whole_accessible_and_asks_nobody(visit, trained_run, dark, phone):
    page = visit(trained_run / "report.html", dark=dark, phone=phone)
    for details in page.locator("details").all():
        details.evaluate("details => { details.open = true }")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    names = [svg.get_attribute("aria-label") for svg in page.locator("figure svg").all()]
    assert [name.split(" over")[0] for name in names] == [
        "Training loss", "Dev perplexity", "Dev BLEU", "Learning rate",
    ]  # fmt: skip
    assert page.locator("#attention .kt-query .kt-token").count() > 3
    line = page.locator("svg .line").first
    color = line.evaluate("line => getComputedStyle(line).stroke")
    assert color == ("rgb(134, 180, 255)" if dark else "rgb(29, 95, 196)")
