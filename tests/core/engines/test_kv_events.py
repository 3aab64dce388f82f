"""KV events: what a subscriber knows of an engine's cache, in every dialect that publishes it and over both transports; what it
is told when something is missing; and what real engines sent, word for word."""

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

import attrs
import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tests.engine_kinds import DIALECTS
from tests.shared import PATIENCE

from smg_core.engines.base import Codec, EngineRequest, Transport
from smg_core.engines.calls import Call
from smg_core.engines.codecs.shared_kv_events import kv_events_call
from smg_core.engines.connections.target import Target
from smg_core.engines.grpc.grpcio import GrpcioTransport
from smg_core.engines.grpc.h2.transport import H2Transport
from smg_core.engines.kinds.table import kind
from smg_core.engines.kv_events import (
    PART,
    KvBlocksRemoved,
    KvBlocksStored,
    KvCacheCleared,
    KvCursor,
    KvEvent,
    KvEventBatch,
    KvSnapshot,
    cut,
    size,
)
from smg_core.engines.status import cursor_refused, not_offered
from smg_core.engines.token_ids.client import EngineClient, KvReader
from smg_core.errors import EngineGarbled, SmgError, WorkerGone
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_engine_contract.engines import common_pb2 as common
from smg_simulator.answers.faults import Fault
from smg_simulator.codecs.all_codecs import server_codecs
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.engine.kv_feed import Batch, KvFeed
from smg_simulator.engine.prefix_cache import CacheChange, PrefixCache
from smg_simulator.server.grpc_server import SimulatedEngine

CAPTURES = Path(__file__).parents[2] / "captures"
CODECS: dict[str, Codec] = {name: row.codec() for name, row in DIALECTS.items()}
PUBLISHING = sorted(name for name, codec in CODECS.items() if codec.kv_events(None) is not None)
SERVED = {each.service: each for each in server_codecs(rust=False, shared=None)}
TRANSPORTS: dict[str, Callable[[Target], Transport]] = {"h2": H2Transport, "grpcio": GrpcioTransport}
SIZE = 4


@attrs.define
class Mirror:
    """A sink that keeps what a cache holds, as a plain reader of the records would: hash to (parent, tokens)."""

    first: int = 0
    blocks: dict[int, tuple[int | None, tuple[int, ...]]] = attrs.field(factory=dict)
    batches: list[KvEventBatch] = attrs.field(factory=list)
    verdicts: list[str] = attrs.field(factory=list)
    ends: list[SmgError | None] = attrs.field(factory=list)
    pushes: list[int] = attrs.field(factory=list)
    changed: asyncio.Event = attrs.field(factory=asyncio.Event)
    cursor: KvCursor = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.cursor = KvCursor(first=self.first)

    def push(self, batches: Sequence[KvEventBatch]) -> None:
        assert batches
        assert not self.ends
        self.pushes.append(sum(size(event) for batch in batches for event in batch.events))
        for batch in batches:
            self.batches.append(batch)
            self.verdicts.append(self.cursor.take(batch))
            if self.verdicts[-1] == "restart":
                self.blocks.clear()
            if self.verdicts[-1] in ("apply", "restart"):
                for event in batch.events:
                    self.apply(event)
        self.changed.set()

    def apply(self, event: KvEvent) -> None:
        if isinstance(event, KvCacheCleared):
            self.blocks.clear()
        elif isinstance(event, KvBlocksRemoved):
            for each in event.hashes:
                del self.blocks[each]
        else:
            parent = event.parent
            assert parent is None or parent in self.blocks
            for at, each in enumerate(event.hashes):
                row = tuple(event.token_ids[at * event.block_size : (at + 1) * event.block_size])
                self.blocks[each] = (parent, row)
                parent = each

    def closed(self, error: SmgError | None) -> None:
        self.ends.append(error)
        self.changed.set()

    async def until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not reached():
                self.changed.clear()
                await self.changed.wait()


def held_by(cache: PrefixCache) -> dict[int, tuple[int | None, tuple[int, ...]]]:
    return {block.hashes[0]: (block.parent, block.token_ids[0]) for block in cache.held()}


def first_of(name: str) -> int:
    return 1 if name == "neutral" else 0


@pytest.fixture(params=PUBLISHING)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=TRANSPORTS)
def way(request: pytest.FixtureRequest) -> Callable[[Target], Transport]:
    return TRANSPORTS[request.param]


def client_of(engine: SimulatedEngine, name: str, way: Callable[[Target], Transport] = H2Transport) -> EngineClient:
    return EngineClient(kind(name).codec(), way(Target.parse(engine.target)))


async def subscribed(client: EngineClient, mirror: Mirror, engine: SimulatedEngine, after: int | None = None) -> Call:
    """A subscription that the engine has begun to serve."""
    before = engine.counters["subscribers"]
    call = await client.subscribe_kv_events(mirror, after=after)
    assert call is not None
    async with asyncio.timeout(PATIENCE):
        while engine.counters["subscribers"] == before and not mirror.ends:
            await asyncio.sleep(0)
    return call


@attrs.define
class Ignored:
    """Takes the tokens of an answer that nobody reads."""

    over: asyncio.Event = attrs.field(factory=asyncio.Event)

    def push(self, outputs: object) -> None: ...

    def closed(self, error: SmgError | None) -> None:
        assert error is None
        self.over.set()


async def ask(client: EngineClient, ids: Sequence[int]) -> None:
    sink = Ignored()
    await client.generate(EngineRequest(f"r-{Random(str(ids)).random()}", TokenIds(ids), Sampling(max_tokens=2)), sink)
    async with asyncio.timeout(PATIENCE):
        await sink.over.wait()


# ------------------------------------------------------------------------------------------- every dialect, both transports


@pytest.mark.anyio
async def test_a_subscriber_knows_what_the_cache_holds(name: str, way: Callable[[Target], Transport]) -> None:
    async with SimulatedEngine(SimulatorConfig(block_size=SIZE, blocks=12)) as engine:
        client, mirror = client_of(engine, name, way), Mirror(first_of(name))
        call = await subscribed(client, mirror, engine)
        draw = Random(name)
        for _ in range(6):
            start = draw.choice([100, 200, 300])
            await ask(client, [*range(start, start + 12), *range(draw.randint(400, 402), 420)])
        await mirror.until(lambda: mirror.cursor.last == engine.feed.last - 1 + first_of(name))

        assert mirror.blocks == held_by(engine.engine.cache)
        assert mirror.cursor.complete
        assert {"restart", "apply"} == set(mirror.verdicts)
        assert any(isinstance(event, KvBlocksRemoved) for batch in mirror.batches for event in batch.events)
        assert {event.tier for batch in mirror.batches for event in batch.events} == {"device"}
        call.cancel()
        await client.close()
        assert mirror.ends == []


@pytest.mark.anyio
async def test_a_lost_batch_is_found_and_what_is_known_again_is_right(
    name: str, way: Callable[[Target], Transport]
) -> None:
    async with SimulatedEngine(SimulatorConfig(block_size=SIZE, faults=(None, Fault("gap")))) as engine:
        client, mirror = client_of(engine, name, way), Mirror(first_of(name))
        call = await subscribed(client, mirror, engine)
        for start in (100, 200, 300):
            await ask(client, range(start, start + 9))
        await mirror.until(lambda: "lost" in mirror.verdicts)
        call.cancel()

        assert mirror.cursor.last == first_of(name)
        again = Mirror(first_of(name), blocks=mirror.blocks)
        again.cursor = KvCursor(mirror.cursor.last, complete=mirror.cursor.complete)
        await subscribed(client, again, engine, after=mirror.cursor.last)
        if name == "neutral":  # which goes on from where the subscriber was
            await again.until(lambda: again.cursor.last == 3)
            assert (again.verdicts, again.cursor.complete) == (["apply", "apply"], True)
            assert again.blocks == held_by(engine.engine.cache)
        else:  # 0 means "from now on" to the others: what they send next does not follow
            await ask(client, range(400, 409))
            await again.until(lambda: bool(again.verdicts))
            assert again.verdicts == ["lost"]
        await client.close()


@pytest.mark.anyio
async def test_a_cursor_that_an_engine_cannot_continue_from_is_refused_so_that_it_can_be_told(
    name: str, way: Callable[[Target], Transport]
) -> None:
    async with SimulatedEngine() as engine:
        client, mirror = client_of(engine, name, way), Mirror()
        await subscribed(client, mirror, engine, after=900)
        await mirror.until(lambda: bool(mirror.ends))
        await client.close()

        (error,) = mirror.ends
        assert error is not None
        assert cursor_refused(error)
        assert not not_offered(error)


@pytest.mark.anyio
async def test_an_engine_that_goes_away_closes_the_subscription(name: str) -> None:
    async with SimulatedEngine() as engine:
        client, mirror = client_of(engine, name), Mirror()
        await subscribed(client, mirror, engine)
        await engine.stop()
        await mirror.until(lambda: bool(mirror.ends))
        await client.close()

        assert [isinstance(error, WorkerGone) for error in mirror.ends] == [True]


@pytest.mark.anyio
async def test_a_dialect_without_kv_events_says_so() -> None:
    async with SimulatedEngine() as engine:
        for other in sorted(set(DIALECTS) - set(PUBLISHING)):
            client = client_of(engine, other)
            assert await client.subscribe_kv_events(Mirror()) is None
            assert not client.codec.facts.kv_events
            await client.close()


@pytest.mark.anyio
@pytest.mark.parametrize("kept", [1024, 2])
async def test_a_servicer_that_remembers_tells_a_newcomer_all_that_the_cache_holds(kept: int) -> None:
    config = SimulatorConfig(vllm_servicer="rust", block_size=SIZE, kv_batches=kept)
    async with SimulatedEngine(config) as engine:
        client, mirror = client_of(engine, "vllm"), Mirror()
        for start in (100, 200, 300, 400):
            await ask(client, range(start, start + 9))
        await subscribed(client, mirror, engine)
        await ask(client, range(500, 509))
        await mirror.until(lambda: mirror.cursor.last == engine.feed.last - 1)
        await client.close()

        assert mirror.blocks == held_by(engine.engine.cache)
        assert mirror.cursor.complete
        assert (mirror.batches[0].snapshot is not None) == (kept == 2)


# --------------------------------------------------------------------------------------------- from cache to record and back


changes = st.lists(
    st.one_of(
        st.lists(st.integers(0, 2), min_size=SIZE, max_size=40),
        st.just("clear"),
    ),
    max_size=12,
)


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("dialect_name", PUBLISHING)
@given(changes=changes, capacity=st.integers(2, 8))
def test_what_a_cache_does_is_read_as_it_was_meant(dialect_name: str, changes: list, capacity: int) -> None:
    codec = CODECS[dialect_name]
    served, asked = SERVED[codec.generate_path.split("/")[1]], codec.kv_events(None)
    assert asked is not None
    cache, feed, mirror = PrefixCache(SIZE, capacity), KvFeed(100), Mirror(first_of(dialect_name))
    for change in changes:
        feed.publish(cache.clear() if change == "clear" else cache.store(change), 5.0)
    for batch in feed.after(0):
        mirror.push(list(asked.parse(served.kv_batch(batch))))  # type: ignore[attr-defined]

    assert mirror.blocks == held_by(cache)
    assert mirror.cursor.complete == bool(feed.last)
    assert [batch.moment for batch in mirror.batches] == [5.0] * feed.last


@st.composite
def small_events(draw: st.DrawFn) -> common.KvEventBatch:
    """Events of a block or two, most of them behind the one before, and unlike now and then."""
    told = common.KvEventBatch(sequence_number=9)
    last, rarely = 0, st.sampled_from([0] * 9 + [1])
    for number in range(1, draw(st.integers(1, 40))):
        if draw(rarely):
            event = told.events.add()
            if draw(rarely):
                event.cleared.SetInParent()
            else:
                event.removed.block_hashes.append(last)
            continue
        stored = told.events.add().stored
        if not draw(rarely):
            stored.parent_block_hash = last + draw(rarely)
        stored.lora_name = "a" * draw(rarely)
        stored.group_idx = draw(rarely)
        stored.tier = draw(rarely)
        for _ in range(1 + draw(rarely)):
            size = 1 + draw(rarely)
            block = stored.blocks.add(block_hash=(last := 10 * number), block_size=size, cache_level=draw(rarely))
            block.token_ids.extend(range(size - draw(rarely)))
            if draw(rarely):
                block.extra_keys.add().text = "salt"
    return told


def by_block(events: Iterator[KvEvent]) -> list[object]:
    """What events say of each block, however they are put together."""
    found: list[object] = []
    for event in events:
        if not isinstance(event, KvBlocksStored):
            found.append(event)
            continue
        parents, size = [event.parent, *event.hashes], event.block_size
        found += [
            (
                *(parents[at], each, list(event.token_ids[at * size : (at + 1) * size]), size, event.lora, event.salt),
                *(event.tier, event.remote, event.group, event.attention, event.owner),
                [text for block, text in event.other_keys if block == at],
            )
            for at, each in enumerate(event.hashes)
        ]
    return found


@given(told=small_events())
def test_events_of_one_block_that_are_joined_say_what_each_says_by_itself(told: common.KvEventBatch) -> None:
    parse = kv_events_call("x", None).parse
    together = [event for part in parse(told.SerializeToString()) for event in part.events]
    apart = [
        event
        for each in told.events
        for part in parse(common.KvEventBatch(sequence_number=9, events=[each]).SerializeToString())
        for event in part.events
    ]

    assert by_block(iter(together)) == by_block(iter(apart))


def test_a_chain_of_blocks_that_an_engine_tells_of_one_by_one_is_few_events() -> None:
    told = common.KvEventBatch(sequence_number=9)
    for number in range(1, 2 * PART + 1):
        stored = told.events.add().stored
        stored.parent_block_hash = number - 1
        stored.blocks.add(block_hash=number, block_size=1, token_ids=[number])
    events = [event for part in kv_events_call("x", None).parse(told.SerializeToString()) for event in part.events]

    assert [len(event.hashes) for event in events if isinstance(event, KvBlocksStored)] == [PART, PART]


@given(count=st.integers(1, 3 * PART), named=st.lists(st.integers(0, PART), max_size=8))
def test_a_batch_is_cut_into_parts_that_are_short_and_lose_nothing(count: int, named: list[int]) -> None:
    block = common.KvBlock(block_hash=1, token_ids=[7] * 3, block_size=3)
    told = common.KvEventBatch(sequence_number=9, dp_rank=2)
    told.events.add().stored.blocks.extend([block] * count)
    for each in named:
        told.events.add().removed.block_hashes.extend(range(each))
    parts = list(kv_events_call("x", None).parse(told.SerializeToString()))
    events = [event for part in parts for event in part.events]

    assert all(sum(size(event) for event in part.events) <= PART for part in parts)
    assert [part.more for part in parts] == [True] * (len(parts) - 1) + [False]
    assert {(part.sequence, part.rank) for part in parts} == {(9, 2)}
    stored = [event for event in events if isinstance(event, KvBlocksStored)]
    assert sum(len(event.token_ids) for event in stored) == 3 * count
    assert [event.parent for event in stored] == [None] + [1] * (len(stored) - 1)
    gone = [digest for event in events if isinstance(event, KvBlocksRemoved) for digest in event.hashes]
    assert gone == [digest for each in named for digest in range(each)]
    cursor = KvCursor(8)
    assert {cursor.take(part) for part in parts} == {"apply"}


# --------------------------------------------------------------------------------------------------------- what may be missing


def batch(sequence: int, *, events: int = 1, **more: object) -> KvEventBatch:
    return KvEventBatch(sequence, tuple(KvBlocksRemoved([at]) for at in range(events)), **more)  # type: ignore[arg-type]


def part(sequence: int, index: int, count: int, missed: int = 0) -> KvEventBatch:
    return batch(sequence, snapshot=KvSnapshot(index, count, 10, missed))


LOAD = KvEventBatch(4, load_only=True)
TAKEN: dict[str, tuple[int | None, list[KvEventBatch], list[str], bool]] = {
    "from the engine's first batch": (None, [batch(0), batch(1)], ["restart", "apply"], True),
    "from the midst of its life": (None, [batch(7), batch(8)], ["restart", "apply"], False),
    "from the midst, then cleared": (
        None,
        [batch(7), KvEventBatch(8, (KvCacheCleared(),))],
        ["restart", "apply"],
        True,
    ),
    "cleared of what another owns": (None, [KvEventBatch(7, (KvCacheCleared("agent"),))], ["restart"], False),
    "one is missing": (3, [batch(4), batch(6)], ["apply", "lost"], False),
    "the numbers went back": (3, [batch(4), batch(2)], ["apply", "lost"], False),
    "one came twice": (3, [batch(4), batch(4), batch(5)], ["apply", "repeated", "apply"], False),
    "loads between": (3, [batch(4), LOAD, batch(5)], ["apply", "nothing", "apply"], False),
    "a load shows that one is missing": (3, [LOAD], ["lost"], False),
    "a load before all": (None, [LOAD, batch(9)], ["nothing", "restart"], False),
    "parts of one batch": (3, [batch(4, more=True), batch(4), batch(4)], ["apply", "apply", "repeated"], False),
    "a snapshot": (None, [part(4, 0, 2), part(5, 1, 2), batch(6)], ["restart", "apply", "apply"], True),
    "a snapshot that is no whole life": (None, [part(4, 0, 1, 3), batch(5)], ["restart", "apply"], False),
    "a snapshot with a hole": (None, [part(4, 0, 3), part(6, 2, 3)], ["restart", "lost"], False),
    "a snapshot that breaks off": (None, [part(4, 0, 2), batch(5)], ["restart", "lost"], False),
    "a snapshot without its beginning": (3, [part(4, 1, 2)], ["lost"], False),
    "a snapshot amid the rest": (3, [batch(4), part(9, 0, 1), batch(10)], ["apply", "restart", "apply"], True),
}


@pytest.mark.parametrize("case", TAKEN)
def test_the_numbers_tell_what_to_do_with_a_batch(case: str) -> None:
    after, batches, verdicts, complete = TAKEN[case]
    cursor = KvCursor(after)

    assert [cursor.take(each) for each in batches] == verdicts
    assert cursor.complete == complete


# ------------------------------------------------------------------------------------------------------- slice by slice


class Tap:
    """The transport's side of a call."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def cancel(self) -> None:
        self.told.append("cancel")

    def pause(self) -> None:
        self.told.append("pause")

    def resume(self) -> None:
        self.told.append("resume")


def long_message(blocks: int) -> bytes:
    block = common.KvBlock(block_hash=1, token_ids=[7], block_size=1)
    told = common.KvEventBatch(sequence_number=1)
    told.events.add().stored.blocks.extend([block] * blocks)
    return bytes(told.SerializeToString())


def reader() -> tuple[KvReader, Mirror, Tap]:
    mirror, tap = Mirror(1), Tap()
    made = KvReader(kv_events_call("x", None).parse, mirror)
    made.attach(tap)
    return made, mirror, tap


@pytest.mark.anyio
async def test_a_flood_is_read_in_slices_while_the_engine_waits() -> None:
    kv, mirror, tap = reader()
    kv.messages([long_message(PART * 5)])
    assert (mirror.pushes, tap.told) == ([PART], ["pause"])
    kv.messages([long_message(3)])
    kv.closed(None)
    await mirror.until(lambda: bool(mirror.ends))

    assert max(mirror.pushes) <= 2 * PART
    assert sum(mirror.pushes) == PART * 5 + 3
    assert mirror.ends == [None]


@pytest.mark.anyio
async def test_the_engine_is_read_again_once_what_came_is_taken() -> None:
    kv, mirror, tap = reader()
    kv.messages([long_message(PART * 2)])
    async with asyncio.timeout(PATIENCE):
        while tap.told != ["pause", "resume"]:
            await asyncio.sleep(0)
    assert sum(mirror.pushes) == PART * 2


@pytest.mark.anyio
async def test_a_sink_that_pauses_gets_nothing_until_it_goes_on() -> None:
    kv, mirror, tap = reader()
    kv.pause()
    kv.messages([long_message(3)])
    kv.closed(None)
    assert (mirror.pushes, mirror.ends, tap.told) == ([], [], ["pause"])
    kv.resume()
    await mirror.until(lambda: bool(mirror.ends))
    assert (mirror.pushes, mirror.ends) == ([3], [None])


@pytest.mark.anyio
async def test_what_cannot_be_read_ends_the_subscription_behind_what_could() -> None:
    kv, mirror, tap = reader()
    kv.messages([long_message(3), b"\xff\xff\xff"])
    kv.messages([long_message(3)])
    kv.closed(None)

    assert mirror.pushes == [3]
    assert [type(each) for each in mirror.ends] == [EngineGarbled]
    assert tap.told == ["cancel"]


@pytest.mark.anyio
async def test_after_a_cancel_nothing_comes() -> None:
    kv, mirror, tap = reader()
    kv.messages([long_message(PART * 3)])
    kv.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    kv.closed(None)

    assert (len(mirror.pushes), mirror.ends, tap.told[-1]) == (1, [], "cancel")


# ------------------------------------------------------------------------------------------------------ what real engines sent


def captured(engine: str) -> Iterator[bytes]:
    """The batches of a subscription to a real engine."""
    text = (CAPTURES / engine / f"{engine}-SubscribeKvEvents.txt").read_text()
    for block in re.split(r"\n(?=(?:===|---|#) ?)", text):
        head, _, body = block.partition("\n")
        if "KvEventBatch [live]" in head:
            lines = "\n".join(line for line in body.splitlines() if line.startswith(" "))
            yield text_format.Parse(lines, common.KvEventBatch()).SerializeToString()


@pytest.mark.parametrize(("engine", "block"), [("vllm", 32), ("sglang", 16)])
def test_what_a_real_engine_sends_is_read_without_a_gap(engine: str, block: int) -> None:
    mirror = Mirror()
    read = kv_events_call("x", None).parse
    mirror.push([each for message in captured(engine) for each in read(message)])

    stored = [event for each in mirror.batches for event in each.events if isinstance(event, KvBlocksStored)]
    assert set(mirror.verdicts) == {"restart", "apply", "nothing"}
    assert mirror.verdicts[0] == "restart"
    assert mirror.cursor.complete  # the cache was flushed on the way
    assert {event.block_size for event in stored} == {block}
    assert all(len(event.token_ids) == block * len(event.hashes) for event in stored)
    assert {(event.tier, event.remote, event.lora, event.salt) for event in stored} == {("device", False, "", "")}
    loads = [each.load for each in mirror.batches if each.load is not None]
    assert {load.max_running for load in loads} == {16}


def test_older_servicers_words_for_a_tier_and_other_keys_are_read() -> None:
    told = common.KvEventBatch(sequence_number=1)
    stored = told.events.add().stored
    stored.lora_name, stored.cache_salt = "poet", "s"
    one = stored.blocks.add(block_hash=1, token_ids=[1, 2], block_size=2, cache_level=1)
    one.extra_keys.add(text="poet")
    one.extra_keys.add(text="s")
    one.extra_keys.add(text="else")
    one.extra_keys.add(blob=b"\x01\xff")
    one.extra_keys.add(number=7)
    one.extra_keys.add(multimodal=common.KvMultimodalKey(identifier="cat", offset=-3))
    stored.blocks.add(block_hash=2, block_size=2, cache_level=1)  # whose tokens are not told
    told.events.add().removed.block_hashes.append(1)
    told.events[1].removed.cache_level = 0
    told.events.add()  # of a kind that is not known yet
    (read,) = kv_events_call("x", None).parse(told.SerializeToString())
    first, second, removed = read.events

    assert isinstance(first, KvBlocksStored)
    assert isinstance(second, KvBlocksStored)
    assert (first.lora, first.salt, first.tier) == ("poet", "s", "host")
    assert first.other_keys == ((0, "else"), (0, "01ff"), (0, "7"))
    assert [(each.block, each.identifier, each.offset) for each in first.media] == [(0, "cat", -3)]
    assert (second.parent, list(second.token_ids), second.block_size) == (1, [], 2)
    assert isinstance(removed, KvBlocksRemoved)
    assert removed.tier == "device"


def test_a_batch_without_events_is_one_part() -> None:
    assert [each.more for each in cut(KvEventBatch(3), [])] == [False]


def test_a_feed_that_forgot_lists_the_cache_in_batches_that_lead_up_to_now() -> None:
    cache, feed = PrefixCache(1, 2000), KvFeed(3)
    for start in range(5):
        published: list[CacheChange] = cache.store(range(start * 1000, start * 1000 + 300))
        feed.publish(published, 0.0)
    listed: list[Batch] = feed.state(cache.held(), 1.0)

    assert [batch.sequence for batch in listed] == [1, 2, 3, 4, 5]
    assert [batch.part for batch in listed] == [(index, 5) for index in range(5)]
