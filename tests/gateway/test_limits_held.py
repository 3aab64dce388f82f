"""Limits that hold: whatever the end of a request, what is counted is what was used, and no tenant hears of another."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import attrs
import httpx
import openai
import pytest
from google import genai
from google.genai import types
from tests.gateway.conftest import CHAT, JSON, House, body, eventually, in_process, over_http
from tests.gateway.fleet import Member, fleet
from tests.gateway.test_admin import table
from tests.gateway.test_embeddings import MODEL
from tests.gateway.test_model_choice import member
from tests.shared import PATIENCE
from websockets.asyncio.client import connect

from smg_core import Config
from smg_core.admin.app import AdminApp
from smg_core.app.app import App
from smg_core.app.inprocess import async_client
from smg_core.auth.base import Head
from smg_core.auth.settings import AuthConfig
from smg_core.hooks import ExchangeEnded, RequestFinished, WorkerPicked
from smg_core.http.settings import BatchesConfig, ModelConfig, ServerConfig
from smg_core.limits.counters import Fullness
from smg_core.limits.decision import LimitClaim
from smg_core.limits.rules import Asker, read_rule
from smg_core.request import Caller
from smg_core.routing.settings import RoutingConfig
from smg_core.wire.settings import LimitsConfig
from smg_simulator.answers.faults import Fault
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

SIMULATOR = SimulatorConfig(seed=1, reply_tokens=12)
SLOW = SimulatorConfig(seed=1, reply_tokens=2000, timing=Timing(decode_rate=200))
ACME, OTHER = {"authorization": "Bearer acme:one"}, {"authorization": "Bearer other:one"}
WHO = Asker("acme", "one", "", "sim", "sim")
HELLO = [{"role": "user", "content": "Hello"}]
PLENTY = "1_000_000 tokens/day per=tenant"
EACH: dict[str, dict[str, Any]] = {
    CHAT: {"model": "sim", "messages": HELLO},
    "/v1/completions": {"model": "sim", "prompt": ["Hello", "What is a port?"], "max_tokens": 5},
    "/v1/responses": {"model": "sim", "input": "Hello", "store": False},
    "/v1/messages": {"model": "sim", "messages": HELLO, "max_tokens": 20},
    "/v1beta/models/sim:generateContent": {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
    "/v1/embeddings": {"model": "sim", "input": ["Hello", "Good evening"]},
}


def limited(*rules: str, **settings: Any) -> Config:
    return Config(limits=LimitsConfig(rules=rules, **settings), server=ServerConfig(allowed_hosts=("*",)))


async def by_bearer(head: Head) -> Caller:
    tenant, _, key = head.headers.get("authorization", "").removeprefix("Bearer ").partition(":")
    return Caller(tenant, key)


@asynccontextmanager
async def limits(*rules: str, simulator: SimulatorConfig = SIMULATOR, **settings: Any) -> AsyncIterator[House]:
    """A gateway with these rules, whose callers say who they are."""
    async with (
        in_process(simulator, config=limited(*rules, **settings)) as house,
        async_client(App(house.gateway, by_bearer), httpx, base_url="http://gateway", headers={**JSON, **ACME}) as http,
    ):
        yield House(house.gateway, http, house.observer)


def fullness(house: House, rule: str, asker: Asker = WHO) -> Fullness:
    limiting, read = house.gateway.services.live.limiting, read_rule(rule)
    assert limiting is not None
    scope = read.scope(asker)
    assert scope is not None
    return limiting.standing([LimitClaim(read, scope, 0)])[0][1]


def taken(house: House, rule: str, asker: Asker = WHO) -> int:
    full = fullness(house, rule, asker)
    return full.limit - full.remaining


def counted(house: House) -> int:
    """The tokens of all requests that the gateway has told of."""
    done = house.observer.of(RequestFinished)
    return sum(each.prompt_tokens + each.completion_tokens for each in done)


# ---------------------------------------------------------------------------------------------------- every API and end


@pytest.mark.full
@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", EACH)
async def test_what_is_counted_is_what_was_used(path: str, stream: bool) -> None:
    asked = dict(EACH[path])
    if stream and path.startswith("/v1beta"):
        path = path.replace("generateContent", "streamGenerateContent")
    elif stream and path != "/v1/embeddings":
        asked["stream"] = True
    simulator = MODEL if path == "/v1/embeddings" else SIMULATOR
    async with limits(PLENTY, "1000 requests/day per=key", "9 at-once per=key", simulator=simulator) as house:
        answer = await house.http.post(path, json=asked)
        await eventually(lambda: not house.gateway.in_flight)

        assert answer.status_code == 200, answer.text
        assert taken(house, PLENTY) == counted(house) > 0
        assert taken(house, "1000 requests/day per=key") == 1
        assert taken(house, "9 at-once per=key") == 0


@pytest.mark.parametrize(
    ("faults", "asked"),
    [
        ((), {"model": "none", "messages": HELLO}),
        ((), {"model": "sim", "messages": 3}),
        ((), {"model": "sim", "messages": HELLO, "n": 10**6}),
    ],
)
async def test_a_request_that_its_client_got_wrong_counts_as_a_request_and_takes_no_tokens(
    faults: Sequence[Fault], asked: dict[str, Any]
) -> None:
    async with limits(PLENTY, "3 requests/day per=key") as house:
        statuses = [(await house.http.post(CHAT, json=asked)).status_code for _ in range(4)]

        assert all(400 <= status < 429 for status in statuses[:3])
        assert statuses[3] == 429
        assert taken(house, PLENTY) == 0


async def test_a_request_that_no_engine_could_be_asked_for_costs_nothing() -> None:
    async with limits(PLENTY, "3 requests/day per=key") as house:
        worker = next(iter(house.gateway.registry))
        await house.gateway.remove_worker(worker.name)
        answer = await house.http.post(CHAT, json=body())

        assert answer.status_code in (404, 503)
        assert taken(house, PLENTY) == 0


@pytest.mark.full
async def test_clients_that_leave_at_any_time_give_their_places_back_and_pay_for_what_came() -> None:
    async with limits(PLENTY, "50 at-once per=key", simulator=SLOW) as house:
        for number in range(40):
            asking = asyncio.create_task(house.http.post(CHAT, json=body(stream=True)))
            for _ in range(number * 3):
                await asyncio.sleep(0)
            if number % 4 == 0:
                await asyncio.sleep(0.01)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        await eventually(lambda: not house.gateway.in_flight)

        assert taken(house, "50 at-once per=key") == 0
        assert taken(house, PLENTY) == counted(house)


async def test_a_request_has_to_fit_into_the_budgets_of_its_team_and_of_its_tenant() -> None:
    rules = ("5 requests/day tenant=acme", "3 requests/day tenant=acme team=search", "2 requests/day per=team")
    teams = ("acme:search=one,two", "acme:search/ranking=ranking-*")
    async with limits(*rules, teams=teams) as house:
        found = []
        for key in ("one", "two", "one", "ranking-1", "ranking-1", "alone", "alone", "alone"):
            headers = {"authorization": f"Bearer acme:{key}"}
            answer = await house.http.post(CHAT, json=body(), headers=headers)
            found.append(answer.status_code)
            if key == "one" and answer.status_code == 429:
                assert "this team" in answer.json()["error"]["message"]

    assert found == [200, 200, 429, 200, 429, 200, 200, 429]


@pytest.mark.full
@pytest.mark.parametrize("first", [False, True])
async def test_a_whole_answer_that_its_client_leaves_costs_what_the_engine_has_generated_by_then(first: bool) -> None:
    quick = SimulatorConfig(seed=1, reply_tokens=200, timing=Timing(decode_rate=400))
    async with limits(PLENTY, simulator=quick) as house:
        if first:
            await house.chat()
        before = taken(house, PLENTY)
        asking = asyncio.create_task(house.http.post(CHAT, json=body()))
        await eventually(lambda: house.gateway.in_flight and house.observer.of(WorkerPicked)[first:], PATIENCE)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await eventually(lambda: not house.gateway.in_flight)

        spent = taken(house, PLENTY) - before - house.observer.of(RequestFinished)[-1].prompt_tokens
        assert 0 <= spent < 200 if first else spent == 256  # nothing says how fast it is: what was reserved counts


# ------------------------------------------------------------------------------------------------------------- exactly


async def test_of_many_at_once_exactly_the_limit_is_admitted() -> None:
    async with limits("10 requests/hour per=key") as house:
        answers = await asyncio.gather(*(house.http.post(CHAT, json=body()) for _ in range(60)))
        other = await house.http.post(CHAT, json=body(), headers=OTHER)

    assert sorted(each.status_code for each in answers) == [200] * 10 + [429] * 50
    assert other.status_code == 200


async def test_a_first_request_passes_a_limit_that_is_smaller_than_its_estimate() -> None:
    async with limits("100 tokens/hour per=tenant") as house:
        first = await house.http.post(CHAT, json=body())

    assert first.status_code == 200


async def test_a_prompt_that_is_larger_than_its_limit_ever_allows_is_refused_as_that() -> None:
    async with limits("20 input-tokens/hour per=tenant") as house:
        answer = await house.http.post(CHAT, json=body("word " * 500))

        assert answer.status_code == 429
        assert "larger than its limit ever allows" in answer.json()["error"]["message"]
        assert "retry-after" not in answer.headers
        assert answer.headers["x-should-retry"] == "false"
        assert taken(house, "20 input-tokens/hour per=tenant") == 0


@pytest.mark.full
async def test_a_request_that_one_rule_refuses_is_charged_by_none() -> None:
    async with limits("1 at-once per=key", "100 requests/day per=key", simulator=SLOW) as house:
        asking = asyncio.create_task(house.http.post(CHAT, json=body(max_tokens=400)))
        await eventually(lambda: house.engine.active)
        refused = await house.http.post(CHAT, json=body())

        assert refused.status_code == 429
        assert "1 requests at once for this key" in refused.json()["error"]["message"]
        assert taken(house, "100 requests/day per=key") == 1
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await eventually(lambda: not house.gateway.in_flight)
        assert (await house.http.post(CHAT, json=body(max_tokens=1))).status_code == 200


@pytest.mark.full
async def test_a_long_answer_is_charged_while_it_comes() -> None:
    fast = SimulatorConfig(seed=1, reply_tokens=30_000, timing=Timing(decode_rate=5_000))
    async with limits("1_000_000 output-tokens/day per=key", simulator=fast) as house:
        asking = asyncio.create_task(house.http.post(CHAT, json=body(max_tokens=30_000, stream=True)))
        await eventually(lambda: taken(house, "1_000_000 output-tokens/day per=key") > 1000, PATIENCE)

        assert house.gateway.in_flight
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def test_an_alias_and_its_model_share_the_models_limit() -> None:
    config = Config(
        limits=LimitsConfig(rules=("2 requests/day per=model",)), model=ModelConfig(aliases=("pet=sim",)),
        server=ServerConfig(allowed_hosts=("*",)),
    )  # fmt: skip
    async with in_process(SIMULATOR, config=config) as house:
        statuses = [(await house.http.post(CHAT, json=body(model=name))).status_code for name in ("pet", "sim", "pet")]

    assert statuses == [200, 200, 429]


async def test_changed_rules_count_from_the_next_request() -> None:
    async with limits("1 requests/day per=key") as house:
        assert (await house.http.post(CHAT, json=body())).status_code == 200
        house.gateway.adopt(limited("3 requests/day per=key"))
        statuses = [(await house.http.post(CHAT, json=body())).status_code for _ in range(3)]
        house.gateway.adopt(limited())

        assert statuses == [200, 200, 429]
        assert house.gateway.services.live.limiting is None
        assert (await house.http.post(CHAT, json=body())).status_code == 200


# --------------------------------------------------------------------------------------------------------------- money


@pytest.fixture
def prices(tmp_path: Path) -> str:
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"models": {"sim": {"input": "100", "output": "1000"}}}))
    return str(path)


async def test_a_budget_is_spent_by_the_prices_and_then_refuses(prices: str) -> None:
    rule = "0.02 USD/month tenant=acme"
    async with limits(rule, prices=prices) as house:
        first = await house.http.post(CHAT, json=body(max_tokens=10))
        used = first.json()["usage"]
        spent = taken(house, rule)
        while (last := await house.http.post(CHAT, json=body(max_tokens=10))).status_code == 200:
            pass

        assert spent == used["prompt_tokens"] * 100 + used["completion_tokens"] * 1000
        assert last.status_code == 429
        assert last.json()["error"]["code"] == last.json()["error"]["type"] == "insufficient_quota"
        assert taken(house, rule) <= 20_000
        assert (await house.http.post(CHAT, json=body(), headers=OTHER)).status_code == 200


@pytest.mark.parametrize(("unpriced", "status"), [("refuse", 429), ("ignore", 200)])
async def test_a_model_without_a_price_is_refused_or_not_counted_and_never_free_by_chance(
    unpriced: str, status: int
) -> None:
    async with limits("1 USD/month per=tenant", unpriced=unpriced) as house:
        assert (await house.http.post(CHAT, json=body())).status_code == status


# --------------------------------------------------------------------------------------------------------------- words


async def test_answers_say_how_much_is_left_in_openais_headers() -> None:
    async with limits("600 requests/minute per=key", "100_000 tokens/minute per=tenant") as house:
        answer = await house.http.post(CHAT, json=body(max_tokens=10))
        head = answer.headers

    assert (head["x-ratelimit-limit-requests"], head["x-ratelimit-remaining-requests"]) == ("600", "599")
    assert head["x-ratelimit-limit-tokens"] == "100000"
    assert 99_000 < int(head["x-ratelimit-remaining-tokens"]) < 100_000
    assert head["x-ratelimit-reset-requests"] == "100ms"
    assert head["x-ratelimit-reset-tokens"].endswith("ms")


async def test_answers_say_how_much_is_left_in_anthropics_headers() -> None:
    async with limits("600 requests/minute per=key", "100_000 input-tokens/minute per=tenant") as house:
        head = (await house.http.post("/v1/messages", json=EACH["/v1/messages"])).headers

    assert head["anthropic-ratelimit-requests-limit"] == "600"
    assert head["anthropic-ratelimit-requests-remaining"] == "599"
    assert head["anthropic-ratelimit-input-tokens-limit"] == head["anthropic-ratelimit-tokens-limit"] == "100000"
    assert head["anthropic-ratelimit-requests-reset"].endswith("Z")
    assert "anthropic-ratelimit-output-tokens-limit" not in head
    assert not [name for name in head if name.startswith("x-ratelimit")]


async def test_the_ietfs_fields_are_there_on_request() -> None:
    async with limits("600 requests/minute per=key", standard_headers=True) as house:
        head = (await house.http.post(CHAT, json=body())).headers

    assert head["ratelimit-policy"] == '"requests-minute";q=600;w=60'
    assert head["ratelimit"] == '"requests-minute";r=599;t=1'


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("path", [each for each in EACH if each != "/v1/embeddings"])
async def test_a_refusal_is_in_the_envelope_of_its_api_with_the_time_to_come_again(path: str) -> None:
    async with limits("1 requests/minute per=key") as house:
        await house.http.post(path, json=EACH[path])
        answer = await house.http.post(path, json=EACH[path])
    error = answer.json()["error"]

    assert answer.status_code == 429
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert "The limit of 1 requests a minute for this key is reached" in error["message"]
    match path:
        case "/v1/messages":
            assert error["type"] == "rate_limit_error"
            assert answer.headers["anthropic-ratelimit-requests-remaining"] == "0"
        case "/v1beta/models/sim:generateContent":
            assert error["status"] == "RESOURCE_EXHAUSTED"
            assert {each["@type"].rsplit(".", 1)[1] for each in error["details"]} == {"QuotaFailure", "RetryInfo"}
        case _:
            assert (error["type"], error["code"]) == ("requests", "rate_limit_exceeded")
            assert answer.headers["x-ratelimit-remaining-requests"] == "0"


async def test_a_wait_that_clients_do_not_obey_tells_them_not_to_try_again() -> None:
    async with limits("1 requests/day per=key") as house:
        await house.http.post(CHAT, json=body())
        answer = await house.http.post(CHAT, json=body())

    assert answer.headers["x-should-retry"] == "false"
    assert int(answer.headers["retry-after"]) >= 1


async def test_a_limit_of_all_tenants_tells_none_of_them_its_figures() -> None:
    async with limits("2 requests/minute", "5 requests/minute per=model", "900 requests/hour per=key") as house:
        answers = [await house.http.post(CHAT, json=body(), headers=each) for each in (ACME, OTHER, ACME)]
    said = answers[2].text + str(answers[2].headers)

    assert [each.status_code for each in answers] == [200, 200, 429]
    assert answers[0].headers["x-ratelimit-limit-requests"] == "900"
    assert answers[2].json()["error"]["message"] == "The gateway is at a limit of its own; try again later."
    assert "other" not in said.replace("The gateway", "")
    assert answers[2].headers["x-ratelimit-remaining-requests"] == "899"


@pytest.mark.full
async def test_the_official_libraries_wait_and_come_again() -> None:
    config = limited("2 requests/second per=key burst=1")
    async with over_http(SIMULATOR, config=config) as house:
        client = openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=3, timeout=PATIENCE)
        other = anthropic.AsyncAnthropic(api_key="x", base_url=house.url, max_retries=3, timeout=PATIENCE)
        async with client, other:
            for _ in range(2):
                await client.chat.completions.create(model="sim", messages=HELLO, max_tokens=1)  # type: ignore[arg-type]
                await other.messages.create(model="sim", messages=HELLO, max_tokens=1)  # type: ignore[arg-type]

    statuses = [each.status for each in house.observer.of(ExchangeEnded)]
    assert statuses.count(200) == 4
    assert 429 in statuses


@pytest.mark.full
async def test_googles_library_waits_and_comes_again() -> None:
    retries = types.HttpRetryOptions(attempts=5, initial_delay=0.3)
    async with over_http(SIMULATOR, config=limited("2 requests/second per=key burst=1")) as house:
        options = types.HttpOptions(base_url=house.url, retry_options=retries)
        client = genai.Client(api_key="x", http_options=options)
        for _ in range(3):
            await client.aio.models.generate_content(model="sim", contents="Hello")
        await client.aio.aclose()

    statuses = [each.status for each in house.observer.of(ExchangeEnded)]
    assert statuses.count(200) == 3
    assert 429 in statuses


# ------------------------------------------------------------------------------------------------------- other ways in


async def test_an_answer_in_the_background_is_a_request_when_it_is_asked_for_and_pays_when_it_is_made() -> None:
    config = limited(PLENTY.replace("per=tenant", ""), "2 requests/day")
    async with over_http(SIMULATOR, config=config) as house:
        client = openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0)
        async with client:
            made = await client.responses.create(model="sim", input="Hello", background=True)
            while made.status not in ("completed", "failed"):
                made = await client.responses.retrieve(made.id)
        await eventually(lambda: not house.gateway.in_flight)

        assert made.usage is not None
        assert taken(house, "1_000_000 tokens/day") == made.usage.total_tokens
        assert taken(house, "2 requests/day") == 1


async def test_a_burst_of_answers_in_the_background_is_made_within_the_limits_and_the_rest_waits() -> None:
    async with over_http(SIMULATOR, config=limited("1 at-once", "100 tokens/day")) as house:
        async with openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client:
            asked = [client.responses.create(model="sim", input="Hello", background=True) for _ in range(6)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            made = [
                each for each in answers if not isinstance(each, openai.RateLimitError)
            ]  # those before the first one ran
            statuses = ["in_progress"]
            async with asyncio.timeout(PATIENCE):
                while "completed" not in statuses or "in_progress" in statuses:
                    statuses = sorted([(await client.responses.retrieve(each.id)).status or "" for each in made])

        assert statuses == ["completed", *["queued"] * (len(made) - 1)]
        assert taken(house, "100 tokens/day") <= 100


async def test_an_answer_in_the_background_that_no_limit_ever_gives_fails_instead_of_waiting() -> None:
    async with over_http(SIMULATOR, config=limited("3 input-tokens/day")) as house:
        client = openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0)
        async with client, asyncio.timeout(PATIENCE):
            made = await client.responses.create(model="sim", input="Hello " * 20, background=True)
            while made.status not in ("completed", "failed"):
                made = await client.responses.retrieve(made.id)

    assert (made.status, made.error and made.error.code) == ("failed", "rate_limit_exceeded")


def test_keys_say_whose_requests_are_counted_together() -> None:
    """The settings of keys stay as they are: rules name their tenants and principals."""
    keys = AuthConfig(keys=("a-key-of-acme-012345 tenant=acme principal=one",))

    assert "tenant=acme" in keys.keys[0]
    assert read_rule("5 requests/day tenant=acme key=one").scope(Asker("acme", "one")) is not None


# ------------------------------------------------------------------------------------------------------------ explained


async def test_the_admin_door_says_what_applies_and_what_a_request_would_get() -> None:
    rules = ("2 requests/hour per=key", "100 input-tokens/hour tenant=acme", "5 requests/day tenant=other")
    async with (
        limits(*rules) as house,
        async_client(AdminApp(house.gateway, table()), httpx, base_url="http://localhost", headers=JSON) as door,
    ):
        await house.http.post(CHAT, json=body())
        asked = {"tenant": "acme", "principal": "one", "model": "sim"}
        small = (await door.get("/admin/limits", params={**asked, "tokens": 5})).json()
        large = (await door.get("/admin/limits", params={**asked, "tokens": 500})).json()
        await house.http.post(CHAT, json=body())
        late = (await door.get("/admin/limits", params=asked)).json()
        wrong = await door.get("/admin/limits", params={"tokens": "many"})

    assert [each["rule"] for each in small["rules"]] == list(rules[:2])
    assert (small["admitted"], large["admitted"], late["admitted"]) == (True, False, False)
    assert (small["rules"][0]["limit"], small["rules"][0]["remaining"]) == (2, 1)
    assert large["rules"][1]["wait_s"] is None
    assert 1700 < late["rules"][0]["wait_s"] <= 1800
    assert wrong.status_code == 400


# --------------------------------------------------------------------------------------------- on the way to the answer


@pytest.mark.parametrize("after", [0, 3])
async def test_a_request_that_is_tried_again_elsewhere_is_one_request(after: int) -> None:
    broken = SimulatorConfig(seed=1, reply_tokens=12, faults=(Fault("cut", after=after),))
    config = limited(PLENTY.replace(" per=tenant", ""), "9 requests/day")
    async with fleet(Member("one", engine=broken), Member("two", engine=SIMULATOR), config=config) as house:
        statuses = [(await house.http.post(CHAT, json=body())).status_code for _ in range(2)]
        await eventually(lambda: not house.gateway.in_flight)

        assert statuses == [200, 200]
        assert taken(house, "9 requests/day") == 2
        assert taken(house, "1_000_000 tokens/day") == counted(house)


async def test_a_model_that_answers_instead_is_held_to_its_own_limits() -> None:
    config = attrs.evolve(
        limited("2 requests/day model=two", "100 requests/day per=model"),
        routing=RoutingConfig(retries=0, fallbacks=("one=two",)),
    )
    broken = member("one", faults=(Fault("error"),) * 32)
    async with fleet(broken, member("two"), config=config) as house:
        statuses = [(await house.http.post(CHAT, json=body(model="one"))).status_code for _ in range(4)]
        await eventually(lambda: not house.gateway.in_flight)

        assert statuses == [200, 200, 429, 429]
        assert taken(house, "100 requests/day per=model", Asker("", "", "", "one", "one")) == 0
        assert taken(house, "100 requests/day per=model", Asker("", "", "", "two", "two")) == 2


async def test_a_line_of_a_batch_and_a_response_over_a_websocket_are_requests() -> None:
    config = attrs.evolve(limited("90 requests/day"), batches=BatchesConfig(poll_s=0.02, lease_s=60.0, gather_s=0.005))
    line = {"custom_id": "a", "method": "POST", "url": CHAT, "body": body()}
    async with over_http(SIMULATOR, config=config) as house:
        async with openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client:
            lines = "\n".join(json.dumps({**line, "custom_id": str(number)}) for number in range(3))
            file = await client.files.create(file=("in.jsonl", lines.encode()), purpose="batch")
            batch = await client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")  # type: ignore[arg-type]
            while batch.status != "completed":
                batch = await client.batches.retrieve(batch.id)
        async with connect(house.url.replace("http", "ws", 1) + "/v1/responses", proxy=None) as socket:
            for _ in range(2):
                await socket.send(json.dumps({"type": "response.create", "model": "sim", "input": "Hello"}))
                while json.loads(await socket.recv())["type"] not in ("response.completed", "response.incomplete"):
                    pass
        await eventually(lambda: not house.gateway.in_flight)

        assert taken(house, "90 requests/day") == 5


@pytest.mark.full
async def test_a_batch_waits_for_its_limit_and_then_goes_on() -> None:
    batches = BatchesConfig(poll_s=0.02, lease_s=60.0, gather_s=0.005, retry_s=0.02)
    config = attrs.evolve(limited("5 requests/second burst=1"), batches=batches)
    line = {"method": "POST", "url": CHAT, "body": body(max_tokens=1)}
    async with (
        over_http(SIMULATOR, config=config) as house,
        openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client,
    ):
        lines = "\n".join(json.dumps({**line, "custom_id": str(number)}) for number in range(3))
        file = await client.files.create(file=("in.jsonl", lines.encode()), purpose="batch")
        batch = await client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")  # type: ignore[arg-type]
        while batch.status != "completed":
            batch = await client.batches.retrieve(batch.id)

    assert batch.request_counts is not None
    assert (batch.request_counts.completed, batch.request_counts.failed) == (3, 0)
