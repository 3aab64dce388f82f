"""The npm package `@google/genai`: each case is a function of genai_sdk.mjs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.clients.gateway import run_case, scripted, serving

from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

CLIENT = "@google/genai"
PROGRAM = Path(__file__).with_name("genai_sdk.mjs")
SAID = "Good day to you."
TEXT = scripted(("", Reply(SAID)))
TWICE = (("look", {"city": "Paris"}), ("look", {"city": "Rome"}))
LOOK = scripted(("SUNNY-9", Reply("Both are sunny.")), ("", Reply(tool_calls=TWICE)))

Saw = Callable[[str, object], None]


@pytest.mark.parametrize(
    ("case", "script", "expected"),
    [
        pytest.param("whole", TEXT, {"text": SAID, "finish": "STOP"}, id="generateContent"),
        pytest.param("streamed", TEXT, {"text": SAID, "finish": "STOP", "usage": True}, id="generateContentStream"),
        pytest.param("tools", LOOK, {"calls": 2, "text": "Both are sunny."}, id="parallel calls, and their results"),
        pytest.param("chat", TEXT, {"texts": [SAID, SAID], "turns": 4}, id="a chat of two turns"),
        pytest.param("counted", TEXT, {"same": True}, id="countTokens is what the request costs"),
        pytest.param("refused", TEXT, {"raised": True, "status": 404}, id="a model that is not served is ApiError 404"),
    ],
)
async def test_the_sdk_gets_its_answer(
    npm: Path, case: str, script: SimulatorConfig, expected: dict[str, Any], record_property: Saw
) -> None:
    async with serving(script) as served:
        assert await run_case(npm, PROGRAM, served, case) == expected
        record_property("seen", f"{len(served.exchanges)} requests")
