"""How Realtime sessions begin and end, what bounds them, and what they count for: limits, the ledger, workers, permissions."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest
from tests.gateway.conftest import House, eventually, over_http, settled
from tests.gateway.realtime import SIMULATOR, in_order, opened, receive, respond, say, send, talk, until
from tests.gateway.test_limits_held import limited
from tests.gateway.test_responses_socket import SLOW, socket_of
from tests.shared import PATIENCE
from websockets.exceptions import ConnectionClosed, InvalidStatus

from smg_core.apis.realtime.settings import RealtimeConfig
from smg_core.app.app import App
from smg_core.auth.base import Head
from smg_core.config.config import Config
from smg_core.errors import AuthenticationFailed
from smg_core.grants import Grants
from smg_core.hooks import ExchangeEnded, RequestFinished
from smg_core.http.settings import ServerConfig
from smg_core.ledger.queries import UsageQuery
from smg_core.ledger.settings import LedgerConfig
from smg_core.pipeline.settings import TimeoutsConfig
from smg_core.request import Caller
from smg_simulator.answers.faults import Fault
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio


def configured(**settings: Any) -> Config:
    return Config(realtime=RealtimeConfig(**settings))


@pytest.fixture(scope="module")
async def shared() -> AsyncIterator[House]:
    """One gateway for the tests that leave nothing behind."""
    async with over_http(SIMULATOR) as house:
        yield house


async def turn(socket: Any, text: str = "Hello", **fields: Any) -> Any:
    """The response to one more message."""
    await say(socket, text)
    return in_order(await respond(socket, **{"max_output_tokens": 5, **fields}))[-1]["response"]


# ------------------------------------------------------------------------------------------------------------ beginning


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/v1/realtime", 400, "missing_required_parameter"),
        ("/v1/realtime?model=", 400, "missing_required_parameter"),
        ("/v1/realtime?model=none", 404, "model_not_found"),
        ("/v1/realtime?model=sim&call_id=rtc_1", 404, "call_id_not_found"),
        ("/v1/realtime?call_id=rtc_1", 404, "call_id_not_found"),
    ],
)
async def test_a_handshake_without_a_model_that_is_served_is_refused(
    shared: House, path: str, status: int, code: str
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with talk(shared, path):
            pass
    response = refused.value.response
    assert (response.status_code, json.loads(response.body)["error"]["code"]) == (status, code)


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/v1/realtime/sessions", 400, "beta_api_shape_disabled"),
        ("/v1/realtime/transcription_sessions", 400, "beta_api_shape_disabled"),
        ("/v1/realtime/calls", 501, "unsupported"),
        ("/v1/realtime/calls/rtc_1/hangup", 501, "unsupported"),
        ("/v1/realtime/calls/rtc_1/accept", 501, "unsupported"),
        ("/v1/realtime/calls/rtc_1/reject", 501, "unsupported"),
        ("/v1/realtime/calls/rtc_1/refer", 501, "unsupported"),
        ("/v1/realtime/translations/client_secrets", 501, "unsupported"),
    ],
)
async def test_what_is_not_here_is_refused_by_name(shared: House, path: str, status: int, code: str) -> None:
    answer = await shared.http.post(path, json={})
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/realtime?model=sim", {"OpenAI-Beta": "realtime=v1"}, 400),
        ("/v1/realtime?intent=translation", {}, 400),
        ("/v1/realtime/translations?model=sim", {}, 501),
    ],
)
async def test_a_handshake_for_what_is_not_here_is_refused(
    shared: House, path: str, headers: dict[str, str], status: int
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with talk(shared, path, additional_headers=headers):
            pass
    assert refused.value.response.status_code == status


async def test_a_session_that_transcribes_makes_no_responses() -> None:
    async with over_http(SIMULATOR) as house, talk(house, "/v1/realtime?intent=transcription") as socket:
        created = await receive(socket)
        sound = {"input": {"transcription": {"model": "whisper", "language": "en"}}}
        await send(socket, "session.update", session={"type": "transcription", "audio": sound})
        updated = await receive(socket)
        await send(socket, "response.create")
        refused = await receive(socket)
        await send(socket, "session.update", session={"type": "realtime"})
        other = await receive(socket)
    session = created["session"]
    assert (session["type"], session["object"]) == ("transcription", "realtime.transcription_session")
    assert updated["session"]["audio"]["input"]["transcription"] == {"model": "whisper", "language": "en"}
    assert (refused["error"]["code"], other["error"]["param"]) == ("invalid_event", "session.type")


async def test_a_plain_request_is_told_that_there_is_a_websocket() -> None:
    async with over_http(SIMULATOR) as house:
        answer = await house.http.get("/v1/realtime?model=sim")
        by_post = await house.http.post("/v1/realtime?model=sim", json={})
    assert (answer.status_code, by_post.status_code) == (426, 405)
    assert by_post.headers["allow"] == "GET"


async def test_a_key_needs_the_permission() -> None:
    async def identify(head: Head) -> Caller:
        return Caller(tenant="t", grants=Grants(permissions=frozenset({"chat"})))

    async with over_http(SIMULATOR, wrap=lambda app: App(app._gateway, identify)) as house:
        with pytest.raises(InvalidStatus) as refused:
            async with talk(house):
                pass
    assert refused.value.response.status_code == 403


@pytest.mark.full
def test_what_answers_sessions_is_loaded_with_the_first_connection() -> None:
    code = (
        "import sys, smg_core; smg_core.Gateway()\n"
        "print([name for name in sys.modules if name.startswith('smg_core.apis.realtime.')])"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    names = ("settings", "wire", "wire.beta", "routes")
    assert found.strip() == str([f"smg_core.apis.realtime.{name}" for name in names])


# --------------------------------------------------------------------------------------------------------------- ending


@pytest.mark.full
async def test_a_session_ends_after_its_time_once_nothing_is_under_way() -> None:
    async with over_http(SLOW, config=configured(session_s=0.3)) as house, talk(house) as socket:
        await opened(socket)
        await say(socket, "Hello")
        await send(socket, "response.create", response={"max_output_tokens": 40})
        events = in_order(await until(socket, "response.done"))
        last = await receive(socket)
        with pytest.raises(ConnectionClosed):
            await socket.recv()
    assert events[-1]["response"]["status"] == "incomplete"
    assert last["error"]["code"] == "session_expired"
    assert socket.close_code == 1001


@pytest.mark.full
async def test_a_gateway_that_leaves_finishes_the_response_under_way_and_makes_no_other() -> None:
    async with over_http(SLOW) as house, talk(house) as socket, talk(house) as idle:
        await opened(socket)
        await opened(idle)
        await say(socket, "Hello")
        await say(idle, "Hello")
        await send(socket, "response.create", response={"max_output_tokens": 50})
        await until(socket, "response.output_text.delta")
        house.server._asked_to_leave()
        refused = in_order(await respond(idle))[-1]["response"]
        events = await until(socket, "response.done")
        await idle.wait_closed()
        await socket.wait_closed()
    assert refused["status"] == "failed"
    assert "shutting down" in refused["status_details"]["error"]["message"]
    assert events[-1]["response"]["status"] == "incomplete"
    assert socket.close_code == idle.close_code == 1012


@pytest.mark.full
async def test_a_client_that_does_not_read_holds_its_engine_back_and_is_left_in_the_end() -> None:
    config = attrs.evolve(
        configured(waiting_bytes=16 * 1024),
        server=ServerConfig(allowed_hosts=("*",)),
        timeouts=TimeoutsConfig(write_s=0.5),
    )
    engine = SimulatorConfig(seed=1, reply_tokens=100_000)
    async with (
        over_http(engine, config=config) as house,
        talk(house, sock=socket_of(house), max_queue=1, close_timeout=0.01) as socket,
    ):
        await opened(socket)
        await say(socket, "Hello")
        await send(socket, "response.create")
        await eventually(lambda: house.observer.of(RequestFinished))
        await settled(house)
    (finished,) = house.observer.of(RequestFinished)
    assert finished.outcome == "client_gone"
    assert finished.completion_tokens < 100_000


# --------------------------------------------------------------------------------------------------------------- bounds


async def test_items_and_bytes_of_a_session_are_bounded() -> None:
    async with over_http(SIMULATOR, config=configured(items=3, kept_bytes=8192)) as house, talk(house) as socket:
        await opened(socket)
        errors = []
        for text in ("a" * 9000, "b", "c", "d", "e"):
            item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
            await send(socket, "conversation.item.create", item=item)
            last = (await until(socket, "conversation.item.done"))[-1]
            errors.append(last.get("error", {}).get("code"))
        await send(socket, "session.update", session={"type": "realtime", "instructions": "i" * 9000})
        settings = await receive(socket)
        await send(socket, "response.create")
        full = await receive(socket)
        await send(socket, "response.create", response={"conversation": "none", "max_output_tokens": 2})
        outside = in_order(await until(socket, "response.done"))
    assert full["error"]["code"] == "conversation_full"
    assert outside[-1]["response"]["status"] == "incomplete"
    assert errors == ["session_too_large", None, None, None, "too_many_items"]
    assert settings["error"]["code"] == "session_too_large"


async def test_an_event_over_the_bound_ends_the_connection() -> None:
    async with over_http(SIMULATOR, config=configured(frame_bytes=2048)) as house, talk(house) as socket:
        await opened(socket)
        await socket.send("x" * 3000)
        error = await receive(socket)
        await socket.wait_closed()
    assert error["type"] == "error"
    assert socket.close_code == 1009


async def test_a_long_event_is_read() -> None:
    async with over_http(SIMULATOR) as house, talk(house) as socket:
        await opened(socket)
        item = await say(socket, "word " * 20_000)
    assert len(item["content"][0]["text"]) == 100_000


@pytest.mark.full
async def test_a_conversation_that_is_too_long_loses_its_oldest_turns_for_good() -> None:
    async with over_http(SimulatorConfig(seed=1, context_length=400)) as house, talk(house) as socket:
        await opened(socket)
        await send(
            socket,
            "session.update",
            session={
                "type": "realtime",
                "instructions": "KEEP-THIS",
                "truncation": {"type": "retention_ratio", "retention_ratio": 0.5},
            },
        )
        await receive(socket)
        answers = [await turn(socket, f"TURN-{number} " + "word " * 40, max_output_tokens=20) for number in range(9)]
        sizes = [each["usage"]["input_tokens"] for each in answers]
        decode = house.engine.engine.vocabulary.decode
        prompts = [decode(list(each.input_ids), skip_special_tokens=False) for each in house.engine.requests]
        firsts = [prompt[prompt.index("TURN-") :][:6] for prompt in prompts]
        await send(socket, "session.update", session={"type": "realtime", "truncation": "disabled"})
        await receive(socket)
        too_long = await turn(socket, "word " * 400)
    assert {each["status"] for each in answers} <= {"incomplete", "completed"}
    assert max(sizes) <= 400
    assert firsts == sorted(firsts)
    assert len(set(firsts)) < 6  # what is cut away is so much that several turns begin alike
    assert all("KEEP-THIS" in prompt for prompt in prompts)
    assert too_long["status_details"]["error"]["code"] == "context_length_exceeded"


# ------------------------------------------------------------------------------------------------- limits, ledger, workers


async def test_limits_hold_each_response_and_are_told() -> None:
    config = limited("2 requests/minute per=tenant", "100000 tokens/minute per=tenant")

    async def identify(head: Head) -> Caller:
        return Caller("acme", "key")

    wrapped = over_http(SIMULATOR, config=config, wrap=lambda app: App(app._gateway, identify))
    async with wrapped as house, talk(house) as socket:
        await opened(socket)
        await say(socket, "Hello")
        told = []
        for _ in range(3):
            events = in_order(await respond(socket, max_output_tokens=3))
            told.append([event for event in events if event["type"] == "rate_limits.updated"])
    first, second, third = told
    limits = {each["name"]: each for each in first[0]["rate_limits"]}
    assert (limits["requests"]["limit"], limits["requests"]["remaining"]) == (2, 1)
    assert limits["tokens"]["limit"] == 100_000
    assert limits["requests"]["reset_seconds"] > 0
    assert len(second) == 1
    assert third == []
    response = events[-1]["response"]
    assert (response["status"], response["status_details"]["error"]["code"]) == ("failed", "rate_limit_exceeded")


async def test_every_response_has_a_line_in_the_access_log_and_an_account() -> None:
    config = Config(ledger=LedgerConfig(enabled=True, url="memory:", write_s=3600.0))
    async with over_http(SIMULATOR, config=config) as house:
        async with talk(house) as socket:
            session = await opened(socket)
            responses = [await turn(socket) for _ in range(2)]
        await eventually(lambda: len(house.observer.of(ExchangeEnded)) == 3)
        ledger = house.gateway.services.running.ledger
        assert ledger is not None
        (row,) = (await ledger.read(UsageQuery((0, 10**7), by=()))).data
    moments = house.observer.of(ExchangeEnded)
    assert [(each.status, each.outcome) for each in moments] == [(200, "ok"), (200, "ok"), (101, "ok")]
    assert [each.request_id for each in moments] == [*(each["id"] for each in responses), session["id"]]
    assert {each.api for each in house.observer.of(RequestFinished)} == {"realtime"}
    assert row.requests == 2
    assert row.completion_tokens == sum(each["usage"]["output_tokens"] for each in responses)


@pytest.mark.full
async def test_a_session_stays_with_its_worker_and_survives_its_death() -> None:
    async with over_http(SIMULATOR, engines=3) as house, talk(house) as socket:
        await opened(socket)
        for number in range(4):
            await turn(socket, f"Turn {number}")
        workers = [each.worker for each in house.observer.of(RequestFinished)]
        (home,) = set(workers)
        engine = next(each for each in house.engines if each.counters["finished"])
        await engine.stop()
        after = await turn(socket, "And now?")
    last = house.observer.of(RequestFinished)[-1]
    assert after["status"] == "incomplete"
    assert last.worker != home


async def test_a_worker_that_dies_within_an_answer_is_replaced_within_it() -> None:
    fault = Fault("cut", after=3)
    async with over_http(SimulatorConfig(seed=1, faults=(fault,)), engines=2) as house, talk(house) as socket:
        await opened(socket)
        response = await turn(socket, max_output_tokens=20)
    assert response["usage"]["output_tokens"] == 20
    assert len(response["output"]) == 1
    assert house.observer.of(RequestFinished)[-1].attempts > 1


async def test_a_failure_of_the_engine_ends_the_response_and_not_the_session() -> None:
    faults = (Fault("error", after=0, message="broken"),) * 1
    async with over_http(SimulatorConfig(seed=1, faults=faults)) as house, talk(house) as socket:
        await opened(socket)
        failed = await turn(socket)
        after = await turn(socket)
    assert failed["status"] == "failed"
    assert failed["status_details"]["error"]["type"] == "server_error"
    assert after["status"] == "incomplete"


async def test_a_key_that_is_good_no_more_begins_no_response() -> None:
    known = {"key"}

    async def identify(head: Head) -> Caller:
        if head.headers.get("authorization", "").removeprefix("Bearer ") not in known:
            raise AuthenticationFailed("Unknown key.")
        return Caller("t", "p")

    async with (
        over_http(SIMULATOR, wrap=lambda app: App(app._gateway, identify)) as house,
        talk(house, additional_headers={"Authorization": "Bearer key"}) as socket,
    ):
        await opened(socket)
        await turn(socket)
        known.clear()
        await say(socket, "Hello")
        events = await respond(socket)
        async with asyncio.timeout(PATIENCE):
            await socket.wait_closed()
    assert events[-1]["type"] in ("response.done", "error")
