"""The next step after an engine's failed call: another try from the beginning, one that goes on, or the end.

    came of the turn     can go on    client has seen it    what follows
    nothing              -            -                     again: the next try is the same as this one
    tokens               yes          -                     on: the turn goes on behind them, elsewhere
    tokens               no           no                    again: from the beginning, elsewhere
    tokens               no           yes                   end: the error belongs to the client

"Can go on" needs the ids of the tokens, which engines that speak chat do not give, and a migration that is left. A rest that
could differ (`continuing.inexact`) is begun again while the client has seen nothing; after that a setting says whether it goes
on. An error that another worker would give too ends the turn whatever came of it, unless the engine may have failed for want of
the cache that another one was to hand over (`Turn.handed_nothing`).

A try from the beginning takes a retry from the budget of all turns, unless the worker was lost with all the calls that it had
(`Turn.lost`): these are as many as the load was, however often anything fails, so they are no storm. Pure. Above:
pipeline.flow.flow. Below: continuing, turn.
"""

from typing import Literal

from smg_core.errors import SmgError
from smg_core.hooks import Observer, Retrying
from smg_core.pipeline.answer.turn import Turn
from smg_core.pipeline.fit.easing import eased
from smg_core.pipeline.fit.fit import FitForIds, fitted, request_for
from smg_core.pipeline.flow.steps import Placement, TriesLeft
from smg_core.pipeline.output.continuing import Inexact, inexact
from smg_core.pipeline.prompt.prompted import Prompted
from smg_core.routing.retry_budget import RetryBudget
from smg_core.workers.settings import WorkersConfig

__all__ = ["Follows", "Tries", "may_differ"]

Follows = Literal["again", "on", "end"]


class Tries:
    """The tries of one turn. `retries` and `settings.migrations` bound them, and `budget` those of all turns. `number` is that
    of the next try, from 1; `tried` are the workers that it must not use, `suspects` pairs of a prefill and a decode worker
    that have failed together; `going_on` is the turn that it goes on with; `failure` is the last error."""

    __slots__ = (
        "_budget",
        "_migrations",
        "_owed",
        "_retries",
        "_settings",
        "failed",
        "failure",
        "going_on",
        "number",
        "retried",
        "retrying",
        "suspects",
        "tried",
    )

    def __init__(self, retries: int, settings: WorkersConfig, budget: RetryBudget | None = None) -> None:
        self._budget = budget
        self._owed = False  # a retry was taken from the budget and is not made yet
        self.number = 1
        self.tried: frozenset[str] = frozenset()
        self.suspects: frozenset[tuple[str, str]] = frozenset()
        self.going_on: Turn | None = None
        self.failure: SmgError | None = None
        self.failed = ""
        self.retried = 0
        self.retrying: Retrying | None = None
        self._retries = retries
        self._migrations = settings.migrations
        self._settings = settings

    @property
    def after(self) -> TriesLeft:
        """What may follow the next try."""
        return TriesLeft(self.tried, self._retries, self._migrations, self._settings, self.suspects)

    def failed_with(self, turn: Turn, error: SmgError, placement: Placement, *, committed: bool) -> Follows:
        """Called when the call on `placement` has failed with `error`. `committed`: the client has seen something of the
        response. Decides what follows, and makes the next try of it."""
        self.failure = error
        self.failed = turn.failed or placement.last.worker.name
        follows = self._follows(turn, error, committed=committed)
        if follows == "end":
            return follows
        moves = follows == "on" and turn.begun
        if not moves and not turn.lost and self._budget is not None:
            if not self._budget.take():
                return "end"
            self._owed = True
        names = placement.names if turn.failed is None else frozenset({turn.failed})
        if moves:  # who had failed before that may be back by now
            self.tried, self.suspects = frozenset(), frozenset()
        if turn.handed_nothing and placement.prefill is not None:
            names = frozenset()
            self.suspects |= {(placement.prefill.worker.name, placement.last.worker.name)}
        self.number += 1
        self.tried |= names
        if moves:
            self._migrations -= 1
            self.retried = 0
        else:
            self._retries -= 1
            self.retried += 1
        self.going_on = turn if follows == "on" else None
        return follows

    def eased(self, prompted: Prompted, turn: Turn, placement: Placement) -> Prompted | None:
        """What the next try asks, of any worker, where the engine has rejected `prompted` and some of that does not bind; None
        where all of it does. It is no retry: what it asks has not been asked before."""
        easier = eased(prompted, turn, placement.last.worker.facts)
        if easier is not None:
            self.failure, self.failed = turn.error, turn.failed or placement.last.worker.name
            self.number += 1
        return easier

    def made(self, observer: Observer) -> None:
        """Called when the next try is made: an engine is asked. Only now is `observer` told that something is tried again: where
        no worker is left, nothing is."""
        self._owed = False
        if self.retrying is not None:
            observer.report(self.retrying)
            self.retrying = None

    def over(self) -> None:
        """Called when no try will be made any more. A retry that was taken from the budget and not made goes back: where no
        worker was left, or the client was gone, it put no load on any engine."""
        if self._owed and self._budget is not None:
            self._owed = False
            self._budget.give_back()

    def asked_too(self, names: frozenset[str]) -> None:
        """Called when a second call was made beside the one of this try, of the workers called `names`."""
        if names:
            self.number += 1
            self.tried |= names

    def _follows(self, turn: Turn, error: SmgError, *, committed: bool) -> Follows:
        if not error.another_worker_may_do and not turn.handed_nothing:
            return "end"
        came = turn.begun or turn.received > 0
        if turn.reader is not None and came and (self._migrations if turn.begun else self._retries):
            return "on"
        if self._retries and (not came or not committed):
            return "again"
        return "end"

    def differs(self, prompted: Prompted, placement: Placement) -> tuple[Inexact, ...]:
        """Why the turn that goes on at `placement` could differ from the one that was begun."""
        facts = placement.last.worker.facts
        if self.going_on is None or not facts.takes_ids:
            return ()
        fit, reader = fitted(prompted, facts), self.going_on.reader
        return inexact(request_for(fit, reader), facts, reader) if isinstance(fit, FitForIds) else ()

    def may_differ(self, reasons: tuple[Inexact, ...]) -> bool:
        """Whether a rest that could differ for these reasons is wanted all the same."""
        return may_differ(reasons, self._settings)


def may_differ(reasons: tuple[Inexact, ...], settings: WorkersConfig) -> bool:
    """Whether a rest that could differ for these reasons is wanted all the same."""
    wanted = {settings.migrate_constrained if each == "constraint" else settings.migrate_sampled for each in reasons}
    return "end" not in wanted
