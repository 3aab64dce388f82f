"""What an engine declares of itself decides what it is asked, end to end: nothing that it has not is sent to it."""

from typing import Any

import pytest
from tests.gateway.conftest import in_process

from smg_core.config.config import Config
from smg_core.workers.settings import WorkersConfig
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

NEUTRAL = Config(workers=WorkersConfig(dialect="neutral"))


@pytest.mark.parametrize(
    ("declares", "asked", "param"),
    [
        ({"constraints": ("regex",)}, {"response_format": {"type": "json_object"}}, "response_format"),
        ({"constraints": ()}, {"response_format": {"type": "json_object"}}, "response_format"),
        ({"max_n": 1}, {"n": 2}, "n"),
        ({"max_logprobs": 2}, {"logprobs": True, "top_logprobs": 3}, "top_logprobs"),
    ],
)
async def test_what_an_engine_does_not_declare_is_refused_by_name_and_never_sent(
    declares: dict[str, Any], asked: dict[str, Any], param: str
) -> None:
    async with in_process(SimulatorConfig(**declares), config=NEUTRAL) as house:
        answer = await house.chat(**asked)
        (engine,) = house.gateway.engines

        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == param
        assert list(engine.requests) == []


async def test_what_an_engine_declares_is_asked_of_it() -> None:
    async with in_process(SimulatorConfig(constraints=("json_object",)), config=NEUTRAL) as house:
        answer = await house.chat(response_format={"type": "json_object"})

        assert answer.status_code == 200
