"""What an entry of a provider says of its limits and its prices, in a gateway before two accounts of one model."""

import asyncio
from pathlib import Path

import attrs
import httpx
import pytest
from tests.providers.answers import FORMATS, script
from tests.providers.client_apis import APIS
from tests.providers.fake import Said, providing
from tests.shared import PATIENCE

from smg_core import Config, Gateway
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
    (spec,) = specs(limits={"in_flight": 2, "waiting_tokens": 9}, price={"input": "3", "output": 15.5})

    assert (spec.most_in_flight, spec.most_waiting_tokens) == (2, 9)
    assert spec.price == (("input", "3"), ("output", "15.5"))


@pytest.mark.parametrize(
    "fields",
    [{"limits": {"in_flight": -1}}, {"limits": {"inflight": 1}}, {"price": {"inputs": 1}}, {"price": {"input": "x"}}],
)
def test_what_makes_no_sense_is_refused_at_the_start(fields: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        specs(**fields)


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
