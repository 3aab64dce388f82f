"""The items, tools and stream events of the Responses API for tools that run here (MCP).

A server of tools becomes a `HostedTool`; what it is told of becomes items: `mcp_list_tools`, `mcp_call`,
`mcp_approval_request`. Where the API leaves it open: a server that the request does not name by an address is one of the
operator's, of that label; without `require_approval` every call has to be approved. Pure. Above: responses_tools, the encoder.
Below: the wire types, request, events.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from smg_core.apis.responses.wire import types as wire
from smg_core.apis.responses.wire.built_in import closed_call, opened_call
from smg_core.events import HostedEnd, HostedProgress, HostedStart
from smg_core.json_types import Json, JsonObject
from smg_core.request import HostedTool
from smg_core.wire.decoding import explained
from smg_core.wire.mcp_types import hosted_server

__all__ = [
    "CLOSES",
    "HIDDEN",
    "OPENS",
    "WITHOUT_STATUS",
    "arguments_of",
    "call_result",
    "closed_item",
    "hosted_item",
    "progress_of",
    "read_server",
    "written_of",
]

HIDDEN = ("authorization", "headers")
"""Fields of a server of tools that are never told again, nor kept with the response."""


def read_server(tool: JsonObject, at: str) -> HostedTool:
    """The server of tools that stands at `at`. Raises InvalidRequest and UnsupportedParameter."""
    return hosted_server(explained(tool, wire.McpServerTool, at), at)


# -------------------------------------------------------------------------------------------------------------- the encoder

_SEARCHES = ("web_search", "file_search")
_BUILT_IN = (*_SEARCHES, "code", "image")
OPENS: Mapping[str, Sequence[str]] = {
    "mcp_call": ("response.mcp_call.in_progress",),
    "mcp_list_tools": ("response.mcp_list_tools.in_progress",),
    "mcp_approval_request": (),
    "web_search_call": ("response.web_search_call.in_progress",),
    "file_search_call": ("response.file_search_call.in_progress",),
    "code_interpreter_call": ("response.code_interpreter_call.in_progress",),
    "image_generation_call": ("response.image_generation_call.in_progress",),
}
"""The events behind `output_item.added`, by the type of the item."""
CLOSES: Mapping[tuple[str, bool], Sequence[str]] = {
    ("mcp_call", False): ("response.mcp_call.completed",),
    ("mcp_call", True): ("response.mcp_call.failed",),
    ("mcp_list_tools", False): ("response.mcp_list_tools.completed",),
    ("mcp_list_tools", True): ("response.mcp_list_tools.failed",),
    **{
        (f"{kind}_call", False): (f"response.{kind}_call.completed",)
        for kind in (*_SEARCHES, "code_interpreter", "image_generation")
    },
}
"""The events before `output_item.done`, by the type of the item and whether it failed."""
WITHOUT_STATUS = frozenset({"mcp_list_tools", "mcp_approval_request"})
"""Items that have no status."""
_PREFIXES: Mapping[str, str] = {"mcp_call": "mcp_", "mcp_list_tools": "mcpl_", "mcp_approval_request": "mcpr_"}


def hosted_item(event: HostedStart) -> tuple[str, JsonObject] | None:
    """The prefix of the id and the fields of the item that begins with `event`; None for one that the API does not have."""
    if event.kind in _BUILT_IN:
        return opened_call(event)
    kind = "mcp_call" if event.kind == "mcp" else event.kind
    if kind not in OPENS:
        return None
    payload = _object(event.payload)
    item: JsonObject = {"type": kind, "server_label": payload.get("server")}
    if kind == "mcp_list_tools":
        return _PREFIXES[kind], {**item, "tools": [], "error": None}
    item["name"] = payload.get("name")
    if kind == "mcp_approval_request":
        return _PREFIXES[kind], {**item, "arguments": payload.get("arguments")}
    more: JsonObject = {
        "arguments": "",
        "output": None,
        "error": None,
        "approval_request_id": payload.get("approval"),
    }
    return _PREFIXES[kind], {**item, **more}


def arguments_of(event: HostedStart) -> str | None:
    """The arguments of the call that begins with `event`; None where it begins something else."""
    return str(_object(event.payload).get("arguments") or "{}") if event.kind == "mcp" else None


def written_of(event: HostedStart) -> tuple[str, str, str] | None:
    """What the model has written of the call that begins with `event`, as the API tells it: the item's field, the beginning of
    its events' names, the text; None where it tells nothing."""
    if (arguments := arguments_of(event)) is not None:
        return "arguments", "response.mcp_call_arguments", arguments
    action = _object(event.payload).get("action")
    if event.kind == "code" and isinstance(action, dict):
        return "code", "response.code_interpreter_call_code", str(action.get("code") or "")
    return None


def progress_of(event: HostedProgress) -> JsonObject:
    """What a tool has told of its progress, as fields of the event."""
    return _object(event.payload)


def closed_item(item: JsonObject, event: HostedEnd, include: frozenset[str] = frozenset()) -> JsonObject:
    """What the end of a block adds to its item; `include` has the parts that the client asks for."""
    if item["type"] in ("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call"):
        return closed_call(item, event, include)
    payload = _object(event.payload)
    if item["type"] == "mcp_list_tools":
        faults = {name: payload[name] for name in ("left_out", "unconstrained") if payload.get(name)}
        return {"tools": payload.get("tools") or [], **faults}
    if item["type"] != "mcp_call":
        return {}
    text = str(payload.get("text") or "")
    if event.failed:
        content: list[Json] = [part for part in _parts(payload.get("content")) if part.get("type") == "text"]
        return {"error": {"type": "mcp_tool_execution_error", "content": content}, "status": "failed"}
    return {"output": text, "status": "completed"}


def _parts(content: Json) -> Iterable[JsonObject]:
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _object(payload: bytes) -> JsonObject:
    return msgspec.json.decode(payload, type=dict[str, Json]) if payload else {}


def call_result(item: wire.McpCall) -> tuple[str, bool]:
    """What the prompt says that a call in the history has returned, and whether that is an error."""
    if item.error is not None:
        return _error_text(item.error), True
    if item.output is None:
        return "This call has no result: it was interrupted.", True
    return item.output, False


def _error_text(error: Json) -> str:
    if isinstance(error, str):
        return error
    if isinstance(error, dict):
        texts = [str(part.get("text") or "") for part in _parts(error.get("content"))]
        if texts:
            return "\n".join(texts)
        if isinstance(error.get("message"), str):
            return str(error["message"])
    return msgspec.json.encode(error).decode()
