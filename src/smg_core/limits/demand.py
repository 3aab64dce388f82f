"""A request's demand of each unit, and its estimate before the answer: an estimate that follows the answers.

Pure. Above: `serving.limiting`. Below: nothing.
"""

from collections import OrderedDict, deque

import attrs
from msgspec import Struct

from smg_core.events import Usage

__all__ = ["NO_DEMAND", "Demand", "Estimates", "used"]

_FIRST_OUTPUT = 256
"""Tokens of output that are reckoned with while nothing is known."""
_ANSWERS, _AGAIN = 256, 16
"""How many of the last answers an estimate is made of, and after how many more it is made anew."""
_SHARE = 0.8
"""The share of the answers that an estimate is long enough for."""
_BYTES_A_TOKEN = 3.5
"""Bytes of a request's body for each token of its prompt, while nothing is known."""
_WEIGHT = 1 / 16
"""How much the newest request counts in the ratio of bytes and tokens."""


class Demand(Struct, frozen=True):
    """What a request takes of each unit, by the unit's name: `output_tokens` with reasoning; `money` in millionths of the
    currency."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    tokens: int = 0
    at_once: int = 0
    money: int = 0


NO_DEMAND = Demand()


def used(usage: Usage, cached_weight: float) -> tuple[int, int]:
    """The tokens of input and output that a usage counts as: those that the engine had in its cache count with their weight,
    rounded up."""
    cached = min(usage.cached_tokens, usage.prompt_tokens) if usage.cached_tokens else 0
    free = int(cached * (1 - cached_weight)) if cached else 0
    return usage.prompt_tokens - free, usage.completion_tokens


@attrs.define(eq=False)
class _Seen:
    """The last answers to one tenant by one model, and what was made of them."""

    outputs: "deque[int]" = attrs.field(factory=lambda: deque(maxlen=_ANSWERS))
    estimate: int = _FIRST_OUTPUT
    since: int = 0


class Estimates:
    """How long answers will be, by tenant and model, and how many tokens a body has, by model: of the `most` that were used
    last."""

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._seen: OrderedDict[tuple[str, str], _Seen] = OrderedDict()
        self._ratios: OrderedDict[str, float] = OrderedDict()
        self._rates: OrderedDict[str, float] = OrderedDict()

    def input(self, model: str, size: int) -> int:
        """The tokens of a prompt, of which the body has so many bytes; at least 1."""
        return max(1, int(size / self._ratios.get(model, _BYTES_A_TOKEN)))

    def output(self, tenant: str, model: str, bound: int | None, choices: int = 1) -> int:
        """The tokens of an answer that may have `bound` for each choice; at least 1."""
        seen = self._seen.get((tenant, model))
        estimate = _FIRST_OUTPUT if seen is None else seen.estimate
        return max(1, choices * (estimate if bound is None else min(bound, estimate)))

    def answered(self, tenant: str, model: str, output: int, choices: int = 1) -> None:
        """An answer had so many tokens."""
        seen = self._seen.get((tenant, model))
        if seen is None:
            seen = self._seen[tenant, model] = _Seen()
            while len(self._seen) > self._most:
                self._seen.popitem(last=False)
        else:
            self._seen.move_to_end((tenant, model))
        seen.outputs.append(-(-output // max(1, choices)))
        seen.since += 1
        if seen.since >= _AGAIN or len(seen.outputs) < _AGAIN:
            seen.since = 0
            ordered = sorted(seen.outputs)
            seen.estimate = ordered[min(len(ordered) - 1, int(len(ordered) * _SHARE))]

    def read(self, model: str, size: int, tokens: int) -> None:
        """A body of so many bytes had so many tokens of prompt."""
        if size <= 0 or tokens <= 0:
            return
        before, found = self._ratios.get(model, _BYTES_A_TOKEN), size / tokens
        self._ratios[model] = before + (found - before) * _WEIGHT
        self._ratios.move_to_end(model)
        while len(self._ratios) > self._most:
            self._ratios.popitem(last=False)

    def took(self, model: str, tokens: int, us: int) -> None:
        """A choice of a whole answer of so many tokens took so many microseconds."""
        if tokens <= 0 or us <= 0:
            return
        before = self._rates.get(model)
        found = tokens / us
        self._rates[model] = found if before is None else before + (found - before) * _WEIGHT
        if before is None and len(self._rates) > self._most:
            self._rates.popitem(last=False)

    def generated(self, model: str, us: int, bound: int) -> int:
        """How many tokens a choice of a whole answer has after so many microseconds, `bound` at most; that where no answer of the
        model has come so far."""
        rate = self._rates.get(model)
        return bound if rate is None else min(bound, int(rate * us))
