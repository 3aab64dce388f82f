"""The next engine call of a turn, from the tokens received so far.

Decides what the other engine is asked for each choice that is not finished (the prompt with the tokens received after it, and
what is left of the bounds), which choices have ended although their engine did not live to say so, and for which requests the
answer could differ from that of one engine. Pure. Above: pipeline.flow.flow, which decides whether a turn goes on, and
pipeline.calls.streaming, which makes the calls. Below: the engines' records, pipeline.output.processor.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from smg_core.engines.base import EngineFacts, EngineOutput, EngineRequest
from smg_core.pipeline.output.processor import OutputProcessor
from smg_core.request import Sampling
from smg_core.tokens import TokenIds

__all__ = ["Inexact", "Rest", "inexact", "rest_of", "within_vocabulary"]

Inexact = Literal["constraint", "seed", "penalties"]
"""Why the rest of an answer could differ from what one engine would have said.

constraint: a grammar begins anew with each call, so the rest is asked for without it.
seed: the random numbers of an engine begin anew with each call.
penalties: an engine counts the tokens that it made itself, so those received before are made less likely once, and a token of
    theirs that comes again twice.
"""


class Rest(Struct, frozen=True):
    """What is to be done to complete a turn: `ended` are the ends of choices that need no engine, `requests` has the request for
    each other choice of the engine, by its index."""

    ended: tuple[EngineOutput, ...]
    requests: Mapping[int, EngineRequest]


def rest_of(
    request: EngineRequest,
    facts: EngineFacts,
    reader: OutputProcessor,
    ends: frozenset[int],
    *,
    context: int = 0,
) -> Rest:
    """The rest of the turn that `reader` has read so far, for an engine of these facts, which would be sent `request` for all of
    it. `ends` are the ids with which the model ends. Where the gateway put in the last ids, what follows is held to the request's
    constraint from its beginning. `context` is how many tokens the engine takes (0: not known): ids that the gateway put in count
    in it, but not among those that the model may write. The ids of the requests are numbered where there are several."""
    if not reader.tokens_received and len(reader.unfinished) == request.sampling.n:
        return Rest((), {0: request})
    ended: list[EngineOutput] = []
    requests: dict[int, EngineRequest] = {}
    for index in reader.unfinished:
        received = reader.received(index)
        room = context - len(request.input_ids) - len(received) if context and reader.put_in else None
        finish = _finish(request.sampling, received, ends, reader, room)
        if finish is not None:
            ended.append(replace(finish, index=index))
            continue
        rest = _rest(request, facts, received, reader.put_in, room, echoes=reader.echoes(index))
        begins = reader.put_in_last or not received
        requests[index] = rest if begins else replace(rest, constraint=None, after_reasoning=False)
    if len(requests) > 1:
        requests = {index: _numbered(each, index) for index, each in requests.items()}
    return Rest(tuple(ended), requests)


def within_vocabulary(reader: object, size: int) -> bool:
    """Whether all ids that were received are of a vocabulary of `size` (0: not known). An id beyond it was changed on its way, or
    is a fault of its engine: another engine that was sent it could fail too."""
    if not size or not isinstance(reader, OutputProcessor):
        return True
    return all(max(reader.received(index), default=0) < size for index in reader.unfinished)


def inexact(request: EngineRequest, facts: EngineFacts, reader: object) -> tuple[Inexact, ...]:
    """Why the rest of an answer to `request` could differ, of which `reader` has read so much; empty if it could not. It could
    not behind ids that the gateway put in: with them a call begins, which is made as it was."""
    sampling = request.sampling
    if not isinstance(reader, OutputProcessor) or not reader.tokens_received or reader.put_in_last:
        return ()
    found: list[Inexact] = []
    if request.constraint is not None and request.constraint.binding:
        found.append("constraint")
    if sampling.seed is not None and sampling.temperature != 0:
        found.append("seed")
    if sampling.presence_penalty or (sampling.frequency_penalty and not _can_bias(sampling, facts)):
        found.append("penalties")
    return tuple(found)


def _can_bias(sampling: Sampling, facts: EngineFacts) -> bool:
    """Whether a bias on a token's logit does what the penalty for having said it did. A repetition penalty scales logits behind
    the bias, so with one it would not."""
    return facts.logit_bias and sampling.repetition_penalty in (None, 1)


def _finish(
    sampling: Sampling, received: Sequence[int], ends: frozenset[int], reader: OutputProcessor, room: int | None
) -> EngineOutput | None:
    """The end of a choice whose last token was received and whose end was not; None for a choice that goes on. `room` is how many
    tokens the engine can add, where that bounds them."""
    least, made = sampling.min_tokens or 0, len(received) - len(reader.put_in)
    if received and made > least and not reader.put_in_last:
        last = received[-1]
        if last in sampling.stop_token_ids:
            return EngineOutput(finish="stop", matched=last)
        if last in ends and not sampling.ignore_eos:
            return EngineOutput(finish="stop")
    if (sampling.max_tokens is not None and made >= sampling.max_tokens) or (room is not None and room <= 0):
        return EngineOutput(finish="length")
    return None


def _rest(
    request: EngineRequest,
    facts: EngineFacts,
    received: Sequence[int],
    put_in: Sequence[int],
    room: int | None,
    *,
    echoes: bool,
) -> EngineRequest:
    """The request for one choice, of which `received` has come, `put_in` of it from the gateway. `room` as for `_finish`."""
    asked, done = request.sampling, len(received) - len(put_in)
    changes: dict[str, object] = {"n": 1} if asked.n > 1 else {}
    if done and asked.max_tokens is not None:
        left = asked.max_tokens - done
        changes["max_tokens"] = left if room is None else min(left, room)
    if done and asked.min_tokens:
        changes["min_tokens"] = max(0, asked.min_tokens - done)
    if asked.prompt_logprobs is not None and not echoes:
        changes["prompt_logprobs"] = None
    if done and facts.logit_bias and (asked.frequency_penalty or asked.presence_penalty):
        changes["logit_bias"] = _bias(asked, received, put_in)
    sampling = replace(asked, **changes) if changes else asked
    if not received:
        return replace(request, sampling=sampling)
    return replace(request, input_ids=request.input_ids + TokenIds(received), sampling=sampling)


def _bias(asked: Sampling, received: Sequence[int], put_in: Sequence[int]) -> dict[int, float]:
    """The bias of the request, less what the penalties take off the tokens that the model wrote."""
    bias = dict(asked.logit_bias or {})
    frequency, presence = asked.frequency_penalty or 0.0, asked.presence_penalty or 0.0
    for token, count in (Counter(received) - Counter(put_in)).items():
        bias[token] = bias.get(token, 0.0) - frequency * count - presence
    return bias


def _numbered(request: EngineRequest, index: int) -> EngineRequest:
    """The request with an id of its own among those of its turn, and a seed of its own, or choices would be the same."""
    seed = request.sampling.seed
    sampling = request.sampling if seed is None else replace(request.sampling, seed=seed ^ index)
    return replace(request, id=f"{request.id}-{index}" if index else request.id, sampling=sampling)
