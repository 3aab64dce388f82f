"""Answers of SGLang's `/generate` as msgspec types, for `/openapi.json`.

`sglang_encode` writes the same objects by hand; a test reads what it wrote as these types. Above: the server's descriptions.
"""

from msgspec import UNSET, Struct, UnsetType

__all__ = ["SglangAnswer"]

LogprobRow = tuple[float | None, int | None, str | None]
"""Logprob, token id, and the token's text where `return_text_in_logprobs` asks for it."""


class _Answer(Struct, forbid_unknown_fields=True):
    """Base of the types."""


class SglangFinish(_Answer):
    """Why an answer ended: "stop", with the stop string or token id that did it, "length", with the number of its tokens, or
    "abort"."""

    type: str
    matched: str | int | UnsetType | None = UNSET
    length: int | UnsetType = UNSET
    message: str | UnsetType = UNSET


class SglangMeta(_Answer):
    """All that is known of an answer but its text. The lists with logprobs are there where `return_logprob` asks for them; the
    first row of a prompt has no logprob."""

    id: str
    finish_reason: SglangFinish | None
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    input_token_logprobs: list[LogprobRow] | UnsetType = UNSET
    output_token_logprobs: list[LogprobRow] | UnsetType = UNSET
    output_token_logprobs_length: int | UnsetType = UNSET
    input_top_logprobs: list[list[LogprobRow] | None] | UnsetType = UNSET
    output_top_logprobs: list[list[LogprobRow] | None] | UnsetType = UNSET


class SglangAnswer(_Answer):
    """One answer; `index` is its place among those of a list, in streams."""

    text: str
    output_ids: list[int]
    meta_info: SglangMeta
    index: int | UnsetType = UNSET
