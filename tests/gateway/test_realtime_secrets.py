"""Client secrets: made by a key, good for sessions of one model with its settings alone, until they expire."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from openai.types.realtime import ClientSecretCreateResponse
from tests.gateway.conftest import House, eventually, over_http
from tests.gateway.realtime import SIMULATOR, in_order, opened, respond, say, talk
from tests.gateway.test_realtime_relayed import Peer, engine_of, passing_to, speaking, tell
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from smg_core.auth.settings import AuthConfig
from smg_core.config.config import Config
from smg_core.errors import AuthenticationFailed, PermissionDenied
from smg_core.grants import Grants
from smg_core.hooks import RequestFinished
from smg_core.identity.client_secrets import open_secret, seal_secret
from smg_core.request import Caller
from smg_core.sealing.sealer import Sealer

pytestmark = pytest.mark.anyio

PATH = "/v1/realtime/client_secrets"
KEY = {"Authorization": "Bearer sk-acme-1234567890"}
CONFIG = Config(auth=AuthConfig(keys=("sk-acme-1234567890 tenant=acme",)))
SESSION = {"type": "realtime", "model": "sim", "instructions": "Be brief."}


@asynccontextmanager
async def keyed() -> AsyncIterator[House]:
    """A gateway whose callers have keys."""
    async with over_http(SIMULATOR, config=CONFIG) as house:
        yield house


@pytest.fixture(scope="module")
async def shared() -> AsyncIterator[House]:
    """One such gateway for the tests that leave nothing behind."""
    async with keyed() as house:
        yield house


async def made(house: House, **body: Any) -> Any:
    answer = await house.http.post(PATH, headers=KEY, json={"session": SESSION, **body})
    assert answer.status_code == 200, answer.text
    ClientSecretCreateResponse.model_validate_json(answer.content, strict=True)
    return answer.json()


async def test_a_secret_opens_sessions_with_its_settings_for_its_tenant() -> None:
    async with keyed() as house:
        secret = await made(house)
        client = openai.AsyncOpenAI(api_key=secret["value"], base_url=f"{house.url}/v1")
        async with client, client.realtime.connect(model="sim") as connection:
            event = await connection.recv()
        headers = {"Authorization": f"Bearer {secret['value']}"}
        async with talk(house, "/v1/realtime", additional_headers=headers) as socket:
            session = await opened(socket)
            await say(socket, "Hello")
            in_order(await respond(socket, max_output_tokens=3))
    assert event.type == "session.created"
    assert (session["instructions"], session["model"]) == ("Be brief.", "sim")
    assert secret["session"]["instructions"] == "Be brief."
    assert house.observer.of(RequestFinished)[-1].tenant == "acme"


@pytest.mark.full
async def test_a_browser_brings_it_as_a_subprotocol() -> None:
    async with keyed() as house:
        value = (await made(house))["value"]
        offered = [Subprotocol("realtime"), Subprotocol(f"openai-insecure-api-key.{value}")]
        async with talk(house, "/v1/realtime", subprotocols=offered) as socket:
            session = await opened(socket)
            chosen = socket.subprotocol
        wrong = [Subprotocol("realtime"), Subprotocol("openai-insecure-api-key.ek_none")]
        with pytest.raises(InvalidStatus) as refused:
            async with talk(house, "/v1/realtime?model=sim", subprotocols=wrong):
                pass
        key = [Subprotocol("realtime"), Subprotocol("openai-insecure-api-key.sk-acme-1234567890")]
        async with talk(house, "/v1/realtime?model=sim", subprotocols=key) as socket:
            await opened(socket)
    assert chosen == "realtime"
    assert session["instructions"] == "Be brief."
    assert refused.value.response.status_code == 401


async def test_a_secret_is_good_for_nothing_else() -> None:
    async with keyed() as house:
        value = (await made(house))["value"]
        bearer = {"Authorization": f"Bearer {value}"}
        chat = await house.http.post(
            "/v1/chat/completions",
            headers=bearer,
            json={"model": "sim", "messages": [{"role": "user", "content": "Hello"}]},
        )
        another = await house.http.post(PATH, headers=bearer, json={})
        with pytest.raises(InvalidStatus) as refused:
            async with talk(house, "/v1/realtime?model=other", additional_headers=bearer):
                pass
    assert (chat.status_code, another.status_code, refused.value.response.status_code) == (403, 403, 400)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"expires_after": {"anchor": "created_at", "seconds": 9}}, "expires_after.seconds"),
        ({"expires_after": {"anchor": "created_at", "seconds": 7201}}, "expires_after.seconds"),
        ({"expires_after": {"anchor": "never", "seconds": 60}}, "expires_after.anchor"),
        ({"session": {"type": "realtime", "temperature": 1}}, "session.temperature"),
        ({"session": {"model": "sim"}}, "session.type"),
        ({"session": {"type": "realtime", "instructions": "i" * 5000}}, "session"),
        ({"sessions": {}}, "sessions"),
    ],
)
async def test_what_cannot_be_sealed_is_refused_by_its_field(shared: House, body: dict[str, Any], param: str) -> None:
    answer = await shared.http.post(PATH, headers=KEY, json={"session": SESSION, **body})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


async def test_of_a_model_that_is_not_served_there_is_no_secret() -> None:
    async with keyed() as house:
        answer = await house.http.post(PATH, headers=KEY, json={"session": {**SESSION, "model": "none"}})
        without_key = await house.http.post(PATH, json={})
    assert (answer.status_code, without_key.status_code) == (404, 401)


async def test_where_everybody_may_ask_a_secret_is_checked_all_the_same() -> None:
    async with over_http(SIMULATOR) as house:
        value = (await house.http.post(PATH, json={"session": SESSION})).json()["value"]
        async with talk(house, "/v1/realtime", additional_headers={"Authorization": f"Bearer {value}"}) as socket:
            session = await opened(socket)
        with pytest.raises(InvalidStatus) as refused:
            async with talk(house, additional_headers={"Authorization": f"Bearer {value[:-4]}AAAA"}):
                pass
    assert session["instructions"] == "Be brief."
    assert refused.value.response.status_code == 401


def test_a_secret_expires_and_may_do_no_more_than_its_maker() -> None:
    sealer, other = Sealer([b"k" * 32], most=1 << 16), Sealer([b"o" * 32], most=1 << 16)
    maker = Caller("acme", "key", Grants(models=(("sim",),)))
    text = seal_secret(sealer, maker, "realtime", "sim", {"type": "realtime"}, 100)
    secret = open_secret(sealer, text, 99.0)
    assert (secret.caller.tenant, secret.caller.principal, secret.model) == ("acme", "key", "sim")
    assert secret.caller.grants == Grants(frozenset({"realtime"}), (("sim",), ("sim",)))
    for at, by, code in ((100.0, sealer, "client_secret_expired"), (99.0, other, "invalid_api_key")):
        with pytest.raises(AuthenticationFailed) as refused:
            open_secret(by, text, at)
        assert refused.value.code == code
    with pytest.raises(PermissionDenied):
        seal_secret(sealer, maker, "realtime", "other", {}, 100)
    with pytest.raises(PermissionDenied):
        seal_secret(sealer, Caller(grants=Grants(frozenset({"chat"}))), "realtime", "sim", {}, 100)


# ------------------------------------------------------------------------------- models whose servers have sessions themselves


async def secret_of(house: House, **settings: Any) -> list[str]:
    """The subprotocols of a client with a secret for these settings."""
    session = {"type": "realtime", "model": "live", **settings}
    made = await house.http.post("/v1/realtime/client_secrets", json={"session": session})
    assert made.status_code == 200, made.text
    return ["realtime", f"openai-insecure-api-key.{made.json()['value']}"]


async def test_the_settings_of_a_client_secret_are_those_that_the_session_begins_with() -> None:
    async def takes(connection: ServerConnection, peer: Peer) -> None:
        await tell(connection, "session.updated", session=peer.heard[-1]["session"])

    async with speaking(takes) as peer, passing_to(peer.url) as house:
        protocols = await secret_of(house, instructions="Sealed.")
        async with talk(house, "/v1/realtime", subprotocols=protocols) as socket:
            created = json.loads(await socket.recv())
            updated = json.loads(await socket.recv())
    session = {"type": "realtime", "instructions": "Sealed."}
    assert peer.heard[0] == {"type": "session.update", "session": {**session, "model": "sim"}}
    assert (created["type"], updated["session"]) == ("session.created", {**session, "model": "live"})


@pytest.mark.full
async def test_a_session_whose_server_does_not_take_the_settings_of_its_secret_is_not_opened() -> None:
    async def refuses(connection: ServerConnection, peer: Peer) -> None:
        await tell(
            connection, "error", error={"type": "invalid_request_error", "code": "no", "message": "No such voice."}
        )

    async with speaking(refuses) as peer, passing_to(peer.url) as house:
        protocols = await secret_of(house, instructions="Say nothing of prices.")
        with pytest.raises(InvalidStatus) as refused:
            async with talk(house, "/v1/realtime", subprotocols=protocols):
                pass
        await eventually(lambda: not engine_of(house).sessions)
    assert refused.value.response.status_code == 400
    assert json.loads(refused.value.response.body)["error"]["param"] == "session"
    assert b"No such voice" not in refused.value.response.body
