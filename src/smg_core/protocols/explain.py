"""What happened to one request, for its sender to read: the prompt as rendered, its ids, the caches, the worker, the time.

Decides two forms of the same record: a JSON body with everything, and one header value that is ASCII and bounded, so that it
fits where proxies look at it. The record is filled elsewhere; nothing here measures. An explanation shows the client its
own prompt and the worker's name, never an address. Above: the server and the notebook. Below: nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from smg_core.cards import card
from smg_core.protocols.json_text import encode_object, without_surrogates

__all__ = ["Explanation", "Phase", "explanation_body", "explanation_header"]


@attrs.frozen
class Phase:
    """One part of the work; `seconds` it took, by the monotonic clock."""

    name: str
    seconds: float


@attrs.frozen(repr=False)
class Explanation:
    """One request, explained. Counts are tokens but for `prompt_characters` and `cached_characters`.

    `prompt` is the rendered text, None for a request that came as ids; `token_ids` what the engine was sent;
    `cached_characters` how much of the prompt the tokenizer cache knew; `cached_tokens` how many the engine did not
    prefill anew; `attempts` the names of the workers tried, the last one being the one that served; `phases` in order.
    `notes` holds what rooms add: the policy's reasons, the parser's name. None is a number that is not known (yet): it is left
    out of what is written.
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
    attempts: tuple[str, ...] = ()
    phases: tuple[Phase, ...] = ()
    notes: Mapping[str, str] = attrs.field(factory=dict)

    def __repr__(self) -> str:
        found = _short(self)
        told = [f"{name}={found[name]!r}" for name in ("model", "worker", "policy", "prompt_tokens", "total_ms")]
        return f"<Explanation {' '.join(told)}>"

    def _repr_html_(self) -> str:
        """The record in a notebook."""
        found = {name: value for name, value in _short(self).items() if name != "phases_ms"}
        phases = [(f"{phase.name} (ms)", round(phase.seconds * 1000, 3)) for phase in self.phases]
        texts = [("prompt", self.prompt or ""), ("token ids", " ".join(map(str, self.token_ids)))]
        return card("Explanation", [*found.items(), *phases, *self.notes.items(), *texts])


def explanation_body(explanation: Explanation) -> bytes:
    """Everything, as one JSON object; times are milliseconds."""
    found = _short(explanation)
    found["attempts"] = list(explanation.attempts)
    found["notes"] = dict(explanation.notes)
    found["prompt"] = explanation.prompt
    found["token_ids"] = list(explanation.token_ids)
    return encode_object(found)


def explanation_header(explanation: Explanation, limit: int = 2048) -> str:
    """The same without prompt, ids, attempts and notes, as JSON of at most `limit` ASCII characters.

    Where it does not fit, phases are left out first, then all that is not a number, and `truncated` says so. Raises
    `ValueError` for a limit that not even the numbers fit in (under 256).
    """
    if limit < 256:
        raise ValueError("a header explanation needs at least 256 characters")
    full = _short(explanation)
    bare = {name: value for name, value in full.items() if name != "phases_ms"}
    numbers = {name: value for name, value in full.items() if isinstance(value, int | float)}
    text = ""
    for found in (full, {**bare, "truncated": True}, {**numbers, "truncated": True}):
        text = _ascii(found)
        if len(text) <= limit:
            break
    return text


def _short(explanation: Explanation) -> dict[str, Any]:
    found = {
        "request_id": explanation.request_id,
        "model": explanation.model,
        "worker": explanation.worker,
        "policy": explanation.policy,
        "tries": max(1, len(explanation.attempts)),
        "prompt_tokens": len(explanation.token_ids),
        "completion_tokens": explanation.completion_tokens,
        "prompt_characters": explanation.prompt_characters,
        "cached_characters": explanation.cached_characters,
        "cached_tokens": explanation.cached_tokens,
        "phases_ms": {phase.name: round(phase.seconds * 1000, 3) for phase in explanation.phases},
        "total_ms": round(sum(phase.seconds for phase in explanation.phases) * 1000, 3),
    }
    unknown = ("cached_characters", "cached_tokens", "completion_tokens")
    return {name: value for name, value in found.items() if value is not None or name not in unknown}


def _ascii(value: dict[str, Any]) -> str:
    """Compact JSON with every character beyond ASCII, and DEL, as an escape; others are escaped by JSON already."""
    text = encode_object(value).decode()
    if text.isascii():
        return text.replace("\x7f", "\\u007f")
    units = without_surrogates(text).encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join([chr(code) if code < 0x7F else f"\\u{code:04x}" for code in codes])
