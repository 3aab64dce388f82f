"""What an entry of a provider says of its limits and its prices, in a gateway before two accounts of one model."""

import asyncio
from pathlib import Path

import attrs
import httpx
import msgspec
import pytest
from tests.providers.answers import FORMATS, script
from tests.providers.chat_answers import CHAT_FORMATS
from tests.providers.client_apis import APIS
from tests.providers.fake import Heard, Said, providing
from tests.shared import PATIENCE

from smg_core import Config, Gateway
from smg_core.ledger.queries import UsageQuery
from smg_core.ledger.settings import LedgerConfig
from smg_core.settings import ConfigError
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import WorkerSpec
from smg_core.workers.worker_file import workers_of

pytestmark = pytest.mark.anyio

FORM = FORMATS["anthropic"]
MESSAGES = APIS["Messages"]
ENTRY = {
    "url": "http://127.0.0.1:1",
    "name": "a",
    "dialect": "anthropic",
    "credential": {"key": "k"},
    "models": {"m": FORM.model},
}


def specs(**fields: object) -> list[WorkerSpec]:
    return workers_of([{**ENTRY, **fields}], lambda path: Path(path).read_text(), 1 << 16)


def test_an_entry_says_its_limits_and_its_price() -> None:
    limits = {"in_flight": 2, "waiting_tokens": 9, "requests_per_minute": 60, "tokens_per_minute": 5000}
    (spec,) = specs(limits=limits, price={"input": "3", "output": 15.5})

    assert (spec.most_in_flight, spec.most_waiting_tokens) == (2, 9)
    assert (spec.requests_a_minute, spec.tokens_a_minute) == (60, 5000)
    assert spec.price == (("input", "3"), ("output", "15.5"))


@pytest.mark.parametrize(
    "fields",
    [
        {"limits": {"in_flight": -1}},
        {"limits": {"inflight": 1}},
        {"limits": {"tokens_per_minute": 10**13}},
        {"limits": {"requests_per_minute": 0.5}},
        {"price": {"inputs": 1}},
        {"price": {"input": "x"}},
    ],
)
def test_what_makes_no_sense_is_refused_at_the_start(fields: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        specs(**fields)


def test_who_does_not_know_what_limits_are_called_is_told() -> None:
    with pytest.raises(
        ConfigError, match=r"`rpm`.*they are in_flight, waiting_tokens, requests_per_minute, tokens_per_minute"
    ):
        specs(limits={"rpm": 60})


async def test_a_full_account_leaves_its_requests_to_the_other_and_prices_are_listed() -> None:
    config = attrs.evolve(Config(), workers=WorkersConfig(health_interval_s=3600.0))
    async with providing(script(FORM, "text")) as first, providing(script(FORM, "text")) as second:
        (one,) = specs(url=first.url, name="a", limits={"in_flight": 1}, price={"input": "3", "output": "9"})
        (two,) = specs(url=second.url, name="b", price={"input": "1", "output": "15"})
        async with Gateway([one, two], config=config) as gateway:
            await gateway.ready()
            async with gateway.http_client(httpx, base_url="http://gateway", timeout=PATIENCE) as http:
                listed = (await http.get("/v1/models")).json()["data"]
                first.script = lambda _: Said(FORM.streams["text"][:-40], held=True)
                held: list[asyncio.Task[httpx.Response]] = []
                path, body = MESSAGES.asked(MESSAGES.body("text"), stream=True)
                while not first.asked:
                    held.append(asyncio.create_task(http.post(path, json=body)))
                    await asyncio.sleep(0)
                    await asyncio.wait(held, timeout=0.05)
                taken = len(second.asked)
                for _ in range(3):
                    assert (await http.post(path, json=body)).status_code == 200

                assert len(first.asked) == 1
                assert len(second.asked) == taken + 3
                (model,) = [each for each in listed if each["id"] == "m"]
                assert (model["pricing"]["input"], model["pricing"]["output"]) == ("3", "15")
                for task in held:
                    task.cancel()
                await asyncio.gather(*held, return_exceptions=True)


@pytest.mark.parametrize("stream", [False, True])
async def test_where_every_account_has_had_its_minute_each_api_says_429_and_when_to_come_again(*, stream: bool) -> None:
    """Each account gets two requests a minute: two go to each, and the next one waits for the first that comes back."""
    config = attrs.evolve(Config(), workers=WorkersConfig(health_interval_s=3600.0))
    for api in APIS.values():
        async with providing(script(FORM, "text")) as first, providing(script(FORM, "text")) as second:
            limits = {"requests_per_minute": 2, "tokens_per_minute": 1_000_000}
            (one,) = specs(url=first.url, name="a", limits=limits)
            (two,) = specs(url=second.url, name="b", limits=limits)
            async with Gateway([one, two], config=config) as gateway:
                await gateway.ready()
                async with gateway.http_client(httpx, base_url="http://gateway", timeout=PATIENCE) as http:
                    path, body = api.asked(api.body("text"), stream=stream)
                    answers = [await http.post(path, json=body) for _ in range(5)]

        assert [each.status_code for each in answers] == [200, 200, 200, 200, 429], api.path
        assert (len(first.asked), len(second.asked)) == (2, 2)
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 30
        assert api.error(answers[-1].json()) == "This model gets as many requests or tokens a minute as it may."


async def test_the_tokens_of_answers_fill_an_accounts_minute() -> None:
    config = attrs.evolve(Config(), workers=WorkersConfig(health_interval_s=3600.0))
    async with providing(script(FORM, "text")) as provider:
        (spec,) = specs(url=provider.url, limits={"tokens_per_minute": 20})
        async with Gateway([spec], config=config) as gateway:
            await gateway.ready()
            async with gateway.http_client(httpx, base_url="http://gateway", timeout=PATIENCE) as http:
                path, body = MESSAGES.asked(MESSAGES.body("text"), stream=False)
                first, second = [await http.post(path, json=body) for _ in range(2)]

    usage = first.json()["usage"]
    assert usage["input_tokens"] + usage["output_tokens"] < 20  # the next one may take as much as all of a minute
    assert second.status_code == 429
    assert second.json()["error"]["type"] == "rate_limit_error"


async def test_a_place_at_an_account_that_is_full_is_waited_for_and_not_the_gateway() -> None:
    config = attrs.evolve(Config(), workers=WorkersConfig(health_interval_s=3600.0))
    async with providing(script(FORM, "text")) as provider:
        (spec,) = specs(url=provider.url, limits={"in_flight": 1})
        async with Gateway([spec], config=config) as gateway:
            await gateway.ready()
            provider.script = lambda _: Said(FORM.streams["text"][:-40], held=True)
            async with gateway.http_client(httpx, base_url="http://gateway", timeout=PATIENCE) as http:
                path, body = MESSAGES.asked(MESSAGES.body("text"), stream=True)
                held = asyncio.create_task(http.post(path, json=body))
                while not provider.asked:
                    await asyncio.sleep(0.005)
                refused = await http.post(path, json=body)
                held.cancel()
                await asyncio.gather(held, return_exceptions=True)

    assert (refused.status_code, refused.json()["error"]["type"]) == (429, "rate_limit_error")
    assert "retry-after" in refused.headers


async def test_vectors_count_in_an_accounts_minute_too() -> None:
    config = attrs.evolve(Config(), workers=WorkersConfig(health_interval_s=3600.0))
    vectors = (
        b'{"object":"list","data":[{"index":0,"embedding":[0.5,0.5]}],"usage":{"prompt_tokens":4,"total_tokens":4}}'
    )
    async with providing(lambda _: Said(vectors, kind="application/json")) as provider:
        entry = {"url": provider.url, "name": "p", "dialect": "mistral", "credential": {"key": "k"}}
        entry |= {"models": ["mistral-embed"], "limits": {"requests_per_minute": 1}}
        found = workers_of([entry], lambda path: Path(path).read_text(), 1 << 16)
        async with Gateway(found, config=config) as gateway:
            await gateway.ready()
            async with gateway.http_client(httpx, base_url="http://gateway", timeout=PATIENCE) as http:
                body = {"model": "mistral-embed", "input": "Hi"}
                first, second = [await http.post("/v1/embeddings", json=body) for _ in range(2)]

    assert (first.status_code, second.status_code) == (200, 429)
    assert second.json()["error"]["code"] == "rate_limit_exceeded"


def vectors_of(heard: Heard) -> Said:
    """A vector for each input, of 80 tokens."""
    many = len(heard.json["input"])
    data = [{"index": at, "embedding": [0.5]} for at in range(many)]
    answer = {"object": "list", "data": data, "usage": {"prompt_tokens": 80 * many, "total_tokens": 80 * many}}
    return Said(msgspec.json.encode(answer), kind="application/json")


@pytest.mark.parametrize("limits", [{"requests_per_minute": 1}, {"tokens_per_minute": 1000}])
async def test_vectors_of_several_calls_come_whole_or_not_at_all(limits: dict[str, int]) -> None:
    """A request that needs more than a minute's calls or tokens would otherwise be refused after its first call was paid, each
    time that it comes again."""
    config = attrs.evolve(Config(), workers=WorkersConfig(health_interval_s=3600.0))
    async with providing(vectors_of) as provider:
        entry = {"url": provider.url, "name": "p", "dialect": "mistral", "credential": {"key": "k"}}
        entry |= {"models": ["mistral-embed"], "limits": limits}
        found = workers_of([entry], lambda path: Path(path).read_text(), 1 << 16)
        async with Gateway(found, config=config) as gateway:
            await gateway.ready()
            async with gateway.http_client(httpx, base_url="http://gateway", timeout=PATIENCE) as http:
                body = {"model": "mistral-embed", "input": ["word " * 64] * 100}
                first = await http.post("/v1/embeddings", json=body)
                asked = len(provider.asked)
                second = await http.post("/v1/embeddings", json=body)

    assert (first.status_code, len(first.json()["data"])) == (200, 100)
    assert asked > 1
    assert (second.status_code, len(provider.asked)) == (429, asked)


async def test_vectors_of_several_calls_go_to_the_account_that_has_room() -> None:
    config = attrs.evolve(Config(), workers=WorkersConfig(health_interval_s=3600.0))
    async with providing(vectors_of) as small, providing(vectors_of) as large:
        entry = {"dialect": "mistral", "credential": {"key": "k"}, "models": ["mistral-embed"]}
        entries = [
            {**entry, "url": small.url, "name": "small", "limits": {"requests_per_minute": 1}},
            {**entry, "url": large.url, "name": "large", "limits": {"requests_per_minute": 50}},
        ]
        found = workers_of(entries, lambda path: Path(path).read_text(), 1 << 16)
        async with Gateway(found, config=config) as gateway:
            await gateway.ready()
            async with gateway.http_client(httpx, base_url="http://gateway", timeout=PATIENCE) as http:
                body = {"model": "mistral-embed", "input": ["Hi"] * 300}
                assert (await http.post("/v1/embeddings", json=body)).status_code == 200

    assert len(small.asked) <= 1
    assert len(large.asked) > 1


async def test_all_models_of_an_entry_are_listed_and_asked_by_their_own_names() -> None:
    config = attrs.evolve(Config(), workers=WorkersConfig(health_interval_s=3600.0))
    models = {"small": "vendor-small", "large": "vendor-large"}
    async with providing(lambda heard: Said(CHAT_FORMATS["xai"].streams["text"])) as provider:
        entry = {"url": provider.url, "name": "p", "dialect": "mistral", "credential": {"key": "k"}, "models": models}
        found = workers_of([entry], lambda path: Path(path).read_text(), 1 << 16)
        async with Gateway(found, config=config) as gateway:
            await gateway.ready()
            async with gateway.http_client(httpx, base_url="http://gateway", timeout=PATIENCE) as http:
                listed = {each["id"] for each in (await http.get("/v1/models")).json()["data"]}
                assert listed >= set(models)
                for name, vendors in models.items():
                    body = {"model": name, "messages": [{"role": "user", "content": "Hi"}]}
                    assert (await http.post("/v1/chat/completions", json=body)).status_code == 200
                    assert provider.asked[-1].json["model"] == vendors


async def test_the_account_has_what_the_entry_that_answered_costs() -> None:
    """Of the 12 tokens of the prompt 3 were in the cache and 2 were written there: each is paid once, by its kind."""
    ledger = LedgerConfig(enabled=True, url="memory:", write_s=3600.0)
    config = attrs.evolve(Config(), workers=WorkersConfig(health_interval_s=3600.0), ledger=ledger)
    price = {"input": "1000", "cached": "100", "written": "2000", "output": "10000"}
    async with providing(script(FORM, "text")) as dear, providing(script(FORM, "text")) as free:
        (one,) = specs(url=dear.url, name="dear", price=price)
        (two,) = specs(url=free.url, name="untold")
        async with Gateway([one, two], config=config) as gateway:
            await gateway.ready()
            async with gateway.http_client(httpx, base_url="http://gateway", timeout=PATIENCE) as http:
                path, body = MESSAGES.asked(MESSAGES.body("text"), stream=False)
                for each in (dear, free):
                    other = free if each is dear else dear
                    each.script, other.script = script(FORM, "text"), script(FORM, "overloaded")
                    assert (await http.post(path, json=body)).status_code == 200
            found = gateway.services.running.ledger
            assert found is not None
            rows = (await found.read(UsageQuery((0, 10**7), by=("worker",)))).data
    costs = {each.worker: (each.cost_usd, each.unpriced_requests, each.prompt_tokens) for each in rows}
    assert costs["dear/m"] == ("0.101300", 0, 12)  # 7 x 1000 + 3 x 100 + 2 x 2000 + 9 x 10000 for a million
    assert costs["untold/m"] == ("0.000000", 1, 12)
