"""What the processes of one gateway tell each other: one order for all, the last state for who comes later, bounds for each."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shared import PATIENCE

from smg_core.channel.base import Channel, Notice
from smg_core.channel.frames import (
    Began,
    Caught,
    Declined,
    Delivered,
    Frame,
    Publish,
    Settled,
    Splitter,
    Took,
    Word,
    encoded,
)
from smg_core.channel.local import LocalChannel
from smg_core.channel.member import MemberChannel
from smg_core.channel.relay import Relay
from smg_core.channel.relaying import Relaying
from smg_core.channel.settings import ChannelConfig
from smg_core.errors import Draining, InternalError, Overloaded, PayloadTooLarge

SETTINGS = ChannelConfig()
SMALL = ChannelConfig(message_bytes=1024, keys=16, kept_bytes=65536, pending_bytes=65536)
BODY = b"x" * 900

# -------------------------------------------------------------------------------------------------------------- frames

FRAMES: st.SearchStrategy[Frame] = st.one_of(
    st.builds(Publish, st.text(max_size=20), st.text(max_size=20), st.binary(max_size=200), st.integers(1, 1 << 40)),
    st.builds(Took, st.integers(0, 1 << 40)),
    st.builds(Word, st.text(max_size=20)),
    st.builds(Delivered, st.text(max_size=20), st.text(max_size=20), st.binary(max_size=200), st.integers(1, 1 << 40)),
    st.just(Began()),
    st.builds(Caught, st.integers(0, 1 << 40), st.integers(0, 1 << 40)),
    st.builds(Settled, st.integers(0, 1 << 40)),
    st.builds(Declined, st.integers(1, 1 << 40)),
)


@given(st.lists(FRAMES, max_size=12), st.integers(1, 50))
def test_frames_come_back_whatever_the_pieces_in_which_they_come(frames: list[Frame], size: int) -> None:
    data = b"".join(map(encoded, frames))
    splitter = Splitter(1024)

    found = [frame for at in range(0, len(data), size) for frame in splitter.feed(data[at : at + size])]

    assert found == frames


@given(st.binary(min_size=4, max_size=200))
def test_bytes_that_are_no_frames_are_told_as_such_or_waited_for(data: bytes) -> None:
    try:
        found = Splitter(1024).feed(data)
    except InternalError:
        return
    assert sum(map(len, map(encoded, found))) <= len(data)


def test_a_frame_over_the_bound_is_not_waited_for() -> None:
    with pytest.raises(InternalError):
        Splitter(1024).feed((1 << 30).to_bytes(4, "big"))


# --------------------------------------------------------------------------------------------------------------- relay


@attrs.define
class Reader:
    """A process as the supervisor sees it: what it was sent, read as a member reads it."""

    relay: Relay
    name: int
    splitter: Splitter = attrs.field(factory=lambda: Splitter(SETTINGS.message_bytes))
    frames: list[Frame] = attrs.field(factory=list)
    state: dict[tuple[str, str], bytes] = attrs.field(factory=dict)

    def read(self, most: int = 1 << 30) -> None:
        while most > 0 and (waiting := self.relay.waiting(self.name)) is not None:
            piece = bytes(waiting[:most])
            most -= len(piece)
            self.relay.wrote(self.name, len(piece))
            for frame in self.splitter.feed(piece):
                self.frames.append(frame)
                self._note(frame)

    def _note(self, frame: Frame) -> None:
        if isinstance(frame, Began):
            self.state.clear()
        elif isinstance(frame, Delivered) and frame.key:
            self.state.pop((frame.kind, frame.key), None)
            if frame.body:
                self.state[frame.kind, frame.key] = frame.body

    @property
    def numbers(self) -> list[int]:
        return [frame.number for frame in self.frames if isinstance(frame, Delivered)]


def joined(relay: Relay, *names: int) -> list[Reader]:
    for name in names:
        relay.joined(name)
    return [Reader(relay, name) for name in names]


def test_every_process_gets_every_message_in_one_order_and_the_sender_knows_its_own() -> None:
    relay = Relay(SETTINGS)
    readers = joined(relay, 1, 2, 3)
    for token, sender in enumerate((2, 3, 1, 2), 1):
        relay.received(sender, Publish("workers", f"w{token}", b"{}", token))
    for reader in readers:
        reader.read()

    assert [reader.numbers for reader in readers] == [[1, 2, 3, 4]] * 3
    own = [[each.token for each in reader.frames if isinstance(each, Delivered)] for reader in readers]
    assert own == [[0, 0, 3, 0], [1, 0, 0, 4], [0, 2, 0, 0]]


def test_a_process_that_starts_later_gets_the_last_state_of_each_key_and_no_events() -> None:
    relay = Relay(SETTINGS)
    joined(relay, 1)
    for token, (key, text) in enumerate((("a", b"1"), ("", b"event"), ("b", b"2"), ("a", b"3"), ("b", b"")), 1):
        relay.received(1, Publish("workers", key, text, token))
    (late,) = joined(relay, 2)
    late.read()

    assert late.state == {("workers", "a"): b"3"}
    assert late.numbers == [4]
    assert Caught(5, 0) in late.frames


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("say"), st.integers(1, 3), st.sampled_from("abcdef"), st.sampled_from([b"", BODY, b"y"])),
            st.tuples(st.just("read"), st.integers(1, 3), st.integers(1, 5000), st.none()),
            st.tuples(st.just("flood"), st.integers(1, 3), st.sampled_from("ab"), st.none()),
        ),
        max_size=40,
    )
)
def test_a_process_that_reads_late_has_the_state_of_all_once_it_has_read(
    steps: list[tuple[str, int, object, object]],
) -> None:
    relay = Relay(SMALL)
    readers = joined(relay, 1, 2, 3)
    wanted: dict[tuple[str, str], bytes] = {}
    token = 0

    def say(name: int, key: str, text: bytes) -> None:
        nonlocal token
        token += 1
        relay.received(name, Publish("kind", key, text, token))
        wanted.pop(("kind", key), None)
        if text:
            wanted["kind", key] = text

    for what, name, value, text in steps:
        if what == "read" and isinstance(value, int):
            readers[name - 1].read(value)
        elif isinstance(value, str):
            for _ in range(100 if what == "flood" else 1):
                say(name, value, text if isinstance(text, bytes) else BODY)
    for reader in readers:
        reader.read()

    assert [reader.state for reader in readers] == [wanted] * 3
    for reader in readers:
        last = max(at for at, frame in enumerate(reader.frames) if isinstance(frame, Began))
        after = [frame.number for frame in reader.frames[last:] if isinstance(frame, Delivered)]
        assert after == sorted(set(after))


def test_what_waits_for_a_process_that_does_not_read_is_bounded_and_the_others_get_all() -> None:
    relay = Relay(SMALL)
    stuck, well = joined(relay, 1, 2)
    waiting = 0
    for token in range(1, 1001):
        relay.received(2, Publish("kind", "", BODY, token))
        well.read()
        waiting = max(waiting, sum(map(len, relay._members[1].waiting)))
    relay.tell(1, "retire")
    stuck.read()

    assert len(well.numbers) == 1000
    assert waiting <= SMALL.pending_bytes + 2000
    assert len(stuck.numbers) < 100
    assert Word("retire") in stuck.frames
    assert stuck.frames[-2] == Caught(1000, 0)


def test_a_message_is_settled_once_every_process_that_reads_has_taken_it_or_is_gone() -> None:
    relay = Relay(SETTINGS)
    first, second, third = joined(relay, 1, 2, 3)
    relay.received(1, Took(0))
    relay.received(2, Took(0))  # the third is still starting, and is told the state of then
    relay.received(1, Publish("workers", "a", b"1", 1))
    relay.received(1, Took(1))
    first.read()
    early = Settled(1) in first.frames
    relay.left(2)
    first.read()

    assert not early
    assert Settled(1) in first.frames
    assert second.frames == third.frames == []


def test_a_new_generation_is_not_told_what_was_kept_before_it_of_a_kind_and_the_earlier_ones_still_are() -> None:
    relay = Relay(SETTINGS)
    (reader,) = joined(relay, 1)
    for token, (kind, key) in enumerate((("values", "a"), ("workers", "b"), ("values", "c")), 1):
        relay.received(1, Publish(kind, key, b"1", token))
    relay.began(1, ("values",), oldest=0)
    relay.joined(2, 1)
    relay.joined(3)
    relay.received(1, Publish("values", "c", b"2", 4))
    relay.joined(4, 1)
    readers = {name: Reader(relay, name) for name in (2, 3, 4)}
    for each in (reader, *readers.values()):
        each.read()

    old = {("values", "a"): b"1", ("workers", "b"): b"1", ("values", "c"): b"2"}
    assert reader.state == readers[3].state == old
    assert readers[2].state == readers[4].state == {("workers", "b"): b"1", ("values", "c"): b"2"}


def test_generations_of_which_none_can_join_any_more_are_forgotten() -> None:
    relay = Relay(SETTINGS)
    for generation in range(1, 100):
        relay.began(generation, ("values",), oldest=generation - 1)

    assert len(relay._generations) == 2


def test_more_keys_or_bytes_than_are_kept_are_refused_and_what_is_kept_stays() -> None:
    relay = Relay(SMALL)
    (reader,) = joined(relay, 1)
    for token in range(1, 18):
        relay.received(1, Publish("kind", f"{token}", b"1", token))
    relay.received(1, Publish("kind", "3", b"2", 18))
    relay.received(1, Publish("kind", "4", b"", 19))
    relay.received(1, Publish("kind", "17", b"3", 20))
    reader.read()

    assert [frame for frame in reader.frames if isinstance(frame, Declined)] == [Declined(17)]
    assert len(reader.state) == 16
    assert reader.state["kind", "3"] == b"2"
    assert reader.state["kind", "17"] == b"3"


# ----------------------------------------------------------------------------------------------- processes, with sockets


@asynccontextmanager
async def members(
    count: int, settings: ChannelConfig = SETTINGS
) -> AsyncIterator[tuple[Relaying, list[MemberChannel]]]:
    relaying = Relaying(settings)
    try:
        async with AsyncExitStack() as stack:
            made = [MemberChannel(relaying.add(name), settings) for name in range(count)]
            yield relaying, [await stack.enter_async_context(each) for each in made]
    finally:
        relaying.close()


@pytest.mark.anyio
async def test_members_see_one_order_and_who_publishes_is_answered_when_it_has_seen_its_own() -> None:
    seen: list[list[Notice]] = [[], [], []]
    async with members(3) as (_, channels):
        for channel, log in zip(channels, seen, strict=True):
            channel.subscribe("kind", log.append)
        numbers = [await channels[at % 3].publish("kind", f"{at}".encode(), key=f"k{at % 5}") for at in range(30)]
        own = [message.number for message in seen[2]]
        settled = await channels[0].settled(numbers[-1], 30)

    assert numbers == own == list(range(1, 31))
    assert settled
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.anyio
async def test_a_member_that_comes_later_hands_its_subscribers_what_is_kept_when_they_subscribe() -> None:
    async with members(1) as (relaying, (first,)):
        await first.publish("workers", b"1", key="a")
        await first.publish("workers", b"2", key="b")
        await first.publish("settings", b"3", key="all")
        await first.publish("workers", b"", key="a")
        async with MemberChannel(relaying.add(7), SETTINGS) as late:
            seen: list[Notice] = []
            late.subscribe("workers", seen.append)
            told = list(seen)
            await first.publish("workers", b"4", key="b")
            await late.settled(5, 30)

    assert told == [Notice("workers", "b", b"2", 2)]
    assert seen[1:] == [Notice("workers", "b", b"4", 5)]


@pytest.mark.anyio
async def test_a_subscriber_that_fails_keeps_nobody_from_the_next_message() -> None:
    seen: list[bytes] = []
    failures: list[object] = []
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: failures.append(type(context["exception"])))

    def fail(message: Notice) -> None:
        raise ValueError("no")

    async with members(1) as (_, (channel,)):
        channel.subscribe("kind", fail)
        channel.subscribe("kind", lambda message: seen.append(message.body))
        await channel.publish("kind", b"1")
        await channel.publish("kind", b"2")
    loop.set_exception_handler(before)

    assert seen == [b"1", b"2"]
    assert failures == [ValueError, ValueError]


@pytest.mark.anyio
async def test_words_go_between_the_supervisor_and_one_process() -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    relaying = Relaying(SETTINGS)
    member = MemberChannel(relaying.add(4), SETTINGS, heard.put_nowait)
    try:
        async with member:
            relaying.tell(4, "retire")
            member.say("ready")
            await member.publish("kind", b"")
            told = relaying.words()
            # the supervisor's thread may read what a process sends before it does what another thread has asked for
            async with asyncio.timeout(PATIENCE):
                word = await heard.get()
    finally:
        relaying.close()

    assert told == [(4, "ready")]
    assert word == "retire"
    assert heard.empty()


@pytest.mark.anyio
async def test_without_its_supervisor_a_process_is_told_that_nothing_can_be_sent() -> None:
    relaying = Relaying(SETTINGS)
    async with MemberChannel(relaying.add(1), SETTINGS) as member:
        relaying.close()
        await member.settled(1, 30)
        with pytest.raises(Draining):
            await member.publish("kind", b"1")


@pytest.mark.anyio
async def test_what_is_too_large_or_too_much_is_refused_in_both_kinds_of_channels() -> None:
    async def refused(channel: Channel) -> None:
        with pytest.raises(PayloadTooLarge):
            await channel.publish("kind", b"x" * 1025)
        for at in range(16):
            await channel.publish("kind", b"1", key=f"{at}")
        with pytest.raises(Overloaded):
            await channel.publish("kind", b"1", key="one more")
        await channel.publish("kind", b"2", key="3")

    async with members(1, SMALL) as (_, (member,)):
        await refused(member)
    await refused(LocalChannel(SMALL))


@pytest.mark.anyio
async def test_the_channel_of_one_process_is_told_alike() -> None:
    channel = LocalChannel()
    await channel.publish("workers", b"1", key="a")
    await channel.publish("workers", b"2", key="a")
    seen: list[Notice] = []
    channel.subscribe("workers", seen.append)
    number = await channel.publish("workers", b"", key="a")

    assert seen == [Notice("workers", "a", b"2", 2), Notice("workers", "a", b"", 3)]
    assert await channel.settled(number, 0)
