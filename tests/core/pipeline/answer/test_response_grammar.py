"""Any sequence of attempts, failures, cancellations and turns makes one response by the grammar of events.py, exactly once."""

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.core.event_grammar import check
from tests.core.pipeline.output.test_processor import ids_of, plan
from tests.tiers import examples

from smg_core.engines.base import EngineOutput
from smg_core.errors import EngineFailed, WorkerGone
from smg_core.events import (
    Done,
    Event,
    Failed,
    Finished,
    HostedEnd,
    HostedProgress,
    HostedStart,
    ReasoningDelta,
    ReasoningEnd,
    RefusalDelta,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from smg_core.pipeline.answer.answer import Answer, StreamedAnswer, WholeAnswer
from smg_core.pipeline.answer.attempt import Attempt
from smg_core.pipeline.answer.receivers import without_finishes
from smg_core.pipeline.output.chat_reader import ChatPlan, ChatReader
from smg_core.pipeline.output.processor import OutputProcessor
from smg_parsers import Parser
from smg_parsers.families.models import family

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

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._kept: list[Event] = []

    def start(self) -> bytes:
        self._client.encoder_in_use = self
        return b""

    def keep_alive(self) -> bytes:
        return b""

    def encode(self, events: Sequence[Event]) -> bytes:
        self._kept += events
        return b"." * len(events)

    def add(self, events: Sequence[Event]) -> None:
        self._kept += events

    def body(self) -> bytes:
        self._client.encoder_in_use = self
        return b"."

    def fork(self) -> "Recorder":
        other = Recorder(self._client)
        other._kept = self._kept.copy()
        return other

    @property
    def events(self) -> list[Event]:
        return self._kept


class Client:
    """What the client has: the events of the encoder that was in use when bytes left."""

    def __init__(self) -> None:
        self.encoder_in_use = Recorder(self)
        self.writes = 0
        self.ended = 0

    def encoder(self) -> Recorder:
        return Recorder(self)

    async def write(self, data: bytes, last: bool) -> None:
        self.writes += 1
        self.ended += last
        await asyncio.sleep(0)

    @property
    def events(self) -> list[Event]:
        return self.encoder_in_use.events


class Call:
    """A call in flight that does as it is told."""

    def cancel(self) -> None: ...
    def leave(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


def reader(parsed: bool, first_call: int, choices: int = 1) -> OutputProcessor:
    parser = (lambda: Parser(family("hermes"), tools=TOOLS)) if parsed else None
    return OutputProcessor(plan(parser=parser, choices=choices), first_call)


def chat_blocks(index: int, which: int) -> list[Event]:
    """What an engine that speaks chat says in one choice."""
    text: list[Event] = [TextDelta(index, "text"), TextDelta(index, " more"), TextEnd(index)]
    said: list[list[Event]] = [
        text,
        [ReasoningDelta(index, "thought"), ReasoningEnd(index, b"seal"), *text],
        [ToolCallStart(index, 0, "a", "f"), ToolCallDelta(index, 0, "{}"), ToolCallEnd(index, 0)],
        [ToolCallStart(index, 0, "a", "f"), ToolCallEnd(index, 0), ToolCallStart(index, 1, "b", "g"), ToolCallEnd(index, 1)],
        [HostedStart(index, "h", "web_search"), HostedProgress(index, "searching"), HostedEnd(index), *text],
        [RefusalDelta(index, "I"), RefusalDelta(index, " decline"), TextEnd(index)],
        [],
    ]  # fmt: skip
    return said[which % len(said)]


@attrs.frozen
class Played:
    """One attempt of a play. `kind` is who speaks; `said` what each choice says (of ids: a text of SAID); `size` how much a push
    brings; `written`: whether the client is written to while it goes on; `continued`: whether the next attempt goes on with a
    failed one."""

    kind: Literal["plain", "parsed", "chat"]
    said: tuple[int, ...]
    size: int
    end: Literal["ends", "fails", "cut short", "client gone"]
    written: bool
    continued: bool


plays = st.lists(
    st.builds(
        Played,
        kind=st.sampled_from(["plain", "parsed", "chat"]),
        said=st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6)),
        size=st.integers(1, 4),
        end=st.sampled_from(["ends", "fails", "cut short", "client gone"]),
        written=st.booleans(),
        continued=st.booleans(),
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.full
@settings(max_examples=examples(400), deadline=None)
@given(
    kind=st.sampled_from(["stream", "whole"]),
    choices=st.sampled_from([1, 1, 1, 2, 3]),
    attempts=plays,
    how=st.sampled_from(["finish", "fail", "cancel"]),
)
@example(
    kind="stream",
    choices=1,
    attempts=[
        Played("plain", (0, 0, 0), 1, "fails", written=True, continued=True),
        Played("plain", (5, 0, 0), 1, "fails", written=False, continued=False),  # goes on, and brings nothing
        Played("parsed", (1, 0, 0), 1, "ends", written=False, continued=False),
    ],
    how="finish",
)
def test_every_response_keeps_the_grammar(kind: str, choices: int, attempts: list[Played], how: str) -> None:
    client = asyncio.run(_respond(kind, choices, attempts, how))
    if client is None:
        return

    check(client.events, choices=choices)
    assert client.ended == 1
    assert sum(isinstance(event, Usage) for event in client.events) == 1


def _pushes(played: Played, choices: int) -> list[list[Any]]:
    """What the engine pushes before the end of the turn, the choices in turns."""
    if played.kind == "chat":
        said: list[list[Any]] = [chat_blocks(index, played.said[index]) for index in range(choices)]
    else:
        said = [
            [EngineOutput(index, [each], prompt_tokens=5) for each in ids_of(SAID[played.said[index] % len(SAID)])]
            for index in range(choices)
        ]
    pushes = []
    for at in range(0, max(map(len, said)), played.size):
        pushes += [one[at : at + played.size] for one in said if one[at : at + played.size]]
    if played.end in ("fails", "client gone"):
        pushes = pushes[: len(pushes) // 2 + 1]  # in the middle of a block, where there is one
    return pushes


def _last_push(played: Played, choices: int) -> list[Any]:
    if played.kind == "chat":
        return [*(Finished(index, "stop") for index in range(choices)), Usage(5, 3), Done()]
    return [EngineOutput(index, finish="stop") for index in range(choices)]


async def _respond(kind: str, choices: int, attempts: list[Played], how: str) -> Client | None:
    """Play the attempts as flows do: with several choices one turn is a response; None for one that was refused."""
    client = Client()
    answer: Answer
    if kind == "stream":
        answer = StreamedAnswer(client.encoder, client.write, model="m", high_water=50)
    else:
        answer = WholeAnswer(client.encoder, client.write, model="m")
    going_on: OutputProcessor | None = None
    last: Attempt[Any] | None = None
    for played in attempts:
        if going_on is not None:
            played = attrs.evolve(played, kind="plain")
        last = await _attempt(answer, played, choices, going_on)
        if played.end == "client gone":
            return client if await answer.fail(EngineFailed("left")) else None
        going_on = None
        if last.error is not None and played.continued and isinstance(last.reader, OutputProcessor):
            going_on = last.reader
            going_on.resume()
        elif choices > 1 and (last.error is None or answer.committed):
            break
    assert last is not None
    if how == "finish" and last.error is None:
        await answer.finish(last.reader.finishes)
        assert isinstance(client.events[-1], Done)
        return client
    if how == "cancel" and last.error is None:
        await answer.cancel("asked")
        return client
    return client if await answer.fail(EngineFailed("at the end")) else None


async def _attempt(answer: Answer, played: Played, choices: int, going_on: OutputProcessor | None) -> Attempt[Any]:
    turn: Any = going_on
    if turn is None and played.kind == "chat":
        turn = ChatReader(ChatPlan(choices), answer.calls)
    elif turn is None:
        turn = reader(played.kind == "parsed", answer.calls, choices)
    attempt: Attempt[Any] = Attempt(turn, without_finishes(answer))
    answer.begin(attempt)
    attempt.reads_from(Call())
    carrying = asyncio.ensure_future(answer.carry(attempt))
    for push in _pushes(played, choices):
        attempt.push(push)
        if played.written:
            for _ in range(4):
                await asyncio.sleep(0)
    if played.end == "ends":
        attempt.push(_last_push(played, choices))
        attempt.closed(None)
    elif played.end == "fails":
        attempt.closed(WorkerGone("gone"))
    elif played.end == "cut short":
        attempt.closed(None)
    else:
        carrying.cancel()
        await asyncio.wait([carrying])
        attempt.release()
        attempt.push(_last_push(played, choices))  # too late
        return attempt
    await carrying
    attempt.release()
    return attempt


def test_usage_is_said_before_a_failure() -> None:
    async def failing() -> Client:
        client = Client()
        answer = StreamedAnswer(client.encoder, client.write, model="m", high_water=50)
        attempt = Attempt(reader(False, 0), answer)
        answer.begin(attempt)
        carrying = asyncio.ensure_future(answer.carry(attempt))
        attempt.push([EngineOutput(ids=ids_of("one two"), prompt_tokens=7)])
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
            attempt.push([EngineOutput(ids=ids_of(text), prompt_tokens=5), EngineOutput(finish="stop")])
            await answer.carry(attempt)
        await answer.finish(attempt.reader.finishes)
        return client

    events = asyncio.run(two()).events
    check(events)
    usage = next(event for event in events if isinstance(event, Usage))

    assert usage.prompt_tokens == 10
    assert usage.rounds == 2
    assert sum(isinstance(event, Finished) for event in events) == 1
