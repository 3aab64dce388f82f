"""The order of the waiting requests of one band: the tenant that was served least for its weight is next.

A virtual token counter for each tenant: what it was served, over its weight. Who comes back is lifted to where the last one was
when it was served, so that idleness is no credit, and an hour of service without others is no debt. Of one tenant, the request is
first whose time is up first; one that waits behind others of its session is put back a little for each of them, so sessions take
turns. Pure. Above: `model_queue`. Below: `ticket`.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush

import attrs

from smg_core.queueing.ticket import QueuedRequest

__all__ = ["FairOrder"]

_SPARE = 16
"""Entries of a heap that stand for nothing, beyond as many as those that do, before it is made anew."""

_BEHIND_S = 1.0
"""How far a request is put back for each one of its session that waits before it, in seconds."""

_Entry = tuple[int, float, int, QueuedRequest]


@attrs.define(eq=False)
class _Tenant:
    """A tenant with requests that wait or run: `served` is its counter, `sessions` how many requests of each session
    wait."""

    name: str
    weight: float
    served: float = 0.0
    waiting: int = 0
    running: int = 0
    cost: float = 0.0
    entries: list[_Entry] = attrs.field(factory=list)
    sessions: dict[str, int] = attrs.field(factory=dict)


class FairOrder:
    """The waiting requests of one band: `count` of them, with this `cost` together. `weight_of` a tenant is more than 0. The
    counters of `remembered` idle tenants are kept."""

    def __init__(self, weight_of: Callable[[str], float], remembered: int = 4096) -> None:
        self._weight_of, self._remembered = weight_of, remembered
        self._tenants: dict[str, _Tenant] = {}
        self._idle: OrderedDict[str, float] = OrderedDict()
        self._heap: list[tuple[float, int, _Tenant]] = []
        self._waiting: dict[QueuedRequest, None] = {}
        self._number = 0
        self._floor = 0.0
        self._weights = 0.0
        self.count = 0
        self.cost = 0.0

    def from_newest(self) -> Iterator[QueuedRequest]:
        """The requests that wait, those first that came last."""
        return reversed(self._waiting)

    @property
    def tenants(self) -> int:
        """How many tenants have requests here, or had."""
        return len(self._tenants) + len(self._idle)

    def add(self, ticket: QueuedRequest) -> None:
        """A request waits from now on."""
        tenant = self._known(ticket.tenant)
        if not tenant.waiting:
            self._activate(tenant)
        self._number += 1
        due = min(ticket.due, ticket.expires)
        if ticket.session:
            behind = tenant.sessions.get(ticket.session, 0)
            due += behind * _BEHIND_S
            tenant.sessions[ticket.session] = behind + 1
        heappush(tenant.entries, (ticket.priority, due, self._number, ticket))
        self._waiting[ticket] = None
        self.count += 1
        tenant.waiting += 1
        tenant.cost += ticket.cost
        self.cost += ticket.cost

    def head(self) -> QueuedRequest | None:
        """Who is next; None where nobody waits."""
        heap = self._heap
        while heap:
            served, _, tenant = heap[0]
            if tenant.waiting and served == tenant.served:
                return self._first_of(tenant)[-1]
            heappop(heap)
        return None

    def take(self, ticket: QueuedRequest) -> None:
        """A request goes to the workers: its tenant is charged. It need not have waited."""
        tenant = self._known(ticket.tenant)
        if ticket in self._waiting:
            self._drop(tenant, ticket)
        else:
            tenant.served = max(tenant.served, self._floor)
        self._floor = max(self._floor, tenant.served)
        tenant.running += 1
        self._charge(tenant, ticket.cost)

    def remove(self, ticket: QueuedRequest) -> None:
        """A request waits no longer, without having been its turn."""
        tenant = self._tenants[ticket.tenant]
        self._drop(tenant, ticket)
        self._forget(tenant)

    def end(self, ticket: QueuedRequest, cost: float) -> None:
        """A request that went to the workers has ended, and cost so much in truth."""
        tenant = self._tenants[ticket.tenant]
        tenant.running -= 1
        self._charge(tenant, cost - ticket.cost)
        self._forget(tenant)

    def ahead(self, tenant: str) -> tuple[float, float]:
        """How many requests of this band, and how much of their cost, are served before one more of this tenant, about: as much
        for each other tenant as for this one, by their weights."""
        known = self._tenants.get(tenant)
        waiting = known is not None and known.waiting
        weight = self._weight_of(tenant)
        shares = (self._weights if waiting else self._weights + weight) / weight
        mine, cost = (known.waiting, known.cost) if known is not None else (0, 0.0)
        return min(float(self.count), mine * shares), min(self.cost, cost * shares)

    # ------------------------------------------------------------------------------------------------------- counters

    def _known(self, name: str) -> _Tenant:
        tenant = self._tenants.get(name)
        if tenant is None:
            tenant = self._tenants[name] = _Tenant(name, self._weight_of(name), self._idle.pop(name, 0.0))
        return tenant

    def _activate(self, tenant: _Tenant) -> None:
        """A tenant that had nothing waiting is where the last one was when it was served, not before."""
        tenant.served = max(tenant.served, self._floor)
        self._weights += tenant.weight
        self._push(tenant)

    def _charge(self, tenant: _Tenant, cost: float) -> None:
        tenant.served += cost / tenant.weight
        if tenant.waiting:
            self._push(tenant)

    def _push(self, tenant: _Tenant) -> None:
        if len(self._heap) > 2 * len(self._tenants) + _SPARE:
            self._heap = [each for each in self._heap if each[2].waiting and each[0] == each[2].served]
            heapify(self._heap)
        self._number += 1
        heappush(self._heap, (tenant.served, self._number, tenant))

    def _first_of(self, tenant: _Tenant) -> _Entry:
        entries = tenant.entries
        while entries[0][-1] not in self._waiting:
            heappop(entries)
        return entries[0]

    def _drop(self, tenant: _Tenant, ticket: QueuedRequest) -> None:
        del self._waiting[ticket]
        self.count -= 1
        tenant.waiting -= 1
        tenant.cost -= ticket.cost
        self.cost = self.cost - ticket.cost if self._waiting else 0.0
        if ticket.session:
            tenant.sessions[ticket.session] -= 1
            if not tenant.sessions[ticket.session]:
                del tenant.sessions[ticket.session]
        if not tenant.waiting:
            tenant.entries.clear()
            tenant.cost = 0.0
            self._weights = self._weights - tenant.weight if self._waiting else 0.0
        elif len(tenant.entries) > 2 * tenant.waiting + _SPARE:
            tenant.entries = [each for each in tenant.entries if each[-1] in self._waiting]
            heapify(tenant.entries)

    def _forget(self, tenant: _Tenant) -> None:
        """A tenant without requests is remembered by its counter alone."""
        if tenant.waiting or tenant.running:
            return
        del self._tenants[tenant.name]
        self._idle[tenant.name] = tenant.served
        if len(self._idle) > self._remembered:
            self._idle.popitem(last=False)
