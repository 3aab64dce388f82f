"""Vertex: a service account's token proves who asks, for Gemini's models and for Anthropic's."""

import json
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.providers.answers import FORMATS, KEY
from tests.providers.fake import Heard, Said, providing

from smg_core import Config, Gateway
from smg_core.credentials import opening
from smg_core.credentials.renewal.asking import TokenAsker
from smg_core.engines.connections.credential import CredentialSpec
from smg_core.workers.settings import BreakerConfig, WorkersConfig
from smg_core.workers.worker import WorkerSpec
from smg_egress.rules import UrlRules

pytestmark = pytest.mark.anyio

CONFIG = Config(workers=WorkersConfig(health_interval_s=3600.0), breaker=BreakerConfig(failures=0))
PLACE = "/v1/projects/p/locations/europe-west1"
ASK = {"messages": [{"role": "user", "content": "Hi"}], "max_completion_tokens": 99}
LOOPBACK = UrlRules(
    schemes=frozenset({"http"}), hosts=frozenset({"127.0.0.1"}), private=frozenset({"127.0.0.1"}), ports=None
)


def account(folder: Path, token_uri: str) -> Path:
    """The file of a service account that asks for tokens at `token_uri`."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, *form).decode()
    file = folder / "account.json"
    document = {"type": "service_account", "client_email": "bot@p.example", "private_key": pem, "token_uri": token_uri}
    file.write_text(json.dumps(document))
    return file


async def test_a_token_is_asked_for_once_and_sent_to_every_publisher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        opening, "TokenAsker", lambda limits: TokenAsker(token=LOOPBACK, metadata=LOOPBACK, timeout_s=60, near_s=60)
    )

    def answer(heard: Heard) -> Said:
        if heard.path == "/token":
            return Said(b'{"access_token":"t0ken","expires_in":3599}', kind="application/json")
        return Said(FORMATS["gemini" if "/google/" in heard.path else "anthropic"].streams["text"])

    async with providing(answer) as provider:
        file = account(tmp_path, f"{provider.url}/token")
        credential = CredentialSpec(kind="google", file=str(file), project="payer")
        workers = [
            WorkerSpec(provider.url + PLACE, name=kind, dialect=kind, model=model, credential=credential)
            for kind, model in (("vertex", "gemini-3-pro"), ("vertex-anthropic", "claude-opus-4-6"))
        ]
        async with Gateway(workers, config=CONFIG) as gateway:
            await gateway.ready()
            async with gateway.http_client(httpx, base_url="http://gateway", timeout=60) as http:
                for model in ("gemini-3-pro", "claude-opus-4-6"):
                    answered = await http.post("/v1/chat/completions", json={**ASK, "model": model})
                    assert answered.json()["choices"][0]["message"]["content"] == "Hello", answered.text
        token, gemini, claude = provider.asked
        assert token.path == "/token"
        assert gemini.path == f"{PLACE}/publishers/google/models/gemini-3-pro:streamGenerateContent?alt=sse"
        assert claude.path == f"{PLACE}/publishers/anthropic/models/claude-opus-4-6:streamRawPredict"
        for each in (gemini, claude):
            assert each.headers["authorization"] == "Bearer t0ken"
            assert each.headers["x-goog-user-project"] == "payer"


async def test_a_key_is_enough_without_a_project() -> None:
    async with providing(lambda _: Said(FORMATS["gemini"].streams["text"])) as provider:
        spec = WorkerSpec(
            f"{provider.url}/v1", dialect="vertex", model="gemini-3-pro", credential=CredentialSpec(key=KEY)
        )
        async with Gateway([spec], config=CONFIG) as gateway:
            await gateway.ready()
            async with gateway.http_client(httpx, base_url="http://gateway", timeout=60) as http:
                answered = await http.post("/v1/chat/completions", json={**ASK, "model": "gemini-3-pro"})
        assert answered.status_code == 200, answered.text
        assert provider.asked[0].path.startswith("/v1/publishers/google/models/")
        assert provider.asked[0].headers["x-goog-api-key"] == KEY
