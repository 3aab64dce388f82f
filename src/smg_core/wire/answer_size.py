"""The memory of an answer that is held until it is whole.

The figures were measured once; they are used wherever such an answer is bounded. Pure. Above: the decoder of Completions,
pipeline.prompt.prepare, pipeline.fit.fit.
"""

__all__ = ["answer_size", "tokens_within"]

_TOKEN_BYTES = 200
_LOGPROB_BYTES = 320
"""What a token, and a token's logprob or an alternative to it, takes (measured)."""


def answer_size(choices: int, tokens: int, logprobs: int | None) -> int:
    """Bytes that so many choices of so many tokens each may take; `logprobs` are the alternatives a token, None without."""
    return choices * tokens * (_TOKEN_BYTES + (0 if logprobs is None else _LOGPROB_BYTES * (logprobs + 1)))


def tokens_within(size: int, choices: int, logprobs: int | None) -> int:
    """How many tokens each of so many choices may have, for an answer that takes at most `size` bytes."""
    return size // answer_size(choices, 1, logprobs)
