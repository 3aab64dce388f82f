"""Notices a gateway that is its own MCP server, also behind others: by a header that says through whom a request came.

The header has the marks of the gateways that a request has gone through, the first of them first. Pure. Above: `opening`, the
gateway's own MCP server. Below: the errors.
"""

import re
from collections.abc import Mapping

from smg_core.errors import Conflict

__all__ = ["hops_header", "next_hops"]

_NAME = "smg-mcp-hops"
_MOST = 4
"""Gateways that a request may go through."""
_MARKS = re.compile(r"[0-9A-Za-z_.-]{1,64}(?:,[0-9A-Za-z_.-]{1,64}){0,15}")


def hops_header(*marks: str) -> dict[str, str]:
    """The header that the last gateway of these marks sends to its servers."""
    return {_NAME: ",".join(marks)}


def next_hops(headers: Mapping[str, str], mark: str) -> dict[str, str]:
    """The header for the servers that are asked for a request with these headers. Raises Conflict for a request that came through
    this gateway already, or through too many."""
    sent = headers.get(_NAME)
    if sent is None:
        return hops_header(mark)
    passed = sent.split(",") if _MARKS.fullmatch(sent) else [""] * _MOST
    if mark in passed:
        raise Conflict("This gateway is one of its own MCP servers, or one behind these.", code="mcp_loop")
    if len(passed) >= _MOST:
        raise Conflict(f"This request came through {_MOST} gateways, each the MCP server of the next.", code="mcp_loop")
    return hops_header(*passed, mark)
