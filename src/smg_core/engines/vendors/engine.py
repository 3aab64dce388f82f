"""`ProviderEngine`: an outside provider as an engine that takes requests and gives events (edge).

Waits for the network and for credentials. What is sent, and what the answer means, is decided by a `WireFormat`; who sends it is
proven by a `Signer`. Above: the rows of kinds. Below: engines.http, wire_format, signing.

A call is one POST whose answer is a stream, for answers that leave whole too: a stream shows where it is cut off. Only what is
told in the provider's own words comes whole where the client has asked for it whole. A provider stops where its connection is
closed, so `cancel` closes it.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

import attrs
import msgspec

from smg_core.credentials.renewal.signing import SentFields, Signer
from smg_core.engines.base import EngineFacts, EngineSink, ModelInfo
from smg_core.engines.calls import AnswerCall
from smg_core.engines.connections.secrets import SecretHeaders
from smg_core.engines.connections.target import Tls
from smg_core.engines.elsewhere import Elsewhere
from smg_core.engines.http.address import HttpAddress
from smg_core.engines.http.answer import HttpReceiver, HttpReply
from smg_core.engines.http.client import HttpClient
from smg_core.engines.openai.asking import AnswerDecoder, Asking
from smg_core.engines.openai.call import HttpAnswerCall
from smg_core.engines.pooling import PoolCall, Vector
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.unasked import Unasked
from smg_core.engines.vendors.listing import ProviderModel
from smg_core.engines.vendors.proven_call import ProvenCall, SentCall
from smg_core.engines.vendors.wire_format import ProviderCall, WireFormat
from smg_core.errors import EngineFailed, InternalError
from smg_core.events import Event
from smg_core.request import GenerationRequest

__all__ = ["ProviderEngine"]

_JSON = "application/json"
_DEFAULTS = EnginesConfig()
_LIST_BYTES, _LIST_S = 8 << 20, 10.0
"""Of a provider's list of models: the bytes that are read, and the time that it may take."""
_WELL_S = 60.0
"""How long a provider that was found well is not asked again: its questions have limits too."""


class ProviderEngine(Unasked):
    """Speaks `wire` to the provider at `url`, as the customer whom `signer` proves. `model` is the provider's name of the model.
    `headers` are sent with every request; `tls` is for https, where the system's certificates do not do; `connect_timeout` in
    seconds is that of `HttpClient`."""

    def __init__(
        self,
        url: str,
        wire: WireFormat,
        signer: Signer,
        *,
        model: str,
        headers: Sequence[tuple[str, str]] = (),
        tls: Tls | None = None,
        connect_timeout: float = 5.0,
        limits: EnginesConfig = _DEFAULTS,
    ) -> None:
        self._http = HttpClient(url, headers=headers, tls=tls, limits=limits, connect_timeout=connect_timeout)
        self.address: HttpAddress = self._http.address
        has_path = url.partition("://")[2].partition("/")[2].strip("/")
        self._api = self.address.api if has_path or self.address.socket else wire.usual_path
        self._wire = wire
        self._signer = signer
        self._model = self.vendor_model = model
        self._limits = limits
        self._well_until = 0.0  # by the loop's clock

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
        """Start one generation; its events go to `sink`. `metadata` is not sent: it is of the gateway's own house. `timeout`
        covers the whole call, `connect_timeout` the wait for a connection. A body that takes long is written `elsewhere`."""

        def written() -> ProviderCall:
            return self._wire.ask(request, lora or self._model, self._limits, words)

        words = getattr(sink, "verbatim", "")
        asked = written() if elsewhere is None else await elsewhere(written)
        if asked.at_once and (waits := getattr(sink, "wait_for_all", None)) is not None:
            waits()
        path = f"{self._api}{asked.path}"
        fields = (("content-type", asked.content_type), ("accept", asked.accept), *asked.headers)

        async def sent(receiver: HttpReceiver) -> SentCall:
            signed = await self._signed("POST", path, fields, asked.body)
            call.keep_out(SecretHeaders((*self._http.headers.fields, *signed)))
            started = await self._http.start(
                "POST",
                path,
                asked.body,
                receiver,
                headers=(*fields, *signed),
                timeout=timeout,
                connect_timeout=connect_timeout,
            )
            return SentCall(started, signed)

        call = HttpAnswerCall(
            Asking(asked.path, asked.body, asked.content_type, asked.accept, _reader(asked), raw=asked.raw),
            sink,
            str(self.address),
            self._limits,
            self._http.headers,
            self._wire.refusal,
            asked.losses,
            getattr(sink, "alive", None),
        )
        proven = ProvenCall(call, sent, self._signer, self._limits.http_error_bytes)
        call.attach(proven)
        await proven.start()
        return call

    @property
    def in_flight(self) -> int:
        """Calls whose connection is not free again."""
        return self._http.in_flight

    @property
    def connections(self) -> int:
        """How many connections to the provider were made so far."""
        return self._http.connections

    async def describe(self) -> tuple[ModelInfo, EngineFacts]:
        """The model as the provider describes it, and what can be asked of it. Raises what kept it from answering."""
        if not self._model:
            raise EngineFailed(
                "The provider serves many models.", detail="name the one to use: the worker's model, or model.name"
            )
        about = self._wire.about(self._model)
        context = 0
        if about is not None:
            context = self._wire.described(await self._asked("GET", about)).context
        info = ModelInfo(model=self._model, context_length=context)
        return info, self._facts()

    def _facts(self) -> EngineFacts:
        vectors = self._wire.vectors
        facts = attrs.evolve(self._wire.facts, maker=(*self._wire.maker, self._model))
        if not (pools := vectors.pools(self._model)):
            return facts
        most = min(vectors.inputs, self._limits.http_inputs)
        return attrs.evolve(facts, generates=False, pools=pools, pool_inputs=most)

    async def pool(
        self, call: PoolCall, *, metadata: Sequence[tuple[str, str]] = (), timeout: float | None = None
    ) -> Sequence[Vector]:
        """The numbers for each input or pair, in order, by the provider's API for such work. `metadata` as of `chat`."""
        found: list[Vector] = []
        for each in self._wire.vectors.ask(call, self._model):
            asked = ProviderCall(each.path, each.body)
            found += each.read(await self._asked("POST", asked, timeout, self._limits.http_vectors_bytes))
        return found

    async def moderate(self, body: Mapping[str, Any], timeout: float | None = None) -> bytes | None:
        """The answer to a request for moderations by the model; None where the provider has none, or the model is another."""
        path = self._wire.vectors.moderations(self._model)
        if not path:
            return None
        asked = ProviderCall(path, msgspec.json.encode({**body, "model": self._model}))
        return await self._asked("POST", asked, timeout, self._limits.http_vectors_bytes)

    async def count(self, request: GenerationRequest) -> int | None:
        """The tokens of the prompt of `request` by the provider's own count; None where it counts for nobody."""
        question = self._wire.count(request, self._model)
        if question is None:
            return None
        return self._wire.counted(await self._asked("POST", question))

    @property
    def lists(self) -> bool:
        """Whether the provider lists its models."""
        return self._wire.catalogue is not None

    async def listed(self) -> Mapping[str, ProviderModel]:
        """What the provider lists, by its names. Raises what kept it from answering."""
        catalogue = self._wire.catalogue
        if catalogue is None:
            return {}
        asked = ProviderCall(catalogue.path, b"", headers=catalogue.headers)
        body = await self._asked("GET", asked, _LIST_S, _LIST_BYTES)
        return await asyncio.to_thread(catalogue.read, body)

    async def health(self, timeout: float | None = None) -> bool:
        """Whether the provider answers for the model, asked once a minute at most; one that is asked too often is well."""
        about, now = self._wire.about(self._model), asyncio.get_running_loop().time()
        if about is None or now < self._well_until:
            return True
        reply, _ = await self._ask("GET", about, timeout)
        well = reply.status in (200, 429)
        if well:
            self._well_until = now + _WELL_S
        return well

    async def close(self) -> None:
        """Let go of all connections; calls in flight end with WorkerGone."""
        await self._http.close()
        await self._signer.close()

    async def _asked(
        self, method: str, asked: ProviderCall, timeout: float | None = None, most: int | None = None
    ) -> bytes:
        """The answer to a question, of `most` bytes. Raises the error that it is."""
        reply, signed = await self._ask(method, asked, timeout, most)
        if reply.status == 200:
            return reply.body
        raise SecretHeaders((*self._http.headers.fields, *signed)).hide(self._wire.refusal(reply))

    async def _ask(
        self, method: str, asked: ProviderCall, timeout: float | None = None, most: int | None = None
    ) -> tuple[HttpReply, SentFields]:
        """A question with its whole answer, and the headers that proved who asked."""
        path = f"{self._api}{asked.path}"
        fields = (*((("content-type", _JSON),) if asked.body else ()), ("accept", _JSON), *asked.headers)
        limit = self._limits.question_timeout_s if timeout is None else timeout
        tried = False
        while True:
            signed = await self._signed(method, path, fields, asked.body)
            headers = (*fields, *signed)
            reply = await self._http.ask(
                method, path, asked.body, headers=headers, timeout=limit, question=method == "GET", most=most
            )
            if tried or reply.status < 400 or not self._signer.refused(signed, reply.status, reply.headers, reply.body):
                return reply, signed
            tried = True

    async def _signed(self, method: str, path: str, fields: SentFields, body: bytes) -> SentFields:
        sent = (*self._http.headers.fields, *fields)
        found = self._signer.authorise(method, f"{self.address.origin}{path}", sent, body)
        return await found if isinstance(found, Awaitable) else found


def _reader(asked: ProviderCall) -> AnswerDecoder:
    if asked.decoder is None:
        raise InternalError("The request has no reader for its answer.")
    return asked.decoder
