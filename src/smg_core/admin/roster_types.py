"""Inputs and outputs of the admin routes for the roster of workers, for `/admin/openapi.json`. Above: the routes. Pure."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from smg_core.workers.candidate import LEAST_WEIGHT, MOST_RANK, MOST_WEIGHT
from smg_core.workers.worker_file import MOST_ADAPTER_ID

__all__ = [
    "AddWorkerBody",
    "ChangeWorkerBody",
    "DrainWorkerBody",
    "DrainedWorker",
    "NothingMore",
    "WorkerRow",
    "WorkerRows",
]

_Text = Annotated[str, Meta(max_length=4096)]
_Name = Annotated[str, Meta(max_length=256)]
_Labels = dict[_Name, _Text]
_Role = Literal["regular", "prefill", "decode", "encode"]
_Port = Annotated[int, Meta(ge=0, le=65535)]
_Weight = Annotated[float, Meta(ge=LEAST_WEIGHT, le=MOST_WEIGHT)]
_Id = Annotated[int, Meta(ge=-MOST_ADAPTER_ID, le=MOST_ADAPTER_ID)]
_Day = Annotated[float, Meta(ge=0, le=86400)]


class AddWorkerBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """A worker as an entry of the workers file describes it; a key is given as it is, not as a file."""

    url: Annotated[str, Meta(min_length=1, max_length=4096)]
    name: _Name = ""
    role: _Role | None = None
    dialect: _Name = "auto"
    model: _Name | None = None
    weight: _Weight = 1.0
    api_key: _Text | None = None
    headers: dict[_Name, _Text] = {}
    tls_ca: _Text | None = None
    tls_cert: _Text | None = None
    tls_key: _Text | None = None
    tls_server_name: _Name | None = None
    bootstrap_host: _Name = ""
    bootstrap_port: _Port = 0
    rank: Annotated[int, Meta(ge=0, le=MOST_RANK)] | None = None
    adapters: dict[_Name, _Text | _Id] = {}
    labels: _Labels = {}
    kv_events: _Name = ""
    kv_events_replay: _Name = ""
    kv_events_topic: _Name = ""


class ChangeWorkerBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """What is to change; what is not given stays. Of `labels`, `headers` and `adapters` each name is changed by itself, and null
    removes it; null removes a `tls_` field, too. `api_key` is the header authorization. `weight`, `labels` and the bootstrap
    fields count at once; for others the engine is reached by a new client, and the present one serves until that has joined."""

    url: Annotated[str, Meta(min_length=1, max_length=4096)] | UnsetType = UNSET
    role: _Role | UnsetType | None = UNSET
    dialect: _Name | UnsetType = UNSET
    model: _Name | UnsetType | None = UNSET
    weight: _Weight | UnsetType = UNSET
    api_key: _Text | UnsetType | None = UNSET
    headers: dict[_Name, _Text | None] | UnsetType = UNSET
    tls_ca: _Text | UnsetType | None = UNSET
    tls_cert: _Text | UnsetType | None = UNSET
    tls_key: _Text | UnsetType | None = UNSET
    tls_server_name: _Name | UnsetType | None = UNSET
    bootstrap_host: _Name | UnsetType = UNSET
    bootstrap_port: _Port | UnsetType = UNSET
    adapters: dict[_Name, _Text | _Id | None] | UnsetType = UNSET
    labels: dict[_Name, _Text | None] | UnsetType = UNSET
    kv_events: _Name | UnsetType = UNSET
    kv_events_replay: _Name | UnsetType = UNSET
    kv_events_topic: _Name | UnsetType = UNSET


class DrainWorkerBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """`move`: its calls go on with other workers now, where they can. `wait_s`: seconds for which the answer waits until none is
    left. `remove`: it is removed when none is left, or after `workers.drain_s`."""

    move: bool = False
    wait_s: _Day = 0.0
    remove: bool = False


class NothingMore(Struct, forbid_unknown_fields=True):
    """A body that says nothing."""


class WorkerRow(Struct):
    """A worker. `state` with its `reason` is how it is to the process that answers; each process finds out by itself, and
    `processes` has, by state, how many of the gateway's processes have the worker in it. `pending` says what keeps a change from
    being used; `source` whose worker it is. `share` is what it gets while it starts slowly, of 1; `breaker` whether calls of it
    keep failing. `in_flight` counts requests of all processes, `queued` and `running` what its engine said last. `headers` are
    names without their values."""

    name: str
    url: str
    state: str
    reason: str
    processes: dict[str, int]
    pending: str
    source: str
    role: str
    dialect: str
    models: list[str]
    adapters: list[str]
    weight: float
    share: float
    labels: dict[str, str]
    headers: list[str]
    in_flight: int
    waiting_tokens: int
    queued: int
    running: int
    kv_usage: float
    breaker: str
    evidence: dict[str, str]


class WorkerRows(Struct):
    """All workers, in the order in which they were added."""

    workers: list[WorkerRow]


class DrainedWorker(Struct):
    """A worker that drains, and how many requests it has left."""

    worker: WorkerRow
    left: int
