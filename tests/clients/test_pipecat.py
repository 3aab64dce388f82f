"""Pipecat's client of OpenAI's Realtime API, in its own environment, in a session with the gateway as it is shipped."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.clients.gateway import run, scripted, serving
from tests.clients.versions import install_apart

from smg_simulator.answers.replies import Reply

CLIENT = "pipecat-ai"
PROGRAM = Path(__file__).with_name("pipecat_realtime.py")
ENDS_IN_S = 180.0
SUNNY = "It is sunny."
ENGINE = scripted(
    ("SUNNY-IN", Reply(SUNNY)), ("Weather", Reply(tool_calls=(("get_weather", {"city": "Paris"}),))), ("", Reply("Hm."))
)

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(ENDS_IN_S + 1800)]
Saw = Callable[[str, object], None]


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder with its Python."""
    return install_apart(CLIENT)


async def test_a_function_is_called_in_a_realtime_session(programs: Path, tmp_path: Path, record_property: Saw) -> None:
    async with serving(ENGINE) as served:
        command = [str(programs / "python"), str(PROGRAM), served.url]
        ended = await run(command, tmp_path, {"HOME": str(tmp_path)}, patience_s=ENDS_IN_S)
        prompts = served.prompts()
    assert ended.status == 0, ended.out + ended.err
    saw = json.loads(ended.out[ended.out.rindex('{"called"') :])
    assert saw == {"called": [{"city": "Paris"}], "said": SUNNY, "errors": []}
    assert "SUNNY-IN-Paris" in prompts[-1]
    record_property("seen", f"{len(prompts)} responses of one session")
