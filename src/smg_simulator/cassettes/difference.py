"""The differences of two answers to one request, and of all together.

Pure. Above: the command. Below: cassette, bench.figures.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import attrs

from smg_simulator.bench.figures import BenchSummary
from smg_simulator.cassettes.cassette import CassetteExchange

__all__ = ["ReplayedExchange", "answer_differences", "replay_lines"]

_LONGEST_QUOTE = 60
_MOST_LISTED = 20


@attrs.frozen
class ReplayedExchange:
    """A recorded exchange, and the one that it was when it was asked again."""

    before: CassetteExchange
    after: CassetteExchange


def answer_differences(pair: ReplayedExchange) -> Iterator[tuple[str, str]]:
    """What is different: its name, and how. Of a cassette without words, texts are compared by nothing but their being there."""
    before, after = pair.before, pair.after
    if before.status != after.status:
        yield "status", f"{before.status} -> {after.status}: {after.summary.error[:_LONGEST_QUOTE]}".rstrip(": ")
        return
    rows: list[tuple[str, object, object]] = []
    if before.redacted:
        rows.append(("calls", [name for name, _ in before.summary.calls], [name for name, _ in after.summary.calls]))
    else:
        rows += [
            (each, getattr(before.summary, each), getattr(after.summary, each))
            for each in ("text", "reasoning", "calls")
        ]
    rows.append(("finish", before.summary.finish, after.summary.finish))
    rows.append(("prompt tokens", before.summary.prompt_tokens, after.summary.prompt_tokens))
    rows.append(("error", bool(before.summary.error), bool(after.summary.error)))
    for name, was, now in rows:
        if was != now:
            yield name, _how(was, now)


def _how(was: object, now: object) -> str:
    """The two from where they begin to differ."""
    if not (isinstance(was, str) and isinstance(now, str)):
        return f"{str(was)[:_LONGEST_QUOTE]!r} -> {str(now)[:_LONGEST_QUOTE]!r}"
    at = next(
        (at for at, (one, other) in enumerate(zip(was, now, strict=False)) if one != other), min(len(was), len(now))
    )
    return f"from character {at}: {was[at : at + _LONGEST_QUOTE]!r} -> {now[at : at + _LONGEST_QUOTE]!r}"


def replay_lines(pairs: Sequence[ReplayedExchange]) -> tuple[list[str], int]:
    """What is said of a replay, and how many answers are different."""
    counts: Counter[str] = Counter()
    different, listed = 0, []
    for number, pair in enumerate(pairs, 1):
        found = list(answer_differences(pair))
        different += bool(found)
        counts.update(name for name, _ in found)
        listed += [f"request {number} ({pair.before.path}): {name}: {how}" for name, how in found]
    lines = listed[:_MOST_LISTED] + (
        [f"... and {len(listed) - _MOST_LISTED} more"] if len(listed) > _MOST_LISTED else []
    )
    what = ", ".join(f"{name} of {count}" for name, count in counts.most_common()) or "nothing"
    lines.append(f"{len(pairs)} requests, {different} answered differently: {what}")
    lines.append(f"{'seconds':<26}{'p50':>10}{'p90':>10}{'p99':>10}")
    times = {
        "first piece, before": [pair.before.times[0] for pair in pairs if pair.before.times],
        "first piece, after": [pair.after.times[0] for pair in pairs if pair.after.times],
        "whole, before": [pair.before.seconds for pair in pairs if pair.before.times],
        "whole, after": [pair.after.seconds for pair in pairs if pair.after.times],
    }
    for name, some in times.items():
        lines.append(f"{name:<26}" + "".join(f"{each:>10}" for each in BenchSummary.of(some).columns()))
    return lines, different
