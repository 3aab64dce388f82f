"""Faults of the gateway itself, at the places where a request holds something: all of it is given back."""

from typing import Any

import pytest
from tests.gateway.conftest import in_process, settled

from smg_core.hooks import RequestFinished
from smg_core.serving import inference
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

TURN = {"role": "user", "content": "Hi"}
ASKED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "sim", "messages": [TURN], "max_tokens": 3},
    "/v1/completions": {"model": "sim", "prompt": "Hi", "max_tokens": 3},
    "/v1/responses": {"model": "sim", "input": "Hi", "max_output_tokens": 16},
    "/v1/messages": {"model": "sim", "messages": [TURN], "max_tokens": 3},
    "/v1beta/models/sim:generateContent": {"contents": [{"parts": [{"text": "Hi"}]}]},
    "/v1beta/models/sim:streamGenerateContent": {"contents": [{"parts": [{"text": "Hi"}]}]},
}


def broken(*_: Any, **__: Any) -> Any:
    raise ValueError("a fault of the gateway's own")


@pytest.mark.parametrize("place", ["answer_to", "Run", "Terms"])
async def test_a_fault_of_the_gateways_own_leaves_nothing_in_flight(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with in_process(SimulatorConfig(seed=1)) as house:
        monkeypatch.setattr(inference, place, broken)
        statuses = {path: (await house.http.post(path, json=body)).status_code for path, body in ASKED.items()}
        monkeypatch.undo()
        await settled(house)
        ends = {each.outcome for each in house.observer.of(RequestFinished)}
        again = await house.chat(max_tokens=3)

    assert statuses == dict.fromkeys(ASKED, 500)
    assert ends == {"error"}
    assert again.status_code == 200


async def test_a_conversation_is_free_again_whatever_becomes_of_a_request_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with in_process(SimulatorConfig(seed=1)) as house:
        conversation = (await house.http.post("/v1/conversations", json={})).json()["id"]
        asked = {**ASKED["/v1/responses"], "conversation": conversation}
        late = await house.http.post("/v1/responses", json=asked, headers={"x-smg-connect-timeout": "never"})
        for place in ("answer_to", "Run", "Terms"):
            with monkeypatch.context() as patch:
                patch.setattr(inference, place, broken)
                assert (await house.http.post("/v1/responses", json=asked)).status_code == 500
            assert (await house.http.post("/v1/responses", json=asked)).status_code == 200

    assert late.status_code == 400
