"""Two peers for client SDKs, both speaking Chat Completions from scripted events: in process and over real HTTP.

The app here is the thinnest possible: a body is decoded, a script answers with events, the encoders write. What is proven
with it is the wire, against the SDK's own reading of it.
"""

import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx2
import openai
import pytest
import uvicorn

from smg_core.apis.chat.decode import ChatRequest, decode_chat
from smg_core.apis.chat.encode import ChatStreamEncoder, ChatWholeEncoder
from smg_core.errors import (
    InternalError,
    ModelNotFound,
    NotFound,
    NoWorker,
    PromptTooLong,
    RateLimited,
    SmgError,
    WorkerGone,
)
from smg_core.events import (
    Done,
    Event,
    Failed,
    Finished,
    ReasoningDelta,
    TextDelta,
    TokenLogprob,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    TopLogprob,
    Usage,
)
from smg_core.request import CustomTool, SchemaFormat
from smg_core.wire.base import Incoming
from smg_core.wire.errors import error_headers, openai_error
from smg_core.wire.model_list import ModelCard, model_body, models_body

CREATED = 1_700_000_000
CARDS = {name: ModelCard(name, CREATED, max_model_len=4096) for name in ("talks", "thinks", "calls")}


# ------------------------------------------------------------------------------------------------------------- scripts


def talks(request: ChatRequest) -> Iterator[Event]:
    """Says "Hello number <index>!" once per choice, or the JSON that a schema asks for; word by word, choices interleaved."""
    count, schema = request.generation.sampling.n, request.generation.response_format
    said = ["Hello", " number", " {index}", "!"]
    if isinstance(schema, SchemaFormat):
        said = ['{"city":', ' "Bern",', ' "degrees"', ": 21}"]
    for word in said:
        for index in range(count):
            text = word.format(index=index) if word == " {index}" else word
            yield TextDelta(index, text, tuple(logprobs(text, request.generation.sampling.logprobs)))
    for index in range(count):
        yield Finished(index, "stop")
    yield Usage(9, 4 * count, cached_tokens=8)
    yield Done()


def logprobs(text: str, top: int | None) -> Iterator[TokenLogprob]:
    if top is not None:
        others = tuple(TopLogprob(text + "?" * rank, (text + "?" * rank).encode(), -0.1 - rank) for rank in range(top))
        yield TokenLogprob(text, text.encode(), -0.1, others)


def thinks(request: ChatRequest) -> Iterator[Event]:
    yield ReasoningDelta(0, "Let me ")
    yield ReasoningDelta(0, "see.")
    yield TextDelta(0, "Yes.")
    yield Finished(0, "stop")
    yield Usage(5, 6, reasoning_tokens=4)
    yield Done()


def calls(request: ChatRequest) -> Iterator[Event]:
    """Calls every tool offered, with the same argument in two pieces."""
    for call, tool in enumerate(request.generation.tools):
        yield ToolCallStart(0, call, f"call_{call}", tool.name, custom=isinstance(tool, CustomTool))
        yield ToolCallDelta(0, call, '{"city":')
        yield ToolCallDelta(0, call, ' "Bern"}')
        yield ToolCallEnd(0, call)
    yield Finished(0, "tool_calls")
    yield Usage(5, 6)
    yield Done()


def breaks(request: ChatRequest) -> Iterator[Event]:
    yield TextDelta(0, "Half an ")
    yield Failed(WorkerGone("The engine was lost while it answered.", detail="10.0.0.7:50051"))


def raising(error: SmgError) -> Callable[[ChatRequest], Iterator[Event]]:
    def script(request: ChatRequest) -> Iterator[Event]:
        raise error

    return script


SCRIPTS: dict[str, Callable[[ChatRequest], Iterator[Event]]] = {
    "talks": talks,
    "thinks": thinks,
    "calls": calls,
    "breaks": breaks,
    "down": raising(NoWorker("No worker is ready for this model.", retry_after=1, detail="10.0.0.7:50051")),
    "limited": raising(RateLimited("Too many requests.", retry_after=2)),
    "faulty": raising(InternalError("Something went wrong.")),
    "full": raising(PromptTooLong(5000, 100, 4096)),
}


# ----------------------------------------------------------------------------------------------------------------- app


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """A bare ASGI app with three routes."""
    try:
        await answer(scope, receive, send)
    except SmgError as error:
        await start(send, error.status, error_headers(error))
        await send({"type": "http.response.body", "body": openai_error(error, "req-1")})


async def answer(scope: dict[str, Any], receive: Any, send: Any) -> None:
    path = scope["path"]
    if path == "/v1/models":
        await whole(send, models_body(CARDS.values()))
    elif path.startswith("/v1/models/"):
        name = path.removeprefix("/v1/models/")
        if name not in CARDS:
            raise ModelNotFound(name)
        await whole(send, model_body(CARDS[name]))
    elif path == "/v1/chat/completions":
        await chat(receive, send)
    else:
        raise NotFound(f"There is no {path} here.")


async def chat(receive: Any, send: Any) -> None:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    request = decode_chat(Incoming(body, request_id="chatcmpl-1"))
    script = SCRIPTS.get(request.generation.model)
    if script is None:
        raise ModelNotFound(request.generation.model)
    if not request.generation.stream:
        writer = ChatWholeEncoder(request, CREATED, "chatcmpl-1")
        writer.add(list(script(request)))
        await whole(send, writer.body())
        return
    encoder = ChatStreamEncoder(request, CREATED, "chatcmpl-1")
    events = script(request)
    first = encoder.start() + encoder.encode([next(events)])
    await start(send, 200, [(b"content-type", encoder.content_type.encode())])
    await send({"type": "http.response.body", "body": first, "more_body": True})
    for event in events:
        await send({"type": "http.response.body", "body": encoder.encode([event]), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def whole(send: Any, body: bytes) -> None:
    await start(send, 200, [(b"content-type", b"application/json")])
    await send({"type": "http.response.body", "body": body})


async def start(send: Any, status: int, headers: list[tuple[bytes, bytes]]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})


# ------------------------------------------------------------------------------------------------------------ fixtures


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The app behind a real HTTP server on a free port."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", ws="none", log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join()
    listener.close()


@pytest.fixture
def client(url: str) -> Iterator[openai.OpenAI]:
    """The synchronous SDK over HTTP."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key="-", max_retries=0) as one:
        yield one


@pytest.fixture(params=["in process", "over HTTP"])
async def async_client(request: pytest.FixtureRequest) -> AsyncIterator[openai.AsyncOpenAI]:
    """The asynchronous SDK, over a transport that calls the app and over HTTP."""
    if request.param == "in process":
        http = httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://gateway")
        base = "http://gateway/v1"
    else:
        http = httpx2.AsyncClient()
        base = f"{request.getfixturevalue('url')}/v1"
    async with openai.AsyncOpenAI(base_url=base, api_key="-", max_retries=0, http_client=http) as one:
        yield one


@pytest.fixture
def post(url: str) -> Callable[..., httpx2.Response]:
    """A raw POST of a body to the chat route."""

    def send(body: bytes | dict[str, Any]) -> httpx2.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return httpx2.post(f"{url}/v1/chat/completions", content=content, headers={"content-type": "application/json"})

    return send
