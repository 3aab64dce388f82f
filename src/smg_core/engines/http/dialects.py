"""The table of dialects of engines that take token ids over HTTP. Pure. Above: server.reaching.

Such a worker has an http:// URL and names its dialect; one that names none is a server of the Chat Completions API.
"""

from collections.abc import Callable

from smg_core.engines.base import Codec

__all__ = ["CHAT", "HTTP_DIALECTS"]

CHAT = "openai"
"""The dialect of servers of the Chat Completions API, which an http:// URL means where no other is named."""


def _vllm() -> Codec:
    from smg_core.engines.http.vllm import VllmHttpCodec

    return VllmHttpCodec()


def _vllm_tokens() -> Codec:
    from smg_core.engines.http.vllm import VllmTokensCodec

    return VllmTokensCodec()


def _sglang() -> Codec:
    from smg_core.engines.http.sglang import SglangHttpCodec

    return SglangHttpCodec()


def _llamacpp() -> Codec:
    from smg_core.engines.http.llamacpp import LlamaCppCodec

    return LlamaCppCodec()


HTTP_DIALECTS: dict[str, Callable[[], Codec]] = {
    "vllm-http": _vllm,
    "vllm-tokens-http": _vllm_tokens,
    "sglang-http": _sglang,
    "llamacpp-http": _llamacpp,
}
"""How a worker names its dialect, and what makes the codec: a factory, so that reading the table loads no codec."""
