"""A server of Gemini Live on this machine: it answers turns as one does, and google-genai's own client holds sessions at it."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import attrs
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

PATH = "/ws/google.ai.generativelanguage.v1.GenerativeService.BidiGenerateContent"
VERTEX_PATH = "/ws/google.cloud.aiplatform.v1.LlmBidiService/BidiGenerateContent"
SOUND = base64.b64encode(bytes(4800)).decode()
USAGE = {
    "promptTokenCount": 30,
    "cachedContentTokenCount": 20,
    "responseTokenCount": 12,
    "totalTokenCount": 42,
    "promptTokensDetails": [{"modality": "AUDIO", "tokenCount": 8}, {"modality": "TEXT", "tokenCount": 22}],
    "responseTokensDetails": [{"modality": "AUDIO", "tokenCount": 10}],
}


def camel(value: Any) -> Any:
    """The message with its names as JSON of protocol buffers has them; clients may write both."""
    if isinstance(value, dict):
        return {_camel(name): camel(each) for name, each in value.items()}
    return [camel(each) for each in value] if isinstance(value, list) else value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(each.capitalize() for each in rest)


@attrs.define(eq=False)
class LiveServer:
    """One server. `heads` are those of handshakes, `heard` the messages of clients; `say` answers each of them."""

    url: str = ""
    heads: list[Any] = attrs.field(factory=list)
    heard: list[Any] = attrs.field(factory=list)
    connections: list[ServerConnection] = attrs.field(factory=list)

    def of(self, name: str) -> list[Any]:
        return [each[name] for each in self.heard if name in each]


Say = Callable[["LiveServer", Any, ServerConnection], Any]


async def tell(connection: ServerConnection, **message: Any) -> None:
    await connection.send(json.dumps(message).encode())


async def content(connection: ServerConnection, **fields: Any) -> None:
    await tell(connection, serverContent=fields)


async def answers(server: LiveServer, message: Any, connection: ServerConnection) -> None:
    """Answers turns, calls and what was heard: in text where a session asks for that, else in sound."""
    ended = message.get("clientContent", {}).get("turnComplete") or "toolResponse" in message
    heard = message.get("realtimeInput", {})
    if "activityEnd" in heard or "audioStreamEnd" in heard:
        await content(connection, inputTranscription={"text": "what was said"})
        ended = True
    if not ended:
        return
    setup = server.of("setup")[-1]
    if setup.get("tools") and "toolResponse" not in message:
        calls = [{"id": "call-1", "name": "add", "args": {"a": 2, "b": 3}}]
        await tell(connection, toolCall={"functionCalls": calls}, usageMetadata=USAGE)
        return
    for word in ("So ", "be it."):
        if setup["generationConfig"]["responseModalities"] == ["TEXT"]:
            await content(connection, modelTurn={"parts": [{"text": "hm", "thought": True}, {"text": word}]})
        else:
            blob = {"mimeType": "audio/pcm;rate=24000", "data": SOUND}
            await content(connection, modelTurn={"parts": [{"inlineData": blob}]})
            await content(connection, outputTranscription={"text": word})
    await content(connection, generationComplete=True)
    await tell(connection, serverContent={"turnComplete": True}, usageMetadata=USAGE)


@asynccontextmanager
async def live_server(say: Say = answers, *, setup: bool = True) -> AsyncIterator[LiveServer]:
    """A server that answers each message as `say` does; without `setup` it answers none."""
    server = LiveServer()

    async def take(connection: ServerConnection) -> None:
        server.connections.append(connection)
        try:
            async for frame in connection:
                message = camel(json.loads(frame))
                server.heard.append(message)
                if "setup" in message:
                    if setup:
                        await tell(connection, setupComplete={})
                    continue
                await say(server, message, connection)
        except ConnectionClosed:
            return

    def look(connection: ServerConnection, request: Any) -> Any:
        server.heads.append(request)
        if request.path.replace("//", "/").partition("?")[0] not in (PATH, VERTEX_PATH):
            return connection.respond(HTTPStatus.NOT_FOUND, "no such method")
        return None

    listening = await serve(take, "127.0.0.1", 0, process_request=look, ping_interval=None, close_timeout=0.1)
    server.url = f"http://127.0.0.1:{next(iter(listening.sockets)).getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close(close_connections=True)
        await asyncio.wait_for(listening.wait_closed(), 5)
