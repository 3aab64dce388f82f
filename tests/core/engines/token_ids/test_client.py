"""An engine behind its client: what it says of itself, and how a call ends, in every dialect."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import attrs
import grpc.aio
import pytest
from tests.engine_kinds import DIALECTS
from tests.shared import PATIENCE

from smg_core.engines.base import EngineOutput, EngineRequest, Receiver
from smg_core.engines.connections.target import Target
from smg_core.engines.grpc.h2.transport import H2Transport
from smg_core.engines.kinds.table import kind
from smg_core.engines.pooling import PoolCall
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.token_ids.client import EngineClient, Reader
from smg_core.errors import EngineFailed, EngineGarbled, SmgError, UnsupportedParameter, WorkerGone
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_simulator.answers.faults import Fault
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

BLOCK = 32


@attrs.define
class Sink:
    """Takes down what is pushed."""

    got: list[EngineOutput] = attrs.field(factory=list)
    ends: list[SmgError | None] = attrs.field(factory=list)
    over: asyncio.Event = attrs.field(factory=asyncio.Event)

    def push(self, outputs: Sequence[EngineOutput]) -> None:
        assert outputs
        assert not self.ends
        self.got += outputs

    def closed(self, error: SmgError | None) -> None:
        self.ends.append(error)
        self.over.set()


@attrs.define
class Wire:
    """A transport whose answers the test pushes itself, and the call on it."""

    receiver: Receiver | None = None
    early: Sequence[bytes] = ()
    asked: list[str] = attrs.field(factory=list)

    async def start(self, path: str, message: bytes, receiver: Receiver, **more) -> "Wire":
        self.receiver = receiver
        if self.early:
            receiver.messages(list(self.early))
        return self

    def cancel(self) -> None:
        self.asked.append("cancel")

    def pause(self) -> None:
        self.asked.append("pause")

    def resume(self) -> None:
        self.asked.append("resume")


def request(engine: SimulatedEngine | None = None, **sampling) -> EngineRequest:
    ids = [5, 6] if engine is None else engine.engine.vocabulary.encode("Hello there")
    return EngineRequest("r-1", TokenIds(ids), Sampling(**{"max_tokens": 64} | sampling))


def client_of(target: str, name: str, limits: EnginesConfig | None = None) -> EngineClient:
    return EngineClient(kind(name).codec(), H2Transport(Target.parse(target)), limits or EnginesConfig())


@pytest.fixture(params=DIALECTS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
async def engine() -> AsyncIterator[SimulatedEngine]:
    config = SimulatorConfig(model="mini", block_size=BLOCK, max_logprobs=7, max_n=4, normalizes=True)
    async with SimulatedEngine(config) as running:
        yield running


# -------------------------------------------------------------------------------------------- what it says of itself


async def test_an_engine_describes_itself_in_its_own_words(engine: SimulatedEngine, name: str) -> None:
    client = client_of(engine.target, name)
    info, facts = await client.describe()
    await client.close()

    assert (info.model, info.context_length) == ("mini", 32768)
    block = 0 if name in ("mlx", "trtllm") else BLOCK
    assert (facts.dialect, facts.takes_ids, facts.block_size, facts.ranks) == (name, True, block, 1)
    assert facts.context_length == 32768
    # what one dialect has no word for is the dialect's table
    assert (facts.max_logprobs, facts.max_n) == {"neutral": (7, 4), "vllm": (20, None)}.get(name, (None, None))
    assert facts.normalizes == (name == "vllm")
    assert (facts.media is None) == (name == "vllm")
    assert len({facts, attrs.evolve(facts)}) == 1


async def test_an_engine_without_a_call_for_it_has_its_dialects_table() -> None:
    codec = kind("vllm").codec()

    async def model(message: bytes, context) -> bytes:
        return b""

    handler = grpc.method_handlers_generic_handler(
        codec.model.path.split("/")[1], {"GetModelInfo": grpc.unary_unary_rpc_method_handler(model)}
    )
    server = grpc.aio.server(handlers=[handler])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    client = client_of(f"grpc://127.0.0.1:{port}", "vllm")

    assert (await client.describe())[1] == attrs.evolve(codec.facts, generates=False)
    assert await client.loads() is None
    await client.close()
    await server.stop(None)


async def test_a_fault_is_not_taken_for_a_call_that_is_not_there() -> None:
    codec = kind("vllm").codec()

    async def model(message: bytes, context) -> bytes:
        return b""

    async def broken(message: bytes, context) -> bytes:
        await context.abort(grpc.StatusCode.INTERNAL, "out of memory")

    handler = grpc.method_handlers_generic_handler(
        codec.model.path.split("/")[1],
        {
            "GetModelInfo": grpc.unary_unary_rpc_method_handler(model),
            "GetServerInfo": grpc.unary_unary_rpc_method_handler(broken),
            "GetLoads": grpc.unary_unary_rpc_method_handler(broken),
        },
    )
    server = grpc.aio.server(handlers=[handler])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    client = client_of(f"grpc://127.0.0.1:{port}", "vllm")

    for asking in (client.describe, client.loads):
        with pytest.raises(EngineFailed):
            await asking()
    await client.close()
    await server.stop(None)


async def test_health_loads_and_tokenizer_are_asked_for(engine: SimulatedEngine, name: str) -> None:
    client = client_of(engine.target, name)

    assert await client.health()
    loads = await client.loads()
    assert (loads is None) == (name in ("mlx", "trtllm"))
    assert loads is None or loads.running == 0
    sent = await client.tokenizer()
    assert sent is not None
    assert sent[0].startswith(b"PK")
    with pytest.raises(EngineGarbled, match="over 1000 bytes"):
        await client_of(engine.target, name, EnginesConfig(tokenizer_bytes=1000)).tokenizer()
    await client.abort("nobody's")
    await client.close()


async def test_what_a_dialect_lacks_is_none_and_asks_nobody() -> None:
    class Bare(type(kind("neutral").codec())):
        loads = tokenizer = describes = None

        def abort(self, request_id):
            return None

        def embed(self, request_id, ids):
            return None

    client = EngineClient(Bare(), Wire())

    assert (await client.loads(), await client.tokenizer()) == (None, None)
    assert await client.abort("r") is None
    with pytest.raises(UnsupportedParameter):
        await client.pool(PoolCall("r", [TokenIds([1])]))


# ------------------------------------------------------------------------------------------------------ how a call ends


async def test_outputs_come_and_then_one_end(engine: SimulatedEngine, name: str) -> None:
    client, sink = client_of(engine.target, name), Sink()
    await client.generate(request(engine, max_tokens=4, ignore_eos=True), sink)
    await sink.over.wait()
    await client.close()

    assert sum(len(output.ids) for output in sink.got) == 4
    assert sink.got[-1].finish == "length"
    assert sink.ends == [None]


async def test_garbage_of_an_engine_closes_the_sink_once_and_resets_the_stream(name: str) -> None:
    fault = Fault("garbage", after=2)
    async with SimulatedEngine(SimulatorConfig(faults=(fault,))) as engine:
        client, sink = client_of(engine.target, name), Sink()
        await client.generate(request(engine, max_tokens=40, ignore_eos=True), sink)
        await sink.over.wait()
        await client.close()

    (error,) = sink.ends
    assert isinstance(error, EngineGarbled)


async def test_after_an_end_nothing_is_pushed(name: str) -> None:
    wire, sink = Wire(), Sink()
    await EngineClient(kind(name).codec(), wire).generate(request(), sink)
    wire.receiver.messages([b"\xff\xff"])
    wire.receiver.messages([b"\xff\xff"])
    wire.receiver.closed(WorkerGone("gone"))

    assert [type(end) for end in sink.ends] == [EngineGarbled]
    assert wire.asked == ["cancel"]


async def test_a_call_that_fails_before_it_is_known_is_cancelled_when_it_is(name: str) -> None:
    wire, sink = Wire(early=[b"\xff\xff"]), Sink()
    await EngineClient(kind(name).codec(), wire).generate(request(), sink)

    assert [type(end) for end in sink.ends] == [EngineGarbled]
    assert wire.asked == ["cancel"]


async def test_a_cancelled_call_pushes_no_more(name: str) -> None:
    wire, sink = Wire(), Sink()
    call = await EngineClient(kind(name).codec(), wire).generate(request(), sink)
    call.pause()
    call.resume()
    call.cancel()
    call.cancel()
    call.pause()
    wire.receiver.messages([b"\xff\xff"])
    wire.receiver.closed(None)

    assert wire.asked == ["pause", "resume", "cancel"]
    assert (sink.got, sink.ends) == ([], [])


@attrs.define
class Outputs:
    """A decoder for which a message is a list of outputs that the test has named."""

    named: dict[bytes, list[EngineOutput]]

    def feed(self, batch: list[bytes]) -> list[EngineOutput]:
        return [output for message in batch for output in self.named[message]]


LONG = b"long".ljust(5000)
"""A message of 5,000 tokens: on every wire a token takes a byte at least."""


def reader_of(named: dict[bytes, list[EngineOutput]]) -> tuple[Reader, Sink]:
    sink = Sink()
    return Reader(Outputs(named), sink), sink


async def test_a_long_answer_in_one_message_is_passed_on_slice_by_slice_and_in_order() -> None:
    long, end = EngineOutput(0, list(range(5000))), EngineOutput(0, [5000], finish="stop")
    reader, sink = reader_of({LONG: [long], b"end": [end]})

    reader.messages([LONG])
    reader.messages([b"end"])
    reader.closed(None)
    first = len(sink.got)
    await sink.over.wait()

    assert first == 1
    assert [token for output in sink.got for token in output.ids] == [*range(5001)]
    assert [output.finish for output in sink.got if output.finish] == ["stop"]
    assert sink.ends == [None]


async def test_slices_wait_while_the_sink_has_paused() -> None:
    reader, sink = reader_of({LONG: [EngineOutput(0, list(range(5000)), finish="stop")]})
    reader.messages([LONG])
    reader.closed(None)

    reader.pause()
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(sink.got) == 1
    reader.resume()
    await sink.over.wait()

    assert sum(len(output.ids) for output in sink.got) == 5000


async def test_a_call_that_is_left_is_reset_where_its_end_does_not_come() -> None:
    wire, sink = Wire(), Sink()
    reader = Reader(Outputs({b"more": [EngineOutput(0, [1])]}), sink, 0.01)
    reader.attach(wire)
    reader.pause()
    reader.leave()
    reader.leave()
    reader.messages([b"more"])
    assert wire.asked == ["pause", "resume"]
    async with asyncio.timeout(PATIENCE):
        while wire.asked != ["pause", "resume", "cancel"]:
            await asyncio.sleep(0.01)

    assert not sink.got
    assert not sink.ends


async def test_a_call_that_is_left_and_ends_is_not_reset() -> None:
    wire, sink = Wire(), Sink()
    reader = Reader(Outputs({}), sink, 0.01)
    reader.attach(wire)
    reader.leave()
    reader.closed(None)
    loop = asyncio.get_running_loop()
    passed = loop.create_future()
    loop.call_later(0.02, passed.set_result, None)  # behind the call's own timer, if it had one
    await passed

    assert wire.asked == ["resume"]
    assert not sink.ends


async def test_nothing_comes_of_slices_that_were_cancelled() -> None:
    reader, sink = reader_of({LONG: [EngineOutput(0, list(range(5000)), finish="stop")]})
    reader.messages([LONG])
    reader.closed(None)

    reader.cancel()
    for _ in range(50):
        await asyncio.sleep(0)

    assert len(sink.got) == 1
    assert not sink.ends
