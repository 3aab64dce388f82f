"""The npm package `@anthropic-ai/sdk`: each case is a function of anthropic_sdk.mjs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from tests.clients.gateway import run_case, scripted, serving, thoughtful_template

from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

CLIENT = "@anthropic-ai/sdk"
PROGRAM = Path(__file__).with_name("anthropic_sdk.mjs")
TEXT = scripted(("", Reply("Good day to you.")))
TWICE = (("look", {"city": "Paris"}), ("look", {"city": "Rome"}))
LOOK = scripted(("SUNNY-9", Reply("Both are sunny.")), ("", Reply(reasoning="I must look at both.", tool_calls=TWICE)))

Saw = Callable[[str, object], None]


@pytest.mark.parametrize(
    ("case", "script", "expected"),
    [
        pytest.param("whole", TEXT, {"text": "Good day to you.", "stop": "end_turn", "id": True}, id="create"),
        pytest.param(
            "streamed", TEXT, {"text": "Good day to you.", "same": True, "stop": "end_turn"}, id="streaming helper"
        ),
        pytest.param("toolRunner", LOOK, {"text": "Both are sunny."}, id="tool runner with parallel calls"),
        pytest.param("counted", TEXT, {"same": True}, id="countTokens is what the request costs"),
        pytest.param("models", TEXT, {"found": ["sim"]}, id="models listed"),
    ],
)
async def test_the_sdk_gets_its_answer(
    npm: Path, case: str, script: SimulatorConfig, expected: dict[str, Any], record_property: Saw
) -> None:
    async with serving(script) as served:
        assert await run_case(npm, PROGRAM, served, case) == expected
        record_property("seen", f"{len(served.exchanges)} requests")


async def test_thinking_survives_a_turn_of_tools(npm: Path, tmp_path: Path, record_property: Saw) -> None:
    async with serving(LOOK, "--tokenizer-chat-template", thoughtful_template(tmp_path)) as served:
        found = await run_case(npm, PROGRAM, served, "tools")
        first, second = served.prompts()

    assert (found["calls"], found["signed"], found["text"].strip()) == (2, [True], "Both are sunny.")
    assert second.count("I must look at both.") == 1
    assert "I must look at both." not in first
    record_property("seen", "2 calls, a signed block of thinking that is before the model again")


async def test_a_refusal_has_its_class_type_and_request_id(npm: Path, record_property: Saw) -> None:
    async with serving(TEXT) as served:
        found = await run_case(npm, PROGRAM, served, "refused")
        assert len(served.exchanges) == 1

    assert found == {"kind": "BadRequestError", "status": 400, "type": "invalid_request_error", "id": True}
    record_property("seen", "1 request, BadRequestError with type and request id")


async def test_an_overloaded_gateway_is_asked_three_times_by_its_retry_after(npm: Path, record_property: Saw) -> None:
    async with serving(TEXT) as served:
        await served.engine.stop()
        found = await run_case(npm, PROGRAM, served, "busy")

    assert found == {"kind": "OverloadedError", "status": 529, "type": "overloaded_error"}
    statuses = [each.status for each in served.exchanges]
    assert len(statuses) == 3
    assert set(statuses) <= {503, 529}  # the engine was lost; once that is known, no worker is ready
    assert all(int(each.answer["retry-after"]) >= 1 for each in served.exchanges)
    record_property("seen", f"statuses {statuses}, each told when to come again")


async def test_a_stream_that_breaks_off_raises_behind_its_text(npm: Path, record_property: Saw) -> None:
    slow = Timing(decode_rate=5)  # so that its first words have left before it breaks off
    async with serving(attrs.evolve(TEXT, faults=(Fault("cut", after=3),), timing=slow)) as served:
        found = await run_case(npm, PROGRAM, served, "brokenOff")

    assert found["raised"]
    assert found["text"]
    assert "Good day to you.".startswith(found["text"])
    record_property("seen", f"{found['text']!r}, then APIError")
