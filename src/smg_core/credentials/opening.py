"""Opens the signer of a credential that is configured (edge).

Workers with the same credential share one signer, so that a token is asked for once. Above: the kinds of engines. Below: keys,
aws.
"""

import os
from collections.abc import Awaitable, Mapping
from pathlib import Path

import attrs

from smg_core.clock import SystemClock
from smg_core.credentials.renewal.asking import TokenAsker
from smg_core.credentials.renewal.fields import KeySigner
from smg_core.credentials.renewal.keys import environment_key, key_source
from smg_core.credentials.renewal.renewed import Renewed
from smg_core.credentials.renewal.signing import SentFields, Signer
from smg_core.engines.connections.credential import CredentialSpec
from smg_core.engines.settings import EnginesConfig

__all__ = ["ProviderWants", "open_signer"]

_LIMITS = EnginesConfig()
_BEDROCK_KEY = "AWS_BEARER_TOKEN_BEDROCK"


@attrs.frozen
class ProviderWants:
    """How a provider takes credentials: a key in `header` behind `scheme`; AWS's signature for `service` in `region`; a token for
    `scope`."""

    header: str = "authorization"
    scheme: str = "Bearer"
    service: str = ""
    region: str = ""
    scope: str = ""


@attrs.define
class _Shared:
    signer: Signer
    users: int = 0


_open: dict[tuple[CredentialSpec, ProviderWants], _Shared] = {}


class _SharedSigner:
    """One user's part of a signer, which is closed with its last user."""

    def __init__(self, key: tuple[CredentialSpec, ProviderWants], shared: _Shared) -> None:
        self._key = key
        self._shared = shared
        self._signer = shared.signer
        self._closed = False
        shared.users += 1

    def __repr__(self) -> str:
        return repr(self._signer)

    def authorise(self, method: str, url: str, headers: SentFields, body: bytes) -> SentFields | Awaitable[SentFields]:
        return self._signer.authorise(method, url, headers, body)

    def refused(self, sent: SentFields, status: int, headers: Mapping[str, str], body: bytes) -> bool:
        return self._signer.refused(sent, status, headers, body)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._shared.users -= 1
        if not self._shared.users:
            if _open.get(self._key) is self._shared:
                del _open[self._key]
            await self._signer.close()


def open_signer(
    spec: CredentialSpec, wants: ProviderWants, *, limits: EnginesConfig = _LIMITS, asker: TokenAsker | None = None
) -> Signer:
    """The signer of a credential for a provider that wants it so; whoever opens it closes it. `asker` asks for tokens, within
    `limits`. Raises
    ValueError for a credential that makes no sense, or that this provider does not take."""
    spec.check()
    key = spec, _needed(spec, wants)
    if asker is not None:
        return _signer(spec, wants, asker)
    shared = _open.get(key)
    if shared is None:
        shared = _open[key] = _Shared(_signer(spec, wants, TokenAsker(limits=limits)))
    return _SharedSigner(key, shared)


def _needed(spec: CredentialSpec, wants: ProviderWants) -> ProviderWants:
    """What of `wants` makes a difference for a credential: workers that differ in the rest share its signer."""
    if spec.kind == "key":
        return ProviderWants(wants.header, wants.scheme)
    if spec.kind == "aws":
        return ProviderWants(service=wants.service, region=wants.region)
    return ProviderWants(scope=wants.scope)


def _signer(spec: CredentialSpec, wants: ProviderWants, asker: TokenAsker) -> Signer:
    if spec.kind == "key":
        return KeySigner(key_source(spec), wants.header, wants.scheme)
    if spec.kind == "aws":
        return _aws_signer(spec, wants, asker)
    scope = spec.scope or wants.scope
    if not scope:
        raise ValueError(f"credential: a credential of kind {spec.kind} is of no use to this provider")
    return _google_signer(spec, scope, asker) if spec.kind == "google" else _entra_signer(spec, scope, asker)


def _aws_signer(spec: CredentialSpec, wants: ProviderWants, asker: TokenAsker) -> Signer:
    """A signer for AWS, or a key of Bedrock's where there is one."""
    service, region = spec.service or wants.service, wants.region or _region()
    if not service:
        raise ValueError("credential: a credential of kind aws is of no use to this provider")
    if spec.key or spec.env or spec.file or spec.command:
        return KeySigner(key_source(spec), "authorization", "Bearer")
    if os.environ.get(_BEDROCK_KEY) and not spec.profile and not spec.role:
        return KeySigner(environment_key(_BEDROCK_KEY), "authorization", "Bearer")
    if not region:
        raise ValueError("region is missing: neither the entry of the worker nor AWS_REGION has one")
    from smg_core.credentials.aws.chain import AwsChain
    from smg_core.credentials.aws.signer import AwsSigner
    from smg_core.credentials.aws.sigv4 import AwsScope

    clock = SystemClock()
    chain = AwsChain(
        os.environ,
        Path.home(),
        region,
        asker,
        clock,
        profile=spec.profile,
        role=spec.role,
        timeout_s=spec.timeout_s,
    )
    name = f"of AWS, profile {spec.profile}" if spec.profile else "of AWS"
    return AwsSigner(Renewed(name, chain.fetch, clock=clock), AwsScope(region, service), clock=clock)


def _google_signer(spec: CredentialSpec, scope: str, asker: TokenAsker) -> Signer:
    from smg_core.credentials.google.chain import GoogleChain

    if spec.key or spec.env or spec.command:
        raise ValueError("credential: Google's credentials are in a file, or where Google's libraries find them")
    clock = SystemClock()
    chain = GoogleChain(os.environ, Path.home(), asker, clock, file=spec.file, scope=scope, timeout_s=spec.timeout_s)
    further_fields = (("x-goog-user-project", spec.project),) if spec.project else ()
    return KeySigner(Renewed("of Google", chain.fetch, clock=clock), "authorization", "Bearer", further_fields)


def _entra_signer(spec: CredentialSpec, scope: str, asker: TokenAsker) -> Signer:
    from smg_core.credentials.entra.chain import EntraChain

    clock = SystemClock()
    with_secret = spec.key or spec.env or spec.file or spec.command
    chain = EntraChain(
        os.environ,
        asker,
        clock,
        scope=scope,
        tenant=spec.tenant,
        client=spec.client,
        secret=key_source(spec, clock=clock) if with_secret else None,
        managed=spec.managed,
    )
    return KeySigner(Renewed("of Entra ID", chain.fetch, clock=clock), "authorization", "Bearer")


def _region() -> str:
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
