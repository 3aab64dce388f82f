"""What is told of the ledger: to a tenant of its own, at the admin door, by the command."""

import asyncio
import csv
import io
import json
import os
import signal
from pathlib import Path

import httpx
import pytest
from tests.gateway.conftest import CHAT, body
from tests.gateway.test_admin import opened
from tests.gateway.test_ledger import keeping
from tests.gateway.test_limits_held import OTHER
from tests.gateway.test_roster_processes import processes
from tests.gateway.test_serve import QUICK, serving
from tests.shared import PATIENCE

from smg_core.cli import main
from smg_core.commands.usage import _TABLE_AMOUNTS, _plain, _rendered, _write_table
from smg_core.ledger.accounts import Account
from smg_core.ledger.settings import LedgerConfig
from smg_core.usage_report import USAGE_AXES

pytestmark = pytest.mark.anyio

KEPT = LedgerConfig(enabled=True, url="memory:", write_s=3600.0)


async def test_a_tenant_sees_its_own_accounts_and_nothing_of_engines() -> None:
    async with keeping() as house:
        for headers in ({}, OTHER, OTHER):
            answer = await house.http.post(CHAT, json=body(user="alice"), headers=headers)
        used = answer.json()["usage"]
        own = (await house.http.get("/v1/usage", params={"by": "key,model"})).json()
        user = (await house.http.get("/v1/usage", params={"user": "alice"}, headers=OTHER)).json()
        nobody = (await house.http.get("/v1/usage", params={"user": "bob"})).json()
        wrong = [
            await house.http.get("/v1/usage", params=each)
            for each in ({"tenant": "other"}, {"by": "worker"}, {"by": "tenant"}, {"every": "year"}, {"limit": "9999"})
        ]

    (row,) = own["data"]
    assert (row["key"], row["model"], row["requests"], row["prompt_tokens"]) == ("one", "sim", 1, used["prompt_tokens"])
    assert "tenant" not in row
    assert user["data"][0]["requests"] == 2
    assert nobody["data"] == []
    assert [each.status_code for each in wrong] == [400] * 5
    assert [each.json()["error"]["param"] for each in wrong] == ["tenant", "by", "by", "every", "limit"]


@pytest.mark.full
async def test_without_a_ledger_the_routes_say_so() -> None:
    async with opened() as door:
        answers = [await door.house.http.get("/v1/usage"), await door.http.get("/admin/usage")]

    assert [each.status_code for each in answers] == [404, 404]
    assert all("ledger.enabled" in each.json()["error"]["message"] for each in answers)


@pytest.mark.full
async def test_the_admin_door_tells_of_all_and_forgets_whom_it_is_told_to() -> None:
    async with opened(ledger=KEPT) as door:
        for user in ("alice", "bob"):
            await door.house.http.post(CHAT, json=body(user=user))
        every = (await door.http.get("/admin/usage", params={"by": "user,worker,provider"})).json()
        unknown = [
            await door.http.get("/admin/usage", params={"user": "alice"}),
            await door.http.delete("/admin/usage"),
            await door.http.delete("/admin/usage", params={"tenant": "", "user": ""}),
            await door.http.delete("/admin/usage", params={"tenant": "", "usr": "alice"}),
        ]
        forgotten = await door.http.delete("/admin/usage", params={"tenant": "", "user": "alice"})
        left = (await door.http.get("/admin/usage", params={"by": "user"})).json()["data"]
        all_of_it = await door.http.delete("/admin/usage", params={"tenant": ""})
        nothing = (await door.http.get("/admin/usage")).json()["data"]

    assert len(every["data"]) == 2
    assert all(row["worker"] and row["provider"] for row in every["data"])
    assert [each.status_code for each in unknown] == [400] * 4
    assert forgotten.json() == {"tenant": "", "user": "alice"}
    assert sorted((bool(row["user"]), row["requests"]) for row in left) == [(False, 1), (True, 1)]
    assert (all_of_it.status_code, nothing) == (200, [])


@pytest.mark.full
async def test_the_command_writes_tables_plots_csv_and_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    async with opened(ledger=KEPT) as door:
        place = f"{door.http.base_url}"
        for _ in range(2):
            await door.house.http.post(CHAT, json=body())

        def said(*flags: str) -> str:
            assert main(["usage", "--admin", place, *flags]) == 0
            return capsys.readouterr().out

        table = await asyncio.to_thread(said, "--plot", "requests", "--every", "day")
        lines = await asyncio.to_thread(said, "--jsonl", "--by", "model")
        values = await asyncio.to_thread(said, "--csv", "--by", "none")
        refused = await asyncio.to_thread(main, ["usage", "--admin", place, "--from", "tomorrow"])

    head, row = table.splitlines()
    assert head.split()[:4] == ["start", "tenant", "model", "requests"]
    assert row.endswith("█" * 40)
    assert json.loads(lines)["model"] == "sim"
    (found,) = csv.DictReader(io.StringIO(values))
    assert (found["requests"], found["unpriced_requests"]) == ("2", "2")
    assert refused == 1


def test_what_a_terminal_or_a_spreadsheet_would_act_on_is_written_so_that_it_does_not() -> None:
    assert _rendered("\x1b[31mred") == "'\\x1b[31mred'"
    assert _rendered("") == "-"
    assert _plain("=HYPERLINK()") == "'=HYPERLINK()"
    assert _plain(-5) == -5


def test_bars_fit_into_a_narrow_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"model": "m" * 20, **dict.fromkeys(_TABLE_AMOUNTS, 10), "cost_usd": cost, "unpriced_requests": 0}
        for cost in ("0.000000", "1.000000", "2.500000")
    ]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for columns in (60, 100, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        _write_table(rows, ["model"], "cost_usd")
        lines = capsys.readouterr().out.splitlines()

        assert max(map(len, lines)) <= columns
        assert lines[-1].count("█") > lines[-2].count("█") > 0


def test_the_axes_that_are_told_of_are_those_of_accounts() -> None:
    assert Account._fields == ("hour", *USAGE_AXES)


@pytest.mark.full
async def test_processes_add_up_and_what_a_killed_one_has_written_stays(tmp_path: Path) -> None:
    place = str(tmp_path / "admin.sock")
    ledger = ("--ledger", "--ledger-url", f"sqlite:///{tmp_path}/accounts.db", "--ledger-write-s", "0.05")
    async with (
        serving(QUICK, "--processes", "2", "--admin-socket", place, *ledger) as served,
        httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=place), base_url="http://localhost", timeout=PATIENCE
        ) as door,
        asyncio.timeout(PATIENCE),
    ):

        async def one() -> int:
            async with httpx.AsyncClient(base_url=served.http.base_url, timeout=PATIENCE, trust_env=False) as http:
                return (await http.post(CHAT, json=body())).json()["usage"]["total_tokens"]

        async def counted() -> tuple[int, int]:
            rows = (await door.get("/admin/usage")).json()["data"]
            return sum(row["requests"] for row in rows), sum(
                row["prompt_tokens"] + row["completion_tokens"] for row in rows
            )

        while [status for _, status in await processes(door)] != ["ready", "ready"]:
            await asyncio.sleep(0.05)
        used = sum(await asyncio.gather(*[one() for _ in range(30)]))
        while (await counted())[0] < 30:
            await asyncio.sleep(0.02)
        written = await counted()
        second = (await door.get("/admin/health")).json()["processes"][1]["pid"]
        os.kill(second, signal.SIGKILL)
        later = await asyncio.gather(*[one() for _ in range(5)], return_exceptions=True)
        used += sum(each for each in later if isinstance(each, int))
        while (await counted())[1] != used:  # what was written before stays, and whoever is left writes the rest
            await asyncio.sleep(0.02)

    assert written[0] == 30
