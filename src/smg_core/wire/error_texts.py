"""The messages of errors for which an API has its own text.

Clients parse some of these texts: Claude Code shortens its history when it reads Messages' text for a prompt that is too long,
and asks for fewer tokens when it reads the one for an answer that would not fit; Codex reads its pause before the next try from
"try again in 2s". For every other error the text is its `message`. Pure. Above: the envelopes in `errors`, the encoders of
streams. Below: the tree of errors.
"""

import math

from smg_core.errors import PromptTooLong, RateLimited, SealBroken, SmgError

__all__ = ["anthropic_text", "gemini_text", "in_stream_text"]


def anthropic_text(error: SmgError) -> str:
    """The message in Messages."""
    if isinstance(error, PromptTooLong):
        return _anthropic_overflow(error)
    if isinstance(error, SealBroken):
        return "Invalid `signature` in `thinking` block"
    return error.message


def _anthropic_overflow(error: PromptTooLong) -> str:
    if error.prompt_alone:
        # An answer has one token at least, so the longest prompt is one shorter than the context.
        return f"prompt is too long: {error.prompt_tokens} tokens > {error.context_length - 1} maximum"
    return (
        f"input length and `max_tokens` exceed context limit: {error.prompt_tokens} + {error.requested} > "
        f"{error.context_length}, decrease input length or `max_tokens` and try again"
    )


def gemini_text(error: SmgError) -> str:
    """The message in generateContent and Interactions."""
    if not isinstance(error, PromptTooLong):
        return error.message
    if error.prompt_alone:
        return (
            f"The input token count ({error.prompt_tokens}) exceeds the maximum number of tokens allowed "
            f"({error.context_length - 1})."
        )
    return (
        f"The input token count ({error.prompt_tokens}) and the requested output ({error.requested}) exceed the maximum "
        f"number of tokens allowed ({error.context_length})."
    )


def in_stream_text(error: SmgError) -> str:
    """The message in Responses after its stream has begun, when no header can carry `retry_after` any more."""
    if isinstance(error, RateLimited) and error.retry_after is not None:
        return f"{error.message} Please try again in {max(1, math.ceil(error.retry_after))}s."
    return error.message
