"""A streamed answer says that it goes on where nothing is said for long, and never before it may."""

import asyncio

import pytest
from tests.core.pipeline.answer.test_answer import HIGH_WATER, Client, Lines, outputs
from tests.core.pipeline.flow.test_timeouts import Timer
from tests.core.pipeline.output.test_processor import plan

from smg_core.pipeline.answer.answer import StreamedAnswer
from smg_core.pipeline.answer.attempt import Attempt
from smg_core.pipeline.answer.keep_alive import StreamKeepAlive
from smg_core.pipeline.output.processor import OutputProcessor

pytestmark = pytest.mark.anyio


class Talk:
    """An answer that is carried, of which silence of 10 seconds is told."""

    def __init__(self, *, fast: bool = True, commit: float | None = None, after: float = 10.0) -> None:
        self.timer, self.client = Timer(), Client()
        self.client.open.set()
        self.answer = StreamedAnswer(
            Lines,
            self.client.write,
            model="m",
            high_water=HIGH_WATER,
            write_now=self.client.write_now if fast else None,
            keep_alive=StreamKeepAlive(self.timer.call_later, after, commit),
        )
        self.attempt = Attempt(OutputProcessor(plan()), self.answer)
        self.answer.begin(self.attempt)
        self.carrying = asyncio.ensure_future(self.answer.carry(self.attempt))

    async def says(self, *words: bytes) -> str:
        self.attempt.push(outputs(*words))
        return await self.after(0)

    async def after(self, seconds: float) -> str:
        """What the client has, once so much time has passed."""
        await settled()
        self.timer.pass_by(seconds)
        await settled()
        return self.client.text


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("fast", [True, False], ids=["written at once", "through the coroutine"])
async def test_silence_is_broken_again_and_again_and_words_put_it_off(fast: bool) -> None:
    talk = Talk(fast=fast)
    assert await talk.says(b"one") == "<one"
    assert await talk.after(9) == "<one"
    assert await talk.says(b" two") == "<one two"
    assert await talk.after(9) == "<one two"
    assert await talk.after(11) == "<one two."
    assert await talk.after(10) == "<one two.."
    assert await talk.says(b" three") == "<one two.. three"
    await talk.carrying if talk.attempt.over else talk.carrying.cancel()


async def test_nothing_is_sent_before_the_first_token_unless_the_settings_say_when() -> None:
    talk, hasty = Talk(), Talk(commit=5.0)

    assert await talk.after(1000) == ""
    assert not talk.answer.committed
    assert await hasty.after(4) == ""
    assert await hasty.after(1) == "<."
    assert hasty.answer.committed
    assert await hasty.after(10) == "<.."
    assert await hasty.says(b"one") == "<..one"
    for each in (talk, hasty):
        each.carrying.cancel()


async def test_a_client_that_reads_nothing_is_told_nothing_more() -> None:
    talk = Talk()
    await talk.says(b"one")
    talk.client.open.clear()
    await talk.says(b" two")

    await talk.after(1000)
    talk.client.open.set()
    assert await talk.after(0) == "<one two"
    talk.carrying.cancel()


async def test_no_timer_is_left_when_the_response_is_over_and_none_is_made_where_it_is_off() -> None:
    talk, off = Talk(), Talk(after=0.0)
    await talk.says(b"one")
    await off.says(b"one")

    assert len(talk.timer.due) == 1
    assert not off.timer.due
    talk.answer.release()
    assert not talk.timer.due
    for each in (talk, off):
        each.carrying.cancel()
