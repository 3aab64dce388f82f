"""The kinds of engines that are reached over HTTP: dialects that take token ids, and servers of the Chat Completions API.

A worker that names none of these is a server of the Chat Completions API; `takes_extras` decides whether it is sent more than
OpenAI's own fields. A row has factories, so that reading the table loads no codec and no client. Pure. Above: table.
"""

from collections.abc import Callable

from smg_core.engines.base import Codec, Engine, Transport
from smg_core.engines.connections.target import Tls
from smg_core.engines.http.address import HTTP_SCHEMES, HttpAddress
from smg_core.engines.kinds.kind import EngineKind, EnginePlace

__all__ = ["CHAT", "HTTP_KINDS", "http_kind", "takes_extras"]

CHAT = "openai"
"""Servers of the Chat Completions API, which an http:// URL means where no other kind is named."""
_STRICT = "openai-strict"
_STRICT_HOSTS = (".api.openai.com", ".openai.azure.com")


def takes_extras(named: str, host: str) -> bool:
    """Whether a server of Chat Completions at `host` is sent the fields that engines add to OpenAI's. OpenAI's own servers are
    known by their address where the kind that is `named` is none of Chat Completions."""
    if named in (CHAT, _STRICT):
        return named != _STRICT
    return not f".{host}".endswith(_STRICT_HOSTS)


def http_kind(name: str, codec: Callable[[], Codec]) -> EngineKind:
    """The row of a dialect that takes token ids over HTTP, which a worker has to name."""
    return EngineKind(name, HTTP_SCHEMES, codec=codec, transport=_transport, check=_check, unnamed="never")


def _check(place: EnginePlace) -> None:
    secure = HttpAddress.parse(place.url).secure
    if place.role not in (None, "regular"):
        raise ValueError(f"worker {place.label!r} is an HTTP server, which cannot be a {place.role} worker")
    if place.tls is not None and not secure:
        raise ValueError(f"worker {place.label!r} is spoken to without TLS, yet has TLS settings; use https://")


def _tls(place: EnginePlace) -> Tls | None:
    """The worker's own certificates, else those of the settings, which speak of engines that are spoken to with TLS."""
    return place.tls or (place.usual_tls if HttpAddress.parse(place.url).secure else None)


def _transport(place: EnginePlace) -> Transport:
    from smg_core.engines.http.client import HttpClient
    from smg_core.engines.token_ids.http_transport import HttpTransport

    return HttpTransport(
        HttpClient(
            place.url,
            headers=place.headers,
            tls=_tls(place),
            limits=place.limits,
            connect_timeout=place.connect_timeout,
        )
    )


def _chat(place: EnginePlace) -> Engine:
    from smg_core.engines.openai.engine import OpenAiEngine

    return OpenAiEngine(
        place.url,
        preferred=place.model,
        extras=takes_extras(place.named, HttpAddress.parse(place.url).host),
        headers=place.headers,
        tls=_tls(place),
        limits=place.limits,
        connect_timeout=place.connect_timeout,
    )


def _vllm() -> Codec:
    from smg_core.engines.codecs.vllm.http_codec import VllmHttpCodec

    return VllmHttpCodec()


def _vllm_tokens() -> Codec:
    from smg_core.engines.codecs.vllm.http_codec import VllmTokensCodec

    return VllmTokensCodec()


def _sglang() -> Codec:
    from smg_core.engines.codecs.sglang.http_codec import SglangHttpCodec

    return SglangHttpCodec()


def _llamacpp() -> Codec:
    from smg_core.engines.codecs.llamacpp.http_codec import LlamaCppCodec

    return LlamaCppCodec()


HTTP_KINDS: tuple[EngineKind, ...] = (
    http_kind("vllm-http", _vllm),
    http_kind("vllm-tokens-http", _vllm_tokens),
    http_kind("sglang-http", _sglang),
    http_kind("llamacpp-http", _llamacpp),
    EngineKind(CHAT, HTTP_SCHEMES, open=_chat, check=_check),
    EngineKind(_STRICT, HTTP_SCHEMES, open=_chat, check=_check, unnamed="never"),
)
"""The built-in kinds over HTTP."""
