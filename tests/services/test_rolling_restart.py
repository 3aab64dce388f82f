"""Three gateways behind a plain TCP balancer restart one by one: no request is lost, and an answer goes on elsewhere."""

import sys
from pathlib import Path

import pytest

from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "bench"))

from rolling import restarted_under_streams

pytestmark = [pytest.mark.services, pytest.mark.anyio, pytest.mark.timeout(400)]

STORY = SimulatorConfig(rules=(Rule((), Reply("word " * 300)),), timing=Timing(decode_rate=20))


async def test_no_request_is_lost_and_a_response_goes_on_at_another_gateway(tmp_path: Path) -> None:
    async with SimulatedEngine(STORY) as engine:
        lost, followed = await restarted_under_streams(tmp_path, engine.target, streams=24, seconds=1.0)

    assert lost.wrong == []
    assert lost.right >= 3 * 24
    assert [event["sequence_number"] for event in followed.events] == list(range(len(followed.events)))
    assert followed.events[-1]["type"] == "response.completed"
    assert followed.events[-1]["response"]["output"][-1]["content"][0]["text"].split() == ["word"] * 300
