"""An answer that a stop string of the client's has ended says so in every API, in a text, inside a call and behind one; and no
client is given a call to run that the model has not written to its end. The official SDKs are the clients."""

import asyncio
import json
import socket
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import attrs
import openai
import pytest
from google import genai
from google.genai import types
from tests.gateway.conftest import eventually, over_http

from smg_core import Config, Gateway
from smg_core.config import ModelConfig, ServerConfig
from smg_core.server.http_server import HttpServer
from smg_core.workers.worker import WorkerSpec
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.testing import tool_call

pytestmark = pytest.mark.anyio

STOP = "HALT"
SCHEMA: Any = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["path", "content"],
}
NAME = "write_file"
HERMES = f'<tool_call>\n{{"name": "{NAME}", "arguments": {{"path": "a", "content": "b"}}}}\n</tool_call>'
XML = (
    f"<tool_call>\n<function={NAME}>\n<parameter=path>\na\n</parameter>\n<parameter=content>\none {STOP} two\n"
    "</parameter>\n</function>\n</tool_call>"
)


@attrs.frozen
class Said:
    """What an SDK's user has of an answer: its end, its text, the names of the calls that can be run, and what the answer says of
    calls that were cut."""

    end: str
    text: str = ""
    calls: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()


def whole(arguments: object) -> bool:
    """Whether arguments are an object with all that the tool needs."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return False
    return isinstance(arguments, dict) and set(arguments) == {"path", "content"}


@attrs.frozen
class Asking:
    """Asks a gateway behind `url`, streamed or whole."""

    url: str
    stream: bool
    stop: str

    async def chat(self) -> Said:
        tools: Any = [{"type": "function", "function": {"name": NAME, "parameters": SCHEMA}}]
        messages: Any = [{"role": "user", "content": "Hi"}]
        async with openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key="-", max_retries=0) as sdk:
            asked: Any = {"model": "sim", "messages": messages, "tools": tools, "stop": [self.stop]}
            if self.stream:
                async with sdk.chat.completions.stream(**asked) as events:
                    completion: Any = [each async for each in events] and await events.get_final_completion()
            else:
                completion = await sdk.chat.completions.create(**asked)
        (choice,) = completion.choices
        found = choice.message.tool_calls or []
        calls = tuple(each.function.name for each in found if whole(each.function.arguments))
        cut = tuple(each.function.name for each in found if not whole(each.function.arguments))
        return Said(choice.finish_reason, choice.message.content or "", calls, cut)

    async def responses(self) -> Said:
        tools: Any = [{"type": "function", "name": NAME, "parameters": SCHEMA, "strict": False}]
        async with openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key="-", max_retries=0) as sdk:
            asked: Any = {"model": "sim", "input": "Hi", "tools": tools, "extra_body": {"stop": [self.stop]}}
            if self.stream:
                events = [each async for each in await sdk.responses.create(**asked, stream=True)]
                found: Any = events[-1].response
                assert events[-1].type == f"response.{found.status}"
            else:
                found = await sdk.responses.create(**asked)
        items = [each for each in found.output if each.type == "function_call"]
        calls = tuple(each.name for each in items if each.status == "completed")
        cut = tuple(each.name for each in items if each.status == "incomplete")
        assert [each.name for each in items if whole(each.arguments)] == list(calls)
        return Said(found.status, found.output_text, calls, cut)

    async def messages(self) -> Said:
        tools: Any = [{"name": NAME, "input_schema": SCHEMA}]
        asked: Any = {"model": "sim", "max_tokens": 200, "tools": tools, "stop_sequences": [self.stop]}
        asked["messages"] = [{"role": "user", "content": "Hi"}]
        async with anthropic.AsyncAnthropic(base_url=self.url, api_key="-", max_retries=0) as sdk:
            if self.stream:
                async with sdk.messages.stream(**asked) as events:
                    message: Any = await events.get_final_message()
            else:
                message = await sdk.messages.create(**asked)
        uses = [each for each in message.content if each.type == "tool_use"]
        calls = tuple(each.name for each in uses if whole(each.input))
        cut = tuple(each.name for each in uses if not whole(each.input))
        text = "".join(each.text for each in message.content if each.type == "text")
        return Said(f"{message.stop_reason} {message.stop_sequence}", text, calls, cut)

    @asynccontextmanager
    async def google(self) -> AsyncIterator[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the API is experimental, the SDK says
            made = genai.Client(api_key="-", http_options=types.HttpOptions(base_url=self.url))
            async with made.aio as sdk:
                yield sdk

    async def gemini(self) -> Said:
        function = types.FunctionDeclaration(name=NAME, parameters_json_schema=SCHEMA)
        off = types.AutomaticFunctionCallingConfig(disable=True)
        config = types.GenerateContentConfig(
            stop_sequences=[self.stop],
            tools=[types.Tool(function_declarations=[function])],
            automatic_function_calling=off,
        )
        async with self.google() as sdk:
            if self.stream:
                chunks = await sdk.models.generate_content_stream(model="sim", contents="Hi", config=config)
                found = [each async for each in chunks]
            else:
                found = [await sdk.models.generate_content(model="sim", contents="Hi", config=config)]
        parts = [part for each in found for part in each.candidates[0].content.parts or []]
        text = "".join(part.text or "" for part in parts)
        calls = tuple(part.function_call.name for part in parts if part.function_call is not None)
        return Said(found[-1].candidates[0].finish_reason.value, text, calls)

    async def interactions(self) -> Said:
        tools: Any = [{"type": "function", "name": NAME, "parameters": SCHEMA}]
        asked: Any = {"model": "sim", "input": "Hi", "tools": tools}
        asked["generation_config"] = {"stop_sequences": [self.stop]}
        async with self.google() as sdk:
            if self.stream:
                events = [each async for each in await sdk.interactions.create(**asked, stream=True)]
                ended = next(each for each in events if each.event_type == "interaction.completed").interaction
                steps = [each.step for each in events if each.event_type == "step.start"]
                pieces = [each.delta for each in events if each.event_type == "step.delta"]
                text = "".join(each.text for each in pieces if each.type == "text")
            else:
                ended = await sdk.interactions.create(**asked)
                steps = ended.steps
                outputs = [each for each in steps if each.type == "model_output"]
                text = "".join(part.text for each in outputs for part in each.content)
        return Said(ended.status, text, tuple(each.name for each in steps if each.type == "function_call"))


Ask = Callable[[Asking], Awaitable[Said]]
ASK: dict[str, Ask] = {
    "chat": Asking.chat,
    "responses": Asking.responses,
    "messages": Asking.messages,
    "gemini": Asking.gemini,
    "interactions": Asking.interactions,
}


OPEN = Config(server=ServerConfig(allowed_hosts=("*",)))


@asynccontextmanager
async def serving(gateway: Gateway) -> AsyncIterator[str]:
    """Serve a gateway on a port of its own; the URL is yielded."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = HttpServer(gateway, OPEN)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    await eventually(lambda: server.started or running.done())
    try:
        await gateway.ready()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await running


@asynccontextmanager
async def before_an_engine(reply: Reply, parser: str) -> AsyncIterator[str]:
    config = Config(model=ModelConfig(parser=parser))
    async with over_http(SimulatorConfig(rules=(Rule((), reply),)), config=config) as house:
        yield house.url


@asynccontextmanager
async def before_a_gateway(reply: Reply, parser: str) -> AsyncIterator[str]:
    """A gateway whose worker is another one, over Chat Completions, before an embedded engine."""
    async with (
        before_an_engine(reply, parser) as far,
        serving(Gateway([WorkerSpec(far, name="far")], config=OPEN)) as url,
    ):
        yield url


DOORS = {"ids": before_an_engine, "chat": before_a_gateway}
doors = pytest.mark.parametrize("door", DOORS)


async def said(door: str, reply: Reply, *, stop: str = STOP, parser: str = "hermes") -> dict[tuple[str, bool], Said]:
    """What is said in each API, whole and streamed."""
    async with DOORS[door](reply, parser) as url:
        return {
            (api, stream): await ask(Asking(url, stream, stop)) for api, ask in ASK.items() for stream in (False, True)
        }


STOPPED = {
    "chat": "stop",
    "responses": "completed",
    "messages": f"stop_sequence {STOP}",
    "gemini": "STOP",
    "interactions": "completed",
}


@pytest.mark.full
@doors
async def test_a_text_that_a_stop_string_ends_is_said_to_be(door: str) -> None:
    for (api, stream), found in (await said(door, Reply(f"one two {STOP} three"))).items():
        assert found == Said(STOPPED[api], "one two "), (api, stream)


CUT = tool_call(NAME, {"path": "a", "content": f"one {STOP} two"}, text="Look. ")
SHOWN = frozenset({("chat", False), ("chat", True), ("responses", False), ("responses", True), ("messages", True)})
"""Where a call that was cut is shown, as one that is incomplete. In a stream it has begun; a whole message leaves it out."""


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@doors
@pytest.mark.parametrize(("reply", "parser"), [(CUT, "hermes"), (Reply(f"Look. {XML}"), "qwen3_coder")])
async def test_a_call_that_a_stop_string_cuts_is_no_call_to_be_run(door: str, reply: Reply, parser: str) -> None:
    for where, found in (await said(door, reply, parser=parser)).items():
        end = "incomplete" if where[0] == "responses" else STOPPED[where[0]]
        cut = (NAME,) if where in SHOWN else ()
        assert attrs.evolve(found, text=found.text.strip()) == Said(end, "Look.", (), cut), where


@pytest.mark.full
async def test_a_stop_string_behind_a_call_ends_the_answer_and_leaves_the_call() -> None:
    for (api, stream), found in (await said("ids", Reply(f"{HERMES} and then {STOP} more"))).items():
        assert (found.end, found.calls, found.cut) == (STOPPED[api], (NAME,), ()), (api, stream)


@pytest.mark.full
async def test_the_familys_own_end_of_a_call_ends_a_call_as_it_does_without_a_stop_string() -> None:
    ended, plain = await said("ids", Reply(HERMES), stop="</tool_call>"), await said("ids", Reply(HERMES))
    for where, found in ended.items():
        assert found.calls == plain[where].calls == (NAME,), where
        assert found.end == plain[where].end, where


QUOTING = XML.replace(
    f"one {STOP} two", "<tool_call>\n<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>"
)


@pytest.mark.full
@pytest.mark.parametrize(("reply", "stop"), [(QUOTING, "</tool_call>"), (QUOTING, "</function>"), (XML, "</function>")])
async def test_the_familys_end_of_a_call_in_an_open_call_cuts_it_as_any_stop_string_does(reply: str, stop: str) -> None:
    for where, found in (await said("ids", Reply(reply), parser="qwen3_coder", stop=stop)).items():
        assert (found.calls, found.cut) == ((), (NAME,) if where in SHOWN else ()), where
