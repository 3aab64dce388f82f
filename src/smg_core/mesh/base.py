"""The roles of a mesh: who is there, and how a message goes to one member or to all.

A carrier calls what hears it (`Ears`) on the event loop, with the names that the membership knows and no others. Messages are
best effort: one may be lost, doubled or late, and what is said in it is right in any order. Pure. Above: `member`, the carriers.
Below: the formats.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

import attrs

__all__ = ["Carrier", "Ears", "MemberState", "Membership", "MeshLink", "SeenMember", "Unreachable"]

MemberState = Literal["alive", "suspected"]


class Unreachable(Exception):
    """A message could not be sent: there is no such member, or it is too large, or nothing carries it now."""


@attrs.frozen
class SeenMember:
    """Another member: `formats` are those that it speaks, `version` is that of its software, `place` where it is."""

    name: str
    formats: str = ""
    version: str = ""
    place: str = ""
    state: MemberState = "alive"


class Ears(Protocol):
    """Who is called when something of the mesh is heard."""

    def came(self, member: SeenMember) -> None:
        """A member is there, or is there again after it was lost, or has begun anew."""

    def suspected(self, name: str) -> None:
        """A member has not been heard for a while."""

    def recovered(self, name: str) -> None:
        """A member that was suspected has been heard."""

    def lost(self, name: str) -> None:
        """A member is gone without a word."""

    def left(self, name: str) -> None:
        """A member has said that it goes."""

    def heard(self, sender: str, data: bytes) -> None:
        """A member has sent a message."""


class Membership(Protocol):
    """Who is there."""

    @property
    def members(self) -> Sequence[SeenMember]:
        """The other members that are there, suspected ones included."""

    @property
    def refused(self) -> int:
        """Messages that were sealed by no key that is known, or are of nobody."""

    @property
    def place(self) -> str:
        """Where this member can be reached, for people and for seeds."""


class Carrier(Protocol):
    """How a message goes to others. `largest` is the most bytes that one may have."""

    @property
    def largest(self) -> int: ...

    async def send(self, to: str, data: bytes) -> None:
        """Send a message to one member. Raises Unreachable."""

    async def send_all(self, data: bytes) -> None:
        """Send a message to all that are there. Raises Unreachable where nothing carries it; one that is not reached is none."""

    async def adopt_keys(self, keys: Sequence[bytes]) -> None:
        """Use the first of these keys from now on, and take what any of them has sealed."""


class MeshLink(Membership, Carrier, Protocol):
    """One member's link to the mesh: both roles, from when it is opened to its end."""

    def opened(self, ears: Ears) -> AbstractAsyncContextManager[None]:
        """A context in which this member is there; it leaves with a word. Raises OSError and ConfigError."""
