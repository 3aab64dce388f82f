"""The settings of MCP: servers, sessions, bounds, policy. The records of the configuration file.

Decided here: names, defaults and bounds of values. Not here: how a file is read (`config`). Unknown keys are refused by name.
"""

from typing import Annotated, Any, Literal

import msgspec

from smg_mcp.records.base import CallVerdict

__all__ = [
    "IN_PROGRAM",
    "ArgumentMapping",
    "EgressSettings",
    "FetchSettings",
    "InventorySettings",
    "McpLimits",
    "McpPolicy",
    "McpServer",
    "McpSettings",
    "OAuthSettings",
    "PolicyRule",
    "ProxySettings",
    "SearchSettings",
    "ServerPolicy",
    "SessionSettings",
    "ToolSettings",
    "WebSettings",
]

IN_PROGRAM = ("python", "web", "model")
"""The protocols of servers whose tools run in this program."""

_Seconds = Annotated[float, msgspec.Meta(gt=0, le=86400)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=10_000_000)]
_Bytes = Annotated[int, msgspec.Meta(ge=1024, le=1 << 30)]
_Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]


class _Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all records of the file have in common."""


class ArgumentMapping(_Record, frozen=True, kw_only=True):
    """How arguments change on the way to the server: `renames` from the model's name to the server's, `defaults` for what the
    model leaves out, `overrides` for what the model cannot set and does not see. The last two use the server's names."""

    renames: dict[str, str] = {}
    defaults: dict[str, Any] = {}
    overrides: dict[str, Any] = {}


class ToolSettings(_Record, frozen=True, kw_only=True):
    """What is different for one tool of a server. `price` is what a call costs that gave a result, in dollars."""

    alias: _Name | None = None
    description: str | None = None
    hidden: bool = False
    idempotent: bool | None = None
    timeout_s: _Seconds | None = None
    price: Annotated[float, msgspec.Meta(ge=0, le=1000)] = 0.0
    arg_mapping: ArgumentMapping = ArgumentMapping()


class ProxySettings(_Record, frozen=True, kw_only=True):
    """The proxy to servers, by scheme; `no_proxy` lists hosts (or `.suffix`) that are reached directly."""

    http: str | None = None
    https: str | None = None
    no_proxy: tuple[str, ...] = ()
    username: str | None = None
    password: str | None = None


class OAuthSettings(_Record, frozen=True, kw_only=True):
    """How this program gets tokens for a server: client credentials, or an authorization code, whose refresh token is kept in
    the file `store` (mode 0600). `issuer` names the authorization server that the secret may be sent to."""

    grant: Literal["client_credentials", "authorization_code"]
    client_id: str | None = None
    client_secret: str | None = None
    scope: str | None = None
    issuer: str | None = None
    redirect_uri: str = "http://127.0.0.1:8756/callback"
    store: str | None = None


class SearchSettings(_Record, frozen=True, kw_only=True):
    """The service that searches the web: SearXNG at a `url` of the operator's, Brave or Tavily with a `key`. `results` are given
    where the model does not say how many, of each at most so many `characters`; an answer has at most so many `bytes`."""

    service: Literal["searxng", "brave", "tavily"]
    url: str | None = None
    key: str | None = None
    results: Annotated[int, msgspec.Meta(ge=1, le=20)] = 5
    characters: _Count = 1000
    seconds: _Seconds = 15.0
    bytes: _Bytes = 2 * 1024 * 1024


class FetchSettings(_Record, frozen=True, kw_only=True):
    """How pages of the web are read: where they may be (private networks only for the hosts in `private`), how large they may be,
    and how much of their text a model is given. Their text is found by a program of its own, within `read_seconds` and
    `read_memory` bytes. `robots`: pages that a host's robots.txt closes to programs are not read."""

    schemes: tuple[Literal["https", "http"], ...] = ("https", "http")
    hosts: tuple[str, ...] | None = None
    blocked_hosts: tuple[str, ...] = ()
    ports: tuple[int, ...] = (80, 443)
    private: tuple[str, ...] = ()
    redirects: Annotated[int, msgspec.Meta(ge=0, le=20)] = 5
    bytes: _Bytes = 2 * 1024 * 1024
    characters: _Count = 50_000
    seconds: _Seconds = 20.0
    at_once: _Count = 32
    read_seconds: _Seconds = 10.0
    read_memory: _Bytes = 1 << 30
    read_at_once: _Count = 4
    robots: bool = False
    user_agent: str = "smg-gateway"


class WebSettings(_Record, frozen=True, kw_only=True):
    """The tools of a server of the protocol `web`: `search`, where a service is set, and `fetch`, unless it is null."""

    search: SearchSettings | None = None
    fetch: FetchSettings | None = FetchSettings()


class McpServer(_Record, frozen=True, kw_only=True):
    """One server: how it is started or reached, who may use it, and what is different for its tools. `functions` are Python
    functions, for the protocol `python`: MODULE:ATTRIBUTE, or names of entry points of the group `smg.tools`; `web`
    says which tools one of the protocol `web` has. `builtin_tool_name` is the tool that does what the built-in tool of the type
    `builtin_type` does in the APIs. `model` is a model that the program serves: of the protocol `model`, which has no tools, it
    makes the pictures of the built-in tool image_generation; of other servers it answers what they ask back."""

    name: _Name
    protocol: Literal["stdio", "streamable", "sse", "http", "python", "web", "model"]
    model: Annotated[str, msgspec.Meta(min_length=1, max_length=512)] | None = None
    web: WebSettings | None = None
    functions: tuple[str, ...] = ()
    builtin_type: Literal["web_search_preview", "code_interpreter", "image_generation"] | None = None
    builtin_tool_name: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    envs: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    token: str | None = None
    headers: dict[str, str] = {}
    oauth: OAuthSettings | None = None
    proxy: ProxySettings | None = None
    forward_headers: tuple[str, ...] = ()
    generation: Literal["auto", "legacy", "modern"] = "auto"
    tenants: tuple[str, ...] | None = None
    allowed_tools: tuple[str, ...] | None = None
    required: bool = False
    internal: bool = False
    elicitation: Literal["decline", "cancel", "ask"] = "decline"
    sampling: Literal["refuse", "ask"] = "refuse"
    roots: tuple[str, ...] = ()
    tools: dict[str, ToolSettings] = {}
    read_only: bool = False


class SessionSettings(_Record, frozen=True, kw_only=True):
    """The pool of sessions. One session serves one server, tenant and set of credentials."""

    max_connections: _Count = 100
    idle_timeout: _Seconds = 300.0
    ping_interval: _Seconds = 60.0
    sweep_interval: _Seconds = 15.0
    connect_timeout: _Seconds = 20.0
    connect_tries: Annotated[int, msgspec.Meta(ge=1, le=20)] = 3
    backoff: _Seconds = 0.5
    max_backoff: _Seconds = 30.0
    calls_at_once: _Count = 100
    close_timeout: _Seconds = 10.0
    login_timeout: _Seconds = 600.0


class InventorySettings(_Record, frozen=True, kw_only=True):
    """How long a list of tools is believed (a server that says it changed is asked again at once), and how long lists are."""

    tool_ttl: _Seconds = 300.0
    max_tools: _Count = 2000
    max_pages: _Count = 100
    schema_bytes: _Bytes = 64 * 1024
    schema_depth: _Count = 32
    name_chars: _Count = 256
    description_chars: _Count = 8192
    validators: _Count = 256
    catalogues: _Count = 64


class McpLimits(_Record, frozen=True, kw_only=True):
    """Bounds of a call. What is longer than `message_bytes` ends the session; what is longer than `result_bytes` is cut.
    `noise_bytes` is how much a child process may write to its stdout that is no message, between two messages; `stderr_bytes`
    how much of that and of its stderr is kept in a log. `exit_grace` is how long a child process may take to end by itself, and
    again once it was asked to."""

    call_timeout: _Seconds = 60.0
    message_bytes: _Bytes = 16 * 1024 * 1024
    result_bytes: _Bytes = 1024 * 1024
    result_parts: _Count = 64
    depth: _Count = 64
    notifications_per_s: _Count = 500
    notifications_burst: _Count = 2000
    input_rounds: _Count = 10
    requests_remembered: _Count = 4096
    audit_entries: _Count = 10_000
    function_threads: _Count = 32
    stderr_bytes: _Bytes = 64 * 1024
    noise_bytes: _Bytes = 64 * 1024
    exit_grace: _Seconds = 2.0


class EgressSettings(_Record, frozen=True, kw_only=True):
    """Where servers that a request names may be: as the rules for media. Private networks only for the hosts in `private`.
    `origins` is how many hosts a session keeps connections to, `lookup_ttl` how long a resolved name is believed. There may be
    `connections` to one of them; `idle_connections` are kept open when nobody uses them, for `idle_connection_s`."""

    schemes: tuple[Literal["https", "http"], ...] = ("https",)
    hosts: tuple[str, ...] | None = None
    ports: tuple[int, ...] = (80, 443)
    private: tuple[str, ...] = ()
    lookup_ttl: _Seconds = 30.0
    origins: _Count = 16
    connections: _Count = 128
    idle_connections: _Count = 20
    idle_connection_s: _Seconds = 5.0


class PolicyRule(_Record, frozen=True, kw_only=True):
    """A rule: which calls it is for (shell patterns; None means all, a hint that is None does not matter), and the decision."""

    decision: CallVerdict
    tenant: str | None = None
    server: str | None = None
    tool: str | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    open_world: bool | None = None
    reason: str = ""


class ServerPolicy(_Record, frozen=True, kw_only=True):
    """How far a server is trusted, and what holds for its tools where nothing else does."""

    trust_level: Literal["trusted", "standard", "untrusted", "sandboxed"] = "standard"
    default: CallVerdict | None = None


class McpPolicy(_Record, frozen=True, kw_only=True):
    """The calls that may be made. `tools` ("server.tool") comes first, then `rules` in order, then the server's trust, then the
    server's default, then `default`."""

    default: CallVerdict = "allow"
    servers: dict[str, ServerPolicy] = {}
    tools: dict[str, CallVerdict] = {}
    rules: tuple[PolicyRule, ...] = ()


class McpSettings(_Record, frozen=True, kw_only=True):
    """The whole file."""

    servers: tuple[McpServer, ...] = ()
    pool: SessionSettings = SessionSettings()
    inventory: InventorySettings = InventorySettings()
    limits: McpLimits = McpLimits()
    egress: EgressSettings = EgressSettings()
    policy: McpPolicy = McpPolicy()
    proxy: ProxySettings | None = None
