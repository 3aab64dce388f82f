"""The body of a Completions request as a msgspec type.

Names, types and fixed ranges only, from OpenAI's API reference and from what vLLM and SGLang add to it. `completions` decides
what a field means and which values are refused. None means absent or null. Above: completions. Below: the types that Chat
shares.
"""

from typing import Annotated

from msgspec import Meta

from smg_core.apis.chat.types import OpenaiBody
from smg_core.wire.scalars import Count, Positive, TokenId

__all__ = ["CompletionBody"]


class CompletionBody(OpenaiBody, kw_only=True):
    """The whole body: OpenAI's parameters first, then the fields that engines add. `prompt` is one text, several
    texts, the token ids of one prompt, or those of several."""

    prompt: str | list[str | TokenId | list[TokenId]]
    best_of: Positive | None = None
    echo: bool | None = None
    logprobs: Count | None = None
    max_tokens: Count | None = None
    suffix: str | None = None
    # vLLM and SGLang
    add_special_tokens: bool | None = None
    truncate_prompt_tokens: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | None = None
