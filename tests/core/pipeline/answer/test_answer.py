"""An answer under way: when it commits, how it ends, and that it holds no more than it may."""

import asyncio
import copy
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

import attrs
import pytest
from tests.core.pipeline.answer.test_attempt import Call
from tests.core.pipeline.output.test_processor import ids_of, plan

from smg_core.engines.base import EngineOutput
from smg_core.errors import EngineFailed, EngineGarbled, SmgError, WorkerGone
from smg_core.events import Cancelled, Done, Event, Failed, Finished, Started, TextDelta, TextEnd, Usage
from smg_core.pipeline.answer.answer import Answer, StreamedAnswer, WholeAnswer
from smg_core.pipeline.answer.attempt import Attempt
from smg_core.pipeline.output.processor import OutputProcessor

pytestmark = pytest.mark.anyio

HIGH_WATER = 100
END = b"\x00"


def outputs(*words: bytes) -> list[EngineOutput]:
    """Each word is the text of one output; END ends the answer."""
    return [EngineOutput(finish="stop") if word == END else EngineOutput(ids=ids_of(word.decode())) for word in words]


class Lines:
    """A wire of plain words: what is said, and a sign for each end."""

    content_type = "text/plain"

    def __init__(self) -> None:
        self.said: list[bytes] = []

    def start(self) -> bytes:
        return b"<"

    def keep_alive(self) -> bytes:
        return b"."

    def encode(self, events: Sequence[Event]) -> bytes:
        return b"".join(map(_word, events))

    def add(self, events: Sequence[Event]) -> None:
        self.said.append(self.encode(events))

    def body(self) -> bytes:
        return b"".join(self.said)

    def fork(self) -> "Lines":
        other = copy.copy(self)
        other.said = self.said.copy()
        return other


def _word(event: Event) -> bytes:
    match event:
        case TextDelta():
            return event.text.encode()
        case Failed():
            return b"!" + type(event.error).__name__.encode()
        case Done():
            return b">"
        case Cancelled():
            return b"~" + event.reason.encode()
        case _:
            return b""


@attrs.define
class Client:
    """Who reads: takes what is written while `open` is set."""

    open: asyncio.Event = attrs.field(factory=asyncio.Event)
    got: list[bytes] = attrs.field(factory=list)
    ended: int = 0
    at_once: int = 0

    async def write(self, data: bytes, last: bool) -> None:
        await self.open.wait()
        self.got.append(data)
        self.ended += last

    def write_now(self, data: bytes) -> bool:
        if not self.open.is_set():
            return False
        self.got.append(data)
        self.at_once += 1
        return True

    @property
    def text(self) -> str:
        return b"".join(self.got).decode()


KINDS = ["stream", "whole"]


@attrs.define
class Talk:
    """An answer, the attempt that brings it, and both ends."""

    answer: Answer
    client: Client
    attempt: Attempt[EngineOutput]
    call: Call
    carrying: "asyncio.Future[None] | None" = None

    def says(self, *words: bytes) -> None:
        self.attempt.push(outputs(*words))

    def again(self, *, going_on: bool = False) -> None:
        """Another attempt, by a reader of its own unless it goes on where the last one ended."""
        reader = self.attempt.reader if going_on else OutputProcessor(plan(), self.answer.calls)
        self.call = Call()
        self.attempt = Attempt(reader, self.answer)
        self.answer.begin(self.attempt)
        self.attempt.reads_from(self.call)

    async def carried(self) -> None:
        await self.answer.carry(self.attempt)

    async def completed(self) -> None:
        await self.carried()
        await self.answer.finish()

    async def commit(self, word: bytes = b"one ") -> None:
        """Let the first byte go out; the coroutine then waits."""
        self.carrying = asyncio.ensure_future(self.carried())
        self.says(word)
        await turns()


def begun(kind: str = "stream", *, write_now: bool = False, make: Callable[[], Any] = Lines) -> Talk:
    client = Client()
    client.open.set()
    answer: Answer
    if kind == "stream":
        now = client.write_now if write_now else None
        answer = StreamedAnswer(make, client.write, model="m", high_water=HIGH_WATER, write_now=now)
    else:
        answer = WholeAnswer(make, client.write, model="m")
    attempt: Attempt[EngineOutput] = Attempt(OutputProcessor(plan()), answer)
    talk = Talk(answer, client, attempt, Call())
    answer.begin(attempt)
    attempt.reads_from(talk.call)
    return talk


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


# ---------------------------------------------------------------------------------------------------- a whole response


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_is_delivered_and_ends_once(kind: str) -> None:
    talk = begun(kind)
    delivering = asyncio.create_task(talk.completed())
    for piece in (b"one ", b"two", END):
        talk.says(piece)
        await turns()
    talk.attempt.closed(None)
    await delivering

    assert talk.client.text == ("<one two>" if kind == "stream" else "one two>")
    assert talk.client.ended == 1
    assert len(talk.client.got) == (3 if kind == "stream" else 1)
    assert not talk.attempt.release()
    assert talk.call.asked == []


async def test_what_has_gathered_leaves_in_one_write_with_the_end() -> None:
    talk = begun()
    talk.says(b"one ")
    talk.says(b"two ", b"three")
    talk.says(END)
    await talk.completed()

    assert talk.client.got == [b"<one two three>"]
    assert talk.client.ended == 1


async def test_the_last_text_and_the_end_leave_in_one_write() -> None:
    talk = begun(write_now=True)
    await talk.commit()
    talk.says(b"last", END)
    assert talk.carrying is not None
    await talk.carrying
    await talk.answer.finish()

    assert talk.client.got == [b"<one ", b"last>"]


@pytest.mark.parametrize("kind", KINDS)
async def test_an_attempt_that_fails_before_the_first_byte_leaves_no_trace(kind: str) -> None:
    talk = begun(kind)
    talk.says(b"lost ")
    talk.attempt.closed(WorkerGone("gone"))
    await talk.carried()
    await talk.answer.flush()
    assert not talk.answer.committed
    assert talk.client.got == []

    talk.again()
    talk.says(b"kept", END)
    await talk.completed()
    assert talk.client.text == ("<kept>" if kind == "stream" else "kept>")


async def test_an_error_after_the_first_byte_ends_the_answer_in_band_and_once() -> None:
    talk = begun()
    await talk.commit(b"one")
    error = EngineFailed("broken")
    talk.attempt.closed(error)
    talk.says(b"late")
    talk.attempt.closed(WorkerGone("gone"))
    assert talk.carrying is not None
    await talk.carrying

    assert await talk.answer.fail(error)
    assert talk.client.text == "<one!EngineFailed"
    assert talk.client.ended == 1
    assert talk.answer.failure is error
    assert talk.answer.usage is not None


async def test_a_whole_answer_is_never_committed_before_it_is_complete() -> None:
    talk = begun("whole")
    await talk.commit()
    assert not talk.answer.committed
    talk.attempt.closed(WorkerGone("gone"))
    assert talk.carrying is not None
    await talk.carrying

    assert not await talk.answer.fail(WorkerGone("gone"))
    assert talk.client.got == []


async def test_a_stream_that_ends_without_its_last_message_is_garbled() -> None:
    talk = begun()
    talk.says(b"one")
    talk.attempt.closed(None)
    await talk.carried()

    assert isinstance(talk.attempt.error, EngineGarbled)


# -------------------------------------------------------------------------------------------------- the table of states

State = Literal["open", "committed", "over", "refused"]


async def in_state(state: State, kind: str = "stream") -> Talk:
    talk = begun(kind)
    if state == "committed":
        await talk.commit()
    elif state == "over":
        talk.says(b"one", END)
        await talk.completed()
    elif state == "refused":
        assert not await talk.answer.fail(WorkerGone("gone"))
    assert talk.answer.state == state
    talk.client.got.clear()
    return talk


@pytest.mark.parametrize(("state", "committed"), [("open", 0), ("committed", 1), ("over", 1), ("refused", 0)])
async def test_an_answer_is_committed_once_something_went_out(state: State, committed: int) -> None:
    talk = await in_state(state)
    assert talk.answer.committed == bool(committed)


@pytest.mark.parametrize("state", ["open", "committed"])
async def test_another_attempt_may_begin_until_the_answer_is_over(state: State) -> None:
    talk = await in_state(state)
    talk.attempt.closed(WorkerGone("gone"))
    talk.again()
    talk.says(b"two", END)
    await talk.completed()

    assert talk.client.text == ("<two>" if state == "open" else "two>")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("state", ["over", "refused"])
async def test_nothing_begins_on_an_answer_that_is_over(state: State, kind: str) -> None:
    talk = await in_state(state, kind)
    with pytest.raises(AssertionError, match=state):
        talk.again()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("state", ["over", "refused"])
async def test_what_is_taken_once_the_answer_is_over_is_ignored_and_nothing_is_left_to_write(
    state: State, kind: str
) -> None:
    talk = await in_state(state, kind)
    talk.answer.take([TextDelta(0, "late")], False)
    talk.answer.take([TextDelta(0, "later")], True)
    await talk.answer.flush()

    assert talk.client.got == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("state", ["open", "committed"])
async def test_an_answer_is_finished_or_cancelled_once(state: State, kind: str) -> None:
    if (state, kind) == ("committed", "whole"):
        return
    for end, said in ((Answer.finish, ">"), (lambda answer: answer.cancel("asked"), "~asked")):
        talk = await in_state(state, kind)
        await end(talk.answer)
        assert talk.client.text.endswith(said)
        assert (talk.answer.state, talk.client.ended) == ("over", 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("state", ["over", "refused"])
async def test_what_is_over_is_not_ended_again(state: State, kind: str) -> None:
    talk = await in_state(state, kind)
    with pytest.raises(AssertionError):
        await talk.answer.finish()
    with pytest.raises(AssertionError):
        await talk.answer.cancel("asked")
    assert talk.client.got == []


@pytest.mark.parametrize(
    ("state", "after", "in_band", "said"),
    [
        ("open", "refused", False, ""),
        ("committed", "over", True, "!WorkerGone"),
        ("over", "over", True, ""),
        ("refused", "refused", False, ""),
    ],
)
async def test_a_failure_is_said_in_band_where_the_client_has_seen_something_and_else_refused(
    state: State, after: State, in_band: bool, said: str
) -> None:
    talk = await in_state(state)

    assert await talk.answer.fail(WorkerGone("gone")) == in_band
    assert talk.answer.state == after
    assert talk.client.text == said


@pytest.mark.parametrize(
    ("state", "after", "in_band"), [("open", "refused", False), ("over", "over", True), ("refused", "refused", False)]
)
async def test_a_whole_answer_that_fails_before_its_end_is_refused(state: State, after: State, in_band: bool) -> None:
    talk = await in_state(state, "whole")

    assert await talk.answer.fail(WorkerGone("gone")) == in_band
    assert (talk.answer.state, talk.client.got) == (after, [])


# ------------------------------------------------------------------------------------------------- attempts and turns


class Kept(Lines):
    """Keeps the events themselves."""

    def __init__(self, made: "list[Kept]") -> None:
        super().__init__()
        self.events: list[Event] = []
        self.made = made

    def encode(self, events: Sequence[Event]) -> bytes:
        self.events += events
        return super().encode(events)

    def fork(self) -> "Kept":
        other = cast("Kept", super().fork())
        other.events = self.events.copy()
        self.made.append(other)
        return other


def kept(kind: str = "stream") -> tuple[Talk, list[Kept]]:
    encoders: list[Kept] = []

    def make() -> Kept:
        encoders.append(Kept(encoders))
        return encoders[-1]

    return begun(kind, make=make), encoders


@pytest.mark.parametrize("kind", KINDS)
async def test_a_turn_that_failed_early_is_dropped_and_the_turns_before_it_stay(kind: str) -> None:
    talk, encoders = kept(kind)
    talk.says(b"first ", END)
    await talk.carried()  # nothing flushes it: the answer is still open
    talk.again()
    talk.says(b"lost ")
    talk.attempt.closed(WorkerGone("gone"))
    talk.again()
    talk.says(b"second", END)
    await talk.completed()
    events = encoders[-1].events
    usage = next(event for event in events if isinstance(event, Usage))

    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "first second"
    assert [type(event) for event in events].count(Started) == 1
    assert (usage.rounds, usage.prompt_tokens) == (2, 14)


async def test_blocks_that_a_lost_attempt_left_open_are_closed_before_the_next_turn() -> None:
    talk, (encoder,) = kept()
    await talk.commit()
    talk.attempt.closed(WorkerGone("gone"))
    talk.again()
    talk.says(b"two", END)
    await talk.completed()

    assert [type(event) for event in encoder.events] == [
        Started, TextDelta, TextEnd, TextDelta, TextEnd, Finished, Usage, Done,
    ]  # fmt: skip


async def test_blocks_that_an_attempt_left_open_that_we_gave_up_are_closed_too() -> None:
    talk, (encoder,) = kept()
    await talk.commit()
    assert talk.carrying is not None
    talk.carrying.cancel()
    await asyncio.wait([talk.carrying])
    talk.attempt.release()
    talk.again()

    assert [type(event) for event in encoder.events] == [Started, TextDelta, TextEnd]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("early", [True, False])
async def test_an_attempt_that_goes_on_with_the_same_reader_keeps_all_that_was_said(kind: str, early: bool) -> None:
    talk = begun(kind)
    if not early:
        await talk.commit(b"one ")
    else:
        talk.says(b"one ")
    talk.attempt.closed(WorkerGone("gone"))
    talk.again(going_on=True)
    talk.says(b"two", END)
    await talk.completed()
    usage = talk.answer.usage

    assert talk.client.text == ("<one two>" if kind == "stream" else "one two>")
    assert usage is not None
    assert (usage.prompt_tokens, usage.rounds) == (7, 1)
    assert usage.completion_tokens == len(ids_of("one ")) + len(ids_of("two"))


async def test_ends_that_were_held_back_are_said_at_the_end() -> None:
    talk, (encoder,) = kept()
    await talk.answer.finish([Finished(0, "stop")])

    assert [type(event) for event in encoder.events] == [Started, Finished, Usage, Done]


async def test_a_response_without_any_attempt_has_used_nothing() -> None:
    client = Client()
    client.open.set()
    answer = StreamedAnswer(Lines, client.write, model="m", high_water=HIGH_WATER)
    assert (answer.usage, answer.calls) == (None, 0)
    await answer.cancel("asked")

    assert client.text == "<~asked"


# ------------------------------------------------------------------------------------------------------ back-pressure


async def test_the_engine_is_held_back_while_the_client_does_not_read_and_nothing_is_lost() -> None:
    talk = begun()
    talk.client.open.clear()
    delivering = asyncio.create_task(talk.completed())
    words = [f"word{number} " for number in range(200)]
    for word in words:
        talk.says(word.encode())
        await turns(1)
        if talk.call.asked:
            break
    held = sum(map(len, words[: words.index(word) + 1]))
    assert talk.call.asked == ["pause"]
    assert held <= 2 * HIGH_WATER

    talk.client.open.set()
    await turns()
    assert talk.call.asked == ["pause", "resume"]
    talk.says(END)
    await delivering
    assert talk.client.text == f"<{''.join(words[: words.index(word) + 1])}>"


async def test_an_attempt_that_takes_over_from_one_that_was_held_back_is_not_held_back() -> None:
    talk = begun()
    await talk.commit()
    talk.client.open.clear()
    talk.says(b"x" * 40)
    await turns()  # the coroutine is writing
    talk.says(*[b"word "] * 40)
    assert talk.call.asked == ["pause"]
    talk.attempt.closed(WorkerGone("gone"))
    talk.client.open.set()
    assert talk.carrying is not None
    await talk.carrying
    talk.again(going_on=True)
    await talk.answer.flush()
    await talk.commit(b"more ")

    assert talk.call.asked == []
    assert talk.client.text.endswith("word more ")


# ---------------------------------------------------------------------------------------------- written in the push


async def test_a_token_of_a_stream_under_way_is_written_in_the_push_and_the_coroutine_sleeps_on() -> None:
    talk = begun(write_now=True)
    await talk.commit()
    talk.says(b"two ")
    talk.says(b"three ")

    assert talk.client.got == [b"<one ", b"two ", b"three "]
    assert talk.client.at_once == 2


async def test_the_first_bytes_are_the_coroutines_to_write() -> None:
    talk = begun(write_now=True)
    talk.carrying = asyncio.ensure_future(talk.carried())
    await turns()
    talk.says(b"one ")
    assert talk.client.got == []
    await turns()

    assert talk.client.got == [b"<one "]
    assert talk.client.at_once == 0


async def test_nothing_is_written_past_bytes_that_wait() -> None:
    talk = begun(write_now=True)
    await talk.commit()
    talk.client.open.clear()
    talk.says(b"two ")  # the client does not take it: it waits for the coroutine
    await turns()
    talk.says(b"three ")
    talk.client.open.set()
    talk.says(b"four ")
    await turns()

    assert talk.client.text == "<one two three four "
    assert talk.client.at_once == 0
    talk.says(b"five ")
    assert talk.client.at_once == 1


async def test_a_push_before_the_coroutine_waits_is_left_to_it() -> None:
    talk = begun(write_now=True)
    await talk.commit()
    talk.attempt.closed(WorkerGone("gone"))
    assert talk.carrying is not None
    await talk.carrying
    talk.again(going_on=True)
    talk.says(b"two ")
    assert talk.client.at_once == 0

    await talk.commit(b"three ")
    assert talk.client.text == "<one two three "


async def test_an_answer_broken_off_ends_in_band_with_what_had_gathered() -> None:
    talk = begun()
    await talk.commit()
    talk.says(b"two ")
    assert talk.carrying is not None
    talk.carrying.cancel()
    await asyncio.wait([talk.carrying])
    talk.attempt.release()
    error: SmgError = WorkerGone("leaving")

    assert await talk.answer.fail(error)
    assert talk.client.text == "<one two !WorkerGone"
    assert talk.client.ended == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_the_calls_of_an_attempt_that_will_be_dropped_are_not_counted(kind: str) -> None:
    talk = begun(kind)
    talk.attempt = Attempt(OutputProcessor(plan(), first_call=2), talk.answer)
    talk.answer.begin(talk.attempt)
    assert talk.answer.calls == 2
    talk.attempt.closed(WorkerGone("gone"))

    assert talk.answer.calls == 0
