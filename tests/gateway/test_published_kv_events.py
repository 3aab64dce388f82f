"""Engines that publish their KV events on ZeroMQ: their caches are known exactly, losses are repaired, and nothing that they send
does harm."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
from tests.gateway.conftest import House, eventually
from tests.gateway.fleet import CALM, fleet, joined
from tests.gateway.test_kv_listening import LONG, Heard, asked, asked_elsewhere
from tests.shared import PATIENCE

from smg_core import Config
from smg_core.engines.kv_zmq import subscriber
from smg_core.engines.kv_zmq.messages import END_OF_REPLAY
from smg_core.engines.kv_zmq.subscriber import KvAddress, KvSubscriber
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import SmgError
from smg_core.fleet.connect import Reaching
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import WorkerSpec
from smg_simulator.engine.kv_feed import KvFeed
from smg_simulator.server.grpc_server import SimulatedEngine
from smg_simulator.server.kv_publisher import KvPublisher
from smg_simulator.server.published_events import EventLayout

pytest.importorskip("zmq", reason="needs the extra kv-events")
pytestmark = pytest.mark.anyio

NOTHING = b"\x92\xcb" + b"\x00" * 8 + b"\x90"
"""A batch without events: its time, and a list."""
QUICK = attrs.evolve(
    CALM,
    workers=WorkersConfig(health_interval_s=3600.0, join_interval_s=0.05),
    engines=EnginesConfig(kv_events_bytes=100_000, kv_replay_s=5.0),
)


@attrs.define
class Site:
    """A gateway before one engine, and what the engine publishes."""

    house: House
    heard: Heard
    publisher: KvPublisher

    async def known(self, times: int = 1) -> None:
        """All that the engine holds was told so often."""
        await eventually(lambda: self.heard.known.count(("own", 0, "all")) >= times)

    async def ask(self, text: str = LONG) -> None:
        await asked_elsewhere(self.house, 0, "vllm", text=text)


@asynccontextmanager
async def site(
    layout: EventLayout = "map", *, replay: bool = True, topic: str = "", config: Config = QUICK
) -> AsyncIterator[Site]:
    heard = Heard()
    async with (
        fleet(config=config, policy=heard) as empty,
        SimulatedEngine() as engine,
        KvPublisher(engine.feed, layout, topic=topic) as publisher,
    ):
        spec = WorkerSpec(
            engine.target,
            name="own",
            dialect="vllm",
            kv_events=publisher.events,
            kv_events_replay=publisher.replay if replay else "",
            kv_events_topic=topic,
        )
        await joined(empty.gateway, empty.gateway.add_worker(spec).name)
        if replay:
            await eventually(lambda: publisher.replays)
        house = attrs.evolve(empty, own=(engine,))
        yield Site(house, heard, publisher)
        await empty.gateway.remove_worker("own")


@pytest.mark.parametrize("layout", ["array", "map", "bytes", "first"])
async def test_a_prompt_that_another_gateway_sent_is_known_exactly_in_every_layout(layout: EventLayout) -> None:
    async with site(layout) as here:
        await here.ask()
        await here.known()
        decision = await asked(here.house)

    assert decision.basis == "exact"
    assert decision.cached == decision.prompt_tokens // 64 * 64
    assert here.house.own[0].counters["subscribers"] == 0  # it was not asked over gRPC


async def test_what_was_published_before_the_gateway_came_is_sent_again() -> None:
    async with site(topic="kv-events") as here:
        await here.ask()
        await here.known()
        await here.house.gateway.remove_worker("own")
        here.heard.known.clear()
        spec = WorkerSpec(
            here.house.own[0].target,
            name="own",
            dialect="vllm",
            kv_events=here.publisher.events,
            kv_events_replay=here.publisher.replay,
            kv_events_topic="kv-events",
        )
        await joined(here.house.gateway, here.house.gateway.add_worker(spec).name)
        await here.known()

        assert (await asked(here.house)).basis == "exact"


async def test_a_batch_that_was_missed_is_asked_for_again() -> None:
    async with site() as here:
        await here.ask()
        await here.known()
        here.publisher.lost = {here.publisher.number}
        await here.ask("x" + LONG)
        before = here.publisher.replays
        await here.ask("y" + LONG)
        await eventually(lambda: here.publisher.replays > before)
        await eventually(lambda: len(here.heard.changes) >= here.publisher.number)
        decision = await asked(here.house, "x" + LONG)

    assert (decision.basis, decision.cached > 0) == ("exact", True)
    assert here.heard.known == [("own", 0, "nothing"), ("own", 0, "all")]  # of the first batch


@pytest.mark.full
async def test_a_batch_that_was_sent_again_before_it_came_is_no_new_beginning() -> None:
    async with site() as here:
        await here.ask()
        await here.known()
        before, first = here.publisher.replays, here.publisher.number
        here.publisher.lost, here.publisher.late = {first}, {first + 2, first + 3}
        for _ in range(3):
            here.publisher.send(NOTHING)
        await eventually(lambda: here.publisher.replays > before)
        await here.ask("x" + LONG)
        changes = len(here.heard.changes)
        here.publisher.tell_late()
        await eventually(lambda: len(here.heard.changes) > changes)
        decision = await asked(here.house, "x" + LONG)

    assert (decision.basis, decision.cached > 0) == ("exact", True)
    assert here.heard.known == [("own", 0, "nothing"), ("own", 0, "all")]  # of the first batch


async def test_where_nothing_is_sent_again_a_gap_makes_all_that_was_known_void() -> None:
    async with site(replay=False) as here:
        await eventually(lambda: here.house.gateway.registry.get("own") is not None)
        told = 0
        while not here.heard.changes:  # who has just subscribed hears nothing of what was before
            await here.ask(f"{told} {LONG}")
            told += 1
        here.publisher.lost = {here.publisher.number}
        await here.ask("x" + LONG)
        while ("own", 0, "nothing") not in here.heard.known[2:]:  # who subscribes anew misses what comes meanwhile
            told += 1
            await here.ask(f"y{told} {LONG}")
        decision = await asked(here.house, f"{told - 1} {LONG}")

    assert decision.basis == "approximate"
    assert decision.cached == 0
    assert ("own", 0, "all") not in here.heard.known[3:]


async def test_an_engine_that_begins_anew_has_nothing_of_before() -> None:
    async with site() as here:
        await here.ask()
        await here.ask("w" + LONG)
        await here.known()
        await eventually(lambda: len(here.heard.changes) >= 2)
        here.publisher.begin_anew()
        await here.ask("x" + LONG)
        await here.known(2)
        old, new = await asked(here.house), await asked(here.house, "x" + LONG)

    assert ("own", 0, "nothing") in here.heard.known
    assert (old.cached, new.cached > 0) == (0, True)


HOSTILE = {
    "no MessagePack": b"\xc1" * 50,
    "nothing": b"",
    "deep": b"\x91" * 50_000,
    "too large": b"\x00" * 200_000,
    "too many": b"\x92\x00\xdc" + (20_000).to_bytes(2, "big") + b"\x91\xa1x" * 20_000,
}


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("payload", HOSTILE.values(), ids=HOSTILE)
async def test_what_a_hostile_engine_publishes_costs_it_being_known_and_nobody_else_anything(payload: bytes) -> None:
    async with site() as here:
        await here.ask()
        await here.known()
        here.publisher.send(payload)

        def noticed() -> bool:
            here.publisher.send(b"\x92\x00\x90")  # a batch without events
            return here.heard.known[-1] != ("own", 0, "all")

        await eventually(noticed)
        decision = await asked(here.house, "z" + LONG)

    assert decision.worker == "own"


# --------------------------------------------------------------------------------------------------------- the addresses


@pytest.mark.parametrize(
    "address",
    ["gpu-0:5557", "http://gpu-0:5557", "tcp://gpu-0", "tcp://*:5557", "tcp://:5557", "tcp://gpu-0:x", "tcp://gpu-0:70000",
     "tcp://gpu-0:5557/path", "inproc://cache", "ipc://"],
)  # fmt: skip
def test_an_address_that_cannot_be_one_stops_the_start_and_names_the_setting(address: str) -> None:
    for field in ("kv_events", "kv_events_replay"):
        given = {"kv_events": "tcp://gpu-0:5557", field: address}
        with pytest.raises(ValueError, match=f"{field} is no address"):
            Reaching(Config()).check(WorkerSpec("grpc://gpu-0:50051", **given))


def test_a_worker_that_publishes_is_refused_where_the_extra_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriber, "find_spec", lambda name: None)
    Reaching(Config()).check(WorkerSpec("grpc://gpu-0:50051"))
    with pytest.raises(ValueError, match=r"pip install 'smg-.*\[kv-events\]'"):
        Reaching(Config()).check(WorkerSpec("grpc://gpu-0:50051", kv_events="tcp://gpu-0:5557"))


def test_each_rank_of_an_engine_publishes_on_the_next_port() -> None:
    address = KvAddress("tcp://[::1]:5557", "tcp://gpu-0:6000", "t")

    assert address.of_rank(0) == address
    assert address.of_rank(3) == KvAddress("tcp://[::1]:5560", "tcp://gpu-0:6003", "t")


class Repeating(KvPublisher):
    """Sends all that it has, whatever number it is asked to begin with."""

    async def _answer(self) -> None:
        while True:
            client, _, _ = await self._router.recv_multipart()
            for number, payload in [*self._kept, (END_OF_REPLAY, b"")]:
                await self._router.send_multipart([client, b"", number.to_bytes(8, "big"), payload])


@attrs.define
class Taken:
    """A sink that counts batches."""

    count: int = 0

    def push(self, batches: Any) -> None:
        self.count += len(batches)

    def closed(self, error: SmgError | None) -> None:
        raise AssertionError(error)


@pytest.mark.parametrize("told", ["new", "sent again and late", "before what was asked for"])
async def test_messages_that_wait_are_read_with_turns_of_the_event_loop_between_them_whatever_they_are(
    monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    read, turns, sink = 0, [], Taken()

    def counted(frames: list[bytes]) -> tuple[int, bytes]:
        nonlocal read
        read += 1
        return message(frames)

    async def turn_until(messages: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while read < messages:
                before = read
                await asyncio.sleep(0)
                turns.append(read - before)

    message = subscriber._message
    monkeypatch.setattr(subscriber, "_message", counted)
    known = 199 if told == "before what was asked for" else None
    async with (KvPublisher if known is None else Repeating)(KvFeed(10)) as publisher:
        publisher.late = set(range(200))
        for _ in range(200):
            publisher.send(NOTHING)
        address = KvAddress(publisher.events, publisher.replay)
        call = await KvSubscriber(address, range(1), EnginesConfig()).subscribe_kv_events(sink, after=known)
        await turn_until(201)
        if told == "sent again and late":
            publisher.tell_late()
            await turn_until(401)
        assert call is not None
        call.cancel()

    assert max(turns) <= 2
    assert sink.count == (200 if known is None else 0)
