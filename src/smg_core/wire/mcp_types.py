"""What Responses and the extension of Chat say alike of a server of tools: which of its tools are meant, and which need approval.

Keys that a type does not have are passed over, as in the tools of Responses. Above: the wire types of both APIs. Below: msgspec.
"""

from msgspec import Struct

__all__ = ["McpApproval", "McpToolFilter"]


class McpToolFilter(Struct, gc=False):
    """Tools of these names, and of them those that only read (True) or that may write (False)."""

    tool_names: list[str] | None = None
    read_only: bool | None = None


class McpApproval(Struct, gc=False):
    """The tools whose calls always need approval, and those whose calls never do."""

    always: McpToolFilter | None = None
    never: McpToolFilter | None = None
