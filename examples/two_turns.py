"""A flow of one's own: the model calls a tool, the tool runs here, the model answers. The client gets one response.

    python examples/two_turns.py

A flow is a generator of steps. `generate` is one turn of the model; whoever writes a tool loop, a history or a second opinion
writes a flow around it. What the turns used is summed, the numbers of the tool calls run on, and the response ends once.
"""

import asyncio
import json
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from smg_core import Gateway
from smg_core.apis.chat.decode import decode_chat
from smg_core.apis.chat.encode import ChatWholeEncoder
from smg_core.pipeline.answer.answer import WholeAnswer
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.answer.turn import CalledTool
from smg_core.pipeline.flow.driver import Run
from smg_core.pipeline.flow.flow import Terms, generate
from smg_core.pipeline.flow.steps import Finish, Flow, ask
from smg_core.request import GenerationRequest, Message, Text, ToolCall, ToolResult
from smg_core.serving.timeouts import TimeoutRules
from smg_core.wire.base import Incoming
from smg_simulator import Reply, SimulatorConfig
from smg_simulator.testing import tool_call

Tools = Mapping[str, Callable[..., str]]

TOOLS: Tools = {"get_weather": lambda city: f"It is raining in {city}."}
SAYS = (tool_call("get_weather", {"city": "Paris"}), Reply("Take an umbrella."))

ASKED = {
    "model": "sim",
    "messages": [{"role": "user", "content": "What do I need in Paris today?"}],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
            },
        }
    ],
}


def with_tools(request: GenerationRequest, terms: Terms, tools: Tools, most: int = 5) -> Flow[None]:
    """A response of as many turns as it takes, at most `most`: until the model calls no tool any more."""
    for _ in range(most):
        turn = yield from generate(request, terms, ends=False, keep=True)
        calls = turn.output.calls
        if not calls:
            break
        results = [Message("tool", (ToolResult(call.id, (Text(run(call, tools)),)),)) for call in calls]
        called = Message("assistant", tuple(ToolCall(call.id, call.name, call.arguments) for call in calls))
        request = replace(request, messages=(*request.messages, called, *results))
    yield from ask(Finish(turn))


def run(call: CalledTool, tools: Tools) -> str:
    """A real application would make a step of this, with a performer that may wait."""
    return tools[call.name](**json.loads(call.arguments))


async def main() -> None:
    async with Gateway.simulated(SimulatorConfig(replies=SAYS)) as gateway:
        chat = decode_chat(Incoming(json.dumps(ASKED).encode(), request_id="chatcmpl-1"))

        async def write(data: bytes, last: bool) -> None:
            print(json.dumps(json.loads(data), indent=2))

        answer = WholeAnswer(lambda: ChatWholeEncoder(chat, 0, "chatcmpl-1"), write, model="sim")
        trace = Trace(gateway.services.clock.monotonic(), gateway.services.observer)
        terms = Terms(answer, gateway.config.routing, gateway.services.rng, trace)
        timeouts = TimeoutRules(gateway.config.timeouts, gateway.models).of(chat.generation, {})
        await gateway.services.running.driver.drive(
            with_tools(chat.generation, terms, TOOLS), Run(answer, trace, timeouts)
        )


if __name__ == "__main__":
    asyncio.run(main())
