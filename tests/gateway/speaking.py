"""A server over HTTP that speaks, as OpenAI's API has it: of each text 10 ms of sound a letter, in pieces."""

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import uvicorn
from tests.gateway.conftest import eventually

__all__ = ["SpeakingServer", "sound_of", "speaking_server"]


def sound_of(text: str) -> bytes:
    """The sound of a text: of each letter 240 samples of its number."""
    return b"".join(struct.pack("<h", ord(letter)) * 240 for letter in text)


@attrs.define
class SpeakingServer:
    """`voice` makes the sound of a text; `asked` are the bodies that came; `breaks_at` the number of the request that fails in
    its midst; while `held` is not set, sound stops behind its first piece."""

    url: str = ""
    voice: Callable[[str], bytes] = sound_of
    asked: list[dict[str, Any]] = attrs.field(factory=list)
    breaks_at: int = -1
    refuses: bool = False
    left: int = 0
    held: asyncio.Event = attrs.field(factory=asyncio.Event)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        if path == "/v1/audio/speech" and not self.refuses:
            await self._speak(receive, send)
            return
        told: dict[str, Any] = {"object": "list", "data": [{"id": "kokoro", "object": "model", "owned_by": "x"}]}
        if path == "/openapi.json":
            told = {"paths": {"/v1/audio/speech": {}}}
        status = 500 if self.refuses and path == "/v1/audio/speech" else 200
        await send(
            {"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]}
        )
        await send({"type": "http.response.body", "body": json.dumps(told).encode()})

    async def _speak(self, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        asked = json.loads(body)
        self.asked.append(asked)
        sound = self.voice(asked["input"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"audio/pcm")]})
        for at in range(0, len(sound), 5001):
            if at and len(self.asked) - 1 == self.breaks_at:
                raise RuntimeError("broken in the midst, as the test wants it")
            await send({"type": "http.response.body", "body": sound[at : at + 5001], "more_body": True})
            if not self.held.is_set():
                waits = asyncio.ensure_future(self.held.wait())
                leaves = asyncio.ensure_future(receive())
                await asyncio.wait([waits, leaves], return_when=asyncio.FIRST_COMPLETED)
                if leaves.done():
                    self.left += 1
                    return
                leaves.cancel()
        await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def speaking_server() -> AsyncIterator[SpeakingServer]:
    """Such a server, which holds nothing back."""
    app = SpeakingServer()
    app.held.set()
    server = uvicorn.Server(uvicorn.Config(app, port=0, lifespan="off", log_config=None))
    running = asyncio.create_task(server.serve())
    await eventually(lambda: server.started)
    app.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield app
    finally:
        app.held.set()
        server.should_exit = True
        await running
