"""The page at `/docs`: an OpenAPI document as one HTML page that loads nothing from other servers. Pure."""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from smg_core.apis.status.front_page import STYLE

__all__ = ["docs_page"]

_Object = Mapping[str, Any]
"""An object of a document that `wire.openapi` has made: which members it has is known."""

_TABLE = (
    "table{border-collapse:collapse;width:100%}"
    "td,th{text-align:left;vertical-align:top;padding:.2rem .6rem;border-top:1px solid #8884}"
)
_BOUNDS = {
    "minimum": ">= {}",
    "exclusiveMinimum": "> {}",
    "maximum": "<= {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {}",
}


def docs_page(document: _Object) -> bytes:
    """The page for a document made by `wire.openapi`."""
    schemas = document["components"]["schemas"]
    operations = "".join(
        _operation(method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    )
    types = "".join(_type(name, schema) for name, schema in sorted(schemas.items()))
    title = f"{escape(document['info']['title'])} {escape(document['info']['version'])}"
    meta = "<meta charset=utf-8><meta name=viewport content='width=device-width'>"
    head = f"{meta}<title>{title}</title><style>{STYLE}{_TABLE}</style>"
    body = f"<h1>{title}</h1><p><a href='openapi.json'>openapi.json</a></p>{operations}<h2>Types</h2>{types}"
    return f"<!doctype html><html lang=en><head>{head}</head><body>{body}</body></html>".encode()


def _operation(method: str, path: str, operation: _Object) -> str:
    parts = [f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(operation['summary'])}</p>"]
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is not None:
        parts.append(f"<p>Body: {_shape(content['schema'])}</p>")
        for name, example in content.get("examples", {}).items():
            text = json.dumps(example["value"], indent=2, ensure_ascii=False)
            parts.append(f"<details><summary>Example: {escape(name)}</summary><pre>{escape(text)}</pre></details>")
    for status, answer in operation["responses"].items():
        shapes = " or ".join(
            f"{_shape(each['schema'])} ({escape(kind)})"
            for kind, each in answer.get("content", {}).items()
            if "schema" in each
        )
        parts.append(f"<p>{escape(status)}: {escape(answer['description'])} {shapes}</p>")
    return "".join(parts)


def _type(name: str, schema: _Object) -> str:
    description = f"<p>{escape(schema['description'])}</p>" if "description" in schema else ""
    required, optional = schema.get("required", ()), " <small>optional</small>"
    rows = "".join(
        f"<tr><td><code>{escape(field)}</code>{'' if field in required else optional}</td><td>{_shape(shape)}</td></tr>"
        for field, shape in schema.get("properties", {}).items()
    )
    return f"<h3 id='{escape(name)}'><code>{escape(name)}</code></h3>{description}<table>{rows}</table>"


def _shape(schema: _Object) -> str:
    """A schema in a few words, with links to the types that it names."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f"<a href='#{name}'>{name}</a>"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(_shape(each) for each in schema[key])
    if "enum" in schema:
        return " or ".join(f"<code>{escape(json.dumps(value))}</code>" for value in schema["enum"])
    if "const" in schema:
        return f"<code>{escape(json.dumps(schema['const']))}</code>"
    kind = schema.get("type", "any value")
    if kind == "array" and "prefixItems" in schema:
        return f"list of: {'; '.join([_shape(each) for each in schema['prefixItems']])}"
    if kind == "array":
        kind = f"list of {_shape(schema['items'])}" if "items" in schema else "list"
    return ", ".join([kind, *_bounds(schema)])


def _bounds(schema: _Object) -> Iterator[str]:
    for key, words in _BOUNDS.items():
        if key in schema:
            yield escape(words.format(schema[key]))
