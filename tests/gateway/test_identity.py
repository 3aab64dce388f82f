"""Who may: every route, every role, every tenant; official SDKs with good, bad and rotated keys; and those who try without."""

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import attrs
import openai
import pytest
from google import genai
from google.genai import errors, types
from tests.gateway.conftest import CHAT, House, body, in_process, over_http
from tests.shared import PATIENCE
from websockets.asyncio.client import connect

from smg_core import Config, Gateway
from smg_core.apis import PERMISSIONS
from smg_core.app.app import App
from smg_core.auth.base import Head
from smg_core.auth.roles import Roles
from smg_core.auth.settings import AuthConfig
from smg_core.errors import AuthenticationFailed, PermissionDenied, StoreFailed
from smg_core.history.memory.store import MemoryStore
from smg_core.history.settings import HistoryConfig
from smg_core.hooks import SilentObserver
from smg_core.http.routes import WEBSOCKET
from smg_core.http.settings import BatchesConfig, ModelConfig, ServerConfig
from smg_core.identity.identity import unshared_keys
from smg_core.observability.settings import ObservabilityConfig
from smg_core.pipeline.answer.trace import Trace
from smg_core.request import Caller, GenerationRequest
from smg_core.settings import ConfigError
from smg_core.testing import FakeClock
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

USER, ADMIN, NARROW, OTHER = (f"sk-{name}-0123456789abcdef" for name in ("user", "admin", "narrow", "other"))
TENANTS = ("acme", "globex")
MANY = 1_000_000
BESIDE = {"batches": "messages chat completions responses"}
"""What the routes of a permission ask for besides: requests of batches need the permission of their own API."""


def key_of(kind: str, permission: str, tenant: str) -> str:
    return f"sk-{kind}-{permission}-{tenant}-0123456789"


def settings(**fields: Any) -> AuthConfig:
    keys = [f"{USER} tenant=acme", f"{ADMIN} tenant=acme role=admin", f"{OTHER} tenant=globex"]
    keys.append(f"{NARROW} tenant=acme model=nothing*")
    return AuthConfig(**{"keys": tuple(keys), "failures": MANY, "failures_address": MANY, **fields})


def config(auth: AuthConfig | None = None, **fields: Any) -> Config:
    server = ServerConfig(parse_routes=True, allowed_hosts=("*",))
    return Config(auth=auth or settings(), server=server, **fields)


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    """A gateway with the four keys."""
    explaining = ObservabilityConfig(explain=True)
    async with over_http(SimulatorConfig(seed=1), config=config(observability=explaining)) as house:
        yield house


def everybody() -> AuthConfig:
    """For each permission and tenant: a key that has it alone, and one that has all but it."""
    roles, keys = [], []
    for permission in PERMISSIONS:
        besides = BESIDE.get(permission, "")
        roles.append(f"only-{permission}={permission} {besides}")
        roles.append(f"but-{permission}={' '.join(PERMISSIONS.keys() - {permission})}")
        for tenant in TENANTS:
            keys += [
                f"{key_of(kind, permission, tenant)} tenant={tenant} role={kind}-{permission}"
                for kind in ("only", "but")
            ]
    return settings(keys=tuple(keys), roles=tuple(roles))


@pytest.mark.full
async def test_every_route_lets_in_who_has_its_permission_and_nobody_else() -> None:
    async with in_process(config=config(everybody())) as house:
        routes = App(house.gateway).routes
        assert {route.target.needs for route in routes} - {""} <= PERMISSIONS.keys()
        assert {route.pattern for route in routes if route.target.public} == {
            *("/health", "/readiness", "/liveness"),
            *("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"),
        }
        for route in routes:
            if route.method == WEBSOCKET:
                continue
            path, needs = re.sub(r"\{[a-z_]+(:path)?\}", "sim", route.pattern), route.target.needs
            sent = {"content": b"{}"} if route.method in ("POST", "PUT") else {}
            said = {}
            for tenant in TENANTS:
                for kind in ("only", "but"):
                    key = bearer(key_of(kind, needs or "chat", tenant))
                    said[tenant, kind] = (await house.http.request(route.method, path, headers=key, **sent)).status_code
            stranger = await house.http.request(route.method, path, headers=bearer("sk-nobody"), **sent)
            nameless = await house.http.request(route.method, path, **sent)
            where = (route.method, route.pattern, said)
            assert not {said[tenant, "only"] for tenant in TENANTS} & {401, 403, 500}, where
            if needs:
                assert {said[tenant, "but"] for tenant in TENANTS} == {403}, where
                assert (stranger.status_code, nameless.status_code) == (401, 401), where
                assert stranger.headers["www-authenticate"].startswith("Bearer")
            else:
                assert stranger.status_code == nameless.status_code == said["acme", "only"], where


ENVELOPES = [
    ("/v1/chat/completions", {"type": "invalid_request_error", "code": "invalid_api_key"}, "error"),
    ("/v1/responses", {"type": "invalid_request_error", "code": "invalid_api_key"}, "error"),
    ("/v1/messages", {"type": "authentication_error"}, "error"),
    ("/v1beta/models/sim:generateContent", {"code": 401, "status": "UNAUTHENTICATED"}, "error"),
    ("/v1beta/interactions", {"code": 401, "status": "UNAUTHENTICATED"}, "error"),
    ("/generate", {"type": "invalid_request_error", "code": "invalid_api_key"}, "error"),
]


@pytest.mark.parametrize(("path", "fields", "at"), ENVELOPES, ids=[path for path, _, _ in ENVELOPES])
async def test_a_wrong_key_is_refused_in_the_envelope_of_the_api(
    house: House, path: str, fields: dict[str, Any], at: str
) -> None:
    carriers = [{"authorization": "Bearer sk-wrong"}, {"x-api-key": "sk-wrong"}]
    carriers += (
        [{"x-goog-api-key": "sk-wrong"}] if path != "/generate" else []
    )  # there the header says whose client it is
    for header in carriers:
        answer = await house.http.post(path, headers=header, json={})

        assert answer.status_code == 401
        assert fields.items() <= answer.json()[at].items()
        assert "sk-wrong" not in answer.text


# ---------------------------------------------------------------------------------------------------------------- the SDKs


@attrs.frozen
class Sdks:
    """The three official SDKs as clients of one gateway; each asks for a few words."""

    url: str

    async def openai(self, key: str) -> str:
        async with openai.AsyncOpenAI(api_key=key, base_url=f"{self.url}/v1", max_retries=0) as client:
            messages: Any = [{"role": "user", "content": "Hello"}]
            answer = await client.chat.completions.create(model="sim", messages=messages, max_tokens=3)
            return answer.choices[0].message.content or ""

    async def anthropic(self, key: str) -> str:
        async with anthropic.AsyncAnthropic(api_key=key, base_url=self.url, max_retries=0) as client:
            answer = await client.messages.create(
                model="sim", max_tokens=3, messages=[{"role": "user", "content": "Hello"}]
            )
            return answer.content[0].text  # type: ignore[union-attr]

    async def google(self, key: str) -> str:
        options = types.HttpOptions(base_url=self.url, retry_options=types.HttpRetryOptions(attempts=1))
        short = types.GenerateContentConfig(max_output_tokens=3)
        async with genai.Client(api_key=key, http_options=options).aio as client:
            answer = await client.models.generate_content(model="sim", contents="Hello", config=short)
        return answer.text or ""

    async def answered(self, key: str) -> bool:
        """Whether all three are answered with this key; else all are refused as their API refuses a wrong key."""
        answers = [await self.outcome(ask, key) for ask in (self.openai, self.anthropic, self.google)]
        assert len(set(answers)) == 1, answers
        return answers[0]

    async def outcome(self, ask: Any, key: str) -> bool:
        try:
            return bool(await ask(key))
        except (openai.AuthenticationError, anthropic.AuthenticationError, errors.ClientError) as error:
            told = error
        match told:
            case openai.AuthenticationError():
                assert told.code == "invalid_api_key"
            case anthropic.AuthenticationError():
                assert told.body["error"]["type"] == "authentication_error"  # type: ignore[index]
            case _:
                assert (told.code, told.status) == (401, "UNAUTHENTICATED")
        return False


async def test_the_official_sdks_are_answered_with_a_good_key_and_refused_with_a_bad_one(house: House) -> None:
    sdks = Sdks(house.url)

    assert await sdks.answered(USER)
    assert not await sdks.answered("sk-wrong-0123456789abcdef")
    assert not await sdks.answered(USER[:-1])


@pytest.mark.full
async def test_the_official_sdks_are_answered_with_the_new_key_after_a_rotation() -> None:
    async with over_http(SimulatorConfig(seed=1), config=config(settings(virtual_keys=True))) as house:
        sdks, keys = Sdks(house.url), house.gateway.virtual_keys
        assert keys is not None
        first = await keys.create(tenant="acme", name="ci")
        assert await sdks.answered(first.text)
        second = await keys.rotate(first.key.id, 3600.0)
        assert await sdks.answered(first.text)
        assert await sdks.answered(second.text)
        third = await keys.rotate(first.key.id)
        assert not await sdks.answered(second.text)
        assert await sdks.answered(third.text)
        await keys.revoke(first.key.id)
        assert not await sdks.answered(third.text)


async def test_a_key_in_the_query_is_taken_on_the_paths_of_googles_api_alone(house: House) -> None:
    generate = "/v1beta/models/sim:generateContent"
    asked = {"contents": [{"parts": [{"text": "Hi"}]}], "generationConfig": {"maxOutputTokens": 2}}

    for path in (generate, generate.replace("v1beta", "v1")):
        assert (await house.http.post(path, params={"key": USER}, json=asked)).status_code == 200
        assert (await house.http.post(path, params={"key": "sk-wrong"}, json=asked)).status_code == 401
        assert (await house.http.post(f"{path}?key={USER}&key={USER}", json=asked)).status_code == 401
        assert (await house.http.post(f"{path}?key={USER}", headers=bearer(OTHER), json=asked)).status_code == 401
    assert (await house.http.get("/v1/models", params={"key": USER})).status_code == 200
    for path in (CHAT, "/v1/messages", "/v1/responses", "/generate", "/tokenize"):
        assert (await house.http.post(path, params={"key": USER}, json=body())).status_code == 401


# --------------------------------------------------------------------------------------------------------------- models


def asks(model: str) -> list[tuple[str, str, Any]]:
    """A request of every API that names a model."""
    said = [{"role": "user", "content": "Hi"}]
    contents = {"contents": [{"parts": [{"text": "Hi"}]}]}
    return [
        ("POST", CHAT, {"model": model, "messages": said}),
        ("POST", "/v1/completions", {"model": model, "prompt": "Hi"}),
        ("POST", "/v1/responses", {"model": model, "input": "Hi"}),
        ("POST", "/v1/responses", {"model": model, "input": "Hi", "background": True}),
        ("POST", "/v1/responses/compact", {"model": model, "input": "Hi"}),
        ("POST", "/v1/responses/input_tokens", {"model": model, "input": "Hi"}),
        ("POST", "/v1/messages", {"model": model, "messages": said, "max_tokens": 3}),
        ("POST", "/v1/messages/count_tokens", {"model": model, "messages": said}),
        *(("POST", f"/{version}/models/{model}:{verb}", contents) for version in ("v1", "v1beta") for verb in VERBS),
        ("POST", "/v1beta/interactions", {"model": model, "input": "Hi"}),
        ("POST", "/generate", {"model": model, "text": "Hi"}),
        ("POST", "/tokenize", {"model": model, "prompt": "Hi"}),
        ("POST", "/detokenize", {"model": model, "tokens": [1]}),
        ("GET", f"/v1/models/{model}", None),
        ("GET", f"/v1beta/models/{model}", None),
    ]


VERBS = ("generateContent", "streamGenerateContent", "countTokens")


@pytest.mark.full
async def test_a_model_that_a_caller_may_not_use_is_answered_as_one_that_is_not_there(house: House) -> None:
    for (method, path, asked), (_, lost, unknown) in zip(asks("sim"), asks("zzz"), strict=True):
        hidden = await house.http.request(method, path, json=asked, headers=bearer(NARROW))
        absent = await house.http.request(method, lost, json=unknown, headers=bearer(NARROW))

        assert hidden.status_code == absent.status_code == 404, (path, hidden.text, absent.text)
        told = [re.sub(r"req[-_][0-9a-f]+|[a-z]+[-_][0-9a-f]{20,}", "ID", each.text) for each in (hidden, absent)]
        assert told[0].replace("sim", "zzz") == told[1], path
        assert (await house.http.request(method, path, json=asked, headers=bearer(USER))).status_code == 200, path


async def test_the_only_model_is_not_told_to_who_may_not_use_it(house: House) -> None:
    for path, asked in (
        ("/generate", {"text": "Hi"}),
        ("/tokenize", {"prompt": "Hi"}),
        ("/detokenize", {"tokens": [1]}),
    ):
        answer = await house.http.post(path, json=asked, headers=bearer(NARROW))

        assert answer.status_code == 400
        assert "sim" not in answer.text


async def test_the_lists_of_models_show_what_the_caller_may_use(house: House) -> None:
    async def listed(key: str) -> list[int]:
        google = await house.http.get("/v1beta/models", headers={"x-goog-api-key": key})
        shared = await house.http.get("/v1/models", headers={"x-goog-api-key": key})
        own = await house.http.get("/v1/models", headers=bearer(key))
        claude = await house.http.get("/v1/models", headers={"x-api-key": key, "anthropic-version": "2023-06-01"})
        page = await house.http.get("/", headers=bearer(key))
        assert page.status_code == 200
        counts = [len(each.json().get("models", [])) for each in (google, shared)]
        return [*counts, len(own.json()["data"]), len(claude.json()["data"]), int("sim" in page.text)]

    assert await listed(USER) == [1] * 5
    assert await listed(NARROW) == [0] * 5


async def test_an_alias_is_a_model_of_the_caller_by_either_name() -> None:
    keys = (f"{USER} tenant=acme model=gpt-x", f"{OTHER} tenant=acme model=sim", f"{NARROW} tenant=acme model=gpt-y")
    models = ModelConfig(aliases=("gpt-x=sim", "gpt-y=sim"))
    async with in_process(config=config(settings(keys=keys), model=models)) as house:
        said = {
            key: [(await house.http.post(CHAT, json=body() | {"model": name, "max_tokens": 2}, headers=bearer(key))).status_code
            for name in ("gpt-x", "sim")]
            for key in (USER, OTHER, NARROW)
        }  # fmt: skip

    assert said == {USER: [200, 404], OTHER: [200, 200], NARROW: [404, 404]}


@pytest.mark.full
async def test_a_batch_is_run_with_what_its_key_may_use() -> None:
    auth = settings(keys=(f"{NARROW} tenant=acme model=nothing*", f"{USER} tenant=acme", f"{OTHER} tenant=acme role=b"))
    auth = attrs.evolve(auth, roles=("b=batches files",))
    async with over_http(config=config(auth, batches=BatchesConfig(poll_s=0.05, absence_s=0.0))) as house:
        line = {"custom_id": "1", "method": "POST", "url": CHAT, "body": body(max_tokens=2)}
        refused = {}
        for key in (NARROW, USER, OTHER):
            async with openai.AsyncOpenAI(api_key=key, base_url=f"{house.url}/v1", max_retries=0) as client:
                file = await client.files.create(file=("in.jsonl", json.dumps(line).encode()), purpose="batch")
                create = client.batches.create(
                    input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
                )
                if key == OTHER:
                    with pytest.raises(openai.PermissionDeniedError, match="chat"):
                        await create
                    continue
                batch = await create
                async with asyncio.timeout(PATIENCE):
                    while batch.status != "completed":
                        await asyncio.sleep(0.02)
                        batch = await client.batches.retrieve(batch.id)
                assert batch.request_counts is not None
                refused[key] = batch.request_counts.failed

    assert refused == {NARROW: 1, USER: 0}


async def test_headers_and_fields_of_trusted_clients_need_their_permission(house: House) -> None:
    for header, value in (("x-smg-explain", "1"), ("x-smg-parser", "none")):
        refused = await house.http.post(CHAT, json=body(max_tokens=2), headers={**bearer(USER), header: value})
        taken = await house.http.post(CHAT, json=body(max_tokens=2), headers={**bearer(ADMIN), header: value})
        assert refused.status_code == 403
        assert header in refused.json()["error"]["message"]
        assert taken.status_code == (200 if header == "x-smg-explain" else 400)  # the setting is off
    preparing = house.gateway.services.running.performers.preparing
    trace = Trace(0.0, SilentObserver())
    for role, allowed in (("user", False), ("admin", True)):
        caller = Caller("acme", "ada", Roles((), PERMISSIONS).grants([role]))
        asked = GenerationRequest(id="x", model="sim", prompt="Hi", priority=1, caller=caller)
        if allowed:
            await preparing.prepare(asked, trace)
        else:
            with pytest.raises(PermissionDenied, match="priority"):
                await preparing.prepare(asked, trace)


# -------------------------------------------------------------------------------------------------------------- strangers


async def answer_to(house: House, head: str, rest: bytes = b"") -> tuple[bytes, int]:
    """The bytes of the answer to a request that is sent as far as it is taken, and how many of `rest` were."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(house.url.rpartition(":")[2]))
    writer.write(head.replace("\n", "\r\n").encode("latin-1"))
    sent, answer = 0, asyncio.create_task(reader.read())
    try:
        for at in range(0, len(rest), 65536):
            writer.write(rest[at : at + 65536])
            await writer.drain()
            sent = at + 65536
        if not rest:
            writer.write_eof()
        return await answer, sent
    except OSError:  # closed; what came before is the answer
        with_it = reader._buffer if not answer.done() or answer.exception() else answer.result()  # type: ignore[attr-defined]
        return bytes(with_it), sent
    finally:
        answer.cancel()
        writer.transport.abort()


async def test_a_stranger_is_refused_before_any_of_the_body_is_sent(house: House) -> None:
    for expect in ("", "expect: 100-continue\n"):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(house.url.rpartition(":")[2]))
        head = f"POST {CHAT} HTTP/1.1\nhost: x\ncontent-type: application/json\ncontent-length: 67108864\n{expect}\n"
        writer.write(head.replace("\n", "\r\n").encode())
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 401 ")
        writer.close()


@pytest.mark.parametrize("path", [f"POST {CHAT}", "POST /v1/files", "POST /nowhere", "POST /health", "GET /health"])
async def test_a_strangers_64_mebibytes_are_never_taken_in(house: House, path: str) -> None:
    size = 64 * 1024 * 1024
    head = f"{path} HTTP/1.1\nhost: x\ncontent-type: application/json\ncontent-length: {size}\n\n"
    _, sent = await answer_to(house, head, bytes(size))

    assert sent < size / 4  # what the kernel's buffers took


TRICKS = [
    "//v1/models", "/v1//models", "/v1%2fmodels", "/%76%31/models%00", "/v1/models;x=1", "/V1/models", "/v1/./models",
    "/health/../v1/models", "/health;/../v1/models", "/health%2f..%2fv1%2fmodels", "/liveness/../../v1/models", "/v1\\models",
    "/v1/models%3b", "/health?/v1/models#", "http://x/v1/models", "/v1/models#/health", "/v1/models/%2e%2e/health",
]  # fmt: skip


@pytest.mark.parametrize("path", TRICKS)
async def test_no_spelling_of_a_path_gets_round_the_table(house: House, path: str) -> None:
    answer, _ = await answer_to(house, f"GET {path} HTTP/1.1\nhost: x\nconnection: close\n\n")

    assert b'"sim"' not in answer
    status = int(answer.split(b" ", 2)[1])
    assert status in (400, 401, 404, 405) or (status == 200 and answer.endswith(b'{"status":"ok"}'))


HEADS = {
    "a header twice": f"authorization: Bearer {USER}\nauthorization: Bearer {USER}\n",
    "a good and a bad one": f"authorization: Bearer {USER}\nx-api-key: sk-wrong\n",
    "a bad and a good one": f"authorization: Bearer sk-wrong\nx-api-key: {USER}\n",
    "two good ones": f"authorization: Bearer {USER}\nx-goog-api-key: {OTHER}\n",
    "another scheme": f"authorization: Basic {USER}\n",
    "a key with more behind it": f"authorization: Bearer {USER}, Bearer {OTHER}\n",
    "letters beyond ASCII": f"x-api-key: {USER}\u00e4\n",
    "NUL": f"x-api-key: {USER}\0\n",
    "very long": f"x-api-key: {'a' * 20000}\n",
    "a name with an underscore": f"x_api_key: {USER}\n",
    "a forwarded key": f"x-forwarded-authorization: Bearer {USER}\n",
    "a cookie": f"cookie: key={USER}\n",
    "the hash of a key": "x-api-key: sha256:0123\n",
}


@pytest.mark.parametrize("headers", HEADS.values(), ids=HEADS)
async def test_what_could_be_read_in_two_ways_lets_nobody_in(house: House, headers: str) -> None:
    answer, _ = await answer_to(house, f"GET /v1/models HTTP/1.1\nhost: x\nconnection: close\n{headers}\n")

    assert int(answer.split(b" ", 2)[1]) in (400, 401, 431)
    assert USER.encode() not in answer


async def test_who_fails_too_often_waits_and_locks_nobody_out(caplog: pytest.LogCaptureFixture) -> None:
    auth = settings(failures=5, failures_address=20, failures_window_s=60.0)
    clock = FakeClock()
    async with over_http(config=config(auth), clock=clock) as house:
        with caplog.at_level(logging.WARNING, "smg.auth"):
            said = [
                (
                    await house.http.get("/v1/models", headers=bearer(f"sk-a-guess-that-begins-alike-{number}"))
                ).status_code
                for number in range(30)
            ]
            waits = await house.http.get("/v1/models", headers=bearer("sk-a-guess-that-begins-alike"))
            good = await house.http.get("/v1/models", headers=bearer(USER))
        clock.advance(61.0)
        later = await house.http.get("/v1/models", headers=bearer("sk-a-guess-that-begins-alike"))

    assert said == [401] * 5 + [429] * 25  # the guesses begin alike
    assert int(waits.headers["retry-after"]) == 60
    assert good.status_code == 200
    assert later.status_code == 401
    lines = [record.getMessage() for record in caplog.records if record.name == "smg.auth"]
    assert len(lines) == 2  # in 61 seconds
    assert all("127.0.0.1" in line and "sk-a-guess" not in line for line in lines)


async def test_no_key_is_in_any_log_or_answer(house: House, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        answers = [
            await house.http.get(path, headers=headers)
            for path in ("/v1/models", "/nowhere", f"/v1beta/models?key={USER}", f"/v1beta/models?%6bey={USER}")
            for headers in (bearer(USER), bearer("sk-secret-secret"), {"x-api-key": "sk-secret-secret"})
        ]

    ours = [record.getMessage() for record in caplog.records if record.name.startswith(("smg", "uvicorn"))]
    assert not [text for text in (*ours, *(answer.text for answer in answers)) if USER in text or "sk-secret" in text]


# ------------------------------------------------------------------------------------------------------------ virtual keys


async def test_a_socket_whose_key_is_revoked_begins_no_further_response() -> None:
    async with over_http(SimulatorConfig(seed=1), config=config(settings(virtual_keys=True))) as house:
        keys = house.gateway.virtual_keys
        assert keys is not None
        made = await keys.create(tenant="acme")
        url = house.url.replace("http", "ws", 1) + "/v1/responses"
        async with connect(url, proxy=None, additional_headers=bearer(made.text)) as socket:
            assert (await ended(socket))["type"] == "response.incomplete"
            await keys.revoke(made.key.id)
            told = await ended(socket)
            await socket.wait_closed()

    assert told["type"] == "error"
    assert told["status"] == 401


async def ended(socket: Any) -> Any:
    """The last frame of a response."""
    await socket.send(json.dumps({"type": "response.create", "model": "sim", "input": "Hi", "max_output_tokens": 2}))
    while True:
        frame = json.loads(await socket.recv())
        if frame["type"] in ("error", "response.completed", "response.incomplete", "response.failed"):
            return frame


@attrs.define
class Broken:
    """A store that nobody reaches any more."""

    store: MemoryStore
    down: bool = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def record(self, *arguments: Any) -> Any:
        if self.down:
            raise StoreFailed("unreachable", "10.0.0.5: no route")
        return await self.store.record(*arguments)


async def test_while_the_store_is_down_virtual_keys_get_503_and_no_other_way_in() -> None:
    clock = FakeClock()
    store = Broken(
        MemoryStore(clock, most_bytes=1 << 26, most_links=10, most_link_bytes=1 << 20, most_page_bytes=1 << 20)
    )
    auth = settings(virtual_keys=True)
    async with over_http(config=config(auth), history=store, clock=clock) as house:  # type: ignore[arg-type]
        keys = house.gateway.virtual_keys
        assert keys is not None
        made = await keys.create(tenant="acme")
        good = await house.http.get("/v1/models", headers=bearer(made.text))
        store.down = True
        clock.advance(2.0)
        closed = [await house.http.get("/v1/models", headers={"x-goog-api-key": made.text}) for _ in range(2)]
        guessed = await house.http.get("/v1/models", headers=bearer(made.text[:-4] + "AAAA"))
        static = await house.http.get("/v1/models", headers=bearer(USER))

    assert good.status_code == static.status_code == 200
    assert [answer.status_code for answer in closed] == [503, 503]
    assert closed[0].json()["error"]["status"] == "UNAVAILABLE"
    assert "10.0.0.5" not in closed[0].text
    assert guessed.status_code == 503


async def test_who_guesses_at_an_address_locks_nobody_out_there_whose_key_was_good() -> None:
    clock = FakeClock()
    auth = settings(virtual_keys=True, failures_address=3)
    async with over_http(config=config(auth), clock=clock) as house:
        keys = house.gateway.virtual_keys
        assert keys is not None
        made, revoked = [await keys.create(tenant="acme") for _ in range(2)]
        before = [await house.http.get("/v1/models", headers=bearer(each.text)) for each in (made, revoked)]
        clock.advance(30.0)  # long after what was read of it is too old
        guesses = [await house.http.get("/v1/models", headers=bearer(f"wrong-{number}")) for number in range(4)]
        await keys.revoke(revoked.key.id)
        tried = (made.text, f"{made.text[:-4]}AAAA", revoked.text)
        after = [await house.http.get("/v1/models", headers=bearer(each)) for each in tried]

    assert [answer.status_code for answer in before] == [200, 200]
    assert [answer.status_code for answer in guesses] == [401, 401, 401, 429]
    assert [answer.status_code for answer in after] == [200, 429, 401]


async def test_keys_are_kept_of_who_keeps_nothing_else() -> None:
    auth = settings(virtual_keys=True)
    async with in_process(config=config(auth, history=HistoryConfig(zero_retention=("*",)))) as house:
        assert house.gateway.virtual_keys is not None
        made = await house.gateway.virtual_keys.create(tenant="acme")
        answer = await house.http.get("/v1/models", headers=bearer(made.text))

    assert answer.status_code == 200


@pytest.mark.full
async def test_two_gateways_with_one_store_know_each_others_keys(tmp_path: Path) -> None:
    history = HistoryConfig(url=f"sqlite:///{tmp_path}/history.db")
    both = config(settings(virtual_keys=True), history=history)
    async with in_process(config=both) as one, in_process(config=both) as two:
        keys = one.gateway.virtual_keys
        assert keys is not None
        made = await keys.create(tenant="acme")

        async def status() -> int:
            return (await two.http.get("/v1/models", headers=bearer(made.text))).status_code

        assert await status() == 200
        await keys.revoke(made.key.id)
        async with asyncio.timeout(PATIENCE):
            while await status() == 200:
                await asyncio.sleep(0.02)
        assert await status() == 401


# --------------------------------------------------------------------------------------------------------------- the start


def test_virtual_keys_in_several_processes_need_a_store_that_they_share() -> None:
    several = Config(auth=AuthConfig(virtual_keys=True))

    assert "history.url" in unshared_keys(several, 2)
    assert not unshared_keys(several, 1)
    assert not unshared_keys(attrs.evolve(several, history=HistoryConfig(url="sqlite:///x.db")), 2)
    assert not unshared_keys(Config(), 2)


@pytest.mark.parametrize(
    ("auth", "sentence"),
    [
        (AuthConfig(keys_file="/nowhere/keys"), "cannot be read"),
        (AuthConfig(keys=("short",)), "16 characters"),
        (AuthConfig(keys=(f"{USER} role=usr",)), "no role usr"),
        (AuthConfig(keys=(USER,), roles=("x=nothing",)), "no permission nothing"),
        (AuthConfig(virtual_keys=True, roles=("x",)), "auth.roles"),
    ],
)
async def test_what_cannot_be_made_stops_the_start(auth: AuthConfig, sentence: str) -> None:
    gateway = Gateway.simulated(config=Config(auth=auth))
    with pytest.raises(ConfigError, match=sentence):
        await gateway.start()
    assert not gateway.started


async def test_keys_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_text(f"# ours\n{USER} tenant=acme\n")
    async with in_process(config=config(AuthConfig(keys_file=str(tmp_path / "keys.txt")))) as house:
        said = [(await house.http.get("/v1/models", headers=bearer(key))).status_code for key in (USER, OTHER)]

    assert said == [200, 401]


# ------------------------------------------------------------------------------------------------------------- the library


async def by_header(head: Head) -> Caller | None:
    if (name := head.headers.get("x-user")) is None:
        return None
    if name == "mallory":
        raise AuthenticationFailed("Not you.")
    return Caller("acme", name)


async def test_any_coroutine_can_say_whose_a_request_is() -> None:
    async with in_process(identity=by_header) as house:
        said = [
            (await house.http.post(CHAT, json=body(max_tokens=2), headers=headers)).status_code
            for headers in ({"x-user": "ada"}, {}, {"x-user": "mallory"}, bearer(USER))
        ]
        health = await house.http.get("/health")

    assert said == [200, 401, 401, 401]
    assert health.status_code == 200


async def by_basic(head: Head) -> Caller | None:
    scheme, _, rest = head.headers.get("authorization", "").partition(" ")
    if scheme != "Basic":
        return None
    if rest != "YWRhOnB3":
        raise AuthenticationFailed("Wrong password.")
    return Caller("acme", "ada")


async def test_an_identity_of_ones_own_may_know_other_schemes_than_bearer() -> None:
    async with in_process(identity=by_basic) as house:
        said = [
            (await house.http.get("/v1/models", headers={"authorization": value})).status_code
            for value in ("Basic YWRhOnB3", "Basic d3Jvbmc=", "Negotiate YQ==", "Bearer a")
        ]
        twice = await house.http.get(
            "/v1/models", headers=[("authorization", "Basic YWRhOnB3"), ("authorization", "Basic YWRhOnB3")]
        )

    assert said == [200, 401, 401, 401]
    assert twice.status_code == 401


async def test_what_cannot_be_called_as_an_identity_stops_the_start() -> None:
    with pytest.raises(ConfigError, match="identity: dict cannot be called"):
        await Gateway.simulated(identity={"sk-ada": "ada"}).start()  # type: ignore[arg-type]


async def test_an_identity_beside_the_settings_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="identity of its own"):
        await Gateway.simulated(config=config(), identity=by_header).start()


async def test_without_identity_everybody_may_do_everything() -> None:
    async with in_process() as house:
        for headers in ({}, bearer("whatever"), {"x-api-key": "a", "authorization": "Bearer b"}):
            assert (await house.http.post(CHAT, json=body(max_tokens=2), headers=headers)).status_code == 200
