"""Gateways that were given one store by its name share its queues: each works on what asks for models that it serves."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import openai
import pytest
from tests.gateway.conftest import House, in_process
from tests.gateway.test_batches import BRISK, QUICK, batch_of, line, openai_of, over, results
from tests.shared import PATIENCE

from smg_core import Config
from smg_core.batches.served_elsewhere import served_names
from smg_core.history.settings import HistoryConfig
from smg_core.http.settings import ModelConfig, ResponsesConfig
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.clockwork import Timing

pytestmark = pytest.mark.anyio

SOON = ResponsesConfig(poll_s=0.02, lease_s=1.0)


@asynccontextmanager
async def sharing(
    tmp_path: Any,
    name: str,
    says: str = "Yes.",
    aliases: tuple[str, ...] = (),
    timing: Timing | None = None,
    lease_s: float = 0.5,
    **bounds: Any,
) -> AsyncIterator[tuple[House, openai.AsyncOpenAI]]:
    """A gateway with one model, called `name`, and the store of all."""
    config = Config(
        batches=attrs.evolve(BRISK, lease_s=lease_s, **bounds),
        history=HistoryConfig(url=f"sqlite:///{tmp_path}/shared.db"),
        model=ModelConfig(name=name, aliases=aliases),
        responses=SOON,
    )
    simulator = attrs.evolve(QUICK, rules=(Rule((), Reply(says)),), timing=timing or QUICK.timing)
    async with in_process(simulator, config=config) as house, openai_of(house) as client:
        yield house, client


@pytest.mark.full
async def test_a_batch_is_worked_on_by_the_gateways_that_serve_its_models(tmp_path: Any) -> None:
    content = b"".join(line(f"{model}{number}", model=model) for number in range(6) for model in ("red", "blue"))
    async with sharing(tmp_path, "red", "I am red.") as (_, one), sharing(tmp_path, "blue", "I am blue."):
        done = await over(one, (await batch_of(one, content)).id)
        found = await results(one, done.output_file_id)
    assert done.request_counts.to_dict() == {"total": 12, "completed": 12, "failed": 0}
    for custom_id, each in found.items():
        said = each["response"]["body"]["choices"][0]["message"]["content"]
        assert said == f"I am {custom_id.rstrip('0123456789')}."


@pytest.mark.full
async def test_a_gateway_without_the_model_leaves_a_batch_to_one_that_comes_later(tmp_path: Any) -> None:
    async with sharing(tmp_path, "red", absence_s=60.0, lease_s=60.0) as (_, one):
        made = await batch_of(one, line("a", model="azure"))
        async with sharing(tmp_path, "blue", aliases=("azu*=blue",), lease_s=60.0) as (other, _):
            done = await over(one, made.id)
            assert len(other.engine.requests) == 1
    assert done.request_counts.completed == 1


@pytest.mark.full
async def test_a_model_that_no_gateway_serves_is_an_error_of_its_requests(tmp_path: Any) -> None:
    async with sharing(tmp_path, "red") as (_, one), sharing(tmp_path, "blue"):
        done = await over(one, (await batch_of(one, line("a", model="red") + line("b", model="none"))).id)
        (wrong,) = (await results(one, done.error_file_id)).values()
    assert done.request_counts.to_dict() == {"total": 2, "completed": 1, "failed": 1}
    assert (wrong["custom_id"], wrong["response"]["status_code"]) == ("b", 404)


@pytest.mark.full
async def test_an_answer_in_the_background_is_made_by_the_gateway_that_serves_its_model(tmp_path: Any) -> None:
    async with sharing(tmp_path, "red", "word " * 3000, timing=Timing(decode_rate=1)) as (_, one):
        left = await one.responses.create(model="red", input="Hello", background=True)
    async with sharing(tmp_path, "blue") as (blue, other):
        own = await other.responses.create(model="blue", input="Hello", background=True)
        assert (await ended(other, own.id)).status == "completed"  # what waited longer was looked at before
        assert (await other.responses.retrieve(left.id)).status in ("queued", "in_progress")
        assert len(blue.engine.requests) == 1
        async with sharing(tmp_path, "red", "I am red."):
            assert (await ended(other, left.id)).output_text == "I am red."
        assert len(blue.engine.requests) == 1


async def ended(client: openai.AsyncOpenAI, id: str) -> Any:
    async with asyncio.timeout(PATIENCE):
        while (found := await client.responses.retrieve(id)).status in ("queued", "in_progress"):
            await asyncio.sleep(0.02)
    return found


def test_the_names_of_a_model_are_those_that_lead_to_it() -> None:
    aliases = ("gpt-*=red", "acme:boss=gpt-4", "old=blue", "acme:own=red")
    assert served_names(["red"], aliases, ["both=red:9,blue:1", "far=both:1,x:1", "none=blue:1"]) == (
        "both", "far", "gpt-*", "own", "red"
    )  # fmt: skip
    assert json.dumps(served_names([], aliases, ["both=red:9,blue:1"])) == "[]"
