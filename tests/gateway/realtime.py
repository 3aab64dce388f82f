"""A plain client of Realtime sessions: every event is held to the SDK's types, every response to the table of states."""

import json
from typing import Any

from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter
from tests.gateway.conftest import House
from websockets.asyncio.client import ClientConnection, connect

from smg_core.apis.realtime.wire.states import ANYWHERE, StreamState, following
from smg_simulator.engine.engine import SimulatorConfig

SIMULATOR = SimulatorConfig(seed=1)
EVENTS: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)


def talk(house: House, path: str = "/v1/realtime?model=sim", **arguments: Any) -> connect:
    """A client that sends no pings: a busy machine answers them late."""
    return connect(house.url.replace("http", "ws", 1) + path, proxy=None, ping_interval=None, **arguments)


async def receive(socket: ClientConnection) -> Any:
    """The next event, which is one of the SDK's to the letter."""
    text = await socket.recv()
    EVENTS.validate_json(text, strict=True)
    return json.loads(text)


async def send(socket: ClientConnection, kind: str, **fields: Any) -> None:
    await socket.send(json.dumps({"type": kind, **fields}))


async def until(socket: ClientConnection, *kinds: str) -> list[Any]:
    """The events up to the first of one of these kinds."""
    events = [await receive(socket)]
    while events[-1]["type"] not in (*kinds, "error"):
        events.append(await receive(socket))
    return events


async def opened(socket: ClientConnection) -> Any:
    return (await until(socket, "conversation.created"))[0]["session"]


async def say(socket: ClientConnection, text: str) -> Any:
    """Put a message of the user into the conversation; returns the item."""
    content = [{"type": "input_text", "text": text}]
    await send(socket, "conversation.item.create", item={"type": "message", "role": "user", "content": content})
    return (await until(socket, "conversation.item.done"))[-1]["item"]


async def respond(socket: ClientConnection, **response: Any) -> list[Any]:
    """The events of a response."""
    await send(socket, "response.create", **({"response": response} if response else {}))
    return await until(socket, "response.done")


def in_order(events: list[Any]) -> list[Any]:
    """The events, which must be those of one whole response by the table."""
    state: StreamState = "idle"
    for event in events:
        if event["type"] not in ANYWHERE:
            sound = event.get("part", {}).get("type") == "audio"
            state = following(state, event["type"], sound=sound)
    assert state == "idle"
    return events
