"""Flows around turns, through a whole gateway: a tool's turn and the answer are one response, a client that leaves is still
settled with, and a turn is gone on with where its worker died."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
from msgspec.structs import replace
from tests.core.pipeline.output.test_processor import ids_of, tokenizer
from tests.core.pipeline.road import eventually

from smg_core import Gateway
from smg_core.apis.chat.decode import decode_chat
from smg_core.apis.chat.encode import ChatStreamEncoder, ChatWholeEncoder
from smg_core.errors import ClientGone, SmgError
from smg_core.events import Usage
from smg_core.gateway.simulated import SimulatedGateway
from smg_core.hooks import FirstToken
from smg_core.pipeline.answer.answer import Answer, StreamedAnswer, WholeAnswer
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.answer.turn import Turn
from smg_core.pipeline.flow.driver import Driver, Run
from smg_core.pipeline.flow.flow import Terms, generate
from smg_core.pipeline.flow.steps import Finish, Flow, Prepare, Select, Step, Stream, ask
from smg_core.pipeline.flow.timeouts import Timeouts
from smg_core.request import GenerationRequest, Message, Text, ToolCall, ToolResult
from smg_core.testing import MemoryObserver
from smg_core.wire.base import Incoming
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.testing import tool_call

pytestmark = pytest.mark.anyio

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
ASKED = {
    "model": "sim",
    "messages": [{"role": "user", "content": "Look twice."}],
    "tools": [TOOL],
    "max_completion_tokens": 100,
}


@attrs.define
class Client:
    """Who is written to."""

    got: bytes = b""
    writes: int = 0
    ended: int = 0

    async def write(self, data: bytes, last: bool) -> None:
        assert not self.ended
        self.got += data
        self.writes += 1
        self.ended += last

    def chunks(self) -> list[dict[str, Any]]:
        """The objects of a stream, which must have come to its end."""
        *frames, done, nothing = self.got.decode().split("\n\n")
        assert (done, nothing) == ("data: [DONE]", "")
        return [json.loads(frame.removeprefix("data: ")) for frame in frames]


@attrs.define
class Table:
    """A gateway, and one request to it whose flow a test writes."""

    gateway: SimulatedGateway
    request: GenerationRequest
    answer: Answer
    client: Client
    trace: Trace
    interruption: SmgError | None = None

    @property
    def terms(self) -> Terms:
        return Terms(self.answer, self.gateway.config.routing, self.gateway.services.rng, self.trace)

    @property
    def run(self) -> Run:
        return Run(self.answer, self.trace, Timeouts(), lambda: self.interruption)

    async def drive(self, flow: Flow[Any]) -> Any:
        return await self.gateway.services.running.driver.drive(flow, self.run)


@asynccontextmanager
async def table(*simulators: SimulatorConfig, stream: bool = True, **fields: Any) -> AsyncIterator[Table]:
    async with SimulatedGateway([*simulators], observer=MemoryObserver()) as gateway:
        await eventually(lambda: all(worker.state == "ready" for worker in gateway.registry))
        options = {"stream_options": {"include_usage": True}} if stream else {}
        body = {**ASKED, "stream": stream, **options, **fields}
        chat, client = decode_chat(Incoming(json.dumps(body).encode(), request_id="r")), Client()
        answer: Answer
        if stream:
            answer = StreamedAnswer(
                lambda: ChatStreamEncoder(chat, 0, "r"), client.write, model="sim", high_water=65536
            )
        else:
            answer = WholeAnswer(lambda: ChatWholeEncoder(chat, 0, "r"), client.write, model="sim")
        trace = Trace(gateway.services.clock.monotonic(), gateway.services.observer)
        yield Table(gateway, chat.generation, answer, client, trace)


# ----------------------------------------------------------------------------------------------------------- two turns

LOOKS = (
    tool_call("look", {"at": 1}, text="Let me see."),
    tool_call("look", {"at": 2}, text=" Once more."),
    Reply(" There it is."),
)


def looking(request: GenerationRequest, terms: Terms, turns: list[Turn]) -> Flow[None]:
    """Run the tool that is called and ask again, until none is."""
    while True:
        turn = yield from generate(request, terms, ends=False, keep=True)
        turns.append(turn)
        if not turn.output.calls:
            break
        (call,) = turn.output.calls
        assert call.complete
        said = Message("assistant", (Text(turn.output.text), ToolCall(call.id, call.name, call.arguments)))
        seen = Message("tool", (ToolResult(call.id, (Text(f"saw {call.arguments}"),)),))
        request = replace(request, messages=(*request.messages, said, seen))
    yield from ask(Finish(turn))


async def test_turns_that_call_tools_and_the_answer_are_one_streamed_response() -> None:
    turns: list[Turn] = []
    async with table(SimulatorConfig(replies=LOOKS)) as here:
        await here.drive(looking(here.request, here.terms, turns))
        prompts = [request.input_ids for request in here.gateway.engines[0].requests]
        ids = [request.id for request in here.gateway.engines[0].requests]
    chunks = here.client.chunks()
    choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
    deltas = [choice["delta"] for choice in choices]
    calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
    (usage,) = [chunk["usage"] for chunk in chunks if chunk.get("usage")]

    assert (
        "".join(delta.get("content") or "" for delta in deltas).replace("\n", "")
        == "Let me see. Once more. There it is."
    )
    assert [delta["role"] for delta in deltas if "role" in delta] == ["assistant"]
    assert [call["index"] for call in calls if "id" in call] == [0, 1]
    assert [turn.calls for turn in turns] == [1, 2, 2]
    assert [choice["finish_reason"] for choice in choices if choice["finish_reason"]] == ["stop"]
    assert choices[-1]["finish_reason"] == "stop"
    assert ids == ["r", "r-2", "r-3"]
    assert usage["prompt_tokens"] == sum(map(len, prompts))
    assert usage["completion_tokens"] == sum(turn.usage.completion_tokens for turn in turns)
    assert here.client.ended == 1


async def test_the_same_response_in_one_piece() -> None:
    turns: list[Turn] = []
    async with table(SimulatorConfig(replies=LOOKS), stream=False) as here:
        await here.drive(looking(here.request, here.terms, turns))
        prompts = [request.input_ids for request in here.gateway.engines[0].requests]
    body = json.loads(here.client.got)
    (choice,) = body["choices"]

    assert here.client.writes == 1
    assert choice["message"]["content"].replace("\n", "") == "Let me see. Once more. There it is."
    assert [json.loads(call["function"]["arguments"]) for call in choice["message"]["tool_calls"]] == [
        {"at": 1},
        {"at": 2},
    ]
    assert choice["finish_reason"] == "stop"
    assert body["usage"]["prompt_tokens"] == sum(map(len, prompts))
    assert here.answer.usage is not None
    assert here.answer.usage.rounds == 3


@pytest.mark.parametrize("stream", [True, False])
async def test_a_result_reaches_the_model_in_the_next_turn(stream: bool) -> None:
    async with table(SimulatorConfig(replies=LOOKS), stream=stream) as here:
        await here.drive(looking(here.request, here.terms, []))
        texts = [tokenizer().decode(list(request.input_ids)) for request in here.gateway.engines[0].requests]

    assert ["saw" in text for text in texts] == [False, True, True]
    assert 'saw {"at": 1}' in texts[1]
    assert 'saw {"at": 2}' in texts[2]


async def test_a_worker_that_is_lost_in_the_second_turn_is_replaced_and_the_first_turn_stays() -> None:
    """Only a response that leaves whole can take a later turn back; its first turn is in it once."""
    dying = SimulatorConfig(replies=(*LOOKS[:1], LOOKS[2]), faults=(None, Fault("cut", after=1)))
    other = SimulatorConfig(replies=(LOOKS[2],))
    async with table(dying, other, stream=False) as here:

        def flow() -> Flow[None]:
            prompted = yield from ask(Prepare(here.request))
            worker = yield from ask(Select(prompted, frozenset({"simulator-1"})))
            yield from ask(Stream(prompted, worker.last, ends=False))
            lost = yield from ask(Stream(prompted, worker.last, ends=False))
            assert lost.error is not None
            other = yield from ask(Select(prompted, worker.names))
            yield from ask(Finish((yield from ask(Stream(prompted, other.last)))))

        await here.drive(flow())
    (choice,) = json.loads(here.client.got)["choices"]

    assert choice["message"]["content"].replace("\n", "") == "Let me see. There it is."
    assert len(choice["message"]["tool_calls"]) == 1


# --------------------------------------------------------------------------------------------------- a client that leaves


class Save(Step[str], frozen=True):
    """Keep what there is of a conversation."""

    messages: tuple[Message, ...]


async def test_a_flow_whose_client_has_left_may_still_save_and_settle() -> None:
    saved: list[tuple[int, Usage | None]] = []

    async def save(step: Save, run: Run) -> str:
        await asyncio.sleep(0)
        saved.append((len(step.messages), run.answer.usage))
        return "saved"

    stalls = SimulatorConfig(replies=(Reply("Let me see."),), faults=(Fault("stall", after=2),))
    async with table(stalls) as here:

        def flow() -> Flow[None]:
            try:
                yield from generate(here.request, here.terms)
            except ClientGone:
                assert (yield from ask(Save(here.request.messages))) == "saved"
                raise

        driver = Driver({**here.gateway.services.running.performers.rows(), Save: save})
        driving = asyncio.ensure_future(driver.drive(flow(), here.run))
        await eventually(lambda: here.client.writes > 0 and here.trace.last(FirstToken) is not None)
        here.interruption = ClientGone("left")
        driving.cancel()
        with pytest.raises(ClientGone):
            await driving
        (worker,) = here.gateway.registry
        (engine,) = here.gateway.engines

        assert worker.in_flight == 0
        await eventually(lambda: not engine.active)
    ((messages, usage),) = saved

    assert messages == 1
    assert usage is not None
    assert usage.completion_tokens >= 1


# --------------------------------------------------------------------------------------------------------- taking over

TOKENS = [tokenizer().decode([each]) for each in ids_of("The stream goes on where it stopped, and nobody notices.")]


def goes_on(request: GenerationRequest) -> Flow[Turn]:
    """One turn, gone on with on another worker when its own is lost."""
    prompted = yield from ask(Prepare(request))
    placement = yield from ask(Select(prompted, frozenset({"simulator-1"})))
    turn = yield from ask(Stream(prompted, placement.last, keep=True))
    assert turn.error is not None
    placement = yield from ask(Select(prompted, placement.names, 2))
    turn = yield from ask(Stream(prompted, placement.last, 2, keep=True, continues=turn))
    yield from ask(Finish(turn))
    return turn


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("count", [1, 4, 8])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_stream_moves_when_its_worker_dies_and_the_client_sees_one_text(count: int, stream: bool) -> None:
    kept = count if stream else 0  # an engine that was asked for a whole answer has sent nothing when it dies
    dying = SimulatorConfig(replies=(Reply(pieces=tuple(TOKENS)),), faults=(Fault("cut", after=count),))
    rest = SimulatorConfig(replies=(Reply(pieces=tuple(TOKENS[kept:])),))
    async with table(dying, rest, stream=stream) as here:
        turn = await here.drive(goes_on(here.request))
        (first,), (second,) = here.gateway.engines[0].requests, here.gateway.engines[1].requests
    if stream:
        chunks = here.client.chunks()
        text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"])
        usage = chunks[-1]["usage"]
    else:
        body = json.loads(here.client.got)
        text, usage = body["choices"][0]["message"]["content"], body["usage"]
    length = len(first.input_ids)

    assert text == turn.output.text == "".join(TOKENS)
    assert usage["prompt_tokens"] == length
    assert usage["completion_tokens"] == turn.usage.completion_tokens >= len(TOKENS)
    assert second.input_ids[:length] == first.input_ids
    assert tokenizer().decode(list(second.input_ids[length:])) == "".join(TOKENS[:kept])
    assert (first.sampling.max_tokens, second.sampling.max_tokens) == (100, 100 - kept)
    assert (first.id, second.id) == ("r", "r-2")
    assert here.client.ended == 1


async def test_a_worker_lost_after_its_last_token_leaves_nothing_to_ask_another_one_for() -> None:
    """An engine that says in a message of its own that it has finished may be lost before it."""
    dying = SimulatorConfig(replies=(Reply(pieces=tuple(TOKENS)),), faults=(Fault("cut", after=4),))
    async with table(dying, SimulatorConfig()) as here:
        bounded = replace(here.request, sampling=replace(here.request.sampling, max_tokens=4))

        def flow() -> Flow[Turn]:
            prompted = yield from ask(Prepare(here.request))
            placement = yield from ask(Select(prompted, frozenset({"simulator-1"})))
            lost = yield from ask(Stream(prompted, placement.last, keep=True))
            assert lost.error is not None
            prompted = yield from ask(Prepare(bounded))
            placement = yield from ask(Select(prompted, placement.names, 2))
            turn = yield from ask(Stream(prompted, placement.last, 2, keep=True, continues=lost))
            yield from ask(Finish(turn))
            return turn

        turn = await here.drive(flow())
        asked = len(here.gateway.engines[1].requests)

    assert turn.error is None
    assert turn.output.text == "".join(TOKENS[:4])
    assert [each.reason for each in turn.finishes] == ["length"]
    assert turn.usage.completion_tokens == 4
    assert asked == 0
    assert here.client.ended == 1


async def test_the_gateway_makes_no_more_of_it_than_one_driver_and_its_performers() -> None:
    """What a flow of one's own needs is public: a driver, or performers to make another of."""
    async with Gateway.simulated() as gateway:
        assert isinstance(gateway.services.running.driver, Driver)
        assert {Prepare, Select, Stream, Finish} <= set(gateway.services.running.performers.rows())
