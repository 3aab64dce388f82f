"""Realtime sessions on every engine: what is said, functions, responses beside the conversation, and one that is cancelled."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.gateway.realtime import EVENTS, in_order
from tests.matrix.conftest import ENGINES
from tests.shared import PATIENCE

from smg_core import Gateway
from smg_core.app.app import App

pytestmark = pytest.mark.anyio

TOOLS = [{"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}]


class Session:
    """A session with a gateway in this process."""

    def __init__(self) -> None:
        self.to_gateway: asyncio.Queue[Any] = asyncio.Queue()
        self.to_client: asyncio.Queue[Any] = asyncio.Queue()

    async def send(self, kind: str, **fields: Any) -> None:
        text = json.dumps({"type": kind, **fields})
        await self.to_gateway.put({"type": "websocket.receive", "text": text})

    async def until(self, kind: str) -> list[Any]:
        """The events up to this one."""
        events: list[Any] = []
        async with asyncio.timeout(PATIENCE):
            while not events or events[-1]["type"] not in (kind, "error"):
                message = await self.to_client.get()
                EVENTS.validate_json(message["text"], strict=True)
                events.append(json.loads(message["text"]))
        return events

    async def respond(self, **response: Any) -> Any:
        await self.send("response.create", response=response)
        return in_order(await self.until("response.done"))[-1]["response"]


@asynccontextmanager
async def session_of(gateway: Gateway) -> AsyncIterator[Session]:
    session = Session()
    scope = {
        "type": "websocket",
        "path": "/v1/realtime",
        "raw_path": b"/v1/realtime",
        "query_string": b"model=sim",
        "headers": [(b"host", b"gateway")],
        "client": ("127.0.0.1", 1),
        "scheme": "ws",
        "http_version": "1.1",
        "subprotocols": [],
        "extensions": {},
    }
    await session.to_gateway.put({"type": "websocket.connect"})
    running = asyncio.create_task(App(gateway)(scope, session.to_gateway.get, session.to_client.put))
    assert (await session.to_client.get())["type"] == "websocket.accept"
    await session.until("conversation.created")
    try:
        yield session
    finally:
        await session.to_gateway.put({"type": "websocket.disconnect", "code": 1000, "reason": ""})
        await running


async def say(session: Session, text: str = "Hello") -> None:
    content = [{"type": "input_text", "text": text}]
    await session.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
    await session.until("conversation.item.done")


async def answered(session: Session) -> None:
    await say(session)
    response = await session.respond(max_output_tokens=8)
    assert response["output"][0]["content"][0]["text"]
    assert response["usage"]["output_tokens"] > 0


async def goes_on(session: Session) -> None:
    await say(session)
    first = await session.respond(max_output_tokens=4)
    await say(session, "And then?")
    second = await session.respond(max_output_tokens=4)
    assert second["usage"]["input_tokens"] > first["usage"]["input_tokens"]


async def functions(session: Session) -> None:
    item = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": "{}"}
    await say(session)
    for each in (item, {"type": "function_call_output", "call_id": "c1", "output": "Sunny."}):
        await session.send("conversation.item.create", item=each)
        assert (await session.until("conversation.item.done"))[-1]["type"] == "conversation.item.done"
    assert (await session.respond(max_output_tokens=4, tools=TOOLS))["output"]


async def beside(session: Session) -> None:
    content = [{"type": "input_text", "text": "Aside"}]
    given = [{"type": "message", "role": "user", "content": content}]
    response = await session.respond(conversation="none", input=given, max_output_tokens=4)
    assert response["conversation_id"] is None
    assert response["output"]


async def cancelled(session: Session) -> None:
    await say(session)
    await session.send("response.create")
    await session.until("response.output_text.delta")
    await session.send("response.cancel")
    assert (await session.until("response.done"))[-1]["type"] in ("response.done", "error")


FEATURES: dict[str, Callable[[Session], Awaitable[None]]] = {
    "a message and its answer": answered,
    "a conversation that goes on": goes_on,
    "functions of the client": functions,
    "a response beside the conversation": beside,
    "a response that is cancelled": cancelled,
}


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_session_does_what_it_says(
    engine: str,
    feature: str,
    served: Callable[[str, str], Any],
    record_property: Callable[[str, object], None],
) -> None:
    record_property("cell", ("Realtime", feature, engine, "stream"))
    gateway, _ = await served(engine, "")
    async with session_of(gateway) as session:
        await FEATURES[feature](session)
    record_property("result", "yes")
