"""Google's tokens: from each place where Google's libraries look, and a claim that google-auth makes as we do."""

import json
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import google.auth.jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from tests.core.credentials.clouds import NOW, Asked, Cloud, Stopped, asker
from tests.peers import listening
from tests.shared import PATIENCE

from smg_core.credentials.google.assertion import assertion
from smg_core.credentials.google.chain import CLOUD_SCOPE, GoogleChain
from smg_core.credentials.google.documents import ServiceAccount

pytestmark = pytest.mark.anyio


@cache
def keys() -> tuple[str, str]:
    """A private key and its public one, as PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return _pem(key), public.decode()


def _pem(key: Any) -> str:
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return str(key.private_bytes(serialization.Encoding.PEM, *form).decode())


def chain(home: Path, environment: Mapping[str, str], **more: Any) -> GoogleChain:
    return GoogleChain(environment, home, asker(), Stopped(), timeout_s=PATIENCE, **more)


def gives(asked: Asked) -> tuple[int, str]:
    """Answers as Google does."""
    if "generateAccessToken" in asked.path:
        return 200, json.dumps({"accessToken": "t0ken-impersonated", "expireTime": "2026-12-01T00:00:00.123456789Z"})
    if asked.path == "/subject":
        return 200, json.dumps({"value": "s3cret-subject"})
    return 200, json.dumps({"access_token": f"t0ken-{asked.path.strip('/')[:8]}", "expires_in": 3599})


def service_account(port: int) -> dict[str, str]:
    return {
        "type": "service_account",
        "client_email": "bot@project.iam.example",
        "private_key_id": "key-1",
        "private_key": keys()[0],
        "token_uri": f"http://127.0.0.1:{port}/token",
    }


def written(folder: Path, document: Mapping[str, Any]) -> str:
    file = folder / "credentials.json"
    file.write_text(json.dumps(document))
    return str(file)


async def test_a_service_account_signs_a_claim_that_google_auth_can_verify(tmp_path: Path) -> None:
    cloud = Cloud(gives)
    async with listening(cloud.take) as port:
        file = written(tmp_path, service_account(port))
        granted = await chain(tmp_path, {"GOOGLE_APPLICATION_CREDENTIALS": file}).fetch()
    assert granted.value == "t0ken-token"
    assert NOW < granted.renew_at < granted.wait_at < granted.ends_at == NOW + 3599
    form = parse_qs(cloud.asked[0].body.decode())
    assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    claim = form["assertion"][0]
    assert google.auth.jwt.decode_header(claim) == {"alg": "RS256", "typ": "JWT", "kid": "key-1"}
    assert google.auth.jwt.decode(claim, verify=False) == {
        "iss": "bot@project.iam.example",
        "scope": CLOUD_SCOPE,
        "aud": f"http://127.0.0.1:{port}/token",
        "iat": int(NOW),
        "exp": int(NOW) + 3600,
    }
    message, _, signature = claim.rpartition(".")
    verifier = google.auth.crypt.RSAVerifier.from_string(keys()[1])
    assert verifier.verify(message.encode(), google.auth._helpers.padded_urlsafe_b64decode(signature))


@pytest.mark.parametrize("key", ["s3cret", _pem(ec.generate_private_key(ec.SECP256R1()))], ids=["no key", "no RSA key"])
def test_a_private_key_that_is_none_is_refused_and_not_shown(key: str) -> None:
    account = ServiceAccount("bot@project.iam.example", key)
    with pytest.raises(ValueError, match="private key of the service account") as caught:
        assertion(account, CLOUD_SCOPE, NOW)
    assert key not in str(caught.value)
    assert key not in repr(account)


async def test_a_person_who_signed_in_with_gcloud_is_found_without_being_named(tmp_path: Path) -> None:
    cloud, folder = Cloud(gives), tmp_path / ".config" / "gcloud"
    folder.mkdir(parents=True)
    async with listening(cloud.take) as port:
        document = {"type": "authorized_user", "client_id": "c", "client_secret": "s3cret", "refresh_token": "r"}
        (folder / "application_default_credentials.json").write_text(
            json.dumps({**document, "token_uri": f"http://127.0.0.1:{port}/user"})
        )
        assert (await chain(tmp_path, {}).fetch()).value == "t0ken-user"
    assert parse_qs(cloud.asked[0].body.decode())["refresh_token"] == ["r"]


async def test_the_metadata_server_is_asked_where_there_is_no_file(tmp_path: Path) -> None:
    cloud = Cloud(gives)
    async with listening(cloud.take) as port:
        granted = await chain(tmp_path, {"GCE_METADATA_HOST": f"127.0.0.1:{port}"}).fetch()
    assert granted.value == "t0ken-computeM"
    assert cloud.asked[0].headers["metadata-flavor"] == "Google"


@pytest.mark.parametrize("source", ["file", "url", "executable"])
async def test_an_identity_of_another_cloud_is_exchanged_and_impersonates(tmp_path: Path, source: str) -> None:
    cloud, subject = Cloud(gives), tmp_path / "subject"
    subject.write_text("s3cret-subject\n")
    script = tmp_path / "subject.py"
    script.write_text('print(\'{"success": true, "id_token": "s3cret-subject"}\')')
    async with listening(cloud.take) as port:
        form = {"type": "json", "subject_token_field_name": "value"}
        sources: dict[str, dict[str, Any]] = {
            "file": {"file": str(subject)},
            "url": {"url": f"http://127.0.0.1:{port}/subject", "headers": {"Metadata": "True"}, "format": form},
            "executable": {"executable": {"command": f"{sys.executable} {script}", "timeout_millis": 60_000}},
        }
        document = {
            "type": "external_account",
            "audience": "//iam.googleapis.com/pool",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": f"http://127.0.0.1:{port}/sts",
            "service_account_impersonation_url": f"http://127.0.0.1:{port}/v1/sa:generateAccessToken",
            "credential_source": sources[source],
        }
        file = written(tmp_path, document)
        environment = {"GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES": "1"}
        granted = await chain(tmp_path, environment, file=file, scope="scope-1").fetch()
        if source == "executable":
            with pytest.raises(ValueError, match="ALLOW_EXECUTABLES"):
                await chain(tmp_path, {}, file=file).fetch()
    assert granted.value == "t0ken-impersonated"
    exchanged, impersonated = [each for each in cloud.asked if each.path != "/subject"][:2]
    assert parse_qs(exchanged.body.decode())["subject_token"] == ["s3cret-subject"]
    assert impersonated.headers["authorization"] == "Bearer t0ken-sts"
    assert json.loads(impersonated.body)["scope"] == ["scope-1"]


async def test_a_service_account_is_impersonated_by_another_one(tmp_path: Path) -> None:
    cloud = Cloud(gives)
    async with listening(cloud.take) as port:
        document = {
            "type": "impersonated_service_account",
            "service_account_impersonation_url": f"http://127.0.0.1:{port}/v1/sa:generateAccessToken",
            "source_credentials": service_account(port),
            "delegates": ["between"],
        }
        granted = await chain(tmp_path, {}, file=written(tmp_path, document)).fetch()
    assert granted.value == "t0ken-impersonated"
    assert json.loads(cloud.asked[1].body)["delegates"] == ["between"]


async def test_a_refusal_is_told_by_its_word_and_shows_no_secret(tmp_path: Path) -> None:
    cloud = Cloud(lambda _: (400, json.dumps({"error": "invalid_grant", "error_description": "s3cret"})))
    async with listening(cloud.take) as port:
        file = written(tmp_path, service_account(port))
        with pytest.raises(ValueError, match="HTTP status 400, invalid_grant") as caught:
            await chain(tmp_path, {}, file=file).fetch()
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("s3cret", "no JSON object"),
        (json.dumps({"type": "service_account", "private_key": "s3cret"}), "'service_account', cannot be read"),
        (json.dumps({"type": "novel", "key": "s3cret"}), "'novel', cannot be read"),
    ],
)
async def test_a_file_that_is_no_credential_is_told_by_its_type(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "credentials.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=why) as caught:
        await chain(tmp_path, {}, file=str(file)).fetch()
    assert "s3cret" not in str(caught.value)


async def test_a_token_is_asked_of_the_hosts_of_google_alone(tmp_path: Path) -> None:
    file = written(tmp_path, {**service_account(1), "token_uri": "https://evil.example/token"})
    with pytest.raises(ValueError, match="may not be fetched"):
        await chain(tmp_path, {}, file=file).fetch()


async def test_a_file_of_another_type_is_read_by_google_auth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = Cloud(lambda _: (200, json.dumps({"access_token": "t0ken-of-the-library", "expires_in": 3600})))
    async with listening(cloud.take) as port:
        document = {
            "type": "external_account_authorized_user",
            "audience": "//iam.googleapis.com/locations/global/workforcePools/p/providers/x",
            "client_id": "c",
            "client_secret": "s3cret",
            "refresh_token": "r3fresh",
            "token_url": f"http://127.0.0.1:{port}/token",
            "token_info_url": f"http://127.0.0.1:{port}/info",
        }
        granted = await chain(tmp_path, {}, file=written(tmp_path, document)).fetch()
    assert granted.value == "t0ken-of-the-library"
    assert granted.renew_at <= granted.ends_at
    assert parse_qs(cloud.asked[0].body.decode())["refresh_token"] == ["r3fresh"]
    cloud = Cloud(lambda _: (401, json.dumps({"error": "invalid_grant", "error_description": "s3cret"})))
    async with listening(cloud.take) as port:
        refused = {**document, "token_url": f"http://127.0.0.1:{port}/token"}
        with pytest.raises(ValueError, match="google-auth gives no token: ") as caught:
            await chain(tmp_path, {}, file=written(tmp_path, refused)).fetch()
        for name in [name for name in sys.modules if name.startswith("google.auth")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "google.auth", None)
        with pytest.raises(ValueError, match=r"needs the package google, .*: pip install 'smg-(sdk|core)\[google\]'"):
            await chain(tmp_path, {}, file=written(tmp_path, refused)).fetch()
    assert "s3cret" not in str(caught.value)
