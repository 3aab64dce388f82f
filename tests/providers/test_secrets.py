"""No key of a provider is shown: not by the admin door, settings, logs, errors, answers, metrics or what is said of a worker."""

import logging
from pathlib import Path

import httpx
import msgspec
import pytest
from tests.gateway.test_admin import opened
from tests.providers.chat_answers import CHAT_FORMATS
from tests.providers.fake import Said, providing

from smg_core import Config, Gateway
from smg_core.engines.connections.credential import CredentialSpec
from smg_core.fleet.connect import worker_file
from smg_core.workers.settings import BreakerConfig, WorkersConfig
from smg_core.workers.worker import WorkerSpec

pytestmark = pytest.mark.anyio

KEY, SPARE = "s3cret-key-of-a-provider", "s3cret-spare-key"
ASK = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
CONFIG = Config(workers=WorkersConfig(health_interval_s=3600.0), breaker=BreakerConfig(failures=0))
AZURE = CHAT_FORMATS["azure"]


def echoing(status: int) -> Said:
    """A refusal that repeats the key that it was sent, as providers do."""
    body = {"error": {"code": "invalid_api_key", "message": f"Incorrect API key provided: {KEY}. Bearer {KEY}"}}
    return Said(msgspec.json.encode(body), status, "application/json")


@pytest.mark.parametrize("source", ["key", "file", "headers"])
async def test_nothing_that_can_be_asked_shows_a_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, source: str
) -> None:
    file = tmp_path / "key"
    file.write_text(KEY)
    fields = {
        "key": {"credential": CredentialSpec(key=KEY)},
        "file": {"credential": CredentialSpec(file=str(file))},
        "headers": {"headers": (("authorization", f"Bearer {KEY}"),)},
    }[source]
    caplog.set_level(logging.DEBUG)
    async with providing(lambda _: echoing(401)) as provider:
        spec = WorkerSpec(provider.url, name="w", dialect="mistral", model="m", **fields)  # type: ignore[arg-type]
        config = CONFIG
        async with Gateway([spec], config=config) as gateway:
            await gateway.ready()
            shown = [repr(gateway), repr(spec), str(spec), repr(config)]
            async with gateway.http_client(httpx, base_url="http://gateway", timeout=60) as http:
                for stream in (False, True):
                    answer = await http.post("/v1/chat/completions", json={**ASK, "stream": stream})
                    assert answer.status_code == 502
                    shown += [answer.text, repr(answer.headers)]
                for path in ("/v1/models", "/health", "/metrics"):
                    shown.append((await http.get(path)).text)
            heard = provider.asked[0]
            assert heard.headers["authorization"] == f"Bearer {KEY}"
    shown.append(caplog.text)
    for text in shown:
        assert KEY not in text


@pytest.mark.full
async def test_every_route_of_the_admin_door_keeps_keys_to_itself_and_sends_them_nowhere_else() -> None:
    async with opened() as door, providing(lambda _: echoing(401)) as provider:
        for name, credential in (("a", CredentialSpec(key=KEY)), ("b", CredentialSpec(command=("echo", KEY)))):
            spec = WorkerSpec(provider.url, name=name, dialect="mistral", model=name, credential=credential)
            door.house.gateway.add_worker(spec)
        paths = (await door.http.get("/admin/openapi.json")).json()["paths"]
        asked = [path.replace("{name}", "a") for path, about in paths.items() if "get" in about]
        assert "/admin/workers/a" in asked
        assert "/admin/config" in asked
        for path in asked:
            assert KEY not in (await door.http.get(path)).text, path
        moved = await door.http.patch("/admin/workers/a", json={"url": "http://evil.example"})
        assert moved.status_code == 400
        assert "which is not sent elsewhere" in moved.text
        given = await door.http.post(
            "/admin/workers", json={"url": "https://a.example", "credential": {"command": ["id"]}}
        )
        assert given.status_code == 400  # who may add workers may not run commands


def test_a_file_of_workers_that_is_wrong_shows_no_key(tmp_path: Path) -> None:
    file = tmp_path / "workers.yaml"
    file.write_text(
        f"- dialect: mistral\n  credential: {{key: {KEY}, env: A}}\n- dialect: mistral\n  credential: {{kee: {KEY}}}\n"
    )
    with pytest.raises(ValueError, match="worker 1") as caught:
        worker_file(file, CONFIG)
    assert KEY not in str(caught.value)


async def test_a_revoked_key_leaves_its_requests_to_the_other_key_of_the_model() -> None:
    revoked: set[str] = set()

    async with providing(
        lambda heard: echoing(401) if heard.headers["authorization"][7:] in revoked else Said(AZURE.streams["text"])
    ) as provider:
        workers = [
            WorkerSpec(provider.url, name=name, dialect="mistral", model="m", credential=CredentialSpec(key=key))
            for name, key in (("one", KEY), ("two", SPARE))
        ]
        async with Gateway(workers, config=CONFIG) as gateway:
            await gateway.ready()
            async with gateway.http_client(httpx, base_url="http://gateway", timeout=60) as http:
                for _ in range(6):
                    assert (await http.post("/v1/chat/completions", json=ASK)).status_code == 200
                assert {each.headers["authorization"][7:] for each in provider.asked} == {KEY, SPARE}
                revoked.add(KEY)
                for _ in range(6):
                    assert (await http.post("/v1/chat/completions", json=ASK)).status_code == 200
                revoked.add(SPARE)
                answer = await http.post("/v1/messages", json={**ASK, "max_tokens": 9})
                assert answer.status_code == 502
                assert answer.json()["type"] == "error"
