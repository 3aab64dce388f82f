"""HTTP to MCP servers: the package's one way out to the network (edge).

A transport of httpx2 under the mcp package's client. Every request's URL is judged (`egress`), its host resolved and judged, and
the connection made to the address that was judged. Answers are read within bounds and looked at (`strict_json`) before the
package sees them. What goes wrong becomes a JSON-RPC error with a `WireFault` that `connection` reads, since an exception here
would end the package's session with all its calls. Above: `connection`. Below: `origin`, `egress`, `strict_json`, smg_egress.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Protocol

import attrs
import httpx2

from smg_egress import FetchTarget
from smg_egress.resolving import Resolver, resolve_host
from smg_mcp.records.errors import McpForbidden, McpRefused
from smg_mcp.records.settings import EgressSettings, McpLimits, ProxySettings
from smg_mcp.transport.egress import McpUrlRules
from smg_mcp.transport.origin import Direct, OriginConnections, ThroughProxy
from smg_mcp.transport.strict_json import AmbiguousJson, strict_object, whole_characters

__all__ = ["GuardedTransport", "TokenGiver", "WireFault"]

_FAULT_CODE = -32099
_ELSEWHERE = 64 * 1024


@attrs.frozen
class WireFault:
    """What went wrong with one HTTP request. `kind`: "forbidden" (egress), "unreachable" (was never sent), "lost" (may have been
    done), "status" (the server's HTTP status), "forgotten" (it has no such session), "unauthorized" (no token could be had),
    "broken" (the protocol or a bound)."""

    kind: str
    message: str
    status: int = 0
    challenge: str | None = None


class TokenGiver(Protocol):
    """Who gives requests their tokens. Waits for nothing while a request is under way whose token is accepted."""

    async def sent(
        self, request: httpx2.Request, send: Callable[[httpx2.Request], Awaitable[httpx2.Response]]
    ) -> httpx2.Response:
        """The answer to a request that `send` was given with its token, as often as that took. Raises McpRefused."""

    async def aclose(self) -> None:
        """Nothing is asked for any more."""


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests by the rules. `mark` is a word that no server knows: a JSON-RPC error whose data has it comes from here.

    `tokens` is handed each request (OAuth). `clock` gives seconds, by which a resolved name is forgotten. `session_in_url` says
    that the URL which is posted to names the session, as that of legacy SSE does."""

    def __init__(
        self,
        rules: McpUrlRules,
        limits: McpLimits,
        *,
        mark: str,
        clock: Callable[[], float],
        egress: EgressSettings,
        connect_s: float,
        proxy: ProxySettings | None = None,
        tokens: TokenGiver | None = None,
        resolver: Resolver = resolve_host,
        tls: ssl.SSLContext | None = None,
        session_in_url: bool = False,
    ) -> None:
        self._rules, self._limits, self._mark, self._clock = rules, limits, mark, clock
        self._egress, self._connect_s = egress, connect_s
        self._proxy, self._tokens, self._resolver = proxy, tokens, resolver
        self._tls = tls or ssl.create_default_context()
        self._session_in_url = session_in_url
        self._ways: dict[tuple[str, str, int], _Way] = {}
        self._targets: dict[str, FetchTarget] = {}

    async def aclose(self) -> None:
        """Close every connection. Called by the client over this transport when the session closes."""
        try:
            if self._tokens is not None:
                await self._tokens.aclose()
        finally:
            ways, self._ways = list(self._ways.values()), {}
            for way in ways:
                await way.origin.aclose()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The answer, or a JSON-RPC error in its place."""
        if self._tokens is None:
            return await self._sent(request)
        try:
            return await self._tokens.sent(request, self._sent)
        except McpRefused as refused:
            return self._fault(request, WireFault("unauthorized", str(refused), refused.status))

    async def _sent(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["accept-encoding"] = "identity"  # a compressed body would grow past its bound unseen
        request.extensions["timeout"] = {
            **dict.fromkeys(("connect", "pool", "write"), self._connect_s),
            "read": None if request.method == "GET" else self._limits.call_timeout + self._connect_s,
        }
        try:
            target = self._target(str(request.url))
            response = await (await self._origin(target)).send(request, target)
        except McpForbidden as error:
            return self._fault(request, WireFault("forbidden", str(error)))
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError):
            return self._fault(request, WireFault("unreachable", "the server cannot be reached"))
        except (httpx2.TransportError, httpx2.InvalidURL, ssl.SSLError, OSError):
            return self._fault(request, WireFault("lost", "the connection to the server was lost"))
        response.request = request
        try:
            return await self._screened(request, response)
        except _Unusable as unusable:
            await response.aclose()
            return self._fault(request, unusable.fault, response.headers)
        except (httpx2.TransportError, ssl.SSLError, OSError):
            await response.aclose()
            return self._fault(request, WireFault("lost", "the connection to the server was lost"))

    def _target(self, url: str) -> FetchTarget:
        """The judged request for `url`; a session asks for few URLs, so the last ones are remembered."""
        target = self._targets.get(url)
        if target is None:
            target = self._targets[url] = self._rules.target(url)
            if len(self._targets) > self._egress.origins:
                del self._targets[next(iter(self._targets))]
        return target

    async def _origin(self, target: FetchTarget) -> OriginConnections:
        """The connections to the target's origin, whose address is judged again when what was resolved is too old."""
        origin = (target.scheme, target.host, target.port)
        way = self._ways.get(origin)
        if way is not None and (way.until is None or way.until > self._clock()):
            return way.origin
        proxy = self._proxy_for(target)
        # Behind a proxy it is the proxy that resolves names; an address that is written out is judged all the same.
        found = [target.host] if _is_address(target.host) else None
        if found is None and proxy is None:
            found = list(await self._resolver(target.host, target.port))
        address = target.host if found is None else self._rules.address(target.host, found)
        return await self._opened(origin, address, proxy)

    async def _opened(
        self, origin: tuple[str, str, int], address: str, proxy: httpx2.Proxy | None
    ) -> OriginConnections:
        before = self._ways.pop(origin, None)
        until = None if proxy is not None else self._clock() + self._egress.lookup_ttl
        if before is not None and before.address == address:
            way = attrs.evolve(before, until=until)
        else:
            opened = ThroughProxy(proxy, self._tls) if proxy else Direct(address, self._tls, self._egress)
            way = _Way(address, opened, until)
            if before is not None:
                await before.origin.aclose()
        self._ways[origin] = way
        if len(self._ways) > self._egress.origins:
            await self._ways.pop(next(iter(self._ways))).origin.aclose()
        return way.origin

    def _proxy_for(self, target: FetchTarget) -> httpx2.Proxy | None:
        settings = self._proxy
        if settings is None:
            return None
        if any(
            target.host == name or (name.startswith(".") and target.host.endswith(name)) for name in settings.no_proxy
        ):
            return None
        url = settings.https if target.scheme == "https" else settings.http
        if url is None:
            return None
        auth = (settings.username, settings.password or "") if settings.username else None
        return httpx2.Proxy(url, auth=auth)

    async def _screened(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """The response, whole and looked at; a stream of events is looked at as it comes."""
        rpc_id = _rpc_id(request)
        in_session = rpc_id is not None and (self._session_in_url or "mcp-session-id" in request.headers)
        if in_session and response.status_code == 404:
            raise _Unusable(_FORGOTTEN)  # whatever the body says
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise _Unusable(WireFault("broken", "the server compressed its answer without being asked to"))
        location = response.headers.get("location")
        if 300 <= response.status_code < 400 and location is not None:
            self._judge_redirect(request, location)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/event-stream" and response.status_code < 400:
            events = _Events(self, response, rpc_id)
            return httpx2.Response(response.status_code, headers=response.headers, stream=events, request=request)
        content = await self._body(response)
        await response.aclose()
        if in_session and response.status_code in (400, 410):
            gone = response.status_code == 410 and not content.strip()  # gone, and nothing says what else could be
            if gone or _speaks_of_the_session(content, rpc_id):
                raise _Unusable(_FORGOTTEN)
        if (
            response.status_code >= 400
            and rpc_id is not None
            and not (kind == "application/json" and _rpc_error(content, rpc_id) is not None)
        ):
            raise _Unusable(_status_fault(response))
        if response.status_code in (401, 403) and rpc_id is not None:
            raise _Unusable(_status_fault(response))
        if kind == "application/json" and rpc_id is not None:
            await self.checked(content, rpc_id)
            content = whole_characters(content)
        headers = [(k, v) for k, v in response.headers.raw if k.lower() not in _LENGTHS]
        return httpx2.Response(response.status_code, headers=headers, content=content, request=request)

    def _judge_redirect(self, request: httpx2.Request, location: str) -> None:
        target = self._target(str(request.url))
        try:
            led = self._rules.redirected(target, location)
        except McpForbidden as error:
            raise _Unusable(WireFault("forbidden", str(error))) from error
        if (led.scheme, led.host, led.port) != (target.scheme, target.host, target.port):
            raise _Unusable(WireFault("forbidden", "the server redirects to another server, which is not followed"))

    async def _body(self, response: httpx2.Response) -> bytes:
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > self._limits.message_bytes:
                raise _Unusable(
                    WireFault("broken", f"the server sent more than {self._limits.message_bytes} bytes at once")
                )
        return bytes(body)

    async def checked(self, content: bytes, rpc_id: object) -> None:
        """`check`; for what is long, in a thread."""
        if len(content) > _ELSEWHERE:
            await asyncio.to_thread(self.check, content, rpc_id)
        else:
            self.check(content, rpc_id)

    def check(self, content: bytes, rpc_id: object) -> None:
        """Raises `_Unusable` where a message is ambiguous or answers another request."""
        try:
            message = strict_object(content, self._limits.depth)
        except AmbiguousJson as error:
            raise _Unusable(WireFault("broken", str(error))) from error
        answers = "method" not in message and rpc_id is not None and message.get("id") is not None
        if answers and str(message["id"]) != str(rpc_id):
            raise _Unusable(WireFault("broken", "the server answered another request's id"))

    @property
    def longest(self) -> int:
        """How many bytes one message may have."""
        return self._limits.message_bytes

    def error_text(self, rpc_id: object, fault: WireFault) -> str:
        """The JSON-RPC error that says a fault."""
        data = {self._mark: attrs.asdict(fault)}
        error = {"code": _FAULT_CODE, "message": fault.message, "data": data}
        return json.dumps({"jsonrpc": "2.0", "id": rpc_id, "error": error})

    def _fault(
        self, request: httpx2.Request, fault: WireFault, headers: Mapping[str, str] | None = None
    ) -> httpx2.Response:
        """A response that says the fault. A status is kept as it was, with the headers that OAuth reads."""
        kept = {name: value for name, value in (headers or {}).items() if name.lower() == "www-authenticate"}
        status = fault.status or 502
        rpc_id = _rpc_id(request)
        content = "" if rpc_id is None else self.error_text(rpc_id, fault)
        kept["content-type"] = "application/json"
        return httpx2.Response(status, headers=kept, content=content.encode(), request=request)


@attrs.frozen
class _Way:
    """The way to one origin: the address that was judged, and until when it is believed (None: for good)."""

    address: str
    origin: OriginConnections
    until: float | None


class _Unusable(Exception):
    """The answer cannot be handed on."""

    def __init__(self, fault: WireFault) -> None:
        super().__init__(fault.message)
        self.fault = fault


_FORGOTTEN = WireFault("forgotten", "the server has forgotten the session", 404)
_SESSION_WORDS = ("session", "not initialized")
"""What a body says, in small letters, that refuses a request for its session: the second is said by a server that was restarted
and has one session alone."""
_LOOKED_AT = (-32601, -32602)
"""The codes of JSON-RPC for a method that is not there and for arguments that are wrong."""
_LENGTHS = (b"content-length", b"transfer-encoding", b"content-encoding")


class _Events(httpx2.AsyncByteStream):
    """A stream of events, each whole and looked at before it is handed on; a fault takes the place of the rest."""

    def __init__(self, wire: GuardedTransport, response: httpx2.Response, rpc_id: object) -> None:
        self._wire, self._response, self._rpc_id = wire, response, rpc_id

    async def __aiter__(self) -> AsyncIterator[bytes]:
        lines = _EventLines(self._wire.longest)
        try:
            async for chunk in self._response.aiter_raw():
                for event, data in lines.fed(chunk):
                    if data:
                        await self._wire.checked(data, self._rpc_id)
                    yield whole_characters(event)
        except _Unusable as unusable:
            if self._rpc_id is not None:
                text = self._wire.error_text(self._rpc_id, unusable.fault)
                yield f"event: message\ndata: {text}\n\n".encode()

    async def aclose(self) -> None:
        await self._response.aclose()


class _EventLines:
    """Cuts bytes into events: each with the bytes as they came, and the message that it carries (empty where it carries none)."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._line = bytearray()
        self._event = bytearray()
        self._data: list[bytes] = []
        self._kind = b"message"
        self._after_cr = False

    def fed(self, chunk: bytes) -> "list[tuple[bytes, bytes]]":
        found: list[tuple[bytes, bytes]] = []
        if self._after_cr and chunk[:1] == b"\n":
            chunk = chunk[1:]
        self._after_cr = chunk[-1:] == b"\r" or (self._after_cr and not chunk)
        lines = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in lines[:-1]:
            self._line += line
            self._end_line(found)
        self._line += lines[-1]
        if len(self._line) + len(self._event) > self._longest:
            raise _Unusable(WireFault("broken", f"the server sent more than {self._longest} bytes at once"))
        return found

    def _end_line(self, found: list[tuple[bytes, bytes]]) -> None:
        line = bytes(self._line)
        self._line.clear()
        self._event += line + b"\n"
        if not line:
            found.append((bytes(self._event), b"\n".join(self._data) if self._kind == b"message" else b""))
            self._event.clear()
            self._data.clear()
            self._kind = b"message"
        elif line.startswith(b"event:"):
            self._kind = line[6:].removeprefix(b" ")
        elif line == b"data" or line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))


def _rpc_id(request: httpx2.Request) -> Any:
    """The id of the JSON-RPC request that an HTTP request carries; None where it carries none."""
    if request.method != "POST" or not request.headers.get("content-type", "").startswith("application/json"):
        return None
    try:
        message = json.loads(request.content)
    except (ValueError, httpx2.RequestNotRead):
        return None
    return message.get("id") if isinstance(message, dict) and "method" in message else None


def _speaks_of_the_session(content: bytes, rpc_id: object) -> bool:
    """Whether a body refuses a request for its session. A request whose method or arguments are refused by name was looked at."""
    error = _rpc_error(content, rpc_id)
    if error is not None and error.get("code") in _LOOKED_AT:
        return False
    message_text = str(error.get("message")) if error is not None else content[:_ELSEWHERE].decode("utf-8", "replace")
    return any(words in message_text.lower() for words in _SESSION_WORDS)


def _rpc_error(content: bytes, rpc_id: object) -> dict[str, Any] | None:
    """The JSON-RPC error of this request that a body is; None for one with another id, which speaks of the HTTP request alone,
    and for a body that is too long to be read here."""
    if len(content) > _ELSEWHERE:
        return None
    try:
        message = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or "jsonrpc" not in message:
        return None
    error, id = message.get("error"), message.get("id")
    return error if isinstance(error, dict) and (id is None or str(id) == str(rpc_id)) else None


def _status_fault(response: httpx2.Response) -> WireFault:
    status = response.status_code
    challenge = response.headers.get("www-authenticate")
    return WireFault("status", f"the server answered {status}", status, None if challenge is None else challenge[:1024])


def _is_address(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()
