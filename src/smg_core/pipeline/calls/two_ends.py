"""The choice of prefill and decode workers together, the cost of two hosts, and its report.

Pure. Above: selecting. Below: the steps, the records of workers.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from smg_core.engines.handover import KvEnd, hands_to
from smg_core.hooks import WorkerPicked
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.flow.steps import Select
from smg_core.workers.worker import Worker

__all__ = ["HeldBack", "hand_over_costs", "sparing", "understand_each_other"]


class HeldBack:
    """Keeps what is to be told of a choice to the account of a request until others have been made."""

    def __init__(self, account: Trace) -> None:
        self.started, self.reading = account.started, account.reading
        self._moments: list[WorkerPicked] = []

    def report(self, moment: WorkerPicked) -> None:
        self._moments.append(moment)

    def tell(self, trace: Trace) -> None:
        for each in self._moments:
            trace.report(each)


def sparing(step: Select) -> tuple[Select, ...]:
    """What is asked for in turn, until there is someone: no suspect at all, none at one of the two ends, and suspects that have
    not failed together."""
    if not step.suspects:
        return (step,)
    starts, ends = (frozenset(each) for each in zip(*step.suspects, strict=True))
    others = [(starts - {start}) | {end for first, end in step.suspects if first == start} for start in sorted(starts)]
    without = replace(step, suspects=frozenset())
    return tuple(replace(without, exclude=step.exclude | names) for names in (starts | ends, starts, ends, *others))


def hand_over_costs(candidates: Sequence[Worker], ends: Sequence[Worker], cost: float) -> Mapping[str, float]:
    """`cost` by the name of each candidate that is on the host of none of `ends`."""
    hosts = {each.host for each in ends}
    return {each.name: cost for each in candidates if each.host not in hosts}


def understand_each_other(prefill: Worker, decode: Worker) -> bool:
    """Whether one worker takes the cache that the other hands over."""
    return hands_to(KvEnd(prefill.facts.dialect, prefill.kv), KvEnd(decode.facts.dialect, decode.kv))
