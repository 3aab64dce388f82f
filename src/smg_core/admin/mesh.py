"""The mesh as one gateway sees it, at the admin door (edge).

Above: admin.app. Below: the gateway's mesh.
"""

from smg_core.admin.answers import admin_operation, respond_json
from smg_core.http.endpoint import Endpoint
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.mesh.seen import MeshAnswer
from smg_core.serving.services import Services

__all__ = ["MESH", "mesh_routes"]

MESH = admin_operation(
    "adminMesh",
    "The gateways of the mesh as this one sees them: who is there, what it knows of each, how much is kept and sent.",
    "mesh",
    None,
    MeshAnswer,
)


def mesh_routes(services: Services) -> tuple[Route[Endpoint], ...]:
    """The route."""

    async def shown(exchange: Exchange) -> None:
        seen = services.running.mesh_seen
        await respond_json(services, exchange, MeshAnswer("off") if seen is None else await seen())

    return (Route("GET", "/admin/mesh", Endpoint(shown, "admin.health", about=MESH)),)
