"""Responses over a WebSocket: by the official SDK, by a plain client, and what Codex sent, under our own server and uvicorn."""

import asyncio
import json
import socket as sockets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import httpx
import openai
import pytest
import uvicorn
from tests.gateway.conftest import House, eventually, held_back, over_http, settled
from tests.gateway.test_metrics import meter_of
from tests.shared import PATIENCE
from websockets.asyncio.client import ClientConnection, connect
from websockets.client import ClientProtocol
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from smg_core import Config, Gateway
from smg_core.app.app import App
from smg_core.auth.base import Head
from smg_core.hooks import ExchangeEnded, RequestFinished
from smg_core.http.settings import ResponsesConfig, ServerConfig
from smg_core.pipeline.settings import TimeoutsConfig
from smg_core.request import Caller
from smg_core.server.socket_frames import PING, ControlFrame
from smg_core.server.socket_protocol import BoundedWebSocketProtocol
from smg_core.testing import MemoryObserver
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

SIMULATOR = SimulatorConfig(seed=1)
SLOW = SimulatorConfig(seed=1, reply_tokens=2000, timing=Timing(decode_rate=50))
CAPTURE = Path(__file__).parents[1] / "captures" / "codex-websocket.json"
ENDS = ("response.completed", "response.incomplete", "response.failed", "error")
Serving = Callable[..., AbstractAsyncContextManager[House]]


@asynccontextmanager
async def under_uvicorn(simulator: SimulatorConfig, *, config: Config | None = None) -> AsyncIterator[House]:
    """A simulated gateway under uvicorn as it comes."""
    observer = MemoryObserver()
    async with Gateway.simulated(simulator, config=config or Config(), observer=observer) as gateway:
        server = uvicorn.Server(uvicorn.Config(gateway.asgi(), port=0, lifespan="off", log_config=None))
        running = asyncio.create_task(server.serve())
        await eventually(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield House(gateway, None, observer, f"http://127.0.0.1:{port}", server)  # type: ignore[arg-type]
        finally:
            server.should_exit = True
            await running


@pytest.fixture(params=[over_http, under_uvicorn])
def serving(request: pytest.FixtureRequest) -> Serving:
    found: Serving = request.param
    return found


def talk(house: House, path: str = "/v1/responses", **arguments: Any) -> connect:
    """A client that sends no pings: a busy machine answers them late, and one that does not read never sees the answer."""
    return connect(house.url.replace("http", "ws", 1) + path, proxy=None, ping_interval=None, **arguments)


async def send(socket: ClientConnection, **fields: Any) -> None:
    await socket.send(json.dumps({"type": "response.create", "model": "sim", **fields}))


async def receive(socket: ClientConnection) -> Any:
    return json.loads(await socket.recv())


async def until_end(socket: ClientConnection) -> list[Any]:
    """The events of the one response that is under way."""
    events = []
    while not events or events[-1]["type"] not in ENDS:
        events.append(await receive(socket))
    return events


async def ask(socket: ClientConnection, **fields: Any) -> Any:
    """The last event of a response."""
    await send(socket, **fields)
    return (await until_end(socket))[-1]


def config_of(**settings: Any) -> Config:
    return Config(responses=ResponsesConfig(**settings))


# ------------------------------------------------------------------------------------------------------------- clients


@pytest.mark.full
async def test_the_official_sdk_talks_over_a_connection(serving: Serving) -> None:
    async with serving(SIMULATOR) as house:
        client = openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1")
        async with client, client.responses.connect() as connection:
            await connection.response.create(model="sim", input="Hello", max_output_tokens=400)
            events: list[Any] = []
            async for event in connection:
                events.append(event)
                if event.type in ENDS:
                    break
            stored = await client.responses.retrieve(events[-1].response.id)

    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert stored.output_text == "".join(each.delta for each in events if each.type == "response.output_text.delta")


@pytest.mark.full
async def test_what_codex_sends_is_answered(serving: Serving) -> None:
    bodies = json.loads(CAPTURE.read_text())["bodies"]
    call = Reply(reasoning="I look.", tool_calls=(("exec_command", {"cmd": "ls"}),))
    replies = (Reply("."), call, Reply("Done."))
    async with serving(SimulatorConfig(seed=1, replies=replies)) as house, talk(house) as socket:
        prewarm, turn, output = ({**body, "model": "sim"} for body in bodies)
        await send(socket, **prewarm)
        warmed = await until_end(socket)
        first = await ask(socket, **turn)
        (called,) = [item for item in first["response"]["output"] if item["type"] == "function_call"]
        result = {**output["input"][0], "call_id": called["call_id"]}
        last = await ask(socket, **{**output, "input": [result], "previous_response_id": first["response"]["id"]})

    assert [event["type"] for event in warmed] == ["response.created", "response.in_progress", "response.completed"]
    assert warmed[-1]["response"]["output"] == []
    assert called["name"] == "exec_command"
    assert last["type"] == "response.completed"
    assert [item["type"] for item in last["response"]["output"]] == ["message"]
    assert last["response"]["usage"]["input_tokens"] > first["response"]["usage"]["input_tokens"]


async def test_a_prewarm_costs_one_token_and_its_prompt_is_continued() -> None:
    async with over_http(SIMULATOR) as house, talk(house) as socket:
        system = {"role": "developer", "content": "Be brief. " * 40}
        warm = await ask(socket, input=[system], store=False, generate=False)
        await eventually(lambda: house.engine.counters["tokens"] == 1)
        first = await ask(
            socket, input="Hi", store=False, previous_response_id=warm["response"]["id"], max_output_tokens=5
        )
    usage = first["response"]["usage"]
    assert usage["input_tokens"] > warm["response"]["usage"]["input_tokens"]
    assert usage["input_tokens_details"]["cached_tokens"] > 0


# -------------------------------------------------------------------------------------------------------------- memory


async def test_a_response_that_is_not_stored_is_known_to_its_connection_alone() -> None:
    async with over_http(SIMULATOR) as house, talk(house) as socket, talk(house) as other:
        first = (await ask(socket, input="Hello", store=False, max_output_tokens=5))["response"]
        again = {"input": "Again", "store": False, "previous_response_id": first["id"], "max_output_tokens": 5}
        second = await ask(socket, **again)
        stranger = await ask(other, **again)
        by_http = await house.http.post("/v1/responses", json={"model": "sim", **again})

    assert second["response"]["usage"]["input_tokens"] > first["usage"]["input_tokens"]
    assert stranger["error"]["code"] == by_http.json()["error"]["code"] == "previous_response_not_found"
    assert (stranger["status"], stranger["error"]["param"]) == (400, "previous_response_id")


async def test_stored_and_unstored_turns_are_one_chain() -> None:
    async with over_http(SIMULATOR) as house, talk(house) as socket:
        counts, previous = [], None
        for store in (True, False, True, False, True):
            response = (
                await ask(socket, input="Turn.", store=store, previous_response_id=previous, max_output_tokens=5)
            )["response"]
            counts.append(response["usage"]["input_tokens"])
            previous = response["id"]
    steps = {later - before for before, later in pairwise(counts)}
    assert len(steps) == 1  # every turn has added as much
    assert steps.pop() > 5


@pytest.mark.full
@pytest.mark.parametrize("bound", [{"socket_responses": 2}, {"socket_kept_bytes": 2000}])
async def test_the_oldest_responses_are_forgotten(bound: dict[str, Any]) -> None:
    async with over_http(SIMULATOR, config=config_of(**bound)) as house, talk(house) as socket:
        ids = [
            (await ask(socket, input="a" * 500, store=False, max_output_tokens=2))["response"]["id"] for _ in range(4)
        ]
        newest = await ask(socket, input="x", store=False, previous_response_id=ids[-1], max_output_tokens=2)
        oldest = await ask(socket, input="x", store=False, previous_response_id=ids[0], max_output_tokens=2)
    assert newest["type"] == "response.incomplete"
    assert oldest["error"]["code"] == "previous_response_not_found"


async def test_a_tenant_of_which_nothing_is_kept_can_go_on_over_its_connection() -> None:
    config = Config()
    config = attrs.evolve(config, history=attrs.evolve(config.history, zero_retention=("*",)))
    async with over_http(SIMULATOR, config=config) as house, talk(house) as socket:
        first = (await ask(socket, input="Hello", max_output_tokens=5))["response"]
        second = await ask(socket, input="Again", previous_response_id=first["id"], max_output_tokens=5)
        gone = await house.http.get(f"/v1/responses/{first['id']}")
    assert second["type"] == "response.incomplete"
    assert gone.status_code == 404


# --------------------------------------------------------------------------------------------------------------- lanes


@pytest.mark.full
async def test_lanes_do_not_wait_for_one_another_and_each_has_its_name() -> None:
    async with over_http(SLOW) as house, talk(house) as socket:
        for lane in "abc":
            await send(socket, input=lane, stream_id=lane, store=False, max_output_tokens=8)
        events: list[Any] = []
        while sum(event["type"] in ENDS for event in events) < 3:
            events.append(await receive(socket))
    by_lane = {lane: [event for event in events if event["stream_id"] == lane] for lane in "abc"}
    for found in by_lane.values():
        assert [event["sequence_number"] for event in found] == list(range(len(found)))
    order = [event["stream_id"] for event in events]
    assert order != sorted(order)


async def test_a_lane_makes_one_response_at_a_time() -> None:
    async with over_http(SLOW) as house, talk(house) as socket:
        await send(socket, input="a", store=False, max_output_tokens=200)
        assert (await receive(socket))["type"] == "response.created"
        await send(socket, input="b", store=False)
        events = await until_end(socket)
    assert (events[-1]["status"], events[-1]["error"]["param"]) == (409, "stream_id")


@pytest.mark.full
async def test_lanes_are_bounded() -> None:
    async with over_http(SLOW, config=config_of(socket_lanes=1)) as house, talk(house) as socket:
        await send(socket, input="a", store=False, stream_id="a", max_output_tokens=200)
        assert (await receive(socket))["type"] == "response.created"
        await send(socket, input="b", store=False, stream_id="b")
        while (refused := await receive(socket))["type"] != "error":
            assert refused["stream_id"] == "a"
    assert (refused["status"], refused["error"]["code"], refused["stream_id"]) == (429, "rate_limit_exceeded", "b")


@pytest.mark.full
async def test_many_turns_on_a_lane_follow_one_another_at_once() -> None:
    async with over_http(SIMULATOR) as house, talk(house) as socket:
        previous = None
        for _ in range(40):
            end = await ask(socket, input="x", store=False, previous_response_id=previous, max_output_tokens=1)
            assert end["type"] == "response.incomplete", end
            previous = end["response"]["id"]


# -------------------------------------------------------------------------------------------------------------- errors

WRONG: dict[str, tuple[str | bytes, int, str | None]] = {
    "no JSON": ("{", 400, None),
    "a list": ("[]", 400, None),
    "bytes": (b"{}", 400, None),
    "no type": ('{"model": "sim"}', 400, "type"),
    "an unknown type": ('{"type": "response.fly"}', 400, "type"),
    "a type that is no text": ('{"type": 5}', 400, "type"),
    "deep": ("[" * 100_000, 400, None),
    "a lane that is no text": ('{"type": "response.create", "stream_id": 5}', 400, "stream_id"),
    "a lane with a long name": (json.dumps({"type": "response.create", "stream_id": "x" * 65}), 400, "stream_id"),
    "no input": ('{"type": "response.create", "model": "sim"}', 400, "input"),
    "an unknown field": ('{"type": "response.create", "model": "sim", "input": "x", "inptu": 1}', 400, "inptu"),
    "no such model": ('{"type": "response.create", "model": "none", "input": "x"}', 404, "model"),
    "in the background": (
        '{"type": "response.create", "model": "sim", "input": "x", "background": true}',
        400,
        "background",
    ),
    "a steer without a response": ('{"type": "response.steer", "input": "x"}', 400, "previous_response_id"),
}


@pytest.mark.full
async def test_what_is_wrong_is_an_error_in_a_frame_and_the_connection_goes_on(serving: Serving) -> None:
    async with serving(SIMULATOR) as house, talk(house) as socket:
        for name, (frame, status, param) in WRONG.items():
            await socket.send(frame)
            told = await receive(socket)
            assert (told["type"], told["status"], told["error"]["param"]) == ("error", status, param), name
        assert (await ask(socket, input="Hello", store=False, max_output_tokens=3))["type"] == "response.incomplete"


async def test_a_steer_is_given_back() -> None:
    async with over_http(SIMULATOR) as house, talk(house) as socket:
        steer = {"input": [{"role": "user", "content": "Left!"}], "previous_response_id": "resp_1"}
        await socket.send(json.dumps({"type": "response.steer", **steer}))
        told = await receive(socket)
    assert (told["type"], told["error"]["code"]) == ("response.steer.failed", "steering_not_supported")
    assert told["steer"] == steer


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("size", [3000, 100_000])
async def test_a_frame_over_the_limit_ends_the_connection(serving: Serving, size: int) -> None:
    async with serving(SIMULATOR, config=config_of(socket_frame_bytes=2048)) as house, talk(house) as socket:
        await send(socket, input="x" * size)
        await socket.wait_closed()
    assert socket.close_code == 1009


async def test_a_large_frame_is_read(serving: Serving) -> None:
    async with serving(SIMULATOR) as house, talk(house) as socket:
        told = await ask(socket, input="word " * 20_000, store=False, max_output_tokens=2)
    assert told["response"]["usage"]["input_tokens"] > 20_000


# ----------------------------------------------------------------------------------------------------------- handshakes


@pytest.mark.full
@pytest.mark.parametrize(("path", "status"), [("/v1/nothing", 404), ("/v1/chat/completions", 405), ("/v1/models", 405)])
async def test_a_handshake_elsewhere_is_refused(path: str, status: int) -> None:
    async with under_uvicorn(SIMULATOR) as house:
        with pytest.raises(InvalidStatus) as refused:
            await talk(house, path)
    assert refused.value.response.status_code == status
    assert json.loads(refused.value.response.body or b"")["error"]["message"]


@pytest.mark.full
async def test_a_handshake_that_lost_its_upgrade_on_the_way_is_told_so(serving: Serving) -> None:
    async with (
        serving(SIMULATOR) as house,
        httpx.AsyncClient(base_url=house.url, trust_env=False, timeout=PATIENCE) as http,
    ):
        answer = await http.get("/v1/responses")
        others = [(await http.get("/v1/messages")).status_code, (await http.put("/v1/responses")).status_code]
    assert (answer.status_code, answer.headers["upgrade"], answer.headers["allow"]) == (426, "websocket", "POST")
    assert "WebSocket" in answer.json()["error"]["message"]
    assert others == [405, 405]


@pytest.mark.full
async def test_a_page_of_another_origin_is_refused(serving: Serving) -> None:
    config = Config(server=ServerConfig(cors_origins=("https://app.example",)))
    async with serving(SIMULATOR, config=config) as house:
        with pytest.raises(InvalidStatus) as refused:
            await talk(house, origin="https://evil.example")
        for origin in (house.url, "https://app.example"):
            async with talk(house, origin=origin) as socket:
                assert (await ask(socket, input="x", max_output_tokens=1))["type"] == "response.incomplete"
    assert refused.value.response.status_code == 403


async def test_another_host_is_refused() -> None:
    async with under_uvicorn(SIMULATOR) as house:
        port = int(house.url.rpartition(":")[2])
        with pytest.raises(InvalidStatus) as refused:
            await connect("ws://evil.example/v1/responses", host="127.0.0.1", port=port, proxy=None)
    assert refused.value.response.status_code == 403


async def test_tenants_do_not_meet() -> None:
    async def identify(head: Head) -> Caller:
        return Caller(tenant=head.headers["authorization"])

    def wrap(app: Any) -> App:
        return App(app._gateway, identify)

    async with over_http(SIMULATOR, wrap=wrap) as house:
        async with talk(house, additional_headers={"Authorization": "one"}) as one:
            first = (await ask(one, input="x", max_output_tokens=1))["response"]["id"]
            again = await ask(one, input="x", previous_response_id=first, max_output_tokens=1)
        async with talk(house, additional_headers={"Authorization": "two"}) as two:
            stranger = await ask(two, input="x", previous_response_id=first, max_output_tokens=1)
    assert again["type"] == "response.incomplete"
    assert stranger["error"]["code"] == "previous_response_not_found"


HANDSHAKE = {
    "host": "a",
    "connection": "upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
}
BAD_HANDSHAKES: dict[str, tuple[int, dict[str, str]]] = {
    "another version": (426, {"sec-websocket-version": "8"}),
    "no version": (426, {"sec-websocket-version": ""}),
    "a version in letters": (426, {"sec-websocket-version": "x"}),
    "no key": (400, {"sec-websocket-key": ""}),
    "a short key": (400, {"sec-websocket-key": "AAAA"}),
    "a key of other letters": (400, {"sec-websocket-key": "!" * 24}),
    "protocols of no form": (400, {"sec-websocket-protocol": "a b,,;"}),
}


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("bad", BAD_HANDSHAKES)
async def test_a_handshake_that_is_none_is_refused_as_any_request_and_told(bad: str) -> None:
    """Each request of each route is one line of the log, however it ended."""
    status, wrong = BAD_HANDSHAKES[bad]
    lines = [f"{name}: {value}" for name, value in {**HANDSHAKE, **wrong}.items() if value]
    head = "\r\n".join(["GET /v1/responses HTTP/1.1", *lines, "", ""])
    async with over_http(SIMULATOR) as house:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(house.url.rpartition(":")[2]))
        writer.write(head.encode())
        answer = (await reader.read()).decode()
        writer.close()
        told = house.observer.of(ExchangeEnded)[-1]

    assert answer.startswith(f"HTTP/1.1 {status} "), answer
    assert f"x-request-id: {told.request_id}" in answer
    assert "sec-websocket-version: 13" in answer
    assert (told.status, told.path) == (status, "/v1/responses")
    assert json.loads(answer.partition("\r\n\r\n")[2])["error"]["message"]


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(
    "target", ["/v1/responses", "/v1/responses?a=b", "http://a/v1/responses", "HTTP://a/v1/responses?a=b"]
)
async def test_a_handshake_may_name_its_path_as_a_url(target: str) -> None:
    """RFC 6455, 4.1, 2."""
    head = "\r\n".join([f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in HANDSHAKE.items()), "", ""])
    async with over_http(SIMULATOR) as house:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(house.url.rpartition(":")[2]))
        writer.write(head.encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        writer.close()
        await eventually(lambda: bool(house.observer.of(ExchangeEnded)))
        (told,) = house.observer.of(ExchangeEnded)

    assert answer.startswith(b"HTTP/1.1 101 ")
    assert told.path == "/v1/responses"


async def test_what_a_client_sends_before_it_is_accepted_is_refused() -> None:
    head = (
        "GET /v1/responses HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        "sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    async with over_http(SIMULATOR) as house:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(house.url.rpartition(":")[2]))
        writer.write(head.encode() + b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n")
        answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


# ----------------------------------------------------------------------------------------------------------------- ends


@pytest.mark.full
async def test_a_client_that_leaves_cancels_all_its_lanes(serving: Serving) -> None:
    async with serving(SLOW) as house:
        async with talk(house) as socket:
            for lane in "ab":
                await send(socket, input=lane, stream_id=lane, max_output_tokens=2000)
            await eventually(lambda: house.engine.active == 2)
        await settled(house)
        assert house.engine.counters["finished"] == 0
        outcomes = [each.outcome for each in house.observer.of(RequestFinished)]
    assert outcomes == ["client_gone"] * 2


@pytest.mark.full
async def test_a_connections_lifetime_ends_when_nothing_is_under_way() -> None:
    async with over_http(SLOW, config=config_of(socket_s=0.05)) as house, talk(house) as socket:
        await send(socket, input="x", store=False, max_output_tokens=10)
        events = await until_end(socket)
        told = await receive(socket)
        with pytest.raises(ConnectionClosed):
            await socket.recv()
    assert events[-1]["type"] == "response.incomplete"
    assert told["error"]["code"] == "websocket_connection_limit_reached"


def connected(house: House) -> list[BoundedWebSocketProtocol]:
    """The server's side of the WebSockets that are open."""
    return [each for each in house.server.server_state.connections if isinstance(each, BoundedWebSocketProtocol)]


@asynccontextmanager
async def silent_client(house: House) -> AsyncIterator[ClientProtocol]:
    """A client that reads and never writes again once it is connected: what it would answer waits in its protocol."""
    protocol = ClientProtocol(parse_uri(house.url.replace("http", "ws", 1) + "/v1/responses"))
    reader, writer = await asyncio.open_connection("127.0.0.1", int(house.url.rpartition(":")[2]))
    protocol.send_request(protocol.connect())
    writer.writelines(protocol.data_to_send())

    async def read() -> None:
        while data := await reader.read(4096):
            protocol.receive_data(data)
        protocol.receive_eof()

    reading = asyncio.create_task(read())
    try:
        yield protocol
    finally:
        writer.close()
        await asyncio.gather(reading, return_exceptions=True)


async def test_of_pings_that_come_while_the_client_reads_nothing_the_last_is_answered_alone() -> None:
    async with over_http(SIMULATOR) as house, talk(house):
        (connection,) = connected(house)
        written: list[bytes] = []
        own = connection.transport
        connection.transport = SimpleNamespace(write=written.append, is_closing=lambda: False)  # type: ignore[assignment]
        connection.pause_writing()
        for number in range(1000):
            connection._answer(ControlFrame(PING, b"%d" % number))
        while_paused = list(written)
        connection.resume_writing()
        answered = b"".join(written)
        connection.resume_writing()
        connection.transport = own

    assert while_paused == []
    assert answered == b"".join(written) == Frame(Opcode.PONG, b"999").serialize(mask=False)


async def test_a_client_that_answers_pings_keeps_its_connection_and_one_that_does_not_loses_it() -> None:
    async with over_http(SIMULATOR) as house:
        house.server.config.ws_ping_interval = house.server.config.ws_ping_timeout = 0.05
        async with talk(house) as socket:
            (kept,) = connected(house)
            async with silent_client(house) as protocol:
                await eventually(lambda: protocol.state is State.CLOSED)
                pings = [frame for frame in protocol.events_received() if getattr(frame, "opcode", None) is Opcode.PING]
            await eventually(lambda: connected(house) == [kept])
            answered = await ask(socket, input="x", store=False, max_output_tokens=1)
    assert len(pings) == 1
    assert answered["type"] == "response.incomplete"


@pytest.mark.full
async def test_a_client_that_does_not_read_holds_its_engine_back_and_is_left_in_the_end() -> None:
    timeouts = TimeoutsConfig(write_s=0.2)
    long = SimulatorConfig(seed=1, replies=(Reply("word " * 20_000),))
    async with over_http(long, config=Config(timeouts=attrs.evolve(timeouts, write_s=3600.0))) as house:
        house.server.config.ws_ping_interval = None  # a client that does not read answers no ping either
        narrow = socket_of(house)
        async with talk(house, sock=narrow, max_queue=1, close_timeout=0.01) as socket:
            await send(socket, input="x", store=False)
            await held_back(house)
            (connection,) = connected(house)
            connection.write_seconds = timeouts.write_s
            await settled(house)
        (finished,) = house.observer.of(RequestFinished)
    assert finished.outcome == "client_gone"


def socket_of(house: House) -> sockets.socket:
    """A connection whose kernel takes little that nobody reads."""
    made = sockets.socket()
    made.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    made.connect(("127.0.0.1", int(house.url.rpartition(":")[2])))
    made.setblocking(False)
    return made


@pytest.mark.full
async def test_a_gateway_that_leaves_finishes_what_is_under_way_and_takes_nothing_new() -> None:
    async with over_http(SLOW) as house, talk(house) as socket, talk(house) as idle:
        await send(socket, input="x", store=False, max_output_tokens=50)
        assert (await receive(socket))["type"] == "response.created"
        house.server._asked_to_leave()
        refused = await ask(idle, input="x", store=False)
        events = await until_end(socket)
        await idle.wait_closed()
        await socket.wait_closed()
    assert (refused["status"], refused["error"]["headers"]["retry-after"]) == (503, "1")
    assert events[-1]["type"] == "response.incomplete"
    assert socket.close_code == idle.close_code == 1012


def lines_of(house: House) -> list[tuple[str, int, str]]:
    return [(each.method, each.status, each.outcome) for each in house.observer.of(ExchangeEnded)]


@pytest.mark.full
async def test_every_response_and_the_connection_have_a_line_in_the_access_log(serving: Serving) -> None:
    async with serving(SIMULATOR) as house:
        async with talk(house) as socket:
            for _ in range(2):
                await ask(socket, input="x", max_output_tokens=1)
            named = socket.response.headers["x-request-id"]  # type: ignore[union-attr]
        await eventually(lambda: len(house.observer.of(ExchangeEnded)) == 3)
        moments = house.observer.of(ExchangeEnded)
    assert lines_of(house) == [("WEBSOCKET", 200, "ok"), ("WEBSOCKET", 200, "ok"), ("WEBSOCKET", 101, "ok")]
    assert {each.path for each in moments} == {"/v1/responses"}
    assert moments[-1].request_id == named
    assert len({each.request_id for each in moments} - {""}) == 3


async def test_bytes_are_counted_once_and_the_life_of_a_connection_is_no_request() -> None:
    meter = meter_of()
    async with over_http(SIMULATOR) as house:
        received = 0
        async with talk(house) as socket:
            await send(socket, input="Grüße", max_output_tokens=5)
            await socket.send("{")
            ends = 0
            while ends < 2:
                text = await socket.recv()
                received += len(text.encode())
                ends += json.loads(text)["type"] in ENDS
        await eventually(lambda: len(house.observer.of(ExchangeEnded)) == 3)
    for moment in house.observer.of(ExchangeEnded):
        meter.recorder.report(moment)
    text = (await meter.text("text/plain")).decode()

    assert sum(each.sent for each in house.observer.of(ExchangeEnded)) == received
    assert f'smg_http_response_body_bytes_total{{route="/v1/responses"}} {received}' in text
    assert 'smg_http_request_duration_seconds_count{route="/v1/responses"} 2' in text


@pytest.mark.full
async def test_a_client_that_breaks_off_has_left_and_one_that_closes_has_not(serving: Serving) -> None:
    async with serving(SLOW) as house:
        socket = await talk(house)
        await send(socket, input="x", max_output_tokens=2000)
        await receive(socket)
        socket.transport.abort()
        await eventually(lambda: len(house.observer.of(ExchangeEnded)) == 2)
        async with talk(house):
            pass
        await eventually(lambda: len(house.observer.of(ExchangeEnded)) == 3)
    assert lines_of(house) == [
        ("WEBSOCKET", 200, "client_gone"),
        ("WEBSOCKET", 101, "client_gone"),
        ("WEBSOCKET", 101, "ok"),
    ]


WRONG_FRAMES: dict[str, tuple[str | bytes, int, str]] = {
    "no JSON": ("{", 400, "InvalidJson"),
    "bytes": (b"{}", 400, "InvalidRequest"),
    "an unknown kind": ('{"type": "x"}', 400, "InvalidRequest"),
    "a body that is none": ('{"type": "response.create", "model": "sim", "input": 7}', 400, "InvalidRequest"),
    "an unknown model": ('{"type": "response.create", "model": "none", "input": "x"}', 404, "ModelNotFound"),
}


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("frame", WRONG_FRAMES)
async def test_a_frame_that_is_refused_is_a_line_with_its_error_and_its_id(frame: str) -> None:
    sent, status, outcome = WRONG_FRAMES[frame]
    async with over_http(SIMULATOR) as house:
        async with talk(house) as socket:
            await socket.send(sent)
            refused = await receive(socket)
        await eventually(lambda: len(house.observer.of(ExchangeEnded)) == 2)
        moments = house.observer.of(ExchangeEnded)

    assert (refused["type"], refused["status"]) == ("error", status)
    assert lines_of(house) == [("WEBSOCKET", status, outcome), ("WEBSOCKET", 101, "ok")]
    assert len({each.request_id for each in moments} - {""}) == 2
