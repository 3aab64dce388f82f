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
from smg_core.engines.connections.target import Tls
from smg_core.engines.elsewhere import Elsewhere
from smg_core.engines.http.address import HTTP2_PREFACE, is_http2
from smg_core.engines.http.answer import HttpReply
from smg_core.engines.http.client import HttpClient
from smg_core.engines.openai.answers import (
    adapters_of,
    error_from_http_status,
    error_of_chat,
    model_served,
    retry_after,
)
from smg_core.engines.openai.asking import Asking, asking
from smg_core.engines.openai.call import HttpAnswerCall
from smg_core.engines.openai.pooled import PooledWork
from smg_core.engines.pooling import PoolCall, Vector
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.unasked import Unasked
from smg_core.engines.upkeep import Adapter
from smg_core.errors import EngineGarbled, SmgError, WorkerGone
from smg_core.events import Event
from smg_core.request import GenerationRequest

__all__ = ["OpenAiEngine"]

_OPENAI_CONSTRAINTS = frozenset({"json_schema", "json_object"})
_CONSTRAINTS = _OPENAI_CONSTRAINTS | {"regex", "grammar", "structural_tag", "choice"}
_DEFAULTS = EnginesConfig()


class OpenAiEngine(Unasked):
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
        call = HttpAnswerCall(asked, sink, str(self.address), self._limits, self._http.headers, _refusal)
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
            pictures=self._pooled.routes.pictures,
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


def _refusal(refused: HttpReply) -> SmgError:
    return error_of_chat(refused.status, refused.body, retry_after(refused.headers))
