"""Files of Google's credentials, and answers with tokens.

Decides which kinds of files are known. Pure. Above: chain, assertion. Below: granted.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from smg_core.credentials.renewal.granted import Granted, ending_of
from smg_core.credentials.renewal.token_answers import token_until

__all__ = [
    "AuthorizedUser",
    "Document",
    "ExternalAccount",
    "Impersonation",
    "ServiceAccount",
    "document_of",
    "quota_project",
    "subject_of",
    "token_of_impersonation",
]

_TOKEN_URI = "https://oauth2.googleapis.com/token"  # noqa: S105
_STS = "https://sts.googleapis.com/v1/token"


class ServiceAccount(Struct, tag_field="type", tag="service_account"):
    """A service account with its key."""

    client_email: str
    private_key: str
    private_key_id: str = ""
    token_uri: str = _TOKEN_URI
    quota_project_id: str = ""

    def __repr__(self) -> str:
        return "<service account>"


class AuthorizedUser(Struct, tag_field="type", tag="authorized_user"):
    """A person who has signed in with gcloud."""

    client_id: str
    client_secret: str
    refresh_token: str
    token_uri: str = _TOKEN_URI
    quota_project_id: str = ""

    def __repr__(self) -> str:
        return "<authorized user>"


class ExternalAccount(Struct, tag_field="type", tag="external_account"):
    """An identity of another cloud or of a cluster, which is exchanged."""

    audience: str
    subject_token_type: str
    credential_source: dict[str, Any]
    token_url: str = _STS
    service_account_impersonation_url: str = ""
    quota_project_id: str = ""


class Impersonation(Struct, tag_field="type", tag="impersonated_service_account"):
    """A service account whose tokens another credential may ask for."""

    service_account_impersonation_url: str
    source_credentials: msgspec.Raw
    delegates: list[str] = []
    quota_project_id: str = ""

    def __repr__(self) -> str:
        return "<impersonation>"


Document = ServiceAccount | AuthorizedUser | ExternalAccount | Impersonation


class _Impersonated(Struct, rename="camel"):
    access_token: str = ""
    expire_time: str = ""


class _Kind(Struct):
    type: str = ""


def document_of(data: bytes) -> Document:
    """The credentials of a file. Raises ValueError, which names the kind and no value of a secret."""
    try:
        kind = msgspec.json.decode(data, type=_Kind).type
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError("the file of Google's credentials is no JSON object") from None
    try:
        return msgspec.json.decode(data, type=Document)
    except (msgspec.DecodeError, RecursionError):
        raise ValueError(f"the file of Google's credentials, of type {kind[:40]!r}, cannot be read") from None


def quota_project(document: Document) -> str:
    """The project whose quota is used, "" where the file names none."""
    return document.quota_project_id


def subject_of(data: bytes, form: Mapping[str, Any]) -> str:
    """The token of an external identity, of a source whose `format` is text, or JSON with a field. Raises ValueError."""
    if form.get("type", "text") == "text":
        return data.decode("ascii", "replace").strip()
    try:
        found = msgspec.json.decode(data, type=dict[str, Any])[form["subject_token_field_name"]]
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, RecursionError):
        raise ValueError("the token of the external identity cannot be read") from None
    return str(found)


def token_of_impersonation(status: int, body: bytes, now: float) -> Granted[str]:
    """The token of a service account that another credential has asked for. Raises ValueError."""
    try:
        answer = msgspec.json.decode(body, type=_Impersonated)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        answer = _Impersonated()
    if status != 200 or not answer.access_token:
        raise ValueError(f"no token of the service account is given: HTTP status {status}")
    return token_until(answer.access_token, now, ending_of(answer.expire_time))
