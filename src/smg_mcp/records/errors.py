"""The errors between a call of a tool and its result.

    McpError                       root; never raised itself
    +-- McpConfigError       500   the configuration is wrong; the message names the place
    +-- McpForbidden         400   the egress rules do not allow the server's address
    +-- McpUnknownTool       404   no tool, or no server, of that name is there for this tenant
    +-- McpBadArguments      400   the arguments are no object of JSON
    +-- McpDenied            403   the policy does not allow the call
    |   +-- McpNeedsApproval 403   the policy asks: the call may be made once somebody has approved it
    +-- McpRefused       401/403   the server refused the credentials; its status is passed on
    +-- McpUnavailable       502   the server cannot be reached, or was lost in the call
    +-- McpBadAnswer         502   the server broke the protocol or a bound
    +-- McpTimeout           504   the server did not answer in time
    +-- McpBusy              503   every session is in use; the call may be made again later

A tool's own error is none of these: it is a `ToolOutcome` with `is_error`. Decided here: the names, and the HTTP status that a
gateway should answer with. Messages are written for the client: they hold no credentials and no address inside.
"""

from typing import ClassVar

__all__ = [
    "McpBadAnswer",
    "McpBadArguments",
    "McpBusy",
    "McpConfigError",
    "McpDenied",
    "McpError",
    "McpForbidden",
    "McpNeedsApproval",
    "McpRefused",
    "McpTimeout",
    "McpUnavailable",
    "McpUnknownTool",
]


class McpError(Exception):
    """Root of what is told to the caller; `str(error)` is safe to show."""

    status: int = 502
    code: ClassVar[str] = "mcp_error"
    may_have_run = False
    """Whether the server may have done what was asked, so that asking again may do it twice."""


class McpConfigError(McpError):
    """The configuration cannot be used. The message begins with the path of the value."""

    status = 500
    code = "mcp_configuration"


class McpForbidden(McpError, ValueError):
    """The egress rules do not allow this address."""

    status = 400
    code = "mcp_forbidden"


class McpUnknownTool(McpError):
    """There is no such tool or server for this tenant."""

    status = 404
    code = "mcp_unknown_tool"


class McpBadArguments(McpError):
    """The arguments of a call are not an object."""

    status = 400
    code = "mcp_bad_arguments"


class McpDenied(McpError):
    """The policy denies the call; the reason is the message."""

    status = 403
    code = "mcp_denied"


class McpNeedsApproval(McpDenied):
    """The policy lets the call be made once it was approved."""

    code = "mcp_needs_approval"


class McpRefused(McpError):
    """The server answered 401 or 403, which is `status`; `challenge` is its WWW-Authenticate header, if it sent one. Or no token
    for it could be had (401): why is in the log alone."""

    code = "mcp_refused"

    def __init__(self, message: str, status: int, challenge: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.challenge = challenge


class McpUnavailable(McpError):
    """The server cannot be reached, or the connection was lost while it worked (`may_have_run`)."""

    code = "mcp_unavailable"

    def __init__(self, message: str, *, may_have_run: bool = False) -> None:
        super().__init__(message)
        self.may_have_run = may_have_run


class McpBadAnswer(McpError):
    """The server's answer broke the protocol or a bound. What was asked may have been done."""

    code = "mcp_bad_answer"
    may_have_run = True


class McpTimeout(McpError):
    """The server did not answer in time; it was told to stop, and may have done what was asked."""

    status = 504
    code = "mcp_timeout"
    may_have_run = True


class McpBusy(McpError):
    """Every session is in use. `retry_after` is in seconds."""

    status = 503
    code = "mcp_busy"
    retry_after = 1.0
