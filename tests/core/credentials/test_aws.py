"""AWS's keys: from each place where AWS's libraries look, in their order, and a clock that is off."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs

import attrs
import msgspec
import pytest
from tests.core.credentials.clouds import NOW, Stopped, asker
from tests.peers import listening
from tests.shared import PATIENCE

from smg_core.credentials.aws.chain import AwsChain
from smg_core.credentials.aws.signer import AwsSigner
from smg_core.credentials.aws.sigv4 import AwsKeys, AwsScope, sign
from smg_core.credentials.renewal.granted import Granted
from smg_core.credentials.renewal.renewed import Renewed

pytestmark = pytest.mark.anyio

LATER = "2026-12-31T00:00:00Z"
DOCUMENT = {
    "Code": "Success",
    "AccessKeyId": "ASIADOC",
    "SecretAccessKey": "s3cret-doc",
    "Token": "t0ken-doc",
    "Expiration": LATER,
}
ANSWER = (
    "<R><Result><Credentials><AccessKeyId>ASIA{n}</AccessKeyId><SecretAccessKey>s3cret+{n}</SecretAccessKey>"
    f"<SessionToken>t0ken&amp;{{n}}</SessionToken><Expiration>{LATER}</Expiration></Credentials></Result></R>"
)


@attrs.define
class Cloud:
    """Plays the token service, the instance and the container's agent; `asked` are (method, path, headers, body)."""

    asked: list[tuple[str, str, dict[str, str], bytes]] = attrs.field(factory=list)
    status: int = 200

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.asked.append((method, path, headers, body))
        answer = self._answer(path).encode()
        writer.write(f"HTTP/1.1 {self.status} X\r\ncontent-length: {len(answer)}\r\n\r\n".encode() + answer)
        writer.close()

    def _answer(self, path: str) -> str:
        if path == "/sts":
            return ANSWER.format(n=len(self.asked)) if self.status == 200 else "<E><Code>AccessDenied</Code></E>"
        if path == "/latest/api/token":
            return "imds-token"
        if path.endswith("/security-credentials/"):
            return "my-role\n"
        return msgspec.json.encode(DOCUMENT).decode()


def chain(home: Path, environment: Mapping[str, str], port: int = 1, **more: object) -> AwsChain:
    return AwsChain(
        {"AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://127.0.0.1:{port}", **environment},
        home,
        "eu-west-1",
        asker(),
        Stopped(),
        sts=f"http://127.0.0.1:{port}/sts",
        timeout_s=PATIENCE,
        **more,  # type: ignore[arg-type]
    )


def write(home: Path, *, credentials: str = "", config: str = "") -> None:
    (home / ".aws").mkdir(exist_ok=True)
    (home / ".aws" / "credentials").write_text(credentials)
    (home / ".aws" / "config").write_text(config)


STATIC = "[default]\naws_access_key_id = AKIAFILE\naws_secret_access_key = s3cret-file\n"
OWN = {"AWS_ACCESS_KEY_ID": "AKIAENV", "AWS_SECRET_ACCESS_KEY": "s3cret-env", "AWS_SESSION_TOKEN": "t0ken-env"}


async def test_keys_of_the_environment_come_first_unless_a_profile_is_named(tmp_path: Path) -> None:
    write(tmp_path, credentials=STATIC)
    assert (await chain(tmp_path, OWN).fetch()).value == AwsKeys("AKIAENV", "s3cret-env", "t0ken-env")
    assert (await chain(tmp_path, OWN, profile="default").fetch()).value == AwsKeys("AKIAFILE", "s3cret-file")
    with pytest.raises(ValueError, match="no profile 'none'"):
        await chain(tmp_path, OWN, profile="none").fetch()


async def test_keys_of_the_environment_that_end_are_renewed_and_those_that_have_ended_refused(tmp_path: Path) -> None:
    granted = await chain(tmp_path, {**OWN, "AWS_CREDENTIAL_EXPIRATION": LATER}).fetch()
    assert NOW < granted.renew_at < granted.wait_at < granted.ends_at
    with pytest.raises(ValueError, match="ended already"):
        await chain(tmp_path, {**OWN, "AWS_CREDENTIAL_EXPIRATION": "2026-01-01T00:00:00Z"}).fetch()


async def test_a_role_is_assumed_with_the_keys_of_its_source(tmp_path: Path) -> None:
    config = (
        "[profile a]\nrole_arn = arn:aws:iam::1:role/a\nsource_profile = b\nexternal_id = ext\nduration_seconds = 900\n"
        "[profile b]\nrole_arn = arn:aws:iam::1:role/b\nsource_profile = default\n"
    )
    write(tmp_path, credentials=STATIC, config=config)
    cloud = Cloud()
    async with listening(cloud.take) as port:
        granted = await chain(tmp_path, {}, port, profile="a").fetch()
    assert granted.value == AwsKeys("ASIA2", "s3cret+2", "t0ken&2")
    first, second = cloud.asked
    assert parse_qs(first[3].decode())["RoleArn"] == ["arn:aws:iam::1:role/b"]
    asked = parse_qs(second[3].decode())
    assert asked["RoleArn"] == ["arn:aws:iam::1:role/a"]
    assert asked["ExternalId"] == ["ext"]
    assert asked["DurationSeconds"] == ["900"]
    signed_with = (AwsKeys("AKIAFILE", "s3cret-file"), AwsKeys("ASIA1", "s3cret+1", "t0ken&1"))
    for (_, _, headers, body), keys in zip((first, second), signed_with, strict=True):
        url = f"http://127.0.0.1:{port}/sts"
        sent = [("content-type", headers["content-type"])]
        expected = dict(sign(keys, AwsScope("eu-west-1", "sts"), headers["x-amz-date"], "POST", url, sent, body))
        assert headers["authorization"] == expected["authorization"]


async def test_profiles_that_lead_to_each_other_are_refused(tmp_path: Path) -> None:
    write(
        tmp_path,
        config="[profile a]\nrole_arn = r\nsource_profile = b\n[profile b]\nrole_arn = r\nsource_profile = a\n",
    )
    with pytest.raises(ValueError, match="no keys of its own"):
        await chain(tmp_path, {}, profile="a").fetch()


async def test_a_role_that_is_configured_is_assumed_with_what_the_chain_finds(tmp_path: Path) -> None:
    cloud = Cloud()
    async with listening(cloud.take) as port:
        granted = await chain(tmp_path, OWN, port, role="arn:aws:iam::1:role/mine").fetch()
    assert granted.value.key_id == "ASIA1"
    assert cloud.asked[0][2]["x-amz-security-token"] == "t0ken-env"


async def test_the_token_of_a_web_identity_is_read_each_time_and_sent_unsigned(tmp_path: Path) -> None:
    file, cloud = tmp_path / "token", Cloud()
    environment = {"AWS_WEB_IDENTITY_TOKEN_FILE": str(file), "AWS_ROLE_ARN": "arn:aws:iam::1:role/pod"}
    async with listening(cloud.take) as port:
        for token in ("first", "second"):
            file.write_text(token + "\n")
            assert (await chain(tmp_path, environment, port).fetch()).value.session
    assert [parse_qs(body.decode())["WebIdentityToken"] for _, _, _, body in cloud.asked] == [["first"], ["second"]]
    assert all("authorization" not in headers for _, _, headers, _ in cloud.asked)


async def test_a_program_of_a_profile_writes_its_keys(tmp_path: Path) -> None:
    document = tmp_path / "document"
    document.write_text(msgspec.json.encode({**DOCUMENT, "Version": 1}).decode())
    script = tmp_path / "keys.py"
    script.write_text(f"print(open({str(document)!r}).read())")
    write(tmp_path, config=f"[default]\ncredential_process = {sys.executable} '{script}'\n")
    assert (await chain(tmp_path, {}).fetch()).value.key_id == "ASIADOC"


async def test_a_container_is_asked_with_its_token_and_an_instance_with_the_one_it_gives(tmp_path: Path) -> None:
    cloud, token = Cloud(), tmp_path / "pod-token"
    token.write_text("pod\n")
    async with listening(cloud.take) as port:
        environment = {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://127.0.0.1:{port}/v1/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token),
        }
        assert (await chain(tmp_path, environment, port).fetch()).value.key_id == "ASIADOC"
        token.write_text("one\r\ntwo: three")
        with pytest.raises(ValueError, match="more than one line"):
            await chain(tmp_path, environment, port).fetch()
        assert (await chain(tmp_path, {}, port).fetch()).value.session == "t0ken-doc"
        with pytest.raises(ValueError, match="not to be asked"):
            await chain(tmp_path, {"AWS_EC2_METADATA_DISABLED": "true"}, port).fetch()
    container, put, role, keys = cloud.asked
    assert container[2]["authorization"] == "pod"
    assert put[:2] == ("PUT", "/latest/api/token")
    assert put[2]["x-aws-ec2-metadata-token-ttl-seconds"] == "21600"
    assert role[2]["x-aws-ec2-metadata-token"] == keys[2]["x-aws-ec2-metadata-token"] == "imds-token"
    assert keys[1].endswith("/security-credentials/my-role")


async def test_a_token_service_that_refuses_is_told_by_its_code(tmp_path: Path) -> None:
    cloud = Cloud(status=403)
    async with listening(cloud.take) as port:
        with pytest.raises(ValueError, match="403, AccessDenied") as caught:
            await chain(tmp_path, OWN, port, role="arn:aws:iam::1:role/mine").fetch()
    assert "s3cret" not in str(caught.value)
    assert "t0ken" not in str(caught.value)


async def test_files_that_cannot_be_read_show_no_line_of_themselves(tmp_path: Path) -> None:
    write(tmp_path, credentials="s3cret without a section\n")
    with pytest.raises(ValueError, match="cannot be read") as caught:
        await chain(tmp_path, {}).fetch()
    assert "s3cret" not in str(caught.value)


async def test_a_clock_that_is_off_is_corrected_by_the_date_of_the_refusal_once() -> None:
    async def fetch() -> Granted[AwsKeys]:
        return Granted(AwsKeys("AKIA", "s3cret"))

    signer = AwsSigner(Renewed("keys", fetch, clock=Stopped()), AwsScope("us-east-1", "bedrock"), clock=Stopped())
    asked = ("POST", "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse", (), b"{}")
    sent = await signer.authorise(*asked)  # type: ignore[misc]
    said = b'{"message":"Signature expired: 20261129T1200Z is now earlier than ..."}'
    answer = {"date": "Tue, 01 Dec 2026 00:00:00 GMT"}
    assert signer.refused(sent, 403, answer, said)
    again = dict(signer.authorise(*asked))  # type: ignore[arg-type]
    assert again["x-amz-date"] == "20261201T000000Z"
    assert not signer.refused(tuple(again.items()), 403, answer, said)  # it was corrected, and is refused all the same
    assert not signer.refused(sent, 403, {}, said)


async def test_keys_that_are_refused_are_asked_for_again_and_rights_that_lack_are_not() -> None:
    given = 0

    async def fetch() -> Granted[AwsKeys]:
        nonlocal given
        given += 1
        return Granted(AwsKeys(f"ASIA{given}", "s3cret"))

    signer = AwsSigner(Renewed("keys", fetch, clock=Stopped()), AwsScope("us-east-1", "bedrock"), clock=Stopped())
    asked = ("POST", "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse", (), b"{}")
    sent = await signer.authorise(*asked)  # type: ignore[misc]
    denied = {"x-amzn-errortype": "AccessDeniedException"}
    assert not signer.refused(sent, 403, denied, b'{"message":"not authorized to perform bedrock:InvokeModel"}')
    expired = {"x-amzn-errortype": "ExpiredTokenException:http://internal"}
    assert signer.refused(sent, 403, expired, b"{}")
    again = await signer.authorise(*asked)  # type: ignore[misc]
    assert "Credential=ASIA2/" in dict(again)["authorization"]
    assert signer.refused(sent, 403, expired, b"{}")  # of the old keys, while the new ones are there
    assert given == 2


async def test_a_large_body_is_signed_in_a_thread_and_alike() -> None:
    async def fetch() -> Granted[AwsKeys]:
        return Granted(AwsKeys("AKIA", "s3cret"))

    signer = AwsSigner(Renewed("keys", fetch, clock=Stopped()), AwsScope("us-east-1", "bedrock"), clock=Stopped())
    place = ("POST", "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse", ())
    await signer.authorise(*place, b"{}")  # type: ignore[misc]
    assert not hasattr(signer.authorise(*place, b"{}"), "__await__")
    large = bytes(1 << 20)
    signed = await signer.authorise(*place, large)  # type: ignore[misc]
    date = dict(signed)["x-amz-date"]
    assert signed == sign(AwsKeys("AKIA", "s3cret"), AwsScope("us-east-1", "bedrock"), date, *place, large)


async def test_a_profile_that_signs_in_by_sso_is_asked_of_botocore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sso = "sso_start_url = https://a.example\nsso_region = eu-west-1\nsso_account_id = 1\nsso_role_name = r\n"
    write(tmp_path, config=f"[profile work]\n{sso}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / ".aws" / "config"))
    with pytest.raises(ValueError, match=r"botocore gives no keys: [A-Za-z]+Error"):  # nobody has signed in
        await chain(tmp_path, {}, profile="work").fetch()
    for name in [name for name in sys.modules if name.partition(".")[0] == "botocore"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "botocore", None)
    with pytest.raises(ValueError, match=r"needs the package botocore, .*: pip install 'smg-(sdk|core)\[aws\]'"):
        await chain(tmp_path, {}, profile="work").fetch()
