"""The worlds that a component may be of, and what the middleware's records are in them.

Ours (`sdk/plugin.wit`) has an interface for each hook, and a component exports those that it wants. The other is `smg:gateway`:
a component always exports both of its hooks, and texts are `list<u8>`. Pure. Above: `running`, `plugin`. Below: `fields`,
`wit`, the records of `middleware`.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import attrs

from smg_core.middleware.base import (
    CONTINUE,
    About,
    AnswerPiece,
    ChangeHead,
    ChangeStored,
    ChangeText,
    Continue,
    End,
    Failure,
    HeadVerdict,
    HookName,
    Reject,
    RequestHead,
    ResponseHead,
    StorageCall,
    StorageVerdict,
    TextVerdict,
)
from smg_core.wasm.fields import (
    fields_of,
    packed_end,
    packed_failure,
    packed_head,
    packed_piece,
    packed_request,
    packed_response,
    packed_response_head,
    packed_storage_call,
    read_action,
    read_configured,
    read_head_verdict,
    read_storage_verdict,
    read_text_verdict,
    read_wanted,
)
from smg_core.wasm.joining import Passes
from smg_core.wasm.wit import enum, list_of, option_of, record, result, variant

__all__ = [
    "CLOCK",
    "HOST",
    "OURS",
    "PASSES",
    "RANDOM",
    "SMG",
    "Function",
    "World",
    "about_value",
    "error_verdict",
    "head_value",
    "head_verdict",
    "interface_hook",
    "storage_value",
    "storage_verdict",
    "text_verdict",
    "world_of",
]

_PACKAGE, _VERSION = "smg-sdk:plugin", "@1.0.0"
HOST, CLOCK, RANDOM = (f"{_PACKAGE}/{name}{_VERSION}" for name in ("host", "clock", "random"))
_TYPES = f"{_PACKAGE}/types{_VERSION}"
_REQUEST_OF_SMG = "smg:gateway/middleware-on-request"
_RESPONSE_OF_SMG = "smg:gateway/middleware-on-response"

_HEADER = record({"name": "string", "value": "string"})
_HEADERS = list_of(_HEADER)
_ABOUT = record({field.name.replace("_", "-"): "string" for field in attrs.fields(About)})
_ORDER = ("request-id", "method", "path", "route", "tenant", "principal", "model")
_REQUEST_HEAD = record({"method": "string", "path": "string", "query": "string", "headers": _HEADERS})
_RESPONSE_HEAD = record({"status": "u16", "headers": _HEADERS})
_REJECTION = record({"status": "u16", "message": "string"})
_CHANGE = record(
    {
        "set": _HEADERS,
        "add": _HEADERS,
        "remove": list_of("string"),
        "status": option_of("u16"),
        "tenant": option_of("string"),
        "principal": option_of("string"),
    }
)
_HEAD_VERDICT = variant({"proceed": None, "change": _CHANGE, "reject": _REJECTION})
_TEXT_VERDICT = variant({"proceed": None, "change": "string", "reject": _REJECTION})
_ERROR_VERDICT = variant({"proceed": None, "reject": _REJECTION})
_PIECE = record(
    {"text": "string", "kind": enum("wire", "text", "reasoning", "arguments"), "choice": "u32", "last": "bool"}
)
_ENDING = record(
    {
        "status": "u16",
        "outcome": "string",
        "seconds": "f64",
        "prompt-tokens": option_of("u64"),
        "cached-tokens": option_of("u64"),
        "completion-tokens": option_of("u64"),
    }
)
_FAILURE = record({"status": "u16", "code": "string", "message": "string"})
_STORAGE_CALL = record(
    {
        "operation": "string",
        "kind": "string",
        "id": "string",
        "tenant": "string",
        "principal": "string",
        "texts": _HEADERS,
    }
)
_STORAGE_VERDICT = variant({"proceed": None, "change": _HEADERS, "reject": _REJECTION})
_OLD_REQUEST = record(
    {
        "method": "string",
        "path": "string",
        "query": "string",
        "headers": _HEADERS,
        "body": "list<u8>",
        "request-id": "string",
        "now-epoch-ms": "u64",
    }
)
_OLD_RESPONSE = record({"status": "u16", "headers": _HEADERS, "body": "list<u8>"})
_OLD_MODIFY = record(
    {
        "status": option_of("u16"),
        "headers-set": _HEADERS,
        "headers-add": _HEADERS,
        "headers-remove": list_of("string"),
        "body-replace": option_of("list<u8>"),
    }
)
_OLD_ACTION = variant({"continue": None, "reject": "u16", "modify": _OLD_MODIFY})


@attrs.frozen
class Function:
    """A function that a component exports: its interface, its name there, and its types; how the adapter's function takes its
    arguments as a text, None for none, and how its answer is read, None where it has none."""

    interface: str
    name: str
    parameters: tuple[str, ...]
    result: str | None
    packed: Callable[[Any], str] | None
    read: Callable[[str], Any] | None

    @property
    def wit(self) -> str:
        """The types, as text to compare."""
        return f"({', '.join(self.parameters)}) -> {self.result or '()'}"

    @property
    def passes(self) -> Passes:
        """What the adapter's function takes and gives."""
        if self.packed is None:
            return "nothing" if self.read is None else "nothing to text"
        return "text to nothing" if self.read is None else "text to text"

    def pack(self, *values: object) -> str:
        """The text of a call."""
        return self.packed(*values) if self.packed is not None else ""


@attrs.frozen
class World:
    """A world: `functions` by the names that the host has for them, and which hooks their interfaces are."""

    name: str
    functions: Mapping[str, Function]
    hooks: Mapping[HookName, str]


def _ours(
    interface: str,
    name: str,
    types: tuple[tuple[str, ...], str | None],
    packed: Callable[[Any], str] | None,
    read: Callable[[str], Any] | None,
) -> Function:
    return Function(f"{_PACKAGE}/{interface}{_VERSION}", name, *types, packed, read)


_WANTED = enum("none", "wire", "text")
OURS = World(
    "smg-sdk:plugin",
    {
        "configure": _ours("setup", "configure", (("string",), result(None, "string")), str, read_configured),
        "begin": _ours("exchange", "begin", ((_ABOUT,), None), fields_of, None),
        "finish": _ours("exchange", "finish", ((), None), None, None),
        "request_head": _ours(
            "request-head", "on-request-head", ((_REQUEST_HEAD,), _HEAD_VERDICT), packed_head, read_head_verdict
        ),
        "request_body": _ours("request-body", "on-request-body", (("string",), _TEXT_VERDICT), str, read_text_verdict),
        "response_head": _ours(
            "response-head",
            "on-response-head",
            ((_RESPONSE_HEAD,), _HEAD_VERDICT),
            packed_response_head,
            read_head_verdict,
        ),
        "wanted": _ours("pieces", "wanted", ((), _WANTED), None, read_wanted),
        "piece": _ours("pieces", "on-piece", ((_PIECE,), _TEXT_VERDICT), packed_piece, read_text_verdict),
        "end": _ours("end", "on-end", ((_ENDING,), "string"), packed_end, str),
        "error": _ours("error", "on-error", ((_FAILURE,), _ERROR_VERDICT), packed_failure, read_text_verdict),
        "store": _ours(
            "storage", "before", ((_STORAGE_CALL,), _STORAGE_VERDICT), packed_storage_call, read_storage_verdict
        ),
        "stored": _ours("storage", "after", ((_STORAGE_CALL,), None), packed_storage_call, None),
    },
    {
        "request_head": "request_head",
        "request_body": "request_body",
        "response_head": "response_head",
        "piece": "piece",
        "end": "end",
        "error": "error",
        "store": "store",
        "stored": "stored",
    },
)
SMG = World(
    "smg:gateway",
    {
        "old_request": Function(
            _REQUEST_OF_SMG, "on-request", (_OLD_REQUEST,), _OLD_ACTION, packed_request, read_action
        ),
        "old_response": Function(
            _RESPONSE_OF_SMG, "on-response", (_OLD_RESPONSE,), _OLD_ACTION, packed_response, read_action
        ),
    },
    {
        "request_head": "old_request",
        "request_body": "old_request",
        "response_head": "old_response",
        "piece": "old_response",
    },
)
PASSES: Mapping[str, Passes] = {name: each.passes for world in (OURS, SMG) for name, each in world.functions.items()}
"""What each function of the adapter passes."""


def world_of(exports: Collection[str]) -> World | None:
    """The world that a component with these exports is of, None for another."""
    names = {name.partition("@")[0] for name in exports}
    if {_REQUEST_OF_SMG, _RESPONSE_OF_SMG} <= names:
        return SMG
    ours = {each.interface for each in OURS.functions.values()}
    return OURS if ours & set(exports) else None


def interface_hook(interface: str) -> str:
    """The short name of an interface, for people: "request-head"."""
    return interface.rpartition("/")[2].partition("@")[0]


# ------------------------------------------------------------------------------------------------------------- records


def about_value(about: About) -> tuple[str, ...]:
    """An `About` as the value of the record `about`."""
    return tuple(getattr(about, name.replace("-", "_")) for name in _ORDER)


def head_value(head: RequestHead | ResponseHead) -> tuple[Any, ...]:
    """A head as the value of its record."""
    if isinstance(head, RequestHead):
        return head.method, head.path, head.query, head.headers
    return head.status, head.headers


def piece_value(piece: AnswerPiece) -> tuple[Any, ...]:
    """A piece as the value of its record."""
    return piece.text, piece.kind, piece.choice, piece.last


def end_value(end: End) -> tuple[Any, ...]:
    """An end as the value of the record `ending`."""
    return end.status, end.outcome, end.seconds, end.prompt_tokens, end.cached_tokens, end.completion_tokens


def failure_value(failure: Failure) -> tuple[Any, ...]:
    """A failure as the value of its record."""
    return failure.status, failure.code, failure.message


def head_verdict(value: tuple[str, Any]) -> HeadVerdict:
    """The verdict of a `head-verdict`."""
    case, payload = value
    if case == "change":
        return ChangeHead(*payload)
    return CONTINUE if case == "proceed" else Reject(*payload)


def text_verdict(value: tuple[str, Any]) -> TextVerdict:
    """The verdict of a `text-verdict`."""
    case, payload = value
    if case == "change":
        return ChangeText(payload)
    return CONTINUE if case == "proceed" else Reject(*payload)


def storage_value(call: StorageCall) -> tuple[Any, ...]:
    """A call of the store as the value of its record."""
    return call.operation, call.kind, call.id, call.tenant, call.principal, call.texts


def storage_verdict(value: tuple[str, Any]) -> StorageVerdict:
    """The verdict of a `storage-verdict`."""
    case, payload = value
    if case == "change":
        return ChangeStored(payload)
    return CONTINUE if case == "proceed" else Reject(*payload)


def error_verdict(value: tuple[str, Any]) -> Continue | Reject:
    """The verdict of an `error-verdict`."""
    case, payload = value
    return CONTINUE if case == "proceed" else Reject(*payload)


# ---------------------------------------------------------------------------------------------------- the other world


def old_verdict(value: tuple[str, Any], *, may_have_status: bool) -> tuple[HeadVerdict, TextVerdict]:
    """What an `action` of smg:gateway means for a head and for a body."""
    case, payload = value
    if case == "reject":
        return Reject(payload), Reject(payload)
    if case == "continue":
        return CONTINUE, CONTINUE
    status, to_set, to_add, remove, body = payload
    head: HeadVerdict = CONTINUE
    if to_set or to_add or remove or (status is not None and may_have_status):
        head = ChangeHead(to_set, to_add, remove, status if may_have_status else None)
    return head, CONTINUE if body is None else ChangeText(body)
