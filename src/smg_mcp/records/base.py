"""The records of the package: tools, results, decisions; and the roles that others may fill.

Plain records, which know no transport and no LLM API. Above: every module of the package, and who uses it. Below: attrs.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias
from urllib.parse import unquote, urlsplit

import attrs

__all__ = [
    "AskUser",
    "CallFacts",
    "CallVerdict",
    "Decision",
    "ListFaults",
    "McpTool",
    "OnProgress",
    "RequestServer",
    "SampleModel",
    "ServerInventory",
    "ToolAudio",
    "ToolHints",
    "ToolImage",
    "ToolIndex",
    "ToolLink",
    "ToolOutcome",
    "ToolPart",
    "ToolProgress",
    "ToolResource",
    "ToolText",
]

CallVerdict: TypeAlias = Literal["allow", "deny", "ask"]


@attrs.frozen
class ToolHints:
    """A server's hints about a tool (its annotations). None where it says nothing; then the protocol's defaults count, which
    expect the worse. A server may lie: only a trusted server's hints should allow anything."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None

    @property
    def is_read_only(self) -> bool:
        """Whether the tool changes nothing."""
        return self.read_only is True

    @property
    def is_destructive(self) -> bool:
        """Whether the tool may delete or overwrite."""
        return not self.is_read_only and self.destructive is not False

    @property
    def is_open_world(self) -> bool:
        """Whether the tool reaches beyond its server, as a search of the web does."""
        return self.open_world is not False

    @property
    def may_run_twice(self) -> bool:
        """Whether calling again does no more than calling once."""
        return self.is_read_only or self.idempotent is True


@attrs.frozen
class McpTool:
    """A tool as a model is offered it.

    `name` is legal and unique for every API (letters, digits, `_`, `-`; at most 64 characters). `server` and `tool` are the
    server's label and the tool's name there. `schema` is the JSON schema of the arguments as the model gives them: after renames,
    without what the configuration overrides.
    """

    name: str
    server: str
    tool: str
    description: str
    schema: Mapping[str, Any]
    title: str | None = None
    output_schema: Mapping[str, Any] | None = None
    hints: ToolHints = ToolHints()

    @property
    def qualified(self) -> str:
        """The tool's name with its server's: "server.tool"."""
        return f"{self.server}.{self.tool}"


@attrs.frozen
class ServerInventory:
    """All that one server offers: its tools, and its resources and prompts as the server describes them (JSON objects)."""

    server: str
    tools: Sequence[McpTool]
    resources: Sequence[Mapping[str, Any]] = ()
    templates: Sequence[Mapping[str, Any]] = ()
    prompts: Sequence[Mapping[str, Any]] = ()
    title: str = ""
    instructions: str = ""
    protocol: str = ""
    left_out: Mapping[str, str] = attrs.field(factory=dict)
    """Tools that are not offered, by name, with the reason: what is wrong with them, or that they are hidden."""
    unconstrained: Mapping[str, str] = attrs.field(factory=dict)
    """Tools that are offered without all of their schema, by name, with what is wrong with it."""


@attrs.frozen
class ListFaults:
    """The faults of the tools of a server's list, by name: those that are `left_out`, and those that are offered `unconstrained`,
    without all of their schema."""

    left_out: Mapping[str, str] = attrs.field(factory=dict)
    unconstrained: Mapping[str, str] = attrs.field(factory=dict)

    def __bool__(self) -> bool:
        return bool(self.left_out or self.unconstrained)


@attrs.frozen
class ToolText:
    """Text of a result."""

    text: str


@attrs.frozen
class ToolImage:
    """A picture of a result: its bytes as base64, and its MIME type."""

    data: str = attrs.field(repr=False)
    mime: str


@attrs.frozen
class ToolAudio:
    """A recording of a result: its bytes as base64, and its MIME type."""

    data: str = attrs.field(repr=False)
    mime: str


@attrs.frozen
class ToolResource:
    """A resource that a result brings along: `text`, or its bytes as base64 in `data`."""

    uri: str
    mime: str | None = None
    text: str | None = None
    data: str | None = attrs.field(default=None, repr=False)


@attrs.frozen
class ToolLink:
    """A resource that a result only names."""

    uri: str
    name: str
    mime: str | None = None
    description: str | None = None


ToolPart: TypeAlias = ToolText | ToolImage | ToolAudio | ToolResource | ToolLink


@attrs.frozen
class ToolOutcome:
    """The result of a call. `is_error` says that the tool failed: the text says why, and the model should see it. `structured` is
    the result as JSON, where the server gave one; `truncated` that a bound cut something off, which the text then says."""

    content: tuple[ToolPart, ...]
    structured: Any = None
    is_error: bool = False
    truncated: bool = False

    @property
    def text(self) -> str:
        """All text of the result, parts joined by newlines."""
        texts = (part.text for part in self.content if isinstance(part, ToolText | ToolResource))
        return "\n".join(text for text in texts if text)


@attrs.frozen
class ToolProgress:
    """The progress of a running call: `progress` of `total`, if the server knows the total."""

    progress: float
    total: float | None = None
    message: str | None = None


@attrs.frozen
class CallFacts:
    """Of which call a policy decides."""

    server: str
    tool: str
    hints: ToolHints = ToolHints()
    tenant: str = ""


@attrs.frozen
class Decision:
    """Whether a call may be made, why, and which line of the policy says so (`source`)."""

    verdict: CallVerdict
    reason: str = ""
    source: str = "default"


_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")


def _legal_label(_: object, __: object, label: str) -> None:
    if not _LABEL.match(label):
        raise ValueError("a server's label has 1 to 64 letters, digits, '_' and '-', and begins with a letter or digit")


def _plain_path(_: object, __: object, url: str) -> None:
    for segment in unquote(urlsplit(url).path).replace("\\", "/").split("/"):
        if segment.partition(";")[0] in (".", ".."):
            # Grants compare the beginning of an address with the one that is written: it has to be the one that is asked.
            raise ValueError("the path of a server's URL has no segments '.' and '..'")


@attrs.frozen
class RequestServer:
    """A server that a request names itself: Streamable HTTP (or SSE) at a URL, for this request's tenant alone.

    `authorization` is a bearer token. `allowed_tools` are the only tools that are offered; None offers all. `read_only` offers
    only tools that say they change nothing.
    """

    label: str = attrs.field(validator=_legal_label)
    url: str = attrs.field(repr=False, validator=_plain_path)
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    authorization: str | None = attrs.field(default=None, repr=False)
    allowed_tools: frozenset[str] | None = None
    read_only: bool = False


OnProgress: TypeAlias = Callable[[ToolProgress], None]
"""Called on the event loop for each progress notification of a call; it must not wait."""


class AskUser(Protocol):
    """Answers what a server asks the user in a call (elicitation): JSON by the schema, or None to decline."""

    def __call__(
        self, server: str, tenant: str, message: str, schema: Mapping[str, Any]
    ) -> Awaitable[Mapping[str, Any] | None]: ...


class SampleModel(Protocol):
    """Answers what a server asks a model in a call (sampling): gets the request's params as JSON, gives the text and the
    model's name, or None to refuse."""

    def __call__(self, server: str, tenant: str, params: Mapping[str, Any]) -> Awaitable[tuple[str, str] | None]: ...


class ToolIndex(Protocol):
    """Finds tools by what is written: `search.Bm25Index` by words; an index by embeddings is another."""

    def search(self, query: str, limit: int) -> Sequence[McpTool]:
        """The tools that fit the query, best first, at most `limit`."""
        ...
