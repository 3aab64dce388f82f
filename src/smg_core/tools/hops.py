"""Notices a gateway that is its own MCP server, or one behind others: by a header that says through whom a request came.

The header has the mark of the gateway that sends it, and how many gateways the request has gone through. Pure. Above: `opening`,
the gateway's own MCP server. Below: the errors.
"""

from collections.abc import Mapping

from smg_core.errors import Conflict

__all__ = ["hops_header", "next_hops"]

_NAME = "smg-mcp-hops"
_MOST = 4
"""Gateways that a request may go through. A loop of several gateways ends here; one of a single gateway at its own mark."""


def hops_header(mark: str, count: int) -> dict[str, str]:
    """The header that the gateway of this mark sends to its servers."""
    return {_NAME: f"{mark};{count}"}


def next_hops(headers: Mapping[str, str], mark: str) -> dict[str, str]:
    """The header for the servers that are asked for a request with these headers. Raises Conflict for a request that came through
    this gateway already, or through too many."""
    sent = headers.get(_NAME)
    if sent is None:
        return hops_header(mark, 1)
    by, _, count = sent.partition(";")
    passed = int(count) if count.isascii() and count.isdecimal() and len(count) < 4 else _MOST
    if by == mark:
        raise Conflict("This gateway is named as one of its own MCP servers.", code="mcp_loop")
    if passed >= _MOST:
        raise Conflict(f"This request came through {_MOST} gateways, each the MCP server of the next.", code="mcp_loop")
    return hops_header(mark, passed + 1)
