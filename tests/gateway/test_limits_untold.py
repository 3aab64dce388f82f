"""Answers of engines that say nothing of what they used are not free."""

import asyncio
import json
from pathlib import Path

import attrs
import pytest
from tests.gateway.conftest import CHAT, body, eventually
from tests.gateway.fleet import CALM
from tests.gateway.test_chat_servers import ANSWER, Before, before
from tests.gateway.test_ledger import accounts
from tests.gateway.test_limits_held import taken

from smg_core import Config
from smg_core.ledger.settings import LedgerConfig
from smg_core.wire.settings import LimitsConfig

pytestmark = pytest.mark.anyio

TOKENS, MONEY = "1_000_000 tokens/day", "100 USD/day"
SAYS_ZERO = ANSWER.replace(
    b"data: [DONE]", b'data: {"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}}\n\ndata: [DONE]'
)
SAYS = ANSWER.replace(
    b"data: [DONE]", b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":1}}\n\ndata: [DONE]'
)


def charged(folder: Path) -> Config:
    prices = folder / "prices.json"
    prices.write_text(json.dumps({"models": {"a": {"input": "1", "output": "1"}}}))
    limits = LimitsConfig(rules=(TOKENS, MONEY), prices=str(prices))
    return attrs.evolve(CALM, limits=limits, ledger=LedgerConfig(enabled=True, url="memory:", write_s=3600.0))


async def costs(house: Before, answer: bytes, *, stream: bool) -> tuple[int, int]:
    """The tokens and the millionths of a dollar that one such answer is charged."""
    before = taken(house, TOKENS), taken(house, MONEY)
    house.server.answer = answer
    told = await house.http.post(CHAT, json=body(model="a", stream=stream))
    assert told.status_code == 200
    await eventually(lambda: not house.gateway.in_flight)
    return taken(house, TOKENS) - before[0], taken(house, MONEY) - before[1]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("answer", [ANSWER, SAYS_ZERO], ids=["nothing", "zero"])
async def test_an_answer_without_usage_costs_what_was_reserved_for_it(
    answer: bytes, stream: bool, tmp_path: Path
) -> None:
    async with before("a", config=charged(tmp_path)) as house:
        first = await costs(house, answer, stream=stream)
        said = await costs(house, SAYS, stream=stream)
        (row,) = await accounts(house)

    assert first[0] > 256
    assert first[1] == first[0]
    assert said == (8, 8)
    assert (row.requests, row.unpriced_requests, row.prompt_tokens, row.cost_usd) == (2, 1, 7, "0.000008")


async def test_a_stream_that_its_client_leaves_before_the_usage_came_is_not_free(tmp_path: Path) -> None:
    async with before("a", config=charged(tmp_path)) as house:
        house.server.ends = False
        asking = asyncio.create_task(house.http.post(CHAT, json=body(model="a", stream=True)))
        await eventually(lambda: house.server.asked)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await eventually(lambda: not house.gateway.in_flight)

        assert taken(house, TOKENS) > 0
