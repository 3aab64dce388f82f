"""The outcomes of a bench's requests, and the figures of all of them.

The first token counts from when a request was due, not from when it was sent: a client that falls behind hides no waiting. Pure.
Above: asking, report. Below: nothing.
"""

from collections.abc import Sequence
from math import ceil, isnan, nan

import attrs

__all__ = ["BenchFigures", "BenchObjective", "BenchOutcome", "BenchSummary", "quantile", "summary"]


@attrs.frozen
class BenchOutcome:
    """One request: when it was due and was sent, in seconds from the begin; the seconds from then on to its first token and to
    its end; the gaps between pieces of its answer; its tokens of prompt, cache and answer. `error` is "" where it was
    answered."""

    due: float
    sent: float
    first: float = nan
    whole: float = nan
    gaps: tuple[float, ...] = ()
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    error: str = ""

    @property
    def mean_gap(self) -> float:
        """Seconds between two tokens, in the mean; a piece may have several."""
        return (self.whole - self.first) / (self.output_tokens - 1) if self.output_tokens > 1 else 0.0


@attrs.frozen
class BenchObjective:
    """What a good answer is: its first token within `first` seconds, and then one every `gap` seconds in the mean."""

    first: float
    gap: float

    def met(self, outcome: BenchOutcome) -> bool:
        return not outcome.error and outcome.first <= self.first and outcome.mean_gap <= self.gap


@attrs.frozen
class BenchSummary:
    """Half, nine of ten and 99 of 100 are at most this; NaN without any."""

    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "BenchSummary":
        ordered = sorted(values)
        return cls(*(quantile(ordered, share) for share in (0.5, 0.9, 0.99)))

    def columns(self) -> tuple[str, str, str]:
        """The three in seconds, a dash where there is none."""
        p50, p90, p99 = ("-" if isnan(each) else f"{each:.4f}" for each in (self.p50, self.p90, self.p99))
        return p50, p90, p99


@attrs.frozen
class BenchFigures:
    """All requests together, over `seconds`. `goodput` is the share of the requests that met the objective, `good_rate` how
    many of them a second; `errors` say how often each happened."""

    requests: int
    failed: int
    seconds: float
    rate: float
    output_rate: float
    prompt_tokens: int
    cached_share: float
    first: BenchSummary
    gap: BenchSummary
    token: BenchSummary
    whole: BenchSummary
    goodput: float
    good_rate: float
    late: float
    errors: tuple[tuple[str, int], ...]


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value that a share of these, which are in order, is at most; NaN without any."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else nan


def summary(outcomes: Sequence[BenchOutcome], seconds: float, objective: BenchObjective) -> BenchFigures:
    """The figures of a run that took so many seconds."""
    good = [each for each in outcomes if not each.error]
    met = sum(map(objective.met, outcomes))
    prompts = sum(each.prompt_tokens for each in good)
    errors = [each.error for each in outcomes if each.error]
    per_second = max(seconds, 1e-9)
    return BenchFigures(
        requests=len(outcomes),
        failed=len(errors),
        seconds=seconds,
        rate=len(good) / per_second,
        output_rate=sum(each.output_tokens for each in good) / per_second,
        prompt_tokens=prompts,
        cached_share=sum(each.cached_tokens for each in good) / prompts if prompts else 0.0,
        first=BenchSummary.of([each.first for each in good]),
        gap=BenchSummary.of([gap for each in good for gap in each.gaps]),
        token=BenchSummary.of([each.mean_gap for each in good]),
        whole=BenchSummary.of([each.whole for each in good]),
        goodput=met / len(outcomes) if outcomes else 0.0,
        good_rate=met / per_second,
        late=quantile(sorted(each.sent - each.due for each in outcomes), 0.99),
        errors=tuple(sorted(((each, errors.count(each)) for each in set(errors)), key=lambda pair: (-pair[1], pair))),
    )
