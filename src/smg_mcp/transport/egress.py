"""The URLs that an MCP client may ask: the rules of `smg_egress`, in this package's words.

Above: `wire`, `tools`. Below: `records.settings`, smg_egress. Pure. A server of the configuration may be where the operator
says, even on a private network; what it leads to (an authorization server) and what a request names are held to the egress
settings.
"""

from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlsplit

from smg_egress import UrlRules
from smg_mcp.records.errors import McpConfigError, McpForbidden
from smg_mcp.records.settings import EgressSettings, McpServer

__all__ = ["McpUrlRules", "rules_for_request", "rules_for_server"]


@dataclass(frozen=True, slots=True)
class McpUrlRules(UrlRules):
    """`UrlRules` for MCP servers."""

    refusal: ClassVar[type[ValueError]] = McpForbidden

    what: str = "an MCP server's answer"


def rules_for_request(settings: EgressSettings) -> McpUrlRules:
    """The rules for servers that a request names."""
    return McpUrlRules(
        schemes=frozenset(settings.schemes),
        hosts=None if settings.hosts is None else frozenset(settings.hosts),
        ports=frozenset(settings.ports),
        private=frozenset(settings.private),
    )


def rules_for_server(server: McpServer, settings: EgressSettings) -> McpUrlRules:
    """The rules for a server of the configuration: its own host, port and scheme, and (for OAuth) its issuer's, are allowed."""
    oauth = server.oauth
    urls = [url for url in (server.url, oauth.issuer if oauth else None) if url]
    schemes: set[str] = set(settings.schemes)
    ports, private = set(settings.ports), set(settings.private)
    for url in urls:
        try:
            parts = urlsplit(url)
            port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        except (KeyError, ValueError) as error:
            raise McpConfigError(f"mcp.servers.{server.name}: a URL of it is no http or https URL") from error
        schemes.add(parts.scheme)
        ports.add(port)
        private.add((parts.hostname or "").rstrip(".").lower())
    return McpUrlRules(schemes=frozenset(schemes), ports=frozenset(ports), private=frozenset(private))
