"""Tokens of Entra ID: by a client's secret, by workload identity, by the identity of the machine."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import attrs
import pytest
from tests.core.credentials.clouds import NOW, Asked, Cloud, Stopped, asker
from tests.peers import listening

from smg_core.credentials.entra.chain import AZURE_SCOPE, EntraChain
from smg_core.credentials.renewal.keys import given_key
from smg_core.errors import WorkerGone

pytestmark = pytest.mark.anyio


def gives(asked: Asked) -> tuple[int, str]:
    # agents of machines write numbers as text
    return 200, json.dumps({"access_token": "t0ken", "expires_in": "86399" if asked.method == "GET" else 3599})


def chain(environment: Mapping[str, str], **more: Any) -> EntraChain:
    return EntraChain(environment, asker(), Stopped(), **more)


async def test_a_client_asks_with_its_secret(tmp_path: Path) -> None:
    cloud = Cloud(gives)
    async with listening(cloud.take) as port:
        environment = {"AZURE_AUTHORITY_HOST": f"http://127.0.0.1:{port}/"}
        secret = given_key("s3cret", clock=Stopped())
        named = await chain(environment, tenant="t", client="c", secret=secret).fetch()
        own = {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "s3cret"}
        assert (await chain({**environment, **own}).fetch()).value == named.value == "t0ken"
    assert named.ends_at == NOW + 3599
    for asked in cloud.asked:
        assert asked.path == "/t/oauth2/v2.0/token"
        form = {name: value for name, (value,) in parse_qs(asked.body.decode()).items()}
        assert form == {
            "grant_type": "client_credentials",
            "client_id": "c",
            "client_secret": "s3cret",
            "scope": AZURE_SCOPE,
        }


async def test_the_token_of_a_workload_is_read_each_time(tmp_path: Path) -> None:
    cloud, file = Cloud(gives), tmp_path / "token"
    async with listening(cloud.take) as port:
        environment = {
            "AZURE_AUTHORITY_HOST": f"http://127.0.0.1:{port}",
            "AZURE_TENANT_ID": "t",
            "AZURE_CLIENT_ID": "c",
            "AZURE_FEDERATED_TOKEN_FILE": str(file),
        }
        for token in ("first", "second"):
            file.write_text(token)
            await chain(environment).fetch()
    assert [parse_qs(each.body.decode())["client_assertion"] for each in cloud.asked] == [["first"], ["second"]]


async def test_an_app_service_is_asked_at_its_endpoint(tmp_path: Path) -> None:
    cloud = Cloud(gives)
    async with listening(cloud.take) as port:
        environment = {"IDENTITY_ENDPOINT": f"http://127.0.0.1:{port}/msi/token", "IDENTITY_HEADER": "s3cret"}
        granted = await chain(environment, managed=True, client="mine").fetch()
    assert granted.ends_at == NOW + 86399
    asked = cloud.asked[0]
    assert asked.headers["x-identity-header"] == "s3cret"
    assert parse_qs(urlsplit(asked.path).query) == {
        "api-version": ["2019-08-01"],
        "resource": ["https://cognitiveservices.azure.com"],
        "client_id": ["mine"],
    }


async def test_an_endpoint_of_another_machine_is_not_asked() -> None:
    with pytest.raises(ValueError, match="may not be fetched"):
        await chain({"IDENTITY_ENDPOINT": "http://10.0.0.1/token", "IDENTITY_HEADER": "s3cret"}).fetch()


async def test_an_endpoint_on_the_link_of_the_machine_may_be_asked() -> None:
    async def nowhere(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]  # where nobody listens at this port

    reaching = attrs.evolve(asker(), resolve=nowhere).reaching("http://169.254.129.5:1/token")
    with pytest.raises(WorkerGone):
        await reaching.ask("GET", "http://169.254.129.5:1/token")


async def test_a_refusal_is_told_by_its_word_and_shows_no_secret() -> None:
    cloud = Cloud(lambda _: (401, json.dumps({"error": "invalid_client", "error_description": "s3cret"})))
    async with listening(cloud.take) as port:
        environment = {"AZURE_AUTHORITY_HOST": f"http://127.0.0.1:{port}"}
        with pytest.raises(ValueError, match="HTTP status 401, invalid_client") as caught:
            await chain(environment, tenant="t", client="c", secret=given_key("s3cret")).fetch()
    assert "s3cret" not in str(caught.value)


async def test_a_certificate_of_a_client_names_the_extra_that_it_needs() -> None:
    environment = {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_CERTIFICATE_PATH": "/cert.pem"}
    with pytest.raises(ValueError, match=r"the package azure, .*smg-(sdk|core)\[azure\]|azure-identity gives no token"):
        await chain(environment).fetch()
