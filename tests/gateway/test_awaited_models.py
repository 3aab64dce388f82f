"""A request for a model that nobody serves yet: every route answers it alike, and by the workers that may still serve it."""

from typing import Any

import httpx
import pytest
from tests.gateway.conftest import eventually
from tests.gateway.test_aliases import ASKED

from smg_core import Config, Gateway
from smg_core.app.app import App
from smg_core.app.inprocess import async_client
from smg_core.auth.base import Head
from smg_core.grants import Grants
from smg_core.http.settings import ModelConfig
from smg_core.request import Caller
from smg_core.testing import FakeClock
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import WorkerSpec

pytestmark = pytest.mark.anyio

AWAY = "grpc://127.0.0.1:9"
JOINING_S = 300.0
CONFIG = Config(
    workers=WorkersConfig(joining_s=JOINING_S), model=ModelConfig(aliases=("gpt-4o=other", "away-alias=named"))
)
POSTED = [
    *ASKED,
    ("/v1/embeddings", {"input": "x"}),
    ("/v1beta/models/{model}:countTokens", {"contents": [{"parts": [{"text": "Hello"}]}]}),
]
VERSIONS: list[dict[str, str]] = [{}, {"anthropic-version": "2023-06-01"}, {"x-goog-api-key": "k"}]


async def by_key(head: Head) -> Caller:
    models = head.headers.get("authorization", "")
    return Caller("acme", grants=Grants(models=((models,),))) if models else Caller("")


async def answers(http: httpx.AsyncClient, model: str, **headers: str) -> set[tuple[bool, str]]:
    """What all routes say of a model: whether it may be asked for again, and the text."""
    found = [
        await http.post(
            path.format(model=model), json={"model": model, **fields} if "{" not in path else fields, headers=headers
        )
        for path, fields in POSTED
    ]
    found += [await http.get(f"/v1/models/{model}", headers={**headers, **version}) for version in VERSIONS]
    found.append(await http.get(f"/v1beta/models/{model}", headers=headers))
    assert {each.status_code for each in found} <= {404, 503, 529}, [
        (each.url, each.status_code, each.text) for each in found
    ]
    return {(each.status_code != 404, said(each.json())) for each in found}


def said(answer: dict[str, Any]) -> str:
    text: str = answer["error"]["message"]
    return text


async def test_beside_ready_workers_an_unknown_model_is_awaited_for_as_long_as_an_engine_may_load() -> None:
    clock = FakeClock()
    gateway = Gateway.simulated(config=CONFIG, clock=clock)
    async with gateway, gateway.http_client(httpx, base_url="http://gateway") as http:
        gone = {(False, "The model 'other' does not exist or you do not have access to it.")}
        assert await answers(http, "gpt-4o") == await answers(http, "other") == gone

        late = gateway.add_worker(WorkerSpec(AWAY, name="late"))
        waits = {(True, "No worker that serves 'other' is ready; 1 worker has not joined yet.")}
        assert await answers(http, "gpt-4o") == await answers(http, "other") == waits
        clock.advance(JOINING_S)

        assert late.state == "joining"
        assert await answers(http, "gpt-4o") == await answers(http, "other") == gone


@pytest.mark.full
async def test_a_worker_whose_model_is_named_is_awaited_for_that_name_alone_and_by_those_alone_who_may_use_it() -> None:
    gateway = Gateway.simulated(config=CONFIG, clock=FakeClock())
    app = App(gateway, by_key)
    async with gateway, async_client(app, base_url="http://gateway") as http:
        gateway.add_worker(WorkerSpec(AWAY, name="late", model="named", adapters=(("lora", "1"),)))
        for name, meant in (
            ("named", "named"),
            ("away-alias", "named"),
            ("lora", "lora"),
            ("named:lora", "named:lora"),
        ):
            waits = {(True, f"No worker that serves '{meant}' is ready; 1 worker has not joined yet.")}
            assert await answers(http, name) == waits
            hidden = await answers(http, name, authorization="sim")
            assert {(again, text.replace(name, "other")) for again, text in hidden} == await answers(http, "other")


async def test_where_no_worker_is_ready_any_model_is_awaited_on_every_route_for_as_long_as_that_is_so() -> None:
    clock = FakeClock()
    gateway = Gateway(
        [WorkerSpec(AWAY, name="one", model="named"), WorkerSpec(AWAY, name="two")], config=CONFIG, clock=clock
    )
    await gateway.start()
    async with gateway.http_client(httpx, base_url="http://gateway") as http:
        clock.advance(10 * JOINING_S)
        await eventually(lambda: all(each.reason for each in gateway.registry))

        waits = {(True, "No worker that serves 'other' is ready; 2 workers have not joined yet.")}
        assert await answers(http, "gpt-4o") == waits
    await gateway.stop()
