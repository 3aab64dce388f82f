"""The document at `/openapi.json`: OpenAPI 3.1, made of the types that requests are decoded as.

Schemas come from msgspec, so a field that the decoder takes is in the document, with its bounds, and no other. Pure. Above: the
server, which has the routes. Below: `operation`. Source: the OpenAPI Specification 3.1.1.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import msgspec

from smg_core.protocols.operation import Answer, Operation

__all__ = ["Described", "document"]

_VALUE = re.compile(r"\{([a-z_]+)(?::path)?\}")
_REFERENCES = "#/components/schemas/{name}"


@attrs.frozen
class Described:
    """One route: its method, its pattern as the route table has it, and what it takes and gives."""

    method: str
    pattern: str
    about: Operation


def document(routes: Iterable[Described], *, version: str, error: Any) -> dict[str, Any]:
    """The whole document as JSON values. `version` is the gateway's; `error` the type of the body of every refusal."""
    found = list(routes)
    types = [error]
    for route in found:
        types += [route.about.body] if route.about.body is not None else []
        types += [answer.body for answer in route.about.answers if answer.body is not None]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCES)
    by_type = dict(zip(map(id, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in found:
        paths.setdefault(_VALUE.sub(r"{\1}", route.pattern), {})[route.method.lower()] = _operation(
            route, by_type, error
        )
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "SMG gateway",
            "version": version,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": components},
    }


def _operation(route: Described, schemas: Mapping[int, Any], error: Any) -> dict[str, Any]:
    about = route.about
    answers = {str(answer.status): _answer(answers, schemas) for answer, answers in _by_status(about.answers)}
    refusal = Answer(0, "The request was refused, or failed: the API's own error.", error)
    made: dict[str, Any] = {
        "operationId": about.name,
        "summary": about.summary,
        "tags": [about.tag],
        "responses": {**answers, "default": _answer([refusal], schemas)},
    }
    names = _VALUE.findall(route.pattern)
    if names:
        made["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
    if about.body is not None:
        content: dict[str, Any] = {"schema": schemas[id(about.body)]}
        if about.examples:
            content["examples"] = {name: {"value": value} for name, value in about.examples.items()}
        made["requestBody"] = {"required": True, "content": {"application/json": content}}
    return made


def _by_status(answers: Iterable[Answer]) -> list[tuple[Answer, list[Answer]]]:
    """The first answer of each status, with all that have it: one status may have a body of several media types."""
    found: dict[int, list[Answer]] = {}
    for answer in answers:
        found.setdefault(answer.status, []).append(answer)
    return [(same[0], same) for same in found.values()]


def _answer(answers: list[Answer], schemas: Mapping[int, Any]) -> dict[str, Any]:
    content = {
        answer.media_type: {"schema": schemas[id(answer.body)]} if answer.body is not None else {}
        for answer in answers
        if answer.body is not None or answer.media_type != "application/json"
    }
    return {"description": answers[0].meaning, **({"content": content} if content else {})}
