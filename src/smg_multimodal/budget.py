"""Who may use how much of what is scarce, and who is next: fetches at once, decoders, bytes of tensors in flight.

Above: `places`, which waits, and `fetch`, which counts bytes. Below: nothing. Pure: nobody waits here, so that every order of
events is a test. A claim that does not fit stands in a queue. Of those that wait, the one whose tenant holds least is next, and
no tenant (or host) that has a name holds more than its share, so that one cannot stand in everybody's way.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from smg_multimodal.errors import MediaBusy, MediaTooLarge

__all__ = ["Allotment", "ByteCount", "Claim"]


@dataclass(eq=False, slots=True)
class Claim:
    """`amount` of something, wanted or held. `keys` say for whom: the tenant first, then whatever else has a share (a host).
    A key "" is a caller without a name, to whom no share applies."""

    amount: int
    keys: tuple[str, ...] = ()
    held: bool = False


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
        self._queue: list[Claim] = []

    @property
    def used(self) -> int:
        """How much is held."""
        return self._used

    @property
    def waiting(self) -> int:
        """How many claims wait."""
        return len(self._queue)

    def ask(self, claim: Claim) -> None:
        """Hold `claim` now, or queue it: `claim.held` says which. Raises MediaTooLarge for more than there is at all, MediaBusy
        where the queue is full."""
        if claim.amount > self.total:
            raise MediaTooLarge(
                f"the media take {claim.amount} bytes of memory; there are {self.total} for those of all requests"
            )
        self._queue.append(claim)
        self._grant()
        if not claim.held and self._is_too_long_for(claim):
            self._queue.remove(claim)
            raise MediaBusy("too many media wait to be processed")

    def release(self, claim: Claim) -> list[Claim]:
        """`claim` is over, held or not; may be called again. Returns the claims that are held from now on."""
        if claim.held:
            self._count(claim, -claim.amount)
            claim.held = False
        elif claim in self._queue:
            self._queue.remove(claim)
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

    def _grant(self) -> list[Claim]:
        granted: list[Claim] = []
        while True:
            ready = [claim for claim in self._queue if self._within_shares(claim)]
            if not ready:
                return granted
            following = min(ready, key=self._tenant_holds)  # the first of those that are alike
            if self._used + following.amount > self.total:
                return granted  # smaller ones behind it wait too, else it might wait for ever
            self._queue.remove(following)
            self._count(following, following.amount)
            following.held = True
            granted.append(following)

    def _is_too_long_for(self, claim: Claim) -> bool:
        """Whether the queue is longer than it may be for the tenant of a claim that stands in it."""
        if len(self._queue) > self._most_waiting:
            return True
        tenant = claim.keys[0] if claim.keys else ""
        if not tenant:
            return False
        own = sum(each.keys[0] == tenant for each in self._queue if each.keys)
        return own > max(1, self._most_waiting * 3 // 4)

    def _within_shares(self, claim: Claim) -> bool:
        for place, (key, share) in enumerate(zip(claim.keys, self._shares, strict=False)):
            held = self._by_key[place, key] if key else 0
            if held and held + claim.amount > share:
                return False
        return True

    def _tenant_holds(self, claim: Claim) -> int:
        return self._by_key[0, claim.keys[0]] if claim.keys else 0


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
