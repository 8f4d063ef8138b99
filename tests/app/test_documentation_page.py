"""The documentation for people: all of the OpenAPI document, and nothing to load."""

import re

from keras_transformer.app.documentation_page import documentation_page


def test_every_endpoint_and_object_is_there_and_linked(fake_app):
    document = fake_app.get("api/openapi.json").json()
    page = fake_app.get("api/docs").text
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"<code>{method.upper()} {path}</code></h2>" in page
    anchors = set(re.findall(r'id="([^"]+)"', page))
    assert document["components"]["schemas"].keys() <= anchors
    assert set(re.findall(r'href="#([^"]+)"', page)) <= anchors
    assert not re.search(r"<script|style=|https?://(?!127\.0\.0\.1)", page)


def test_what_a_document_says_is_text():
    schema = {"properties": {"<b>": {"type": "string", "description": "`<i>` & more"}}}
    document = {
        "info": {"title": "<script>", "version": "1"},
        "paths": {},
        "components": {"schemas": {"Odd": schema}},
    }
    page = documentation_page(document, "http://localhost/")
    assert "<script" not in page
    assert "<code>&lt;b&gt;</code>" in page
    assert "<code>&lt;i&gt;</code> &amp; more" in page
