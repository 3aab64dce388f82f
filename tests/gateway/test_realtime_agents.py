"""openai-agents' realtime session as a client: text turns, a function tool, an interruption, on a simulated model."""

import json
from typing import Any

import pytest
from agents import function_tool
from agents.realtime import RealtimeAgent, RealtimeRunner
from tests.gateway.conftest import House, over_http
from tests.gateway.gemini_live import live_server
from tests.gateway.test_realtime_relayed import CALM

from smg_core.workers.worker import WorkerSpec
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

CALL = Reply(tool_calls=(("get_weather", {"city": "Paris"}),))


@function_tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"SUNNY-IN-{city}"


def runner(*tools: Any) -> RealtimeRunner:
    agent = RealtimeAgent(name="Ada", instructions="Be brief.", tools=list(tools))
    settings: Any = {"model_name": "sim", "output_modalities": ["text"]}
    return RealtimeRunner(agent, config={"model_settings": settings, "tracing_disabled": True})


def where(house: House) -> Any:
    return {"api_key": "x", "url": house.url.replace("http", "ws", 1) + "/v1/realtime?model=sim"}


async def until_end(session: Any, ends: int = 1) -> list[Any]:
    """The session's events up to the end of as many turns."""
    events: list[Any] = []
    async for event in session:
        assert event.type != "error", event
        events.append(event)
        raw = event.data if event.type == "raw_model_event" else None
        if raw is not None and raw.type == "turn_ended":
            ends -= 1
            if not ends:
                break
    return events


async def test_an_agent_talks_in_text() -> None:
    async with over_http(SimulatorConfig(seed=1, replies=(Reply("Hello, I am Ada."),))) as house:
        session = await runner().run(model_config=where(house))
        async with session:
            await session.send_message("Who are you?")
            events = await until_end(session)
    last = [event.history for event in events if event.type == "history_updated"][-1]
    texts = [part.text for item in last if item.role == "assistant" for part in item.content]
    assert texts == ["Hello, I am Ada."]


async def test_an_agents_tool_is_called_and_its_output_answered() -> None:
    replies = (CALL, Reply("It is sunny."))
    async with over_http(SimulatorConfig(seed=1, replies=replies)) as house:
        session = await runner(get_weather).run(model_config=where(house))
        async with session:
            await session.send_message("Weather in Paris?")
            events = await until_end(session, 2)
        seen = house.engine.requests[-1]
        prompt = house.engine.engine.vocabulary.decode(list(seen.input_ids), skip_special_tokens=False)
    (ended,) = [event for event in events if event.type == "tool_end"]
    assert (ended.tool.name, json.loads(ended.arguments), ended.output) == (
        "get_weather",
        {"city": "Paris"},
        "SUNNY-IN-Paris",
    )
    assert "SUNNY-IN-Paris" in prompt


async def test_an_agent_with_a_tool_talks_to_gemini_live() -> None:
    @function_tool
    def add(a: int, b: int) -> str:
        """Adds two numbers."""
        return f"SUM-{a + b}"

    async with live_server() as server:
        spec = WorkerSpec(server.url, dialect="gemini-live", model="sim", vendor_model="gemini-live-1")
        async with over_http(workers=(spec,), config=CALM) as house:
            agent = RealtimeAgent(name="Ada", instructions="Be brief.", tools=[add])
            settings: Any = {"model_name": "sim"}
            with_settings = RealtimeRunner(agent, config={"model_settings": settings, "tracing_disabled": True})
            async with await with_settings.run(model_config=where(house)) as session:
                await session.send_message("2 + 3?")
                events = await until_end(session, 2)
    (ended,) = [event for event in events if event.type == "tool_end"]
    assert ended.output == "SUM-5"
    (answer,) = server.of("toolResponse")
    assert answer["functionResponses"][0]["response"] == {"output": "SUM-5"}
    assert [event for event in events if event.type == "audio"]
    assert server.of("setup")[0]["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
