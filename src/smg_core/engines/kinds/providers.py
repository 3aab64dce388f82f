"""The kinds of engines that are outside providers, each by its wire format.

A worker has to name them. A row has factories, so that nothing of `engines.vendors` is loaded unless such a worker is configured.
Pure. Above: table.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from smg_core.engines.base import Engine
from smg_core.engines.http.address import HTTP_SCHEMES, HttpAddress
from smg_core.engines.kinds.kind import EngineKind, EnginePlace

if TYPE_CHECKING:
    from smg_core.engines.vendors.wire_format import WireFormat

__all__ = ["PROVIDER_KINDS", "provider_kind"]

_BEARER = "bearer "


def provider_kind(name: str, wire: "Callable[[], WireFormat]", key_header: str) -> EngineKind:
    """The row of a provider's wire format. `key_header` is the header in which it wants an API key."""

    def opened(place: EnginePlace) -> Engine:
        from smg_core.engines.vendors.engine import ProviderEngine
        from smg_core.engines.vendors.signing import KeySigner, bearer

        key, headers = _key_of(place)
        signer = bearer(lambda: key) if key_header == "authorization" else KeySigner(key_header, lambda: key)
        return ProviderEngine(
            place.url,
            wire(),
            signer,
            model=place.model,
            headers=headers,
            tls=place.tls or (place.usual_tls if HttpAddress.parse(place.url).secure else None),
            limits=place.limits,
            connect_timeout=place.connect_timeout,
        )

    return EngineKind(name, HTTP_SCHEMES, open=opened, check=_check, unnamed="never")


def _key_of(place: EnginePlace) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The API key among a worker's headers, where it stands as a bearer token, and the other headers."""
    key, rest = "", []
    for name, value in place.headers:
        if name == "authorization" and value[: len(_BEARER)].lower() == _BEARER:
            key = value[len(_BEARER) :]
        else:
            rest.append((name, value))
    return key, tuple(rest)


def _check(place: EnginePlace) -> None:
    secure = HttpAddress.parse(place.url).secure
    if place.role not in (None, "regular"):
        raise ValueError(f"worker {place.label!r} is a provider, which cannot be a {place.role} worker")
    if place.tls is not None and not secure:
        raise ValueError(f"worker {place.label!r} is spoken to without TLS, yet has TLS settings; use https://")


def _anthropic() -> "WireFormat":
    from smg_core.engines.vendors.anthropic.format import MessagesFormat

    return MessagesFormat()


PROVIDER_KINDS: tuple[EngineKind, ...] = (provider_kind("anthropic", _anthropic, "x-api-key"),)
"""The built-in kinds of providers."""
