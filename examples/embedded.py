"""A gateway inside another ASGI application: `/llm` is the gateway, everything else is the application's own.

    pip install "smg-sdk[server]" && uvicorn examples.embedded:app

`gateway.asgi()` is plain ASGI, so it mounts in Starlette or FastAPI just as here. For real engines, replace
`Gateway.simulated()` with `Gateway(workers=["grpc://gpu-0:50051"])`.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from smg_core import Gateway

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MOUNT = "/llm"
gateway = Gateway.simulated()
inner = gateway.asgi()


async def app(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """The application: lifespan and `/llm/...` go to the gateway."""
    if scope["type"] == "lifespan":
        await inner(scope, receive, send)
    elif scope["type"] == "http" and scope["path"].startswith(MOUNT + "/"):
        await inner({**scope, "root_path": scope.get("root_path", "") + MOUNT}, receive, send)
    elif scope["type"] == "http":
        await hello(send)


async def hello(send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"The application. The models are under /llm/v1.\n"})
