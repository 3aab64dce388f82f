"""Calls by WebRTC: how they begin and end, what bounds them, and who listens in, with aiortc as the browser."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest
from tests.gateway.calls import CALLS, PORTS, Phone, an_offer, call, create
from tests.gateway.conftest import House, eventually, over_http, settled
from tests.gateway.realtime import SIMULATOR, in_order, receive, send, talk, until
from tests.gateway.test_realtime_life import configured
from tests.gateway.test_responses_socket import SLOW
from tests.shared import PATIENCE
from websockets.exceptions import ConnectionClosed, InvalidStatus

from smg_core.config.config import Config
from smg_core.errors import AuthenticationFailed
from smg_core.hooks import ExchangeEnded, RequestFinished
from smg_core.request import Caller

pytestmark = [pytest.mark.anyio, pytest.mark.full]  # a call takes half a second to be set up, most of it cryptography


def taking(**settings: Any) -> Config:
    """The settings of a gateway that takes calls."""
    return configured(**{"udp_ports": PORTS, **settings})


@pytest.fixture(scope="module")
async def shared() -> AsyncIterator[House]:
    """One gateway for the tests that leave nothing behind."""
    async with over_http(SIMULATOR, config=taking()) as house:
        yield house


def refusal(answer: httpx.Response) -> tuple[int, str, str]:
    error = answer.json()["error"]
    return answer.status_code, error["code"], error["param"]


async def tenant_of(head: Any) -> Caller:
    """A key is the name of its tenant."""
    if head.credential is None:
        raise AuthenticationFailed("No key.")
    return Caller(tenant=head.credential.text)


def key(tenant: str) -> dict[str, str]:
    return {"authorization": f"Bearer {tenant}"}


# ------------------------------------------------------------------------------------------------------------ beginning


async def test_a_session_over_a_call_is_that_of_a_websocket() -> None:
    settings = {"type": "realtime", "model": "sim", "instructions": "Be brief."}
    async with over_http(SIMULATOR, config=taking()) as house, call(house, settings) as phone:
        first = await phone.until("conversation.created")
        await phone.say("Hello")
        await phone.send("response.create", response={"max_output_tokens": 5})
        events = in_order(await phone.until("response.done"))
        await phone.send("session.updat")
        wrong = await phone.until("error")
        await phone.hang_up()
        await settled(house)
        await eventually(lambda: any(each.route == CALLS for each in house.observer.of(ExchangeEnded)), PATIENCE)
        (ended,) = [each for each in house.observer.of(ExchangeEnded) if each.route == CALLS and each.status == 101]
    assert [event["type"] for event in first] == ["session.created", "conversation.created"]
    assert first[0]["session"]["instructions"] == "Be brief."
    assert events[-1]["response"]["status"] == "incomplete"
    assert wrong[-1]["error"]["param"] == "type"
    assert [each.api for each in house.observer.of(RequestFinished)] == ["realtime"]
    assert ended.outcome == "ok"


async def test_the_vendors_sdk_makes_listens_in_to_and_ends_a_call(shared: House) -> None:
    phone = Phone(sound=False)
    async with openai.AsyncOpenAI(base_url=f"{shared.url}/v1", api_key="any", max_retries=0) as client:
        session: Any = {"type": "realtime", "model": "sim", "instructions": "Be brief."}
        made = await client.realtime.calls.create(sdp=await phone.offer(), session=session)
        await phone.answered(made.response)  # type: ignore[arg-type]
        await phone.until("conversation.created")
        async with client.realtime.connect(call_id=phone.id) as connection:
            first = await connection.recv()
            await connection.session.update(session={"type": "realtime", "instructions": "Be long."})
            updated = await phone.until("session.updated")
        await client.realtime.calls.hangup(phone.id)
    async with asyncio.timeout(PATIENCE):
        await phone.closed.wait()
    await phone.hang_up()
    assert first.type == "session.created"
    assert first.session.instructions == "Be brief."
    assert updated[-1]["session"]["instructions"] == "Be long."


async def test_a_client_secret_begins_a_call_with_its_settings(shared: House) -> None:
    asked = {"session": {"type": "realtime", "model": "sim", "instructions": "Of the secret."}}
    secret = (await shared.http.post("/v1/realtime/client_secrets", json=asked)).json()["value"]
    async with call(shared, path=CALLS, authorization=f"Bearer {secret}") as phone:
        session = (await phone.until("conversation.created"))[0]["session"]
    other = await create(shared, await an_offer(), path=f"{CALLS}?model=other", authorization=f"Bearer {secret}")
    broken = await create(shared, await an_offer(), authorization=f"Bearer {secret[:-9]}")
    assert (session["model"], session["instructions"]) == ("sim", "Of the secret.")
    assert refusal(other)[0] == 400
    assert broken.status_code == 401


async def test_who_has_a_client_secret_neither_hears_nor_ends_the_calls_of_others(shared: House) -> None:
    asked = {"session": {"type": "realtime", "model": "sim"}}
    secret = (await shared.http.post("/v1/realtime/client_secrets", json=asked)).json()["value"]
    bearer = {"authorization": f"Bearer {secret}"}
    async with call(shared) as phone:
        await phone.until("conversation.created")
        with pytest.raises(InvalidStatus) as refused:
            async with talk(shared, f"/v1/realtime?call_id={phone.id}", additional_headers=bearer):
                pass
        ended = await shared.http.post(f"{phone.location}/hangup", headers=bearer)
        await phone.say("Still here.")
    assert (refused.value.response.status_code, ended.status_code) == (403, 403)


async def test_an_offer_may_be_sent_twice_and_a_caller_may_make_two_calls(shared: House) -> None:
    phone = Phone()
    offer = await phone.offer()
    lost = await create(shared, offer, path=f"{CALLS}?model=sim")
    await phone.answered(await create(shared, offer, path=f"{CALLS}?model=sim"))
    async with call(shared) as second:
        for each in (phone, second):
            await each.until("conversation.created")
            await each.say("Hello")
            await each.send("response.create", response={"max_output_tokens": 2})
            assert (await each.until("response.done"))[-1]["response"]["status"] == "incomplete"
    await phone.hang_up()
    hung_up = await shared.http.post(f"{lost.headers['location']}/hangup")
    assert hung_up.status_code == 200


NO_SOUND = "v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\n"
CHANNEL = "m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\na=mid:0\r\na=sctp-port:5000\r\n"


@pytest.mark.parametrize(
    "offer",
    [
        "",
        "hello",
        "{}",
        "v=0",
        NO_SOUND,
        NO_SOUND + CHANNEL,  # whom it could be encrypted for is not said
        NO_SOUND + CHANNEL + CHANNEL,
        NO_SOUND + CHANNEL + "m=video 9 UDP/TLS/RTP/SAVPF 96\r\n",
        NO_SOUND + CHANNEL + "m=audio 9 UDP/TLS/RTP/SAVPF 999\r\n",
        NO_SOUND + CHANNEL + "a=fingerprint:sha-256\r\n",
        NO_SOUND + CHANNEL + "m=\r\n",
        NO_SOUND + "x" * 70_000,
    ],
)
async def test_what_is_no_offer_is_refused_and_keeps_no_port(shared: House, offer: str) -> None:
    answer = await create(shared, offer, path=f"{CALLS}?model=sim")
    assert refusal(answer) == (400, "invalid_offer", "sdp")


async def test_an_offer_without_a_data_channel_is_refused_by_name(shared: House) -> None:
    answer = await create(shared, await an_offer(label=None), path=f"{CALLS}?model=sim")
    assert refusal(answer) == (400, "invalid_offer", "sdp")
    assert "data channel" in answer.json()["error"]["message"]


async def test_what_is_wrong_with_a_session_is_told_before_the_call(shared: House) -> None:
    offer = await an_offer()
    path = f"{CALLS}?model=sim"
    assert refusal(await create(shared, offer)) == (400, "missing_required_parameter", "model")
    assert refusal(await create(shared, offer, path=f"{CALLS}?model=none"))[:2] == (404, "model_not_found")
    assert refusal(await create(shared, offer, {"type": "realtime", "model": "none"}))[:2] == (404, "model_not_found")
    wrong = {"type": "realtime", "model": "sim", "tools": [{"type": "x"}]}
    assert refusal(await create(shared, offer, wrong)) == (400, "invalid_value", "session.tools[0].type")
    assert refusal(await create(shared, offer, {"model": "sim"}))[2] == "session.type"
    assert refusal(await create(shared, offer, [1])) == (400, "invalid_type", "session")
    other = await shared.http.post(path, content=offer, headers={"content-type": "text/plain"})
    assert other.status_code == 415
    form = await shared.http.post(path, content=b"--a\r\n", headers={"content-type": "multipart/form-data; boundary=a"})
    assert form.status_code == 400
    beta = await create(shared, offer, path=path, **{"openai-beta": "realtime=v1"})
    assert refusal(beta)[1] == "beta_api_shape_disabled"


async def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smg_core.apis.realtime.routes.find_spec", lambda name: None)
    async with over_http(SIMULATOR, config=taking()) as house:
        answer = await house.http.post(CALLS, content="v=0", headers={"content-type": "application/sdp"})
        with pytest.raises(InvalidStatus) as refused:
            async with talk(house, "/v1/realtime?call_id=rtc_1"):
                pass
    assert answer.status_code == 501
    assert "smg-sdk[realtime]" in answer.json()["error"]["message"]
    assert refused.value.response.status_code == 404


# --------------------------------------------------------------------------------------------------------------- bounds


async def test_a_caller_who_never_connects_is_given_up() -> None:
    async with over_http(SIMULATOR, config=taking(udp_ports="23000-23000", call_s=0.2)) as house:
        path = f"{CALLS}?model=sim"
        lost = await create(house, await an_offer(), path=path)
        full = await create(house, await an_offer(), path=path)
        await eventually(lambda: any(each.status == 101 for each in house.observer.of(ExchangeEnded)), PATIENCE)
        hung_up = await house.http.post(f"{lost.headers['location']}/hangup")

        async def next_call() -> bool:
            return (await create(house, await an_offer(), path=path)).status_code == 201

        while not await next_call():
            await asyncio.sleep(0)
    assert lost.status_code == 201
    assert full.status_code == 503
    assert refusal(hung_up)[:2] == (404, "call_id_not_found")


async def test_a_tenant_has_only_so_many_calls_at_once() -> None:
    async with over_http(SIMULATOR, config=taking(calls=1), identity=tenant_of) as house:
        path = f"{CALLS}?model=sim"
        first = await create(house, await an_offer(), path=path, **key("one"))
        second = await create(house, await an_offer(), path=path, **key("one"))
        others = await create(house, await an_offer(), path=path, **key("two"))
    assert (first.status_code, others.status_code) == (201, 201)
    assert refusal(second)[:2] == (429, "too_many_calls")


async def test_a_session_that_is_too_old_ends_its_call() -> None:
    async with over_http(SIMULATOR, config=taking(session_s=1.0)) as house, call(house) as phone:
        events = await phone.until("error")
        async with asyncio.timeout(PATIENCE):
            await phone.closed.wait()
    assert events[-1]["error"]["code"] == "session_expired"


async def test_a_call_of_another_tenant_is_not_there() -> None:
    async with over_http(SIMULATOR, config=taking(), identity=tenant_of) as house, call(house, **key("one")) as phone:
        await phone.until("conversation.created")
        others = await house.http.post(f"{phone.location}/hangup", headers=key("two"))
        with pytest.raises(InvalidStatus) as refused:
            async with talk(house, f"/v1/realtime?call_id={phone.id}", additional_headers=key("two")):
                pass
        async with talk(house, f"/v1/realtime?call_id={phone.id}", additional_headers=key("one")) as socket:
            assert (await receive(socket))["type"] == "session.created"
        await phone.say("Still here.")
    assert refusal(others)[:2] == (404, "call_id_not_found")
    assert (refused.value.response.status_code, b"call_id_not_found" in refused.value.response.body) == (404, True)


# ----------------------------------------------------------------------------------------------------------------- ends


async def test_hanging_up_frees_the_engine_in_the_midst_of_a_response() -> None:
    async with over_http(SLOW, config=taking()) as house, call(house) as phone:
        await phone.until("conversation.created")
        await phone.say("Tell me all.")
        await phone.send("response.create")
        await phone.until("response.output_text.delta")
        hung_up = await house.http.post(f"{phone.location}/hangup")
        again = await house.http.post(f"{phone.location}/hangup")
        async with asyncio.timeout(PATIENCE):
            await phone.closed.wait()
        await settled(house)
        finished = house.observer.of(RequestFinished)
    assert (hung_up.status_code, hung_up.content) == (200, b"")
    assert again.status_code in (200, 404)
    assert [each.outcome for each in finished] == ["client_gone"]


async def test_a_caller_who_leaves_ends_the_session() -> None:
    async with over_http(SLOW, config=taking()) as house:
        async with call(house) as phone:
            await phone.until("conversation.created")
            await phone.say("Tell me all.")
            await phone.send("response.create")
            await phone.until("response.output_text.delta")
        await settled(house)
        gone = await house.http.post(f"{phone.location}/hangup")
    assert gone.status_code in (200, 404)


async def test_a_gateway_that_leaves_ends_all_calls_and_takes_none() -> None:
    phone = Phone()
    async with over_http(SIMULATOR, config=taking()) as house:
        await phone.answered(await create(house, await phone.offer(), path=f"{CALLS}?model=sim"))
        await phone.until("conversation.created")
        house.gateway.drain()
        late = await create(house, await an_offer(), path=f"{CALLS}?model=sim")
    async with asyncio.timeout(PATIENCE):
        await phone.closed.wait()
    await phone.hang_up()
    assert late.status_code == 503


# ------------------------------------------------------------------------------------------------------ who listens in


async def test_two_who_listen_in_hear_all_and_may_speak(shared: House) -> None:
    async with call(shared, sound=False) as phone:
        await phone.until("conversation.created")
        path = f"/v1/realtime?call_id={phone.id}"
        async with talk(shared, path) as first, talk(shared, path) as second:
            created = [await receive(each) for each in (first, second)]
            content = [{"type": "input_text", "text": "Hello"}]
            await send(first, "conversation.item.create", item={"type": "message", "role": "user", "content": content})
            await until(second, "conversation.item.done")
            await send(second, "response.create", response={"max_output_tokens": 3})
            heard = [await until(each, "response.done") for each in (first, second)]
            told = await phone.until("response.done")
            await first.send(b"\0")
            binary = await until(first, "error")
        async with talk(shared, path) as third:  # who has left is no burden to who comes
            await receive(third)
            await shared.http.post(f"{phone.location}/hangup")
            with pytest.raises(ConnectionClosed) as closed:
                await until(third, "never")
    assert {each["type"] for each in created} == {"session.created"}
    for events in heard:
        assert [each for each in events if each in told] == [each for each in events if each["type"] in TOLD]
    assert binary[-1]["error"]["message"] == "A frame is text."
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1000


TOLD = {
    *("response.created", "response.output_item.added", "conversation.item.added", "conversation.item.done"),
    *("response.content_part.added", "response.output_text.delta", "response.output_text.done"),
    *("response.content_part.done", "response.output_item.done", "response.done"),
}


async def test_only_so_many_listen_in(shared: House) -> None:
    async with call(shared, sound=False) as phone:
        await phone.until("conversation.created")
        path = f"/v1/realtime?call_id={phone.id}"
        sockets = [await talk(shared, path) for _ in range(8)]
        for each in sockets:
            await receive(each)
        with pytest.raises(InvalidStatus) as refused:
            async with talk(shared, path):
                pass
        for each in sockets:
            await each.close()
    assert json.loads(refused.value.response.body)["error"]["code"] == "too_many_connections"
