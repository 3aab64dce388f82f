"""`OpenAiEngine`: a server of the Chat Completions API as an engine that takes requests and gives events (edge).

Waits for the network. What is sent is decided by `body`, what the answer means by `events` and `answers`. Above: the wiring,
which passes it to whoever takes a `ChatEngine`. Knows no routing and no API of the gateway's.

A call is one POST. The API has no call to stop a generation: the server stops when its connection is closed, so `cancel` closes
it. `pause` stops reading it.
"""

import asyncio
from collections.abc import Sequence

import attrs

from smg_core.engines.base import EngineFacts, EngineSink, ModelInfo
from smg_core.engines.calls import AnswerCall
from smg_core.engines.connections.secrets import SecretHeaders
from smg_core.engines.connections.target import Tls
from smg_core.engines.elsewhere import Elsewhere
from smg_core.engines.http.address import HTTP2_PREFACE, is_http2
from smg_core.engines.http.answer import HttpReply
from smg_core.engines.http.client import HttpCall, HttpClient
from smg_core.engines.loads import Loads
from smg_core.engines.openai.answers import (
    adapters_of,
    error_from_http_status,
    error_of_chat,
    model_served,
    retry_after,
)
from smg_core.engines.openai.asking import Asking, asking
from smg_core.engines.openai.pooled import PooledWork
from smg_core.engines.pooling import PoolCall, Vector
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.upkeep import Adapter, EngineReply, EngineTask
from smg_core.errors import EngineGarbled, ReadingFailed, SmgError, WorkerGone
from smg_core.events import Event
from smg_core.request import GenerationRequest

__all__ = ["OpenAiEngine"]

_OPENAI_CONSTRAINTS = frozenset({"json_schema", "json_object"})
_CONSTRAINTS = _OPENAI_CONSTRAINTS | {"regex", "grammar", "structural_tag", "choice"}
_DEFAULTS = EnginesConfig()
_EVENT_STREAM, _JSON = "text/event-stream", "application/json"
_LOOKED_AT = (_EVENT_STREAM, _JSON, "text/plain")
"""Types under which servers send events or an object: which it is, is seen by the first byte."""
_FIRST = b"{:deir"
"""First bytes of an object, of a comment and of the fields of events (data, event, id, retry): an answer of any other type is
read where it begins with one, and is refused otherwise."""
_BLANK = b" \t\r\n\xef\xbb\xbf"
"""Bytes that may stand before an object or the first event: spaces, and the mark of UTF-8."""


class OpenAiEngine:
    """Speaks Chat Completions to the server at `url` (`http.address` says how it is written).

    `model` is the server's name of the model; "" asks the server, which must then have one only, or one called `preferred`.
    `api_key` is sent as a bearer token, and `headers` are sent as they are, with every request. `extras` False: the server takes
    OpenAI's own parameters and none of those that engines add. `tls` is for https, where the system's certificates do not do.
    `connect_timeout` in seconds is that of `HttpClient`.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str = "",
        preferred: str = "",
        api_key: str | None = None,
        headers: Sequence[tuple[str, str]] = (),
        extras: bool = True,
        tls: Tls | None = None,
        connect_timeout: float = 5.0,
        limits: EnginesConfig = _DEFAULTS,
    ) -> None:
        own = (("authorization", f"Bearer {api_key}"),) if api_key else ()
        self._http = HttpClient(url, headers=(*headers, *own), tls=tls, limits=limits, connect_timeout=connect_timeout)
        self.address = self._http.address
        self._named, self._preferred = model, preferred  # the operator's words
        self._model = model  # what the server is asked for: its own word, where that is known
        self._extras = extras
        self._limits = limits
        self._reasons_in: set[str] = set()  # the fields that it has written reasoning in
        self._pooled = PooledWork(self._http, self.address.api, limits, extras=extras)

    async def chat(
        self,
        request: GenerationRequest,
        sink: EngineSink[Event],
        *,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
        connect_timeout: float | None = None,
        lora: str | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> AnswerCall:
        """Start one generation, of the model or of its adapter `lora`; its events go to `sink`. `metadata` is sent as
        headers; `timeout` covers the whole call, `connect_timeout` the wait for a connection. A body that takes long to write is
        written `elsewhere`. Raises `UnsupportedParameter` for what the wire cannot say, and what kept the request from being
        sent."""

        def written() -> Asking:
            speech = self._pooled.routes.speech
            return asking(
                *(request, lora or self._model, self._limits),
                extras=self._extras,
                speech=speech,
                learnt=self._reasons_in,
            )

        asked = written() if elsewhere is None else await elsewhere(written)
        headers = [
            ("content-type", asked.content_type),
            ("accept", asked.accept),
            ("x-request-id", request.id),
            *metadata,
        ]
        call = _ChatCall(asked, sink, str(self.address), self._limits, self._http.headers)
        path, body = f"{self.address.api}{asked.path}", asked.body
        call.attach(
            await self._http.start(
                "POST", path, body, call, headers=headers, timeout=timeout, connect_timeout=connect_timeout
            )
        )
        return call

    @property
    def in_flight(self) -> int:
        """Calls whose connection is not free again."""
        return self._http.in_flight

    @property
    def connections(self) -> int:
        """How many connections to the server were made so far."""
        return self._http.connections

    async def describe(self) -> tuple[ModelInfo, EngineFacts]:
        """The server's model, from `GET /v1/models`, and what it can be asked. Raises what kept it from answering; an engine
        that speaks gRPC is named as such."""
        try:
            answer = await self._get(f"{self.address.api}/models", self._limits.question_timeout_s)
            if answer.status == 404 and (info := await self._pooled.described_by_info()) is not None:
                self._model = self._named or info.model
                return attrs.evolve(info, model=self._model), self._facts(info.context_length)
        except (EngineGarbled, WorkerGone):
            if await self._speaks_http2():
                raise EngineGarbled(
                    "The engine does not speak HTTP/1.1.",
                    detail=f"{self.address} speaks gRPC; write {self.address.as_grpc}",
                ) from None
            raise
        found = model_served(self._ok(answer), self._named, preferred=(self._preferred, self._model))
        self._model = found.id
        context = found.max_model_len or 0
        routes = await self._pooled.learn(answer.body, found.id)
        info = ModelInfo(model=found.id, context_length=context, labels=routes.labels)
        return info, self._facts(context or routes.context)

    def _facts(self, context_length: int) -> EngineFacts:
        return EngineFacts(
            dialect="openai",
            takes_ids=False,
            transport="http",
            constraints=_CONSTRAINTS if self._extras else _OPENAI_CONSTRAINTS,
            prompt_logprobs=False,
            cache_salt=self._extras,
            custom_tools=not self._extras,
            context_length=context_length,
            loads=False,
            kv_events=False,
            pools=self._pooled.routes.pools,
            pool_inputs=self._pooled.inputs,
            lora=True,
            speech=self._pooled.routes.speech,
            speaks=self._pooled.routes.speaks,
        )

    async def pool(
        self, call: PoolCall, *, metadata: Sequence[tuple[str, str]] = (), timeout: float | None = None
    ) -> Sequence[Vector]:
        """The numbers for each input or pair, by the server's API for such work."""
        return await self._pooled.pool(call, self._model, metadata=metadata, timeout=timeout)

    async def health(self, timeout: float | None = None) -> bool:
        """Whether the server says that it is well: by `/health`, or where it has no such thing by listing its models."""
        limit = self._limits.question_timeout_s if timeout is None else timeout
        status = (await self._get(f"{self.address.root}/health", limit)).status
        if 400 <= status < 500 and status != 429:
            status = (await self._get(f"{self.address.api}/models", limit)).status
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
        answer = await self._get(f"{self.address.api}/models", self._limits.question_timeout_s)
        return tuple(Adapter(name, name) for name in adapters_of(self._ok(answer), self._model))

    async def close(self) -> None:
        """Let go of all connections; calls in flight end with WorkerGone."""
        await self._http.close()

    def _ok(self, answer: HttpReply) -> bytes:
        """The body of an answer that is no error. Raises the error."""
        if answer.status == 200:
            return answer.body
        wait = retry_after(answer.headers)
        raise self._http.headers.hide(error_from_http_status(answer.status, answer.body, wait))

    async def _get(self, path: str, timeout: float) -> HttpReply:
        return await self._http.ask("GET", path, timeout=timeout, question=True)

    async def _speaks_http2(self) -> bool:
        """Whether the server takes HTTP/2 without TLS, as engines that speak gRPC do."""
        if self.address.secure:
            return False
        try:
            async with asyncio.timeout(self._http.connect_timeout):
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
    """A call in flight: receives the answer (`HttpReceiver`) and pushes what it means, until one of both sides has had enough."""

    def __init__(
        self,
        asked: Asking,
        sink: EngineSink[Event],
        address: str,
        limits: EnginesConfig,
        secrets: SecretHeaders,
    ) -> None:
        self._limits = limits
        self._secrets = secrets
        self._decoder, self._any_kind, self._raw = asked.decoder, asked.any_kind, asked.raw
        self._sink = sink
        self._address = address
        self._over = False  # the sink is told nothing more
        self._call: HttpCall | None = None
        self._refusal: HttpReply | None = None  # the head of an answer that is an error
        self._refused = bytearray()
        self._object: bytearray | None = None  # of an answer that is one object and no stream
        self._unseen = False  # whether the answer is an object or events is seen by its first byte
        self._kind = ""  # the type of an answer, where it is none that servers send
        self._timer: asyncio.TimerHandle | None = None  # for the end of a stream whose answer is whole
        self._paused = False

    def attach(self, call: HttpCall) -> None:
        """Take the call that was started with this as its receiver."""
        self._call = call

    # --------------------------------------------------------------------------------------------- asked by the sink's owner

    def cancel(self) -> None:
        """Close the connection. The sink hears nothing more. Harmless when the call is already over."""
        self._over = True
        self._stop_timer()
        if self._call is not None:
            self._call.cancel()

    def leave(self) -> None:
        """Leave the call to the server's own end of it."""
        self._over = True
        self._stop_timer()
        if self._call is not None:
            self._call.leave()

    def pause(self) -> None:
        """Stop reading: what one read has brought may still be pushed, then the server is held back by its full socket."""
        self._paused = True
        self._stop_timer()
        if self._call is not None:
            self._call.pause()

    def resume(self) -> None:
        """Read again."""
        self._paused = False
        self._await_end()
        if self._call is not None:
            self._call.resume()

    # ------------------------------------------------------------------------------------------------- pushed by the client

    def head(self, status: int, headers: dict[str, str]) -> None:
        kind = headers.get("content-type", "")
        if status != 200:
            self._refusal = HttpReply(status, headers, b"")
        elif self._raw:
            return
        elif self._any_kind and not kind.lower().startswith(_EVENT_STREAM):
            self._object = bytearray()
        else:
            self._unseen = True
            self._kind = "" if kind.lower().startswith(_LOOKED_AT) else kind

    def body(self, piece: bytes) -> None:
        if self._refusal is not None:
            self._refused += piece
            if len(self._refused) >= self._limits.http_error_bytes:
                self._stop(self._refusal_error(self._refusal))
            return
        if self._unseen:
            piece = piece.lstrip(_BLANK)
            if not piece:
                return
            self._unseen = False
            if self._kind and piece[0] not in _FIRST:
                said = repr(self._kind[:64])
                detail = f"{self._address}: content-type {said}"
                self._stop(
                    EngineGarbled("The engine did not answer with a stream of events.", detail=detail, said=said)
                )
                return
            self._object = bytearray() if piece[:1] == b"{" else None
        if self._object is not None:
            self._object += piece
            if len(self._object) > self._limits.http_event_bytes:
                most = self._limits.http_event_bytes
                self._stop(EngineGarbled(f"The engine sent an answer of more than {most} bytes at once."))
            return
        decoder = self._decoder
        try:
            events = decoder.feed(piece)
        except Exception as fault:  # noqa: BLE001  # a fault of the decoder's is not the server's
            self._stop(ReadingFailed.of(fault))
            return
        self._push(events)
        if decoder.done or decoder.error is not None:
            call = self._call
            self._end(decoder.error)
            if call is None:
                return
            if decoder.done:
                call.leave()  # the body's own end mostly came with the last event
            else:
                call.cancel()
        else:
            self._await_end()

    def _await_end(self) -> None:
        """Give a server its time to end a stream whose answer is whole, from the last piece on: some say no [DONE], and some of
        those do not close it either."""
        self._stop_timer()
        if self._decoder.finished and not self._over and not self._paused:
            seconds = self._limits.http_end_s or self._limits.question_timeout_s
            self._timer = asyncio.get_running_loop().call_later(seconds, self._end_is_late)

    def _end_is_late(self) -> None:
        call = self._call
        self.closed(None)
        if call is not None:
            call.cancel()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def closed(self, error: SmgError | None) -> None:
        if self._over:
            return
        if error is None and self._refusal is not None:
            error = self._refusal_error(self._refusal)
        if error is None:
            decoder = self._decoder
            try:
                self._push(decoder.end() if self._object is None else decoder.whole(bytes(self._object)))
                error = decoder.error
            except Exception as fault:  # noqa: BLE001  # as above
                error = ReadingFailed.of(fault)
        self._end(error)

    def _refusal_error(self, refusal: HttpReply) -> SmgError:
        body = bytes(self._refused[: self._limits.http_error_bytes])
        return error_of_chat(refusal.status, body, retry_after(refusal.headers))

    def _stop(self, error: SmgError) -> None:
        """End the call on this side."""
        self._end(error)
        if self._call is not None:
            self._call.cancel()

    def _end(self, error: SmgError | None) -> None:
        """Tell the sink how the call ended, unless it was told already or asked not to be."""
        self._stop_timer()
        if self._over:
            return
        if error is not None:
            self._secrets.hide(error)
            if self._decoder.error is None and not isinstance(
                error, ReadingFailed
            ):  # else it is broken off in its midst
                self._push(self._decoder.fail(error))
        if not self._over:
            self._over = True
            self._sink.closed(error)

    def _push(self, events: list[Event]) -> None:
        if events and not self._over:
            self._sink.push(events)
