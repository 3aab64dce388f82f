"""Profiles from the shared files of AWS.

Decides how the two files, `credentials` and `config`, make one profile. Pure: the texts are handed in. Above: chain. Below: the
standard library's parser.
"""

from collections.abc import Mapping
from configparser import ConfigParser, Error

import attrs

from smg_core.credentials.aws.sigv4 import AwsKeys

__all__ = ["Profile", "profiles_of"]

_SSO = ("sso_session", "sso_start_url", "sso_account_id")


@attrs.frozen
class Profile:
    """One profile: its own keys, a role that is assumed with other keys, a program that writes keys, or a file with the token of
    a web identity. `own_keys_first`: its keys are in the file `credentials`, which is asked before a program of `config`."""

    name: str
    keys: AwsKeys | None = None
    own_keys_first: bool = False
    role: str = ""
    source_profile: str = ""
    credential_source: str = ""
    external_id: str = ""
    session_name: str = ""
    duration_s: int | None = None
    process: str = ""
    token_file: str = ""
    region: str = ""
    sso: bool = False
    mfa: bool = False


def profiles_of(credentials: str, config: str) -> dict[str, Profile]:
    """The profiles of the texts of both files. Raises ValueError, without a line of the files, for a text that is none."""
    secret, shared = _sections(credentials, "credentials"), _sections(config, "config")
    named = {_profile_name(each): fields for each, fields in shared.items() if _is_profile(each)}
    return {name: _profile(name, secret.get(name, {}), named.get(name, {})) for name in {**named, **secret}}


def _sections(text: str, what: str) -> dict[str, Mapping[str, str]]:
    parser = ConfigParser(interpolation=None, default_section="\0", strict=False)
    try:
        parser.read_string(text)
    except Error:
        raise ValueError(f"AWS's file {what} cannot be read") from None
    return {name: dict(parser[name]) for name in parser.sections()}


def _is_profile(section: str) -> bool:
    return section == "default" or section.startswith("profile ")


def _profile_name(section: str) -> str:
    return section.removeprefix("profile ").strip().strip("\"'")


def _profile(name: str, secret: Mapping[str, str], shared: Mapping[str, str]) -> Profile:
    merged = {**shared, **secret}
    duration = merged.get("duration_seconds", "")
    return Profile(
        name,
        keys=_keys(secret) or _keys(shared),
        own_keys_first=_keys(secret) is not None,
        role=merged.get("role_arn", ""),
        source_profile=merged.get("source_profile", ""),
        credential_source=merged.get("credential_source", ""),
        external_id=merged.get("external_id", ""),
        session_name=merged.get("role_session_name", ""),
        duration_s=int(duration) if duration.isdecimal() else None,
        process=merged.get("credential_process", ""),
        token_file=merged.get("web_identity_token_file", ""),
        region=merged.get("region", ""),
        sso=any(each in merged for each in _SSO),
        mfa="mfa_serial" in merged,
    )


def _keys(fields: Mapping[str, str]) -> AwsKeys | None:
    key_id, secret = fields.get("aws_access_key_id", ""), fields.get("aws_secret_access_key", "")
    return AwsKeys(key_id, secret, fields.get("aws_session_token", "")) if key_id and secret else None
