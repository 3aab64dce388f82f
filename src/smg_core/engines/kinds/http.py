"""The table of dialects of engines that take token ids over HTTP. Pure. Above: fleet.connect.

Such a worker has an http:// URL and names its dialect; one that names none is a server of the Chat Completions API.
`takes_extras` decides which of those are sent more than OpenAI's own fields.
"""

from collections.abc import Callable

from smg_core.engines.base import Codec

__all__ = ["CHAT", "CHAT_DIALECTS", "HTTP_DIALECTS", "takes_extras"]

CHAT = "openai"
"""The dialect of servers of the Chat Completions API, which an http:// URL means where no other is named."""
_STRICT = "openai-strict"
CHAT_DIALECTS = (CHAT, _STRICT)
"""The dialects of Chat Completions: of any server, and of one that takes OpenAI's own fields and refuses all others."""
_STRICT_HOSTS = (".api.openai.com", ".openai.azure.com")


def takes_extras(dialect: str, host: str) -> bool:
    """Whether a server of Chat Completions at `host` is sent the fields that engines add to OpenAI's. OpenAI's own servers are
    known by their address where `dialect` is no dialect of Chat Completions."""
    if dialect in CHAT_DIALECTS:
        return dialect != _STRICT
    return not f".{host}".endswith(_STRICT_HOSTS)


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


HTTP_DIALECTS: dict[str, Callable[[], Codec]] = {
    "vllm-http": _vllm,
    "vllm-tokens-http": _vllm_tokens,
    "sglang-http": _sglang,
    "llamacpp-http": _llamacpp,
}
"""How a worker names its dialect, and what makes the codec: a factory, so that reading the table loads no codec."""
