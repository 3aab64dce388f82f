"""Clients that show certificates: whose requests those are, and which certificates are refused."""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from cryptography import x509
from tests.gateway.authority import Authority, Issued
from tests.gateway.conftest import House, eventually, over_http
from tests.shared import PATIENCE

from smg_core.apis import PERMISSIONS
from smg_core.auth.certificates import Certificate, CertificateCallers
from smg_core.auth.roles import Roles
from smg_core.auth.settings import AuthConfig
from smg_core.config.check import check
from smg_core.config.config import Config
from smg_core.errors import AuthenticationFailed
from smg_core.hooks import ExchangeEnded
from smg_core.server.tls.settings import TlsConfig
from smg_core.settings import ConfigError

pytestmark = pytest.mark.anyio

NAMES = (
    "uri:spiffe://cluster/ns/research/* tenant=research",
    "dns:CI.example tenant=ci principal=builder",
    "email:ada@example.org tenant=people role=admin",
)
URI = x509.UniformResourceIdentifier("spiffe://cluster/ns/research/sa/ada")
MODELS = "/v1/models"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@attrs.define
class Asked:
    """A gateway that asks for certificates, and a way to be a client of it."""

    house: House
    authority: Authority
    folder: Path

    async def get(self, shown: Issued | None = None, **headers: str) -> httpx.Response:
        async with self.client(shown) as http:
            return await http.get(MODELS, headers=headers)

    def client(self, shown: Issued | None = None) -> httpx.AsyncClient:
        context = ssl.create_default_context(cadata=self.authority.trusted.decode())
        if shown is not None:
            context.load_cert_chain(*shown.write(self.folder, "client"))
        return httpx.AsyncClient(base_url=self.house.url, timeout=PATIENCE, trust_env=False, verify=context)


@pytest.fixture
def asking(authority: Authority, tmp_path: Path) -> Callable[..., Any]:
    cert, key = authority.server().write(tmp_path, "server")
    ca, crl = tmp_path / "ca.pem", tmp_path / "crl.pem"
    ca.write_bytes(authority.trusted)
    crl.write_bytes(authority.revocations())

    @asynccontextmanager
    async def opened(auth: AuthConfig | None = None, **fields: Any) -> AsyncIterator[Asked]:
        given = {"client_ca": str(ca), "client_crl": str(crl), "client_names": NAMES, **fields}
        config = Config(tls=TlsConfig(cert=cert, key=key, **given), auth=auth or AuthConfig())
        async with over_http(config=config) as house:
            house.url = house.url.replace("http:", "https:")
            yield Asked(house, authority, tmp_path)

    return opened


@pytest.mark.full
async def test_the_names_of_a_certificate_say_whose_requests_come_by_it(asking: Any, authority: Authority) -> None:
    names = [URI, x509.DNSName("ci.example"), x509.RFC822Name("ada@example.org")]
    async with asking() as asked:
        answers = [await asked.get(authority.issue(name)) for name in names]
        both = await asked.get(authority.issue(x509.DNSName("other.example"), URI))
        await eventually(lambda: len(asked.house.observer.of(ExchangeEnded)) == 4)
        told = [(each.tenant, each.principal) for each in asked.house.observer.of(ExchangeEnded)]

    assert [answer.status_code for answer in (*answers, both)] == [200] * 4
    assert told == [
        ("research", URI.value),
        ("ci", "builder"),
        ("people", "ada@example.org"),
        ("research", URI.value),
    ]


@pytest.mark.full
async def test_without_a_certificate_or_with_one_of_no_known_name_nobody_gets_in(
    asking: Any, authority: Authority
) -> None:
    strangers = [x509.DNSName("ci.example.evil"), x509.UniformResourceIdentifier("spiffe://cluster/ns/research-2/sa/x")]
    strangers.append(x509.RFC822Name("ada@example.org.evil"))
    async with asking() as asked:
        answers = [await asked.get(), await asked.get(authorization="Bearer no-key-of-ours-0123")]
        answers += [await asked.get(authority.issue(name)) for name in strangers]

    assert [answer.status_code for answer in answers] == [401] * 5


@pytest.mark.full
async def test_a_key_of_the_gateways_counts_before_the_certificate_and_one_that_means_nothing_does_not(
    asking: Any, authority: Authority
) -> None:
    auth = AuthConfig(keys=("a-key-of-acme-012345 tenant=acme",))
    async with asking(auth) as asked:
        shown = authority.issue(URI)
        await asked.get(shown, authorization="Bearer a-key-of-acme-012345")
        await asked.get(shown, authorization="Bearer EMPTY")
        await asked.get(authorization="Bearer a-key-of-acme-012345")
        await eventually(lambda: len(asked.house.observer.of(ExchangeEnded)) == 3)
        tenants = [each.tenant for each in asked.house.observer.of(ExchangeEnded)]

    assert tenants == ["acme", "research", "acme"]


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("wrong", ["expired", "another authority's", "revoked", "missing"])
async def test_a_certificate_that_is_no_good_ends_the_handshake(wrong: str, asking: Any, authority: Authority) -> None:
    shown: Issued | None = authority.issue(URI)
    if wrong == "expired":
        shown = authority.issue(URI, until=-timedelta(hours=1))
    elif wrong == "another authority's":
        shown = Authority("others").issue(URI)
    elif wrong == "missing":
        shown = None
    async with asking(client="required" if wrong == "missing" else "optional") as asked:
        if wrong == "revoked":
            assert shown is not None
            (asked.folder / "crl.pem").write_bytes(authority.revocations(shown.certificate))
            assert await asked.house.server._contexts.look()
        with pytest.raises(httpx.TransportError):
            await asked.get(shown)
        good = await asked.get(authority.issue(URI))

    assert good.status_code == 200


@pytest.mark.full
async def test_a_certificate_that_is_revoked_under_an_open_connection_ends_that_too(
    asking: Any, authority: Authority
) -> None:
    shown = authority.issue(URI)
    async with asking() as asked, asked.client(shown) as http:
        first = await http.get(MODELS)
        (asked.folder / "crl.pem").write_bytes(authority.revocations(shown.certificate))
        await asked.house.server._look_at_certificates()
        with pytest.raises(httpx.TransportError):
            await http.get(MODELS)

    assert first.status_code == 200


@pytest.mark.full
async def test_lists_of_revocations_that_are_over_or_missing_let_nobody_in(asking: Any, authority: Authority) -> None:
    for text in (authority.revocations(until=-timedelta(hours=1)), authority.trusted):
        async with asking() as asked:
            (asked.folder / "crl.pem").write_bytes(text)
            assert await asked.house.server._contexts.look()
            with pytest.raises(httpx.TransportError):
                await asked.get(authority.issue(URI))
            (asked.folder / "crl.pem").write_bytes(authority.revocations())


def test_a_certificate_that_expires_after_the_handshake_is_refused() -> None:
    callers = CertificateCallers(NAMES, Roles((), PERMISSIONS))
    certificate = Certificate((("uri", URI.value),), expires_at=100.0)

    assert callers.caller(certificate, 99.9).tenant == "research"
    with pytest.raises(AuthenticationFailed, match="has expired"):
        callers.caller(certificate, 100.0)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("spiffe tenant=a", "expected KIND:NAME"),
        ("ip:10.0.0.1 tenant=a", "expected KIND:NAME"),
        ("uri: tenant=a", "expected KIND:NAME"),
        ("uri:x", "names no tenant"),
        ("uri:x tennant=a", "did you mean tenant"),
        ("uri:x tenant=a tenant=b", "given twice"),
        ("uri:x tenant=a role=nobody", "there is no role nobody"),
    ],
)
def test_an_entry_that_cannot_be_read_stops_the_start(entry: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        CertificateCallers([entry], Roles((), PERMISSIONS))


@pytest.mark.parametrize(
    "fields", [{"client_names": NAMES}, {"client_crl": "x"}, {"client": "required"}, {"client_ca": "x"}]
)
def test_certificates_that_cannot_be_asked_for_are_refused_by_name(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"tls\.client"):
        check(Config(tls=TlsConfig(**fields)), PERMISSIONS)
