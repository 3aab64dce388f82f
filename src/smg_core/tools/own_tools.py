"""The built-in tools that are no tool of a server, as tools of the gateway's own MCP server: code, files, pictures (edge).

Decides their names, arguments and results; who may use them is decided by `built_ins`, by the permissions of the APIs' tools.
Searches of the web and pages are tools of servers, and are offered as those. Above: `offered`. Below: `built_ins`.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from smg_core.built_in import BuiltIn
from smg_core.errors import InvalidRequest, SmgError
from smg_core.json_types import Json, JsonObject
from smg_core.pipeline.tools.built_in import CODE, IMAGE, built_in_fault, built_in_functions
from smg_core.pipeline.tools.hosted import HostedCall, ToolAnswer, ToolServer
from smg_core.request import Caller, Text
from smg_core.sources import CitableSource, between_marks
from smg_core.tools.built_ins import BuiltIns
from smg_core.tools.file_search import FILE_SEARCH
from smg_core.wire.json_text import encode_object
from smg_mcp.catalogue.results import error_outcome
from smg_mcp.records.base import McpTool, ToolHints, ToolImage, ToolOutcome, ToolPart, ToolText

__all__ = ["OwnTools"]

_KINDS: Mapping[str, Any] = {CODE: "code", FILE_SEARCH: "file_search", IMAGE: "image"}
"""By the name of a tool, its kind, which is also the server that its calls are counted under."""
_STORES, _RESULTS = 20, 50  # stores that one search may name, and results that it may ask for
_SESSIONS = 4096  # of which the last container is known
_STORES_OF: JsonObject = {
    "type": "array",
    "items": {"type": "string"},
    "minItems": 1,
    "maxItems": _STORES,
    "description": "The ids of the vector stores to search.",
}
_RESULTS_OF: JsonObject = {"type": "integer", "minimum": 1, "maximum": _RESULTS}
_CONTAINER_OF: JsonObject = {
    "type": "string",
    "description": "The container of an earlier call, to go on in it: name it, or a new one may be made.",
}
_HINTS: Mapping[str, ToolHints] = {
    CODE: ToolHints(read_only=False, destructive=False, idempotent=False, open_world=False),
    FILE_SEARCH: ToolHints(read_only=True, destructive=False, idempotent=True, open_world=False),
    IMAGE: ToolHints(read_only=False, destructive=False, idempotent=False, open_world=False),
}


class OwnTools:
    """The built-in tools of one gateway, for clients that speak the Model Context Protocol."""

    def __init__(self, built_ins: BuiltIns) -> None:
        self._built_ins = built_ins
        self._of_sessions: OrderedDict[str, str] = OrderedDict()

    def offered(self, caller: Caller) -> Sequence[McpTool]:
        """Those that the caller may use."""
        kinds = self._built_ins.own_kinds(caller)
        return [_described(name) for name, kind in _KINDS.items() if kind in kinds]

    async def call(
        self, name: str, arguments: Mapping[str, Any], caller: Caller, request_id: str, session: str = ""
    ) -> ToolOutcome:
        """Run one call; whatever it fails with is its outcome. Code that names no container goes on in its session's last."""
        given: JsonObject = dict(arguments)
        try:
            asked = msgspec.structs.replace(_asked(name, given), earlier=self._of_sessions.get(session, ""))
            fault = built_in_fault(asked, name, encode_object(given).decode(), 0, ())
            if fault is not None:
                return error_outcome(fault[0])
            call = HostedCall(request_id, ToolServer(_KINDS[name], built_in=asked), name, "")
            answer = await self._built_ins.call(call, asked, given, caller, _no_server, request_id, _unheard)
        except SmgError as error:
            return error_outcome(error.message)
        outcome = _outcome(name, answer)
        container = (outcome.structured or {}).get("container")
        if name == CODE and session and isinstance(container, str):
            self._of_sessions[session] = container
            self._of_sessions.move_to_end(session)
            if len(self._of_sessions) > _SESSIONS:
                self._of_sessions.popitem(last=False)
        return outcome


def _described(name: str) -> McpTool:
    """The tool as models of the gateway are offered it, and what only a client of this protocol has to say."""
    [function] = built_in_functions(BuiltIn(_KINDS[name], action="generate"))
    schema: dict[str, Any] = msgspec.to_builtins(function.schema)
    if name == CODE:
        schema["properties"]["container"] = _CONTAINER_OF
    elif name == FILE_SEARCH:
        schema["properties"] |= {"vector_store_ids": _STORES_OF, "max_num_results": _RESULTS_OF}
        schema["required"].append("vector_store_ids")
    return McpTool(name, _KINDS[name], name, function.description or "", schema, hints=_HINTS[name])


def _asked(name: str, given: Mapping[str, Json]) -> BuiltIn:
    """What is asked. Raises InvalidRequest for arguments of the wrong kind."""
    if name == CODE:
        container = given.get("container", "")
        if not isinstance(container, str):
            raise InvalidRequest("The argument 'container' has to be a text.")
        return BuiltIn("code", container=container)
    if name == IMAGE:
        return BuiltIn("image", action="generate")
    stores, most = given.get("vector_store_ids"), given.get("max_num_results")
    if not isinstance(stores, list) or not 1 <= len(stores) <= _STORES or not all(isinstance(s, str) for s in stores):
        raise InvalidRequest(f"The argument 'vector_store_ids' has to be a list of 1 to {_STORES} texts.")
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= _RESULTS):
        raise InvalidRequest(f"The argument 'max_num_results' has to be a whole number from 1 to {_RESULTS}.")
    return BuiltIn("file_search", stores=tuple(map(str, stores)), results=most)


def _outcome(name: str, answer: ToolAnswer) -> ToolOutcome:
    text = "\n".join(part.text for part in answer.content if isinstance(part, Text))
    structured: Mapping[str, Any] = answer.structured if isinstance(answer.structured, Mapping) else {}
    if answer.is_error and not structured:
        return error_outcome(text)
    if name == FILE_SEARCH:
        return _found(answer.sources, text)
    if name == CODE:
        result = f"{text}\n[container: {structured.get('container')}]"
        return ToolOutcome((ToolText(result),), structured, answer.is_error)
    picture = structured.get("result")
    data = bytes(picture).decode().strip('"') if isinstance(picture, msgspec.Raw) else str(picture)
    facts = {key: value for key, value in structured.items() if key != "result"}
    parts: tuple[ToolPart, ...] = (ToolText(text), ToolImage(data, f"image/{facts.get('output_format') or 'png'}"))
    return ToolOutcome(parts, facts)


def _found(sources: Sequence[CitableSource], nothing: str) -> ToolOutcome:
    results: list[Json] = [
        {
            "file_id": each.id,
            "filename": each.title,
            "vector_store_id": each.store,
            "score": each.score,
            "attributes": dict(each.attributes or {}),
            "text": each.text,
        }
        for each in sources
    ]
    quoted = between_marks(
        "\n\n".join(f"{each.title} ({each.id})\n{each.text}" for each in sources), "the user's files"
    )
    return ToolOutcome((ToolText(quoted if sources else nothing),), {"results": results})


async def _no_server(server: str, tool: str, arguments: JsonObject) -> ToolOutcome:
    """These tools ask no server."""
    raise InvalidRequest("This tool is one of a server.")


def _unheard(payload: JsonObject) -> None:
    """Nobody is told of progress."""
