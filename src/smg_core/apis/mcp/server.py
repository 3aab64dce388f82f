"""The handlers of the MCP server: `/mcp` by Streamable HTTP, and what OAuth clients read of it (edge).

A POST has a message, or several; a GET is the stream on which a client with a session is told of changes; a DELETE ends one.
A session is an id that this gateway has sealed for its caller: any process opens it, and nobody else can use it. Above:
`routes`. Below: `answers`, `calls`, `changes`, `wire`.
"""

import asyncio
from collections.abc import Sequence
from hashlib import blake2b

import attrs

from smg_core.apis.mcp.answers import McpAnswers
from smg_core.apis.mcp.calls import RunningCalls
from smg_core.apis.mcp.changes import LISTS, ChangeStreams, event_of
from smg_core.apis.mcp.wire import (
    MCP_PATH,
    METHOD_NOT_FOUND,
    McpMessage,
    RpcError,
    check_modern,
    messages_of,
    notification,
    response,
    rpc_error_of,
    rpc_failure,
)
from smg_core.errors import InvalidRequest, MethodNotAllowed, NotFound, SealBroken, SmgError
from smg_core.http.browsers import check_origin
from smg_core.http.exchange import Exchange
from smg_core.http.scope import Header
from smg_core.json_types import Json, JsonObject
from smg_core.sealing.sealer import SealContext, Sealer, load_ciphers
from smg_core.sealing.shared import shared_sealer
from smg_core.serving.json_handler import JSON_TYPE, made_of
from smg_core.serving.services import Services
from smg_core.tools.hops import next_hops
from smg_core.tools.offered import ToolAsker
from smg_core.wire.json_text import encode_object
from smg_core.wire.operation import EVENT_STREAM
from smg_mcp.records.base import ToolProgress

__all__ = ["McpEndpoint"]

_STREAM: tuple[Header, ...] = (
    (b"content-type", EVENT_STREAM.encode()),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


class McpEndpoint:
    """The handlers, over one gateway."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._answers = McpAnswers(services)
        self._calls = RunningCalls(services.channel)
        self._changes = ChangeStreams(services, self._answers)
        self._seals = False

    # ------------------------------------------------------------------------------------------------------- requests

    async def post(self, exchange: Exchange) -> None:
        """Answer the messages of a body."""
        services = self._services
        asker = self._asker(exchange)
        services.admission.check_room()
        with services.admission.bodies.open() as held:
            body = await exchange.body(services.lookup.body_bytes, held)
        exchange.lease = services.admission.admit(exchange.caller, "tokens", len(body))
        exchange.watch()
        try:
            await self._answer(exchange, body, asker)
        finally:
            exchange.unwatch()
            exchange.lease.release()

    async def stream(self, exchange: Exchange) -> None:
        """Tell a client with a session of changes."""
        asker = self._asker(exchange)
        if self._services.live.config.mcp.serve != "sessions":
            raise MethodNotAllowed("This gateway has no sessions of MCP clients, so nothing is told of changes.")
        if not await self._session(exchange):
            raise InvalidRequest("A client is told of changes in a session; the header Mcp-Session-Id names it.")
        await self._changes.follow(exchange, asker, [*_STREAM, self._id(exchange)])

    async def end(self, exchange: Exchange) -> None:
        """End a session."""
        self._asker(exchange)
        session = await self._session(exchange)
        if not session:
            raise InvalidRequest("The header Mcp-Session-Id names the session to end.")
        await self._calls.end(session)
        await exchange.respond(204, b"", [self._id(exchange)])

    async def metadata(self, exchange: Exchange) -> None:
        """Say who gives tokens for `/mcp` (RFC 9728)."""
        services = self._services
        config = services.live.config
        exchange.take_id(services.ids, "req_")
        found: JsonObject = {"resource": _base(exchange) + MCP_PATH, "bearer_methods_supported": ["header"]}
        if config.oidc.issuer is not None:
            found["authorization_servers"] = [config.oidc.issuer]
        await exchange.respond(200, encode_object(found), [JSON_TYPE, self._id(exchange)])

    # ----------------------------------------------------------------------------------------------------- what is checked

    def _asker(self, exchange: Exchange) -> ToolAsker:
        """Who asks. Raises PermissionDenied for a page of a foreign origin, and Conflict for a request that this gateway has sent
        itself."""
        services = self._services
        exchange.take_id(services.ids, "mcp_")
        headers = exchange.headers
        check_origin(headers.get("origin"), headers.get("host", ""), services.live.config.server.cors_origins)
        marks = next_hops(headers, self._sealer.key_id)
        return ToolAsker(exchange.caller, headers, exchange.request_id, marks)

    async def _session(self, exchange: Exchange) -> str:
        """What the session of a request is known by here, "" for a request without one. Raises NotFound for a session that is not
        the caller's, or that has ended."""
        token = exchange.headers.get("mcp-session-id")
        if token is None:
            return ""
        await self._load()
        try:
            self._sealer.open(token.encode("latin-1"), _context(exchange))
        except SealBroken:
            raise NotFound("There is no such session.") from None
        session = blake2b(token.encode("latin-1"), digest_size=16).hexdigest()
        if self._calls.has_ended(session):
            raise NotFound("This session has ended.")
        return session

    @property
    def _sealer(self) -> Sealer:
        services = self._services
        return shared_sealer(services.live.config.sealing, services.running.sealer)

    async def _load(self) -> None:
        if not self._seals:
            await asyncio.to_thread(load_ciphers)
            self._seals = True

    async def _new_session(self, exchange: Exchange) -> list[Header]:
        """The header with a session's id, where there are sessions."""
        services = self._services
        if services.live.config.mcp.serve != "sessions":
            return []
        await self._load()
        token = self._sealer.seal(services.ids("").encode(), _context(exchange))
        return [(b"mcp-session-id", token)]

    def _id(self, exchange: Exchange) -> Header:
        return self._services.request_ids.header(exchange.name)

    # ---------------------------------------------------------------------------------------------------------- answers

    async def _answer(self, exchange: Exchange, body: bytes, asker: ToolAsker) -> None:
        version, most = exchange.headers.get("mcp-protocol-version"), self._services.live.config.mcp.serve_batch
        try:
            session = await self._session(exchange)
            asker = attrs.evolve(asker, session=session) if session else asker
            found, batch = await made_of(
                self._services, exchange.caller, len(body), lambda: messages_of(body, version, most)
            )
            if found[0].modern:
                check_modern(found[0], exchange.headers)
        except RpcError as error:
            await self._respond(exchange, error.status if error.status != 200 else 400, rpc_failure(None, error))
            return
        for message in found:
            await self._noted(message, session)
        asked = [message for message in found if message.wants_answer]
        if not asked:
            await exchange.respond(202, b"", [self._id(exchange)])
        elif batch:
            await self._respond(exchange, 200, [await self._answered(each, asker, session) for each in asked])
        else:
            await self._answer_one(exchange, asked[0], asker, session)

    async def _noted(self, message: McpMessage, session: str) -> None:
        """Act on a notification."""
        if message.method == "notifications/cancelled" and session and not message.wants_answer:
            id = message.params.get("requestId")
            if isinstance(id, int | str) and not isinstance(id, bool):
                await self._calls.cancel(session, id)

    async def _answer_one(self, exchange: Exchange, message: McpMessage, asker: ToolAsker, session: str) -> None:
        streams = EVENT_STREAM in exchange.headers.get("accept", "")
        if message.method == "subscriptions/listen" and message.modern:
            await self._listen(exchange, message, asker)
        elif message.progress_token is not None and streams:
            await self._answer_in_events(exchange, message, asker, session)
        else:
            headers = await self._new_session(exchange) if message.method == "initialize" else []
            answer = await self._answered(message, asker, session)
            await self._respond(exchange, _status(message, answer), answer, headers)

    async def _listen(self, exchange: Exchange, message: McpMessage, asker: ToolAsker) -> None:
        if self._services.live.config.mcp.serve != "sessions":
            answer = rpc_failure(message.id, RpcError(METHOD_NOT_FOUND, "this gateway tells nobody of changes"))
            await self._respond(exchange, 404, answer)
            return
        wanted = message.params.get("notifications")
        asked = wanted if isinstance(wanted, dict) else {}
        kinds = [kind for kind in LISTS if asked.get(f"{kind}ListChanged") is True]
        meta: JsonObject = {_SUBSCRIPTION: message.id}
        honoured: JsonObject = {f"{kind}ListChanged": True for kind in kinds}
        first = notification("notifications/subscriptions/acknowledged", {"notifications": honoured, "_meta": meta})
        exchange.unwatch()
        await self._changes.follow(exchange, asker, [*_STREAM, self._id(exchange)], kinds, first, meta)

    async def _answer_in_events(self, exchange: Exchange, message: McpMessage, asker: ToolAsker, session: str) -> None:
        """Answer with events: how far the call is, then the answer. One that fails before it tells anything is answered without
        events."""
        news = _News(message, self._services.live.config.mcp.progress)
        task = asyncio.ensure_future(self._answered(message, asker, session, news))
        task.add_done_callback(lambda _: news.changed.set())
        headers = [*_STREAM, self._id(exchange)]
        try:
            while not task.done():
                await news.changed.wait()
                for notice in news.take():
                    if exchange.started:
                        await exchange.write(event_of(notice), last=False)
                    else:
                        await exchange.begin(200, headers, event_of(notice), last=False)
        finally:
            task.cancel()
        if exchange.started:
            await exchange.write(event_of(task.result()), last=True)
        else:
            await self._respond(exchange, _status(message, task.result()), task.result())

    async def _answered(
        self, message: McpMessage, asker: ToolAsker, session: str, news: "_News | None" = None
    ) -> JsonObject:
        """The answer to one request, whatever it fails with."""
        progress = _unheard if news is None else news.progress
        try:
            if message.method == "tools/call":
                self._count(asker)
            work = self._answers.result(message, asker, progress)
            return response(message, await self._calls.run(work, session, message.id if message.id is not None else ""))
        except RpcError as error:
            return rpc_failure(message.id, error)
        except SmgError as error:
            return rpc_failure(message.id, rpc_error_of(error))

    def _count(self, asker: ToolAsker) -> None:
        """Count a call of a tool as a request. Raises RateLimited and QuotaExceeded."""
        limiting = self._services.live.limiting
        refusal = None if limiting is None else limiting.count(asker.caller)
        if refusal is not None:
            raise refusal

    async def _respond(self, exchange: Exchange, status: int, answer: Json, headers: Sequence[Header] = ()) -> None:
        await exchange.respond(status, encode_object(answer), [JSON_TYPE, *headers, self._id(exchange)])


class _News:
    """What a call has told of its progress, at most `most` times, and its client has not been told."""

    def __init__(self, message: McpMessage, most: int) -> None:
        self.changed = asyncio.Event()
        self._token, self._left = message.progress_token, most
        self._notices: list[JsonObject] = []

    def progress(self, news: ToolProgress) -> None:
        """The `OnProgress` of the call."""
        if self._left:
            self._left -= 1
            progress: JsonObject = {"progress": news.progress, "total": news.total, "message": news.message}
            params = {name: value for name, value in progress.items() if value is not None}
            self._notices.append(notification("notifications/progress", {"progressToken": self._token, **params}))
            self.changed.set()

    def take(self) -> list[JsonObject]:
        """What is new since the last time."""
        notices, self._notices = self._notices, []
        self.changed.clear()
        return notices


def _unheard(news: ToolProgress) -> None:
    """Nobody is told of progress."""


def _status(message: McpMessage, answer: JsonObject) -> int:
    """The status of an answer: of an error, by its code, in the version without a handshake; else 200, as for any answer."""
    error = answer.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return RpcError(code, "").status if message.modern and isinstance(code, int) else 200


def _context(exchange: Exchange) -> SealContext:
    """Whose session it is."""
    return SealContext("mcp.session", exchange.caller.tenant, exchange.caller.principal)


def _base(exchange: Exchange) -> str:
    """The address of this gateway as its client has written it."""
    return f"{exchange.scope.get('scheme', 'http')}://{exchange.headers.get('host', 'localhost')}"
