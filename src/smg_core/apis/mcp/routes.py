"""The routes of the gateway as an MCP server, `/mcp`, and the loading of that server (edge).

Above: `apis.rows`. Below: `server`.
"""

from smg_core.apis.mcp.wire import MCP_PATH, mcp_error
from smg_core.auth.roles import PUBLIC
from smg_core.errors import NotFound
from smg_core.http.endpoint import Endpoint, Handler
from smg_core.http.envelopes import EnvelopeRule
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.json_types import JsonObject
from smg_core.serving.services import Services
from smg_core.serving.spec import ApiContext, ApiName, ApiSpec, again
from smg_core.wire.operation import EVENT_STREAM, Operation, OperationResponse

__all__ = ["SPEC"]

_METADATA = "/.well-known/oauth-protected-resource"
_OPERATION = Operation(
    "mcp",
    "Messages of the Model Context Protocol (JSON-RPC) to this gateway as a server of tools.",
    "mcp",
    None,
    (OperationResponse(200, "The answer, as JSON or as events.", JsonObject), OperationResponse(202, "Taken.")),
)
_CHANGES = Operation(
    "mcp_changes",
    "What has changed, for a client with a session.",
    "mcp",
    None,
    (OperationResponse(200, "Events.", None, EVENT_STREAM),),
)
_METADATA_READ = Operation(
    "mcp_metadata",
    "Who gives tokens for /mcp (RFC 9728).",
    "mcp",
    None,
    (OperationResponse(200, "The metadata.", JsonObject),),
)
_END = Operation("mcp_end", "Ends a session.", "mcp", None, (OperationResponse(204, "Ended."),))


async def _nothing_here(exchange: Exchange) -> None:
    raise NotFound("This gateway is no MCP server; mcp.serve makes it one.")


def _handlers(services: Services) -> tuple[Handler, Handler, Handler, Handler]:
    """What answers POST, GET and DELETE at `/mcp`, and the metadata."""
    if services.live.config.mcp.serve == "off":
        return _nothing_here, _nothing_here, _nothing_here, _nothing_here
    from smg_core.apis.mcp.server import McpEndpoint

    server = McpEndpoint(services)
    return server.post, server.stream, server.end, server.metadata


def _mcp_routes(context: ApiContext) -> tuple[Route[Endpoint], ...]:
    post, stream, end, metadata = _handlers(context.services)
    read = Endpoint(metadata, PUBLIC, about=_METADATA_READ)
    return (
        Route("POST", MCP_PATH, Endpoint(post, "mcp", reads_json=True, about=_OPERATION)),
        Route("GET", MCP_PATH, Endpoint(stream, "mcp", about=_CHANGES)),
        Route("DELETE", MCP_PATH, Endpoint(end, "mcp", about=_END)),
        Route("GET", _METADATA, read),
        Route("GET", _METADATA + MCP_PATH, again(read, "of_mcp")),
    )


SPEC = ApiSpec(
    (ApiName("mcp"),),
    {"mcp": "/mcp: tools, resources and prompts of MCP servers and functions, by the Model Context Protocol"},
    _mcp_routes,
    (EnvelopeRule(MCP_PATH, mcp_error, metadata=_METADATA + MCP_PATH),),
)
