"""The requests of a bench, and their times: as many at once as users (closed loop), at a rate (open loop), or as a trace has
them.

Prompts are words, about one token each; those that share blocks in a trace begin alike, so caches find them. Pure: a seed is
given. Above: asking, the command. Below: fleet.trace.
"""

from collections.abc import Iterator, Sequence
from random import Random

import attrs

from smg_simulator.fleet.trace import FleetTrace

__all__ = ["BenchRequest", "made_requests", "prompt_words", "requests_of_trace"]

_WORDS = (
    *("time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world", "school", "state"),
    *("family", "student", "group", "country", "problem", "hand", "part", "place", "case", "week", "company", "system"),
    *("program", "question", "work", "number", "night", "point", "home", "water", "room", "mother", "area", "money"),
    *("story", "fact", "month", "lot", "right", "study", "book", "eye", "job", "word", "business", "issue", "side"),
    *("kind", "head", "house", "service", "friend", "father", "power", "hour", "game", "line", "end", "car", "name"),
)
"""Words that are one token each in nearly every vocabulary."""


@attrs.frozen
class BenchRequest:
    """One request: when it is due, in seconds from the begin (0 in a closed loop), its prompt, and how long the answer may be."""

    at: float
    prompt: str
    output_tokens: int


def prompt_words(name: object, count: int) -> str:
    """So many words, always the same for a name."""
    rng = Random(f"{name}")
    return " ".join(rng.choices(_WORDS, k=count))


def made_requests(
    count: int, *, prompt_tokens: int, output_tokens: int, shared_tokens: int, rate: float | None, seed: int
) -> Iterator[BenchRequest]:
    """So many requests that have the first `shared_tokens` of their prompts in common. With a `rate` they come at random times,
    so many a second in the mean; without one, all are due at once, for users to take."""
    rng, at = Random(seed), 0.0
    shared = prompt_words(f"{seed} shared", min(shared_tokens, prompt_tokens))
    for number in range(count):
        own = prompt_words(f"{seed} {number}", prompt_tokens - min(shared_tokens, prompt_tokens))
        yield BenchRequest(at, f"{shared} {own}".strip(), output_tokens)
        if rate is not None:
            at += rng.expovariate(rate)


def requests_of_trace(trace: FleetTrace, seed: int) -> Iterator[BenchRequest]:
    """The requests of a recorded trace, at its times. A block of it is always the same words."""
    for number, each in enumerate(trace.requests):
        blocks: Sequence[int] = each.blocks
        parts = [prompt_words(f"{seed} block {block}", trace.block) for block in blocks]
        parts.append(prompt_words(f"{seed} rest {number}", each.prompt_tokens - trace.block * len(blocks)))
        yield BenchRequest(each.at, " ".join(filter(None, parts)), each.output_tokens)
