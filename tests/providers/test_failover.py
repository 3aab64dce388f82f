"""Two accounts at one provider: where one refuses, the other is asked, unless it would say the same."""

import asyncio

import attrs
import httpx
import pytest
from tests.providers.answers import ERRORS, FORMATS, KEY, script
from tests.providers.client_apis import APIS
from tests.providers.fake import Said, providing

from smg_core import Config, Gateway
from smg_core.workers.settings import BreakerConfig, WorkersConfig
from smg_core.workers.worker import WorkerSpec

pytestmark = pytest.mark.anyio

FINAL = frozenset({"rejected", "too_long"})
"""The classes of refusals that another account would give too."""


@pytest.mark.parametrize("kind", FORMATS)
async def test_another_account_is_asked_where_it_may_do(kind: str) -> None:
    form, body = FORMATS[kind], APIS["Chat Completions"].body("text")
    config = Config(workers=WorkersConfig(health_interval_s=3600.0), breaker=BreakerConfig(failures=0))
    config = attrs.evolve(config, model=attrs.evolve(config.model, served_names=("m",)))
    headers = (("authorization", f"Bearer {KEY}"),)
    async with providing(script(form, "text")) as one, providing(script(form, "text")) as other:
        specs = [
            WorkerSpec(each.url, name=f"account-{at}", dialect=kind, model=form.model, headers=headers)
            for at, each in enumerate((one, other))
        ]
        async with Gateway(specs, config=config) as gateway, gateway.http_client(httpx, base_url="http://g") as http:
            await gateway.ready()
            for case in (*ERRORS, "cut", "in place"):
                one.script = script(form, case) if case != "in place" else lambda _: Said(form.error_in_stream)
                one.heard.clear()
                while not one.asked:  # the other one answers until the policy takes this one
                    answer = await http.post("/v1/chat/completions", json=body)
                assert answer.status_code == (400 if case in FINAL else 200), (case, answer.text)


@pytest.mark.parametrize("kind", FORMATS)
async def test_an_account_at_its_bound_is_left_alone_as_long_as_it_says(kind: str) -> None:
    form, body = FORMATS[kind], APIS["Chat Completions"].body("text")
    config = Config(workers=WorkersConfig(health_interval_s=3600.0), breaker=BreakerConfig(rest_most_s=500.0))
    config = attrs.evolve(config, model=attrs.evolve(config.model, served_names=("m",)))
    headers = (("authorization", f"Bearer {KEY}"),)
    async with providing(script(form, "text")) as one, providing(script(form, "text")) as other:
        specs = [
            WorkerSpec(each.url, name=f"account-{at}", dialect=kind, model=form.model, headers=headers)
            for at, each in enumerate((one, other))
        ]
        async with Gateway(specs, config=config) as gateway, gateway.http_client(httpx, base_url="http://g") as http:
            await gateway.ready()
            said = form.errors["limited"]
            waits = dict.fromkeys(said.headers, "500")
            limited = attrs.evolve(said, body=said.body.replace(b'"7s"', b'"500s"'), headers=waits)
            one.script = lambda heard: form.about(heard.path) if heard.method == "GET" else limited
            one.heard.clear()
            while not one.asked:
                assert (await http.post("/v1/chat/completions", json=body)).status_code == 200
            for at in range(6):
                answer = await http.post("/v1/chat/completions", json={**body, "user": f"another-{at}"})
                assert answer.status_code == 200, answer.text
            assert len(one.asked) == 1


@pytest.mark.parametrize("api", ["Chat Completions", "Messages"])
async def test_where_no_account_has_room_money_or_the_model_the_model_that_stands_in_is_asked(api: str) -> None:
    """Also where an entry allows no more requests in this minute."""
    config = Config(workers=WorkersConfig(health_interval_s=3600.0), breaker=BreakerConfig(failures=0))
    config = attrs.evolve(config, routing=attrs.evolve(config.routing, fallbacks=("m=spare",)))
    form, spare = FORMATS["anthropic"], FORMATS["gemini"]
    headers = (("authorization", f"Bearer {KEY}"),)
    async with providing(script(form, "text")) as one, providing(script(spare, "text")) as other:
        specs = [
            WorkerSpec(
                one.url, dialect="anthropic", model="m", vendor_model=form.model, headers=headers, requests_a_minute=4
            ),
            WorkerSpec(other.url, dialect="gemini", model="spare", vendor_model=spare.model, headers=headers),
        ]
        async with Gateway(specs, config=config) as gateway, gateway.http_client(httpx, base_url="http://g") as http:
            await gateway.ready()
            while len(gateway.services.registry.models) < 2:
                await asyncio.sleep(0.01)
            for asked, case in enumerate(("limited", "unfunded", "no_model", "text", "text"), 1):
                one.script = script(form, case)
                path, body = APIS[api].asked(APIS[api].body("text"), stream=False)
                answer = await http.post(path, json=body)
                assert answer.status_code == 200, (case, answer.text)
                assert len(one.asked) == min(asked, 4)
            assert len(other.asked) == 4
