"""Turns of a rollout made of ids: the engine gets exactly the ids that it was sent and gave before, nothing is tokenized anew."""

import json
from typing import Any

import pytest
from tests.gateway.conftest import House, in_process

from smg_core.sse import SseReader
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

ODD = [5, 5, 5, 260, 261, 5, 1000, 300]  # no tokenizer would cut a text like that


async def turn(house: House, ids: list[int], *, stream: bool) -> list[int]:
    """The ids of the answer to a prompt of `ids`."""
    asked: dict[str, Any] = {
        "input_ids": ids,
        "stream": stream,
        "sampling_params": {"max_new_tokens": 9, "ignore_eos": True},
    }
    answer = await house.http.post("/generate", json=asked)
    assert answer.status_code == 200, answer.text
    if not stream:
        return list(answer.json()["output_ids"])
    events = [event.data for event in SseReader().feed(answer.content)]
    return list(json.loads(events[-2])["output_ids"])


@pytest.mark.parametrize("stream", [True, False])
async def test_the_ids_of_a_turn_are_sent_on_as_they_were_in_the_next_one(stream: bool) -> None:
    async with in_process(SimulatorConfig(chained=1000)) as house:
        prompt = list(ODD)
        for number in range(3):
            output = await turn(house, prompt, stream=stream)
            assert list(house.engine.requests[-1].input_ids) == prompt
            assert len(output) == 9
            prompt = [*prompt, *output, 7 + number, *ODD]
