"""The npm package `openai`: each case is a function of openai_sdk.mjs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from tests.clients.gateway import run_case, scripted, serving

from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

CLIENT = "openai"
PROGRAM = Path(__file__).with_name("openai_sdk.mjs")
TEXT = scripted(("", Reply("Good day to you.")))
LOOK = scripted(("SUNNY-9", Reply("It is sunny.")), ("", Reply(tool_calls=(("look", {"city": "Paris"}),))))
LOOK_TWICE = scripted(
    ("SUNNY-9", Reply("Both are sunny.")),
    ("", Reply(tool_calls=(("look", {"city": "Paris"}), ("look", {"city": "Rome"})))),
)

Saw = Callable[[str, object], None]


@pytest.mark.parametrize(
    ("case", "script", "expected"),
    [
        pytest.param(
            "responsesWhole", TEXT, {"text": "Good day to you.", "status": "completed"}, id="Responses, whole"
        ),
        pytest.param(
            "responsesStreamed",
            TEXT,
            {"text": "Good day to you.", "same": True, "status": "completed"},
            id="Responses, streaming helper",
        ),
        pytest.param("responsesTools", LOOK, {"calls": 1, "text": "It is sunny."}, id="Responses, a tool"),
        pytest.param(
            "responsesTools",
            LOOK_TWICE,
            {"calls": 2, "text": "Both are sunny."},
            id="Responses, a tool twice in one turn",
        ),
        pytest.param("responsesParsed", SimulatorConfig(seed=1), {"age": "number"}, id="Responses, parsed by a schema"),
        pytest.param("chatTools", LOOK, {"text": "It is sunny."}, id="Chat, runTools"),
        pytest.param(
            "chatToolsStreamed",
            LOOK_TWICE,
            {"text": "Both are sunny."},
            id="Chat, runTools streamed with parallel calls",
        ),
        pytest.param("models", TEXT, {"found": ["sim"]}, id="models listed"),
    ],
)
async def test_the_sdk_gets_its_answer(
    npm: Path, case: str, script: SimulatorConfig, expected: dict[str, Any], record_property: Saw
) -> None:
    async with serving(script) as served:
        assert await run_case(npm, PROGRAM, served, case) == expected
        record_property("seen", f"{len(served.exchanges)} requests")


@pytest.mark.parametrize("case", ["chatWhole", "chatStreamed"])
async def test_chat_has_text_and_usage(npm: Path, case: str, record_property: Saw) -> None:
    async with serving(TEXT) as served:
        found = await run_case(npm, PROGRAM, served, case)

    assert (found["text"], found.get("same", True)) == ("Good day to you.", True)
    assert found["total"] > 5
    record_property("seen", f"usage {found['total']} tokens")


async def test_a_refusal_has_its_class_parameter_and_request_id(npm: Path, record_property: Saw) -> None:
    async with serving(TEXT) as served:
        found = await run_case(npm, PROGRAM, served, "refused")
        assert len(served.exchanges) == 1

    assert found == {"kind": "BadRequestError", "status": 400, "param": "messages[0].role", "id": True}
    record_property("seen", "1 request, BadRequestError with param and request id")


async def test_a_gateway_without_an_engine_is_asked_three_times_by_its_retry_after(
    npm: Path, record_property: Saw
) -> None:
    async with serving(TEXT) as served:
        await served.engine.stop()
        found = await run_case(npm, PROGRAM, served, "busy")

    assert found == {"kind": "InternalServerError", "status": 503}
    assert [each.status for each in served.exchanges] == [503] * 3
    assert all(int(each.answer["retry-after"]) >= 1 for each in served.exchanges)
    record_property("seen", "3 requests, each told when to come again")


async def test_a_stream_that_breaks_off_raises_behind_its_text(npm: Path, record_property: Saw) -> None:
    slow = Timing(decode_rate=5)  # so that its first words have left before it breaks off
    async with serving(attrs.evolve(TEXT, faults=(Fault("cut", after=3),), timing=slow)) as served:
        found = await run_case(npm, PROGRAM, served, "brokenOff")

    assert found["raised"]
    assert found["text"]
    assert "Good day to you.".startswith(found["text"])
    record_property("seen", f"{found['text']!r}, then APIError")
