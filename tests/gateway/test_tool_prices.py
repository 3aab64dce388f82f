"""What calls of tools cost is in the accounts of their callers: of tools of servers, of built-in ones, and by way of /mcp."""

from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conftest import in_process, settled
from tests.gateway.test_ledger import accounts
from tests.gateway.test_tool_loop import says
from tests.gateway.web_site import calls

from smg_core import Config
from smg_core.auth.settings import AuthConfig
from smg_core.ledger.settings import LedgerConfig
from smg_core.pipeline.settings import McpConfig
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
