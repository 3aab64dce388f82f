"""Callers by tokens of a real issuer: its keys are found, rotate, cannot be had; and what attackers try with tokens."""

import asyncio
import hmac
import json
import ssl
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.core.auth.issuer import AUDIENCE, DESCRIPTION, KEYS, KINDS, Issuer, encoded, issuing, key, reply, signed
from tests.shared import PATIENCE

from smg_core.apis import PERMISSIONS
from smg_core.auth import oidc
from smg_core.auth.credentials import Credential
from smg_core.auth.issuer import IssuerDocuments
from smg_core.auth.jwks import VerifyingKey
from smg_core.auth.oidc import OidcAuthenticator
from smg_core.auth.roles import Roles
from smg_core.errors import AuthenticationFailed, Overloaded, SmgError
from smg_core.request import Caller
from smg_core.settings import ConfigError
from smg_core.testing import FakeClock

pytestmark = pytest.mark.anyio


@attrs.define
class Asked:
    """The head of a request, as far as an authenticator of tokens looks at it."""

    credential: Credential | None
    method: str = "POST"
    path: str = "/v1/chat/completions"
    headers: dict[str, str] = attrs.field(factory=dict)
    query: dict[str, tuple[str, ...]] = attrs.field(factory=dict)
    peer: str = ""


@attrs.define
class Door:
    """A started authenticator before an issuer."""

    issuer: Issuer
    clock: FakeClock
    authenticator: OidcAuthenticator

    async def caller(self, token: str) -> Caller | None:
        return await self.authenticator(Asked(Credential(token)))

    async def refused(self, token: str) -> SmgError:
        with pytest.raises(SmgError) as found:
            await self.caller(token)
        return found.value

    def times_asked(self) -> int:
        return self.issuer.asked.count(KEYS)


@asynccontextmanager
async def door(issuer: Issuer, /, resolver: Any = None, **changes: Any) -> AsyncIterator[Door]:
    clock = FakeClock()
    settings = issuer.settings(**changes)
    documents = None if resolver is None else IssuerDocuments(settings, resolver=resolver)
    made = OidcAuthenticator(settings, Roles((), PERMISSIONS), clock=clock, longest=16384, documents=documents)
    try:
        await made.start()
        yield Door(issuer, clock, made)
    finally:
        await made.stop()


@pytest.mark.parametrize("algorithm", KINDS)
async def test_a_token_of_each_algorithm_says_whose_the_request_is(algorithm: str) -> None:
    async with issuing(key(KINDS[algorithm])) as issuer, door(issuer) as entered:
        found = await entered.caller(issuer.token(algorithm))

    assert found is not None
    assert (found.tenant, found.principal) == ("acme", "ann")
    assert found.grants.may("chat")
    assert not found.grants.may("admin.keys")


async def test_a_fetch_that_is_under_way_ends_when_the_gateway_stops() -> None:
    ended, begun = asyncio.Event(), asyncio.Event()

    class Silent:
        """An issuer that never answers."""

        async def keys(self) -> bytes:
            begun.set()
            try:
                return await asyncio.Event().wait() and b""
            finally:
                ended.set()

    async with issuing() as issuer:
        silent: Any = Silent()
        made = OidcAuthenticator(
            issuer.settings(), Roles((), PERMISSIONS), clock=FakeClock(), longest=16384, documents=silent
        )
        await made.stop()  # nothing is under way
        starting = asyncio.create_task(made.start())
        await begun.wait()
        await made.stop()
        with pytest.raises(asyncio.CancelledError):
            await starting

    assert ended.is_set()


async def test_other_credentials_are_left_to_others() -> None:
    async with issuing() as issuer, door(issuer) as entered:
        assert await entered.caller("sk-an-api-key-of-the-gateway") is None
        assert await entered.authenticator(Asked(None)) is None


async def test_keys_can_be_named_by_the_settings_without_a_description() -> None:
    async with issuing() as issuer, door(issuer, jwks_uri=issuer.url + KEYS) as entered:
        assert await entered.caller(issuer.token()) is not None

    assert issuer.asked == [KEYS]


async def test_an_issuer_with_a_certificate_of_a_known_authority_is_asked(tmp_path: Any) -> None:
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    async with issuing(tls=tls) as issuer:
        async with door(issuer, ca_file=str(tmp_path / "ca.pem")) as entered:
            assert await entered.caller(issuer.token()) is not None
        with pytest.raises(ConfigError, match="could not be reached"):
            async with door(issuer):
                pytest.fail("an unknown authority was believed")


# -------------------------------------------------------------------------------------------------- what attackers try


async def test_a_token_that_the_public_key_signed_as_a_secret_is_refused() -> None:
    private = key("RSA")
    public = private.public_key
    secrets = [
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        json.dumps(private.as_dict(private=False)).encode(),
    ]
    async with issuing(private) as issuer, door(issuer) as entered:
        for secret in secrets:
            text = encoded({"alg": "HS256", "kid": private.kid}) + b"." + encoded(issuer.claims())
            forged = (text + b"." + encoded(hmac.digest(secret, text, "sha256"))).decode()
            assert (await entered.refused(forged)).status == 401


async def test_a_token_without_a_signature_is_refused() -> None:
    async with issuing() as issuer, door(issuer) as entered:
        good = issuer.token()
        for algorithm in ("none", "None", "NONE", "nOnE"):
            head = encoded({"alg": algorithm, "kid": "P-256-0"}).decode()
            assert (await entered.refused(f"{head}.{good.split('.')[1]}.")).status == 401
        assert (await entered.refused(good.rpartition(".")[0] + ".")).status == 401


async def test_a_token_of_another_key_with_the_right_name_is_refused() -> None:
    async with issuing() as issuer, door(issuer) as entered:
        forged = issuer.token(number=1, head={"kid": "P-256-0"})

        assert (
            await entered.refused(forged)
        ).message == "The token is not signed by a key of the issuer that is trusted here."


async def test_a_key_of_another_type_is_not_used_for_what_the_token_says() -> None:
    async with issuing(key("RSA"), key("P-384")) as issuer, door(issuer) as entered:
        assert (await entered.refused(issuer.token("ES256", head={"kid": "RSA-0"}))).status == 401
        assert (await entered.refused(issuer.token("ES256", head={"kid": "P-384-0"}))).status == 401
        assert (
            await entered.refused(signed({"alg": "ES256", "kid": "RSA-0"}, issuer.claims(), key("RSA"), "RS256"))
        ).status == 401


async def test_a_key_serves_only_the_algorithm_that_its_issuer_names() -> None:
    async with issuing(key("RSA")) as issuer:
        issuer.public = [{**issuer.public[0], "alg": "RS256"}]
        async with door(issuer) as entered:
            assert await entered.caller(issuer.token("RS256")) is not None
            assert (await entered.refused(issuer.token("PS256"))).status == 401


@pytest.mark.parametrize(
    "kid",
    [
        "../../etc/passwd",
        "/dev/null",
        "' OR 1=1 --",
        "P-256-0\0",
        "P-256-0' UNION SELECT",
        "k" * 8000,
        "",
        "P-256-0 ",
        "http://evil.example/k",
    ],
    ids=lambda kid: repr(kid[:24]),
)
async def test_a_name_of_a_key_is_compared_and_nothing_else(kid: str) -> None:
    async with issuing() as issuer, door(issuer) as entered:
        refused = await entered.refused(issuer.token(head={"kid": kid}))

        assert refused.status == 401
        assert kid not in str(refused) or not kid
        assert set(issuer.asked) == {DESCRIPTION, KEYS}


async def test_keys_that_a_token_brings_along_are_not_used_nor_their_addresses_asked() -> None:
    async with issuing() as issuer, issuing(key("P-256", 1)) as evil, door(issuer) as entered:
        mine = key("P-256", 1)
        for brought in (
            {"jwk": mine.as_dict(private=False)},
            {"jku": evil.url + KEYS},
            {"x5u": evil.url + "/cert"},
            {"x5c": ["MIIB"]},
        ):
            for kid in ("P-256-0", "P-256-1"):
                assert (await entered.refused(issuer.token(number=1, head={**brought, "kid": kid}))).status == 401

    assert evil.asked == []


async def test_tokens_of_another_audience_or_issuer_are_refused_also_where_a_key_of_the_issuer_signed_them() -> None:
    async with issuing() as issuer, door(issuer) as entered:
        assert (
            await entered.refused(issuer.token(aud="https://other.example"))
        ).message == "The token is for somebody else."
        assert (await entered.refused(issuer.token(iss="https://evil.example"))).status == 401


async def test_a_token_that_expires_while_it_is_remembered_is_refused() -> None:
    async with issuing() as issuer, door(issuer) as entered:
        token = issuer.token()
        first = await entered.caller(token)
        assert await entered.caller(token) is first
        entered.clock.advance(329.9)
        assert await entered.caller(token) is first
        entered.clock.advance(0.2)

        assert entered.authenticator.known(Credential(token)) is None
        assert (await entered.refused(token)).message == "The token has expired or is not valid yet."


async def test_tokens_that_begin_alike_are_different_tokens() -> None:
    async with issuing() as issuer, door(issuer) as entered:
        good = issuer.token()
        await entered.caller(good)
        last = "A" if good[-1] != "A" else "Q"

        assert (await entered.refused(good[:-1] + last)).status == 401
        assert (await entered.refused(good + "A")).status == 401
        assert (await entered.caller(issuer.token(sub="bob"))).principal == "bob"  # type: ignore[union-attr]


async def test_remembered_tokens_are_bounded() -> None:
    async with issuing(key("Ed25519")) as issuer, door(issuer, tokens=3) as entered:
        tokens = [issuer.token("Ed25519", sub=f"user-{number}") for number in range(5)]
        for token in tokens:
            await entered.caller(token)

        known = [entered.authenticator.known(Credential(token)) is not None for token in tokens]
        assert known == [False, False, True, True, True]


# --------------------------------------------------------------------------------------------------- keys that change


async def test_a_new_key_is_fetched_when_a_token_first_names_it() -> None:
    async with issuing() as issuer, door(issuer) as entered:
        issuer.publish(key("P-256"), key("P-256", 1))
        entered.clock.advance(10)

        assert await entered.caller(issuer.token(number=1)) is not None
        assert await entered.caller(issuer.token()) is not None
        assert entered.times_asked() == 2


@pytest.mark.full
async def test_a_thousand_requests_with_a_new_key_fetch_it_once() -> None:
    async with issuing() as issuer, door(issuer) as entered:
        issuer.publish(key("P-256", 1))
        entered.clock.advance(10)
        issuer.gate.clear()
        waiting = [asyncio.ensure_future(entered.caller(issuer.token(number=1))) for _ in range(1000)]
        await asyncio.sleep(0)
        issuer.gate.set()

        assert all([await each is not None for each in waiting])
        assert entered.times_asked() == 2


async def test_tokens_of_unknown_keys_have_the_keys_fetched_once_in_a_while() -> None:
    async with issuing() as issuer, door(issuer) as entered:
        for _ in range(50):
            await entered.refused(issuer.token(number=1))
        assert entered.times_asked() == 1
        entered.clock.advance(10)
        for _ in range(50):
            await entered.refused(issuer.token(number=1))

        assert entered.times_asked() == 2


def renamed(kind: str, number: int, kid: str | None) -> dict[str, Any]:
    """A key as an issuer publishes it that gives it the name of another."""
    found = {**key(kind, number).as_dict(private=False), "kid": kid}
    return {name: value for name, value in found.items() if value is not None}


@pytest.mark.full
@pytest.mark.sampled(keep=8)
@pytest.mark.parametrize("algorithm", list(KINDS))
@pytest.mark.parametrize("named", [True, False])
async def test_a_key_that_is_changed_under_its_name_is_fetched_when_a_token_is_first_signed_by_it(
    algorithm: str, named: bool
) -> None:
    kind = KINDS[algorithm]
    kid = f"{kind}-0" if named else None
    async with issuing() as issuer:
        issuer.public = [renamed(kind, 0, kid)]
        async with door(issuer) as entered:
            old, new = (issuer.token(algorithm, number, head={"kid": kid}) for number in (0, 1))
            assert await entered.caller(old) is not None
            issuer.public = [renamed(kind, 1, kid)]
            assert (await entered.refused(new)).status == 401  # the keys were fetched a moment ago
            entered.clock.advance(10)

            found = await asyncio.gather(*(entered.caller(new) for _ in range(20)))
            assert all(each is not None for each in found)
            assert entered.times_asked() == 2
            assert (await entered.refused(old)).status == 401


@pytest.mark.parametrize("algorithm", ["ES256", "ES384"])
async def test_a_token_that_was_looked_at_by_the_key_of_before_while_others_had_the_keys_fetched_is_good(
    algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, verified = KINDS[algorithm], oidc._verifies
    late, first, waiting = asyncio.Event(), [], []

    async def slow(key: Any, token: Any) -> bool:
        """As it is, but for the first look at a token: that takes until another request has had the keys fetched."""
        found = await verified(key, token)
        if not first:
            first.append(token)
            waiting.append(True)
            await late.wait()
        return found

    async with issuing() as issuer:
        issuer.public = [renamed(kind, 0, "one")]
        async with door(issuer) as entered:
            issuer.public = [renamed(kind, 1, "one")]
            entered.clock.advance(10)
            monkeypatch.setattr(oidc, "_verifies", slow)
            token = issuer.token(algorithm, 1, head={"kid": "one"})
            slowest = asyncio.create_task(entered.caller(token))
            while not waiting:
                await asyncio.sleep(0)
            assert await entered.caller(issuer.token(algorithm, 1, head={"kid": "one"}, sub="bob")) is not None
            late.set()
            assert await slowest is not None
            assert entered.times_asked() == 2


async def test_tokens_that_no_known_key_has_signed_have_the_keys_fetched_once_in_a_while() -> None:
    async with issuing() as issuer, door(issuer) as entered:
        forged = issuer.token(number=1, head={"kid": "P-256-0"})
        for rounds in range(1, 4):
            for _ in range(50):
                await entered.refused(forged)
            assert entered.times_asked() == rounds
            entered.clock.advance(10)
        assert await entered.caller(issuer.token()) is not None


async def test_a_client_that_leaves_does_not_end_the_fetch_for_the_others() -> None:
    async with issuing() as issuer, door(issuer) as entered:
        issuer.publish(key("P-256", 1))
        entered.clock.advance(10)
        issuer.gate.clear()
        leaving, staying = (asyncio.ensure_future(entered.caller(issuer.token(number=1))) for _ in range(2))
        await asyncio.sleep(0)
        leaving.cancel()
        issuer.gate.set()

        assert await staying is not None


async def test_a_key_that_the_issuer_withdrew_verifies_nothing_any_more_not_even_what_is_remembered() -> None:
    async with issuing(key("P-256"), key("P-256", 1)) as issuer, door(issuer) as entered:
        token = issuer.token()
        assert await entered.caller(token) is not None
        issuer.publish(key("P-256", 1))
        entered.clock.advance(11)
        await entered.refused(issuer.token(number=2))  # its unknown name has the keys fetched

        assert (await entered.refused(token)).status == 401


async def test_a_key_that_is_withdrawn_while_a_thread_verifies_by_it_lets_nobody_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, go_on, verifies = threading.Event(), threading.Event(), VerifyingKey.verifies

    def verifies_late(self: VerifyingKey, algorithm: str, signed: bytes, signature: bytes) -> bool:
        if algorithm == "ES384":
            begun.set()
            assert go_on.wait(PATIENCE)
        return verifies(self, algorithm, signed, signature)

    monkeypatch.setattr(VerifyingKey, "verifies", verifies_late)
    async with issuing(key("P-384"), key("P-256", 1)) as issuer, door(issuer) as entered:
        token = issuer.token("ES384")
        late = asyncio.create_task(entered.refused(token))
        try:
            assert await asyncio.to_thread(begun.wait, PATIENCE)
            issuer.publish(key("P-256", 1))
            entered.clock.advance(11)
            await entered.refused(issuer.token(number=2))  # its unknown name has the keys fetched
        finally:
            go_on.set()

        assert (await late).status == 401
        assert (await entered.refused(token)).status == 401


async def test_old_keys_are_fetched_again_beside_the_requests() -> None:
    async with issuing() as issuer, door(issuer, fresh_s=60.0) as entered:
        token = issuer.token()
        await entered.caller(token)
        entered.clock.advance(61)
        issuer.gate.clear()

        assert await entered.caller(token) is not None  # it does not wait for the issuer, which does not answer yet
        issuer.gate.set()
        async with asyncio.timeout(PATIENCE):
            while entered.times_asked() < 2:
                await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    "nonsense", [b"{", b"[]", b"{}", b'{"keys": 7}', b'{"keys": []}', b"\xff\xfe", b'{"keys":[' * 20_000], ids=repr
)
async def test_an_issuer_that_fails_has_its_known_keys_used_for_a_while_and_then_nobody_comes_in(
    nonsense: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with issuing() as issuer, door(issuer, fresh_s=60.0, keep_s=100.0) as entered:
        issuer.replies[KEYS] = reply(nonsense)
        token, later = issuer.token(), issuer.token(sub="bob")
        assert await entered.caller(token) is not None
        entered.clock.advance(61)
        assert await entered.caller(later) is not None
        entered.clock.advance(40)
        for each in (token, later):
            refused = await entered.refused(each)
            assert isinstance(refused, Overloaded)
            assert refused.retry_after is not None
        assert entered.authenticator.known(Credential(token)) is None

        del issuer.replies[KEYS]
        entered.clock.advance(10)
        assert await entered.caller(later) is not None
    assert "could not be fetched" in caplog.text
    assert token not in caplog.text


# -------------------------------------------------------------------------------------------- issuers that cannot be had


async def _breaks_off(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n{")


async def _never_ends(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b" " * 4096)
        await writer.drain()


async def _speaks_no_http(writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")


FAILING = {
    "not there": reply({}, "404 Not Found"),
    "fails": reply({}, "500 Internal Server Error"),
    "sends elsewhere": reply(b"", "302 Found", "location: https://other.example/keys"),
    "sends inside": reply(b"", "307 Temporary Redirect", "location: http://169.254.169.254/latest"),
    "says too much": reply(b" " * 300_000),
    "claims too much": reply(b"", "200 OK", "x: y").replace(b"content-length: 0", b"content-length: 999999999999"),
    "breaks off": _breaks_off,
    "never ends": _never_ends,
    "speaks no HTTP": _speaks_no_http,
    "names its keys twice": reply(b'{"keys": [], "keys": [], "issuer": "x", "jwks_uri": "y"}'),
}


@pytest.mark.parametrize("path", [DESCRIPTION, KEYS])
@pytest.mark.parametrize("answer", FAILING.values(), ids=FAILING.keys())
async def test_a_gateway_whose_issuer_cannot_be_had_does_not_start(path: str, answer: Any) -> None:
    async with issuing() as issuer:
        issuer.replies[path] = answer
        with pytest.raises(ConfigError, match=r"oidc\.issuer"):
            async with door(issuer):
                pytest.fail("it started")
        assert issuer.asked[-1] == path


async def test_an_issuer_that_is_slow_is_waited_for_only_so_long() -> None:
    async with issuing() as issuer:
        issuer.gate.clear()
        with pytest.raises(ConfigError, match="took more than"):
            async with door(issuer, fetch_s=0.1):
                pytest.fail("it started")


@pytest.mark.parametrize(
    "described",
    [
        {"issuer": "https://evil.example", "jwks_uri": "x"},
        {"jwks_uri": "x"},
        {"issuer": None},
        [],
        {"issuer": "SELF"},
        {"issuer": "SELF", "jwks_uri": 7},
    ],
    ids=str,
)
async def test_a_description_that_is_not_that_of_the_issuer_or_names_no_keys_is_refused(described: Any) -> None:
    async with issuing() as issuer:
        if isinstance(described, dict) and described.get("issuer") == "SELF":
            described = {**described, "issuer": issuer.url}
        issuer.replies[DESCRIPTION] = reply(described)
        with pytest.raises(ConfigError, match="its description"):
            async with door(issuer):
                pytest.fail("it started")


@pytest.mark.parametrize(
    "inside",
    [
        "http://10.0.0.7/k",
        "https://10.0.0.7/k",
        "http://169.254.169.254/latest/meta-data",
        "https://[::1]/k",
        "https://[::ffff:127.0.0.2]/k",
        "https://0x7f000002/k",
        "https://intern.example/k",
        "http://intern.example/k",
        "https://public.example:22/k",
        "https://user:secret@public.example/k",
        "file:///etc/passwd",
        "data:application/json,{}",
        "eyJrZXlzIjpbXX0" * 10,
        "https://public.example\\@intern.example/k",
        "//intern.example/k",
    ],
)
async def test_an_address_of_keys_that_leads_inside_is_not_asked(inside: str) -> None:
    looked_up: list[str] = []

    async def names(host: str, port: int) -> Sequence[str]:
        looked_up.append(host)
        return [host] if host == "127.0.0.1" else ["10.0.0.7" if host == "intern.example" else "127.0.0.2"]

    async with issuing() as issuer:
        issuer.replies[DESCRIPTION] = reply({"issuer": issuer.url, "jwks_uri": inside})
        with pytest.raises(ConfigError, match=r"oidc\.issuer"):
            async with door(issuer, resolver=names):
                pytest.fail("it started")

    assert issuer.asked == [DESCRIPTION]


@pytest.mark.parametrize(
    "changes",
    [
        {"private_hosts": ()},
        {"jwks_uri": "http://public.example/keys"},
        {"issuer": "ftp://login.example"},
        {"issuer": "login.example"},
        {"issuer": "https://login.example:99999"},
        {"ca_file": "/nowhere/ca.pem"},
    ],
    ids=str,
)
async def test_addresses_and_files_that_cannot_be_used_are_refused_by_name_at_the_start(
    changes: dict[str, Any],
) -> None:
    async with issuing() as issuer:
        with pytest.raises(ConfigError, match=r"oidc\."):
            async with door(issuer, **changes):
                pytest.fail("it started")

    assert issuer.asked == []


async def test_unknown_roles_are_refused_at_the_start() -> None:
    async with issuing() as issuer:
        with pytest.raises(ConfigError, match=r"oidc\.roles.*there is no role chief"):
            async with door(issuer, roles_claim="r", roles=("boss=chief",)):
                pytest.fail("it started")


async def test_a_role_of_the_token_is_a_role_of_the_caller() -> None:
    async with issuing() as issuer, door(issuer, roles_claim="groups", roles=("ops=admin",)) as entered:
        chief = await entered.caller(issuer.token(groups=["ops", "other"]))
        nobody = await entered.caller(issuer.token(groups=["other"]))

    assert chief is not None
    assert nobody is not None
    assert chief.grants.may("admin.keys")
    assert not nobody.grants.may("chat")


@pytest.mark.parametrize(
    "change",
    [
        {"use": "enc"},
        {"key_ops": ["encrypt"]},
        {"key_ops": "verify"},
        {"kty": "oct", "k": "c2VjcmV0"},
        {"kty": "EC", "crv": "secp256k1"},
        {"x": "AAAA"},
        {"x": 7},
        {"kid": 7},
        {"alg": "HS256"},
        {"d": "AAAA"},
    ],
    ids=str,
)
async def test_a_key_that_is_not_for_verifying_is_left_out(change: dict[str, Any]) -> None:
    async with issuing() as issuer:
        issuer.public = [{**issuer.public[0], **change}]
        with pytest.raises(ConfigError, match="no key with which a token can be verified"):
            async with door(issuer):
                pytest.fail("it started")


async def test_keys_are_bounded_and_have_one_name_each() -> None:
    async with issuing() as issuer:
        issuer.public = issuer.public * 2
        with pytest.raises(ConfigError, match="two of its keys have one name"):
            async with door(issuer):
                pytest.fail("it started")
        with pytest.raises(ConfigError, match=r"oidc\.keys"):
            async with door(issuer, keys=1):
                pytest.fail("it started")


async def test_a_weak_key_is_left_out() -> None:
    numbers = generate_private_key(65537, 1024).public_key().public_numbers()
    n, e = (
        encoded(number.to_bytes((number.bit_length() + 7) // 8, "big")).decode() for number in (numbers.n, numbers.e)
    )
    async with issuing() as issuer:
        issuer.public = [{"kty": "RSA", "kid": "weak", "n": n, "e": e}]
        with pytest.raises(ConfigError, match="no key with which a token can be verified"):
            async with door(issuer):
                pytest.fail("it started")


async def test_a_token_that_names_no_key_is_verified_where_only_one_key_fits() -> None:
    async with issuing(key("P-256"), key("RSA"), key("RSA", 1)) as issuer, door(issuer) as entered:
        assert await entered.caller(issuer.token("ES256", head={"kid": None})) is not None
        assert (await entered.refused(issuer.token("RS256", head={"kid": None}))).status == 401


async def test_the_audience_of_the_settings_is_the_one_that_counts() -> None:
    async with issuing() as issuer, door(issuer, audiences=("a", "b")) as entered:
        assert await entered.caller(issuer.token(aud="b")) is not None
        refused = await entered.refused(issuer.token(aud=AUDIENCE))

    assert isinstance(refused, AuthenticationFailed)
