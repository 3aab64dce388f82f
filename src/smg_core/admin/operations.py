"""The input and output of each route of the admin door, for its `/admin/openapi.json`. Above: the routes. Pure."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from smg_core.routing import RoutingDecision
from smg_core.wire.operation import Operation, OperationResponse

__all__ = [
    "CREATE_KEY",
    "DECISIONS",
    "DISCOVERY",
    "EXPIRE_KEY",
    "HEALTH",
    "KEY",
    "KEYS",
    "REVOKE_KEY",
    "ROTATE_KEY",
    "CreateKeyBody",
    "DiscoveredWorker",
    "DiscoverySources",
    "ExpireKeyBody",
    "GatewayHealth",
    "ProcessHealth",
    "RequestDecisions",
    "RevokeKeyBody",
    "RotateKeyBody",
    "SourceState",
]

_Name = Annotated[str, Meta(max_length=256)]
_CENTURY = 36_500 * 86400.0


class ProcessHealth(Struct):
    """One process: its id, how long it runs, how old what it says is, and what it has to do. `status` is "starting" until it has
    said something, "silent" once it says nothing more."""

    pid: int
    status: Literal["starting", "ready", "waiting", "draining", "silent"]
    up_s: float
    said_s: float
    in_flight: int
    connections: int


class GatewayHealth(Struct):
    """The gateway: "ok" where a process is ready; "draining" where it shuts down; else "waiting" for a worker. `workers` counts
    them by state, `models` names what is served."""

    status: Literal["ok", "waiting", "draining"]
    version: str
    models: list[str]
    workers: dict[str, int]
    processes: list[ProcessHealth]


HEALTH = Operation(
    "adminHealth",
    "The gateway and each of its processes.",
    "health",
    None,
    (OperationResponse(200, "How they are, whatever that is.", GatewayHealth),),
)


class RequestDecisions(Struct):
    """The decisions of routing for one request, in order: one for each role and try."""

    request_id: str
    decisions: list[RoutingDecision]


DECISIONS = Operation(
    "adminDecisions",
    "Which workers could have had a request, who got it, and why.",
    "routing",
    None,
    (OperationResponse(200, "The decisions that are kept, whichever process made them.", RequestDecisions),),
)


class DiscoveredWorker(Struct):
    """A worker that a source names: "ready" to be used, "unready" (not added now, kept where it is there), or "leaving"."""

    name: str
    condition: Literal["ready", "unready", "leaving"]


class SourceState(Struct):
    """A source of workers. `state` is "current"; "stale" where its last answers could not be used, for `reason`: what it named
    `age_s` seconds ago still holds; or "unknown" where it has never answered. `taken`: names that other workers have already."""

    name: str
    state: Literal["current", "stale", "unknown"]
    age_s: float
    reason: str
    workers: list[DiscoveredWorker]
    taken: list[str]


class DiscoverySources(Struct):
    """The sources of workers, in the order in which they are set."""

    sources: list[SourceState]


DISCOVERY = Operation(
    "adminDiscovery",
    "The sources of workers: whether each answers, how old its last answer is, and what it names.",
    "workers",
    None,
    (OperationResponse(200, "How they stand.", DiscoverySources),),
)


class CreateKeyBody(Struct, forbid_unknown_fields=True):
    """A key that is to be made: whose requests it carries, its roles, models and tools of MCP servers, and when it expires, in
    seconds since the Unix epoch."""

    tenant: _Name
    principal: _Name = ""
    name: _Name = ""
    roles: Annotated[tuple[_Name, ...], Meta(max_length=64)] = ("user",)
    models: Annotated[tuple[_Name, ...], Meta(max_length=1024)] = ()
    tools: Annotated[tuple[_Name, ...], Meta(max_length=1024)] = ()
    expires_at: Annotated[float, Meta(ge=0, le=1e12)] | None = None


class RotateKeyBody(Struct, forbid_unknown_fields=True):
    """`overlap_s`: seconds for which the earlier secrets stay good."""

    overlap_s: Annotated[float, Meta(ge=0, le=_CENTURY)] = 0.0


class ExpireKeyBody(Struct, forbid_unknown_fields=True):
    """`expires_at`: from when on the key is refused, in seconds since the Unix epoch; null: never."""

    expires_at: Annotated[float, Meta(ge=0, le=1e12)] | None


class RevokeKeyBody(Struct, forbid_unknown_fields=True):
    """A revocation says nothing more."""


class ShownKey(Struct):
    """A virtual key without its secret. Times are in seconds since the Unix epoch."""

    id: str
    prefix: str
    name: str
    tenant: str
    principal: str
    roles: list[str]
    models: list[str]
    tools: list[str]
    status: Literal["active", "expired", "revoked"]
    secrets: int
    created_at: float
    expires_at: float | None
    revoked_at: float | None


class TextOfKey(ShownKey, kw_only=True):
    """A virtual key that was just made or rotated, with the key itself."""

    key: str


class KeyPage(Struct):
    """Virtual keys, newest first."""

    data: list[ShownKey]
    has_more: bool


def _about(name: str, summary: str, body: object, status: int, answer: object) -> Operation:
    return Operation(name, summary, "keys", body, (OperationResponse(status, "Done.", answer),))


KEYS = _about("listKeys", "Virtual keys, newest first; limit and after go through them.", None, 200, KeyPage)
KEY = _about("getKey", "One virtual key.", None, 200, ShownKey)
CREATE_KEY = _about("createKey", "Make a virtual key; it is told now and never again.", CreateKeyBody, 201, TextOfKey)
ROTATE_KEY = _about("rotateKey", "Give a virtual key a new secret.", RotateKeyBody, 200, TextOfKey)
EXPIRE_KEY = _about("expireKey", "Say when a virtual key expires.", ExpireKeyBody, 200, ShownKey)
REVOKE_KEY = _about("revokeKey", "End a virtual key, in every process.", RevokeKeyBody, 200, ShownKey)
