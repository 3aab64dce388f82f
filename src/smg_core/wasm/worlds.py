"""The worlds that a component may be of, and what the middleware's records are in them.

Ours (`sdk/plugin.wit`) has an interface for each hook, and a component exports those that it wants. The other is `smg:gateway`:
a component always exports both of its hooks, and texts are `list<u8>`. Pure. Above: `running`, `plugin`. Below: `values`,
the records of `middleware`.
"""

from collections.abc import Mapping
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
    MiddlewareFault,
    Reject,
    RequestHead,
    ResponseHead,
    StorageCall,
    StorageVerdict,
    TextVerdict,
)
from smg_core.wasm.bounds import AnswerKind
from smg_core.wasm.values import (
    BOOL,
    BYTES,
    F64,
    STRING,
    U16,
    U32,
    U64,
    Enum,
    List,
    Option,
    Record,
    Result,
    Type,
    Variant,
)

__all__ = [
    "CLOCK",
    "HOST",
    "OURS",
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

_HEADER = Record({"name": STRING, "value": STRING})
_HEADERS = List(_HEADER)
_ABOUT = Record({field.name.replace("_", "-"): STRING for field in attrs.fields(About)})
_ORDER = ("request-id", "method", "path", "route", "tenant", "principal", "model")
_REQUEST_HEAD = Record({"method": STRING, "path": STRING, "query": STRING, "headers": _HEADERS})
_RESPONSE_HEAD = Record({"status": U16, "headers": _HEADERS})
_REJECTION = Record({"status": U16, "message": STRING})
_CHANGE = Record(
    {
        "set": _HEADERS,
        "add": _HEADERS,
        "remove": List(STRING),
        "status": Option(U16),
        "tenant": Option(STRING),
        "principal": Option(STRING),
    }
)
_HEAD_VERDICT = Variant({"proceed": None, "change": _CHANGE, "reject": _REJECTION})
_TEXT_VERDICT = Variant({"proceed": None, "change": STRING, "reject": _REJECTION})
_ERROR_VERDICT = Variant({"proceed": None, "reject": _REJECTION})
_PIECE = Record({"text": STRING, "kind": Enum("wire", "text", "reasoning", "arguments"), "choice": U32, "last": BOOL})
_ENDING = Record(
    {
        "status": U16,
        "outcome": STRING,
        "seconds": F64,
        "prompt-tokens": Option(U64),
        "cached-tokens": Option(U64),
        "completion-tokens": Option(U64),
    }
)
_FAILURE = Record({"status": U16, "code": STRING, "message": STRING})
_STORAGE_CALL = Record(
    {
        "operation": STRING,
        "kind": STRING,
        "id": STRING,
        "tenant": STRING,
        "principal": STRING,
        "texts": _HEADERS,
    }
)
_STORAGE_VERDICT = Variant({"proceed": None, "change": _HEADERS, "reject": _REJECTION})
_OLD_REQUEST = Record(
    {
        "method": STRING,
        "path": STRING,
        "query": STRING,
        "headers": _HEADERS,
        "body": BYTES,
        "request-id": STRING,
        "now-epoch-ms": U64,
    }
)
_OLD_RESPONSE = Record({"status": U16, "headers": _HEADERS, "body": BYTES})
_OLD_MODIFY = Record(
    {
        "status": Option(U16),
        "headers-set": _HEADERS,
        "headers-add": _HEADERS,
        "headers-remove": List(STRING),
        "body-replace": Option(BYTES),
    }
)
_OLD_ACTION = Variant({"continue": None, "reject": U16, "modify": _OLD_MODIFY})


@attrs.frozen
class Function:
    """A function that a component exports: its interface, its name there, its types, and what bounds its answer."""

    interface: str
    name: str
    parameters: tuple[Type, ...]
    result: Type | None
    answers: AnswerKind = "head"

    @property
    def wit(self) -> str:
        """The types, as text to compare."""
        return f"({', '.join(each.wit for each in self.parameters)}) -> {self.result.wit if self.result else '()'}"


@attrs.frozen
class World:
    """A world: `functions` by the names that the host has for them, and which hooks their interfaces are."""

    name: str
    functions: Mapping[str, Function]
    hooks: Mapping[HookName, str]


def _ours(
    interface: str, name: str, parameters: tuple[Type, ...], result: Type | None, answers: AnswerKind = "head"
) -> Function:
    return Function(f"{_PACKAGE}/{interface}{_VERSION}", name, parameters, result, answers)


OURS = World(
    "smg-sdk:plugin",
    {
        "configure": _ours("setup", "configure", (STRING,), Result(None, STRING)),
        "begin": _ours("exchange", "begin", (_ABOUT,), None),
        "finish": _ours("exchange", "finish", (), None),
        "request_head": _ours("request-head", "on-request-head", (_REQUEST_HEAD,), _HEAD_VERDICT),
        "request_body": _ours("request-body", "on-request-body", (STRING,), _TEXT_VERDICT, "body"),
        "response_head": _ours("response-head", "on-response-head", (_RESPONSE_HEAD,), _HEAD_VERDICT),
        "wanted": _ours("pieces", "wanted", (), Enum("none", "wire", "text")),
        "piece": _ours("pieces", "on-piece", (_PIECE,), _TEXT_VERDICT, "piece"),
        "end": _ours("end", "on-end", (_ENDING,), STRING, "piece"),
        "error": _ours("error", "on-error", (_FAILURE,), _ERROR_VERDICT),
        "store": _ours("storage", "before", (_STORAGE_CALL,), _STORAGE_VERDICT, "body"),
        "stored": _ours("storage", "after", (_STORAGE_CALL,), None),
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
        "old_request": Function(_REQUEST_OF_SMG, "on-request", (_OLD_REQUEST,), _OLD_ACTION, "body"),
        "old_response": Function(_RESPONSE_OF_SMG, "on-response", (_OLD_RESPONSE,), _OLD_ACTION, "body"),
    },
    {
        "request_head": "old_request",
        "request_body": "old_request",
        "response_head": "old_response",
        "piece": "old_response",
    },
)


def world_of(exports: Mapping[str, object]) -> World | None:
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
    """What an `action` of smg:gateway means for a head and for a body. Raises MiddlewareFault for a body that is no UTF-8."""
    case, payload = value
    if case == "reject":
        return Reject(payload), Reject(payload)
    if case == "continue":
        return CONTINUE, CONTINUE
    status, to_set, to_add, remove, body = payload
    head: HeadVerdict = CONTINUE
    if to_set or to_add or remove or (status is not None and may_have_status):
        head = ChangeHead(to_set, to_add, remove, status if may_have_status else None)
    if body is None:
        return head, CONTINUE
    try:
        return head, ChangeText(body.decode())
    except UnicodeDecodeError:
        raise MiddlewareFault("gave a body that is no UTF-8") from None
