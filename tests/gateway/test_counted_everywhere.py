"""Every way to an engine is counted: by limits, and by the ledger, which agree with each other and with the answers."""

import json
from pathlib import Path
from typing import Any

import attrs
import pytest
from tests.gateway.conftest import CHAT, House, body, eventually, in_process, over_http, settled
from tests.gateway.fleet import Member, Prefer, fleet
from tests.gateway.test_hedging import HEDGED, PATHS, SLOW, outcomes
from tests.gateway.test_idempotency import CLASSIFIER, body_of
from tests.gateway.test_ledger import accounts
from tests.gateway.test_limits_held import SIMULATOR, taken
from tests.gateway.test_tool_loop import ADD, DONE, NOTES, configured, says
from tests.gateway.tool_server import tool_server

from smg_core import Config
from smg_core.hooks import Hedged
from smg_core.ledger.settings import LedgerConfig
from smg_core.limits.rules import Asker
from smg_core.wire.settings import LimitsConfig
from smg_core.workers.settings import WorkersConfig
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

TOKENS, REQUESTS = "1_000_000 tokens/day", "1_000_000 requests/day"
RULES = LimitsConfig(rules=(TOKENS, REQUESTS))
LEDGER = LedgerConfig(enabled=True, url="memory:", write_s=3600.0)
POOLS = SimulatorConfig(generation_model=False, embedding_size=8)
ASKED = ("chat", "completions", "generate", "responses", "interactions", "messages", "generate_content", "embeddings")
"""Permissions of routes that may ask an engine."""
NOT_ASKED = (":countTokens", "/count_tokens", "/input_tokens", "/cancel", "{id}")
"""How those routes end that never do: they count tokens, or are about what was made before."""


def counting(config: Config) -> Config:
    return attrs.evolve(config, limits=RULES, ledger=LEDGER)


async def agree(house: House, requests: int) -> int:
    """The tokens that limits and ledger have both counted, of so many requests."""
    await settled(house)
    (row,) = await accounts(house)
    assert (row.requests, taken(house, REQUESTS)) == (requests, requests)
    assert row.prompt_tokens + row.completion_tokens == taken(house, TOKENS)
    return taken(house, TOKENS)


@pytest.mark.full
@pytest.mark.parametrize("simulator", [SIMULATOR, POOLS, CLASSIFIER], ids=["generates", "pools", "classifies"])
async def test_no_route_that_reaches_an_engine_goes_past_the_limits_and_the_ledger(simulator: SimulatorConfig) -> None:
    workers = WorkersConfig(dialect="neutral" if simulator is CLASSIFIER else "vllm")
    answered, count = set[str](), 0
    async with in_process(simulator, config=counting(Config(workers=workers))) as house:
        for route in house.gateway.asgi().routes:
            pattern = route.pattern
            if route.method not in ("POST", "PUT") or route.target.needs not in ASKED or pattern.endswith(NOT_ASKED):
                continue
            path = pattern.replace("{model:path}", "sim").replace("{publisher}", "google")
            path = path.replace("{project}", "p").replace("{location}", "l")
            before = taken(house, TOKENS)
            answer = await house.http.request(route.method, path, json=body_of(pattern))
            await settled(house)
            count += 1
            assert taken(house, REQUESTS) == count, pattern
            assert (answer.status_code == 200) == (taken(house, TOKENS) > before), pattern
            answered |= {pattern} if answer.status_code == 200 else set()
        used, (row,) = taken(house, TOKENS), await accounts(house)

    assert answered
    assert row.requests == count
    assert row.requests - row.failed_requests == len(answered) + (SIMULATOR is simulator)  # /generate by two methods
    assert row.prompt_tokens + row.completion_tokens == used


@pytest.mark.full
@pytest.mark.parametrize("simulator", [SIMULATOR, POOLS, CLASSIFIER], ids=["generates", "pools", "classifies"])
async def test_every_route_that_takes_a_user_counts_for_that_user(simulator: SimulatorConfig) -> None:
    workers = WorkersConfig(dialect="neutral" if simulator is CLASSIFIER else "vllm")
    config = attrs.evolve(counting(Config(workers=workers)), limits=LimitsConfig(rules=(f"{TOKENS} per=user",)))
    alice = Asker(user="alice", model="sim", asked="sim")
    async with in_process(simulator, config=config) as house:
        count, used = 0, 0
        for route in house.gateway.asgi().routes:
            if route.method != "POST" or route.target.needs not in ASKED or "{" in route.pattern:
                continue
            if route.pattern.endswith(NOT_ASKED):
                continue
            named = {"metadata": {"user_id": "alice"}} if route.pattern == "/v1/messages" else {"user": "alice"}
            answer = await house.http.post(route.pattern, json={**body_of(route.pattern), **named})
            await settled(house)
            if answer.status_code == 200:
                count += 1
                assert taken(house, f"{TOKENS} per=user", alice) > used, route.pattern
                used = taken(house, f"{TOKENS} per=user", alice)
        rows = {row.user: row for row in await accounts(house, "user") if row.requests > row.failed_requests}

    assert count
    (row,) = rows.values()
    assert (row.user != "", row.requests - row.failed_requests) == (True, count)
    assert row.prompt_tokens + row.completion_tokens == used


@pytest.mark.full
@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("path", PATHS)
async def test_a_hedged_request_is_one_request_and_takes_what_the_answer_says(path: str) -> None:
    members = Member("slow", "vllm", SLOW), Member("quick", "vllm")
    async with fleet(*members, config=counting(HEDGED), policy=Prefer("slow")) as house:
        answer = await house.http.post(path, json={"model": "sim", **PATHS[path]})
        await eventually(lambda: house.observer.of(Hedged))
        assert await agree(house, 1) > 0
        (row,) = await accounts(house, "worker")

    assert answer.status_code == 200
    assert outcomes(house) == ["won"]
    assert row.worker == "quick"


@pytest.mark.full
@pytest.mark.parametrize("stream", [False, True])
async def test_the_turns_of_tools_are_one_request_with_the_tokens_of_all_of_them(tmp_path: Path, stream: bool) -> None:
    async with tool_server() as tools, over_http(SIMULATOR, config=counting(configured(tmp_path, tools))) as house:
        says(house, ADD, DONE)
        asked: dict[str, Any] = {"model": "sim", "input": "Go!", "tools": [NOTES], "store": False, "stream": stream}
        answer = await house.http.post("/v1/responses", json=asked)
        used = await agree(house, 1)
        turns = len(house.engine.requests)

    text = answer.text if not stream else answer.text.rpartition("data: {")[2].partition("\n")[0]
    told = answer.json() if not stream else json.loads("{" + text)["response"]
    assert turns == 2
    assert told["usage"]["total_tokens"] == used


async def test_what_is_sent_again_by_its_idempotency_key_is_counted_once() -> None:
    async with in_process(SIMULATOR, config=counting(Config())) as house:
        answers = [await house.http.post(CHAT, json=body(), headers={"idempotency-key": "k"}) for _ in range(3)]
        used = await agree(house, 1)

    assert [each.status_code for each in answers] == [200] * 3
    assert answers[2].json()["usage"]["total_tokens"] == used
