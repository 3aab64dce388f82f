"""The tools that the gateway runs for a model: their records, the steps that a flow asks for, and the role that runs them.

A request names servers of tools (`HostedTool` of kind "mcp" among its tools). `ListTools` asks what they offer, `CallTools` has
calls run. Who runs them fulfils `ToolService`; this room knows no protocol of such servers. Pure. Above: pipeline.tools.loop asks
for the steps, pipeline.tools.calls performs them. Below: request.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from smg_core.built_in import BuiltIn, FaultCode
from smg_core.errors import SmgError
from smg_core.json_types import Json, JsonObject
from smg_core.pipeline.flow.steps import Step
from smg_core.request import Caller, Part
from smg_core.sources import CitableSource

__all__ = [
    "CallTools",
    "Called",
    "HostedCall",
    "HostedResult",
    "ListTools",
    "ListedServer",
    "NotMade",
    "OnToolProgress",
    "ServerTool",
    "ToolAnswer",
    "ToolFilter",
    "ToolServer",
    "ToolService",
    "ToolVerdict",
]

NotMade = Literal["asked", "refused", "denied"]
"""Why a call is not made: the user is asked about it first, the user has refused it, or it may not be made."""
ToolVerdict = Literal["allow", "deny", "ask"]
"""What the operator's policy says of a tool: its calls run, do not run, or run once the user has agreed."""


class ToolFilter(Struct, frozen=True):
    """Some tools of a server: those of these names (None: of any name), and of them those that only read (True) or that may
    write (False); `without` are left out."""

    names: tuple[str, ...] | None = None
    read_only: bool | None = None
    without: tuple[str, ...] = ()

    def takes(self, tool: "ServerTool") -> bool:
        """Whether `tool` is one of them."""
        named = (self.names is None or tool.name in self.names) and tool.name not in self.without
        return named and (self.read_only is None or self.read_only == tool.read_only)


class ToolServer(Struct, frozen=True):
    """A server of tools as a request names it: the `config` of a `HostedTool` of kind "mcp".

    `label` is the client's name for it, by which the calls of its tools are known. `url` is its address; None means a server of
    that name in the operator's configuration. `authorization` is a bearer token for it. `headers` are sent to
    it: to one with a `url` all, to one of the operator's those that its configuration forwards. `allowed` are
    the tools that the model may call. `approval`: "always" and "never" hold for all of its tools; None means that `always` and
    `never` say which, and a tool that neither takes needs approval. `at` is its place in `GenerationRequest`. `built_in`: it is
    no server of tools but one of the APIs' own."""

    label: str
    url: str | None = None
    authorization: str | None = None
    headers: Mapping[str, str] = {}
    allowed: ToolFilter | None = None
    approval: Literal["always", "never"] | None = None
    always: ToolFilter | None = None
    never: ToolFilter | None = None
    at: str = "tools"
    built_in: BuiltIn | None = None

    def __repr__(self) -> str:
        """Without the secrets, which must not get into a log."""
        return f"ToolServer(label={self.label!r})"

    def asks(self, tool: "ServerTool") -> bool:
        """Whether the client wants to approve calls of `tool`."""
        if self.approval is not None:
            return self.approval == "always"
        if self.always is not None and self.always.takes(tool):
            return True
        return self.never is None or not self.never.takes(tool)


class ServerTool(Struct, frozen=True):
    """One tool that a server offers. `schema` is the JSON Schema of its arguments; `annotations` is what the server says about
    it; `verdict` is the operator's policy for it."""

    name: str
    description: str | None = None
    schema: Mapping[str, Json] = {}
    annotations: Mapping[str, Json] | None = None
    verdict: ToolVerdict = "allow"

    @property
    def read_only(self) -> bool:
        return self.annotations is not None and self.annotations.get("readOnlyHint") is True


class ListedServer(Struct, frozen=True):
    """What a server offers to this request. By name, with the reason: tools that are `left_out` for what is wrong with them, and
    those that are offered `unconstrained`, without all of their schema."""

    server: ToolServer
    tools: tuple[ServerTool, ...]
    left_out: Mapping[str, str] = {}
    unconstrained: Mapping[str, str] = {}


class HostedCall(Struct, frozen=True):
    """A call of a hosted tool. `id` is the model's id of the call and `arguments` the text that it wrote; `fault` says why the
    call cannot be run (then it is answered with that as an error), `approval` is the id under which the user has agreed to it.
    `within` makes it a search of these tools, which are there by the names that the model knows them by. `denied`: the fault is
    that the call may not be made, whatever its arguments are. `known`: the server offers the tool; otherwise the name is nothing
    but a model's text. `code` names the fault of a call of a built-in tool, as `ToolAnswer.code`."""

    id: str
    server: ToolServer
    name: str
    arguments: str
    fault: str | None = None
    approval: str | None = None
    within: "Mapping[str, ServerTool] | None" = None
    denied: bool = False
    known: bool = True
    code: FaultCode | Literal[""] = ""


class ToolAnswer(Struct, frozen=True):
    """What a tool has returned: text and media for the model, and `structured` where the tool has a result as JSON. `found` are
    the names of tools that a search has found. `sources` are what a built-in tool has found: with `cites` the model is given them
    behind their marks, in place of the content. `code` names why a built-in tool failed."""

    content: tuple[Part, ...]
    is_error: bool = False
    structured: Json = None
    found: tuple[str, ...] = ()
    sources: tuple[CitableSource, ...] = ()
    cites: bool = True
    code: FaultCode | Literal[""] = ""


class HostedResult(Struct, frozen=True):
    """The outcome of one call, for the next turn's prompt; `found` are the names of the tools that a search has found, `sources`
    what the model may cite of it."""

    call: HostedCall
    content: tuple[Part, ...]
    is_error: bool = False
    found: tuple[str, ...] = ()
    sources: tuple[CitableSource, ...] = ()


class Called(Struct, frozen=True):
    """The outcome of `CallTools`: the results in the order of the calls, and the seconds since the request began."""

    results: tuple[HostedResult, ...]
    seconds: float = 0.0


class ListTools(Step[tuple[ListedServer, ...]], frozen=True):
    """Ask `servers` which tools they offer, all at the same time. Raises ToolServerFailed for the first that fails."""

    servers: tuple[ToolServer, ...]
    caller: Caller
    headers: Mapping[str, str] = {}


class CallTools(Step[Called], frozen=True):
    """Run `calls`, at most `at_once` at the same time, and tell the client how each goes, in their order. An error of a call is
    its result and is not raised. `asked` are calls that the user is now asked about, `refused` those that the user has refused:
    they are not run, and are noted as decisions. Raises Conflict for a call whose question was answered before."""

    request_id: str
    model: str
    calls: tuple[HostedCall, ...]
    caller: Caller
    headers: Mapping[str, str] = {}
    at_once: int = 1
    asked: tuple[HostedCall, ...] = ()
    refused: tuple[HostedCall, ...] = ()


OnToolProgress = Callable[[JsonObject], None]
"""Called with what a tool tells of its progress: `progress`, and `total` and `message` where it gives them."""


class ToolService(Protocol):
    """Runs tools of servers. Each call names the caller, whose tenant owns the sessions that are opened for it."""

    async def tools(self, server: ToolServer, caller: Caller, headers: Mapping[str, str]) -> ListedServer:
        """What `server` offers to `caller`. Raises ToolServerFailed, and InvalidRequest for a server that may not be asked."""
        ...

    async def call(
        self,
        call: HostedCall,
        arguments: JsonObject,
        caller: Caller,
        headers: Mapping[str, str],
        progress: OnToolProgress,
        request_id: str,
    ) -> ToolAnswer:
        """Run one call of the request `request_id`. Raises SmgError where there is no result; a tool's own error is an answer
        with `is_error`."""
        ...

    async def search(self, tools: Mapping[str, ServerTool], query: str, limit: int) -> tuple[str, ...]:
        """The names of those of `tools` that fit the query, best first, at most `limit`."""
        ...

    async def claim(self, approvals: Sequence[str], request_id: str, caller: Caller) -> SmgError | None:
        """Take the right to act on the user's answers to the questions of these ids: on all or on none. Each is given once, for
        a yes as for a no, whichever process asks. Returns the error for the client where one was given before."""
        ...

    async def note(
        self, call: HostedCall, why: NotMade, caller: Caller, headers: Mapping[str, str], request_id: str
    ) -> None:
        """Put a call that is not made into the audit, and why; those that are made are noted by `call`. Raises as `tools`."""
        ...
