"""The mesh as one gateway sees it, at the admin door (edge): members, what is known of each, what was sent and refused.

Above: admin.app. Below: the gateway's mesh.
"""

from typing import Literal

import msgspec
from msgspec import Struct

from smg_core.admin.answers import admin_operation, respond_json
from smg_core.http.endpoint import Endpoint
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.serving.services import Services

__all__ = ["MESH", "MeshAnswer", "MeshMemberRow", "mesh_routes"]


class MeshMemberRow(Struct):
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
    members: list[MeshMemberRow] = []


MESH = admin_operation(
    "adminMesh",
    "The gateways of the mesh as this one sees them: who is there, what it knows of each, how much is kept and sent.",
    "mesh",
    None,
    MeshAnswer,
)


def mesh_routes(services: Services) -> tuple[Route[Endpoint], ...]:
    """The route."""

    async def members(exchange: Exchange) -> None:
        seen = services.running.mesh_seen
        answer = MeshAnswer("off") if seen is None else msgspec.convert(await seen(), MeshAnswer)
        await respond_json(services, exchange, answer)

    return (Route("GET", "/admin/mesh", Endpoint(members, "admin.health", about=MESH)),)
