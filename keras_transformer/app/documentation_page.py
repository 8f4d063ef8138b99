"""The JSON interface's documentation for people, made of its OpenAPI document.

It is plain HTML: the usual viewers of such documents load themselves from elsewhere.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>JSON interface of {title}</title>
<link rel="icon" href="../page/icon.svg">
<link rel="stylesheet" href="../page/theme.css">
<link rel="stylesheet" href="../page/documentation.css">
</head>
<body>
<header><h1>JSON interface</h1>
<p>{title} {version}. {description}</p>
<p><a href="../">The page</a> is one client of it. For programs:
<a href="openapi.json">openapi.json</a>.</p>
</header>
<main>
<nav aria-label="Endpoints"><ul>{index}</ul></nav>
{endpoints}
<section><h2 id="refusals">Refusals</h2>
<table><thead><tr><th>Status</th><th>Why</th></tr></thead><tbody>{refusals}</tbody></table></section>
<h2 id="objects">Objects</h2>
{objects}
</main>
</body>
</html>
"""
Document = Mapping[str, Any]


def documentation_page(document: Document, address: str) -> str:
    """The page.

    Args:
        document: the OpenAPI document, as JSON-compatible values.
        address: the app's address, for examples.

    Returns:
        HTML, whose styles are in files beside it.
    """
    operations = [
        (f"{method.upper()} {path}", path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    index = "".join(
        f'<li><a href="#{_anchor(title)}"><code>{escape(title)}</code></a> '
        f"{escape(operation['summary'])}</li>"
        for title, _, operation in operations
    )
    schemas = document.get("components", {}).get("schemas", {})
    endpoints = [
        _endpoint(title, f"{address.rstrip('/')}{path}", operation, schemas)
        for title, path, operation in operations
    ]
    return _PAGE.format(
        title=escape(document["info"]["title"]),
        version=escape(document["info"]["version"]),
        description=_text(document["info"].get("description", "")),
        index=index,
        endpoints="".join(endpoints),
        refusals=_refusals(operation for _, _, operation in operations),
        objects="".join(_object(name, schema) for name, schema in sorted(schemas.items())),
    )


def _endpoint(title: str, address: str, operation: Document, schemas: Document) -> str:
    parts = [
        f'<section><h2 id="{_anchor(title)}"><code>{escape(title)}</code></h2>',
        f"<p>{_text(operation.get('description', ''))}</p>",
    ]
    for schema in _schemas(operation.get("requestBody", {})):
        parts.append(f"<p>Request: {_type(schema)}</p>")
        for example in _resolved(schema, schemas).get("examples", ()):
            body = json.dumps(example, ensure_ascii=False)
            command = f"curl --json '{body}' {address}"
            parts.append(f'<pre tabindex="0"><code>{escape(command)}</code></pre>')
    answer = operation["responses"]["200"]
    types = ", ".join(map(_type, _schemas(answer)))
    parts.append(f"<p>{_text(answer['description'])}: {types}</p></section>")
    return "".join(parts)


def _refusals(operations: Iterable[Document]) -> str:
    """The rows of a table of what is refused; it is the same for all endpoints that refuse it."""
    refusals = {
        status: answer["description"]
        for operation in operations
        for status, answer in operation["responses"].items()
        if status != "200"
    }
    return "".join(
        f"<tr><td>{escape(status)}</td><td>{_text(description)}</td></tr>"
        for status, description in sorted(refusals.items())
    )


def _schemas(body: Document) -> list[Document]:
    """The schemas of a request's or an answer's body."""
    return [content["schema"] for content in body.get("content", {}).values()]


def _object(name: str, schema: Document) -> str:
    """A schema as a table of its fields."""
    rows = "".join(
        f"<tr><td><code>{escape(field)}</code></td><td>{_type(value)}</td>"
        f"<td>{_text(value.get('description', ''))}{_default(field, schema)}</td></tr>"
        for field, value in schema.get("properties", {}).items()
    )
    return (
        f'<section><h3 id="{escape(name)}">{escape(name)}</h3>'
        f"<p>{_text(schema.get('description', ''))}</p>"
        f"<table><thead><tr><th>Field</th><th>Type</th><th>What</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></section>"
    )


def _default(field: str, schema: Document) -> str:
    """What a field is where it is not given; nothing for answers, whose fields are always there."""
    if field in schema.get("required", ()):
        return ""
    default = schema["properties"][field].get("default")
    return (
        f" Default: <code>{escape(json.dumps(default))}</code>."
        if default is not None
        else (" Optional.")
    )


def _type(schema: Document) -> str:
    """The type of a value as HTML, with links to objects."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#{escape(name)}">{escape(name)}</a>'
    if "anyOf" in schema or "oneOf" in schema:
        return " or ".join(map(_type, schema.get("anyOf") or schema["oneOf"]))
    if "const" in schema:
        return f"<code>{escape(json.dumps(schema['const']))}</code>"
    if "enum" in schema:
        return " or ".join(f"<code>{escape(json.dumps(one))}</code>" for one in schema["enum"])
    if schema.get("type") == "array":
        items = schema.get("items") or {"type": "integer"}
        return f"list of {_type(items)}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    return escape(str(schema.get("type", "any")))


def _resolved(schema: Document, schemas: Document) -> Document:
    return schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "").replace("/", "-").replace("{", "").replace("}", "")


def _text(text: str) -> str:
    """Plain text as HTML, with what is in backticks as code."""
    return "".join(
        f"<code>{escape(part)}</code>" if is_code else escape(part)
        for part, is_code in _parts(text)
    )


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    for number, part in enumerate(text.split("`")):
        yield part, number % 2 == 1
