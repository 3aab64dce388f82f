"""Realtime sessions that another server has, passed through: it is a gateway, or says what a test says."""

import asyncio
import json
import socket as sockets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
from tests.gateway.conftest import House, eventually, over_http, settled
from tests.gateway.realtime import SIMULATOR, in_order, receive, respond, say, send, talk, until
from tests.gateway.test_limits_held import limited
from tests.gateway.test_queueing import config as queued
from tests.gateway.test_queueing import waiting
from tests.gateway.test_responses_socket import SLOW, socket_of
from tests.shared import PATIENCE
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import InvalidStatus

from smg_core import Config
from smg_core.apis.realtime.settings import RealtimeConfig
from smg_core.app.app import App
from smg_core.auth.base import Head
from smg_core.engines.connections.credential import CredentialSpec
from smg_core.engines.http.address import HttpAddress
from smg_core.hooks import RequestFinished
from smg_core.http.settings import ServerConfig
from smg_core.ledger.queries import UsageQuery
from smg_core.ledger.settings import LedgerConfig
from smg_core.pipeline.settings import TimeoutsConfig
from smg_core.request import Caller
from smg_core.workers.settings import BreakerConfig, WorkersConfig
from smg_core.workers.worker import WorkerSpec

pytestmark = pytest.mark.anyio

LIVE = "/v1/realtime?model=live"
CALM = Config(workers=WorkersConfig(health_interval_s=3600.0), breaker=BreakerConfig(failures=0))


def worker(url: str, **fields: Any) -> WorkerSpec:
    """A worker whose model `live` is the model `sim` of the server at `url`."""
    return WorkerSpec(
        url, **{"name": "there", "dialect": "openai-realtime", "model": "live", "vendor_model": "sim", **fields}
    )


@asynccontextmanager
async def passing_to(url: str, config: Config = CALM, **arguments: Any) -> AsyncIterator[House]:
    """A gateway whose model `live` is at `url`."""
    config = attrs.evolve(config, workers=CALM.workers, breaker=CALM.breaker)
    async with over_http(workers=(worker(url),), config=config, **arguments) as house:
        yield house


@pytest.fixture(scope="module")
async def there() -> AsyncIterator[House]:
    """A gateway with sessions of its own."""
    async with over_http(SIMULATOR) as house:
        yield house


@attrs.define(eq=False)
class Peer:
    """A server of Realtime that a test speaks for. `heads` are those of its handshakes, `heard` what it was sent."""

    url: str = ""
    heads: list[Any] = attrs.field(factory=list)
    heard: list[Any] = attrs.field(factory=list)

    def of(self, kind: str) -> list[Any]:
        return [each for each in self.heard if each["type"] == kind]


Talk = Callable[[ServerConnection, Peer], Awaitable[None]]


@asynccontextmanager
async def speaking(talk: Talk, refuse: Callable[[Any], Any] | None = None) -> AsyncIterator[Peer]:
    """A server that begins a session and does what `talk` does for each event; `refuse` may answer a handshake otherwise."""
    peer = Peer()

    async def take(connection: ServerConnection) -> None:
        await tell(connection, "session.created", session={"type": "realtime", "model": "sim", "id": "sess_there"})
        async for frame in connection:
            peer.heard.append(json.loads(frame))
            await talk(connection, peer)

    def look(connection: ServerConnection, request: Any) -> Any:
        peer.heads.append(request)
        return None if refuse is None else refuse((connection, request, len(peer.heads)))

    server = await serve(
        take, "127.0.0.1", 0, process_request=look, ping_interval=None, max_size=None, close_timeout=0.1
    )
    peer.url = f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
    try:
        yield peer
    finally:
        server.close(close_connections=True)
        await server.wait_closed()


async def tell(connection: ServerConnection, kind: str, **fields: Any) -> None:
    await connection.send(json.dumps({"type": kind, "event_id": "event_there", **fields}))


def response(id: str, status: str = "in_progress", **fields: Any) -> dict[str, Any]:
    return {"id": id, "object": "realtime.response", "status": status, "output": [], **fields}


USAGE = {"input_tokens": 30, "output_tokens": 12, "total_tokens": 42, "input_token_details": {"cached_tokens": 20}}


async def answer(connection: ServerConnection, id: str = "resp_1", text: str = "Yes.") -> None:
    """One whole response."""
    await tell(connection, "response.created", response=response(id))
    await tell(connection, "response.output_text.delta", response_id=id, item_id="i", delta=text)
    await tell(connection, "response.done", response=response(id, "completed", usage=USAGE))


async def answers(connection: ServerConnection, peer: Peer) -> None:
    """Answers each `response.create`."""
    if peer.heard[-1]["type"] == "response.create":
        await answer(connection, f"resp_{len(peer.of('response.create'))}")


def engine_of(house: House, name: str = "there") -> Any:
    """The client of a worker's server."""
    found = house.gateway.registry.get(name)
    assert found is not None
    return found.engine


async def next_of(socket: Any, kind: str) -> Any:
    """The next event of this type, whatever comes before."""
    while (event := json.loads(await socket.recv()))["type"] != kind:
        pass
    return event


# -------------------------------------------------------------------------------------------------------- a whole session


async def test_a_session_of_another_server_is_passed_through(there: House) -> None:
    async with passing_to(there.url) as house, talk(house, LIVE) as socket:
        session = (await until(socket, "conversation.created"))[0]["session"]
        await send(socket, "session.update", session={"type": "realtime", "model": "live", "instructions": "Be brief."})
        updated = await receive(socket)
        await say(socket, "Hello")
        events = in_order(await respond(socket, max_output_tokens=5))
        deleted = await respond(socket, conversation="none", input=[{"type": "item_reference", "id": "none"}])
    assert session["model"] == updated["session"]["model"] == "live"
    assert updated["session"]["instructions"] == "Be brief."
    assert events[-1]["response"]["status"] == "incomplete"
    assert deleted[-1]["error"]["code"] == "item_not_found"
    await settled(house)
    done = house.observer.of(RequestFinished)
    assert (done[0].outcome, done[0].worker, done[0].completion_tokens) == ("ok", "there", 5)


async def test_a_client_of_the_sdk_holds_a_session_that_is_passed_through(there: House) -> None:
    import openai

    async with passing_to(there.url) as house:
        client = openai.AsyncOpenAI(base_url=f"{house.url}/v1", api_key="any")
        async with client, client.realtime.connect(model="live") as session:
            await session.response.create(response={"instructions": "Speak.", "max_output_tokens": 3})
            async for event in session:
                if event.type == "response.done":
                    break
    assert event.response.usage is not None
    assert event.response.usage.output_tokens == 3


async def test_the_model_of_such_a_session_answers_nothing_else(there: House) -> None:
    async with passing_to(there.url) as house:
        refused = await house.http.post(
            "/v1/chat/completions", json={"model": "live", "messages": [{"role": "user", "content": "Hello"}]}
        )
        listed = (await house.http.get("/v1/models")).json()["data"]
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "model")
    assert [each["id"] for each in listed] == ["live"]


@pytest.mark.full
async def test_a_response_is_cancelled_where_it_is_made() -> None:
    async with over_http(SLOW) as there, passing_to(there.url) as house, talk(house, LIVE) as socket:
        await until(socket, "conversation.created")
        await say(socket, "Hello")
        await send(socket, "response.create")
        await until(socket, "response.output_text.delta")
        await send(socket, "response.cancel")
        events = await until(socket, "response.done")
        await settled(there)
    assert events[-1]["response"]["status"] == "cancelled"


# --------------------------------------------------------------------------------------------------- identity and accounts


async def test_a_server_is_asked_in_the_operators_name_and_hears_nothing_of_the_clients() -> None:
    async with (
        speaking(answers) as peer,
        over_http(
            workers=(worker(peer.url, credential=CredentialSpec(key="sk-operator"), headers=(("x-org", "acme"),)),),
            config=CALM,
        ) as house,
        talk(house, LIVE, additional_headers={"authorization": "Bearer sk-client", "x-private": "yes"}) as socket,
    ):
        await next_of(socket, "session.created")
    head = peer.heads[0]
    assert head.path == "/v1/realtime?model=sim"
    assert (head.headers["authorization"], head.headers["x-org"]) == ("Bearer sk-operator", "acme")
    assert "sk-client" not in str(head.headers)
    assert "x-private" not in head.headers


async def test_azures_sessions_are_asked_for_by_its_path_and_header() -> None:
    async with speaking(answers) as peer:
        spec = worker(peer.url, dialect="azure-realtime", credential=CredentialSpec(key="azure-key"))
        async with over_http(workers=(spec,), config=CALM) as house, talk(house, LIVE) as socket:
            await next_of(socket, "session.created")
    assert peer.heads[0].path == "/openai/v1/realtime?model=sim"
    assert peer.heads[0].headers["api-key"] == "azure-key"


async def test_each_response_is_a_request_of_its_own_in_the_accounts() -> None:
    config = Config(ledger=LedgerConfig(enabled=True, url="memory:", write_s=3600.0))
    async with speaking(answers) as peer, passing_to(peer.url, config) as house:
        async with talk(house, LIVE) as socket:
            for _ in range(2):
                await send(socket, "response.create")
                await next_of(socket, "response.done")
        await settled(house)
        ledger = house.gateway.services.running.ledger
        assert ledger is not None
        (row,) = (await ledger.read(UsageQuery((0, 10**7), by=()))).data
    assert (row.requests, row.prompt_tokens, row.completion_tokens) == (2, 60, 24)
    done = house.observer.of(RequestFinished)
    assert [(each.api, each.outcome, each.cached_tokens) for each in done] == [("realtime", "ok", 20)] * 2


async def test_a_response_that_fails_at_the_server_is_told_in_its_words_and_counts_as_failed() -> None:
    async def fails(connection: ServerConnection, peer: Peer) -> None:
        error = {"type": "server_error", "code": "boom", "message": "Something broke."}
        await tell(connection, "response.created", response=response("resp_1"))
        details = {"type": "failed", "error": error}
        await tell(connection, "response.done", response=response("resp_1", "failed", status_details=details))

    async with speaking(fails) as peer, passing_to(peer.url) as house, talk(house, LIVE) as socket:
        await send(socket, "response.create")
        done = await next_of(socket, "response.done")
        await settled(house)
        await send(socket, "response.cancel")
        assert (await next_of(socket, "response.created"))["response"]["id"] == "resp_1"  # the session lives
    assert done["response"]["status_details"]["error"]["code"] == "boom"
    assert house.observer.of(RequestFinished)[0].outcome == "EngineFailed"


# ------------------------------------------------------------------------------------------------------------------ limits


@asynccontextmanager
async def one_a_minute(peer: Peer) -> AsyncIterator[House]:
    async def identify(head: Head) -> Caller:
        return Caller("acme", "key")

    config = limited("1 requests/minute per=tenant")
    async with passing_to(peer.url, config, wrap=lambda app: App(app._gateway, identify)) as house:
        yield house


async def test_a_response_over_a_limit_is_not_asked_for() -> None:
    async with speaking(answers) as peer, one_a_minute(peer) as house, talk(house, LIVE) as socket:
        await send(socket, "response.create")
        limits = await next_of(socket, "rate_limits.updated")
        await next_of(socket, "response.done")
        await send(socket, "response.create", event_id="mine")
        refused = await next_of(socket, "error")
        await send(socket, "input_audio_buffer.clear")
        await eventually(lambda: peer.of("input_audio_buffer.clear"))
    assert limits["rate_limits"][0]["remaining"] == 0
    assert (refused["error"]["code"], refused["error"]["event_id"]) == ("rate_limit_exceeded", "mine")
    assert len(peer.of("response.create")) == 1


async def test_a_response_that_the_server_begins_is_told_once_it_is_admitted_and_cancelled_over_a_limit() -> None:
    async def turns(connection: ServerConnection, peer: Peer) -> None:
        if peer.heard[-1]["type"] == "input_audio_buffer.append":
            await answer(connection, f"resp_{len(peer.of('input_audio_buffer.append'))}")
            await tell(connection, "input_audio_buffer.speech_started", item_id="i", audio_start_ms=1)

    async with speaking(turns) as peer, one_a_minute(peer) as house, talk(house, LIVE) as socket:
        heard = []
        for _ in range(2):
            await send(socket, "input_audio_buffer.append", audio="AAAA")
            while not heard or heard[-1]["type"] != "input_audio_buffer.speech_started":
                heard.append(json.loads(await socket.recv()))
            heard.append({"type": "next"})
        await eventually(lambda: peer.of("response.cancel"))
        await settled(house)
    ids = {each["response"]["id"] for each in heard if each["type"].startswith("response.") and "response" in each}
    assert ids == {"resp_1"}
    assert peer.of("response.cancel")[0]["response_id"] == "resp_2"
    assert [each["error"]["code"] for each in heard if each["type"] == "error"] == ["rate_limit_exceeded"]
    assert house.observer.of(RequestFinished)[0].outcome == "ok"


async def test_limits_of_the_operators_account_are_not_told() -> None:
    async def turns(connection: ServerConnection, peer: Peer) -> None:
        await tell(connection, "rate_limits.updated", rate_limits=[{"name": "tokens", "limit": 1, "remaining": 1}])
        await tell(connection, "input_audio_buffer.cleared")

    async with speaking(turns) as peer, passing_to(peer.url) as house, talk(house, LIVE) as socket:
        await next_of(socket, "session.created")
        await send(socket, "input_audio_buffer.clear")
        assert json.loads(await socket.recv())["type"] == "input_audio_buffer.cleared"


async def test_an_error_about_a_response_without_an_id_of_the_client_names_none() -> None:
    async def refuses(connection: ServerConnection, peer: Peer) -> None:
        about = peer.heard[-1].get("event_id")
        error = {"type": "invalid_request_error", "code": "busy", "message": "No.", "event_id": about}
        await tell(connection, "error", error=error)

    async with speaking(refuses) as peer, passing_to(peer.url) as house, talk(house, LIVE) as socket:
        await send(socket, "response.create")
        unnamed = await next_of(socket, "error")
        await send(socket, "response.create", event_id="mine")
        named = await next_of(socket, "error")
        await settled(house)
    assert peer.heard[0]["event_id"]
    assert (unnamed["error"]["event_id"], named["error"]["event_id"]) == (None, "mine")
    assert {each.outcome for each in house.observer.of(RequestFinished)} == {"EngineRejected"}


# -------------------------------------------------------------------------------------------------------- what is not passed


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("no json", "invalid_event"),
        ("[]", "invalid_event"),
        ('{"event_id": "a"}', "invalid_event"),
        ('{"type": 5}', "invalid_event"),
        ('{"type": "session.update", "session": {"type": "realtime", "model": "other"}}', "invalid_value"),
        ('{"type": "response.create", "x": ' + "[" * 5000 + "]" * 5000 + "}", "invalid_event"),
        ('{"type": "response.create", "event_id": "' + "x" * 600 + '"}', "invalid_value"),
        ('{"type": "response.create", "response": {"metadata": 1e999}}', "invalid_event"),
        ('{"type": "session.update", "session": {"model": "live", "x": 1e999}}', "invalid_event"),
        ('{"type": "session.update", "session": {"model": "live"}, "x": 1e999}', "invalid_event"),
        ('{"type": "response.create", "response": {"tools": [{"type": "mcp"}], "x": 1e999}}', "invalid_event"),
    ],
)
async def test_what_is_no_event_is_not_passed_on(frame: str, code: str) -> None:
    async with speaking(answers) as peer, passing_to(peer.url) as house, talk(house, LIVE) as socket:
        await next_of(socket, "session.created")
        await socket.send(frame)
        assert (await next_of(socket, "error"))["error"]["code"] == code
        await send(socket, "response.create")
        await next_of(socket, "response.done")
    assert [each["type"] for each in peer.heard] == ["response.create"]


# --------------------------------------------------------------------------------------------------------- ends and losses


@pytest.mark.full
async def test_a_server_that_is_lost_fails_what_is_under_way_and_the_client_is_told() -> None:
    async def dies(connection: ServerConnection, peer: Peer) -> None:
        await tell(connection, "response.created", response=response("resp_1"))
        await tell(connection, "response.output_text.delta", response_id="resp_1", item_id="i", delta="So")
        connection.transport.abort()

    async with speaking(dies) as peer, passing_to(peer.url) as house, talk(house, LIVE) as socket:
        await send(socket, "response.create")
        done = await next_of(socket, "response.done")
        error = await next_of(socket, "error")
        await socket.wait_closed()
        await settled(house)
    assert (done["response"]["id"], done["response"]["status"]) == ("resp_1", "failed")
    assert error["error"]["type"] == "server_error"
    assert socket.close_code == 1011
    assert house.observer.of(RequestFinished)[0].outcome == "WorkerGone"


async def test_a_session_that_the_server_ends_ends_here_too() -> None:
    async def leaves(connection: ServerConnection, peer: Peer) -> None:
        await tell(connection, "error", error={"type": "x", "code": "session_expired", "message": "Over."})
        await connection.close(1001)

    async with speaking(leaves) as peer, passing_to(peer.url) as house, talk(house, LIVE) as socket:
        await send(socket, "input_audio_buffer.clear")
        assert (await next_of(socket, "error"))["error"]["code"] == "session_expired"
        await socket.wait_closed()
    assert socket.close_code == 1001


@pytest.mark.full
@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize(
    "odd",
    [
        {"type": "response.output_text.delta", "response_id": None, "delta": 5},
        {"type": "response.output_text.delta", "response_id": "resp_1", "delta": {"a": []}},
        {"type": "response.done", "response": None},
        {"type": "response.done", "response": {"id": 5}},
        {"type": "response.created", "response": "no"},
        {"type": "session.updated", "session": None},
        {"type": "error", "error": "no"},
        {"type": "something.new", "response": 5, "session": 6, "error": 7, "delta": 8},
    ],
)
async def test_an_event_of_a_server_that_nobody_knows_is_passed_on_and_the_session_lives(odd: dict[str, Any]) -> None:
    async def speaks(connection: ServerConnection, peer: Peer) -> None:
        await connection.send(json.dumps(odd))
        await tell(connection, "input_audio_buffer.cleared")

    async with speaking(speaks) as peer, passing_to(peer.url) as house, talk(house, LIVE) as socket:
        await next_of(socket, "session.created")
        for _ in range(2):
            await send(socket, "input_audio_buffer.clear")
            while (event := json.loads(await socket.recv()))["type"] != "input_audio_buffer.cleared":
                assert event["type"] == odd["type"]
        await send(socket, "session.update", session={"type": "realtime"})
        await next_of(socket, "input_audio_buffer.cleared")


@pytest.mark.full
@pytest.mark.parametrize(
    "frame",
    [
        "<html>",
        '{"type": "x", "x": ' + "[" * 5000 + "]" * 5000 + "}",
        b'{"type": "response.output_text.delta", "more": "\xff"}',
        '{"type": "session.updated", "session": {"type": "realtime"}, "more": 1e999}',
    ],
)
async def test_what_is_no_event_of_a_server_ends_the_session(frame: str | bytes) -> None:
    async def babbles(connection: ServerConnection, peer: Peer) -> None:
        await connection.send(frame)

    async with speaking(babbles) as peer, passing_to(peer.url) as house, talk(house, LIVE) as socket:
        await send(socket, "input_audio_buffer.clear")
        await next_of(socket, "error")
        await socket.wait_closed()
    assert socket.close_code == 1011


async def test_a_client_that_leaves_ends_the_session_at_the_server() -> None:
    ended = asyncio.Event()

    async def waits(connection: ServerConnection, peer: Peer) -> None:
        await tell(connection, "response.created", response=response("resp_1"))
        await connection.wait_closed()
        ended.set()

    async with speaking(waits) as peer, passing_to(peer.url) as house:
        async with talk(house, LIVE) as socket:
            await send(socket, "response.create")
            await next_of(socket, "response.created")
        await asyncio.wait_for(ended.wait(), PATIENCE)
        await settled(house)
    assert house.observer.of(RequestFinished)[0].outcome == "client_gone"


async def test_a_client_that_leaves_while_its_response_waits_frees_its_place_at_once() -> None:
    async def begins(connection: ServerConnection, peer: Peer) -> None:
        if peer.heard[-1]["type"] == "response.create":
            await tell(connection, "response.created", response=response("resp_1"))
        if peer.heard[-1]["type"] == "response.cancel":
            await tell(connection, "response.done", response=response("resp_1", "cancelled"))

    config = attrs.evolve(queued(), breaker=CALM.breaker, workers=attrs.evolve(CALM.workers, most_in_flight=1))
    async with (
        speaking(begins) as peer,
        over_http(workers=(worker(peer.url),), config=config) as house,
        talk(house, LIVE) as first,
        talk(house, LIVE) as stays,
        talk(house, LIVE) as leaves,
    ):
        await send(first, "response.create", response={})
        await next_of(first, "response.created")
        for socket in (stays, leaves):
            await send(socket, "response.create", response={})
            await send(socket, "input_audio_buffer.append", audio="AAAA")
        await eventually(lambda: waiting(house) == 2)
        await leaves.close()
        await eventually(lambda: waiting(house) == 1)
        await send(first, "response.cancel")
        await next_of(stays, "response.created")
        await eventually(lambda: len(peer.of("input_audio_buffer.append")) == 1)
    kinds = [each["type"] for each in peer.heard]
    assert kinds[:4] == ["response.create", "response.cancel", "response.create", "input_audio_buffer.append"]


@pytest.mark.full
async def test_another_server_is_asked_where_one_cannot_be_reached(there: House) -> None:
    with sockets.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{closed.getsockname()[1]}"
        async with speaking(answers) as first:
            specs = (worker(first.url, name="a"), worker(there.url, name="b"))
            async with over_http(workers=specs, config=CALM) as house:
                engine_of(house, "a").address = HttpAddress.parse(nowhere)  # it has joined while it could be reached
                async with talk(house, LIVE) as socket:
                    await until(socket, "conversation.created")
                    await respond(socket, instructions="Speak.", max_output_tokens=2)
    assert house.observer.of(RequestFinished)[0].worker == "b"


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(("status", "told"), [(401, 500), (404, 500), (429, 503), (500, 500)])
async def test_a_server_that_refuses_the_handshake_is_told_of_before_the_upgrade(status: int, told: int) -> None:
    def refuse(asked: Any) -> Any:
        return asked[0].respond(status, '{"error": {"message": "sk-operator is no key"}}')

    async with speaking(answers, refuse) as peer:
        spec = worker(peer.url, credential=CredentialSpec(key="sk-operator"))
        async with over_http(workers=(spec,), config=CALM) as house:
            with pytest.raises(InvalidStatus) as refused:
                async with talk(house, LIVE):
                    pass
    answer = refused.value.response
    assert answer.status_code == told
    assert b"sk-operator" not in answer.body


@pytest.mark.full
async def test_a_session_ends_after_its_time_once_nothing_is_under_way(there: House) -> None:
    config = Config(realtime=RealtimeConfig(session_s=0.3))
    async with passing_to(there.url, config) as house, talk(house, LIVE) as socket:
        await until(socket, "conversation.created")
        assert (await next_of(socket, "error"))["error"]["code"] == "session_expired"
        await socket.wait_closed()
    assert socket.close_code == 1001


@pytest.mark.full
async def test_a_gateway_that_leaves_finishes_the_response_under_way_and_makes_no_other() -> None:
    async with over_http(SLOW) as there, passing_to(there.url) as house, talk(house, LIVE) as socket:
        await until(socket, "conversation.created")
        await say(socket, "Hello")
        await send(socket, "response.create", response={"max_output_tokens": 50})
        await until(socket, "response.output_text.delta")
        house.server._asked_to_leave()
        await send(socket, "response.create", event_id="late")
        refused = await next_of(socket, "error")
        done = await next_of(socket, "response.done")
        await socket.wait_closed()
    assert (refused["error"]["event_id"], "shutting down" in refused["error"]["message"]) == ("late", True)
    assert done["response"]["status"] == "incomplete"
    assert socket.close_code == 1012


@pytest.mark.full
async def test_a_response_that_takes_too_long_is_ended_where_it_is_made() -> None:
    async def stalls(connection: ServerConnection, peer: Peer) -> None:
        if peer.heard[-1]["type"] == "response.create":
            await tell(connection, "response.created", response=response("resp_1"))
        else:
            await tell(connection, "response.done", response=response("resp_1", "cancelled", usage=USAGE))

    config = Config(timeouts=TimeoutsConfig(first_token_s=0.2))
    async with speaking(stalls) as peer, passing_to(peer.url, config) as house, talk(house, LIVE) as socket:
        await send(socket, "response.create")
        done = await next_of(socket, "response.done")
        await settled(house)
    assert done["response"]["status"] == "cancelled"
    assert peer.of("response.cancel")[0]["response_id"] == "resp_1"
    assert house.observer.of(RequestFinished)[0].outcome == "EngineStalled"


# ------------------------------------------------------------------------------------------------------------ back-pressure


@pytest.mark.full
async def test_a_client_that_does_not_read_holds_the_server_back_and_is_left_in_the_end() -> None:
    told = 0

    async def floods(connection: ServerConnection, peer: Peer) -> None:
        nonlocal told
        for _ in range(20_000):
            await tell(connection, "input_audio_buffer.cleared", padding="x" * 4000)
            told += 1

    config = Config(
        realtime=RealtimeConfig(waiting_bytes=16 * 1024),
        server=ServerConfig(allowed_hosts=("*",)),
        timeouts=TimeoutsConfig(write_s=0.5),
    )
    async with (
        speaking(floods) as peer,
        passing_to(peer.url, config) as house,
        talk(house, LIVE, sock=socket_of(house), max_queue=1, close_timeout=0.01) as socket,
    ):
        await send(socket, "input_audio_buffer.clear")
        await eventually(lambda: told)
        await eventually(lambda: not engine_of(house).sessions)
    assert 0 < told < 20_000


@pytest.mark.full
async def test_a_server_that_does_not_read_holds_its_client_back() -> None:
    """The system's own buffers take up to 80 MB on the way."""
    go_on, sent = asyncio.Event(), 0

    async def waits(connection: ServerConnection, peer: Peer) -> None:
        await go_on.wait()

    async def speaks(socket: Any) -> None:
        nonlocal sent
        for _ in range(1500):
            await send(socket, "input_audio_buffer.append", audio="A" * 64_000)
            sent += 1

    async with speaking(waits) as peer, passing_to(peer.url) as house, talk(house, LIVE) as socket:
        speaking_on = asyncio.create_task(speaks(socket))
        await eventually(lambda: peer.heard)
        same = before = 0
        while same < 50:  # until the client gets no further
            same, before = same + 1 if sent == before else 0, sent
            await asyncio.sleep(0.002)
        heard = len(peer.heard)
        go_on.set()
        await speaking_on
        await eventually(lambda: len(peer.heard) == 1500)
    assert heard == 1
    assert before < 1500
