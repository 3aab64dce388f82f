"""Joins the deltas of a block that follow one another, and takes an output apart into its tokens.

Reading several tokens of one push one by one gives a delta for each; the client gets one for all. Pure. Above:
pipeline.output.processor. Below: the events and the engines' records.
"""

from collections.abc import Sequence
from operator import attrgetter

from msgspec.structs import replace

from smg_core.engines.base import EngineOutput
from smg_core.events import Event, ReasoningDelta, TextDelta

__all__ = ["joined_deltas", "one_by_one"]

_TEXT_OF = attrgetter("text")


def joined_deltas(events: Sequence[Event]) -> list[Event]:
    """The same events, with consecutive deltas of one block of text or reasoning joined."""
    found: list[Event] = []
    run: list[TextDelta | ReasoningDelta] = []
    for event in events:
        if isinstance(event, TextDelta | ReasoningDelta) and (not run or type(event) is type(run[0])):
            run.append(event)
            continue
        if run:
            found += _as_one(run)
            run = []
        if isinstance(event, TextDelta | ReasoningDelta):
            run.append(event)
        else:
            found.append(event)
    return found + _as_one(run) if run else found


def _as_one(run: "list[TextDelta | ReasoningDelta]") -> list[Event]:
    """The joined delta of a run of deltas of one block."""
    if len(run) < 2:
        return [*run]
    for each in run:
        if isinstance(each, TextDelta) and each.logprobs:
            return [*run]
    return [replace(run[0], text="".join(map(_TEXT_OF, run)))]


def one_by_one(output: EngineOutput) -> Sequence[EngineOutput]:
    """The same output a token at a time. An engine that gives no logprobs leaves their places empty."""
    if len(output.ids) < 2:
        return (output,)
    scored = output.logprobs
    before = [
        EngineOutput(output.index, (token,), logprobs=scored[place : place + 1])
        for place, token in enumerate(output.ids[:-1])
    ]
    return [*before, replace(output, ids=output.ids[-1:], logprobs=scored[len(before) :])]
