"""openai-agents on the Responses API over real HTTP: tools, hand-overs, sessions that the gateway keeps, and a WebSocket."""

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from agents import (
    Agent,
    ModelSettings,
    OpenAIConversationsSession,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    responses_websocket_session,
    set_tracing_disabled,
)
from pydantic import BaseModel
from tests.gateway.conftest import House, over_http

from smg_core import Config
from smg_core.hooks import ExchangeEnded
from smg_core.wire.settings import LimitsConfig
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

TWICE = Reply(reasoning="I look at both.", tool_calls=(("look", {"city": "Paris"}), ("look", {"city": "Rome"})))
SUNNY = Reply("Both are sunny.")

set_tracing_disabled(True)


@function_tool
def look(city: str) -> str:
    """The weather of a city."""
    return f"In {city} it is SUNNY-9."


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    config = Config(limits=LimitsConfig(retry_after_s=0.01))
    async with over_http(SimulatorConfig(seed=1), config=config) as house:
        yield house


@pytest.fixture(scope="module")
async def client(house: House) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1") as client:
        yield client


def agent(client: openai.AsyncOpenAI, **fields: Any) -> Agent[Any]:
    return Agent(name="Weather", model=OpenAIResponsesModel(model="sim", openai_client=client), **fields)


def last_prompt(house: House) -> str:
    """What the engine was given by the newest request."""
    vocabulary = house.engine.engine.vocabulary
    return vocabulary.decode(list(house.engine.requests[-1].input_ids), skip_special_tokens=False)


@pytest.mark.parametrize("streamed", [False, True])
async def test_parallel_tools_are_run_and_answered(house: House, client: openai.AsyncOpenAI, streamed: bool) -> None:
    house.engine.say(TWICE, SUNNY)
    weather = agent(client, tools=[look])
    if streamed:
        running: Any = Runner.run_streamed(weather, "How is the weather?")
        kinds = [event.name async for event in running.stream_events() if event.type == "run_item_stream_event"]
        assert kinds.count("tool_called") == kinds.count("tool_output") == 2
    else:
        running = await Runner.run(weather, "How is the weather?")
    assert running.final_output.strip() == "Both are sunny."
    assert last_prompt(house).count("SUNNY-9") == 2


@pytest.mark.full
async def test_a_hand_over_to_another_agent_is_followed(house: House, client: openai.AsyncOpenAI) -> None:
    house.engine.say(Reply(tool_calls=(("transfer_to_translator", {}),)), Reply("Bonjour."))
    translator = agent(client).clone(name="Translator", instructions="You know French.")
    ended = await Runner.run(agent(client, handoffs=[translator]), "Say hello in French")
    assert (ended.final_output.strip(), ended.last_agent.name) == ("Bonjour.", "Translator")
    assert "You know French." in last_prompt(house)


async def test_output_is_parsed_into_a_type(client: openai.AsyncOpenAI) -> None:
    class Person(BaseModel):
        name: str
        age: int

    ended = await Runner.run(agent(client, output_type=Person), "Who?")
    assert isinstance(ended.final_output, Person)


async def test_a_session_is_kept_by_the_gateway(house: House, client: openai.AsyncOpenAI) -> None:
    """Two runs of one session, of which the second knows the first; then it is looked at, cut and cleared."""
    house.engine.say(TWICE, SUNNY, Reply("As I said."))
    weather, session = agent(client, tools=[look]), OpenAIConversationsSession(openai_client=client)
    await Runner.run(weather, "How is the weather?", session=session)
    kept: list[Any] = list(await session.get_items())
    await Runner.run(weather, "Are you sure?", session=session)
    prompt = last_prompt(house)
    again = OpenAIConversationsSession(conversation_id=session.session_id, openai_client=client)
    newest: list[Any] = list(await again.get_items(limit=2))
    popped: Any = await session.pop_item()
    left = await session.get_items()
    talk = session.session_id
    await session.clear_session()

    kinds = [item["type"] for item in kept]
    assert kinds.count("function_call") == kinds.count("function_call_output") == 2
    assert prompt.count("SUNNY-9") == 2
    assert prompt.index("Both are sunny.") < prompt.index("Are you sure?")
    assert [item["role"] for item in newest] == ["user", "assistant"]
    assert popped["content"][0]["text"].strip() == "As I said."
    assert len(left) == len(kept) + 1
    with pytest.raises(openai.NotFoundError):
        await client.conversations.retrieve(talk)


@pytest.mark.parametrize("way", ["previous_response_id", "conversation_id"])
async def test_a_run_goes_on_from_what_the_gateway_has_kept(house: House, client: openai.AsyncOpenAI, way: str) -> None:
    house.engine.say(TWICE, SUNNY, Reply("As I said."))
    weather = agent(client, tools=[look])
    if way == "conversation_id":
        talk = (await client.conversations.create()).id
        await Runner.run(weather, "How is the weather?", conversation_id=talk)
        ended = await Runner.run(weather, "Are you sure?", conversation_id=talk)
    else:
        first = await Runner.run(weather, "How is the weather?", auto_previous_response_id=True)
        ended = await Runner.run(weather, "Are you sure?", previous_response_id=first.last_response_id)
    assert ended.final_output.strip() == "As I said."
    assert last_prompt(house).count("SUNNY-9") == 2


async def test_a_run_over_a_websocket_keeps_its_connection(house: House) -> None:
    house.engine.say(TWICE, SUNNY)
    weather: Agent[Any] = Agent(name="Weather", model="sim", tools=[look], model_settings=ModelSettings(store=False))
    async with responses_websocket_session(api_key="x", base_url=f"{house.url}/v1") as session:
        ended = session.run_streamed(weather, "How is the weather?")
        async for _ in ended.stream_events():
            pass
    assert ended.final_output.strip() == "Both are sunny."
    assert last_prompt(house).count("SUNNY-9") == 2


async def test_a_busy_engine_is_waited_for(house: House, client: openai.AsyncOpenAI) -> None:
    before = len(house.observer.of(ExchangeEnded))
    house.engine.say(SUNNY)
    house.engine.inject(Fault("refuse", status="RESOURCE_EXHAUSTED"))
    ended = await Runner.run(agent(client), "How is the weather?")
    assert ended.final_output.strip() == "Both are sunny."
    assert [each.status for each in house.observer.of(ExchangeEnded)[before:]] == [503, 200]
