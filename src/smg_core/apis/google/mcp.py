"""Servers of tools in Google's APIs: what a request says of them, and how the calls of their tools are told and brought back.

Interactions has servers of tools among its tools, and two steps for each call. generateContent has `mcpServers` in a tool; it has
no words for calls of their tools, so they are in the parts for tools that servers run (`toolCall`, `toolResponse`), with server
and name among the arguments. Neither API has approvals: a tool that needs one is not run. A server without an address is the
operator's of that name.

Pure. Above: the readers and encoders of both APIs. Below: the wire types, request.
"""

from collections.abc import Sequence

import msgspec

from smg_core.apis.google.mcp_types import GeminiMcpServer, InteractionMcpServer
from smg_core.apis.google.proto_json import proto_value
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.events import HostedEnd, HostedStart
from smg_core.json_types import Json, JsonObject
from smg_core.request import HostedTool, Text, ToolCall, ToolResult
from smg_core.tool_names import flat_name
from smg_core.wire.decoding import brief
from smg_core.wire.json_text import encode_object

__all__ = [
    "MCP",
    "call_part",
    "call_step",
    "hidden_headers",
    "interaction_server",
    "repeated_call",
    "repeated_result",
    "response_part",
    "result_step",
    "server_of_tools",
]

MCP = "mcp"
"""The kind of tools that run here."""
_NO_TYPE = "TOOL_TYPE_UNSPECIFIED"


# ------------------------------------------------------------------------------------------------------------- the request


def interaction_server(tool: JsonObject, at: str, taken: Sequence[HostedTool]) -> HostedTool:
    """The tool of type `mcp_server` that stands at `at`, behind the servers `taken`. Raises InvalidRequest and
    UnsupportedParameter."""
    server = proto_value(tool, InteractionMcpServer, at)
    names: list[Json] = []
    bounded = False
    for order, allowed in enumerate(server.allowed_tools or ()):
        if allowed.mode == "any":
            raise UnsupportedParameter(
                f"Invalid value at '{at}.allowed_tools[{order}].mode': a call is demanded by generation_config.tool_choice.",
                param=f"{at}.allowed_tools[{order}].mode",
            )
        bounded = bounded or allowed.mode == "none" or allowed.tools is not None
        names += [] if allowed.mode == "none" else allowed.tools or []
    return _server(server.name, server.url, server.headers, {"names": names} if bounded else None, at, taken)


def server_of_tools(found: JsonObject, at: str, taken: Sequence[HostedTool]) -> HostedTool:
    """The entry of `mcpServers` that stands at `at`, behind the servers `taken`. Raises InvalidRequest and
    UnsupportedParameter."""
    server = proto_value(found, GeminiMcpServer, at)
    transport = server.streamable_http_transport
    if transport is None:
        return _server(server.name, None, None, None, at, taken)
    for name in ("timeout", "sse_read_timeout", "terminate_on_close"):
        if getattr(transport, name) is not None:
            wire = transport.__struct_encode_fields__[transport.__struct_fields__.index(name)]
            place = f"{at}.streamableHttpTransport.{wire}"
            raise UnsupportedParameter(f"Invalid value at '{place}': it is not supported on this server.", param=place)
    return _server(server.name, transport.url, transport.headers, None, at, taken)


def _server(
    name: str | None,
    url: str | None,
    headers: dict[str, str] | None,
    allowed: JsonObject | None,
    at: str,
    taken: Sequence[HostedTool],
) -> HostedTool:
    if not name and url is None:
        raise InvalidRequest(f"{at}.name: the field is required for a server without a url", param=f"{at}.name")
    label = name or f"server{len(taken)}"
    if any(each.config["label"] == label for each in taken):
        raise InvalidRequest(
            f"Invalid value at '{at}.name': two servers are named \"{brief(label)}\".", param=f"{at}.name"
        )
    config: dict[str, Json] = {"label": label, "url": url, "approval": "never", "allowed": allowed}
    if headers:
        config["headers"] = dict(headers)
    return HostedTool(MCP, config)


def hidden_headers(tools: Json) -> Json:
    """The tools of an interaction without the headers of servers, which may be credentials: they are never told again."""
    if not isinstance(tools, list):
        return tools
    return [
        {name: value for name, value in tool.items() if name != "headers"}
        if isinstance(tool, dict) and tool.get("type") == "mcp_server"
        else tool
        for tool in tools
    ]


def repeated_call(call_id: str, server: str, name: str, arguments: Json) -> ToolCall:
    """A call that an earlier answer told, as it is in the prompt."""
    return ToolCall(call_id, flat_name(server, name), encode_object(arguments or {}).decode())


def repeated_result(call: ToolCall, result: Json, *, failed: bool) -> ToolResult:
    """Its result as it is in the prompt."""
    text = result if isinstance(result, str) else _texts(result)
    return ToolResult(call.id, (Text(text),), failed)


def _texts(result: Json) -> str:
    """The texts of a result that is a list of contents; any other as JSON text."""
    if isinstance(result, list):
        found = [each.get("text") for each in result if isinstance(each, dict)]
        texts = [each for each in found if isinstance(each, str)]
        if len(texts) == len(result):
            return "\n".join(texts)
    return msgspec.json.encode(result).decode()


# -------------------------------------------------------------------------------------------------------------- the answer


def call_step(event: HostedStart, call_id: str) -> JsonObject:
    """The step of a call that begins with `event`."""
    payload = _object(event.payload)
    return {
        "type": "mcp_server_tool_call",
        "id": call_id,
        "name": payload.get("name"),
        "server_name": payload.get("server"),
        "arguments": _arguments(payload.get("arguments")),
    }


def result_step(event: HostedEnd, call: JsonObject) -> JsonObject:
    """The step of the result of the call whose step is `call`."""
    step: JsonObject = {
        "type": "mcp_server_tool_result",
        "call_id": call["id"],
        "name": call["name"],
        "server_name": call["server_name"],
        "result": _object(event.payload).get("text") or "",
    }
    return {**step, "is_error": True} if event.failed else step


def call_part(event: HostedStart) -> JsonObject:
    """The part of a call that begins with `event`."""
    payload = _object(event.payload)
    arguments: JsonObject = {
        "serverName": payload.get("server"),
        "name": payload.get("name"),
        "arguments": _arguments(payload.get("arguments")),
    }
    return {"toolCall": {"id": event.id, "toolType": _NO_TYPE, "args": arguments}}


def response_part(event: HostedEnd, call_id: str) -> JsonObject:
    """The part of the result of the call `call_id`."""
    text = _object(event.payload).get("text") or ""
    response: JsonObject = {"error" if event.failed else "output": text}
    return {"toolResponse": {"id": call_id, "toolType": _NO_TYPE, "response": response}}


def _arguments(text: Json) -> JsonObject:
    """The arguments as an object; what is none stands under a name that says so."""
    try:
        found: object = msgspec.json.decode(str(text or "{}"))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        found = None
    return found if type(found) is dict else {"INVALID_JSON": text}


def _object(payload: bytes) -> dict[str, Json]:
    return msgspec.json.decode(payload, type=dict[str, Json]) if payload else {}
