"""The document at `/openapi.json`: OpenAPI 3.1, generated from the types that requests are decoded into.

msgspec writes the schemas, so the document has exactly the fields that the decoders accept, with their bounds. Pure. Above: the
server, which has the routes. Below: `operation`. Source: the OpenAPI Specification 3.1.1.
"""

import re
from collections.abc import Iterable, Mapping

import attrs
import msgspec

from smg_core.json_types import JsonObject
from smg_core.wire.operation import Operation, OperationResponse

__all__ = ["Described", "document"]

_VALUE = re.compile(r"\{([a-z_]+)(?::path)?\}")
_REFERENCES = "#/components/schemas/{name}"
_KEY: JsonObject = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A request that is sent again with the same key gets the answer of the first; another one with it gets 422.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}


@attrs.frozen
class Described:
    """One route: its method, its pattern in the route table, its description, and whether it takes an Idempotency-Key."""

    method: str
    pattern: str
    about: Operation
    takes_key: bool = False


def document(routes: Iterable[Described], *, version: str, error: object) -> JsonObject:
    """The whole document as JSON values. `version` is the gateway's; `error` the type of the body of every error response."""
    found = list(routes)
    types = [error]
    for route in found:
        types += [route.about.body] if route.about.body is not None else []
        types += [route.about.error] if route.about.error is not None else []
        types += [response.body for response in route.about.responses if response.body is not None]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCES)
    by_type = dict(zip(map(id, types), schemas, strict=True))
    paths: dict[str, JsonObject] = {}
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


def _operation(route: Described, schemas: Mapping[int, JsonObject], error: object) -> JsonObject:
    about = route.about
    responses = {str(first.status): _response(responses, schemas) for first, responses in _by_status(about.responses)}
    refusal = OperationResponse(0, "The request was refused, or failed: the API's own error.", about.error or error)
    made: JsonObject = {
        "operationId": about.name,
        "summary": about.summary,
        "tags": [about.tag],
        "responses": {**responses, "default": _response([refusal], schemas)},
    }
    parameters: list[JsonObject] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _VALUE.findall(route.pattern)
    ]
    if route.takes_key:
        parameters.append(_KEY)
    if parameters:
        made["parameters"] = parameters
    if about.body is not None:
        content: JsonObject = {"schema": schemas[id(about.body)]}
        if about.examples:
            content["examples"] = {name: {"value": value} for name, value in about.examples.items()}
        made["requestBody"] = {"required": True, "content": {"application/json": content}}
    return made


def _by_status(responses: Iterable[OperationResponse]) -> list[tuple[OperationResponse, list[OperationResponse]]]:
    """The responses grouped by status, each group with its first one: one status may have bodies of several media types."""
    found: dict[int, list[OperationResponse]] = {}
    for response in responses:
        found.setdefault(response.status, []).append(response)
    return [(same[0], same) for same in found.values()]


def _response(responses: list[OperationResponse], schemas: Mapping[int, JsonObject]) -> JsonObject:
    content = {
        response.media_type: {"schema": schemas[id(response.body)]} if response.body is not None else {}
        for response in responses
        if response.body is not None or response.media_type != "application/json"
    }
    return {"description": responses[0].meaning, **({"content": content} if content else {})}
