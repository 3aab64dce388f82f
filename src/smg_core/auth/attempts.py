"""Limits how often wrong credentials may be tried.

Failures are counted for an address, and for an address together with the beginning of the credential; at a bound, further
credentials of that address are refused unchecked until the time window has passed. What is in memory (`KnowsCallers`), also where
it has to be read again, is never refused here: an attacker behind the same proxy locks nobody out whose key is in use. An IPv6
network of 64 bits counts as one address. Pure: the time is an argument. Above: `identity.identity`. Below: `errors`.
"""

import ipaddress
from collections import OrderedDict
from collections.abc import Hashable

from smg_core.errors import RateLimited

__all__ = ["Attempts", "network_of"]

_PREFIX = 12
"""Characters of a credential by which guesses that begin alike are counted together."""
_HOST_BYTES = 8  # of an IPv6 address, the part that its user chooses


class _Counter:
    """How often each thing has happened within its window; at most `most` things are remembered, those that happened last."""

    def __init__(self, allowed: int, window: float, most: int) -> None:
        self._allowed, self._window, self._most = allowed, window, most
        self._seen: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def wait(self, what: Hashable, now: float) -> float:
        """Seconds until this may be tried again; 0 for now."""
        since, count = self._seen.get(what, (now, 0))
        return max(0.0, since + self._window - now) if count >= self._allowed else 0.0

    def add(self, what: Hashable, now: float) -> None:
        since, count = self._seen.get(what, (now, 0))
        if now - since >= self._window:
            since, count = now, 0
        self._seen[what] = since, count + 1
        self._seen.move_to_end(what)
        if len(self._seen) > self._most:
            self._seen.popitem(last=False)

    def __len__(self) -> int:
        return len(self._seen)


class Attempts:
    """The failures of the last `window` seconds. `alike` is how many an address may have with credentials that begin alike,
    `in_all` how many with any; `most` bounds what is remembered of each."""

    def __init__(self, alike: int, in_all: int, *, window: float, most: int) -> None:
        self._pairs = _Counter(alike, window, most)
        self._addresses = _Counter(in_all, window, most)

    def check(self, address: str, credential: str, now: float) -> None:
        """Raise RateLimited where the address has failed too often. An address that is not known ("") is not counted."""
        if not address:
            return
        network = network_of(address)
        pair = network, credential[:_PREFIX]
        wait = max(self._addresses.wait(network, now), self._pairs.wait(pair, now))
        if wait:
            raise RateLimited("Too many wrong credentials; try again later.", retry_after=wait)

    def failed(self, address: str, credential: str, now: float) -> None:
        """Count a failure."""
        if address:
            network = network_of(address)
            self._addresses.add(network, now)
            self._pairs.add((network, credential[:_PREFIX]), now)

    def __len__(self) -> int:
        """How many things are remembered."""
        return len(self._addresses) + len(self._pairs)


def network_of(address: str) -> str:
    """The address, or of IPv6 its network: who has one has 2**64 addresses."""
    if ":" not in address:
        return address
    try:
        found = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return found.packed[:_HOST_BYTES].hex()
