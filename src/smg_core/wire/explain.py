"""The record of what happened to one request: its rendered prompt, token ids, cache hits, worker and times.

`Gateway.explain` returns it, and the server sends it as the header `x-smg-explain`: ASCII and bounded, so that proxies let it
through. The server fills the record. It shows the client its own prompt and the worker's name, never an address. Pure. Above: the
server. Below: json_text, cards.
"""

from collections.abc import Mapping, Sequence

import attrs

from smg_core.cards import card
from smg_core.json_types import JsonObject
from smg_core.wire.json_text import encode_object, without_surrogates

__all__ = ["Explanation", "Phase", "TimelineEntry", "explanation_header"]


@attrs.frozen
class Phase:
    """One part of the work and its duration in seconds, by the monotonic clock."""

    name: str
    seconds: float


@attrs.frozen
class TimelineEntry:
    """One turn of the model, or one call of a tool that ran here. `kind` is "model" or "tool", `name` the worker's name or
    "server.tool", `seconds` its duration, `outcome` how it ended, `at` when it ended, in seconds from the request's beginning."""

    kind: str
    name: str
    seconds: float
    outcome: str
    at: float


@attrs.frozen(repr=False)
class Explanation:
    """What happened to one request. Counts are tokens, except `prompt_characters` and `cached_characters`.

    `prompt` is the rendered text, None for a request that came as ids; `token_ids` what the engine was sent;
    `cached_characters` how much of the prompt was in the tokenizer cache; `cached_tokens` how many tokens the engine had in its
    cache; `attempts` the names of the workers that were called, in order, the last one served the request; `role`: what that
    one computes, if not everything, `prefill_worker` the one that read the prompt for it, and `encode_workers` those that
    encoded its media; `phases` in order. `timeline` has the turns of a response with tools that ran here, and their calls, in
    the order in which they ended; it is empty for all others. `migrations` is how often the answer went on with another worker,
    `inexact` why it may differ from what one worker would have said ("constraint", "seed", "penalties"). `notes` holds further
    facts by name, for example the dialect. A number that is None is not known (yet) and is left out of the header. `why` is the
    routing policy's reason, `expected_cached_tokens` what it expected in the worker's cache, and `basis` whether that was
    "exact" or "approximate". `prompts` is how many prompts the request has: of several, all but the attempts and phases is about
    one, which was prepared last.
    """

    request_id: str
    model: str
    prompt: str | None = None
    token_ids: Sequence[int] = ()
    prompt_characters: int = 0
    cached_characters: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    worker: str | None = None
    policy: str | None = None
    role: str | None = None
    prefill_worker: str | None = None
    encode_workers: tuple[str, ...] = ()
    attempts: tuple[str, ...] = ()
    phases: tuple[Phase, ...] = ()
    timeline: tuple[TimelineEntry, ...] = ()
    notes: Mapping[str, str] = attrs.field(factory=dict)
    why: str | None = None
    expected_cached_tokens: int | None = None
    basis: str | None = None
    migrations: int = 0
    inexact: tuple[str, ...] = ()
    prompts: int = 1

    def __repr__(self) -> str:
        found = _summary(self)
        fields = [f"{name}={found[name]!r}" for name in ("model", "worker", "policy", "prompt_tokens", "total_ms")]
        return f"<Explanation {' '.join(fields)}>"

    def _repr_html_(self) -> str:
        """A card for a notebook."""
        found = {name: value for name, value in _summary(self).items() if name not in ("phases_ms", "timeline")}
        phases = [(f"{phase.name} (ms)", round(phase.seconds * 1000, 3)) for phase in self.phases]
        texts = [("prompt", self.prompt or ""), ("token ids", " ".join(map(str, self.token_ids)))]
        turns = [(f"{each.kind} {each.name} (ms)", f"{_ms(each.seconds)} {each.outcome}") for each in self.timeline]
        return card("Explanation", [*found.items(), *phases, *turns, *self.notes.items(), *texts])


def explanation_header(explanation: Explanation, limit: int = 2048) -> str:
    """The record without prompt, ids, attempts and notes, as JSON of at most `limit` ASCII characters.

    If it does not fit, first the phases are left out, then everything that is not a number, and `truncated` is true. Raises
    `ValueError` for a limit under 256, which may be too small for the numbers.
    """
    if limit < 256:
        raise ValueError("a header explanation needs at least 256 characters")
    full = _summary(explanation)
    bare = {name: value for name, value in full.items() if name not in ("phases_ms", "timeline")}
    numbers: JsonObject = {name: value for name, value in full.items() if isinstance(value, int | float)}
    text = ""
    for found in (full, {**bare, "truncated": True}, {**numbers, "truncated": True}):
        text = _ascii(found)
        if len(text) <= limit:
            break
    return text


def _summary(explanation: Explanation) -> JsonObject:
    found: JsonObject = {
        "request_id": explanation.request_id,
        "model": explanation.model,
        "worker": explanation.worker,
        "policy": explanation.policy,
        "role": explanation.role,
        "prefill_worker": explanation.prefill_worker,
        "encode_workers": list(explanation.encode_workers) or None,
        "tries": max(1, len(explanation.attempts)),
        "prompt_tokens": len(explanation.token_ids),
        "completion_tokens": explanation.completion_tokens,
        "prompt_characters": explanation.prompt_characters,
        "cached_characters": explanation.cached_characters,
        "cached_tokens": explanation.cached_tokens,
        "phases_ms": {phase.name: round(phase.seconds * 1000, 3) for phase in explanation.phases},
        "total_ms": round(sum(phase.seconds for phase in explanation.phases) * 1000, 3),
    }
    expected = explanation.why, explanation.expected_cached_tokens, explanation.basis
    found |= zip(("why", "expected_cached_tokens", "basis"), expected, strict=True)
    if explanation.prompts > 1:
        found["prompts"] = explanation.prompts
    if explanation.migrations:
        found["migrations"] = explanation.migrations
    if explanation.inexact:
        found["inexact"] = list(explanation.inexact)
    if explanation.timeline:
        found["timeline"] = [
            {each.kind: each.name, "ms": _ms(each.seconds), "outcome": each.outcome, "ended_ms": _ms(each.at)}
            for each in explanation.timeline
        ]
    unknown = (
        "why",
        "expected_cached_tokens",
        "basis",
        "role",
        "prefill_worker",
        "encode_workers",
        "cached_characters",
        "cached_tokens",
        "completion_tokens",
    )
    return {name: value for name, value in found.items() if value is not None or name not in unknown}


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _ascii(value: JsonObject) -> str:
    """Compact JSON with every character beyond ASCII, and DEL, as an escape; others are escaped by JSON already."""
    text = encode_object(value).decode()
    if text.isascii():
        return text.replace("\x7f", "\\u007f")
    units = without_surrogates(text).encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join([chr(code) if code < 0x7F else f"\\u{code:04x}" for code in codes])
