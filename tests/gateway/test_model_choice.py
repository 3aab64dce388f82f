"""Names that are split between models, and models that stand in for others, on every API; with real engines."""

import asyncio
import re
from typing import Any

import attrs
import pytest
from tests.gateway.fleet import Member, fleet
from tests.gateway.test_aliases import ASKED, SAID

from smg_core import Config
from smg_core.app.app import App
from smg_core.app.inprocess import async_client
from smg_core.auth.base import Head
from smg_core.grants import Grants
from smg_core.hooks import FellBack, RequestFinished, WorkerPicked
from smg_core.http.settings import ModelConfig, ServerConfig
from smg_core.request import Caller
from smg_core.routing.settings import RoutingConfig
from smg_simulator.answers.faults import Fault
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

VECTORS = re.compile("(?i)embed|rerank|score|classify|audio|images|moderations")
"""Routes of vectors are no part of this: those of another model cannot stand in, since they cannot be compared."""
GENERATING = [each for each in ASKED if "token" not in each[0]]


def routed(**settings: Any) -> Config:
    return Config(routing=RoutingConfig(retries=0, **settings))


def member(name: str, **settings: Any) -> Member:
    return Member(name, engine=SimulatorConfig(model=name, **settings), more={"model": name})


def asking_of(path: str, fields: dict[str, Any], model: str, *, stream: bool) -> tuple[str, dict[str, Any]]:
    """Path and body of a request of `GENERATING` to a model."""
    if "{model}" in path:
        made = path.replace("generateContent", "streamGenerateContent") if stream else path
        return made.format(model=model), fields
    return path, {"model": model, **fields, **({"stream": True} if stream else {})}


async def test_every_api_shares_a_name_out_and_says_the_name_that_was_asked_for() -> None:
    config = routed(splits=("house=one:1,two:1",), split_header="x-canary")
    async with fleet(member("one"), member("two"), config=config) as house:
        for path, fields in ASKED:
            for wanted in ("one", "two"):
                body = fields if "{model}" in path else {"model": "house", **fields}
                answer = await house.http.post(path.format(model="house"), json=body, headers={"x-canary": wanted})
                assert answer.status_code == 200, (path, answer.text)
                if (path, fields) in GENERATING:
                    assert house.observer.of(WorkerPicked)[-1].worker == wanted, path
                    assert house.observer.of(RequestFinished)[-1].served == wanted
                    assert "house" in answer.text, (path, answer.text)


@pytest.mark.parametrize(("stream", "after"), [(False, 0), (False, 3), (True, 0)])
async def test_a_model_whose_engine_fails_is_stood_in_for_by_the_next_on_every_api(stream: bool, after: int) -> None:
    config = routed(fallbacks=("one=two",))
    broken = member("one", faults=(Fault("error", after=after),) * 32)
    async with fleet(broken, member("two"), config=config) as house:
        for path, fields in GENERATING:
            path, body = asking_of(path, fields, "one", stream=stream)
            answer = await house.http.post(path, json=body)
            assert answer.status_code == 200, (path, answer.text)
            assert "error" not in answer.text.replace('"error":null', ""), answer.text
            assert house.observer.of(WorkerPicked)[-1].worker == "two"
        assert {(each.model, each.to, each.reason) for each in house.observer.of(FellBack)} == {
            ("one", "two", "failed")
        }


async def test_a_prompt_that_is_too_long_goes_to_the_model_that_takes_it() -> None:
    config = routed(fallbacks=("short=long",))
    async with fleet(member("short", context_length=64), member("long"), config=config) as house:
        body = {"model": "short", "messages": [{"role": "user", "content": "word " * 200}], "max_tokens": 5}
        answer = await house.http.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        assert [each.reason for each in house.observer.of(FellBack)] == ["context"]


async def test_the_first_models_error_is_told_where_none_can_answer() -> None:
    config = routed(fallbacks=("short=broken",))
    broken = member("broken", faults=(Fault("error"),) * 4)
    async with fleet(member("short", context_length=64), broken, config=config) as house:
        body = {"model": "short", "messages": [{"role": "user", "content": "word " * 200}], "max_tokens": 5}
        answer = await house.http.post("/v1/chat/completions", json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")


async def test_an_error_of_the_request_itself_is_no_reason_to_ask_another() -> None:
    async with fleet(member("one"), member("two"), config=routed(fallbacks=("one=two",))) as house:
        body = {"model": "one", "messages": SAID, "max_tokens": 5, "logit_bias": {"99999999": 1}}
        answer = await house.http.post("/v1/chat/completions", json=body)
        assert answer.status_code == 400, answer.text
        assert house.observer.of(FellBack) == []


async def test_a_name_goes_through_aliases_and_splits_to_a_model_and_its_chain_on_every_api() -> None:
    routing = RoutingConfig(retries=0, splits=("house=one:1",), fallbacks=("one=spare,two",))
    config = Config(routing=routing, model=ModelConfig(aliases=("gpt-*=house", "spare=nowhere")))
    async with fleet(member("one", faults=(Fault("error"),) * 32), member("two"), config=config) as house:
        for path, fields in GENERATING:
            body = fields if "{model}" in path else {"model": "gpt-x", **fields}
            answer = await house.http.post(path.format(model="gpt-x"), json=body)
            assert answer.status_code == 200, (path, answer.text)
            assert "gpt-x" in answer.text
            assert house.observer.of(RequestFinished)[-1].served == "two"
        assert (await house.http.get("/v1/models/gpt-x")).status_code == 200


async def test_a_model_that_no_worker_serves_any_more_is_stood_in_for() -> None:
    async with fleet(member("one"), member("two"), config=routed(fallbacks=("one=two",))) as house:
        await house.gateway.services.running.roster.remove("one")
        while house.gateway.registry.get("one") is not None:
            await asyncio.sleep(0)
        answer = await house.http.post("/v1/chat/completions", json={"model": "one", "messages": SAID})
        assert (answer.status_code, answer.json()["model"]) == (200, "one")
        assert [each.reason for each in house.observer.of(FellBack)] == ["no_worker"]
        answer = await house.http.post("/v1/chat/completions", json={"model": "three", "messages": SAID})
        assert answer.status_code == 404


@pytest.mark.full
async def test_every_route_that_takes_a_model_gets_the_one_that_stands_in() -> None:
    config = attrs.evolve(routed(fallbacks=("one=two",)), server=ServerConfig(parse_routes=True))
    config = attrs.evolve(config, model=ModelConfig(aliases=("gpt-*=one",)))
    async with fleet(member("one"), member("two"), config=config) as house:
        document = (await house.http.get("/openapi.json")).json()
        asked = {
            path: [each["value"] for each in examples(operation).values()]
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
            if method == "post" and takes_a_model(document, path, operation) and not VECTORS.search(path)
        }
        await house.gateway.services.running.roster.remove("one")
        while house.gateway.registry.get("one") is not None:
            await asyncio.sleep(0)
        for path, bodies in asked.items():
            for name in ("one", "gpt-x"):
                for body in bodies:
                    given = {} if "{model}" in path else {"model": name}
                    asking = {key: value for key, value in body.items() if "parser" not in key}
                    answer = await house.http.post(
                        re.sub(r"{\w+}", "google", path.replace("{model}", name)),
                        json={**asking, **given},
                    )
                    assert answer.status_code == 200, (path, name, answer.text)

    assert asked.keys() >= {path for path, _ in ASKED} | {"/parse/reasoning"}
    assert all(asked.values())


def examples(operation: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = operation["requestBody"]["content"]["application/json"].get("examples", {})
    return found


def takes_a_model(document: dict[str, Any], path: str, operation: dict[str, Any]) -> bool:
    """Whether the path or the body of an operation names a model."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return False
    named = content["schema"].get("$ref", "").rpartition("/")[2]
    body = document["components"]["schemas"].get(named, content["schema"])
    return "{model}" in path or "model" in body.get("properties", {})


async def test_routes_that_ask_no_engine_go_by_the_share_that_a_header_names_and_by_the_model_that_takes_the_prompt() -> (
    None
):
    config = routed(splits=("house=short:1,long:1",), split_header="x-canary", fallbacks=("short=long",))
    async with fleet(member("short", context_length=64), member("long", context_length=4096), config=config) as house:

        async def length(text: str, model: str, canary: str = "") -> int:
            answer = await house.http.post(
                "/tokenize", json={"model": model, "prompt": text}, headers={"x-canary": canary}
            )
            assert answer.status_code == 200, answer.text
            return int(answer.json()["max_model_len"])

        assert [await length("Hello", "house", each) for each in ("short", "long")] == [64, 4096]
        assert [await length(text, "short") for text in ("Hello", "word " * 200)] == [64, 4096]


async def test_a_model_without_a_ready_worker_is_stood_in_for_and_counts_itself_where_nobody_does() -> None:
    config = routed(fallbacks=("one=two",))
    async with fleet(member("one", context_length=64), member("two", context_length=4096), config=config) as house:

        async def length(model: str) -> int:
            answer = await house.http.post("/tokenize", json={"model": model, "prompt": "Hello"})
            assert answer.status_code == 200, answer.text
            return int(answer.json()["max_model_len"])

        house.gateway.drain_worker("one")
        lengths = [await length("one")]
        house.gateway.drain_worker("two")
        lengths += [await length("one"), await length("two")]

    assert lengths == [4096, 64, 4096]


async def test_a_key_gets_no_model_by_the_chain_of_a_name_that_is_not_its_own() -> None:
    async def identify(head: Head) -> Caller:
        return Caller("acme", grants=Grants(models=(("two",),)))

    async with (
        fleet(member("one"), member("two"), config=routed(fallbacks=("one=two",))) as house,
        async_client(App(house.gateway, identify), base_url="http://gateway") as http,
    ):
        for path, fields in ASKED:
            body = fields if "{model}" in path else {"model": "one", **fields}
            answer = await http.post(path.format(model="one"), json=body)
            assert answer.status_code == 404, (path, answer.text)
        answer = await http.post("/v1/chat/completions", json={"model": "two", "messages": SAID})
        assert answer.status_code == 200, answer.text


async def test_a_tenants_own_name_has_the_fallbacks_of_its_model_and_is_nobody_elses() -> None:
    async def identify(head: Head) -> Caller:
        return Caller(head.headers.get("authorization", ""))

    config = attrs.evolve(
        routed(fallbacks=("one=two",)), model=ModelConfig(tenant_aliases=("acme:house=one", "umbrella:house=nothing"))
    )
    async with (
        fleet(member("one", faults=(Fault("error"),) * 64), member("two"), config=config) as house,
        async_client(App(house.gateway, identify), base_url="http://gateway") as http,
    ):
        for path, fields in ASKED:
            body = fields if "{model}" in path else {"model": "house", **fields}
            for tenant, status in (("acme", 200), ("umbrella", 404), ("", 404)):
                given = {"authorization": tenant} if tenant else {}
                answer = await http.post(path.format(model="house"), json=body, headers=given)
                assert answer.status_code == status, (path, tenant, answer.text)
