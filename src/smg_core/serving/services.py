"""The services of a gateway's handlers (edge): one frozen record of services, and boxes for what changes while the gateway runs.

`live` are the settings of now, `life` says whether the gateway is started, `running` has what exists only while it is. Made by
the assembly (`gateway.assembly`). Above: every handler. Below: the rooms whose objects these are.
"""

import asyncio
import random
from typing import TYPE_CHECKING, Any

import attrs

from smg_core.channel.base import Channel
from smg_core.clock import CallLater, Clock, IdSource
from smg_core.fleet.adapter_changes import AdapterChanges
from smg_core.fleet.cache_losses import CacheLosses
from smg_core.fleet.leader import Leading
from smg_core.fleet.roster import Roster
from smg_core.fleet.sleeping import Sleeping
from smg_core.history.guard import GuardedStore
from smg_core.history.store.blobs import BlobStore
from smg_core.hooks import Observer
from smg_core.identity.identity import Identify, anonymous
from smg_core.identity.virtual_keys import VirtualKeys
from smg_core.models.onboarding import Onboarding
from smg_core.observability.failures import FailureLog
from smg_core.observability.faults import FaultLog
from smg_core.pipeline.calls.executor import FairExecutor
from smg_core.pipeline.flow.driver import Driver
from smg_core.pipeline.performers import Performers
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.plugins.registry import Plugins
from smg_core.request import Caller
from smg_core.routing.decisions import Decisions
from smg_core.routing.policies import Policies
from smg_core.sealing.sealer import Sealer
from smg_core.serving.admission import Admission
from smg_core.serving.api_table import ApiTable
from smg_core.serving.live import Live
from smg_core.serving.model_lookup import ModelLookup
from smg_core.serving.request_ids import RequestIds
from smg_core.serving.side_tasks import SideTasks
from smg_core.serving.tracing import Tracing
from smg_core.tools.opening import BUILT_IN_APIS, OpenTools, ToolFunctions, hosted_kinds
from smg_core.wire.compat import Compat
from smg_core.workers.monitor import Monitor
from smg_core.workers.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from smg_core.ledger.keeping import Ledger
    from smg_core.meshed.opening import GatewayMesh

__all__ = ["Life", "Running", "Services"]


@attrs.define(eq=False)
class Life:
    """How far a gateway is: `started`, `stopped` by somebody until it is started again, `retiring` where another process takes
    over."""

    started: bool = False
    stopped: bool = False
    retiring: bool = False


@attrs.define(eq=False)
class Running:
    """What exists from the start of a gateway to its end; a field that is not set yet raises AttributeError. `identify` and
    `virtual_keys` say who a caller is, `sealer` makes seals, `performers` and `driver` perform the steps of flows, `tools` runs
    tools; `ledger` keeps accounts and `mesh` is the link to other gateways, where the settings say so; of several processes one
    has it, and `mesh_seen` says in all of them how it is. `blobs` are where contents of files lie in place of a folder."""

    loop: asyncio.AbstractEventLoop = attrs.field(init=False)
    executor: FairExecutor = attrs.field(init=False)
    history: GuardedStore = attrs.field(init=False)
    sealer: Sealer = attrs.field(init=False)
    onboarding: Onboarding = attrs.field(init=False)
    monitor: Monitor = attrs.field(init=False)
    roster: Roster = attrs.field(init=False)
    cache_losses: CacheLosses = attrs.field(init=False)
    adapter_changes: AdapterChanges = attrs.field(init=False)
    sleeping: Sleeping = attrs.field(init=False)
    performers: Performers = attrs.field(init=False)
    driver: Driver = attrs.field(init=False)
    tools: OpenTools = attrs.field(init=False)
    identify: Identify = anonymous
    virtual_keys: VirtualKeys | None = None
    ledger: "Ledger | None" = None
    mesh: "GatewayMesh | None" = None
    mesh_seen: "Callable[[], Awaitable[dict[str, Any]]] | None" = None
    blobs: BlobStore | None = None


@attrs.frozen(eq=False)
class Services:
    """The services of one gateway. `models` are those that are served, by each of their names; `lookup` finds the one that a
    caller means. `faults` logs what nobody has foreseen, `failures` those of engines. `compat` says which fields of other
    servers' APIs are ignored, `apis` is what is known of the public APIs. `functions` are the program's own tools."""

    clock: Clock
    ids: IdSource
    rng: random.Random
    call_later: CallLater
    channel: Channel
    observer: Observer
    faults: FaultLog
    failures: FailureLog
    tracing: Tracing | None
    registry: Registry
    models: dict[str, ServedModel]
    lookup: ModelLookup
    admission: Admission
    policies: Policies
    decisions: Decisions
    plugins: Plugins
    leading: Leading
    side_tasks: SideTasks
    request_ids: RequestIds
    compat: Compat
    apis: ApiTable
    live: Live
    life: Life
    running: Running
    functions: ToolFunctions = ()

    def hosted(self, api: str = "", caller: Caller | None = None) -> frozenset[str]:
        """The kinds of tools that run here, for requests of the API of this name; of the built-in ones those that `caller` may
        use."""
        kinds = hosted_kinds(self.live.config.mcp, api, self.functions)
        if caller is None or api not in BUILT_IN_APIS:
            return kinds
        return kinds | self.running.tools.built_ins(caller)

    @property
    def in_flight(self) -> int:
        """Requests that are being answered now, or that plugins are asked about before they are."""
        return self.admission.in_flight + self.plugins.standing
