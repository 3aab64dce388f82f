"""Counts limits over a mesh for a gateway of several processes, in memory that they share.

Each process decides by the same counters and the same rows (`SharedMeshCounters`), so together they are one gateway to the
others. One of them speaks for all (`SharedSpeaker`): it tells what was charged here, and counts here what others have charged. A
scope that is new here gives one request in each round until that process has looked for what others have charged of it. Pure: the
times are arguments. Above: the gateway's limits, the opening. Below: the rows, the counters of several processes.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from smg_core.limits.counters import Counter, Instant, fullness
from smg_core.limits.decision import LimitClaim, LimitRefusal, in_window
from smg_core.limits.shared import SharedCounters
from smg_core.mesh.state.counts import (
    CountedWindow,
    MemberCount,
    estimate,
    read_count,
    read_counter_key,
    written_count,
    written_counter_key,
)
from smg_core.mesh.state.entries import MeshChange, Space, Writer
from smg_core.mesh.state.node import Node, SideStanding
from smg_core.meshed.counters import (
    NEXT_ROUND_US,
    by_window,
    is_places,
    lasts_s,
    part_of_round,
    shared_claims,
    window_number,
)
from smg_core.meshed.shared_rows import SharedRow, SharedRows

__all__ = ["SharedMeshCounters", "SharedSpeaker"]

_MOST_A_PERIOD = 50
"""Rows that are told of in one period, those that wait longest first."""
_PLACES_AGAIN_S = 10.0
_MOST_USED, _MOST_AHEAD_US = 1 << 50, 1 << 60
"""Of what others say that they have charged, so that every number has its place in memory."""


class SharedMeshCounters:
    """Counters of one process of a gateway of several. `held` are those of its processes, without a lock of their own."""

    def __init__(
        self,
        held: SharedCounters,
        rows: SharedRows,
        zone: str,
        guard: float,
        partition: Literal["majority", "strict"],
    ) -> None:
        self._held, self._rows, self._zone, self._guard, self._partition = held, rows, zone, guard, partition

    @property
    def waits(self) -> int:
        """Claims that were refused until all have heard of earlier ones."""
        return self._rows.waits

    def look(self, claims: Sequence[LimitClaim]) -> list[Counter]:
        """The counters that these claims are made of."""
        with self._rows.lock:
            return self._held.look(claims)

    def claim(self, claims: Sequence[LimitClaim], at: Instant) -> LimitRefusal | None:
        """Charge all claims, or none and say why not."""
        rows = self._rows
        with rows.lock:
            here, whole = standing = rows.standing(at[0])
            shared = claims if here >= whole else shared_claims(claims, standing, self._partition)
            places = []
            for claim in shared:
                number = window_number(claim.rule, self._zone, at[1])
                place = rows.place(claim.scope, claim.rule, number, at[0])
                places.append(place)
                if here > 1:
                    part, taken = rows.round(place)
                    if not taken:
                        self._begin_round(claim, place, standing, at)
                    elif taken + claim.cost > part:
                        rows.waited()
                        return LimitRefusal(claim, NEXT_ROUND_US)
            refusal = self._held.claim(shared, at)
            if refusal is None:
                for claim, place in zip(shared, places, strict=True):
                    rows.charge(place, claim.cost)
            return refusal

    def put_right(self, claims: Sequence[LimitClaim], costs: Sequence[int], taken_at: Instant, at: Instant) -> None:
        """Put right what the claims were charged at `taken_at`, to `costs`; they stay reserved."""
        with self._rows.lock:
            shared = shared_claims(claims, self._rows.standing(at.monotonic_us), self._partition)
            self._held.put_right(shared, costs, taken_at, at)
            self._correct(shared, costs, taken_at, at)

    def settle(self, claims: Sequence[LimitClaim], costs: Sequence[int], taken_at: Instant, at: Instant) -> None:
        """The same, once the request has ended: `costs` are what it used."""
        with self._rows.lock:
            shared = shared_claims(claims, self._rows.standing(at.monotonic_us), self._partition)
            self._held.settle(shared, costs, taken_at, at)
            self._correct(shared, costs, taken_at, at)

    def _place(self, claim: LimitClaim, at: Instant) -> int:
        number = window_number(claim.rule, self._zone, at.wall_s)
        return self._rows.place(claim.scope, claim.rule, number, at.monotonic_us)

    def _begin_round(self, claim: LimitClaim, place: int, standing: SideStanding, at: Instant) -> None:
        """All have heard of what was taken: from now on so much may be taken before they have again."""
        rule, part = claim.rule, 0
        if self._rows.known(place):
            [state] = self._held.look([claim])
            left = fullness(rule, state, in_window(rule, at, self._zone)).remaining
            part = part_of_round(left, rule, standing, self._guard)
        self._rows.begin_round(place, part)

    def _correct(self, claims: Sequence[LimitClaim], costs: Sequence[int], taken_at: Instant, at: Instant) -> None:
        for claim, cost in zip(claims, costs, strict=True):
            if cost != claim.cost:
                number = window_number(claim.rule, self._zone, taken_at.wall_s)
                self._rows.correct(self._place(claim, at), number, cost - claim.cost)


class SharedSpeaker:
    """The part of the mesh that speaks for all processes of a gateway of that name. `held` has a column for what others have at
    once, and no lock of its own; `wall` is the time of day. It says how many there are once it is told that it `knows`."""

    spaces = frozenset({Space.COUNTER, Space.LOAD})

    def __init__(
        self, held: SharedCounters, rows: SharedRows, zone: str, name: str, born_ms: int, wall: Callable[[], float]
    ) -> None:
        self._held, self._rows, self._zone, self._name, self._wall = held, rows, zone, name, wall
        self._foreign: dict[bytes, dict[tuple[Writer, int], int]] = {}
        self._queue: deque[tuple[int, int]] = deque()
        self._places: dict[bytes, None] = {}
        self._again_at = float("-inf")
        self._heard_some = False
        self.knows = False
        with rows.lock:
            self._born_ms = rows.born(born_ms)
            rows.take_over()

    def stands(self, standing: SideStanding, now: float) -> None:
        """How many there are, as this gateway knows once it has heard of the others."""
        if self.knows:
            with self._rows.lock:
                if self._rows.standing(int(now * 1_000_000)) != standing:
                    self._queue.clear()
                self._rows.stand(standing, int(now * 1_000_000))

    def tell(self, node: Node, now: float) -> None:
        """Say what was charged here, and end rounds of which all have heard."""
        if self._heard_some:
            self._heard_some = False
            node.answer_soon()
        if not self.knows:
            return
        with self._rows.lock:
            rows = self._rows.changed(_MOST_A_PERIOD)
            for row in rows:
                if row.new:
                    self._count(row, now, begins=True)
            if now >= self._again_at:
                self._again_at = now + _PLACES_AGAIN_S
                rows += self._places_again({row.place for row in rows})
        if rows:
            self._say_all(node, rows, now)
        known = node.all_know if self._queue else 0
        if self._queue and self._queue[0][0] <= known:
            with self._rows.lock:
                while self._queue and self._queue[0][0] <= known:
                    version, place = self._queue.popleft()
                    self._rows.heard(place, version)

    def _places_again(self, places: set[int]) -> list[SharedRow]:
        found = []
        for scope in list(self._places):
            row = self._rows.find(scope)
            if row is None:
                del self._places[scope]
            elif row.place not in places:
                found.append(row)
        return found

    def _say_all(self, node: Node, rows: Sequence[SharedRow], now: float) -> None:
        versions = [self._say(node, row, now) for row in rows]
        with self._rows.lock:
            for row, version in zip(rows, versions, strict=True):
                self._rows.mark_sent(row, version)
        self._queue += ((v, row.place) for row, v in zip(rows, versions, strict=True) if row.taken and not row.version)

    def _say(self, node: Node, row: SharedRow, now: float) -> int:
        """Tell of one row; the version with which all know it."""
        rule, wall = row.rule, self._wall()
        if is_places(rule):
            at_once = self._held.places(scope_number_of(row.scope))
            (self._places.setdefault if at_once else self._places.pop)(row.scope, None)
            key = written_counter_key(CountedWindow(row.scope, 0))
            node.put(Space.LOAD, key, written_count(MemberCount(at_once)), lasts_s(rule, 0, self._zone, wall), now)
            return node.replica.version
        windows = [(row.number, row.now)]
        if row.before >= 0 and rule.width_us and row.before == row.number - 1:
            windows.append((row.before, row.last))
        for number, count in windows:
            key = written_counter_key(CountedWindow(row.scope, number))
            node.put(Space.COUNTER, key, written_count(count), lasts_s(rule, number, self._zone, wall), now)
        return node.replica.version

    # ------------------------------------------------------------------------------------------------ what others charge

    def hear(self, changes: Sequence[MeshChange], now: float) -> None:
        """Others have charged something."""
        self._heard_some = True
        touched: dict[bytes, None] = {}
        for change in changes:
            if change.writer.name == self._name and change.writer.epoch >= self._born_ms:
                continue  # another process of this gateway has said it, which is counted here
            try:
                window = read_counter_key(change.key)
                used = min(read_count(change.value).used, _MOST_USED) if change.value else 0
            except msgspec.MsgspecError:
                continue
            foreign = self._foreign.setdefault(window.scope, {})
            foreign.pop((change.writer, window.number), None)
            if change.value:
                foreign[change.writer, window.number] = used
            elif not foreign:
                del self._foreign[window.scope]
            touched[window.scope] = None
        if touched:
            with self._rows.lock:
                for scope in touched:
                    row = self._rows.find(scope) if len(scope) == 8 else None
                    if row is not None and not row.new:
                        self._count(row, now)

    def _count(self, row: SharedRow, now: float, *, begins: bool = False) -> None:
        """Count here what others have charged of a row, or have given back, since it was counted last. Called under the lock."""
        rule, wall = row.rule, self._wall()
        number = window_number(rule, self._zone, wall)
        before = _turned(row, number)
        counted, last, coming = by_window(rule, number, self._foreign.get(row.scope, {}))
        others = min(_MOST_USED, counted), min(_MOST_USED, last), min(_MOST_USED, coming)
        more = sum(others) - sum(before)
        if begins and rule.width_us:
            over = int(wall * 1_000_000) % rule.width_us
            more = estimate(others[0], others[1], over, rule.width_us) + others[2]
        if more:
            most = 4 * rule.capacity  # what is more than that is no different
            if rule.width_us:
                most = min(most, _MOST_AHEAD_US * rule.amount // rule.width_us)
            at = Instant(int(now * 1_000_000), wall)
            self._held.add(scope_number_of(row.scope), rule, max(-most, min(most, more)), at)
        self._rows.counted(row.place, number, others)


def _turned(row: SharedRow, number: int) -> tuple[int, int, int]:
    """What of others' charges was counted here, by the windows as they are now."""
    now, before, coming = row.others
    if row.others_in == number:
        return now, before, coming
    return (coming, now, 0) if row.rule.width_us and row.others_in == number - 1 else (0, 0, 0)


def scope_number_of(scope: bytes) -> int:
    """The number that the counters of several processes know a scope by."""
    return (int.from_bytes(scope, "big") >> 1) or 1
