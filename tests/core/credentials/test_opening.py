"""Which signer a credential becomes, and that workers share it."""

import subprocess
import sys
from pathlib import Path

import pytest

from smg_core.credentials.opening import ProviderWants, open_signer
from smg_core.engines.connections.credential import CredentialSpec

pytestmark = pytest.mark.anyio

ASKED = ("POST", "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse", (), b"{}")
BEDROCK = ProviderWants(service="bedrock", region="us-east-1")


async def fields(spec: CredentialSpec, wants: ProviderWants) -> dict[str, str]:
    signer = open_signer(spec, wants)
    try:
        given = signer.authorise(*ASKED)
        return dict(await given if hasattr(given, "__await__") else given)  # type: ignore[arg-type,misc]
    finally:
        await signer.close()


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_BEARER_TOKEN_BEDROCK", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")


async def test_a_key_goes_into_the_header_that_the_provider_wants() -> None:
    assert await fields(CredentialSpec(key="k"), ProviderWants("api-key", "")) == {"api-key": "k"}
    assert await fields(CredentialSpec(key="k"), ProviderWants()) == {"authorization": "Bearer k"}


async def test_aws_signs_unless_there_is_a_key_of_bedrock(monkeypatch: pytest.MonkeyPatch) -> None:
    signed = await fields(CredentialSpec(kind="aws"), BEDROCK)
    assert "/us-east-1/bedrock/aws4_request" in signed["authorization"]
    mantle = await fields(CredentialSpec(kind="aws", service="bedrock-mantle"), BEDROCK)
    assert "/us-east-1/bedrock-mantle/aws4_request" in mantle["authorization"]
    assert await fields(CredentialSpec(kind="aws", key="own"), BEDROCK) == {"authorization": "Bearer own"}
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "of-the-environment")
    assert await fields(CredentialSpec(kind="aws"), BEDROCK) == {"authorization": "Bearer of-the-environment"}


async def test_the_region_is_that_of_the_entry_or_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    wants = ProviderWants(service="bedrock")
    with pytest.raises(ValueError, match="region is missing"):
        open_signer(CredentialSpec(kind="aws"), wants)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    assert "/eu-north-1/bedrock/" in (await fields(CredentialSpec(kind="aws"), wants))["authorization"]


@pytest.mark.parametrize(
    ("spec", "wants"),
    [
        (CredentialSpec(kind="aws"), ProviderWants()),
        (CredentialSpec(kind="google"), ProviderWants()),
        (CredentialSpec(kind="entra"), BEDROCK),
        (CredentialSpec(kind="google", key="k"), ProviderWants(scope="s")),
        (CredentialSpec(), ProviderWants()),
    ],
)
def test_a_credential_that_the_provider_does_not_take_is_refused(spec: CredentialSpec, wants: ProviderWants) -> None:
    with pytest.raises(ValueError, match="credential"):
        open_signer(spec, wants)


async def test_workers_of_one_credential_share_what_was_asked_for_and_others_do_not(tmp_path: Path) -> None:
    counted = tmp_path / "counted"
    script = f"f = open({str(counted)!r}, 'a'); f.write('x'); f.flush(); print('key-%d' % f.tell())"
    spec = CredentialSpec(command=(sys.executable, "-c", script), timeout_s=60)
    first, second = open_signer(spec, ProviderWants()), open_signer(spec, ProviderWants())
    other = open_signer(spec, ProviderWants("x-api-key", ""))
    given = [dict(await each.authorise(*ASKED)) for each in (first, second, other) if each is not second]  # type: ignore[misc]
    assert given == [{"authorization": "Bearer key-1"}, {"x-api-key": "key-2"}]
    assert dict(second.authorise(*ASKED)) == given[0]  # type: ignore[arg-type]
    await first.close()
    await first.close()
    assert dict(second.authorise(*ASKED)) == given[0]  # type: ignore[arg-type]
    await second.close()
    again = open_signer(spec, ProviderWants())
    assert dict(await again.authorise(*ASKED)) == {"authorization": "Bearer key-3"}  # type: ignore[misc]
    await again.close()
    await other.close()


@pytest.mark.full
def test_a_gateway_without_providers_loads_nothing_of_them() -> None:
    script = (
        "import sys, smg_core; smg_core.Gateway(['grpc://a:1'])\n"
        "print([name for name in sys.modules if name.startswith(('smg_core.credentials', 'botocore', 'google.auth'))])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
