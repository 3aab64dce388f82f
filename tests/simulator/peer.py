"""A plain grpcio client for the embedded engine, in either dialect."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import attrs
import grpc.aio

from smg_core.engines.base import Codec, EngineOutput, EngineRequest, Unary
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_simulator.server.grpc_server import SimulatedEngine

PROMPT = "Hello there"


@attrs.define
class Answer:
    """One Generate call as it was answered: every output, and the ids of each choice."""

    outputs: list[EngineOutput] = attrs.field(factory=list)
    messages: list[bytes] = attrs.field(factory=list)

    @property
    def ids(self) -> list[int]:
        return [token for output in self.outputs for token in output.ids]

    @property
    def last(self) -> EngineOutput:
        return self.outputs[-1]


@attrs.define
class Peer:
    """Speaks `codec` to `engine`."""

    engine: SimulatedEngine
    codec: Codec
    channel: grpc.aio.Channel

    def request(self, prompt: str | Iterable[int] = PROMPT, *, id: str = "r-1", **given) -> EngineRequest:
        outer = {name: given.pop(name) for name in ("stream", "constraint", "cache_salt") if name in given}
        if self.codec.name == "trtllm":  # its protocol must be told how long an answer may be
            given.setdefault("max_tokens", self.engine.engine.context_length // 2)
        ids = self.engine.engine.vocabulary.encode(prompt) if isinstance(prompt, str) else prompt
        return EngineRequest(id, TokenIds(ids), Sampling(**given), **outer)

    def call(self, request: EngineRequest):
        """The call itself, to be read message by message."""
        return self.channel.unary_stream(self.codec.generate_path)(self.codec.generate(request))

    async def ask(self, prompt: str | Iterable[int] = PROMPT, **given) -> Answer:
        """One request and its whole answer."""
        return await self.read(self.request(prompt, **given))

    async def read(self, request: EngineRequest, answer: Answer | None = None) -> Answer:
        decoder, answer = self.codec.decoder(request), answer or Answer()
        async for message in self.call(request):
            answer.messages.append(message)
            answer.outputs += decoder.feed([message])
        return answer

    async def rest(self, call) -> list[bytes]:
        """What is left of a call that was read message by message."""
        left = []
        while (message := await call.read()) is not grpc.aio.EOF:
            left.append(message)
        return left

    @property
    def service(self) -> str:
        return self.codec.generate_path.split("/")[1]

    async def unary(self, path: str, message: bytes = b"") -> bytes:
        return await self.channel.unary_unary(path)(message)

    async def tell(self, call: Unary):
        """One of the codec's calls, and what came back."""
        return call.parse(await self.unary(call.path, call.message))

    def stream(self, call: tuple[str, bytes]):
        path, message = call
        return self.channel.unary_stream(path)(message)

    def text(self, ids: Iterable[int]) -> str:
        return self.engine.engine.vocabulary.decode(list(ids))


@asynccontextmanager
async def peer(engine: SimulatedEngine, codec: Codec, credentials=None) -> AsyncIterator[Peer]:
    """A client of an engine that runs."""
    address = engine.target.split("://", 1)[1]
    address = f"unix:{address}" if engine.target.startswith("unix:") else address
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 50)]
    make = grpc.aio.insecure_channel if credentials is None else grpc.aio.secure_channel
    arguments = (address,) if credentials is None else (address, credentials)
    async with make(*arguments, options=options) as channel:
        yield Peer(engine, codec, channel)
