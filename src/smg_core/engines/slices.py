"""Cuts the outputs of one read into slices, so that reading a long answer does not block other requests.

An engine that was not asked for a stream sends a whole choice in one message. Pure. Above: engines.client, which pushes one
slice at a time.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from smg_core.engines.base import EngineOutput

__all__ = ["SLICE", "fit_one_slice", "slices"]

SLICE = 512
"""Tokens that are read in one go; an alternative of a token counts as half a token. Takes some milliseconds."""


def fit_one_slice(outputs: Sequence[EngineOutput], most: int = SLICE) -> bool:
    """Whether `outputs` need not be cut: all of them cost at most `most`."""
    left = most
    for output in outputs:
        left -= len(output.ids) * _token_cost(output) or 1
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
    """Parts of an output that cost at most `most` each, with their costs. The first has the prompt's logprobs, the last the
    finish reason and the final counts."""
    token_cost = _token_cost(output)
    size = max(1, most // token_cost)
    count = len(output.ids)
    if count <= size:
        yield output, max(1, count * token_cost)
        return
    prompt_logprobs = output.prompt_logprobs
    for start in range(0, count, size):
        end = start + size
        shares = {
            "ids": output.ids[start:end],
            "logprobs": output.logprobs[start:end],
            "prompt_logprobs": prompt_logprobs,
        }
        prompt_logprobs = ()
        if end >= count:
            yield replace(output, **shares), token_cost * (count - start)
        else:
            part = EngineOutput(output.index, prompt_tokens=output.prompt_tokens, cached_tokens=output.cached_tokens)
            yield replace(part, **shares), token_cost * size


def _token_cost(output: EngineOutput) -> int:
    return 1 + len(output.logprobs[0].top) // 2 if output.logprobs else 1
