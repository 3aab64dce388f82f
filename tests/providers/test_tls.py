"""Every provider over TLS: an authority of one's own, through a proxy, and what is said where the certificate is another's."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import httpx
import pytest
import trustme
from tests.peers import listening
from tests.providers.answers import KEY, Format, script
from tests.providers.bedrock_answers import ALL_FORMATS
from tests.providers.client_apis import APIS
from tests.providers.fake import FakeProvider, providing
from tests.shared import PATIENCE

from smg_core import Config, Gateway
from smg_core.engines.connections.credential import CredentialSpec
from smg_core.engines.connections.target import Tls
from smg_core.engines.settings import EnginesConfig
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import WorkerSpec

pytestmark = pytest.mark.anyio

OWN = {
    "anthropic": "Messages",
    "bedrock-anthropic": "Messages",
    "gemini": "generateContent",
    "openai-responses": "Responses",
}


@attrs.define
class Tunnel:
    """A proxy that connects whoever asks, whatever the name, with a port here. `asked` are the requests, `seen` what went by."""

    port: int
    asked: list[bytes] = attrs.field(factory=list)
    seen: bytearray = attrs.field(factory=bytearray)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(await reader.readuntil(b"\r\n\r\n"))
        there, back = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass(reader, back))
                group.create_task(self._pass(there, writer))
        finally:
            back.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                self.seen += data
                writer.write(data)
        writer.close()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def saved(authority: trustme.CA, folder: Path) -> Path:
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    return folder / "ca.pem"


def context(authority: trustme.CA, name: str) -> ssl.SSLContext:
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(made)
    return made


@asynccontextmanager
async def before(url: str, form: Format, ca: Path, proxy: str = "") -> AsyncIterator[httpx.AsyncClient]:
    engines = EnginesConfig(http_proxy=proxy) if proxy else EnginesConfig()
    config = attrs.evolve(Config(), workers=WorkersConfig(health_interval_s=3600.0), engines=engines)
    credential = form.credential or CredentialSpec(key=KEY)
    spec = WorkerSpec(
        url, dialect=form.kind, model=form.model, credential=credential, region="eu-west-1", tls=Tls(ca=ca)
    )
    config = attrs.evolve(config, model=attrs.evolve(config.model, served_names=("m",)))
    async with Gateway([spec], config=config) as gateway:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(gateway.ready(), PATIENCE)
        async with gateway.http_client(httpx, base_url="http://gateway", timeout=PATIENCE) as http:
            yield http


async def heard(provider: FakeProvider, form: Format, http: httpx.AsyncClient) -> None:
    """Ask for a text, streamed and whole, and look at what the provider was sent."""
    api = APIS[OWN.get(form.kind, "Chat Completions")]
    for stream in (True, False):
        path, body = api.asked(api.body("text"), stream=stream)
        answer = await http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        assert "Hel" in answer.text
    assert [each.headers[form.key[0]] for each in provider.asked] == [form.key[1]] * 2


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("kind", ALL_FORMATS)
async def test_a_provider_with_a_certificate_of_ones_own_is_asked_with_its_key(
    kind: str, authority: trustme.CA, tmp_path: Path
) -> None:
    form = ALL_FORMATS[kind]
    async with (
        providing(script(form, "text"), context(authority, "localhost")) as provider,
        before(provider.url, form, saved(authority, tmp_path)) as http,
    ):
        await heard(provider, form, http)


@pytest.mark.parametrize("kind", ["anthropic", "bedrock", "azure"])
async def test_a_proxy_is_told_the_name_and_sees_no_key(kind: str, authority: trustme.CA, tmp_path: Path) -> None:
    form = ALL_FORMATS[kind]
    async with providing(script(form, "text"), context(authority, "vendor.example")) as provider:
        tunnel = Tunnel(provider.port)
        async with listening(tunnel.take) as port:
            ca = saved(authority, tmp_path)
            async with before("https://vendor.example", form, ca, f"http://127.0.0.1:{port}") as http:
                await heard(provider, form, http)

        assert all(each.startswith(b"CONNECT vendor.example:443 ") for each in tunnel.asked)
        assert KEY.encode() not in tunnel.seen
        assert KEY.encode() not in b"".join(tunnel.asked)


async def test_a_certificate_of_another_authority_is_refused_before_anything_is_sent(
    authority: trustme.CA, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    form = ALL_FORMATS["azure"]  # joins without being asked
    async with providing(script(form, "text"), context(authority, "localhost")) as provider:
        async with before(provider.url, form, saved(trustme.CA(), tmp_path)) as http:
            answer = await http.post(
                "/v1/chat/completions", json={"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
            )

        assert answer.status_code in (502, 503)
        assert provider.heard == []
        assert KEY not in answer.text
        assert KEY not in caplog.text
