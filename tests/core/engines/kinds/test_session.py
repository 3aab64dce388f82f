"""A program takes the outputs of an engine by `async for`, on either transport, and ends the call by leaving the loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import grpc.aio
import pytest
from tests.shared import PATIENCE

from smg_core.engines import EngineOutput, EngineRequest, EngineSession, GrpcioTransport, Sampling, TokenIds
from smg_core.engines.kinds.session import _Pulled
from smg_core.errors import SmgError, UnsupportedParameter, WorkerGone
from smg_core.events import Finished, TextDelta
from smg_core.request import GenerationRequest, Message, Text
from smg_simulator import SimulatedEngine, SimulatorConfig, Timing

pytestmark = pytest.mark.anyio
LONG = Sampling(max_tokens=20_000, ignore_eos=True)


@pytest.fixture
async def engine() -> AsyncIterator[SimulatedEngine]:
    async with SimulatedEngine(SimulatorConfig(model="mini")) as running:
        yield running


class Noting(grpc.aio.UnaryStreamClientInterceptor):
    """Notes the methods that are called."""

    def __init__(self) -> None:
        self.methods: list[str] = []

    async def intercept_unary_stream(self, continuation, details, request):
        self.methods.append(details.method if isinstance(details.method, str) else details.method.decode())
        return await continuation(details, request)


async def tokens(session: EngineSession) -> list[int]:
    return [each async for output in session.generate([72, 73], Sampling(max_tokens=9)) for each in output.ids]


@pytest.mark.parametrize("library", ["h2", "grpcio"])
async def test_outputs_come_one_after_the_other(engine: SimulatedEngine, library) -> None:
    async with EngineSession(engine.target, library=library) as session:
        info, facts = await session.describe()
        outputs = [output async for output in session.generate([72, 73], Sampling(max_tokens=9))]

    assert (info.model, facts.takes_ids) == ("mini", True)
    assert sum(len(output.ids) for output in outputs) == 9
    assert [output.finish for output in outputs if output.finish] == ["length"]


async def test_a_request_of_several_choices_is_one_loop(engine: SimulatedEngine) -> None:
    request = EngineRequest("r-1", TokenIds([72, 73]), Sampling(max_tokens=3, n=2))
    async with EngineSession(engine.target, kind="mlx") as session:
        ended = [output.index async for output in session.generate(request) if output.finish]

    assert sorted(ended) == [0, 1]


@pytest.mark.parametrize("library", ["h2", "grpcio"])
async def test_leaving_the_loop_ends_the_call_at_the_engine(library) -> None:
    config = SimulatorConfig(model="mini", timing=Timing(decode_rate=100.0))
    async with SimulatedEngine(config) as engine, EngineSession(engine.target, library=library) as session:
        async with aclosing(session.generate([72, 73], LONG)) as outputs:
            async for _ in outputs:
                break
        async with asyncio.timeout(PATIENCE):
            while engine.active:
                await asyncio.sleep(0)


async def test_interceptors_of_a_program_see_its_calls(engine: SimulatedEngine) -> None:
    noting = Noting()
    async with EngineSession(engine.target, kind="neutral", interceptors=[noting]) as session:
        assert len(await tokens(session)) == 9

    assert [method.rpartition("/")[2] for method in noting.methods] == ["Generate"]


async def test_a_channel_of_a_program_is_used_and_stays_open(engine: SimulatedEngine) -> None:
    noting = Noting()
    async with grpc.aio.insecure_channel(engine.target.removeprefix("grpc://"), interceptors=[noting]) as channel:
        for _ in range(2):
            async with EngineSession(engine.target, kind="neutral", channel=channel) as session:
                assert len(await tokens(session)) == 9

    assert len(noting.methods) == 2
    with pytest.raises(ValueError, match="interceptors already"):
        GrpcioTransport(engine.target, channel=channel, interceptors=[noting])


async def test_an_engine_that_is_not_there_is_an_error_of_the_first_step() -> None:
    async with EngineSession("grpc://127.0.0.1:9", kind="vllm", connect_timeout=1) as session:
        with pytest.raises(WorkerGone):
            await tokens(session)


async def test_what_an_engine_does_not_take_is_refused(engine: SimulatedEngine) -> None:
    chat = GenerationRequest("r", "mini", (Message("user", (Text("Hi"),)),))
    async with EngineSession(engine.target) as session:
        with pytest.raises(UnsupportedParameter, match="token ids"):
            session.chat(chat)
    with pytest.raises(RuntimeError, match="open the session"):
        session.generate([1])


class Call:
    """A call that notes what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str):
        return lambda: self.asked.append(name)


async def test_an_engine_is_read_no_more_while_a_program_takes_nothing() -> None:
    pulled, call = _Pulled[EngineOutput](4), Call()
    pulled.push([EngineOutput()] * 3)
    pulled.attach(call)
    assert call.asked == []
    pulled.push([EngineOutput()] * 3)
    assert call.asked == ["pause"]

    for _ in range(4):
        await pulled.next()

    assert call.asked == ["pause", "resume"]


async def test_an_error_comes_behind_the_outputs_before_it() -> None:
    pulled = _Pulled[EngineOutput](4)
    pulled.attach(Call())
    pulled.push([EngineOutput(ids=[1])])
    pulled.closed(WorkerGone("The engine has gone."))

    first = await pulled.next()
    assert first is not None
    assert first.ids == [1]
    with pytest.raises(SmgError, match="gone"):
        await pulled.next()
    assert pulled.cancel() is False


STREAM = b"".join(
    b"data: " + line + b"\n\n"
    for line in (
        b'{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"},"finish_reason":null}]}',
        b'{"id":"c","choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}',
        b"[DONE]",
    )
)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


async def test_a_server_of_chats_gives_events_and_takes_no_ids() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + STREAM)
        writer.close()

    request = GenerationRequest("r", "mini", (Message("user", (Text("Hi"),), content_is_text=True),), stream=True)
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with EngineSession(url, kind="openai") as session:
            events = [event async for event in session.chat(request)]
            with pytest.raises(UnsupportedParameter, match="use chat"):
                session.generate([1])

    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Hello"
    assert [event.reason for event in events if isinstance(event, Finished)] == ["stop"]
