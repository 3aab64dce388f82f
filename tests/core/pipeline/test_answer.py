"""An answer under way: when it commits, how it ends, and that it holds no more than it may."""

import asyncio
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from tests.core.pipeline.test_output import ids_of, plan

from smg_core.engines.base import EngineOutput
from smg_core.errors import EngineFailed, EngineGarbled, WorkerGone
from smg_core.events import Done, Event, Failed, TextDelta
from smg_core.pipeline.answer import Answer, StreamedAnswer, WholeAnswer
from smg_core.pipeline.output import OutputProcessor

pytestmark = pytest.mark.anyio

HIGH_WATER = 100
END = b"\x00"


def outputs(*words: bytes) -> list[EngineOutput]:
    """Each word is the text of one output; END ends the answer."""
    return [EngineOutput(finish="stop") if word == END else EngineOutput(ids=ids_of(word.decode())) for word in words]


class Lines:
    """A wire of plain words."""

    content_type = "text/plain"

    def __init__(self) -> None:
        self.said: list[bytes] = []

    def start(self) -> bytes:
        return b"<"

    def encode(self, events: Sequence[Event]) -> bytes:
        return b"".join(map(_word, events))

    def add(self, events: Sequence[Event]) -> None:
        self.said.append(self.encode(events))

    def body(self) -> bytes:
        return b"".join(self.said)


def _word(event: Event) -> bytes:
    match event:
        case TextDelta():
            return event.text.encode()
        case Failed():
            return b"!" + type(event.error).__name__.encode()
        case Done():
            return b">"
        case _:
            return b""


@attrs.define
class Call:
    """A call in flight, and what was asked of it."""

    asked: list[str] = attrs.field(factory=list)

    def cancel(self) -> None:
        self.asked.append("cancel")

    def pause(self) -> None:
        self.asked.append("pause")

    def resume(self) -> None:
        self.asked.append("resume")


@attrs.define
class Client:
    """Who reads: takes what is written while `open` is set."""

    open: asyncio.Event = attrs.field(factory=asyncio.Event)
    got: list[bytes] = attrs.field(factory=list)
    ended: int = 0

    async def write(self, data: bytes, last: bool) -> None:
        await self.open.wait()
        self.got.append(data)
        self.ended += last

    @property
    def text(self) -> str:
        return b"".join(self.got).decode()


def begun(kind: str = "stream") -> tuple[Answer, Client, Call]:
    client, call = Client(), Call()
    client.open.set()
    answer: Answer
    if kind == "stream":
        answer = StreamedAnswer(Lines, client.write, high_water=HIGH_WATER, on_first=lambda: None)
    else:
        answer = WholeAnswer(Lines, client.write, on_first=lambda: None)
    again(answer, call)
    return answer, client, call


def again(answer: Answer, call: Call) -> None:
    answer.begin(OutputProcessor(plan()))
    answer.reads_from(call)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("kind", ["stream", "whole"])
async def test_an_answer_is_delivered_and_ends_once(kind: str) -> None:
    answer, client, call = begun(kind)
    delivering = asyncio.create_task(answer.deliver())
    for piece in (b"one ", b"two", END):
        answer.outputs(outputs(piece))
        await turns()
    answer.closed(None)
    await delivering

    assert client.text == ("<one two>" if kind == "stream" else "one two>")
    assert client.ended == 1
    assert len(client.got) == (3 if kind == "stream" else 1)
    assert not answer.let_go()
    assert call.asked == []


async def test_what_has_gathered_leaves_in_one_write() -> None:
    answer, client, _ = begun()
    answer.outputs(outputs(b"one "))
    answer.outputs(outputs(b"two ", b"three"))
    answer.outputs(outputs(END))
    await answer.deliver()

    assert client.got == [b"<one two three>"]


@pytest.mark.parametrize("kind", ["stream", "whole"])
async def test_an_error_before_the_first_byte_is_raised_and_what_came_before_it_is_forgotten(kind: str) -> None:
    answer, client, call = begun(kind)
    answer.outputs(outputs(b"lost "))
    answer.closed(WorkerGone("gone"))
    with pytest.raises(WorkerGone):
        await answer.deliver()
    assert not answer.committed
    assert not answer.let_go()

    again(answer, call)
    answer.outputs(outputs(b"kept", END))
    await answer.deliver()
    assert client.text == ("<kept>" if kind == "stream" else "kept>")


async def test_an_error_after_the_first_byte_ends_the_answer_in_band_and_once() -> None:
    answer, client, _ = begun()
    delivering = asyncio.create_task(answer.deliver())
    answer.outputs(outputs(b"one"))
    await turns()
    answer.closed(EngineFailed("broken"))
    answer.outputs(outputs(b"late"))
    answer.closed(WorkerGone("gone"))
    await delivering

    assert client.text == "<one!EngineFailed"
    assert client.ended == 1
    assert isinstance(answer.failure, EngineFailed)
    assert answer.usage is not None


async def test_a_whole_answer_is_never_committed_before_it_is_complete() -> None:
    answer, client, _ = begun("whole")
    delivering = asyncio.create_task(answer.deliver())
    answer.outputs(outputs(b"one"))
    await turns()
    assert not answer.committed
    answer.closed(WorkerGone("gone"))
    with pytest.raises(WorkerGone):
        await delivering
    assert client.got == []


async def test_a_stream_that_ends_without_its_last_message_is_garbled() -> None:
    answer, _, _ = begun()
    answer.outputs(outputs(b"one"))
    answer.closed(None)
    with pytest.raises(EngineGarbled):
        await answer.deliver()


async def test_the_engine_is_held_back_while_the_client_does_not_read_and_nothing_is_lost() -> None:
    answer, client, call = begun()
    client.open.clear()
    delivering = asyncio.create_task(answer.deliver())
    words = [f"word{number} " for number in range(200)]
    for word in words:
        answer.outputs(outputs(word.encode()))
        await turns(1)
        if call.asked:
            break
    held = sum(map(len, words[: words.index(word) + 1]))
    assert call.asked == ["pause"]
    assert held <= 2 * HIGH_WATER

    client.open.set()
    await turns()
    assert call.asked == ["pause", "resume"]
    answer.outputs(outputs(END))
    await delivering
    assert client.text == f"<{''.join(words[: words.index(word) + 1])}>"


async def test_letting_go_of_an_answer_under_way_resets_the_stream_and_says_that_the_engine_must_be_told() -> None:
    answer, _, call = begun()
    answer.outputs(outputs(b"one"))

    assert answer.let_go()
    assert not answer.let_go()
    assert call.asked == ["cancel"]


async def test_an_answer_that_is_complete_before_the_engine_closes_lets_the_engine_close() -> None:
    answer, _, call = begun()
    answer.outputs(outputs(b"one", END))
    await answer.deliver()

    assert not answer.let_go()
    assert call.asked == []


async def test_an_answer_broken_off_ends_in_band_with_what_had_gathered() -> None:
    answer, client, _ = begun()
    assert isinstance(answer, StreamedAnswer)
    delivering = asyncio.create_task(answer.deliver())
    answer.outputs(outputs(b"one "))
    await turns()
    delivering.cancel()
    await asyncio.wait([delivering])
    answer.outputs(outputs(b"two"))
    await answer.break_off(WorkerGone("leaving"))

    assert client.text == "<one two!WorkerGone"
    assert client.ended == 1


async def test_the_first_output_is_told_of_once() -> None:
    told: list[Any] = []
    client = Client()
    client.open.set()
    answer = StreamedAnswer(Lines, client.write, high_water=HIGH_WATER, on_first=lambda: told.append(1))
    again(answer, Call())
    answer.outputs(outputs(b"one"))
    answer.outputs(outputs(b"two", END))
    await answer.deliver()

    assert told == [1]
