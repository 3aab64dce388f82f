"""The sources of Google's tokens: files of credentials, workload identity, the metadata server (edge).

The order is that of Google's own libraries. Kinds of files that are not known here are left to google-auth, where it is
installed. Above: opening. Below: documents, assertion, asking.
"""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import attrs
import msgspec

from smg_core.clock import Clock
from smg_core.credentials.google.assertion import assertion
from smg_core.credentials.google.documents import (
    AuthorizedUser,
    Document,
    ExternalAccount,
    Impersonation,
    ServiceAccount,
    document_of,
    subject_of,
    token_of_impersonation,
)
from smg_core.credentials.renewal.asking import TokenAsker
from smg_core.credentials.renewal.granted import Granted
from smg_core.credentials.renewal.programs import output_of
from smg_core.credentials.renewal.token_answers import token_of_answer, token_until
from smg_core.extras import needs
from smg_core.regular_files import read_regular

__all__ = ["CLOUD_SCOPE", "GoogleChain"]

CLOUD_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_FORM = (("content-type", "application/x-www-form-urlencoded"),)
_MOST_BYTES = 1 << 20
"""Most bytes of a file of credentials."""
_DEEPEST = 4
"""Most service accounts that are impersonated one with another."""
_METADATA = "metadata.google.internal"
_ACCOUNT = "/computeMetadata/v1/instance/service-accounts/default/token"
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS = "urn:ietf:params:oauth:token-type:access_token"
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # google-auth has times of UTC without a zone
_LIBRARY_S = 1800.0
"""Seconds after which google-auth is asked again where it does not say when a token ends."""
_CLAIM = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@attrs.frozen
class GoogleChain:
    """Finds tokens for `scope` by the file that is named, `environment` and the files of `home`."""

    environment: Mapping[str, str]
    home: Path
    asker: TokenAsker
    clock: Clock
    file: str = ""
    scope: str = CLOUD_SCOPE
    timeout_s: float = 10.0

    async def fetch(self) -> Granted[str]:
        """A token. Raises ValueError, OSError or SmgError, with no secret in it."""
        data = await self._document()
        if data is None:
            return await self._of_metadata()
        try:
            return await self._of(document_of(data), 0)
        except ValueError:
            if not _for_library(data):
                raise
        return await self._of_library(data)

    async def _document(self) -> bytes | None:
        """The file of credentials that is named, or that of gcloud where it is there."""
        named = self.file or self.environment.get("GOOGLE_APPLICATION_CREDENTIALS", "")
        if named:
            return await asyncio.to_thread(read_regular, Path(named).expanduser(), _MOST_BYTES)
        folder = Path(self.environment.get("CLOUDSDK_CONFIG") or self.home / ".config" / "gcloud")
        try:
            return await asyncio.to_thread(read_regular, folder / "application_default_credentials.json", _MOST_BYTES)
        except FileNotFoundError:
            return None

    async def _of(self, document: Document, depth: int) -> Granted[str]:
        match document:
            case ServiceAccount():
                claim = await asyncio.to_thread(assertion, document, self.scope, self.clock.time())
                return await self._exchanged(document.token_uri, {"grant_type": _CLAIM, "assertion": claim})
            case AuthorizedUser():
                fields = {
                    "grant_type": "refresh_token",
                    "client_id": document.client_id,
                    "client_secret": document.client_secret,
                    "refresh_token": document.refresh_token,
                }
                return await self._exchanged(document.token_uri, fields)
            case ExternalAccount():
                return await self._of_external(document)
            case Impersonation():
                return await self._of_impersonation(document, depth)

    async def _exchanged(self, url: str, fields: Mapping[str, str]) -> Granted[str]:
        answer = await self.asker.ask("POST", url, headers=_FORM, body=urlencode(fields).encode())
        return token_of_answer(answer.status, answer.body, self.clock.time())

    async def _of_external(self, account: ExternalAccount) -> Granted[str]:
        impersonated = account.service_account_impersonation_url
        fields = {
            "grant_type": _EXCHANGE,
            "audience": account.audience,
            "scope": CLOUD_SCOPE if impersonated else self.scope,
            "requested_token_type": _ACCESS,
            "subject_token": await self._subject(account),
            "subject_token_type": account.subject_token_type,
        }
        granted = await self._exchanged(account.token_url, fields)
        return await self._impersonated(impersonated, granted.value, ()) if impersonated else granted

    async def _subject(self, account: ExternalAccount) -> str:
        """The token of the other cloud or of the cluster, read each time, since it is replaced."""
        source = account.credential_source
        form = source.get("format") or {}
        if "environment_id" in source:
            raise ValueError("an identity of AWS is exchanged by google-auth alone")
        if "file" in source:
            data = await asyncio.to_thread(read_regular, Path(source["file"]).expanduser(), _MOST_BYTES)
            return subject_of(data, form)
        if "url" in source:
            headers = tuple((name.lower(), value) for name, value in (source.get("headers") or {}).items())
            answer = await self.asker.ask("GET", source["url"], headers=headers)
            if answer.status != 200:
                raise ValueError(f"the token of the external identity is not given: HTTP status {answer.status}")
            return subject_of(answer.body, form)
        if "executable" in source:
            return await self._of_program(account, source["executable"])
        raise ValueError("the source of the external identity is none of file, url and executable")

    async def _of_program(self, account: ExternalAccount, program: Mapping[str, Any]) -> str:
        if self.environment.get("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES") != "1":
            raise ValueError("a program for the external identity wants GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES=1")
        variables = {
            "GOOGLE_EXTERNAL_ACCOUNT_AUDIENCE": account.audience,
            "GOOGLE_EXTERNAL_ACCOUNT_TOKEN_TYPE": account.subject_token_type,
        }
        command = str(program.get("command", "")).split()
        if not command:
            raise ValueError("the source of the external identity names no command")
        timeout_s = float(program.get("timeout_millis", 1000 * self.timeout_s)) / 1000
        written = await output_of(command, timeout_s, environment=variables)
        try:
            fields = msgspec.json.decode(written, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ValueError("the program for the external identity does not write JSON") from None
        if not fields.get("success"):
            raise ValueError("the program for the external identity has failed")
        return str(fields.get("id_token") or fields.get("saml_response") or "")

    async def _of_impersonation(self, document: Impersonation, depth: int) -> Granted[str]:
        if depth >= _DEEPEST:
            raise ValueError("too many service accounts are impersonated one with another")
        wide = attrs.evolve(self, scope=CLOUD_SCOPE)
        source = await wide._of(document_of(bytes(document.source_credentials)), depth + 1)
        return await self._impersonated(
            document.service_account_impersonation_url, source.value, tuple(document.delegates)
        )

    async def _impersonated(self, url: str, token: str, delegates: tuple[str, ...]) -> Granted[str]:
        asked: dict[str, object] = {"scope": [self.scope], "lifetime": "3600s"}
        if delegates:
            asked["delegates"] = delegates
        headers = (("content-type", "application/json"), ("authorization", f"Bearer {token}"))
        answer = await self.asker.ask("POST", url, headers=headers, body=msgspec.json.encode(asked))
        return token_of_impersonation(answer.status, answer.body, self.clock.time())

    async def _of_metadata(self) -> Granted[str]:
        host = self.environment.get("GCE_METADATA_HOST") or _METADATA
        query = urlencode({"scopes": self.scope})
        answer = await self.asker.ask(
            "GET", f"http://{host}{_ACCOUNT}?{query}", headers=(("metadata-flavor", "Google"),)
        )
        return token_of_answer(answer.status, answer.body, self.clock.time())

    async def _of_library(self, data: bytes) -> Granted[str]:
        """A token by google-auth, where it is installed, for files that only it can read. The hosts that it asks are judged
        first, as those that are asked here."""
        info = msgspec.json.decode(data, type=dict[str, Any])
        module, in_file = _LIBRARY[_library_kind(info) or ""]
        for name in ("token_url", "token_info_url", "service_account_impersonation_url"):
            if name in info:
                self.asker.token.target(str(info[name]))
        try:
            kind, errors = import_module(module), import_module("google.auth.exceptions")
            requests = import_module("google.auth.transport.requests")
        except ImportError:
            raise ValueError(needs("a file of this type", "google.auth")) from None

        def asked() -> tuple[str, float | None]:
            try:
                wanted = {"scopes": [self.scope]}
                found = kind.Credentials.from_info({**info, **wanted}, **({} if in_file else wanted))
                found.refresh(requests.Request())
            except (errors.GoogleAuthError, ValueError) as error:
                raise ValueError(f"google-auth gives no token: {type(error).__name__}") from None
            ends = found.expiry
            return found.token, None if ends is None else (ends - _EPOCH).total_seconds()

        token, ends_at = await asyncio.to_thread(asked)
        return token_until(token, self.clock.time(), self.clock.time() + _LIBRARY_S if ends_at is None else ends_at)


_LIBRARY: Mapping[str, tuple[str, bool]] = {
    "authorized_user": ("google.auth.external_account_authorized_user", True),
    "aws": ("google.auth.aws", False),
    "certificate": ("google.auth.identity_pool", False),
}
"""The module of google-auth that reads each kind of file, and whether it looks for the scope in the file."""


def _for_library(data: bytes) -> bool:
    """Whether a file is of a kind that google-auth knows and this chain does not."""
    try:
        return _library_kind(msgspec.json.decode(data, type=dict[str, Any])) is not None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _library_kind(found: Mapping[str, Any]) -> str | None:
    source = found.get("credential_source")
    if found.get("type") == "external_account" and isinstance(source, dict):
        return "aws" if "environment_id" in source else "certificate" if "certificate" in source else None
    return "authorized_user" if found.get("type") == "external_account_authorized_user" else None
