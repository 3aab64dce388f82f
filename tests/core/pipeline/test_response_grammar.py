"""Any sequence of attempts, failures, cancellations and turns makes one response by the grammar of events.py, exactly once."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.event_grammar import check
from tests.core.pipeline.test_output import ids_of, plan

from smg_core.engines.base import EngineOutput
from smg_core.errors import EngineFailed, WorkerGone
from smg_core.events import Done, Event, Failed, Finished, TextDelta, Usage
from smg_core.pipeline.answer import Answer, StreamedAnswer, WholeAnswer
from smg_core.pipeline.attempt import Attempt
from smg_core.pipeline.output import OutputProcessor
from smg_core.pipeline.streaming import without_finishes
from smg_parsers import Parser
from smg_parsers.models import family

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
SAID = [
    "plain text",
    "<think>thought</think>answer",
    '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>',
    'text <tool_call>\n{"name": "f", "argum',
    "<think>never ends",
    "",
]


class Recorder:
    """An encoder whose wire is the events themselves, in the order in which they left."""

    content_type = "text/plain"

    def __init__(self, wire: list[Event]) -> None:
        self._wire = wire
        self._kept: list[Event] = []

    def start(self) -> bytes:
        return b""

    def encode(self, events: Sequence[Event]) -> bytes:
        self._kept += events
        return b"." * len(events)

    def add(self, events: Sequence[Event]) -> None:
        self._kept += events

    def body(self) -> bytes:
        return b"."

    @property
    def events(self) -> list[Event]:
        return self._kept


class Client:
    """What the client has: the events of the encoder that was in use when bytes left."""

    def __init__(self) -> None:
        self.encoders: list[Recorder] = []
        self.writes = 0
        self.ended = 0

    def encoder(self) -> Recorder:
        self.encoders.append(Recorder([]))
        return self.encoders[-1]

    async def write(self, data: bytes, last: bool) -> None:
        self.writes += 1
        self.ended += last
        await asyncio.sleep(0)

    @property
    def events(self) -> list[Event]:
        return self.encoders[-1].events


class Call:
    """A call in flight that does as it is told."""

    def cancel(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


def reader(parsed: bool, first_call: int) -> OutputProcessor:
    made = plan(parser=lambda: Parser(family("hermes"), tools=TOOLS)) if parsed else plan()
    return OutputProcessor(made, first_call)


said = st.sampled_from(SAID)
steps = st.lists(
    st.tuples(
        said,
        st.integers(1, 4),  # tokens a push
        st.sampled_from(["ends", "fails", "cut short", "client gone"]),
        st.booleans(),  # whether the client is written to while it goes on
        st.booleans(),  # whether a failed turn is gone on with by the next attempt
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=300, deadline=None)
@given(
    kind=st.sampled_from(["stream", "whole"]),
    parsed=st.booleans(),
    attempts=steps,
    how=st.sampled_from(["finish", "fail", "cancel"]),
)
def test_every_response_keeps_the_grammar(kind: str, parsed: bool, attempts: list[tuple], how: str) -> None:
    client = asyncio.run(_respond(kind, parsed, attempts, how))
    if client is None:
        return

    check(client.events)
    assert client.ended == 1
    assert sum(isinstance(event, Usage) for event in client.events) == 1


async def _respond(kind: str, parsed: bool, attempts: list[tuple], how: str) -> Client | None:
    client = Client()
    answer: Answer
    if kind == "stream":
        answer = StreamedAnswer(client.encoder, client.write, model="m", high_water=50)
    else:
        answer = WholeAnswer(client.encoder, client.write, model="m")
    going_on: OutputProcessor | None = None
    last: Attempt | None = None
    for text, size, end, written, continued in attempts:
        turn = going_on or reader(parsed, answer.calls)
        going_on = None
        last = Attempt(turn, without_finishes(answer))
        answer.begin(last)
        last.reads_from(Call())
        carrying = asyncio.ensure_future(answer.carry(last))
        ids = ids_of(text)
        for at in range(0, len(ids), size):
            last.outputs([EngineOutput(ids=ids[at : at + size], prompt_tokens=5)])
            if written:
                for _ in range(4):
                    await asyncio.sleep(0)
        if end == "ends" and not turn.done:
            last.outputs([EngineOutput(finish="stop")])
            last.closed(None)
        elif end == "fails":
            last.closed(WorkerGone("gone"))
        elif end == "cut short":
            last.closed(None)
        else:
            carrying.cancel()
            await asyncio.wait([carrying])
            last.release()
            failed = await answer.fail(EngineFailed("left"))
            return client if failed else None
        await carrying
        last.release()
        if last.error is not None and continued:
            going_on = turn
            turn.resume()
    assert last is not None
    if how == "finish" and last.error is None:
        await answer.finish(last.reader.finishes)
        assert isinstance(client.events[-1], Done)
        return client
    if how == "cancel" and last.error is None:
        await answer.cancel("asked")
        return client
    return client if await answer.fail(EngineFailed("at the end")) else None


def test_usage_is_said_before_a_failure() -> None:
    async def failing() -> Client:
        client = Client()
        answer = StreamedAnswer(client.encoder, client.write, model="m", high_water=50)
        attempt = Attempt(reader(False, 0), answer)
        answer.begin(attempt)
        carrying = asyncio.ensure_future(answer.carry(attempt))
        attempt.outputs([EngineOutput(ids=ids_of("one two"), prompt_tokens=7)])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        attempt.closed(WorkerGone("gone"))
        await carrying
        assert attempt.error is not None
        assert await answer.fail(attempt.error)
        return client

    events = asyncio.run(failing()).events

    assert [type(event) for event in events[-2:]] == [Usage, Failed]
    usage = events[-2]
    assert isinstance(usage, Usage)
    assert (usage.prompt_tokens, usage.completion_tokens > 0) == (7, True)
    assert any(isinstance(event, TextDelta) for event in events)


@pytest.mark.parametrize("kind", ["stream", "whole"])
def test_the_usage_of_two_turns_is_summed_and_only_the_last_ends_reach_the_client(kind: str) -> None:
    async def two() -> Client:
        client = Client()
        answer = (
            StreamedAnswer(client.encoder, client.write, model="m", high_water=50)
            if kind == "stream"
            else WholeAnswer(client.encoder, client.write, model="m")
        )
        for text in ("one", "two"):
            attempt = Attempt(reader(False, answer.calls), without_finishes(answer))
            answer.begin(attempt)
            attempt.outputs([EngineOutput(ids=ids_of(text), prompt_tokens=5), EngineOutput(finish="stop")])
            await answer.carry(attempt)
        await answer.finish(attempt.reader.finishes)
        return client

    events = asyncio.run(two()).events
    check(events)
    usage = next(event for event in events if isinstance(event, Usage))

    assert usage.prompt_tokens == 10
    assert usage.rounds == 2
    assert sum(isinstance(event, Finished) for event in events) == 1
