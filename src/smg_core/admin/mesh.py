"""The mesh as one gateway sees it, at the admin door (edge): members, what is known of each, what was sent and refused.

Above: admin.app. Below: the gateway's mesh.
"""

from typing import Literal

from msgspec import Struct

from smg_core.admin.answers import admin_operation, respond_json
from smg_core.http.endpoint import Endpoint
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.serving.services import Services

__all__ = ["MESH", "MeshAnswer", "MeshMemberShown", "mesh_routes"]


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


MESH = admin_operation(
    "adminMesh",
    "The gateways of the mesh as this one sees them: who is there, what it knows of each, how much is kept and sent.",
    "mesh",
    None,
    MeshAnswer,
)
_REFUSALS = ("unknown", "forged", "malformed", "other_kinds", "diverged", "rose")


def mesh_routes(services: Services) -> tuple[Route[Endpoint], ...]:
    """The route."""

    async def shown(exchange: Exchange) -> None:
        await respond_json(services, exchange, _shown(services))

    return (Route("GET", "/admin/mesh", Endpoint(shown, "admin.health", about=MESH)),)


def _shown(services: Services) -> MeshAnswer:
    mesh = services.running.mesh
    if mesh is None:
        return MeshAnswer("off")
    member = mesh.member
    node, now = member.node, member.clock.monotonic()
    replica, standing, differing = node.replica, node.standing(now), mesh.differing
    rows = []
    for seen in sorted(member.link.members, key=lambda each: each.name):
        writer, peer = replica.latest(seen.name), node.peers.get(seen.name)
        rows.append(
            MeshMemberShown(
                seen.name,
                seen.state,
                seen.place,
                seen.version,
                seen.formats,
                replica.version_of(writer) if writer is not None else 0,
                peer.acked if peer is not None else 0,
                round(now - peer.heard_at, 3) if peer is not None else 0.0,
                list(differing.get(seen.name, ())),
            )
        )
    tally = node.tally
    refused = {name: tally[name] for name in _REFUSALS if tally[name]}
    refused |= {"entries": replica.refused} if replica.refused else {}
    refused |= {"unsent": member.unsent} if member.unsent else {}
    refused |= {"skewed": mesh.skewed} if mesh.skewed else {}
    return MeshAnswer(
        mesh.kind,
        member.name,
        member.link.place,
        standing.here,
        standing.whole,
        standing.majority,
        node.format,
        replica.version,
        replica.entries,
        replica.size,
        tally["sent"],
        tally["sent_bytes"],
        tally["received"],
        tally["received_bytes"],
        refused,
        rows,
    )
