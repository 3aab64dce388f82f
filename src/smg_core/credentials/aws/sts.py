"""Requests to AWS's token service for the keys of a role, and what it answers.

Decides forms, addresses and the reading of answers. Pure. Above: chain. Below: documents.
"""

import re
from html import unescape
from urllib.parse import urlencode

from smg_core.credentials.aws.documents import granted_keys
from smg_core.credentials.aws.sigv4 import AwsKeys
from smg_core.credentials.renewal.granted import Granted, ending_of

__all__ = ["STS_HEADERS", "assume_role", "assume_role_with_token", "keys_of_answer", "sts_url"]

STS_HEADERS = (("content-type", "application/x-www-form-urlencoded; charset=utf-8"),)
_VERSION = "2011-06-15"
_SESSION = "smg-gateway"
_TAG = re.compile(r"<(AccessKeyId|SecretAccessKey|SessionToken|Expiration|Code)>\s*([^<]*?)\s*</")


def sts_url(region: str) -> str:
    """The address of the service in a region."""
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://sts.{region}.{suffix}/"


def assume_role(role: str, *, session: str = "", external_id: str = "", duration_s: int | None = None) -> bytes:
    """The form that asks for the keys of `role`, which is signed with other keys."""
    return _form("AssumeRole", role, session, {"ExternalId": external_id}, duration_s)


def assume_role_with_token(role: str, token: str, *, session: str = "", duration_s: int | None = None) -> bytes:
    """The form that asks for the keys of `role` with the token of a web identity; it is not signed."""
    return _form("AssumeRoleWithWebIdentity", role, session, {"WebIdentityToken": token}, duration_s)


def _form(action: str, role: str, session: str, more: dict[str, str], duration_s: int | None) -> bytes:
    fields = {"Action": action, "Version": _VERSION, "RoleArn": role, "RoleSessionName": session or _SESSION}
    fields |= {name: value for name, value in more.items() if value}
    if duration_s is not None:
        fields["DurationSeconds"] = str(duration_s)
    return urlencode(fields).encode()


def keys_of_answer(status: int, body: bytes, now: float) -> Granted[AwsKeys]:
    """The keys that the service gives. Raises ValueError with the code of its error."""
    found = {name: unescape(value) for name, value in _TAG.findall(body.decode("utf-8", "replace"))}
    if status != 200:
        raise ValueError(
            f"AWS's token service refuses the role: HTTP status {status}, {found.get('Code', 'no code')[:64]}"
        )
    try:
        keys = AwsKeys(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"])
        ends_at = ending_of(found["Expiration"])
    except KeyError as error:
        raise ValueError(f"the answer of AWS's token service has no {error.args[0]}") from None
    return granted_keys(keys, now, ends_at)
