"""The queue before the workers of one model: who goes on, who waits, who is refused.

The first band whose ceiling is not reached is served, fairly between its tenants; a band that waits gets its floor all the same,
so nobody waits for good. A model with nothing under way takes a request always. Time is an argument, and so is what the workers
take. Pure. Above: `waiting`, the fleet simulator. Below: `fair_order`, `capacity`.
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import islice
from math import exp, inf

import attrs

from smg_core.queueing.bands import BANDS, BATCH, INTERACTIVE, STANDARD, SYSTEM
from smg_core.queueing.capacity import Capacity
from smg_core.queueing.fair_order import FairOrder
from smg_core.queueing.ticket import QueuedRequest, QueueRefusal, Shedding

__all__ = ["ModelQueue", "QueueBounds"]

_RATE_S, _KNOWN_S = 10.0, 2.0
"""Over how long the rate is measured at which requests are worked off, and after how long it is known."""
_QUICK = 1 / 3
"""The part of `wait_s` that a request waits before which somebody sits."""
_SPARE = 64
"""Entries of the heap of times that stand for nothing, beyond as many as those that do, before it is made anew."""

_CEILINGS = tuple([band.ceiling for band in BANDS])
_FLOORS = tuple([band.floor for band in BANDS])
_HIGHEST = tuple([BANDS[STANDARD].ceiling if place == BATCH else band.ceiling for place, band in enumerate(BANDS)])
"""The ceilings of requests that have waited for long: batch work goes by that of the band above it then."""
_LOOKED_AT = 256
"""The newest requests of the band batch that are looked at for one to stop."""


@attrs.frozen
class QueueBounds:
    """How much waits before one model, and for how long."""

    requests: int = 2000
    size: int = 256 << 20
    tenant_share: float = 0.25
    wait_s: float = 30.0
    absent_s: float = 120.0

    def wait(self, band: int) -> float:
        """The seconds that a request of a band may wait."""
        return self.wait_s * _QUICK if BANDS[band].quick else self.wait_s


class _Rate:
    """What is worked off in a second, over the last ten or so."""

    def __init__(self) -> None:
        self._sum, self._at, self._since = 0.0, 0.0, -1.0

    def add(self, cost: float, now: float) -> None:
        if self._since < 0:
            self._since = self._at = now
        self._sum = self._sum * exp((self._at - now) / _RATE_S) + cost
        self._at = now

    def of(self, now: float) -> float | None:
        """None where it is not known yet, or nothing was worked off for long."""
        known = now - self._since
        if self._since < 0 or known < _KNOWN_S or now - self._at > _RATE_S:
            return None
        rate = self._sum * exp((self._at - now) / _RATE_S) / _RATE_S / (1 - exp(-known / _RATE_S))
        return rate or None


class ModelQueue:
    """The queue of one model. Whoever holds it sets `capacity`, and calls `pump` when that or anything else has changed."""

    def __init__(self, bounds: QueueBounds, weight_of: Callable[[str], float] = lambda tenant: 1.0) -> None:
        self.bounds = bounds
        self.capacity = Capacity()
        self._orders = tuple([FairOrder(weight_of) for _ in BANDS])
        self._owed = [0.0] * len(BANDS)
        self._rate = _Rate()
        self._tenants: dict[str, tuple[int, int]] = {}
        self._times: list[tuple[float, int, QueuedRequest]] = []
        self._batch: dict[QueuedRequest, None] = {}
        self._stopped = 0
        self._number = 0
        self._size = 0
        self._tokens = 0
        self.waiting = 0
        self.running = 0

    # --------------------------------------------------------------------------------------------------------- coming

    def offer(self, ticket: QueuedRequest, now: float) -> list[tuple[QueuedRequest, QueueRefusal]]:
        """A request comes: by its state it runs at once or waits. Returned are those that are refused for it, which may be the
        request itself."""
        ticket.entered = now
        ticket.expires = min(ticket.deadline, now + self.bounds.wait(ticket.band))
        before = self.waiting and any(order.count for order in self._orders[: ticket.band + 1])
        if not before and self.saturation() < BANDS[ticket.band].ceiling:
            self._run(ticket)
            return []
        shed: list[tuple[QueuedRequest, QueueRefusal]] = []
        why = self._unfit(ticket, now)
        if why is None and not self._has_room(ticket):
            shed = self._displaced(ticket, now)
            why = None if shed else "full"
        if why is not None:
            return [(ticket, self._refusal(ticket, why, now))]
        self._wait(ticket, now)
        return shed

    def place(self, ticket: QueuedRequest, now: float) -> tuple[int, float | None]:
        """The place of a request that would come now, from 1 on, and after how many seconds it would be its turn, about: None
        where nobody knows."""
        count, cost = self._orders[ticket.band].ahead(ticket.tenant)
        for order in self._orders[: ticket.band]:
            count += order.count
            cost += order.cost
        rate = self._rate.of(now)
        return int(count) + 1, None if rate is None else cost / rate

    def _unfit(self, ticket: QueuedRequest, now: float) -> Shedding | None:
        bounds = self.bounds
        if ticket.deadline <= now:
            return "deadline"
        requests, size = self._tenants.get(ticket.tenant, (0, 0))
        share = bounds.tenant_share
        over = requests >= max(1.0, share * bounds.requests) or (requests and size + ticket.size > share * bounds.size)
        if ticket.tenant and over:  # without authentication all have one tenant, which has no name
            return "tenant"
        ticket.place, wait = self.place(ticket, now)
        if self.capacity.slots and wait is not None and now + wait > ticket.expires:
            return "late"
        return None

    def _has_room(self, ticket: QueuedRequest, freed: tuple[int, int] = (0, 0)) -> bool:
        requests, size = freed
        return self.waiting - requests < self.bounds.requests and self._size - size + ticket.size <= max(
            self.bounds.size, ticket.size
        )

    def _displaced(self, ticket: QueuedRequest, now: float) -> list[tuple[QueuedRequest, QueueRefusal]]:
        """The newest of the lowest bands that give way to a request of a higher one; none where that would not be enough."""
        found: list[QueuedRequest] = []
        size = 0
        for order in self._orders[: ticket.band : -1]:
            for each in order.from_newest():
                found.append(each)
                size += each.size
                if self._has_room(ticket, (len(found), size)):
                    shed = [(each, self._refusal(each, "displaced", now)) for each in found]
                    for gone in found:
                        self._leave(gone)
                    return shed
        return []

    def _refusal(self, ticket: QueuedRequest, why: Shedding, now: float) -> QueueRefusal:
        return QueueRefusal(why, *self.place(ticket, now))

    # ---------------------------------------------------------------------------------------------------------- going

    def pump(self, now: float) -> list[QueuedRequest]:
        """Those whose turn it is: they run from now on."""
        going: list[QueuedRequest] = []
        while self.waiting:
            ticket = self._next(now)
            if ticket is None:
                break
            self._leave(ticket, goes=True)
            self._run(ticket)
            going.append(ticket)
        return going

    def saturation(self) -> float:
        """How full the model is, of 1: of requests, of tokens in its workers' caches, or as they or the process say."""
        capacity = self.capacity
        if not capacity.slots:
            return inf
        requests = self.running + capacity.others
        if not requests:
            return 0.0
        tokens = 0.0
        if capacity.tokens and self.running:
            tokens = self._tokens * requests / self.running / capacity.tokens
        return max(requests / capacity.slots, tokens, capacity.strain)

    def _next(self, now: float) -> QueuedRequest | None:
        full = self.saturation()
        if full < 1.0 and (owed := self._in_debt(full, now)) is not None:
            return owed
        for place, order in enumerate(self._orders):
            if not order.count or full >= _HIGHEST[place]:
                continue
            head = order.head()
            if head is not None and (full < _CEILINGS[place] or now - head.entered > self.bounds.wait(place) / 2):
                return head
        return None

    def _in_debt(self, full: float, now: float) -> QueuedRequest | None:
        """The first of a band that waits and had less than its floor. It takes nothing of what is kept free for the bands above
        it, unless those wait as well or it has waited for long."""
        ceiling = _CEILINGS[STANDARD]
        for place, order in enumerate(self._orders):
            if not order.count:
                continue
            ceiling = max(ceiling, _CEILINGS[place])
            owed = self._owed[place]
            head = order.head() if owed else None
            if head is None or owed < head.cost:
                continue
            if full < ceiling or now - head.entered > self.bounds.wait(place) / 2:
                return head
        return None

    def _run(self, ticket: QueuedRequest) -> None:
        self._orders[ticket.band].take(ticket)
        ticket.state = "running"
        self.running += ticket.requests
        self._tokens += ticket.tokens
        if ticket.band == BATCH:
            self._batch[ticket] = None
        for place, order in enumerate(self._orders):
            if place == ticket.band:
                self._owed[place] = max(0.0, self._owed[place] - ticket.cost) if order.count else 0.0
            elif order.count:
                self._owed[place] += _FLOORS[place] * ticket.cost

    # -------------------------------------------------------------------------------------------------------- leaving

    def leave(self, ticket: QueuedRequest, cost: float | None, now: float) -> None:
        """A request is over, in whatever state it is: one that waited gives its place up, one that ran cost so much (None: as
        much as was thought)."""
        if ticket.state == "waiting":
            self._leave(ticket)
        elif ticket.state == "running":
            self.running -= ticket.requests
            self._tokens -= ticket.tokens
            self._batch.pop(ticket, None)
            self._stopped -= ticket.stopped
            cost = ticket.cost if cost is None else cost
            self._orders[ticket.band].end(ticket, cost)
            self._rate.add(cost, now)
        ticket.state = "over"

    def expired(self, now: float) -> list[tuple[QueuedRequest, QueueRefusal]]:
        """Those that have waited for as long as they may; they are refused."""
        found: list[tuple[QueuedRequest, QueueRefusal]] = []
        absent = not self.capacity.slots
        while self._times and self._times[0][0] <= now:
            _, _, ticket = heappop(self._times)
            if ticket.state != "waiting":
                continue
            until = min(ticket.deadline, ticket.entered + self.bounds.absent_s)
            if absent and until > now:
                self._schedule(ticket, until)
                continue
            self._leave(ticket)
            found.append((ticket, self._refusal(ticket, "deadline" if ticket.deadline <= now else "waited", now)))
        return found

    def victims(self) -> Iterator[QueuedRequest]:
        """Requests of the band batch that are stopped for those of the first two bands that wait: such of which nothing came
        first, then such of which nothing was sent, the newest first."""
        wanted = self._orders[SYSTEM].count + self._orders[INTERACTIVE].count - self._stopped
        if wanted <= 0 or not self._batch:
            return
        stages = [
            (ticket, ticket.stage()) for ticket in islice(reversed(self._batch), _LOOKED_AT) if not ticket.stopped
        ]
        found = [each for each, stage in stages if stage == "unbegun"] + [each for each, s in stages if s == "begun"]
        for ticket in found[:wanted]:
            ticket.stopped = True
            self._stopped += 1
            yield ticket

    def all_waiting(self) -> list[QueuedRequest]:
        """Every request that waits."""
        return [ticket for order in self._orders for ticket in order.from_newest()]

    def counts(self) -> tuple[int, ...]:
        """How many requests of each band wait."""
        return tuple([order.count for order in self._orders])

    def _wait(self, ticket: QueuedRequest, now: float) -> None:
        ticket.state = "waiting"
        self._orders[ticket.band].add(ticket)
        self.waiting += 1
        self._size += ticket.size
        requests, size = self._tenants.get(ticket.tenant, (0, 0))
        self._tenants[ticket.tenant] = requests + 1, size + ticket.size
        self._schedule(ticket, ticket.expires)

    def _leave(self, ticket: QueuedRequest, *, goes: bool = False) -> None:
        """A request waits no longer; where it goes to the workers, its order is told of that by `_run`."""
        if not goes:
            self._orders[ticket.band].remove(ticket)
            ticket.state = "over"
            if not self._orders[ticket.band].count:
                self._owed[ticket.band] = 0.0
        self.waiting -= 1
        if not self.waiting:
            self._times.clear()
        self._size -= ticket.size
        requests, size = self._tenants.pop(ticket.tenant)
        if requests > 1:
            self._tenants[ticket.tenant] = requests - 1, size - ticket.size

    def _schedule(self, ticket: QueuedRequest, at: float) -> None:
        if len(self._times) > 2 * self.waiting + _SPARE:
            self._times = sorted(each for each in self._times if each[2].state == "waiting")
        self._number += 1
        heappush(self._times, (at, self._number, ticket))
