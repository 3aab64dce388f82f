"""Parts of both wires of Chat Completions: opaque blocks, logprobs, counts of tokens.

Pure. Above: the encoders. Below: events.
"""

import base64
from collections.abc import Sequence

from smg_core.apis.chat.answer_types import AnswerFinishReason
from smg_core.apis.chat.decode import ChatRequest
from smg_core.events import Finished, FinishReason, OpaqueBlock, TokenLogprob, Usage
from smg_core.json_types import JsonObject
from smg_core.wire.json_text import encode_object
from smg_core.wire.logprobs import logprob_object

__all__ = [
    "finish_word_of",
    "logprobs_json",
    "logprobs_list",
    "logprobs_of",
    "opaque_object",
    "own_words_of",
    "usage_object",
]


def opaque_object(block: OpaqueBlock) -> dict[str, str]:
    """The block with its bytes as text; bytes that are not UTF-8 are base64 and say so."""
    try:
        return {"type": block.kind, "data": block.payload.decode()}
    except UnicodeDecodeError:
        return {"type": block.kind, "data": base64.b64encode(block.payload).decode(), "encoding": "base64"}


def logprobs_json(logprobs: Sequence[TokenLogprob]) -> bytes:
    return logprobs_of([logprobs_list(logprobs)])


def logprobs_of(lists: Sequence[bytes]) -> bytes:
    """The `logprobs` object of a text from the results of `logprobs_list` for its parts."""
    return b'{"content":[%b],"refusal":null}' % b",".join(lists)


def logprobs_list(logprobs: Sequence[TokenLogprob]) -> bytes:
    """Tokens and their alternatives, separated by commas."""
    return encode_object([logprob_object(one) for one in logprobs])[1:-1]


def own_words_of(request: ChatRequest) -> str:
    """The API in whose words a provider may be heard: none where the answer is to have what its own would not."""
    own = request.obfuscate or request.legacy_functions or not request.include_reasoning or request.counts
    own = own or request.cites or request.generation.sampling.token_ids
    return "" if own else "chat"


def usage_object(usage: Usage) -> JsonObject:
    """The token counts, as Chat Completions and Completions write them."""
    cached: JsonObject = {"cached_tokens": usage.cached_tokens}
    if usage.cache_write_tokens:
        cached["cache_write_tokens"] = usage.cache_write_tokens
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": cached,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


_FINISH: dict[FinishReason, AnswerFinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
    "abort": "abort",
    "error": "error",
    "context": "length",
    "refusal": "stop",
    "pause": "length",
    "malformed_call": "tool_calls",
}
"""The API's names of the reasons; "abort" and "error" are those that engines of this API write."""


def finish_word_of(event: Finished, request: ChatRequest, *, asks: bool = False) -> str:
    """The reason as the API has it; `asks`: the answer has questions to the user and no call for the client."""
    reason = "stop" if asks and event.reason == "tool_calls" else _FINISH[event.reason]
    return "function_call" if reason == "tool_calls" and request.legacy_functions else reason
