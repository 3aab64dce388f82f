"""The shares of what is scarce, and the order of those who wait: fetches at once, decoders, bytes of tensors in flight.

Above: `places`, which waits, and `fetching.fetch`, which counts bytes. Below: nothing. Pure: nobody waits here, so that every
order of events is a test. A claim that does not fit stands in a queue. Of those that wait, the one whose tenant holds least is
next, and no tenant (or host) that has a name holds more than its share, so that one cannot stand in everybody's way. A step
takes a millisecond at most, however many wait and however many of them are next.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from smg_multimodal.records.errors import MediaBusy, MediaTooLarge

__all__ = ["Allotment", "ByteCount", "Claim"]


@dataclass(eq=False, slots=True)
class Claim:
    """`amount` of something, wanted or held. `keys` say for whom: the tenant first, then whatever else has a share (a host).
    A key "" is a caller without a name, to whom no share applies. `continues`: who asks holds a claim already, which nobody else
    gets before this one is held; it comes before all others, and no share applies. `number` is its place among all that asked."""

    amount: int
    keys: tuple[str, ...] = ()
    held: bool = False
    continues: bool = False
    number: int = 0

    @property
    def group(self) -> tuple[bool, tuple[str, ...]]:
        """Claims of one group are held in the order in which they came."""
        return self.continues, self.keys


_Turn = tuple[bool, int, int, tuple[bool, tuple[str, ...]]]
"""Whether it begins, what its tenant holds, its number, and its group."""


class Allotment:
    """`total` of something, divided among claims.

    `shares[i]` is the most that claims with the same `keys[i]` hold together; one claim that is larger than its share is held
    alone. At most `waiting` claims stand in the queue, of which those of one tenant with a name are three quarters at most. What
    is held and what waits change by these methods alone.
    """

    def __init__(self, total: int, shares: Sequence[int] = (), *, waiting: int = 1024) -> None:
        self.total = total
        self._shares = tuple(shares)
        self._most_waiting = waiting
        self._used = 0
        self._by_key: Counter[tuple[int, str]] = Counter()
        self._queues: dict[tuple[bool, tuple[str, ...]], deque[Claim]] = {}
        self._waiting: Counter[str] = Counter()  # how many claims of each tenant
        self._asked = 0

    @property
    def used(self) -> int:
        """How much is held."""
        return self._used

    @property
    def waiting(self) -> int:
        """How many claims wait."""
        return self._waiting.total()

    def ask(self, claim: Claim) -> None:
        """Hold `claim` now, or queue it: `claim.held` says which. Raises MediaTooLarge for more than there is at all, MediaBusy
        where the queue is full."""
        if claim.amount > self.total:
            raise MediaTooLarge(
                f"the media take {claim.amount} bytes of memory; there are {self.total} for those of all requests"
            )
        self._asked += 1
        claim.number = self._asked
        self._queues.setdefault(claim.group, deque()).append(claim)
        self._waiting[_tenant(claim)] += 1
        self._grant()
        if not claim.held and self._is_too_long_for(claim):
            self._leave(claim)
            raise MediaBusy("too many media wait to be processed")

    def release(self, claim: Claim) -> list[Claim]:
        """`claim` is over, held or not; may be called again. Returns the claims that are held from now on."""
        if claim.held:
            self._count(claim, -claim.amount)
            claim.held = False
        elif claim in self._queues.get(claim.group, ()):
            self._leave(claim)
        return self._grant()

    def shrink(self, claim: Claim, amount: int) -> list[Claim]:
        """`claim` needs no more than `amount` from now on. Returns the claims that are held from now on."""
        if claim.held and amount < claim.amount:
            self._count(claim, amount - claim.amount)
            claim.amount = amount
        return self._grant()

    def _count(self, claim: Claim, amount: int) -> None:
        self._used += amount
        for place, key in enumerate(claim.keys):
            self._by_key[place, key] += amount
            if not self._by_key[place, key]:
                del self._by_key[place, key]

    def _leave(self, claim: Claim) -> None:
        """`claim` waits no longer."""
        queue = self._queues[claim.group]
        queue.remove(claim)
        if not queue:
            del self._queues[claim.group]
        tenant = _tenant(claim)
        self._waiting[tenant] -= 1
        if not self._waiting[tenant]:
            del self._waiting[tenant]

    def _grant(self) -> list[Claim]:
        """Hold the claims whose turn it is. Only the first of each group is looked at, and those whose tenant holds more than it
        did a moment ago are put in their new place when they come up."""
        granted: list[Claim] = []
        if self._used >= self.total:
            return granted
        turns = [self._turn(queue[0]) for queue in self._queues.values()]
        heapify(turns)
        while turns:
            group = turns[0][-1]
            following = self._queues[group][0]
            turn = self._turn(following)
            if turn != turns[0]:
                heapreplace(turns, turn)
            elif not self._within_shares(following):
                heappop(turns)
            elif self._used + following.amount > self.total:
                break  # smaller ones behind it wait too, else it might wait for ever
            else:
                self._leave(following)
                self._count(following, following.amount)
                following.held = True
                granted.append(following)
                if group in self._queues:
                    heapreplace(turns, self._turn(self._queues[group][0]))
                else:
                    heappop(turns)
        return granted

    def _turn(self, claim: Claim) -> _Turn:
        """What decides who is next, the smallest first. No two claims are alike, since each has a number of its own."""
        return not claim.continues, self._by_key[0, _tenant(claim)] if claim.keys else 0, claim.number, claim.group

    def _is_too_long_for(self, claim: Claim) -> bool:
        """Whether the queue is longer than it may be for the tenant of a claim that stands in it."""
        if self.waiting > self._most_waiting:
            return True
        tenant = _tenant(claim)
        return bool(tenant) and self._waiting[tenant] > max(1, self._most_waiting * 3 // 4)

    def _within_shares(self, claim: Claim) -> bool:
        if claim.continues:
            return True
        for place, (key, share) in enumerate(zip(claim.keys, self._shares, strict=False)):
            held = self._by_key[place, key] if key else 0
            if held and held + claim.amount > share:
                return False
        return True


def _tenant(claim: Claim) -> str:
    return claim.keys[0] if claim.keys else ""


class ByteCount:
    """Bytes of all files of one request, counted while they are read. `add` raises MediaTooLarge beyond `most`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = 0

    @property
    def left(self) -> int:
        """How many more bytes may come."""
        return self.most - self.count

    def add(self, count: int) -> None:
        """`count` more bytes are here."""
        self.count += count
        if self.count > self.most:
            raise MediaTooLarge(f"the request's media have more than {self.most} bytes together")
