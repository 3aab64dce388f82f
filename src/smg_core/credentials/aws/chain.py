"""The sources of AWS's keys: the environment, profiles, web identities, containers, instances (edge).

The order is that of AWS's own libraries. A source that is configured and fails ends the search: another one's rights would be
others. Above: opening. Below: profiles, sts, documents, asking.
"""

import asyncio
import shlex
from collections.abc import Awaitable, Mapping
from importlib import import_module
from pathlib import Path

import attrs

from smg_core.clock import Clock
from smg_core.credentials.aws.documents import granted_keys, keys_of_document
from smg_core.credentials.aws.profiles import Profile, profiles_of
from smg_core.credentials.aws.sigv4 import AwsKeys, AwsScope, amz_date, sign
from smg_core.credentials.aws.sts import STS_HEADERS, assume_role, assume_role_with_token, keys_of_answer, sts_url
from smg_core.credentials.renewal.asking import TokenAsker
from smg_core.credentials.renewal.granted import Granted, ending_of
from smg_core.credentials.renewal.programs import output_of
from smg_core.extras import needs
from smg_core.regular_files import read_regular

__all__ = ["AwsChain"]

_MOST_BYTES = 1 << 20
"""Most bytes of a shared file, or of a token."""
_FILES_S = 60.0
"""Seconds after which AWS's shared files are read again."""
_SSO_S = 900.0
"""Seconds after which botocore, which renews the keys of SSO, is asked again."""
_TASKS = "http://169.254.170.2"
_INSTANCE = "http://169.254.169.254"
_ROLES = "/latest/meta-data/iam/security-credentials/"
_LASTS_S = "21600"

FoundKeys = Granted[AwsKeys]


@attrs.frozen
class AwsChain:
    """Finds keys by `environment` and the files of `home`. `profile` is one that was named, before the environment's; `role` is
    one to assume with the keys that are found. `sts` is the address of the token service ("": that of the region)."""

    environment: Mapping[str, str]
    home: Path
    region: str
    asker: TokenAsker
    clock: Clock
    profile: str = ""
    role: str = ""
    timeout_s: float = 10.0
    sts: str = ""

    async def fetch(self) -> FoundKeys:
        """The keys. Raises ValueError, OSError or SmgError, with no secret in it."""
        found = await self._found()
        return found if not self.role else await self._assumed(Profile("", role=self.role), found.value)

    async def _found(self) -> FoundKeys:
        environment = self.environment
        if not self.profile and (keys := self._of_environment()) is not None:
            return keys
        name = self.profile or environment.get("AWS_PROFILE", "default")
        profiles = await self.profiles()
        profile = profiles.get(name)
        if profile is None and (self.profile or "AWS_PROFILE" in environment):
            raise ValueError(f"AWS's files have no profile {name!r}")
        with_token = "AWS_WEB_IDENTITY_TOKEN_FILE" in environment and not self.profile
        if with_token and (profile is None or not profile.role):
            return await self._of_web_identity(_web_profile(environment))
        if profile is not None and (asked := self._of_profile(profile, profiles, frozenset())) is not None:
            return await asked
        if profile is not None and profile.keys is not None:
            return Granted(profile.keys, renew_at=self.clock.time() + _FILES_S)
        if self._in_container():
            return await self._of_container()
        return await self._of_instance()

    async def profiles(self) -> dict[str, Profile]:
        """All profiles of the shared files."""
        secret = await self._text("AWS_SHARED_CREDENTIALS_FILE", "credentials")
        return profiles_of(secret, await self._text("AWS_CONFIG_FILE", "config"))

    async def _text(self, variable: str, name: str) -> str:
        path = Path(self.environment.get(variable) or self.home / ".aws" / name).expanduser()
        try:
            return (await asyncio.to_thread(read_regular, path, _MOST_BYTES)).decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def _of_environment(self) -> FoundKeys | None:
        key_id = self.environment.get("AWS_ACCESS_KEY_ID", "")
        if not key_id:
            return None
        secret = self.environment.get("AWS_SECRET_ACCESS_KEY", "")
        if not secret:
            raise ValueError("the environment has AWS_ACCESS_KEY_ID and no AWS_SECRET_ACCESS_KEY")
        keys = AwsKeys(key_id, secret, self.environment.get("AWS_SESSION_TOKEN", ""))
        ends = self.environment.get("AWS_CREDENTIAL_EXPIRATION")
        return granted_keys(keys, self.clock.time(), None if ends is None else ending_of(ends))

    def _of_profile(
        self, profile: Profile, profiles: Mapping[str, Profile], seen: frozenset[str]
    ) -> Awaitable[FoundKeys] | None:
        """The keys of a profile that has more than its own keys to say; None otherwise."""
        if profile.role and profile.token_file:
            return self._of_web_identity(profile)
        if profile.role and (profile.source_profile or profile.credential_source):
            return self._of_role(profile, profiles, seen | {profile.name})
        if profile.sso:
            return self._of_library(profile)
        if profile.process and not profile.own_keys_first:
            return self._of_process(profile.process)
        return None

    async def _of_role(self, profile: Profile, profiles: Mapping[str, Profile], seen: frozenset[str]) -> FoundKeys:
        if profile.mfa:
            raise ValueError(f"the profile {profile.name!r} asks for a code of a device, which nobody enters here")
        if profile.credential_source:
            return await self._assumed(profile, (await self._of_source(profile.credential_source)).value)
        name = profile.source_profile
        source = profiles.get(name)
        if source is None:
            raise ValueError(f"AWS's files have no profile {name!r}")
        asked = None if name in seen else self._of_profile(source, profiles, seen)
        if asked is not None:
            return await self._assumed(profile, (await asked).value)
        if source.keys is None:
            raise ValueError(f"the profile {name!r} has no keys of its own")
        return await self._assumed(profile, source.keys)

    async def _of_source(self, name: str) -> FoundKeys:
        """The keys of a `credential_source`."""
        if name == "Environment":
            found = self._of_environment()
            if found is None:
                raise ValueError("the environment has no AWS_ACCESS_KEY_ID")
            return found
        if name == "EcsContainer":
            return await self._of_container()
        if name == "Ec2InstanceMetadata":
            return await self._of_instance()
        raise ValueError("the credential_source of a profile is Environment, EcsContainer or Ec2InstanceMetadata")

    async def _assumed(self, profile: Profile, keys: AwsKeys) -> FoundKeys:
        body = assume_role(
            profile.role,
            session=profile.session_name,
            external_id=profile.external_id,
            duration_s=profile.duration_s,
        )
        url, date = self._sts_url(), amz_date(self.clock.time())
        headers = (*STS_HEADERS, *sign(keys, AwsScope(self.region, "sts"), date, "POST", url, STS_HEADERS, body))
        return await self._answered(url, headers, body)

    async def _of_web_identity(self, profile: Profile) -> FoundKeys:
        path = Path(profile.token_file).expanduser()
        token = (await asyncio.to_thread(read_regular, path, _MOST_BYTES)).decode("ascii", "replace").strip()
        body = assume_role_with_token(profile.role, token, session=profile.session_name, duration_s=profile.duration_s)
        return await self._answered(self._sts_url(), STS_HEADERS, body)

    async def _answered(self, url: str, headers: tuple[tuple[str, str], ...], body: bytes) -> FoundKeys:
        answer = await self.asker.ask("POST", url, headers=headers, body=body)
        return keys_of_answer(answer.status, answer.body, self.clock.time())

    def _sts_url(self) -> str:
        return self.sts or self.environment.get("AWS_ENDPOINT_URL_STS") or sts_url(self.region)

    async def _of_process(self, command: str) -> FoundKeys:
        return keys_of_document(await output_of(shlex.split(command), self.timeout_s), self.clock.time())

    async def _of_library(self, profile: Profile) -> FoundKeys:
        """The keys of a profile that signs in by SSO, by botocore where it is installed."""
        try:
            session, errors = import_module("botocore.session"), import_module("botocore.exceptions")
        except ImportError:
            raise ValueError(needs(f"the profile {profile.name!r}, which signs in by SSO,", "botocore")) from None

        def asked() -> AwsKeys:
            try:
                found = session.Session(profile=profile.name).get_credentials()
                frozen = found and found.get_frozen_credentials()
            except errors.BotoCoreError as error:
                raise ValueError(f"botocore gives no keys: {type(error).__name__}") from None
            if not frozen:
                raise ValueError(f"botocore finds no keys for the profile {profile.name!r}")
            return AwsKeys(frozen.access_key, frozen.secret_key, frozen.token or "")

        return Granted(await asyncio.to_thread(asked), renew_at=self.clock.time() + _SSO_S)

    def _in_container(self) -> bool:
        return any(f"AWS_CONTAINER_CREDENTIALS_{each}_URI" in self.environment for each in ("RELATIVE", "FULL"))

    async def _of_container(self) -> FoundKeys:
        environment = self.environment
        relative = environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        url = f"{_TASKS}{relative}" if relative else environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI", "")
        token = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
        if file := environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
            token = (await asyncio.to_thread(read_regular, Path(file), _MOST_BYTES)).decode("ascii", "replace")
        if "\r" in token or "\n" in token.rstrip("\r\n"):
            raise ValueError("the token for the keys of the container has more than one line")
        headers = (("authorization", token.strip()),) if token.strip() else ()
        answer = await self.asker.ask("GET", url, headers=(("accept", "application/json"), *headers))
        if answer.status != 200:
            raise ValueError(f"the container's keys are not given: HTTP status {answer.status}")
        return keys_of_document(answer.body, self.clock.time())

    async def _of_instance(self) -> FoundKeys:
        environment = self.environment
        if environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
            raise ValueError("no keys in the environment, in AWS's files, and the instance is not to be asked")
        place = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", _INSTANCE).rstrip("/")
        lasts = (("x-aws-ec2-metadata-token-ttl-seconds", _LASTS_S),)
        token = await self._of_metadata("PUT", f"{place}/latest/api/token", lasts)
        sent = (("x-aws-ec2-metadata-token", token.decode("ascii", "replace")),)
        role = (await self._of_metadata("GET", f"{place}{_ROLES}", sent)).decode("ascii", "replace").split()
        if not role:
            raise ValueError("the instance has no role")
        return keys_of_document(await self._of_metadata("GET", f"{place}{_ROLES}{role[0]}", sent), self.clock.time())

    async def _of_metadata(self, method: str, url: str, headers: tuple[tuple[str, str], ...]) -> bytes:
        answer = await self.asker.ask(method, url, headers=headers)
        if answer.status != 200:
            raise ValueError(f"the instance's keys are not given: HTTP status {answer.status}")
        return answer.body


def _web_profile(environment: Mapping[str, str]) -> Profile:
    role = environment.get("AWS_ROLE_ARN", "")
    if not role:
        raise ValueError("the environment has AWS_WEB_IDENTITY_TOKEN_FILE and no AWS_ROLE_ARN")
    return Profile(
        "",
        role=role,
        session_name=environment.get("AWS_ROLE_SESSION_NAME", ""),
        token_file=environment["AWS_WEB_IDENTITY_TOKEN_FILE"],
    )
