"""A gateway without limits or a ledger loads nothing of them, and its requests make no call for them."""

import subprocess
import sys
from collections import Counter
from types import FrameType

import pytest
from tests.gateway.conftest import in_process

from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

PROGRAM = """
import asyncio, sys
import httpx
from smg_core import Gateway
from smg_simulator.engine.engine import SimulatorConfig

async def main():
    async with Gateway.simulated(SimulatorConfig(seed=1)) as gateway:
        async with gateway.http_client(httpx, base_url="http://gateway") as http:
            asked = {"model": "sim", "messages": [{"role": "user", "content": "Hello"}]}
            answer = await http.post("/v1/chat/completions", json=asked)
            print(answer.status_code)

asyncio.run(main())
rooms = ("smg_core.limits", "smg_core.ledger.", "smg_core.queueing.", "smg_core.serving.limiting", "smg_core.serving.accounting")
settings = ("smg_core.ledger.settings", "smg_core.queueing.settings")
print(*(name for name in sys.modules if name.startswith(rooms) and name not in settings))
"""


@pytest.mark.full
def test_no_module_of_limits_and_of_the_ledger_is_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["200"]


async def test_a_plain_request_makes_the_calls_of_its_lease_and_no_other() -> None:
    made: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, _: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module in ("smg_core.lease", "smg_core.serving.admission"):
            made[frame.f_code.co_name] += 1

    async with in_process(SimulatorConfig(seed=1)) as house:
        await house.chat()
        sys.setprofile(profile)
        try:
            answer = await house.chat()
        finally:
            sys.setprofile(None)

    assert answer.status_code == 200
    assert made == {"check_room": 1, "admit": 1, "__init__": 1, "settle": 1, "release": 1}
