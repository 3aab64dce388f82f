"""Cuts what an engine brought at once into slices that are quickly read.

An engine that is not asked for a stream sends a choice in one message, however long it is; reading that in one go would keep all
others waiting. Pure. Above: engines.client, which pushes a slice at a time.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from smg_core.engines.base import EngineOutput

__all__ = ["SLICE", "slices"]

SLICE = 512
"""Tokens that are read in one go, alternatives counted as halves: some milliseconds."""


def slices(outputs: Sequence[EngineOutput], most: int = SLICE) -> Iterator[list[EngineOutput]]:
    """`outputs` in their order, in groups that cost at most `most`; a token alone may cost more."""
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
    """An output in parts of at most `most`, with what each costs: what is said of the choice before its tokens is in the first,
    and what is said of it as a whole in the last."""
    a_token = _cost_of_a_token(output)
    size = max(1, most // a_token)
    count = len(output.ids)
    if count <= size:
        yield output, max(1, count * a_token)
        return
    said = output.prompt_logprobs
    for start in range(0, count, size):
        end = start + size
        shares = {"ids": output.ids[start:end], "logprobs": output.logprobs[start:end], "prompt_logprobs": said}
        said = ()
        if end >= count:
            yield replace(output, **shares), a_token * (count - start)
        else:
            part = EngineOutput(output.index, prompt_tokens=output.prompt_tokens, cached_tokens=output.cached_tokens)
            yield replace(part, **shares), a_token * size


def _cost_of_a_token(output: EngineOutput) -> int:
    return 1 + len(output.logprobs[0].top) // 2 if output.logprobs else 1
