"""Answers in which each token is a function of all tokens before it, of the prompt and of the answer.

An answer that goes on elsewhere behind the right tokens is then exactly the answer that one engine gives, and any slip changes
all that follows. Penalties and biases shift the choice as they do in an engine: each token is the likeliest of a few candidates,
and what this call has said already counts against them. With a seed, the place of the token within this call counts too, as the
random numbers of an engine begin anew with each call. Pure. Above: engine.engine.
"""

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b

from smg_core.request import Sampling

__all__ = ["chained"]

_CANDIDATES = 8
_STEPS = 32.0
"""Steps of a candidate's byte in one unit of logit: logits lie between 0 and 8."""


def chained(
    prompt: Sequence[int], words: Sequence[int], end: int, asked: Sampling, *, length: int, limit: int, choice: int
) -> tuple[list[int], list[int]]:
    """The tokens of choice number `choice`, made of the ids in `words`, and a seed for the logprobs of each. About one token in
    `length` is `end`, which ends the answer; there are at most `limit`. Choices differ by their first token, if temperature lets
    them."""
    state = blake2b(digest_size=4 * _CANDIDATES + 8)
    for each in prompt:
        state.update(each.to_bytes(4, "little"))
    made: list[int] = []
    seeds: list[int] = []
    counts: Counter[int] = Counter()
    least = 0 if asked.min_tokens is None else asked.min_tokens
    while len(made) < limit:
        here = state.copy()
        if asked.seed is not None and asked.temperature != 0:
            here.update(f"seed {asked.seed} {len(made)}".encode())
        if choice and not made and asked.temperature != 0:
            here.update(f"choice {choice}".encode())
        drawn = here.digest()
        seeds.append(int.from_bytes(drawn[-4:], "little"))
        ends = int.from_bytes(drawn[-8:-4], "little") % length == 0
        if ends and len(made) >= least and not asked.ignore_eos:
            made.append(end)
            break
        token = _likeliest(drawn, words, asked, counts)
        counts[token] += 1
        made.append(token)
        state.update(token.to_bytes(4, "little"))
    return made, seeds


def _likeliest(drawn: bytes, words: Sequence[int], asked: Sampling, counts: Counter[int]) -> int:
    """The likeliest of the candidates that were drawn."""
    bias = asked.logit_bias or {}
    frequency, presence = asked.frequency_penalty or 0.0, asked.presence_penalty or 0.0
    best, most = words[0], float("-inf")
    for at in range(0, 4 * _CANDIDATES, 4):
        token = words[int.from_bytes(drawn[at : at + 3], "little") % len(words)]
        count = counts[token]
        logit = drawn[at + 3] / _STEPS + bias.get(token, 0.0) - frequency * count - (presence if count else 0.0)
        if logit > most:
            best, most = token, logit
    return best
