"""The kinds of engines that are outside providers, each by its wire format.

A worker has to name them. A row has factories, so that nothing of `engines.vendors` is loaded unless such a worker is configured.
Pure. Above: table.
"""

import hashlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from smg_core.engines.base import Engine
from smg_core.engines.connections.credential import CredentialSpec
from smg_core.engines.http.address import HTTP_SCHEMES, HttpAddress
from smg_core.engines.kinds.kind import EngineKind, EnginePlace

if TYPE_CHECKING:
    from smg_core.credentials.renewal.signing import Signer
    from smg_core.engines.vendors.wire_format import WireFormat

__all__ = ["PROVIDER_KINDS", "provider_kind", "signer_of"]

_BEARER = "bearer "


WireMaker = Callable[[str, EnginePlace], "WireFormat"]
"""Makes the wire format of a worker's provider, for an account there."""


def provider_kind(
    name: str,
    wire: WireMaker,
    key_header: str,
    *,
    check: Callable[[EnginePlace], None] | None = None,
    service: str = "",
    scope: str = "",
) -> EngineKind:
    """The row of a provider's wire format, which `wire` makes for an account. `key_header` is the header in which it wants an API
    key; `service` is the name that is signed for it with AWS's keys, `scope` what a token of Google's or Entra's is for."""

    def opened(place: EnginePlace) -> Engine:
        from smg_core.engines.vendors.engine import ProviderEngine

        signer, headers = signer_of(place, key_header, service=service, scope=scope)
        return ProviderEngine(
            place.url,
            wire(_account_of(place), place),
            signer,
            model=place.vendor_model or place.model,
            headers=headers,
            tls=place.tls or (place.usual_tls if HttpAddress.parse(place.url).secure else None),
            limits=place.limits,
            connect_timeout=place.connect_timeout,
        )

    def checked(place: EnginePlace) -> None:
        _check(place)
        if service:
            _check_region(place)

    return EngineKind(name, HTTP_SCHEMES, open=opened, check=check or checked, unnamed="never")


def realtime_kind(
    name: str,
    key_header: str,
    *,
    form: str = "OPENAI_REALTIME",
    usual_path: str = "/v1",
    scope: str = "",
    check: Callable[[EnginePlace], None],
) -> EngineKind:
    """The row of servers that have live sessions, in the `form` of that name, below `usual_path` where their URL has no path;
    `key_header` and `scope` as for `provider_kind`."""

    def opened(place: EnginePlace) -> Engine:
        from smg_core.engines.realtime import forms
        from smg_core.engines.realtime.engine import RealtimeEngine

        signer, headers = signer_of(place, key_header, scope=scope)
        return RealtimeEngine(
            place.url,
            signer,
            model=place.vendor_model or place.model,
            form=getattr(forms, form),
            usual_path=usual_path,
            headers=headers,
            tls=place.tls or (place.usual_tls if HttpAddress.parse(place.url).secure else None),
            limits=place.limits,
            connect_timeout=place.connect_timeout,
        )

    return EngineKind(name, HTTP_SCHEMES, open=opened, check=check, unnamed="never")


def signer_of(
    place: EnginePlace, key_header: str, *, service: str = "", scope: str = ""
) -> "tuple[Signer, tuple[tuple[str, str], ...]]":
    """The signer of a worker's credential, or of the API key among its headers, and the other headers."""
    from smg_core.credentials.opening import ProviderWants, open_signer
    from smg_core.credentials.renewal.fields import Unsigned

    key, headers = _key_of(place)
    spec = place.credential or (CredentialSpec(key=key) if key else None)
    if spec is None:
        return Unsigned(), headers
    scheme = "Bearer" if key_header == "authorization" else ""
    region = place.region or _region_in(place.url)
    wants = ProviderWants(key_header, scheme, service, region, scope)
    return open_signer(spec, wants, limits=place.limits), headers


def _account_of(place: EnginePlace) -> str:
    """What tells accounts at a provider apart: where a credential comes from, so that it may be replaced; else the key itself."""
    key, _ = _key_of(place)
    spec = place.credential
    return _account(key if spec is None else spec.key or msgspec.json.encode(spec).decode())


def _check_region(place: EnginePlace) -> None:
    spec = place.credential
    if spec is None or spec.kind != "aws" or spec.key or spec.env or spec.file or spec.command:
        return
    if not place.region and not _region_in(place.url):
        raise ValueError(f"worker {place.label!r} names no region, for which its requests are signed")


def _region_in(url: str) -> str:
    """The region that a host of AWS names, "" where it names none."""
    parts = HttpAddress.parse(url).host.split(".")
    return parts[1] if len(parts) > 2 and parts[0].startswith("bedrock") else ""


def _key_of(place: EnginePlace) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The API key among a worker's headers, where it stands as a bearer token, and the other headers."""
    key, rest = "", []
    for name, value in place.headers:
        if name == "authorization" and value[: len(_BEARER)].lower() == _BEARER:
            key = value[len(_BEARER) :]
        else:
            rest.append((name, value))
    return key, tuple(rest)


def _account(key: str) -> str:
    """What tells the accounts of one provider apart, without showing a key."""
    return hashlib.blake2b(key.encode(), digest_size=6, person=b"smg account").hexdigest() if key else ""


def _check(place: EnginePlace) -> None:
    secure = HttpAddress.parse(place.url).secure
    if place.role not in (None, "regular"):
        raise ValueError(f"worker {place.label!r} is a provider, which cannot be a {place.role} worker")
    if place.tls is not None and not secure:
        raise ValueError(f"worker {place.label!r} is spoken to without TLS, yet has TLS settings; use https://")


def _anthropic(account: str, place: EnginePlace) -> "WireFormat":
    from smg_core.engines.vendors.anthropic.format import MessagesFormat

    return MessagesFormat()


def _converse(account: str, place: EnginePlace) -> "WireFormat":
    from smg_core.engines.vendors.bedrock.converse import ConverseFormat

    return ConverseFormat()


def _invoke(account: str, place: EnginePlace) -> "WireFormat":
    from smg_core.engines.vendors.bedrock.invoke import InvokeMessagesFormat

    return InvokeMessagesFormat()


def _gemini(account: str, place: EnginePlace) -> "WireFormat":
    from smg_core.engines.vendors.gemini.format import GeminiFormat

    return GeminiFormat()


def _responses(account: str, place: EnginePlace) -> "WireFormat":
    from smg_core.engines.vendors.responses.format import ResponsesFormat

    return ResponsesFormat(account)


def _azure_responses(account: str, place: EnginePlace) -> "WireFormat":
    from smg_core.engines.vendors.clouds.azure import AzureResponsesFormat

    return AzureResponsesFormat(_account(f"{account} {HttpAddress.parse(place.url).host}"), place.api_version)


def _chat(name: str) -> WireMaker:
    def made(account: str, place: EnginePlace) -> "WireFormat":
        from smg_core.engines.vendors.chat.format import ChatFormat
        from smg_core.engines.vendors.chat.profiles import CHAT_PROFILES

        return ChatFormat(CHAT_PROFILES[name], place.api_version)

    return made


def _vertex(account: str, place: EnginePlace) -> "WireFormat":
    from smg_core.engines.vendors.clouds.vertex import VertexFormat

    return VertexFormat(_gemini(account, place))


def _vertex_anthropic(account: str, place: EnginePlace) -> "WireFormat":
    from smg_core.engines.vendors.clouds.vertex import VertexMessagesFormat

    return VertexMessagesFormat()


def _check_azure(place: EnginePlace) -> None:
    _check(place)
    if place.credential is not None and any(name in ("api-key", "authorization") for name, _ in place.headers):
        raise ValueError(f"worker {place.label!r} has a credential and a key among its headers; give one")
    if place.api_version and HttpAddress.parse(place.url).api != "/v1":
        raise ValueError(f"worker {place.label!r} has an api_version, with which its URL has no path")


def _check_azure_realtime(place: EnginePlace) -> None:
    _check_azure(place)
    if place.api_version:
        raise ValueError(f"worker {place.label!r} has an api_version, which only the preview of this API had")


def _check_vertex(place: EnginePlace) -> None:
    _check(place)
    path = HttpAddress.parse(place.url).api
    if _VERTEX.fullmatch(path) is None:
        raise ValueError(
            f"worker {place.label!r} needs a URL like https://HOST/v1/projects/PROJECT/locations/LOCATION, or /v1 with a key"
        )


def _check_vertex_messages(place: EnginePlace) -> None:
    _check_vertex(place)
    if "/projects/" not in place.url:
        raise ValueError(f"worker {place.label!r} needs a project in its URL")


_VERTEX = re.compile(r"/v1(beta1)?(/projects/[^/]+/locations/[^/]+)?")
_CLOUD_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_AZURE_SCOPE = "https://cognitiveservices.azure.com/.default"
_CHAT_KINDS = ("openai-chat", "xai", "mistral", "deepseek", "openrouter", "groq", "together", "fireworks", "cohere")

PROVIDER_KINDS: tuple[EngineKind, ...] = (
    provider_kind("anthropic", _anthropic, "x-api-key"),
    provider_kind("gemini", _gemini, "x-goog-api-key"),
    provider_kind("openai-responses", _responses, "authorization"),
    provider_kind("vertex", _vertex, "x-goog-api-key", scope=_CLOUD_SCOPE, check=_check_vertex),
    provider_kind(
        "vertex-anthropic", _vertex_anthropic, "authorization", scope=_CLOUD_SCOPE, check=_check_vertex_messages
    ),
    provider_kind("azure", _chat("azure"), "api-key", scope=_AZURE_SCOPE, check=_check_azure),
    provider_kind("azure-responses", _azure_responses, "api-key", scope=_AZURE_SCOPE, check=_check_azure),
    *(provider_kind(name, _chat(name), "authorization") for name in _CHAT_KINDS),
    provider_kind("bedrock-mantle", _chat("bedrock-mantle"), "authorization", service="bedrock-mantle"),
    provider_kind("bedrock", _converse, "authorization", service="bedrock"),
    provider_kind("bedrock-anthropic", _invoke, "authorization", service="bedrock"),
    realtime_kind("openai-realtime", "authorization", check=_check),
    realtime_kind(
        "azure-realtime", "api-key", usual_path="/openai/v1", scope=_AZURE_SCOPE, check=_check_azure_realtime
    ),
    realtime_kind("gemini-live", "x-goog-api-key", form="GEMINI_LIVE", check=_check),
    realtime_kind("vertex-live", "x-goog-api-key", form="VERTEX_LIVE", scope=_CLOUD_SCOPE, check=_check_vertex),
)
"""The built-in kinds of providers."""
