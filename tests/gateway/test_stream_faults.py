"""Streams of every API against engines that fail at every token, clients that leave at every event, and clients that do not read.

The law: a stream ends with exactly one terminal event in its API's own words, which is its last; a request whose stream has not
begun ends with one error in its API's envelope; nothing is left at the gateway or at an engine.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import product
from typing import Any

import attrs
import httpx
import pytest
import uvicorn
from tests.gateway.conftest import House, eventually, over_http, settled
from tests.gateway.test_chaos import Hours, let_time_pass
from tests.shared import PATIENCE
from websockets.asyncio.client import connect

from smg_core import Config, Gateway
from smg_core.http.settings import ResponsesConfig
from smg_core.pipeline.settings import TimeoutsConfig
from smg_core.sse import SseReader
from smg_core.testing import MemoryObserver
from smg_core.wire.settings import LimitsConfig
from smg_core.workers.settings import WorkersConfig
from smg_simulator.answers.faults import KINDS, Fault
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

LONG = 3600.0
PATIENT = Config(
    workers=WorkersConfig(probe_timeout_s=60.0, health_interval_s=0.1),
    timeouts=TimeoutsConfig(request_s=None, first_token_s=LONG, token_s=LONG),
    limits=LimitsConfig(response_buffer_bytes=4096),
    responses=ResponsesConfig(poll_s=0.02, lease_s=0.5, batch_s=0.01),
)
"""What an engine that says nothing is waited for is hours, which pass when the test says so."""
ALIVE = attrs.evolve(PATIENT, responses=attrs.evolve(PATIENT.responses, lease_s=60.0))
"""For runs that nothing happens to: a busy machine renews a shorter lease too late, and the run is made twice."""
SAYS = SimulatorConfig(rules=(Rule((), Reply("one two three four five")),))
PACED = SimulatorConfig(reply_tokens=2000, timing=Timing(decode_rate=100))
MOST = 14_000
ENDLESS = SimulatorConfig(reply_tokens=MOST)
TOKENS = 7
"""Tokens of what `SAYS` says, and one."""

Told = AsyncIterator[str]


@attrs.frozen
class Answer:
    """A stream that a client is told: its status, and the data of its events as they come."""

    status: int
    events: Told


Open = Callable[[House, dict[str, Any]], AbstractAsyncContextManager[Answer]]


@attrs.frozen
class Api:
    """One API: how a request of it is streamed, and which of its events are terminal, by a name for each. `outlives`: an answer
    goes on without its client, until it is cancelled."""

    name: str
    open: Open
    body: dict[str, Any]
    terminal: Callable[[str], str | None]
    outlives: bool = False

    def __str__(self) -> str:
        return self.name


# ------------------------------------------------------------------------------------------------------- how it is asked


def posted(path: str) -> Open:
    @asynccontextmanager
    async def post(house: House, body: dict[str, Any]) -> AsyncIterator[Answer]:
        async with house.http.stream("POST", path, json=body) as answer:
            yield Answer(answer.status_code, _events(answer))

    return post


def interacting(path: str) -> Open:
    """The same, without the mark that closes each stream of Interactions behind its last event."""

    @asynccontextmanager
    async def post(house: House, body: dict[str, Any]) -> AsyncIterator[Answer]:
        async with house.http.stream("POST", path, json=body) as answer:

            async def unmarked() -> Told:
                marked = False
                async for event in _events(answer):
                    assert not marked
                    marked = event == "[DONE]"
                    if not marked:
                        yield event
                assert marked or answer.status_code != 200

            yield Answer(answer.status_code, unmarked())

    return post


async def _events(answer: httpx.Response) -> Told:
    if answer.status_code != 200:
        yield (await answer.aread()).decode()
        return
    reader, listed = SseReader(), b""
    if answer.headers["content-type"].startswith("application/json"):  # a stream of Google's as one array
        async for piece in answer.aiter_bytes():
            listed += piece
        for each in json.loads(listed):
            yield json.dumps(each)
        return
    async for piece in answer.aiter_bytes():
        for event in reader.feed(piece):
            yield event.data


@asynccontextmanager
async def generating(house: House, body: dict[str, Any]) -> AsyncIterator[Answer]:
    """A stream of SGLang's, which has a mark behind its terminal event."""
    async with posted(PATHS["generate"])(house, body) as answer:

        async def unmarked() -> Told:
            marked = answer.status != 200
            async for event in answer.events:
                assert not marked or answer.status != 200
                marked = marked or event == "[DONE]"
                if event != "[DONE]":
                    yield event
            assert marked

        yield Answer(answer.status, unmarked())


@asynccontextmanager
async def framed(house: House, body: dict[str, Any]) -> AsyncIterator[Answer]:
    """A request in a frame of a WebSocket."""
    async with connect(house.url.replace("http", "ws", 1) + "/v1/responses", proxy=None, ping_interval=None) as socket:
        await socket.send(json.dumps({"type": "response.create", **body}))

        async def told() -> Told:
            while True:
                event = await socket.recv()
                assert isinstance(event, str)
                yield event
                if _of_responses(event) is not None:
                    return

        yield Answer(200, told())


# ---------------------------------------------------------------------------------------------------- how a stream ends


def _of_chat(data: str) -> str | None:
    return "done" if data == "[DONE]" else "error" if "error" in json.loads(data) else None


def _of_responses(data: str) -> str | None:
    kind = str(json.loads(data).get("type"))
    ends = ("response.completed", "response.incomplete", "response.failed", "response.cancelled", "error")
    return kind if kind in ends else None


def _of_sglang(data: str) -> str | None:
    told = json.loads(data)
    return "error" if "error" in told else "done" if told["meta_info"]["finish_reason"] else None


def _of_messages(data: str) -> str | None:
    kind = str(json.loads(data)["type"])
    return kind if kind in ("message_stop", "error") else None


def _of_gemini(data: str) -> str | None:
    told = json.loads(data)
    if "error" in told:
        return "error"
    return "done" if any("finishReason" in each for each in told.get("candidates", ())) else None


def _of_interactions(data: str) -> str | None:
    told = json.loads(data)
    kind = str(told["event_type"])
    if kind in ("interaction.completed", "interaction.complete"):
        return "failed" if told["interaction"]["status"] == "failed" else "done"
    return kind if kind == "error" else None


TURN = {"role": "user", "content": "Hi"}
CHAT = {"model": "sim", "messages": [TURN], "stream": True}
RESPONSES = {"model": "sim", "input": "Hi", "stream": True}
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
GEMINI = "/v1beta/models/sim:streamGenerateContent"
SGLANG = {"text": "Hi", "stream": True, "sampling_params": {"max_new_tokens": 15_000}}
PATHS = {
    "generate": "/generate",
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "messages": "/v1/messages",
    "generateContent": f"{GEMINI}?alt=sse",
    "generateContent, one array": GEMINI,
    "interactions": "/v1/interactions",
    "interactions, earlier revision": "/v1beta/interactions",
    **dict.fromkeys(("responses", "responses, not stored", "background"), "/v1/responses"),
}
APIS = (
    Api("chat", posted(PATHS["chat"]), CHAT, _of_chat),
    Api(
        "completions",
        posted(PATHS["completions"]),
        {"model": "sim", "prompt": "Hi", "stream": True, "max_tokens": 15_000},
        _of_chat,
    ),
    Api("responses", posted(PATHS["responses"]), RESPONSES, _of_responses),
    Api("responses, not stored", posted(PATHS["responses, not stored"]), {**RESPONSES, "store": False}, _of_responses),
    Api("background", posted(PATHS["background"]), {**RESPONSES, "background": True}, _of_responses, outlives=True),
    Api("socket", framed, {"model": "sim", "input": "Hi"}, _of_responses),
    Api("messages", posted(PATHS["messages"]), {**CHAT, "max_tokens": 15_000}, _of_messages),
    Api("generate", generating, SGLANG, _of_sglang),
    Api("generateContent", posted(PATHS["generateContent"]), CONTENTS, _of_gemini),
    Api("generateContent, one array", posted(PATHS["generateContent, one array"]), CONTENTS, _of_gemini),
    *(
        Api(name, interacting(PATHS[name]), RESPONSES, _of_interactions)
        for name in ("interactions", "interactions, earlier revision")
    ),
    Api(
        "interactions in the background",
        interacting(PATHS["interactions"]),
        {**RESPONSES, "background": True},
        _of_interactions,
        outlives=True,
    ),
)
every_api = pytest.mark.parametrize("api", APIS, ids=str)


async def ended(house: House, api: Api) -> str:
    """How one stream ended. Fails unless it ended once, and with that."""
    async with api.open(house, api.body) as answer:
        events = [event async for event in answer.events]
    assert not [hint for hint in ("127.0.0.1", "unix:", "fault was asked") if hint in "".join(events)]
    if answer.status != 200:
        assert (len(events), "error" in events[0]) == (1, True), events
        return f"whole {answer.status}"
    ends = [api.terminal(event) for event in events]
    assert [each for each in ends if each is not None] == ends[-1:], events
    return str(ends[-1])


def is_good(end: str) -> bool:
    return end in ("done", "message_stop", "response.completed")


# -------------------------------------------------------------------------------------------------------- engines that fail


FAULTS = [Fault(kind, after) for kind, after in product(KINDS, range(TOKENS)) if kind not in ("restart", "drip", "gap")]
RESTARTS = [Fault("restart", after, 0.0) for after in range(TOKENS)]
FEW = (0, 3)
"""Where engines fail in every run of the tests; the other places are of the slow ones."""


@asynccontextmanager
async def under_uvicorn(simulator: SimulatorConfig, *, config: Config, **arguments: Any) -> AsyncIterator[House]:
    """A simulated gateway behind a real port, under uvicorn as it comes."""
    observer = MemoryObserver()
    async with Gateway.simulated(simulator, config=config, observer=observer, **arguments) as gateway:
        server = uvicorn.Server(uvicorn.Config(gateway.asgi(), port=0, lifespan="off", log_config=None))
        running = asyncio.create_task(server.serve())
        await eventually(lambda: server.started)
        url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        try:
            async with httpx.AsyncClient(base_url=url, timeout=PATIENCE, trust_env=False) as http:
                yield House(gateway, http, observer, url, server)
        finally:
            server.should_exit = True
            await running


Way = Callable[..., AbstractAsyncContextManager[House]]
served = pytest.mark.parametrize(
    ("way", "places"),
    [
        pytest.param(over_http, FEW, id="few"),
        pytest.param(over_http, range(TOKENS), id="all", marks=pytest.mark.slow),
        pytest.param(under_uvicorn, range(TOKENS), id="uvicorn", marks=pytest.mark.slow),
    ],
)


@pytest.mark.full
@pytest.mark.sampled(keep=4)
@every_api
@served
async def test_whatever_an_engine_does_at_any_token_the_stream_ends_once(
    api: Api, way: Way, places: Sequence[int]
) -> None:
    hours = Hours()
    async with way(SAYS, config=PATIENT, call_later=hours.call_later) as house, asyncio.timeout(PATIENCE):
        passing = asyncio.create_task(let_time_pass(house, hours))
        ends = {}
        for fault in (fault for fault in FAULTS if fault.after in places):
            house.engine.inject(fault)
            ends[fault] = await ended(house, api)
            await settled(
                house
            )  # a stalled call that the engine has not let go of yet would pass for the next request's
            await eventually(lambda: all(worker.state == "ready" for worker in house.gateway.registry))
        passing.cancel()
        last = await ended(house, api)
        await settled(house)

    in_band = [fault for fault, end in ends.items() if not is_good(end) and not end.startswith("whole")]
    assert is_good(last)
    assert {fault.kind for fault in in_band} >= {"stall", "cut", "error", "silence", "garbage"}
    assert {end for end in ends.values() if end.startswith("whole")} <= {
        "whole 500",
        "whole 502",
        "whole 503",
        "whole 504",
    }


async def known_to_be_back(house: House) -> None:
    """Return once the gateway has asked the engine for its health again: until then it may not have noticed that the engine was
    away, and the next request would find that out."""
    await eventually(lambda: house.engine.serving)
    house.engine.probed_by.clear()
    await eventually(
        lambda: house.engine.probed_by and all(worker.state == "ready" for worker in house.gateway.registry)
    )


@pytest.mark.slow
@every_api
@pytest.mark.parametrize(("way", "places"), [(over_http, range(TOKENS)), (under_uvicorn, range(TOKENS))])
async def test_an_engine_that_drops_its_connections_at_any_token_ends_the_stream_once(
    api: Api, way: Way, places: Sequence[int]
) -> None:
    async with way(SAYS, config=PATIENT) as house, asyncio.timeout(PATIENCE):
        ends = []
        for fault in (fault for fault in RESTARTS if fault.after in places):
            house.engine.inject(fault)
            ends.append(await ended(house, api))
            await known_to_be_back(house)
        last = await ended(house, api)
        await settled(house)

    assert is_good(last)
    assert not all(map(is_good, ends))


# --------------------------------------------------------------------------------------- clients that leave, or do not read


async def read_some(house: House, api: Api, events: int) -> str:
    """Read that many events of a stream and leave. Returns the first."""
    first = ""
    async with api.open(house, api.body) as answer:
        assert answer.status == 200
        async for event in answer.events:
            first = first or event
            events -= 1
            if events < 0:
                break
        else:
            raise AssertionError("the stream ended before its client left")
    return first


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("api", [api for api in APIS if "array" not in api.name], ids=str)
@pytest.mark.parametrize("way", [over_http, pytest.param(under_uvicorn, marks=pytest.mark.slow)])
async def test_a_client_that_leaves_at_any_event_leaves_nothing_behind(api: Api, way: Way) -> None:
    async with way(PACED, config=ALIVE) as house, asyncio.timeout(PATIENCE):
        firsts = await asyncio.gather(*(read_some(house, api, events) for events in range(12)))
        if api.outlives:
            assert len(house.engine.requests) == 12
            assert not house.engine.aborted
            for first in firsts:
                told = json.loads(first)
                kind = "response" if "response" in told else "interaction"
                assert (await house.http.post(f"/v1/{kind}s/{told[kind]['id']}/cancel")).status_code == 200
        await settled(house)
        asked = {each.id for each in house.engine.requests}
        await eventually(lambda: asked <= set(house.engine.aborted))

    assert len(asked) == 12


@pytest.mark.full
@pytest.mark.parametrize(
    "api",
    [
        pytest.param(
            api, id=api.name, marks=() if api.name in ("messages", "socket", "generateContent") else pytest.mark.slow
        )
        for api in APIS
        if not api.outlives
    ],
)
async def test_a_client_that_does_not_read_holds_its_engine_back_and_loses_its_connection(api: Api) -> None:
    timeouts = attrs.evolve(PATIENT.timeouts, write_s=0.3)
    async with over_http(ENDLESS, config=attrs.evolve(PATIENT, timeouts=timeouts)) as house, asyncio.timeout(PATIENCE):
        async with unread(house, api):
            await eventually(lambda: house.engine.requests)
            await settled(house)
        again = await ended(house, attrs.evolve(api, body=api.body | SHORT[api.name.partition(",")[0]]))
        asked = house.engine.requests[0].id
        allowed = house.engine.counters["tokens"]

    assert asked in house.engine.aborted or allowed < MOST
    assert again in ("done", "message_stop", "response.incomplete")


SHORT: dict[str, dict[str, Any]] = {
    **{name: {"max_tokens": 5} for name in ("chat", "completions", "messages")},
    **{name: {"max_output_tokens": 5} for name in ("responses", "socket")},
    "generateContent": {"generationConfig": {"maxOutputTokens": 5}},
    "generate": {"sampling_params": {"max_new_tokens": 5}},
    "interactions": {"generation_config": {"max_output_tokens": 5}},
}
"""What makes an answer short, by API."""


@asynccontextmanager
async def unread(house: House, api: Api) -> AsyncIterator[None]:
    """A request whose client takes next to nothing of its answer."""
    small = socket.socket()
    small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
    small.setblocking(False)
    host, _, port = house.url.removeprefix("http://").partition(":")
    await asyncio.get_running_loop().sock_connect(small, (host, int(port)))
    if api.name == "socket":
        connection = await connect(
            house.url.replace("http", "ws", 1) + "/v1/responses", sock=small, max_queue=1, ping_interval=None
        )
        await connection.send(json.dumps({"type": "response.create", **api.body}))
        yield
        connection.transport.abort()
        return
    _, writer = await asyncio.open_connection(sock=small, limit=1024)
    data = json.dumps(api.body).encode()
    head = f"host: x\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    writer.write(f"POST {PATHS[api.name]} HTTP/1.1\r\n{head}".encode() + data)
    yield
    writer.transport.abort()
