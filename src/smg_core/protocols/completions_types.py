"""The body of a Completions request as a msgspec type.

Names, types and fixed ranges only, from OpenAI's API reference and from what vLLM and SGLang add to it. `completions` decides
what a field means and which values are refused. None means absent or null. Above: completions. Below: the types that Chat
shares.
"""

from typing import Annotated

from msgspec import Meta, Struct

from smg_core.json_types import JsonObject
from smg_core.protocols.chat_types import (
    Bias,
    Count,
    Fraction,
    Label,
    Penalty,
    Positive,
    ResponseFormatWire,
    Seed,
    StreamOptions,
    StructuredOutputs,
    TokenId,
)

__all__ = ["CompletionBody"]


class CompletionBody(Struct, forbid_unknown_fields=True, gc=False, kw_only=True):
    """The whole body: OpenAI's parameters first, then the fields that engines add. `prompt` is one text, several
    texts, the token ids of one prompt, or those of several."""

    model: Annotated[str, Meta(min_length=1, max_length=512)]
    prompt: str | list[str | TokenId | list[TokenId]]
    best_of: Positive | None = None
    echo: bool | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: dict[TokenId, Bias] | None = None
    logprobs: Count | None = None
    max_tokens: Count | None = None
    n: Positive | None = None
    presence_penalty: Penalty | None = None
    seed: Seed | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    suffix: str | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Fraction | None = None
    user: Annotated[str, Meta(max_length=512)] | None = None
    # vLLM and SGLang
    add_special_tokens: bool | None = None
    cache_salt: Label | None = None
    ebnf: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    guided_json: JsonObject | str | None = None
    guided_regex: str | None = None
    ignore_eos: bool | None = None
    include_stop_str_in_output: bool | None = None
    min_p: Fraction | None = None
    min_tokens: Count | None = None
    no_stop_trim: bool | None = None
    priority: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] | None = None
    prompt_logprobs: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | None = None
    regex: str | None = None
    repetition_penalty: Annotated[float, Meta(gt=0, le=2)] | None = None
    response_format: ResponseFormatWire | None = None
    skip_special_tokens: bool | None = None
    stop_token_ids: list[TokenId] | None = None
    structured_outputs: StructuredOutputs | None = None
    top_k: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | None = None
    truncate_prompt_tokens: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | None = None
