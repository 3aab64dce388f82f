"""Decides what is to be done so that the workers of one source are those that it names.

Pure: a function of what the source names, of what is there, and of the time. It may be called at any moment and as often as one
likes: what it returns leads to the wanted set from wherever things are, and nothing once that is reached. Workers that another
source, the settings or an operator brought are never touched; where one of those has the name already, the source's is left out.
Above: running. Below: base.
"""

from collections.abc import Iterable, Mapping, Sequence

import attrs

from smg_core.discovery.base import PresentWorker, Wanted
from smg_core.workers.worker import WorkerSpec

__all__ = ["Add", "Change", "Drain", "Leaving", "Remove", "Resume", "RosterPlan", "Update", "reconcile"]


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
    """Send the worker no new requests: it is to leave."""

    name: str


@attrs.frozen
class Resume:
    """Use a worker again that was leaving."""

    name: str


@attrs.frozen
class Remove:
    """Remove the worker: it has finished its requests, or had its time."""

    name: str


Change = Add | Update | Drain | Resume | Remove


@attrs.frozen
class Leaving:
    """A worker that was drained for its source: since when, in monotonic seconds, and how many requests it still has."""

    since: float
    in_flight: int


@attrs.frozen
class RosterPlan:
    """`changes` are to be made now, in this order. `waits`: some workers are leaving, so this is to be asked again. `taken` are
    names that workers of others have."""

    changes: tuple[Change, ...]
    waits: bool
    taken: tuple[str, ...]


def reconcile(
    source: str,
    wanted: Sequence[Wanted],
    present: Iterable[PresentWorker],
    leaving: Mapping[str, Leaving],
    now: float,
    drain_s: float,
) -> RosterPlan:
    """What is to be done for `source`, which names `wanted`. `leaving` has those of its workers that were drained for it; each is
    removed when it has nothing in flight, or `drain_s` seconds after that."""
    there = {each.name: each for each in present}
    names = _by_name(wanted)
    changes: list[Change] = []
    waits, taken = False, []
    for name in {**names, **there}:
        want, have = names.get(name), there.get(name)
        if have is not None and have.source != source:
            if want is not None:
                taken.append(name)
            continue
        left = leaving.get(name)
        over = left is not None and (not left.in_flight or now >= left.since + drain_s)
        change, waiting = _one(name, want, have, leaving=left is not None, over=over)
        waits = waits or waiting
        if change is not None:
            changes.append(change)
    return RosterPlan(tuple(changes), waits, tuple(taken))


def _by_name(wanted: Sequence[Wanted]) -> dict[str, Wanted]:
    """What is wanted, by name. Of two with one name the first counts."""
    found: dict[str, Wanted] = {}
    for each in wanted:
        found.setdefault(each.spec.label, each)
    return found


def _one(
    name: str, want: Wanted | None, have: PresentWorker | None, *, leaving: bool, over: bool
) -> tuple[Change | None, bool]:
    """The change for one name, and whether more is to come. `leaving`: it was drained for this source; `over`: that is done."""
    if have is None:
        add = want is not None and want.condition == "ready"
        return (Add(want.spec) if want is not None and add else None), False
    if want is not None and want.condition != "leaving":
        if leaving:
            return Resume(name), want.spec != have.spec
        return (Update(want.spec) if want.spec != have.spec else None), False
    if not leaving:
        return Drain(name), True
    return (Remove(name), False) if over else (None, True)
