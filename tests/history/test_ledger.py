"""The stores of the ledger: each keeps the same accounts, and answers the same questions of them."""

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest

from smg_core.channel.local import LocalChannel
from smg_core.history.settings import HistoryConfig
from smg_core.hooks import SilentObserver
from smg_core.ledger.accounts import HOUR_S, Account, Amounts
from smg_core.ledger.keeping import Ledger
from smg_core.ledger.opening import ledger_store
from smg_core.ledger.queries import UsageQuery
from smg_core.ledger.settings import LedgerConfig
from smg_core.testing import FakeClock
from smg_core.usage_report import UsageReport

pytestmark = pytest.mark.anyio

NOON = 1_700_049_600 // HOUR_S
ALICE = Account(NOON, "acme", "search", "one", "alice", "sim", "chat", "w1", "vllm")
BOB = ALICE._replace(user="bob")
ONE = Amounts(1, 0, 0, 10, 4, 0, 5, 2, money=70)
ALL = UsageQuery((0, 10**6))
NUMBERS = count()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgresql"))
    return f"sqlite:///{tmp_path}/accounts.db" if request.param == "sqlite" else "memory:"


@pytest.fixture
async def ledger(url: str) -> AsyncIterator[Ledger]:
    settings = LedgerConfig(url=url, write_s=3600.0, users="plain")
    store = ledger_store(settings, HistoryConfig(prefix=f"t{next(NUMBERS)}_"))
    ledger = Ledger(store, settings, FakeClock(epoch=NOON * HOUR_S), SilentObserver(), LocalChannel())
    async with ledger.opened():
        yield ledger


def sums(report: UsageReport) -> list[tuple[int, int, str]]:
    return [(row.requests, row.prompt_tokens, row.cost_usd) for row in report.data]


async def test_what_was_added_is_read_back_apart_by_what_is_asked_for(ledger: Ledger) -> None:
    for account in (ALICE, BOB, ALICE, ALICE._replace(hour=NOON + 1), ALICE._replace(tenant="other")):
        ledger.add(account, ONE)
    whole = await ledger.read(ALL)
    users = await ledger.read(UsageQuery((0, 10**6), by=("user",), only=(("tenant", "acme"),)))
    hours = await ledger.read(UsageQuery((NOON, NOON + 2), None))
    steps = await ledger.read(UsageQuery((NOON, NOON + 2), ((NOON, NOON + 1), (NOON + 1, NOON + 2)), limit=1))
    rest = await ledger.read(UsageQuery((NOON, NOON + 2), ((NOON, NOON + 1), (NOON + 1, NOON + 2)), after=1))

    assert sums(whole) == [(5, 50, "0.000350")]
    assert [(row.user, row.requests) for row in users.data] == [("alice", 3), ("bob", 1)]
    assert [row.requests for row in hours.data] == [4, 1]
    assert next((row.start, row.end) for row in hours.data) == ("2023-11-15T12:00:00Z", "2023-11-15T13:00:00Z")
    assert steps.has_more
    assert steps.next_after == 1
    assert [row.requests for row in steps.data] == [4]
    assert [row.requests for row in rest.data] == [1]


async def test_a_user_is_forgotten_and_the_sums_stay(ledger: Ledger) -> None:
    for account in (ALICE, BOB, ALICE._replace(user=""), ALICE._replace(tenant="other")):
        ledger.add(account, ONE)
    await ledger.forget("acme", "alice")
    users = await ledger.read(UsageQuery((0, 10**6), by=("tenant", "user")))
    await ledger.forget("acme", None)
    left = await ledger.read(UsageQuery((0, 10**6), by=("tenant",)))

    assert [(row.tenant, row.user, row.requests) for row in users.data] == [
        ("acme", "", 2),
        ("acme", "bob", 1),
        ("other", "alice", 1),
    ]
    assert [row.tenant for row in left.data] == ["other"]
