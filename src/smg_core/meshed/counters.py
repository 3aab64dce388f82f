"""Counts limits over all gateways of a mesh: each decides by what it knows of all, and takes only its part of what is left.

Pure: the times are arguments. What others have charged is charged here too when it is heard: every gateway's counters are those
of all. Between two words that all have heard, a gateway takes at most half of its part of what is left, so that what it does
not know of yet finds room; where a whole part is less than one request, one is taken, and what that is too much is owed. On the
smaller side of a split a limit is that side's share (`mesh.partition`). Above: the gateway's limits. Below: the counters of one
process, the state of the mesh.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Literal

import attrs
import msgspec

from smg_core.limits.calendar import QUARTER_S, window_at
from smg_core.limits.counters import Counter, Instant, fullness
from smg_core.limits.decision import LimitClaim, LimitRefusal, in_window
from smg_core.limits.memory import MemoryCounters
from smg_core.limits.rules import LimitRule
from smg_core.mesh.state.counts import (
    CountedWindow,
    MemberCount,
    counter_window,
    estimate,
    read_count,
    read_counter_key,
    written_count,
    written_counter_key,
)
from smg_core.mesh.state.entries import MeshChange, Space, Writer
from smg_core.mesh.state.node import Node, SideStanding

__all__ = [
    "NEXT_ROUND_US",
    "MeshCounters",
    "by_window",
    "is_places",
    "lasts_s",
    "part_of_round",
    "shared_claims",
    "window_number",
]

_PLACES_LAST_S, _PLACES_AGAIN_S = 30.0, 10.0
"""For how long a gateway's requests at once count without a word of it, and how often it says so."""
_MOST_A_PERIOD = 50
"""Counters that are told of in one period, those that wait longest first; for the others the round lasts longer."""
_CALM_S, _CALM_EACH_S, _MOST_CALM = 5.0, 0.5, 250
"""How long a counter of which little was taken waits until it is told of, how often such are looked for, and how many are told of
then."""
_CALM_PART = 8
"""Little is less than this part of what may be taken before all have heard."""

_NONE = MemberCount()
_LATE_US = 10_000_000
"""For so long a window that is over may still be known."""

NEXT_ROUND_US = 200_000
"""After how long all have heard of what was taken, about."""


@attrs.define(eq=False)
class _Own:
    """What this gateway has charged of one scope: in the window of that number and in the one before, with what others were told
    of each."""

    rule: LimitRule
    number: int
    hashed: bytes
    charged: int = 0
    refunded: int = 0
    last: MemberCount = _NONE
    last_number: int = -1
    shared: MemberCount = _NONE
    last_shared: MemberCount = _NONE

    @property
    def now(self) -> MemberCount:
        """The count in this window."""
        return MemberCount(self.charged, self.refunded)


@attrs.define(eq=False)
class _Round:
    """What was taken of a scope since all have heard of it last, of the `part` of what was left then that may be taken; it was
    told of since with `version`."""

    part: int
    left: int
    taken: int = 0
    version: int = 0


def _hashed(scope: str) -> bytes:
    return blake2b(scope.encode(), digest_size=8).digest()


class MeshCounters:
    """Counters of one gateway of several. `held` counts here; `most` is how many scopes are told of, and `wall` the time of day.
    It is a part of the mesh; `on_news`, which may be set, is called when there is something to tell after there was not."""

    spaces = frozenset({Space.COUNTER, Space.LOAD})

    def __init__(
        self,
        held: MemoryCounters,
        zone: str,
        guard: float,
        partition: Literal["majority", "strict"],
        most: int,
        wall: Callable[[], float],
    ) -> None:
        self._held, self._zone, self._guard, self._partition, self._most = held, zone, guard, partition, most
        self._wall = wall
        self._own: OrderedDict[str, _Own] = OrderedDict()
        self._scopes: dict[bytes, str] = {}
        self._foreign: dict[bytes, dict[tuple[Writer, int], int]] = {}
        self._rounds: dict[str, _Round] = {}
        self._queue: deque[tuple[int, str]] = deque()
        self._dirty: OrderedDict[str, None] = OrderedDict()
        self._calm: OrderedDict[str, float] = OrderedDict()
        self._calm_turn = -1
        self._standing = SideStanding(1, 1)
        self._again_at = float("-inf")
        self._heard_some = False
        self.on_news: Callable[[], None] = lambda: None
        self.waits = 0

    # ------------------------------------------------------------------------------------------------------------ counting

    def look(self, claims: Sequence[LimitClaim]) -> list[Counter]:
        """The counters that these claims are made of."""
        return self._held.look(claims)

    def claim(self, claims: Sequence[LimitClaim], at: Instant) -> LimitRefusal | None:
        """Charge all claims, or none and say why not."""
        here, whole = self._standing
        shared = claims if here >= whole else self._shared(claims)
        for claim in shared:
            if claim.scope not in self._own:
                self._begin(claim, at)
            if here > 1:
                now = self._rounds.get(claim.scope)
                if now is None or not now.taken:
                    self._begin_round(claim, at)
                elif now.taken + claim.cost > now.part:
                    self.waits += 1
                    return LimitRefusal(claim, NEXT_ROUND_US)
        refusal = self._held.claim(shared, at)
        if refusal is None:
            for claim in shared:
                self._charged(claim, claim.cost, at)
        return refusal

    def put_right(self, claims: Sequence[LimitClaim], costs: Sequence[int], taken_at: Instant, at: Instant) -> None:
        """Put right what the claims were charged at `taken_at`, to `costs`; they stay reserved."""
        shared = self._shared(claims)
        self._held.put_right(shared, costs, taken_at, at)
        for claim, cost in zip(shared, costs, strict=True):
            if cost != claim.cost:
                self._corrected(claim, cost - claim.cost, taken_at, at)

    settle = put_right
    """The same, once the request has ended."""

    def _shared(self, claims: Sequence[LimitClaim]) -> Sequence[LimitClaim]:
        """The claims by the rules as they are on this side."""
        return shared_claims(claims, self._standing, self._partition)

    def _begin_round(self, claim: LimitClaim, at: Instant) -> None:
        """All have heard of what was taken: from now on so much may be taken before they have again."""
        rule = claim.rule
        [state] = self._held.look([claim])
        left = fullness(rule, state, in_window(rule, at, self._zone)).remaining
        self._rounds[claim.scope] = _Round(part_of_round(left, rule, self._standing, self._guard), left)

    def _begin(self, claim: LimitClaim, at: Instant) -> None:
        """A scope is asked for that was not before: what others have charged of it is charged here."""
        rule, scope = claim.rule, claim.scope
        hashed = _hashed(scope)
        self._own[scope] = _Own(rule, self._number(rule, at), hashed)
        self._scopes[hashed] = scope
        if len(self._own) > self._most:
            oldest, _ = self._own.popitem(last=False)
            self._scopes.pop(_hashed(oldest), None)
            self._dirty.pop(oldest, None)
            self._calm.pop(oldest, None)
            self._rounds.pop(oldest, None)
        foreign = self._foreign.get(hashed)
        if foreign:
            self._add(rule, scope, self._sum(rule, foreign, at), at)

    def _sum(self, rule: LimitRule, foreign: dict[tuple[Writer, int], int], at: Instant) -> int:
        now, last, coming = by_window(rule, self._number(rule, at), foreign)
        if not rule.width_us:
            return now
        over = counter_window(int(at.wall_s * 1_000_000), rule.width_us)[1]
        return estimate(now, last, over, rule.width_us) + coming

    def _number(self, rule: LimitRule, at: Instant) -> int:
        """The number of the window that a rule counts in."""
        return window_number(rule, self._zone, at.wall_s)

    def _add(self, rule: LimitRule, scope: str, more: int, at: Instant) -> None:
        """Others have charged so much more, or have given it back."""
        if more:
            self._held.put_right([LimitClaim(rule, scope, 0)], [more], at, at)

    def _charged(self, claim: LimitClaim, cost: int, at: Instant) -> None:
        scope = claim.scope
        own = self._own[scope]
        width = claim.rule.width_us  # what follows is as `_turn` says, without its call: every claim asks it
        if not width or own.rule is not claim.rule or int(at[1] * 1_000_000) // width != own.number:
            self._turn(own, claim.rule, at)
        own.charged += cost
        self._own.move_to_end(scope)
        now = self._rounds.get(scope)
        if now is None:
            self._tell_of(scope, at)
            return
        now.taken += cost
        if now.taken * _CALM_PART * 2 * self._standing.here < now.left:
            if scope not in self._dirty:
                self._calm.setdefault(scope, at[0] / 1_000_000)
        elif scope not in self._dirty:
            self._tell_of(scope, at)

    def _tell_of(self, scope: str, at: Instant) -> None:
        """Let all hear of a counter soon."""
        if not self._dirty:
            self.on_news()
        self._calm.pop(scope, None)
        self._dirty[scope] = None

    def _turn(self, own: _Own, rule: LimitRule, at: Instant) -> None:
        own.rule = rule
        number = window_number(rule, self._zone, at[1])
        if number != own.number:
            own.last, own.last_number = own.now, own.number
            own.last_shared, own.shared = own.shared, _NONE
            own.charged, own.refunded, own.number = 0, 0, number

    def _corrected(self, claim: LimitClaim, more: int, taken_at: Instant, at: Instant) -> None:
        own = self._own.get(claim.scope)
        if own is None:
            return
        self._turn(own, claim.rule, at)
        number = self._number(claim.rule, taken_at)
        up, down = max(0, more), max(0, -more)
        if number == own.number:
            own.charged, own.refunded = own.charged + up, own.refunded + down
        elif number == own.last_number:
            own.last = MemberCount(own.last.charged + up, own.last.refunded + down)
        if is_places(claim.rule) or abs(more) * 2 * _CALM_PART >= claim.rule.capacity:
            self._tell_of(claim.scope, at)
        elif claim.scope not in self._dirty:
            self._calm.setdefault(claim.scope, at[0] / 1_000_000)

    # ---------------------------------------------------------------------------------------------------------- the mesh

    def stands(self, standing: SideStanding, now: float) -> None:
        """Others have come or gone."""
        if standing != self._standing:
            self._standing = standing
            self._rounds.clear()
            self._queue.clear()

    def tell(self, node: Node, now: float) -> None:
        """Say what was charged here, and begin a new round once all have heard of the last one."""
        if self._heard_some:
            self._heard_some = False
            node.answer_soon()
        wall_s = self._wall()
        for scope in self._to_tell(now, wall_s):
            own = self._own.get(scope)
            if own is not None:
                self._say(node, scope, own, now, wall_s)
        known = node.all_know if self._queue else 0
        while self._queue and self._queue[0][0] <= known:
            version, scope = self._queue.popleft()
            found = self._rounds.get(scope)
            if found is not None and found.version == version:
                del self._rounds[scope]
        if now >= self._again_at:
            self._again_at = now + _PLACES_AGAIN_S
            self._dirty |= {scope: None for scope, own in self._own.items() if is_places(own.rule) and own.now.used}

    def _to_tell(self, now: float, wall_s: float) -> list[str]:
        """The counters that are told of now: those that wait for it, and some of which little was taken a while ago. Of these all
        gateways tell at the same times of the day, so that what each answers goes for the words of all."""
        found = list(islice(self._dirty, _MOST_A_PERIOD))
        for scope in found:
            del self._dirty[scope]
        turn = int(wall_s / _CALM_EACH_S)
        if turn != self._calm_turn:
            self._calm_turn = turn
            calm = [scope for scope, since in islice(self._calm.items(), _MOST_CALM) if now - since >= _CALM_S]
            for scope in calm:
                del self._calm[scope]
            found += calm
        return found

    def _say(self, node: Node, scope: str, own: _Own, now: float, wall_s: float) -> None:
        """Tell of one counter; what was taken of it is known to all once they know the version that this has."""
        hashed = own.hashed
        space = Space.LOAD if is_places(own.rule) else Space.COUNTER
        key = written_counter_key(CountedWindow(hashed, own.number))
        own.shared = own.now
        node.put(space, key, written_count(own.shared), lasts_s(own.rule, own.number, self._zone, wall_s), now)
        if own.last != own.last_shared and own.rule.width_us:
            last_s = lasts_s(own.rule, own.last_number, self._zone, wall_s)
            key = written_counter_key(CountedWindow(hashed, own.last_number))
            if node.put(space, key, written_count(own.last), last_s, now):
                own.last_shared = own.last
        found = self._rounds.get(scope)
        if found is not None and not found.version:
            found.version = node.replica.version
            self._queue.append((found.version, scope))

    def hear(self, changes: Sequence[MeshChange], now: float) -> None:
        """Others have charged something."""
        self._heard_some = True
        at = Instant(int(now * 1_000_000), self._wall())
        claims: list[LimitClaim] = []
        more: list[int] = []
        for change in changes:
            try:
                window = read_counter_key(change.key)
                used = read_count(change.value).used if change.value else 0
            except msgspec.MsgspecError:
                continue
            before = self._note(change, window, used)
            scope = self._scopes.get(window.scope)
            if scope is None or used == before or (not change.value and change.space == Space.COUNTER):
                continue  # nobody asks for it here, or its window is over
            rule = self._own[scope].rule
            if rule.width_us or window.number == self._number(rule, at):
                claims.append(LimitClaim(rule, scope, 0))  # of a rate it is of now, whatever the other one's clock says
                more.append(used - before)
        if claims:
            self._held.put_right(claims, more, at, at)

    def _note(self, change: MeshChange, window: CountedWindow, used: int) -> int:
        """Note what another gateway has charged in a window; what was known of it before."""
        foreign = self._foreign.get(window.scope)
        place = change.writer, window.number
        if change.value:
            if foreign is None:
                foreign = self._foreign[window.scope] = {}
            before = foreign.get(place, 0)
            foreign[place] = used
            return before
        before = foreign.pop(place, 0) if foreign is not None else 0
        if not foreign:
            self._foreign.pop(window.scope, None)
        return before


def window_number(rule: LimitRule, zone: str, wall_s: float) -> int:
    """The number of the window that a rule counts in at that time."""
    if width := rule.width_us:
        return int(wall_s * 1_000_000) // width  # as `counter_window` says, without its call: every claim asks it
    return window_at(rule.window, zone, int(wall_s) // QUARTER_S)[0] if rule.calendar else 0


def by_window(rule: LimitRule, number: int, foreign: dict[tuple[Writer, int], int]) -> tuple[int, int, int]:
    """What others have charged in the window of that number, the one before and the next. Of a rate, the last words of a gateway
    whose clock is far off are of now."""
    used = [0, 0, 0]
    if not rule.width_us:
        return sum(each for (_, at), each in foreign.items() if at == number), 0, 0
    latest: dict[Writer, int] = {}
    for writer, at in foreign:
        latest[writer] = max(at, latest.get(writer, at))
    behind = 3 + _LATE_US // rule.width_us
    for (writer, at), each in foreign.items():
        off = latest[writer] - number
        place = at - number - (off if off > 1 or off < -behind else 0)
        if -1 <= place <= 1:
            used[place] += each
    return used[0], used[-1], used[1]


def lasts_s(rule: LimitRule, number: int, zone: str, wall_s: float) -> float:
    """For how long a count matters: to the end of the next window, of the calendar's own, or until the next word."""
    if rule.width_us:
        ends = (number + 2) * rule.width_us / 1_000_000
    elif rule.calendar:
        ends = window_at(rule.window, zone, int(wall_s) // QUARTER_S)[1] or float("inf")
    else:
        return _PLACES_LAST_S
    return max(1.0, min(ends - wall_s, 32 * 86_400.0))


def part_of_round(left: int, rule: LimitRule, standing: SideStanding, guard: float) -> int:
    """How much of what is left a gateway may take before all have heard of it."""
    return max(left // (2 * standing.here), min(left, int(guard * rule.capacity / standing.whole)))


def shared_claims(
    claims: Sequence[LimitClaim], standing: SideStanding, partition: Literal["majority", "strict"]
) -> Sequence[LimitClaim]:
    """The claims by the rules as they are on this side of a split."""
    here, whole = standing
    if here >= whole or (partition == "majority" and standing.majority):
        return claims
    found = []
    for each in claims:
        rule = _part_of(each.rule, here, whole)
        found.append(LimitClaim(rule, each.scope, min(each.cost, rule.capacity)))
    return found


def is_places(rule: LimitRule) -> bool:
    """Whether a rule counts requests at once, which end when their gateway does."""
    return not rule.width_us and not rule.calendar


def _part_of(rule: LimitRule, here: int, whole: int) -> LimitRule:
    """A rule of which this side has its share."""
    amount, burst = max(1, rule.amount * here // whole), max(1, rule.burst * here // whole) if rule.burst else 0
    return attrs.evolve(rule, amount=amount, burst=burst)
