"""Asks all sources of workers, and has the changes made that follow (edge).

One task for each source, which takes its answers; one task makes the changes of all, one after the other, so that two sources
never work on the roster at once. A source that fails keeps what it named before. Above: operation.discovery, which makes the
sources. Below: reconcile decides.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing

from smg_core.clock import CallLater, Clock
from smg_core.discovery.base import WorkerRoster, WorkerSource, WorkersSeen
from smg_core.discovery.reconcile import Add, Change, Drain, Resume, RosterPlan, Update, reconcile
from smg_core.discovery.settings import DiscoveryConfig
from smg_core.discovery.standing import SourceStanding
from smg_core.discovery.waiting import pauses
from smg_core.errors import SmgError
from smg_core.fleet_moments import SourceAnswered, SourceChanged, SourceSampled
from smg_core.hooks import Observer
from smg_core.observability.faults import FaultLog

__all__ = ["Discovery"]

log = logging.getLogger("smg.discovery")

TURN = 16  # changes that are made before the event loop gets a turn
WHOLE_LOOK = 30  # every so many looks is at all sources, the others at those of which something is left to do
NAMED = 5  # names that a line in the log repeats
WORDS: dict[type[Change], str] = {
    Add: "add",
    Update: "update",
    Drain: "drain",
    Resume: "resume",
}
"""What each kind of change is called in the log and the metrics."""


class Discovery:
    """Keeps the workers of `roster` as `sources` name them, while `run` runs."""

    def __init__(
        self,
        sources: Sequence[WorkerSource],
        roster: WorkerRoster,
        observer: Observer,
        settings: DiscoveryConfig,
        *,
        clock: Clock,
        call_later: CallLater,
        faults: FaultLog,
    ) -> None:
        self._sources = tuple(sources)
        self._faults = faults
        self._roster = roster
        self._observer = observer
        self._settings = settings
        self._clock = clock
        self._pause = pauses(call_later)
        self._refused: dict[str, dict[str, str]] = {each.name: {} for each in sources}
        self._due: set[str] = set()
        self._unsettled: set[str] = set()  # sources of which something is to be done later
        self._changed = asyncio.Event()
        self.standings: dict[str, SourceStanding] = {
            each.name: SourceStanding(each.name, clock.monotonic()) for each in sources
        }

    async def run(self) -> None:
        """Ask the sources until it is cancelled."""
        if not self._sources:
            return
        async with asyncio.TaskGroup() as group:
            for source in self._sources:
                group.create_task(self._keep_listening(source), name=f"source {source.name}")
            group.create_task(self._remind(), name="discovery")
            await self._make_changes()

    # ------------------------------------------------------------------------------------------------- what sources say

    async def _keep_listening(self, source: WorkerSource) -> None:
        """Take the answers of a source. One that fails where it should not is logged and asked again."""
        while True:
            listening = asyncio.create_task(self._listen(source), name=f"answers of {source.name}")
            try:
                await asyncio.wait([listening])
            finally:
                listening.cancel()
            if not listening.cancelled():
                fault = listening.exception()
                if fault is not None:
                    self._faults.note("a source of workers, which is asked again,", fault, source.name)
            await self._pause(self._settings.look_s)

    async def _listen(self, source: WorkerSource) -> None:
        standing = self.standings[source.name]
        async with aclosing(source.answers()) as answers:  # type: ignore[type-var]
            async for answer in answers:
                before = standing.wanted
                change = standing.note(answer, self._clock.monotonic())
                self._observer.report(
                    SourceAnswered(source.name, "ok" if isinstance(answer, WorkersSeen) else "failed")
                )
                if change:
                    self._tell(standing, change)
                if standing.wanted is not before:
                    self._due.add(source.name)
                    self._changed.set()

    def _tell(self, standing: SourceStanding, change: str) -> None:
        if change == "back":
            log.info("%s answers again", standing.name)
            return
        age, known = standing.age(self._clock.monotonic()), len(standing.wanted or ())
        log.warning(
            "%s gives no answer that can be used: %s; its %d workers of %.0f s ago are kept",
            *(standing.name, standing.reason, known, age),
        )

    # ---------------------------------------------------------------------------------------------------- what is changed

    async def _remind(self) -> None:
        """Look again at an interval: others may change the roster, and names that they had become free."""
        looks = 0
        while True:
            now = self._clock.monotonic()
            for standing in self.standings.values():
                count = len(standing.wanted or ())
                self._observer.report(SourceSampled(standing.name, standing.age(now), count))
            await self._pause(self._settings.look_s)
            looks += 1
            due = self._unsettled if looks % WHOLE_LOOK else self.standings
            if due:
                self._due.update(due)
                self._changed.set()

    async def _make_changes(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            due, self._due = self._due, set()
            for name in sorted(due):
                await self._settle(self.standings[name])

    async def _settle(self, standing: SourceStanding) -> None:
        """Make the workers of a source those that it named last. Before it has answered, nothing is changed."""
        if standing.wanted is None:
            return
        plan = reconcile(standing.name, standing.wanted, tuple(self._roster.present()))
        self._tell_taken(standing, plan)
        if plan.taken:
            self._unsettled.add(standing.name)
        else:
            self._unsettled.discard(standing.name)
        for at, change in enumerate(plan.changes, 1):
            await self._make(standing, change)
            if not at % TURN:
                await asyncio.sleep(0)

    def _tell_taken(self, standing: SourceStanding, plan: RosterPlan) -> None:
        if plan.taken and plan.taken != standing.taken:
            log.warning(
                "%s names workers that are there already, from elsewhere; these are left as they are: %s",
                *(standing.name, ", ".join(plan.taken[:NAMED])),
            )
        standing.taken = plan.taken

    async def _make(self, standing: SourceStanding, change: Change) -> None:
        refused = self._refused[standing.name]
        name = change.name if isinstance(change, Drain) else change.spec.label
        try:
            await self._ask(change, standing.name)
        except (ValueError, LookupError, SmgError) as error:
            if refused.get(name) != str(error):
                refused[name] = str(error)
                log.warning("%s: worker %s: %s: %s", standing.name, name, WORDS[type(change)], error)
            self._forget(refused, standing)
            self._unsettled.add(standing.name)
            return
        refused.pop(name, None)
        log.info("%s: worker %s: %s", standing.name, name, WORDS[type(change)])
        self._observer.report(SourceChanged(standing.name, WORDS[type(change)]))

    def _forget(self, refused: dict[str, str], standing: SourceStanding) -> None:
        """Keep no refusal of workers that the source names no more."""
        if len(refused) > len(standing.wanted or ()):
            names = {each.spec.label for each in standing.wanted or ()}
            for name in [name for name in refused if name not in names]:
                del refused[name]

    async def _ask(self, change: Change, source: str) -> None:
        roster = self._roster
        match change:
            case Add(spec):
                await roster.add(spec, source)
            case Update(spec):
                await roster.update(spec)
            case Drain(name):
                await roster.retire(name, self._settings.drain_s)
            case Resume(spec):
                await roster.resume(spec)
