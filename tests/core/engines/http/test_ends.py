"""The end of a stream whose answer is whole: it is waited for, not for ever, and where it comes the connection is kept."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
from tests.core.engines.http.test_client import Peer, Say, say
from tests.engine_kinds import HTTP_DIALECTS
from tests.peers import listening
from tests.shared import PATIENCE

from smg_core.engines.base import EngineRequest
from smg_core.engines.calls import AnswerCall
from smg_core.engines.kinds.http import CHAT
from smg_core.engines.kinds.kind import EnginePlace
from smg_core.engines.kinds.opening import open_engine
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import SmgError
from smg_core.request import GenerationRequest, Message, Sampling, Text
from smg_core.tokens import TokenIds

pytestmark = pytest.mark.anyio

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
LAST = {
    "vllm-http": b'{"choices":[{"index":0,"text":"a","token_ids":[5],"finish_reason":"stop"}]}',
    "vllm-tokens-http": b'{"choices":[{"index":0,"token_ids":[5],"finish_reason":"stop"}]}',
    "sglang-http": b'{"output_ids":[5],"meta_info":{"completion_tokens":1,"finish_reason":{"type":"stop"}}}',
    "llamacpp-http": b'{"content":"a","tokens":[5],"tokens_predicted":1,"stop":true,"stop_type":"eos"}',
    CHAT: b'{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}',
}
"""The last event of an answer in each dialect."""
every = pytest.mark.parametrize("dialect", [*HTTP_DIALECTS, CHAT])


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"], autouse=True)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param}


class Heard:
    """A sink that knows when something was pushed."""

    def __init__(self) -> None:
        self.pushed = asyncio.Event()
        self.ends: list[SmgError | None] = []

    def push(self, outputs: Sequence[object]) -> None:
        self.pushed.set()

    def closed(self, error: SmgError | None) -> None:
        self.ends.append(error)


@attrs.define
class Talk:
    """An engine that said its last event and no [DONE], and its client."""

    engine: Any
    peer: Peer

    async def asked(self) -> tuple[AnswerCall, Heard]:
        """A call whose last event has come."""
        heard = Heard()
        if hasattr(self.engine, "chat"):
            message = Message("user", (Text("Hi"),), None, True)
            call = await self.engine.chat(GenerationRequest(id="r", model="m", messages=(message,)), heard)
        else:
            call = await self.engine.generate(EngineRequest("r", TokenIds([1]), Sampling(max_tokens=9)), heard)
        async with asyncio.timeout(PATIENCE):
            await heard.pushed.wait()
        return call, heard


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@asynccontextmanager
async def talking(dialect: str, *answers: Say, **bounds: Any) -> AsyncIterator[Talk]:
    peer = Peer(list(answers))
    async with listening(peer.take) as port:
        limits = EnginesConfig(**bounds)
        url = f"http://127.0.0.1:{port}"
        place = EnginePlace(url, dialect, model="m", limits=limits, connect_timeout=PATIENCE)
        engine = await open_engine(place)
        try:
            yield Talk(engine, peer)
        finally:
            await engine.close()


def said(dialect: str) -> bytes:
    return HEAD + chunked(b"data: " + LAST[dialect] + b"\n\n")


@every
async def test_a_stream_that_does_not_end_behind_its_answer_is_closed(dialect: str) -> None:
    async with talking(dialect, say(said(dialect)), http_end_s=0.01) as talk:
        call, heard = await talk.asked()
        call.leave()
        async with asyncio.timeout(PATIENCE):
            while not talk.peer.gone:
                await asyncio.sleep(0.005)

    assert not heard.ends


@every
async def test_a_stream_that_ends_behind_its_answer_leaves_its_connection_to_the_next_call(dialect: str) -> None:
    goes_on = asyncio.Event()

    async def ends_later(writer: asyncio.StreamWriter) -> None:
        writer.write(said(dialect))
        await goes_on.wait()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async with talking(dialect, ends_later, http_end_s=60.0) as talk:
        for _ in range(2):
            goes_on.clear()
            call, _ = await talk.asked()
            call.leave()
            call.leave()
            goes_on.set()
            client = talk.engine.transport._client if hasattr(talk.engine, "transport") else talk.engine._http
            async with asyncio.timeout(PATIENCE):
                while client.in_flight:
                    await asyncio.sleep(0)

    assert talk.peer.used == [0, 0]
