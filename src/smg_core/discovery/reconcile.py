"""Decides what is to be done so that the workers of one source are those that it names.

Pure: a function of what the source names and of what is there. It may be called at any moment and as often as one
likes: what it returns leads to the wanted set from wherever things are, and nothing once that is reached. Workers that another
source, the settings or an operator brought are never touched; where one of those has the name already, the source's is left out.
Above: running. Below: base.
"""

from collections.abc import Iterable, Sequence

import attrs

from smg_core.discovery.base import PresentWorker, Wanted
from smg_core.workers.worker import WorkerSpec

__all__ = ["Add", "Change", "Drain", "Resume", "RosterPlan", "Update", "reconcile"]


@attrs.frozen
class Add:
    """Take this worker in."""

    spec: WorkerSpec


@attrs.frozen
class Update:
    """Let the worker of this name be what this says."""

    spec: WorkerSpec


@attrs.frozen
class Drain:
    """Send the worker no new requests: it leaves once those that it has have ended."""

    name: str


@attrs.frozen
class Resume:
    """Use a worker again that was leaving, as this says."""

    spec: WorkerSpec


Change = Add | Update | Drain | Resume


@attrs.frozen
class RosterPlan:
    """`changes` are to be made now, in this order. `taken` are names that workers of others have."""

    changes: tuple[Change, ...]
    taken: tuple[str, ...]


def reconcile(source: str, wanted: Sequence[Wanted], present: Iterable[PresentWorker]) -> RosterPlan:
    """What is to be done for `source`, which names `wanted`."""
    there = {each.name: each for each in present}
    names = _by_name(wanted)
    changes: list[Change] = []
    taken = []
    for name in {**names, **there}:
        want, have = names.get(name), there.get(name)
        if have is not None and have.source != source:
            if want is not None:
                taken.append(name)
            continue
        change = _one(name, want, have)
        if change is not None:
            changes.append(change)
    return RosterPlan(tuple(changes), tuple(taken))


def _by_name(wanted: Sequence[Wanted]) -> dict[str, Wanted]:
    """What is wanted, by name. Of two with one name the first counts."""
    found: dict[str, Wanted] = {}
    for each in wanted:
        found.setdefault(each.spec.label, each)
    return found


def _one(name: str, want: Wanted | None, have: PresentWorker | None) -> Change | None:
    """The change for one name, if any."""
    if have is None:
        return Add(want.spec) if want is not None and want.condition == "ready" else None
    if want is None or want.condition == "leaving":
        return None if have.leaving else Drain(name)
    if have.leaving:
        return Resume(want.spec)
    return Update(want.spec) if want.spec != have.spec else None
