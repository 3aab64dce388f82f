"""The mesh as one gateway sees it, as it is shown to people: members, what is known of each, what was sent and refused. Pure.

Above: the admin door shows it, the gateway's mesh fills it in. Below: nothing.
"""

from typing import Literal

from msgspec import Struct

__all__ = ["MeshAnswer", "MeshMemberShown"]


class MeshMemberShown(Struct):
    """Another gateway: `known` is the version up to which this one knows its words, `acknowledged` up to which it knows this
    one's, and `silent_s` the seconds since it was heard. `differing` are the sections in which its settings are other ones."""

    name: str
    state: Literal["alive", "suspected"]
    place: str
    software: str
    formats: str
    known: int
    acknowledged: int
    silent_s: float
    differing: list[str]


class MeshAnswer(Struct):
    """The mesh of a gateway: its `kind` ("off": there is none), its own name and place, how many gateways are on this side of a
    split and in the whole, the format that all speak, the version of its own last word, how many entries and bytes it keeps of
    all, and how many messages and bytes it has sent and received. `refused` are messages and entries that were not taken, by the
    reason."""

    kind: str
    name: str = ""
    place: str = ""
    here: int = 1
    whole: int = 1
    majority: bool = True
    format: int | None = None
    version: int = 0
    entries: int = 0
    bytes: int = 0
    sent: int = 0
    sent_bytes: int = 0
    received: int = 0
    received_bytes: int = 0
    refused: dict[str, int] = {}
    members: list[MeshMemberShown] = []
