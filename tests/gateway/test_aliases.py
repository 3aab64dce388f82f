"""Names that stand for a model, for all and for one tenant, on every API that takes a model's name."""

from typing import Any

import pytest
from tests.gateway.conftest import in_process

from smg_core import Config
from smg_core.app.app import App
from smg_core.app.inprocess import async_client
from smg_core.auth.base import Head
from smg_core.http.settings import ModelConfig
from smg_core.pipeline.settings import TimeoutsConfig
from smg_core.request import Caller
from smg_simulator.answers.faults import Fault
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

CONFIG = Config(
    model=ModelConfig(aliases=("claude-*=sim",), tenant_aliases=("acme:house=sim", "acme:claude-x=nothing"))
)
SAID: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]
ASKED: list[tuple[str, dict[str, Any]]] = [
    ("/v1/messages", {"messages": SAID, "max_tokens": 5}),
    ("/v1/messages/count_tokens", {"messages": SAID}),
    ("/v1/chat/completions", {"messages": SAID, "max_tokens": 5}),
    ("/v1/completions", {"prompt": "Hello", "max_tokens": 5}),
    ("/v1/responses", {"input": "Hello", "max_output_tokens": 16, "store": False}),
    ("/v1beta/models/{model}:generateContent", {"contents": [{"parts": [{"text": "Hello"}]}]}),
    ("/tokenize", {"messages": SAID}),
    ("/detokenize", {"tokens": [1]}),
]


async def by_key(head: Head) -> Caller:
    return Caller(head.headers.get("authorization", ""))


async def test_a_name_is_answered_by_the_model_it_stands_for_and_a_tenants_own_by_nobody_elses() -> None:
    async with (
        in_process(SimulatorConfig(), config=CONFIG) as house,
        async_client(App(house.gateway, by_key), base_url="http://gateway") as http,
    ):
        for path, fields in ASKED:
            for name, tenant, status in (
                ("claude-y", "", 200),
                ("claude-y", "acme", 200),
                ("claude-x", "acme", 404),
                ("house", "acme", 200),
                ("house", "umbrella", 404),
                ("house", "", 404),
            ):
                given = {"authorization": tenant} if tenant else {}
                body = fields if "{model}" in path else {"model": name, **fields}
                answer = await http.post(path.format(model=name), json=body, headers=given)
                assert answer.status_code == status, (path, name, tenant, answer.text)
                for version in ({}, {"anthropic-version": "2023-06-01"}, {"x-goog-api-key": "k"}):
                    told = await http.get(f"/v1/models/{name}", headers={**given, **version})
                    assert told.status_code == status, (name, tenant, told.text)
                    assert status != 200 or name in told.text


async def test_the_time_outs_of_a_model_hold_under_a_name_that_stands_for_it() -> None:
    config = Config(model=CONFIG.model, timeouts=TimeoutsConfig(models=("sim=request:0.2",)))
    slow = SimulatorConfig(faults=(Fault("stall"),))
    async with in_process(slow, config=config) as house:
        answer = await house.http.post("/v1/messages", json={"model": "claude-y", "messages": SAID, "max_tokens": 2000})
    assert answer.status_code == 504, answer.text
    assert answer.json()["error"]["type"] == "timeout_error"
