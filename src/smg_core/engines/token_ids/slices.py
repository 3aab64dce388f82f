"""Cuts the outputs of one read into slices, so that long answers do not block other requests.

An engine that was not asked for a stream sends a whole choice in one message. Pure. Above: engines.token_ids.client, which
pushes one slice at a time.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from smg_core.engines.base import EngineLogprob, EngineOutput

__all__ = ["SLICE", "fit_one_slice", "slices"]

SLICE = 512
"""Tokens that are read in one go, or tokens with logprobs at what they cost. Takes about a millisecond, with what is written for
them."""

_SCORED, _ALTERNATIVE = 3, 2
"""What a token with its logprob costs, in tokens, and each of its alternatives."""


def fit_one_slice(outputs: Sequence[EngineOutput], most: int = SLICE) -> bool:
    """Whether `outputs` need not be cut: all of them cost at most `most`."""
    left = most
    for output in outputs:
        left -= len(output.ids) * _token_cost(output.logprobs) or 1
        if output.prompt_logprobs:
            left -= len(output.prompt_logprobs) * _token_cost(output.prompt_logprobs)
    return left >= 0


def slices(outputs: Sequence[EngineOutput], most: int = SLICE) -> Iterator[list[EngineOutput]]:
    """`outputs` in order, in groups that cost at most `most` each; a single token may cost more."""
    group: list[EngineOutput] = []
    left = most
    for output in outputs:
        for part, cost in _parts(output, most):
            if group and cost > left:
                yield group
                group, left = [], most
            group.append(part)
            left -= cost
    if group:
        yield group


def _parts(output: EngineOutput, most: int) -> Iterator[tuple[EngineOutput, int]]:
    """Parts of an output that cost at most `most` each, with their costs. Those of the prompt's logprobs come first and have no
    ids; the last part has the finish reason and the final counts."""
    token_cost = _token_cost(output.logprobs)
    size = max(1, most // token_cost)
    count = len(output.ids)
    rows, row_cost = output.prompt_logprobs, _token_cost(output.prompt_logprobs)
    total = max(1, count * token_cost) + len(rows) * row_cost
    if total <= most or (count <= size and not rows):
        yield output, total
        return
    row_size = max(1, most // row_cost)
    for start in range(0, len(rows), row_size):
        part = _without_end(output)
        part.prompt_logprobs = rows[start : start + row_size]
        yield part, len(part.prompt_logprobs) * row_cost
    for start in range(0, count or 1, size):
        end = start + size
        last = end >= count
        part = replace(output, prompt_logprobs=()) if last else _without_end(output)
        part.ids, part.logprobs = output.ids[start:end], output.logprobs[start:end]
        yield part, max(1, token_cost * len(part.ids))


def _without_end(output: EngineOutput) -> EngineOutput:
    return EngineOutput(output.index, prompt_tokens=output.prompt_tokens, cached_tokens=output.cached_tokens)


def _token_cost(rows: Sequence[EngineLogprob | None]) -> int:
    """What one token costs that has logprobs like the last of `rows`; the first of a prompt has none."""
    last = rows[-1] if rows else None
    return 1 if last is None else _SCORED + _ALTERNATIVE * len(last.top)
