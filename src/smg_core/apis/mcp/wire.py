"""JSON-RPC as the Model Context Protocol has it over HTTP: messages, errors, and what each version of the protocol asks for.

Versions up to 2025-11-25 begin with a handshake (`initialize`) and may have a session; 2026-07-28 has neither: each request says
itself which version it is of, and its headers repeat its method and what it names. Pure. Above: `routes`, `answers`.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from smg_core.errors import SmgError
from smg_core.json_types import Json, JsonObject
from smg_core.wire.base import Locate
from smg_core.wire.json_text import encode_object

__all__ = [
    "CANCELLED",
    "HANDSHAKES",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "MCP_PATH",
    "METHOD_NOT_FOUND",
    "MODERN",
    "McpMessage",
    "RpcError",
    "check_modern",
    "list_page",
    "mcp_error",
    "messages_of",
    "notification",
    "response",
    "rpc_error_of",
    "rpc_failure",
]

MCP_PATH: Final = "/mcp"
HANDSHAKES: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Versions that begin with a handshake, oldest first."""
MODERN: Final = "2026-07-28"
"""The version without a handshake and without sessions."""
_BATCHES: Final = ("2024-11-05", "2025-03-26")  # the versions in which one body may have several messages

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
CANCELLED = -32800
_HEADERS_DIFFER, _UNSUPPORTED_VERSION, _NOT_FOUND = -32020, -32022, -32002
_STATUS: Final = {
    **dict.fromkeys((PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, _HEADERS_DIFFER, _UNSUPPORTED_VERSION), 400),
    METHOD_NOT_FOUND: 404,
}
_META: Final = "io.modelcontextprotocol/"
_NAMES: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""By method: the parameter that the header Mcp-Name repeats."""
_LONGEST_QUOTE = 100  # characters of a client's text that an answer repeats


class RpcError(Exception):
    """An error that answers one message: a code of JSON-RPC, and the status where it answers the only one of a version without a
    handshake."""

    def __init__(self, code: int, message: str, data: Json = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    @property
    def status(self) -> int:
        return _STATUS.get(self.code, 200)


class McpMessage(Struct, frozen=True):
    """One message of a client: a request with an `id`, a notification without one, or (`method` "") an answer to a request."""

    method: str
    params: Mapping[str, Any]
    id: int | str | None = None
    modern: bool = False

    @property
    def wants_answer(self) -> bool:
        return self.id is not None

    @property
    def progress_token(self) -> int | str | None:
        """The token under which the client wants to be told how far its request is."""
        meta = self.params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, Mapping) else None
        return token if isinstance(token, str) or (isinstance(token, int) and not isinstance(token, bool)) else None

    def text(self, name: str) -> str:
        """A parameter that is a text. Raises RpcError."""
        value = self.params.get(name)
        if not isinstance(value, str) or not value:
            raise RpcError(INVALID_PARAMS, f"params.{name}: a text is expected")
        return value

    def mapping(self, name: str) -> Mapping[str, Any]:
        """A parameter that is an object, an empty one where it is left out. Raises RpcError."""
        value = self.params.get(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise RpcError(INVALID_PARAMS, f"params.{name}: an object is expected")
        return value


def messages_of(body: bytes, version: str | None, most: int) -> tuple[list[McpMessage], bool]:
    """The messages of a body, at most `most`, and whether they are a batch. `version` is the one that the header says, None where
    it says none. Raises RpcError."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RpcError(PARSE_ERROR, f"the body is no JSON: {str(error)[:_LONGEST_QUOTE]}") from error
    if not isinstance(found, list):
        return [_message(found, version)], False
    if version is not None and version not in _BATCHES:
        raise RpcError(INVALID_REQUEST, f"a body has one message in the version {version[:_LONGEST_QUOTE]}")
    if not 1 <= len(found) <= most:
        raise RpcError(INVALID_REQUEST, f"a batch has 1 to {most} messages")
    return [_message(each, version) for each in found], True


def _message(found: Any, version: str | None) -> McpMessage:
    if not isinstance(found, dict) or found.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, 'a message is an object with "jsonrpc": "2.0"')
    id, params = found.get("id"), found.get("params")
    if "id" in found and (isinstance(id, bool) or not isinstance(id, int | str)):
        raise RpcError(INVALID_REQUEST, "the id of a request is a text or a whole number")
    if "method" not in found and ("result" in found or "error" in found):
        return McpMessage("", {}, None)
    if not isinstance(found.get("method"), str) or not found["method"]:
        raise RpcError(INVALID_REQUEST, "a message has a method, which is a text")
    if params is not None and not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "the params are an object")
    modern = version is not None and version not in HANDSHAKES
    return McpMessage(found["method"], params or {}, id, modern)


def check_modern(message: McpMessage, headers: Mapping[str, str]) -> None:
    """Check what a request of a version without a handshake says of itself. Raises RpcError for what is missing, for headers that
    say something else than the body, and for a version that is not spoken here."""
    meta = message.params.get("_meta")
    version = headers.get("mcp-protocol-version", "")
    if version != MODERN:
        data: Json = {"supported": [MODERN, *reversed(HANDSHAKES)], "requested": version[:_LONGEST_QUOTE]}
        raise RpcError(_UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    if message.wants_answer:
        if not isinstance(meta, Mapping):
            raise RpcError(INVALID_PARAMS, "params._meta: an object is expected")
        for key in ("protocolVersion", "clientCapabilities"):
            if _META + key not in meta:
                raise RpcError(INVALID_PARAMS, f"params._meta: the key '{_META}{key}' is missing")
        if meta[_META + "protocolVersion"] != version:
            raise RpcError(_HEADERS_DIFFER, "the header MCP-Protocol-Version is not that of the request's _meta")
        if headers.get("mcp-method") != message.method:
            raise RpcError(_HEADERS_DIFFER, "the header Mcp-Method is not the request's method")
        named = message.params.get(_NAMES.get(message.method, ""))
        if named is not None and _plain(headers.get("mcp-name")) != named:
            raise RpcError(_HEADERS_DIFFER, "the header Mcp-Name is not what the request names")


def _plain(value: str | None) -> str | None:
    """The value of a header, which may be in base64 where it could not be sent as it is."""
    if value is None or not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[len("=?base64?") : -2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def list_page(message: McpMessage, found: int, size: int) -> tuple[int, int | None]:
    """Where the page begins that a request for a list of `found` entries asks for, and where the next one does (None: there is
    none). Raises RpcError for a cursor that is none of ours."""
    cursor = message.params.get("cursor")
    if cursor is None:
        begin = 0
    elif isinstance(cursor, str) and cursor.isascii() and cursor.isdecimal() and len(cursor) < 10:
        begin = int(cursor)
    else:
        raise RpcError(INVALID_PARAMS, "params.cursor: this cursor is not one of this server")
    return begin, begin + size if begin + size < found else None


# ------------------------------------------------------------------------------------------------------------------- answers


def response(message: McpMessage, result: JsonObject) -> JsonObject:
    """The answer to a request."""
    answer = {**result, "resultType": "complete"} if message.modern else result
    return {"jsonrpc": "2.0", "id": message.id, "result": answer}


def rpc_failure(id: int | str | None, error: RpcError) -> JsonObject:
    """The answer to a request that fails."""
    fields: JsonObject = {"code": error.code, "message": error.message}
    if error.data is not None:
        fields["data"] = error.data
    return {"jsonrpc": "2.0", "id": id, "error": fields}


def notification(method: str, params: JsonObject) -> JsonObject:
    """A message that wants no answer."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def rpc_error_of(error: SmgError) -> RpcError:
    """What an error of the gateway is in the protocol."""
    code = {400: INVALID_PARAMS, 404: _NOT_FOUND}.get(
        error.status, INTERNAL if error.status >= 500 else INVALID_REQUEST
    )
    data: JsonObject = {"type": error.openai_type, "code": error.code, "status": error.status}
    if error.retry_after is not None:
        data["retryAfter"] = error.retry_after
    return RpcError(code, error.message, data)


def mcp_error(error: SmgError, request_id: str = "", locate: Locate | None = None) -> bytes:
    """The envelope of errors that no message is to blame for: one without an id."""
    return encode_object(rpc_failure(None, rpc_error_of(error)))
