"""Answers to Completions as msgspec types, for `/openapi.json`.

`completions_encode` writes the same objects by hand; a test reads what it wrote as these types. Above: the server's descriptions.
Below: the types that Chat's answers share.
"""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from smg_core.apis.chat.answer_types import AnswerUsage

__all__ = ["Completion", "CompletionChunk"]


class _Answer(Struct, forbid_unknown_fields=True):
    """Base of the types."""


class CompletionLogprobs(_Answer):
    """The tokens of a text in four lists of one length. The first token of an echoed prompt has no logprob."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class CompletionChoice(_Answer):
    """One text, or what a chunk adds to it. `stop_reason` is the stop string or token id that ended it, if one did."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length", "content_filter", "abort", "error"] | None
    stop_reason: str | int | UnsetType = UNSET
    prompt_token_ids: list[int] | UnsetType = UNSET
    token_ids: list[int] | UnsetType = UNSET


class Completion(_Answer):
    """A whole answer."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: AnswerUsage | UnsetType = UNSET


class CompletionChunk(_Answer):
    """The data of one server-sent event of a stream, which ends with `[DONE]`; an error has `error` instead."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: AnswerUsage | UnsetType | None = UNSET
