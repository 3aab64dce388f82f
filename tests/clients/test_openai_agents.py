"""openai-agents: agents with tools over Responses and Chat, run to their end."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import openai
import pytest
from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from pydantic import BaseModel
from tests.clients.gateway import Served, scripted, serving, thoughtful_template

from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

CLIENT = "openai-agents"
MODELS: dict[str, Any] = {"Responses": OpenAIResponsesModel, "Chat": OpenAIChatCompletionsModel}
TWICE = (("look", {"city": "Paris"}), ("look", {"city": "Rome"}))
LOOK = scripted(("SUNNY-9", Reply("Both are sunny.")), ("", Reply(reasoning="I must look at both.", tool_calls=TWICE)))

Saw = Callable[[str, object], None]

set_tracing_disabled(True)


@function_tool
def look(city: str) -> str:
    """The weather of a city."""
    return f"In {city} it is SUNNY-9."


@asynccontextmanager
async def agent(
    kind: str, config: SimulatorConfig, *arguments: str, **fields: Any
) -> AsyncIterator[tuple[Agent[Any], Served]]:
    """An agent that has the gateway as its model, and the gateway."""
    async with (
        serving(config, *arguments) as served,
        openai.AsyncOpenAI(api_key="-", base_url=f"{served.url}/v1") as client,
    ):
        model = MODELS[kind](model="sim", openai_client=client)
        settings = ModelSettings(store=False, response_include=["reasoning.encrypted_content"])
        if kind == "Chat":
            settings = ModelSettings()
        yield Agent(name="Weather", model=model, model_settings=settings, **fields), served


@pytest.mark.parametrize("kind", MODELS)
async def test_parallel_tools_are_run_and_answered(kind: str, record_property: Saw) -> None:
    async with agent(kind, LOOK, tools=[look]) as (weather, served):
        ended = await Runner.run(weather, "How is the weather?")

    assert ended.final_output.strip() == "Both are sunny."
    assert served.prompts()[-1].count("SUNNY-9") == 2
    record_property("seen", f"2 calls of one turn, {ended.context_wrapper.usage.total_tokens} tokens")


@pytest.mark.parametrize("kind", MODELS)
async def test_a_streamed_run_ends_with_the_same_output(kind: str, record_property: Saw) -> None:
    async with agent(kind, LOOK, tools=[look]) as (weather, _):
        running = Runner.run_streamed(weather, "How is the weather?")
        events = [event async for event in running.stream_events()]

    assert running.final_output.strip() == "Both are sunny."
    record_property("seen", f"{len(events)} events")


async def test_reasoning_comes_back_to_the_model_with_the_tools_output(tmp_path: Any, record_property: Saw) -> None:
    template = thoughtful_template(tmp_path)
    async with agent("Responses", LOOK, "--tokenizer-chat-template", template, tools=[look]) as (weather, served):
        await Runner.run(weather, "How is the weather?")
        first, second = served.prompts()

    assert "I must look at both." in second.removeprefix(first)
    record_property("seen", "sealed reasoning replayed without being stored")


@pytest.mark.parametrize("kind", MODELS)
async def test_output_is_parsed_into_a_type(kind: str, record_property: Saw) -> None:
    class Person(BaseModel):
        name: str
        age: int

    async with agent(kind, SimulatorConfig(seed=1), output_type=Person) as (weather, _):
        ended = await Runner.run(weather, "Who?")

    assert isinstance(ended.final_output, Person)
    record_property("seen", "structured output")


async def test_a_hand_over_to_another_agent_is_followed(record_property: Saw) -> None:
    script = scripted(
        ("You know French.", Reply("Bonjour.")), ("", Reply(tool_calls=(("transfer_to_translator", {}),)))
    )
    async with agent("Responses", script) as (first, served):
        second = Agent(name="Translator", instructions="You know French.", model=first.model)
        ended = await Runner.run(first.clone(handoffs=[second]), "Say hello in French")

    assert (ended.final_output.strip(), ended.last_agent.name) == ("Bonjour.", "Translator")
    record_property("seen", f"{len(served.exchanges)} requests, 2 agents")


@pytest.mark.parametrize("kind", MODELS)
async def test_a_busy_engine_is_waited_for(kind: str, record_property: Saw) -> None:
    script = attrs.evolve(scripted(("", Reply("At last."))), faults=(Fault("refuse", status="RESOURCE_EXHAUSTED"),))
    async with agent(kind, script) as (weather, served):
        ended = await Runner.run(weather, "Hello")

    assert ended.final_output.strip() == "At last."
    record_property("seen", f"statuses {[each.status for each in served.exchanges]}")
