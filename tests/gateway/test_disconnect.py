"""Clients that leave, in every phase of a request, and clients that read slowly: the engine is told, and held back."""

import asyncio
import gc
import json
import socket
import struct
import threading
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import h11
import httpx
import pytest
from tests.gateway.conftest import CHAT, House, body, eventually, held_back, in_process, over_http, settled
from tests.peers import listening
from tests.shared import PATIENCE

from smg_core import Config, Gateway
from smg_core.engines.grpc.h2.transport import H2Transport
from smg_core.engines.token_ids.client import EngineClient
from smg_core.hooks import RequestFinished
from smg_core.server.http_protocol import BoundedHttpProtocol
from smg_core.testing import MemoryObserver
from smg_core.wire.settings import LimitsConfig
from smg_core.workers.settings import WorkersConfig
from smg_simulator.answers.faults import Fault
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

PACED = SimulatorConfig(reply_tokens=2000, timing=Timing(decode_rate=100))
TIGHT = Config(limits=LimitsConfig(response_buffer_bytes=4096))
TOKENS = 14_000
ENDLESS = SimulatorConfig(reply_tokens=TOKENS)


def outcomes(house: House) -> list[str]:
    return [each.outcome for each in house.observer.of(RequestFinished)]


async def aborted(house: House) -> None:
    """The one request that the engine was sent has been aborted there, and nothing is left of it."""
    await eventually(lambda: len(house.engine.requests) == 1 and house.engine.requests[0].id in house.engine.aborted)
    await settled(house)
    await eventually(lambda: outcomes(house) == ["client_gone"])


async def dropped(house: House) -> None:
    """Likewise for an engine that was held back: it learns of it by its stream, which it can no longer write to."""
    await settled(house)
    await eventually(lambda: outcomes(house) == ["client_gone"])
    assert house.engine.counters["tokens"] < TOKENS


async def leave(asked: "asyncio.Task[Any]") -> None:
    asked.cancel()
    await asyncio.wait([asked])


@asynccontextmanager
async def raw(house: House, **fields: Any) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection of its own with a request on it, and next to no buffer for the answer."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
    sock.setblocking(False)
    host, _, port = house.url.removeprefix("http://").partition(":")
    await asyncio.get_running_loop().sock_connect(sock, (host, int(port)))
    reader, writer = await asyncio.open_connection(sock=sock, limit=1024)
    writer.write(posted(body(**fields)))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def posted(request: dict[str, Any], *, cut: int = 0) -> bytes:
    """A request as bytes, without its last `cut`."""
    sent = json.dumps(request).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(sent)}\r\n\r\n".encode()
    return (head + sent)[: len(head) + len(sent) - cut]


# ------------------------------------------------------------------------------------------------------- before the engine


async def test_a_client_that_leaves_while_it_sends_its_body_costs_nothing() -> None:
    async with over_http() as house:
        _, writer = await asyncio.open_connection("127.0.0.1", int(house.url.rpartition(":")[2]))
        writer.write(posted(body("x" * 1000), cut=300))
        await writer.drain()
        writer.transport.abort()
        await eventually(lambda: outcomes(house) == ["client_gone"])
        await settled(house)
        asked = house.engine.counters["requests"]
        assert (await house.chat()).status_code == 200

    assert asked == 0


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_client_that_leaves_while_its_prompt_is_encoded_never_reaches_the_engine(
    served: Callable[..., Any], streaming: bool
) -> None:
    free = threading.Event()
    async with served(PACED) as house:
        threads = house.gateway.config.tokenizer.encode_threads
        executor = house.gateway.services.running.executor
        busy = [asyncio.create_task(executor.run(lambda _: free.wait(PATIENCE), size=1)) for _ in range(threads)]
        await asyncio.sleep(0)
        asked = asyncio.create_task(house.chat("new words, " * 20_000, stream=streaming))
        await eventually(lambda: house.gateway.in_flight)
        await leave(asked)
        await eventually(lambda: outcomes(house) == ["client_gone"])
        await settled(house)
        assert executor.waiting == 0
        free.set()
        await asyncio.gather(*busy)

        assert house.engine.counters["requests"] == 0
        assert (await house.chat("a", max_tokens=1)).status_code == 200


@attrs.define
class Relay:
    """A road to an engine that can be blocked: what is on it is lost, and who comes waits."""

    target: str
    blocked: bool = False
    waiting: int = 0
    connections: set[asyncio.StreamWriter] = attrs.field(factory=set)
    tasks: set["asyncio.Task[None]"] = attrs.field(factory=set)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.add(writer)
        if self.blocked:
            self.waiting += 1
            return
        host, _, port = self.target.removeprefix("grpc://").partition(":")
        there, back = await asyncio.open_connection(host, int(port))
        self.connections.add(back)
        for source, sink in ((reader, back), (there, writer)):
            self.tasks.add(asyncio.create_task(self.pass_on(source, sink)))

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    def block(self) -> None:
        self.blocked = True
        self.cut()

    def cut(self) -> None:
        for writer in self.connections:
            writer.transport.abort()
        self.connections.clear()

    async def close(self) -> None:
        self.cut()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_client_that_leaves_while_the_worker_is_being_connected_never_reaches_the_engine(
    streaming: bool,
) -> None:
    async with SimulatedEngine(PACED) as engine:
        relay = Relay(engine.target)
        observer = MemoryObserver()
        patient = Config(workers=WorkersConfig(health_interval_s=3600.0, probe_timeout_s=PATIENCE))
        async with (
            listening(relay.take) as port,
            Gateway([f"grpc://127.0.0.1:{port}"], observer=observer, config=patient) as gateway,
            gateway.http_client(httpx, base_url="http://gateway") as http,
        ):
            house = House(gateway, http, observer, own=(engine,))
            relay.block()
            (worker,) = gateway.registry
            assert isinstance(worker.engine, EngineClient)
            transport = worker.engine.transport
            assert isinstance(transport, H2Transport)
            await eventually(lambda: transport._link is None)
            asked = asyncio.create_task(house.chat(stream=streaming))
            await eventually(lambda: relay.waiting and gateway.in_flight)
            await leave(asked)
            await settled(house)
            assert outcomes(house) == ["client_gone"]
        await relay.close()

    assert engine.counters["requests"] == 0


# ----------------------------------------------------------------------------------------------------------- at the engine


@pytest.mark.full
@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_client_that_leaves_before_the_first_token_aborts(served: Callable[..., Any], streaming: bool) -> None:
    async with served(PACED) as house:
        house.engine.inject(Fault("stall"))
        asked = asyncio.create_task(house.chat(stream=streaming))
        await eventually(lambda: house.engine.active)
        await leave(asked)
        await aborted(house)


@pytest.mark.full
async def test_a_client_that_leaves_while_the_engine_has_it_wait_aborts(served: Callable[..., Any]) -> None:
    busy = attrs.evolve(PACED, timing=Timing(decode_rate=100, batch=1))
    async with served(busy) as house:
        house.engine.inject(Fault("stall"))
        asked = [asyncio.create_task(house.chat(f"{number}")) for number in range(2)]
        await eventually(lambda: house.engine.active == 2)
        for each in reversed(asked):
            await leave(each)
        await settled(house)
        await eventually(lambda: len(house.engine.aborted) == 2)


async def test_a_client_that_leaves_during_a_whole_answer_aborts(served: Callable[..., Any]) -> None:
    async with served(PACED) as house:
        asked = asyncio.create_task(house.chat())
        await eventually(lambda: house.engine.counters["tokens"] > 3)
        await leave(asked)
        await aborted(house)


async def test_a_client_that_leaves_in_mid_stream_aborts(served: Callable[..., Any]) -> None:
    async with served(PACED) as house:
        async with house.http.stream("POST", CHAT, json=body(stream=True)) as answer:
            async for _ in answer.aiter_bytes():
                break
        await aborted(house)


async def test_a_client_that_leaves_after_several_choices_have_begun_aborts_them_all(
    served: Callable[..., Any],
) -> None:
    async with served(PACED) as house:
        async with house.http.stream("POST", CHAT, json=body(stream=True, n=3, temperature=1)) as answer:
            async for _ in answer.aiter_bytes():
                break
        await aborted(house)


@pytest.mark.full
async def test_a_client_that_leaves_while_the_gateway_waits_for_it_to_read_aborts_over_http() -> None:
    async with over_http(ENDLESS, config=TIGHT) as house:
        async with raw(house, stream=True, max_tokens=TOKENS):
            await held_back(house)
        await dropped(house)


@pytest.mark.full
async def test_a_client_that_leaves_while_the_gateway_waits_for_it_to_read_aborts_in_process() -> None:
    async with in_process(ENDLESS, config=TIGHT) as house:
        async with house.http.stream("POST", CHAT, json=body(stream=True, max_tokens=TOKENS)):
            await held_back(house)
        await dropped(house)


async def test_a_client_with_more_requests_behind_its_stream_is_seen_to_leave() -> None:
    stalled = attrs.evolve(PACED, faults=(Fault("stall", after=3),))
    async with over_http(stalled) as house, raw(house, stream=True) as (reader, writer):
        await reader.readuntil(b"data: ")
        (connection,) = (each for each in connections(house) if each.cycle.scope["method"] == "POST")
        writer.write(posted(body("next")) * 3)
        await writer.drain()
        await eventually(lambda: len(connection.pipeline) == 3)
        writer.transport.abort()
        await aborted(house)


@pytest.mark.full
async def test_a_client_that_sent_a_long_body_in_pieces_is_seen_to_leave() -> None:
    """The last piece is more than the server reads ahead, after which it would not look at the socket again."""
    patient = attrs.evolve(PACED, context_length=1_000_000, faults=(Fault("stall"),))
    async with over_http(patient) as house:
        _, writer = await asyncio.open_connection("127.0.0.1", int(house.url.rpartition(":")[2]))
        request = posted(body("long words, " * 25_000, stream=True))
        writer.write(request[:1000])
        await writer.drain()
        await eventually(lambda: any(each.cycle for each in connections(house)))
        await asyncio.sleep(0)
        writer.write(request[1000:])
        await eventually(lambda: house.engine.active)
        writer.transport.abort()
        await aborted(house)


LOOPS = pytest.mark.parametrize(
    "anyio_backend",
    [("asyncio", {"use_uvloop": False}), ("asyncio", {"use_uvloop": True})],
    ids=["asyncio", "uvloop"],
)


def whole_answer(said: bytes) -> tuple[int, bytes]:
    """Status and body of the one answer in `contents`, as an HTTP client reads it; raises where it is cut short."""
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="POST", target=CHAT, headers=[("host", "x")]))
    client.send(h11.EndOfMessage())
    client.receive_data(said)
    client.receive_data(b"")
    status, pieces = 0, []
    while not isinstance(event := client.next_event(), h11.EndOfMessage):
        if isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            pieces.append(bytes(event.data))
    return status, b"".join(pieces)


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@LOOPS
@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "stream"])
async def test_a_client_that_shuts_its_sending_side_gets_the_rest_of_its_answer(streaming: bool) -> None:
    stalled = SimulatorConfig(reply_tokens=20, faults=(Fault("stall", after=3, seconds=0.3),))
    async with over_http(stalled) as house, raw(house, stream=streaming) as (reader, writer):
        said = await reader.readuntil(b"data: ") if streaming else b""
        writer.write_eof()
        said += await reader.read()
        await settled(house)

    assert outcomes(house) == ["ok"]
    status, sent = whole_answer(said)
    assert status == 200
    assert sent.endswith(b"data: [DONE]\n\n" if streaming else b"}")


@pytest.mark.sampled(keep=2)
@LOOPS
@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "stream"])
async def test_a_client_that_closes_having_read_all_there_is_is_seen_to_leave(streaming: bool) -> None:
    """Nothing unread is left in its socket, so that its close looks like that of its sending side alone."""
    stalled = attrs.evolve(PACED, faults=(Fault("stall", after=3),))
    counted = {"stream": True, "logprobs": True}
    async with over_http(stalled) as house, raw(house, **(counted if streaming else {})) as (reader, writer):
        said = b""
        while streaming and (said.count(b'"top_logprobs"') < 3 or not said.endswith(b"\n\n\r\n")):
            said += await reader.read(65536)
        await eventually(lambda: house.engine.counters["tokens"] == 3)
        writer.close()
        await aborted(house)


@LOOPS
async def test_a_client_that_shuts_its_sending_side_and_leaves_later_is_seen_to_leave() -> None:
    async with over_http(PACED) as house, raw(house, stream=True) as (reader, writer):
        await reader.readuntil(b"data: ")
        writer.write_eof()
        await eventually(lambda: any(each.cycle and not each.cycle.keep_alive for each in connections(house)))
        writer.transport.abort()
        await aborted(house)


def connections(house: House) -> list[Any]:
    return list(house.server.server_state.connections)


# ---------------------------------------------------------------------------------------------------------- slow readers


@pytest.mark.full
async def test_the_engine_waits_for_a_slow_reader_who_then_gets_everything_over_http() -> None:
    async with over_http(ENDLESS, config=TIGHT) as house:
        async with raw(house, stream=True, max_tokens=TOKENS, stream_options={"include_usage": True}) as (reader, _):
            tokens = await held_back(house)
            said = b""
            while not said.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"):
                said += await reader.read(1 << 20)
        await settled(house)

    assert tokens < TOKENS * 0.8
    assert b'"completion_tokens":%d' % TOKENS in said
    assert outcomes(house) == ["ok"]


@pytest.mark.full
async def test_the_engine_waits_for_a_slow_reader_who_then_gets_everything_in_process() -> None:
    asked = body(stream=True, max_tokens=TOKENS, stream_options={"include_usage": True})
    async with in_process(ENDLESS, config=TIGHT) as house:
        async with house.http.stream("POST", CHAT, json=asked) as answer:
            tokens = await held_back(house)
            said = b"".join([piece async for piece in answer.aiter_bytes()])
        await settled(house)

    assert tokens < TOKENS * 0.8
    assert b'"completion_tokens":%d' % TOKENS in said
    assert said.endswith(b"data: [DONE]\n\n")


@pytest.mark.full
async def test_one_slow_reader_holds_up_nobody_else() -> None:
    async with over_http(ENDLESS, config=TIGHT) as house, raw(house, stream=True, max_tokens=TOKENS):
        await held_back(house)
        answers = await asyncio.gather(*(house.chat(f"{number}", max_tokens=5) for number in range(20)))

    assert {answer.status_code for answer in answers} == {200}


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("resets", [True, False])
@pytest.mark.parametrize("tokens", [1, 3000])
async def test_a_connection_whose_client_has_left_is_freed_at_once(resets: bool, tokens: int) -> None:
    """Idle after its answer, or in the middle of it."""
    engine = SimulatorConfig(reply_tokens=tokens, timing=Timing(decode_rate=200))
    before = {id(each) for each in gc.get_objects() if isinstance(each, BoundedHttpProtocol)}
    async with over_http(engine) as house:
        host, _, port = house.url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        sent = json.dumps(body("word " * 5000, stream=True, max_tokens=tokens)).encode()
        head = (
            f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(sent)}\r\n\r\n"
        )
        writer.write(head.encode() + sent)
        await reader.readuntil(b"[DONE]" if tokens == 1 else b"data: ")
        await eventually(lambda: tokens != 1 or not house.gateway.services.in_flight)
        found = [each for each in gc.get_objects() if isinstance(each, BoundedHttpProtocol) and id(each) not in before]
        (connection,) = [weakref.ref(each) for each in found]
        found.clear()
        if resets:
            raw = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        gc.disable()
        try:
            await eventually(lambda: connection() is None)
        finally:
            gc.enable()
