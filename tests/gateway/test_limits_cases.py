"""Limits where those of other gateways are known to fail: empty requests, two bounds, new budgets, resets, words of refusals."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.gateway.conftest import CHAT, JSON, body, in_process
from tests.gateway.test_chat_servers import before
from tests.gateway.test_ledger import LateClock
from tests.gateway.test_limits_held import ACME, SIMULATOR, by_bearer, fullness, limited, limits, taken

from smg_core.app.app import App
from smg_core.app.inprocess import async_client
from smg_core.limit_moments import BudgetLow
from smg_core.limits.counters import Instant
from smg_core.limits.decision import LimitClaim
from smg_core.limits.memory import MemoryCounters
from smg_core.limits.rules import read_rule

pytestmark = pytest.mark.anyio

SECOND = 1_000_000  # microseconds
TOKENS = "1_000_000 tokens/day per=tenant"
EMPTY: dict[str, dict[str, Any]] = {
    CHAT: {"model": "sim", "messages": [{"role": "user", "content": ""}]},
    "/v1/completions": {"model": "sim", "prompt": ""},
    "/v1/responses": {"model": "sim", "input": "", "store": False},
    "/v1/messages": {"model": "sim", "messages": [{"role": "user", "content": " "}], "max_tokens": 20},
    "/v1beta/models/sim:generateContent": {"contents": [{"role": "user", "parts": [{"text": ""}]}]},
}


@pytest.mark.parametrize("path", EMPTY)
async def test_a_request_without_content_takes_of_its_limit_too(path: str) -> None:
    async with limits(TOKENS, "1_000 requests/day") as house:
        answer = await house.http.post(path, json=EMPTY[path])

        assert answer.status_code in (200, 400)
        assert taken(house, "1_000 requests/day") == 1
        assert (taken(house, TOKENS) > 0) == (answer.status_code == 200)


async def test_two_bounds_of_an_answer_that_differ_reserve_nothing_too_small() -> None:
    async with limits(TOKENS) as house:
        both = await house.http.post(CHAT, json=body(max_tokens=1, max_completion_tokens=5000))

    assert both.status_code == 400
    assert "max_completion_tokens" in both.json()["error"]["message"]


def test_requests_and_tokens_beside_each_other_give_all_of_both_and_wait_no_longer_than_they_say() -> None:
    requests, tokens = read_rule("100 requests/minute"), read_rule("100 tokens/minute")
    counters, at = MemoryCounters(100, "UTC"), 1_000 * SECOND

    def asked(now: int) -> int:
        """The microseconds to wait, 0 where a request of 10 tokens is admitted."""
        claims = [LimitClaim(requests, "r", 1), LimitClaim(tokens, "t", 10)]
        refusal = counters.claim(claims, Instant(now, now / SECOND))
        return 0 if refusal is None else refusal.wait_us

    assert [asked(at) for _ in range(10)] == [0] * 10
    wait = asked(at)
    assert wait == 6 * SECOND
    assert asked(at + wait - 1) > 0
    assert asked(at + wait) == 0


async def test_what_is_left_falls_with_each_charge_and_never_rises_between_them() -> None:
    async with limits("1000 requests/day per=key", TOKENS) as house:
        shown, left = list[int](), list[int]()
        for _ in range(6):
            answer = await house.http.post(CHAT, json=body())
            shown.append(int(answer.headers["x-ratelimit-remaining-requests"]))
            left += [fullness(house, TOKENS).remaining, fullness(house, TOKENS).remaining]

    assert shown == [999 - number for number in range(6)]
    assert left == sorted(left, reverse=True)
    assert len(set(left)) == 6


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize(
    ("rule", "kind", "word"),
    [
        ("1 requests/hour per=key", "requests", "requests"),
        ("20 tokens/hour per=key", "tokens", "tokens"),
        ("10 input-tokens/hour per=key", "tokens", "tokens"),
        ("10 output-tokens/hour per=key", "tokens", "tokens"),
    ],
)
async def test_a_refusal_names_the_limit_that_refuses_and_no_other(rule: str, kind: str, word: str) -> None:
    async with limits(rule, "50 at-once per=key", "1_000_000 tokens/day", "1_000_000 requests/day") as house:
        answers = [await house.http.post(CHAT, json=body()) for _ in range(3)]
    error = next(each.json()["error"] for each in answers if each.status_code == 429)

    assert error["type"] == kind
    assert error["code"] == "rate_limit_exceeded"
    assert word in error["message"]
    assert "at once" not in error["message"]


async def test_a_budget_that_is_set_later_begins_with_nothing_spent() -> None:
    async with limits("1_000_000 requests/day per=key") as house:
        for _ in range(5):
            await house.http.post(CHAT, json=body())
        house.gateway.adopt(limited("1_000_000 requests/day per=key", "3 requests/month per=tenant"))
        statuses = [(await house.http.post(CHAT, json=body())).status_code for _ in range(4)]

        assert statuses == [200, 200, 200, 429]
        assert taken(house, "1_000_000 requests/day per=key") == 8


async def test_at_the_end_of_a_window_all_budgets_within_each_other_begin_anew_at_once() -> None:
    rules = ("2 requests/day tenant=acme", "2 requests/day tenant=acme team=search", "2 requests/day per=key")
    clock = LateClock()
    async with (
        in_process(SIMULATOR, config=limited(*rules, teams=("acme:search=one",)), clock=clock) as house,
        async_client(App(house.gateway, by_bearer), httpx, base_url="http://gateway", headers={**JSON, **ACME}) as http,
    ):
        before = [(await http.post(CHAT, json=body())).status_code for _ in range(3)]
        clock.ahead = 86400.0
        after = [(await http.post(CHAT, json=body())).status_code for _ in range(3)]

    assert before == after == [200, 200, 429]


async def test_a_limit_counts_what_its_unit_says() -> None:
    units = ("requests", "tokens", "input-tokens", "output-tokens")
    rules = [f"1_000_000 {unit}/day per=key" for unit in units]
    async with limits(*rules) as house:
        used = (await house.http.post(CHAT, json=body())).json()["usage"]
        found = [taken(house, rule) for rule in rules]

    assert found == [1, used["total_tokens"], used["prompt_tokens"], used["completion_tokens"]]


@pytest.mark.parametrize("limited_here", [False, True])
async def test_a_refusal_for_a_limit_has_retry_after_whoever_refuses(limited_here: bool) -> None:
    async with before("a") as house:
        if limited_here:
            house.gateway.adopt(limited("1 requests/minute"))
            await house.http.post(CHAT, json=body(model="a"))
        else:
            house.server.status = "429 Too Many Requests"
        answer = await house.http.post(CHAT, json=body(model="a"))

    assert answer.status_code in (429, 503)
    assert int(answer.headers["retry-after"]) >= 1


async def test_a_budget_that_is_nearly_spent_is_told_once_in_its_window(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prices, clock = tmp_path / "prices.json", LateClock()
    prices.write_text(json.dumps({"models": {"sim": {"input": "0", "output": "1000000"}}}))  # a dollar a token
    rules = ("100 USD/day per=tenant", "1_000_000 tokens/day")
    async with in_process(SIMULATOR, config=limited(*rules, prices=str(prices)), clock=clock) as house:

        async def told_after(requests: int) -> int:
            for _ in range(requests):
                assert (await house.http.post(CHAT, json=body(max_tokens=10, ignore_eos=True))).status_code == 200
            return len(house.observer.of(BudgetLow))

        found = [await told_after(7), await told_after(1), await told_after(2)]
        clock.ahead = 86400.0
        found += [await told_after(7), await told_after(3)]

    assert found == [0, 1, 1, 1, 2]
    assert [each.rule for each in house.observer.of(BudgetLow)] == [rules[0]] * 2
    assert caplog.text.count("80 % of a budget is spent: 100 USD/day per=tenant") == 2
