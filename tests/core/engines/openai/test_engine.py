"""A chat server as an engine. The server is our own gateway behind a real port, and for what it never does a socket that says
just what it is told."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from tests.core.event_grammar import check
from tests.gateway.conftest import House, eventually, over_http, settled
from tests.gateway.test_disconnect import ENDLESS, PACED, TIGHT, TOKENS, Relay, held_back
from tests.peers import listening
from tests.shared import PATIENCE

from smg_core import Config
from smg_core.engines.openai.engine import OpenAiEngine
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import (
    EngineFailed,
    EngineGarbled,
    EngineRejected,
    EngineTimeout,
    SmgError,
    UnsupportedParameter,
    WorkerBusy,
    WorkerError,
    WorkerGone,
)
from smg_core.events import (
    Done,
    Event,
    Failed,
    Finished,
    ReasoningDelta,
    Started,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    Usage,
)
from smg_core.request import FunctionTool, GenerationRequest, Message, Sampling, Text, ToolChoice, ToolKey
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine
from smg_simulator.testing import tool_call

pytestmark = pytest.mark.anyio


def asked(text: str = "Hello", **fields: Any) -> GenerationRequest:
    message = Message("user", (Text(text),), None, True)
    return GenerationRequest(**{"id": "chatcmpl-1", "model": "sim", "messages": (message,), **fields})


class Heard:
    """A sink that keeps what it hears."""

    def __init__(self) -> None:
        self.all: list[Event] = []
        self.error: SmgError | None = None
        self.over = asyncio.Event()

    def push(self, events: Sequence[Event]) -> None:
        assert events
        assert not self.over.is_set()
        self.all += events

    def closed(self, error: SmgError | None) -> None:
        assert not self.over.is_set()
        self.error = error
        self.over.set()

    def text(self, index: int = 0) -> str:
        return "".join(event.text for event in self.all if isinstance(event, TextDelta) and event.index == index)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.all if isinstance(event, kind)]


async def heard(engine: OpenAiEngine, request: GenerationRequest | None = None, **options: Any) -> Heard:
    """All of one answer, which keeps to the grammar of events."""
    sink = Heard()
    try:
        await engine.chat(request or asked(), sink, **options)
    except WorkerError as error:
        sink.closed(error)
    async with asyncio.timeout(PATIENCE):
        await sink.over.wait()
    counted = [] if sink.of(Usage) else [Usage(0, 0)]
    check([Started(0, None, "m"), *sink.all, *counted, Done() if sink.error is None else Failed(sink.error)])
    return sink


@asynccontextmanager
async def engine_at(url: str, **options: Any) -> AsyncIterator[OpenAiEngine]:
    engine = OpenAiEngine(url, **options)
    try:
        yield engine
    finally:
        await engine.close()


@asynccontextmanager
async def far(
    *replies: Reply, config: SimulatorConfig | None = None, gateway: Config | None = None
) -> AsyncIterator[tuple[House, OpenAiEngine]]:
    """An engine whose server is a gateway before an embedded engine."""
    simulator = config or SimulatorConfig(replies=replies)
    async with over_http(simulator, config=gateway) as house, engine_at(house.url) as engine:
        yield house, engine


# ------------------------------------------------------------------------------------------------------ what is answered


async def test_text_finish_and_usage() -> None:
    async with far(Reply("Grüße aus Zürich 🙂")) as (_, engine):
        sink = await heard(engine)

    assert sink.error is None
    assert sink.text() == "Grüße aus Zürich 🙂"
    assert [event.reason for event in sink.of(Finished)] == ["stop"]
    (usage,) = sink.of(Usage)
    assert usage.prompt_tokens > 0
    assert usage.completion_tokens > 0


async def test_reasoning_is_told_from_text() -> None:
    async with far(Reply("Yes.", reasoning="Let me think.")) as (_, engine):
        sink = await heard(engine)

    assert "".join(event.text for event in sink.of(ReasoningDelta)).strip() == "Let me think."
    assert sink.text().strip() == "Yes."


async def test_a_tool_is_called() -> None:
    tool = FunctionTool("get_weather", None, {"type": "object", "properties": {"city": {"type": "string"}}})
    async with far(tool_call("get_weather", {"city": "Zürich"})) as (_, engine):
        choice = ToolChoice("auto", (ToolKey("get_weather"),))
        sink = await heard(engine, asked(tools=(tool,), tool_choice=choice))

    assert [event.name for event in sink.of(ToolCallStart)] == ["get_weather"]
    assert json.loads("".join(event.arguments for event in sink.of(ToolCallDelta))) == {"city": "Zürich"}
    assert sink.of(Finished)[0].reason == "tool_calls"


@pytest.mark.full
async def test_several_choices_and_logprobs() -> None:
    async with far(config=SimulatorConfig()) as (_, engine):
        sink = await heard(engine, asked(sampling=Sampling(n=2, temperature=1.0, max_tokens=5, logprobs=2)))

    assert sorted(event.index for event in sink.of(Finished)) == [0, 1]
    for index in (0, 1):
        told = [each for event in sink.of(TextDelta) if event.index == index for each in event.logprobs]
        assert len(told) == 5
        assert all(len(each.top) == 2 and each.raw.decode(errors="replace") == each.token for each in told)


async def test_the_server_is_asked_by_its_own_name_and_says_what_it_is() -> None:
    async with far(Reply("Yes.")) as (_, engine):
        info, facts = await engine.describe()
        sink = await heard(engine, asked(model="an alias of ours"))

    assert (info.model, info.context_length, facts.context_length) == ("sim", facts.context_length, info.context_length)
    assert (facts.takes_ids, facts.dialect, facts.loads, facts.prompt_logprobs) == (False, "openai", False, False)
    assert sink.text() == "Yes."


async def test_health_is_the_servers_own_word() -> None:
    async with far() as (house, engine):
        assert await engine.health()
        house.gateway.services.admission.draining = True
        assert not await engine.health()
        house.gateway.services.admission.draining = False


async def test_what_such_a_server_has_no_word_for() -> None:
    async with engine_at("http://127.0.0.1:1") as engine:
        assert await engine.loads() is None
        assert await engine.tokenizer() is None
        await engine.abort("chatcmpl-1")


async def test_a_connection_is_used_again() -> None:
    async with far(Reply("a"), Reply("b")) as (house, engine):
        before = len(house.server.server_state.connections)
        for text in ("a", "b"):
            assert (await heard(engine)).text() == text
            await eventually(lambda: not engine.in_flight)
        assert len(house.server.server_state.connections) == before + 1


# ------------------------------------------------------------------------------------------------------------ what fails


async def test_what_the_wire_cannot_say_is_refused_before_anything_is_sent() -> None:
    async with engine_at("http://127.0.0.1:1") as engine:
        with pytest.raises(UnsupportedParameter) as caught:
            await engine.chat(asked(sampling=Sampling(prompt_logprobs=1)), Heard())

    assert caught.value.param == "sampling.prompt_logprobs"


async def test_a_request_that_the_server_refuses_is_rejected() -> None:
    async with far() as (_, engine):
        sink = await heard(engine, asked(sampling=Sampling(temperature=7)))

    assert type(sink.error) is EngineRejected
    assert "temperature" in str(sink.error.detail)
    assert "temperature" not in sink.error.message
    assert sink.all == []


async def test_a_model_that_the_server_does_not_know_is_its_failure_and_not_the_clients() -> None:
    async with far() as (_, engine):
        sink = await heard(engine, asked(model="other"))

    assert type(sink.error) is EngineFailed


async def test_a_server_without_an_engine_is_busy_and_says_until_when() -> None:
    async with far() as (house, engine):
        await house.engine.stop()
        await heard(engine)
        await eventually(lambda: not house.gateway.services.registry.any_ready)
        sink = await heard(engine)

    assert type(sink.error) is WorkerBusy
    assert (sink.error.retry_after or 0) >= 1


async def test_an_error_in_mid_stream_keeps_what_came_before() -> None:
    config = attrs.evolve(PACED, faults=(Fault("error", after=3),))
    async with far(config=config) as (_, engine):
        sink = await heard(engine)

    assert type(sink.error) is EngineFailed
    assert sink.text()


async def test_a_server_that_nobody_listens_for_is_gone() -> None:
    async with engine_at("http://127.0.0.1:1") as engine:
        sink = await heard(engine)
        with pytest.raises(WorkerGone):
            await engine.describe()
        with pytest.raises(WorkerGone):
            await engine.health()

    assert type(sink.error) is WorkerGone
    assert "127.0.0.1" not in sink.error.message


async def test_a_server_that_goes_away_in_mid_stream_is_gone() -> None:
    async with over_http(PACED) as house:
        relay = Relay(house.url.removeprefix("http://"))
        async with listening(relay.take) as port, engine_at(f"http://127.0.0.1:{port}") as engine:
            sink = Heard()
            await engine.chat(asked(), sink)
            await eventually(lambda: sink.all)
            relay.cut()
            await eventually(sink.over.is_set)
        await relay.close()
        await settled(house)

    assert type(sink.error) is WorkerGone
    assert sink.text()


@pytest.mark.full
async def test_an_answer_that_takes_too_long_is_late() -> None:
    config = attrs.evolve(PACED, faults=(Fault("stall", after=3),))
    async with far(config=config) as (house, engine):
        sink = await heard(engine, timeout=0.3)
        await settled(house)

    assert type(sink.error) is EngineTimeout


async def test_one_call_more_than_there_are_connections_is_busy() -> None:
    config = attrs.evolve(PACED, faults=(Fault("stall"),))
    async with (
        over_http(config) as house,
        engine_at(house.url, limits=EnginesConfig(http_connections=1), connect_timeout=0.05) as engine,
    ):
        call = await engine.chat(asked(), Heard())
        await eventually(lambda: house.engine.active)
        sink = await heard(engine)
        call.cancel()

    assert type(sink.error) is WorkerBusy


async def test_closing_ends_what_is_in_flight() -> None:
    async with over_http(PACED) as house:
        engine = OpenAiEngine(house.url)
        sink = Heard()
        await engine.chat(asked(), sink)
        await eventually(lambda: sink.all)
        await engine.close()
        assert type(sink.error) is WorkerGone
        with pytest.raises(WorkerGone):
            await engine.chat(asked(), Heard())
        with pytest.raises(WorkerGone):
            await engine.health()
        await settled(house)


# --------------------------------------------------------------------------------------------------- stop, and hold back


@pytest.mark.full
async def test_a_call_that_is_cancelled_stops_the_far_engine_and_says_nothing_more() -> None:
    async with far(config=PACED) as (house, engine):
        sink = Heard()
        call = await engine.chat(asked(), sink)
        await eventually(lambda: sink.all)
        call.cancel()
        said = list(sink.all)
        await eventually(lambda: house.engine.aborted)
        await settled(house)
        call.cancel()

    assert sink.all == said
    assert not sink.over.is_set()


async def test_a_call_that_is_cancelled_before_it_was_sent_never_reaches_the_server() -> None:
    async with far(config=PACED) as (house, engine):
        sink = Heard()
        starting = asyncio.ensure_future(engine.chat(asked(), sink))
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

        assert not engine.in_flight
        assert house.engine.counters["requests"] == 0
        assert not sink.over.is_set()


@pytest.mark.full
async def test_a_call_that_is_paused_holds_the_far_engine_back_and_loses_nothing() -> None:
    async with far(config=ENDLESS, gateway=TIGHT) as (house, engine):
        sink = Heard()
        call = await engine.chat(asked(sampling=Sampling(max_tokens=TOKENS)), sink)
        await eventually(lambda: sink.all)
        call.pause()
        tokens = await held_back(house)
        said = len(sink.all)
        call.resume()
        await eventually(sink.over.is_set, PATIENCE)

    assert tokens < TOKENS * 0.8
    assert said < len(sink.all)
    assert sink.error is None
    assert sink.of(Usage)[0].completion_tokens == TOKENS


# ------------------------------------------------------------------------------------------- servers of every other kind


class Said:
    """A server that answers every request with the same bytes, then hangs up, and keeps what it was sent."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.heard: list[bytes] = []

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b":0")
        self.heard.append(head + await reader.readexactly(int(length.partition(b":")[2])))
        writer.write(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])
        await writer.drain()
        writer.close()


@asynccontextmanager
async def saying(*answers: bytes, **options: Any) -> AsyncIterator[tuple[Said, OpenAiEngine]]:
    said = Said(*answers)
    async with listening(said.take) as port, engine_at(f"http://127.0.0.1:{port}", **options) as engine:
        yield said, engine


def http(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    lines = {"content_type": "text/event-stream", "content_length": str(len(body)), "connection": "close", **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


CHUNK = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n'
WHOLE = CHUNK + b"data: [DONE]\n\n"
MODELS = b'{"object":"list","data":[{"id":"served","max_model_len":4096}]}'

WIRES: list[tuple[str, bytes, type[SmgError] | None]] = [
    ("whole", http(WHOLE), None),
    ("no DONE", http(CHUNK), None),
    ("no end", http(CHUNK.replace(b'"stop"', b"null")), EngineGarbled),
    ("cut off", http(CHUNK, content_length="9999"), WorkerGone),
    ("hangs up", b"", WorkerGone),
    ("no HTTP", b"SSH-2.0-OpenSSH_9.6\r\n\r\n", EngineGarbled),
    ("one object", http(b"{}", content_type="application/json"), EngineGarbled),
    ("packed", http(WHOLE, content_encoding="gzip"), EngineGarbled),
    ("elsewhere", http(b"", "307 Temporary Redirect", location="http://127.0.0.1:1/"), EngineFailed),
    ("our key is wrong", http(b"{}", "401 Unauthorized"), EngineFailed),
    ("full", http(b"", "429 Too Many Requests", retry_after="3"), WorkerBusy),
    ("broken", http(b"<html>" * 100_000, "500 Internal Server Error"), EngineFailed),
]


@pytest.mark.parametrize(("answer", "kind"), [wire[1:] for wire in WIRES], ids=[wire[0] for wire in WIRES])
async def test_every_kind_of_answer_becomes_the_error_it_is(answer: bytes, kind: type[SmgError] | None) -> None:
    async with saying(answer) as (_, engine):
        sink = await heard(engine)

    assert type(sink.error) is (type(None) if kind is None else kind)


async def test_the_key_is_sent_and_never_shown() -> None:
    async with saying(http(b"no such key", "403 Forbidden"), api_key="sk-secret") as (said, engine):
        sink = await heard(engine, metadata=[("traceparent", "00-1")])

    assert b"authorization: Bearer sk-secret\r\n" in said.heard[0].replace(b"Authorization", b"authorization")
    assert b"traceparent: 00-1\r\n" in said.heard[0]
    assert b"x-request-id: chatcmpl-1\r\n" in said.heard[0]
    assert "secret" not in f"{engine!r} {vars(engine)} {sink.error} {sink.error!r}"


async def test_cookies_are_not_kept() -> None:
    async with saying(http(WHOLE, set_cookie="session=1")) as (said, engine):
        await heard(engine)
        await heard(engine)

    assert len(said.heard) == 2
    assert b"cookie" not in said.heard[1].lower()


async def test_a_server_of_openais_words_only_is_asked_for_nothing_else() -> None:
    async with saying(http(WHOLE), extras=False) as (_, engine):
        with pytest.raises(UnsupportedParameter):
            await engine.chat(asked(sampling=Sampling(top_k=3)), Heard())
        assert engine._facts(0).constraints == {"json_schema", "json_object"}


async def test_a_server_without_a_health_page_is_well_when_it_lists_its_models() -> None:
    async with saying(http(b"", "404 Not Found"), http(MODELS)) as (said, engine):
        assert await engine.health()

    assert [each.split(b" ")[1] for each in said.heard] == [b"/health", b"/v1/models"]


async def test_the_context_is_what_the_server_says() -> None:
    async with saying(http(MODELS, content_type="application/json")) as (_, engine):
        info, facts = await engine.describe()

    assert (info.model, info.context_length, facts.context_length) == ("served", 4096, 4096)


async def test_a_list_of_models_that_never_ends_is_cut_off() -> None:
    async with saying(http(MODELS + b" " * 100_000), limits=EnginesConfig(http_body_bytes=1000)) as (_, engine):
        assert (await engine.describe())[0].model == "served"


async def test_a_server_whose_list_is_refused_is_told_so() -> None:
    async with saying(http(b"", "401 Unauthorized")) as (_, engine):
        with pytest.raises(EngineFailed):
            await engine.describe()


async def test_a_server_that_answers_no_question_is_late() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with listening(silent) as port, engine_at(f"http://127.0.0.1:{port}") as engine:
        with pytest.raises(EngineTimeout):
            await engine.health(timeout=0.05)


async def test_an_engine_that_speaks_grpc_is_named(tmp_path: Path) -> None:
    socket = f"{tmp_path}/e.sock"
    for listen in ("127.0.0.1:0", f"unix:{socket}"):
        async with SimulatedEngine(listen=listen) as grpc:
            target = grpc.target if listen.startswith("127") else f"unix://{socket}"
            url = target.replace("grpc://", "http://").replace("unix://", "http+unix://")
            async with engine_at(url) as engine:
                with pytest.raises(EngineGarbled) as caught:
                    await engine.describe()

        assert caught.value.detail == f"{url} speaks gRPC; write {target}"


async def test_a_server_on_a_unix_socket(tmp_path: Path) -> None:
    path = f"{tmp_path}/gateway.sock"
    async with over_http(SimulatorConfig(replies=(Reply("Yes."),))) as house:
        tcp = house.url.removeprefix("http://")
        relay = Relay(tcp)
        server = await asyncio.start_unix_server(relay.take, path)
        async with engine_at(f"http+unix://{path}") as engine:
            assert await engine.health()
            sink = await heard(engine)
        server.close()
        await relay.close()

    assert sink.text() == "Yes."
