"""The ledger of a gateway: whatever the end of a request, the accounts have what its answer's usage says, once."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.ledger.test_ledger import Faulty
from tests.gateway.conftest import CHAT, JSON, House, body, eventually, in_process, over_http
from tests.gateway.fleet import Member, fleet
from tests.gateway.test_embeddings import MODEL
from tests.gateway.test_limits_held import ACME, EACH, HELLO, OTHER, SIMULATOR, SLOW, by_bearer
from tests.gateway.test_model_choice import member
from tests.shared import PATIENCE
from websockets.asyncio.client import connect

from smg_core import Config
from smg_core.app.app import App
from smg_core.app.inprocess import async_client
from smg_core.clock import SystemClock
from smg_core.errors import StoreFailed
from smg_core.hooks import RequestFinished
from smg_core.http.settings import BatchesConfig, ResponsesConfig, ServerConfig
from smg_core.ledger.accounts import HOUR_S
from smg_core.ledger.queries import UsageQuery
from smg_core.ledger.settings import LedgerConfig
from smg_core.routing.settings import RoutingConfig
from smg_core.usage_report import UsageRow
from smg_core.wire.settings import LimitsConfig
from smg_simulator.answers.faults import Fault
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

QUICKLY = ResponsesConfig(poll_s=0.02, lease_s=0.4, batch_s=0.01)
PACED = SimulatorConfig(seed=1, reply_tokens=12, timing=Timing(decode_rate=2000))


def kept(*, url: str | None = "memory:", users: Any = "hashed", **settings: Any) -> Config:
    """Settings with a ledger that is written when it is read."""
    ledger = LedgerConfig(enabled=True, url=url, write_s=3600.0, users=users)
    return Config(ledger=ledger, server=ServerConfig(allowed_hosts=("*",)), **settings)


@asynccontextmanager
async def keeping(simulator: SimulatorConfig = SIMULATOR, **settings: Any) -> AsyncIterator[House]:
    """A gateway with a ledger, whose callers say who they are."""
    async with (
        in_process(simulator, config=kept(**settings)) as house,
        async_client(App(house.gateway, by_bearer), httpx, base_url="http://gateway", headers={**JSON, **ACME}) as http,
    ):
        yield House(house.gateway, http, house.observer)


async def accounts(house: House, *by: str) -> list[UsageRow]:
    ledger = house.gateway.services.running.ledger
    assert ledger is not None
    return (await ledger.read(UsageQuery((0, 10**7), by=by))).data


async def agrees(house: House, requests: int) -> UsageRow:
    """The sum of all accounts, which is that of the usage of as many requests as were told of."""
    await eventually(lambda: not house.gateway.in_flight)
    done = [each for each in house.observer.of(RequestFinished) if each.model]
    (row,) = await accounts(house)
    assert row.requests == requests
    assert row.prompt_tokens == sum(each.prompt_tokens for each in done)
    assert row.completion_tokens == sum(each.completion_tokens for each in done)
    assert row.cached_tokens == sum(each.cached_tokens for each in done)
    return row


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", EACH)
async def test_an_account_has_what_the_answer_says_it_used(path: str, stream: bool) -> None:
    asked = dict(EACH[path])
    if stream and path.startswith("/v1beta"):
        path = path.replace("generateContent", "streamGenerateContent")
    elif stream and path != "/v1/embeddings":
        asked["stream"] = True
    async with keeping(MODEL if path == "/v1/embeddings" else SIMULATOR) as house:
        answer = await house.http.post(path, json=asked)
        row = await agrees(house, 1)
        (apart,) = await accounts(house, "tenant", "key", "model", "api", "worker", "provider")

    assert answer.status_code == 200, answer.text
    assert (apart.tenant, apart.key, apart.model) == ("acme", "one", "sim")
    assert apart.worker
    assert apart.provider
    assert (row.failed_requests, row.unpriced_requests, row.cost_usd) == (0, 1, "0.000000")


@pytest.mark.parametrize(
    ("asked", "failed"),
    [({"model": "none", "messages": HELLO}, 1), ({"model": "sim", "messages": 3}, 0)],
)
async def test_what_is_refused_takes_nothing(asked: dict[str, Any], failed: int) -> None:
    async with keeping() as house:
        answer = await house.http.post(CHAT, json=asked)
        rows = await accounts(house, "model")

    assert 400 <= answer.status_code < 429
    assert [(row.model, row.requests, row.failed_requests, row.prompt_tokens) for row in rows] == [
        ("", 1, 1, 0)
    ] * failed


async def test_what_a_limit_refuses_is_in_no_account() -> None:
    async with keeping(limits=LimitsConfig(rules=("2 requests/day per=key",))) as house:
        statuses = [(await house.http.post(CHAT, json=body())).status_code for _ in range(4)]
        await agrees(house, 2)

    assert statuses == [200, 200, 429, 429]


async def test_clients_that_leave_at_any_time_are_in_the_accounts_with_what_came() -> None:
    async with keeping(SLOW) as house:
        for number in range(30):
            asking = asyncio.create_task(house.http.post(CHAT, json=body(stream=bool(number % 3))))
            for _ in range(number * 3):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        await eventually(lambda: not house.gateway.in_flight)
        told = [each for each in house.observer.of(RequestFinished) if each.model]

        row = await agrees(house, len(told))

    assert row.failed_requests == len(told)


@pytest.mark.parametrize("after", [0, 3])
async def test_a_request_that_is_tried_again_elsewhere_is_one_request(after: int) -> None:
    broken = SimulatorConfig(seed=1, reply_tokens=12, faults=(Fault("cut", after=after),))
    async with fleet(Member("one", engine=broken), Member("two", engine=SIMULATOR), config=kept()) as house:
        statuses = [(await house.http.post(CHAT, json=body())).status_code for _ in range(2)]
        await agrees(house, 2)

    assert statuses == [200, 200]


async def test_a_model_that_answers_instead_is_in_the_account() -> None:
    config = kept(routing=RoutingConfig(retries=0, fallbacks=("one=two",)))
    broken = member("one", faults=(Fault("error"),) * 32)
    async with fleet(broken, member("two"), config=config) as house:
        assert (await house.http.post(CHAT, json=body(model="one"))).status_code == 200
        await agrees(house, 1)

        assert [row.model for row in await accounts(house, "model")] == ["two"]


async def test_money_is_what_the_prices_say_and_batches_have_their_own(tmp_path: Path) -> None:
    prices = tmp_path / "prices.json"
    row = {"input": "1", "output": "2", "batch": {"input": "0.5", "output": "1"}}
    prices.write_text(json.dumps({"models": {"sim": row}}))
    batches = BatchesConfig(poll_s=0.02, lease_s=60.0, gather_s=0.005)
    line = {"method": "POST", "url": CHAT, "body": body()}
    async with over_http(SIMULATOR, config=kept(limits=LimitsConfig(prices=str(prices)), batches=batches)) as house:
        async with openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client:
            alone = await client.chat.completions.create(model="sim", messages=[{"role": "user", "content": "Hello"}])
            first = (await accounts(house))[0].cost_usd
            lines = "\n".join(json.dumps({**line, "custom_id": str(number)}) for number in range(3))
            file = await client.files.create(file=("in.jsonl", lines.encode()), purpose="batch")
            batch = await client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")  # type: ignore[arg-type]
            while batch.status != "completed":
                batch = await client.batches.retrieve(batch.id)
        row_of_all = await agrees(house, 4)

    assert alone.usage is not None
    used = alone.usage.prompt_tokens + 2 * alone.usage.completion_tokens
    assert first == f"0.{used:06}"
    read, written = row_of_all.prompt_tokens - alone.usage.prompt_tokens, row_of_all.completion_tokens
    halves = read + 2 * (written - alone.usage.completion_tokens)
    assert 0 <= int(row_of_all.cost_usd.replace(".", "")) - used - halves // 2 <= 3  # each is rounded up
    assert row_of_all.unpriced_requests == 0


@pytest.mark.full
async def test_an_answer_in_the_background_and_frames_of_a_websocket_are_requests() -> None:
    async with over_http(SIMULATOR, config=kept()) as house:
        async with openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client:
            made = await client.responses.create(model="sim", input="Hello", background=True)
            while made.status not in ("completed", "failed"):
                made = await client.responses.retrieve(made.id)
        await agrees(house, 1)
        async with connect(house.url.replace("http", "ws", 1) + "/v1/responses", proxy=None) as socket:
            for _ in range(2):
                await socket.send(json.dumps({"type": "response.create", "model": "sim", "input": "Hello"}))
                while json.loads(await socket.recv())["type"] not in ("response.completed", "response.incomplete"):
                    pass
        await agrees(house, 3)


ENDS = st.sampled_from(["", "", "leave", "refuse", "error", "cut", "store before", "store after"])
ASKS = st.tuples(st.sampled_from(sorted(set(EACH) - {"/v1/embeddings"})), st.booleans(), ENDS)


@pytest.mark.full
@settings(max_examples=6, deadline=None)
@given(st.lists(ASKS, min_size=8, max_size=16))
def test_the_accounts_are_the_sum_of_what_was_told_whatever_fails(asks: list[tuple[str, bool, str]]) -> None:
    async def one(house: House, path: str, stream: bool, end: str) -> None:
        asked = {**EACH[path], **({"stream": True} if stream and not path.startswith("/v1beta") else {})}
        if end in ("refuse", "error", "cut"):
            house.engine.inject(Fault(end, after=3) if end == "cut" else Fault(end))
        asking = asyncio.create_task(house.http.post(path, json=asked))
        if end == "leave":
            await eventually(lambda: house.engine.active or asking.done())
            asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await eventually(lambda: not house.gateway.in_flight)

    async def played() -> None:
        async with keeping(PACED) as house:
            ledger = house.gateway.services.running.ledger
            assert ledger is not None
            ledger._store = store = Faulty(ledger._store)
            for path, stream, end in asks:
                await one(house, path, stream, end)
                if end.startswith("store"):
                    store.faults.append(end.split()[1])
                with suppress(StoreFailed):
                    await ledger.flush()
            store.faults.clear()
            told = [each for each in house.observer.of(RequestFinished) if each.model]
            row = await agrees(house, len([each for each in told if each.attempts or each.status < 500]))
            assert row.failed_requests == sum(
                each.outcome != "ok" for each in told if each.attempts or each.status < 500
            )

    asyncio.run(played())


async def test_users_are_hashed_and_teams_are_those_of_the_limits() -> None:
    async with keeping(limits=LimitsConfig(teams=("acme:search=one",))) as house:
        for user in ("alice", "bob", "alice"):
            await house.http.post(CHAT, json=body(user=user))
        await house.http.post(CHAT, json=body(user="alice"), headers=OTHER)
        rows = await accounts(house, "tenant", "team", "user")

    assert sorted((row.tenant, row.team, row.requests) for row in rows) == [
        ("acme", "search", 1),
        ("acme", "search", 2),
        ("other", "", 1),
    ]
    assert len({row.user for row in rows}) == 3
    assert "alice" not in str(rows)


@pytest.mark.full
async def test_answers_in_the_background_that_wait_for_a_limit_are_requests_once_each() -> None:
    config = kept(limits=LimitsConfig(rules=("1 at-once",)), responses=QUICKLY)
    async with over_http(PACED, config=config) as house:
        async with openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client:
            asked = [client.responses.create(model="sim", input="Hello", background=True) for _ in range(4)]
            found = await asyncio.gather(*asked, return_exceptions=True)
            made = [each for each in found if not isinstance(each, BaseException)]
            async with asyncio.timeout(PATIENCE):
                for at, each in enumerate(made):
                    while made[at].status not in ("completed", "failed"):
                        made[at] = await client.responses.retrieve(each.id)
        await eventually(lambda: not house.gateway.in_flight)
        (row,) = await accounts(house)

    assert made
    assert (row.requests, row.failed_requests) == (len(made), 0)
    assert row.prompt_tokens + row.completion_tokens == sum(each.usage.total_tokens for each in made if each.usage)


class LateClock(SystemClock):
    """A clock that somebody sets forward."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


async def test_a_late_settlement_goes_to_the_hour_of_its_request() -> None:
    clock = LateClock()
    async with in_process(SLOW, config=kept(), clock=clock) as house:
        began = int(clock.time()) // HOUR_S
        asking = asyncio.create_task(house.http.post(CHAT, json=body(max_tokens=30)))
        await eventually(lambda: house.engine.active)
        clock.ahead = 2.0 * HOUR_S
        await asking
        ledger = house.gateway.services.running.ledger
        assert ledger is not None
        (row,) = (await ledger.read(UsageQuery((began - 1, began + 9), None))).data

    ends = datetime.fromisoformat(row.end).timestamp()
    assert ends - HOUR_S <= clock.time() - 2 * HOUR_S
    assert row.completion_tokens == 30


async def test_what_waits_is_written_when_a_gateway_stops(tmp_path: Path) -> None:
    path = tmp_path / "accounts.db"
    async with keeping(url=f"sqlite:///{path}") as house:
        await house.http.post(CHAT, json=body())

    with sqlite3.connect(path) as database:
        assert database.execute("SELECT SUM(requests) FROM smg_ledger").fetchone() == (1,)
