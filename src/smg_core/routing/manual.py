"""The policy of sticky sessions: the requests of one routing key stay on one worker.

Pure: time comes with the request, chance from the random source. The table is this process's own; where several processes or
gateways are to agree without talking, `affinity.ConsistentHashing` does. Above: named. Below: work.
"""

from collections import OrderedDict
from collections.abc import Sequence
from random import Random

import attrs

from smg_core.routing.base import Candidate, Observing, Pick, RoutingContext
from smg_core.routing.settings import RoutingConfig
from smg_core.routing.work import TieBreak, Work

__all__ = ["Manual"]

_DEFAULTS = RoutingConfig()


@attrs.define
class _Session:
    """Where the requests of one key go: to `worker`, and to `other` while that one cannot be asked. `used` is the time of the
    last request, `last` the worker that had it."""

    worker: str
    used: float
    other: str = ""
    last: str = ""


class Manual(Observing):
    """A key's first request is assigned a worker (`manual_assign`: the one with the least work, with the fewest keys, or any),
    and the others follow. A key is forgotten after `session_idle_s` seconds without a request, and when there are more than
    `sessions`. Requests without a key go to the worker with the least work."""

    name = "manual"

    def __init__(self, settings: RoutingConfig = _DEFAULTS, rng: Random | None = None) -> None:
        rng = rng or Random()
        self._work = Work(settings)
        self._turns = TieBreak(settings.tie_tokens, rng, settings.remembered_workers)
        self._groups = TieBreak(
            0, rng, settings.remembered_workers
        )  # numbers of sessions are no tokens: only equal ones are
        self._by = settings.manual_assign
        self._rng = rng
        self._most = settings.sessions
        self._idle = settings.session_idle_s
        self._sessions: OrderedDict[str, _Session] = OrderedDict()  # the one used longest ago first
        self._keys: dict[str, int] = {}  # how many sessions each worker had the last request of; those that left, too

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        self._work.note(context)
        key = context.cache_key
        if not key:
            return Pick(candidates[self._least(candidates)], why="no routing key: least work")
        self._forget_idle(context.now)
        session = self._sessions.get(key)
        if session is None:
            return self._begun(key, candidates, context.now)
        session.used = context.now
        self._sessions.move_to_end(key)
        named = {each.name: each for each in candidates}
        if session.worker in named:
            self._goes(session, session.worker)
            return Pick(named[session.worker], why="the session's worker")
        if session.other not in named:
            session.other = candidates[self._assigned(candidates)].name
        self._goes(session, session.other)
        return Pick(named[session.other], why="the session's worker cannot be asked")

    def _begun(self, key: str, candidates: Sequence[Candidate], now: float) -> Pick:
        chosen = candidates[self._assigned(candidates)]
        if self._most:
            while len(self._sessions) >= self._most:
                self._end(next(iter(self._sessions)))
            session = self._sessions[key] = _Session(chosen.name, now)
            self._goes(session, chosen.name)
        return Pick(chosen, why=f"a new session: {self._by}")

    def _assigned(self, candidates: Sequence[Candidate]) -> int:
        if self._by == "random":
            return self._rng.randrange(len(candidates))
        if self._by == "min_group":
            groups = [self._keys.get(each.name, 0) / each.weight for each in candidates]
            return self._groups.choose([each.name for each in candidates], groups)
        return self._least(candidates)

    def _least(self, candidates: Sequence[Candidate]) -> int:
        return self._turns.choose([each.name for each in candidates], self._work.by_weight(candidates))

    def _forget_idle(self, now: float) -> None:
        """End the sessions whose last request was long ago, at most two for each request."""
        for _ in range(2):
            key = next(iter(self._sessions), None)
            if key is None or now - self._sessions[key].used <= self._idle:
                return
            self._end(key)

    def _end(self, key: str) -> None:
        self._goes(self._sessions.pop(key), "")

    def _goes(self, session: _Session, worker: str) -> None:
        """Count the session for the worker that its request goes to now, "" for none: the one before has it no more."""
        before, session.last = session.last, worker
        if before == worker:
            return
        if worker:
            self._keys[worker] = self._keys.get(worker, 0) + 1
        if before:
            self._keys[before] -= 1
            if not self._keys[before]:
                del self._keys[before]

    @property
    def sessions(self) -> int:
        """The number of keys with a worker."""
        return len(self._sessions)

    def worker_left(self, worker: str) -> None:
        self._turns.forget(worker)
        self._groups.forget(worker)
