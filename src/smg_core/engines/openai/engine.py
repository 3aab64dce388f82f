"""`OpenAiEngine`: a server of the Chat Completions API as an engine that takes requests and gives events (edge).

Waits for the network. What is sent is decided by `body`, what the answer means by `events` and `answers`. Above: the wiring,
which passes it to whoever takes a `ChatEngine`. Knows no routing and no API of the gateway's.

A call is one POST, whose answer is read by a task of its own. The API has no call to stop a generation: the server stops when
its stream is closed, so `cancel` closes it. `pause` stops reading the stream.
"""

import asyncio
import ssl
from collections.abc import Sequence
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

from smg_core.engines.base import Call, EngineFacts, EngineSink, Loads, ModelInfo
from smg_core.engines.openai.address import HTTP2_PREFACE, ChatAddress, is_http2
from smg_core.engines.openai.answers import adapters_of, error_from_http_status, model_served, retry_after
from smg_core.engines.openai.body import write_body
from smg_core.engines.openai.events import ChatDecoder
from smg_core.engines.secrets import SecretHeaders
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.upkeep import Adapter, EngineReply, EngineTask
from smg_core.errors import EngineFailed, EngineGarbled, EngineStalled, EngineTimeout, SmgError, WorkerBusy, WorkerGone
from smg_core.events import Event
from smg_core.request import GenerationRequest

__all__ = ["OpenAiEngine"]

_OPENAI_CONSTRAINTS = frozenset({"json_schema", "json_object"})
_CONSTRAINTS = _OPENAI_CONSTRAINTS | {"regex", "grammar", "structural_tag", "choice"}
_DEFAULTS = EnginesConfig()
_EVENT_STREAM = "text/event-stream"


class OpenAiEngine:
    """Speaks Chat Completions to the server at `url` (`address` says how it is written).

    `model` is the server's name of the model; "" asks the server, which must then have one only. `api_key` is sent as a bearer
    token, and `headers` are sent as they are, with every request. `extras` False: the server takes OpenAI's own parameters and
    none of those that engines add. `ssl_context` is for https, where the system's certificates do not do. Times are seconds: to
    connect, and between two reads of an answer (None: any). `limits.http_connections` bounds the calls in flight: one more waits
    for `connect_timeout` and is then WorkerBusy.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str = "",
        api_key: str | None = None,
        headers: Sequence[tuple[str, str]] = (),
        extras: bool = True,
        ssl_context: ssl.SSLContext | None = None,
        connect_timeout: float = 5.0,
        idle_timeout: float | None = None,
        limits: EnginesConfig = _DEFAULTS,
    ) -> None:
        self.address = ChatAddress.parse(url)
        self._model = model
        self._extras = extras
        self._connect_timeout = connect_timeout
        self._waits = httpx.Timeout(connect_timeout, read=idle_timeout)
        self._limits = limits
        self._calls: set[_ChatCall] = set()
        self._closed = False
        own = (("authorization", f"Bearer {api_key}"),) if api_key else ()
        self._headers = SecretHeaders((*headers, *own))
        sent = {"accept-encoding": "identity", "user-agent": "smg-gateway", **dict(self._headers.fields)}
        if ssl_context is None:
            ssl_context = (
                ssl.create_default_context() if self.address.secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            )
        pool = httpx.Limits(
            max_connections=limits.http_connections,
            max_keepalive_connections=limits.http_idle_connections,
            keepalive_expiry=limits.http_keep_alive_s,
        )
        self._client = httpx.AsyncClient(
            base_url=self.address.origin,
            headers=sent,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            follow_redirects=False,
            trust_env=False,
            timeout=self._waits,
            transport=httpx.AsyncHTTPTransport(
                verify=ssl_context, uds=self.address.socket or None, limits=pool, trust_env=False
            ),
        )

    async def chat(
        self,
        request: GenerationRequest,
        sink: EngineSink[Event],
        *,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
        connect_timeout: float | None = None,
        lora: str | None = None,
    ) -> Call:
        """Start one generation, of the model or of its adapter `lora`; its events go to `sink`. `metadata` is sent as
        headers; `timeout` covers the whole call,
        `connect_timeout` the wait for a connection. Raises `UnsupportedParameter` for what the wire cannot say; all that the
        network and the server do goes to `sink.closed`."""
        if self._closed:
            raise WorkerGone("The engine is not available.", detail=f"{self.address}: closed by us")
        body = write_body(request, model=lora or self._model, extras=self._extras)
        headers = [
            ("content-type", "application/json"),
            ("accept", _EVENT_STREAM),
            ("x-request-id", request.id),
            *metadata,
        ]
        waits = self._waits if connect_timeout is None else httpx.Timeout(connect_timeout, read=self._waits.read)
        post = self._client.build_request(
            "POST", f"{self.address.api}/chat/completions", content=body, headers=headers, timeout=waits
        )
        decoder = ChatDecoder(request.id, request.sampling.n, self._limits)
        call = _ChatCall(self._client, post, decoder, sink, timeout, str(self.address), self._limits, self._headers)
        self._calls.add(call)
        call.task.add_done_callback(lambda _: self._calls.discard(call))
        return call

    @property
    def in_flight(self) -> int:
        """Calls whose connection is not free again."""
        return len(self._calls)

    async def describe(self) -> tuple[ModelInfo, EngineFacts]:
        """The server's model, from `GET /v1/models`, and what it can be asked. Raises what kept it from answering; an engine
        that speaks gRPC is named as such."""
        try:
            status, body, wait = await self._get(f"{self.address.api}/models", self._limits.question_timeout_s)
        except (EngineGarbled, WorkerGone):
            if await self._speaks_http2():
                raise EngineGarbled(
                    "The engine does not speak HTTP/1.1.",
                    detail=f"{self.address} speaks gRPC; write {self.address.as_grpc}",
                ) from None
            raise
        if status != 200:
            raise self._headers.hide(error_from_http_status(status, body, wait))
        found = model_served(body, self._model)
        self._model = found.id
        context = found.max_model_len or 0
        return ModelInfo(model=found.id, context_length=context), self._facts(context)

    def _facts(self, context_length: int) -> EngineFacts:
        return EngineFacts(
            dialect="openai",
            door="chat",
            constraints=_CONSTRAINTS if self._extras else _OPENAI_CONSTRAINTS,
            prompt_logprobs=False,
            cache_salt=self._extras,
            custom_tools=not self._extras,
            context_length=context_length,
            loads=False,
            kv_events=False,
            embed=False,
            lora=True,
        )

    async def health(self, timeout: float | None = None) -> bool:
        """Whether the server says that it is well: by `/health`, or where it has no such thing by listing its models."""
        limit = self._limits.question_timeout_s if timeout is None else timeout
        status, _, _ = await self._get("/health", limit)
        if 400 <= status < 500 and status != 429:
            status, _, _ = await self._get(f"{self.address.api}/models", limit)
        return 200 <= status < 300

    async def loads(self) -> Loads | None:
        """None: the API has no such question."""
        return None

    async def abort(self, request_id: str) -> None:
        """Nothing: closing the stream of a call is how such a server is told."""

    async def tokenizer(self) -> tuple[bytes, str] | None:
        """None: the server has it to itself."""
        return None

    async def upkeep(self, asked: EngineTask) -> EngineReply | None:
        """None: the API has no such call."""
        return None

    async def adapters(self) -> tuple[Adapter, ...]:
        """The models that it lists as adapters of its own."""
        status, body, wait = await self._get(f"{self.address.api}/models", self._limits.question_timeout_s)
        if status != 200:
            raise self._headers.hide(error_from_http_status(status, body, wait))
        return tuple(Adapter(name, name) for name in adapters_of(body, self._model))

    async def close(self) -> None:
        """Let go of all connections; calls in flight end with WorkerGone."""
        self._closed = True
        calls = list(self._calls)
        for call in calls:
            call.end(WorkerGone("The connection to the engine was closed.", detail=f"{self.address}: closed by us"))
            call.cancel()
        if calls:
            await asyncio.wait([call.task for call in calls])
        await self._client.aclose()

    async def _get(self, path: str, timeout: float) -> tuple[int, bytes, float | None]:
        """Status, body and when to come back, of a short answer. Raises `WorkerError`s only."""
        if self._closed:
            raise WorkerGone("The engine is not available.", detail=f"{self.address}: closed by us")
        try:
            async with asyncio.timeout(timeout), self._client.stream("GET", path) as response:
                body = await _bounded(response, self._limits.http_body_bytes)
                return response.status_code, body, retry_after(response.headers)
        except TimeoutError:
            raise EngineTimeout("The engine did not answer in time.", detail=f"{self.address}{path}") from None
        except httpx.HTTPError as error:
            raise _failure(error, str(self.address), begun=False) from None

    async def _speaks_http2(self) -> bool:
        """Whether the server takes HTTP/2 without TLS, as engines that speak gRPC do."""
        if self.address.secure:
            return False
        try:
            async with asyncio.timeout(self._connect_timeout):
                if self.address.socket:
                    reader, writer = await asyncio.open_unix_connection(self.address.socket)
                else:
                    reader, writer = await asyncio.open_connection(self.address.host, self.address.port)
                try:
                    writer.write(HTTP2_PREFACE)
                    return is_http2(await reader.readexactly(9))
                finally:
                    writer.transport.abort()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return False


class _ChatCall:
    """A call in flight: reads the answer and pushes what it means, until one of both sides has had enough."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        request: httpx.Request,
        decoder: ChatDecoder,
        sink: EngineSink[Event],
        timeout: float | None,
        address: str,
        limits: EnginesConfig,
        secrets: SecretHeaders,
    ) -> None:
        self._limits = limits
        self._headers = secrets
        self._client = client
        self._request = request
        self._decoder = decoder
        self._sink = sink
        self._timeout = timeout
        self._address = address
        self._over = False  # the sink is told nothing more
        self._begun = False  # the server's answer has begun
        self._may_read = asyncio.Event()
        self._may_read.set()
        self.task = asyncio.create_task(self._run())

    def cancel(self) -> None:
        """Close the stream. The sink hears nothing more. Harmless when the call is already over."""
        self._over = True
        self.task.cancel()

    def pause(self) -> None:
        """Stop reading: what one read has brought may still be pushed, then the server is held back by its full socket."""
        self._may_read.clear()

    def resume(self) -> None:
        """Read again."""
        self._may_read.set()

    def end(self, error: SmgError | None) -> None:
        """Tell the sink how the call ended, unless it was told already or asked not to be."""
        if self._over:
            return
        if error is not None:
            self._headers.hide(error)
        if error is not None and self._decoder.error is None:
            self._push(self._decoder.fail(error))
        if not self._over:
            self._over = True
            self._sink.closed(error)

    def _push(self, events: list[Event]) -> None:
        if events and not self._over:
            self._sink.push(events)

    async def _run(self) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await self._exchange()
        except TimeoutError:
            self.end(EngineTimeout("The engine did not answer in time.", detail=self._address))
        except httpx.HTTPError as error:
            self.end(_failure(error, self._address, begun=self._begun))

    async def _exchange(self) -> None:
        response = await self._client.send(self._request, stream=True)
        self._begun = True
        try:
            if response.status_code != 200:
                body = await _bounded(response, self._limits.http_error_bytes)
                self.end(error_from_http_status(response.status_code, body, retry_after(response.headers)))
            elif not response.headers.get("content-type", "").startswith(_EVENT_STREAM) or _is_packed(response):
                kind, packed = (response.headers.get(name) for name in ("content-type", "content-encoding"))
                detail = f"{self._address}: content-type {kind}, content-encoding {packed}"
                self.end(EngineGarbled("The engine did not answer with a stream of events.", detail=detail))
            else:
                await self._read(response)
        finally:
            await response.aclose()

    async def _read(self, response: httpx.Response) -> None:
        pieces = response.aiter_raw()
        decoder = self._decoder
        async for data in pieces:
            self._push(decoder.feed(data))
            if decoder.done or decoder.error is not None:
                break
            await self._may_read.wait()
        self._push(decoder.end())
        self.end(decoder.error)
        if decoder.done:
            # A connection can be used again once the body's own end has been read; it mostly came with the last event.
            async with asyncio.timeout(self._limits.http_end_s):
                async for _ in pieces:
                    break


def _is_packed(response: httpx.Response) -> bool:
    encoding: str = response.headers.get("content-encoding", "identity")
    return encoding != "identity"


async def _bounded(response: httpx.Response, limit: int) -> bytes:
    """The beginning of a body, at most `limit` bytes of it."""
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) >= limit:
            break
    return bytes(body[:limit])


def _failure(error: httpx.HTTPError, address: str, *, begun: bool) -> SmgError:
    """What a failure of the network means for the call. A connection that ends in the middle of an answer is lost, whichever
    layer says so; one that brings no HTTP at all is not such a server's."""
    detail = f"{address}: {type(error).__name__} {error}".rstrip()
    match error:
        case httpx.PoolTimeout():
            return WorkerBusy("The engine has no room for the request.", detail=detail)
        case httpx.ConnectTimeout() | httpx.ConnectError():
            return WorkerGone("The engine is not available.", detail=detail)
        case httpx.WriteTimeout():
            return EngineStalled("The engine did not answer in time.", detail=f"{detail}: it does not take the request")
        case httpx.TimeoutException():
            return EngineTimeout("The engine did not answer in time.", detail=detail)
        case httpx.RemoteProtocolError() if not begun and "disconnected" not in str(error):
            return EngineGarbled("The engine does not speak HTTP/1.1.", detail=detail)
        case httpx.NetworkError() | httpx.RemoteProtocolError():
            return WorkerGone("The engine went away before the request was complete.", detail=detail)
    return EngineFailed("The engine could not be asked.", detail=detail)
