"""One generation that several equal requests are answered from: its events so far, and who follows them (edge).

A generation is nobody's own: it runs in a task, its events are recorded, and each request that follows is told them by an attempt
of its own, at its own pace. Who leaves, or reads slowly, changes nothing for the others; when the last one leaves, the task is
cancelled. Answers that leave whole are told the events at the end, so that while nobody's client has seen anything the generation
may begin anew with another engine. Events that were kept are told in the same way. Above: `caching`. Below: answers, attempts.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from smg_core.errors import InternalError, SmgError
from smg_core.events import NO_USAGE, Event, Finished, Started, ToolCallStart, Usage
from smg_core.pipeline.answer.answer import Answer
from smg_core.pipeline.answer.attempt import Attempt
from smg_core.pipeline.answer.discarded_answer import AsideAnswer
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.answer.turn import Turn
from smg_core.pipeline.flow.driver import Run
from smg_core.pipeline.flow.steps import Finish, Flow, Step, ask
from smg_core.response_cache.packing import CachedAnswer

__all__ = ["Flight", "Follow", "NotShared", "RecordedAnswer", "follow_flight", "followed"]

_AT_ONCE = 32
"""Events that one request is told in one go: of texts of PIECE characters, what is encoded well within a millisecond."""

_NOTHING_YET = Started(0, None, "")


class NotShared(SmgError):
    """Nothing came of the generation that a request follows. `again`: before it had begun, so another one may be followed."""

    def __init__(self, *, again: bool) -> None:
        super().__init__("The answer that this request was to share was not made.")
        self.again = again


class RecordedAnswer(AsideAnswer):
    """The answer that a generation makes for all: its events go to the flight."""

    __slots__ = ("_flight",)

    def __init__(self, flight: "Flight") -> None:
        super().__init__(keep=False)
        self._flight = flight

    @property
    def committed(self) -> bool:
        """Whether some client may have seen a part of it."""
        self._seen()
        return super().committed

    def begin(self, attempt: Attempt[Any]) -> None:
        self._seen()
        super().begin(attempt)

    def _seen(self) -> None:
        if self._flight.seen and self.state == "open":
            self.state = "committed"

    def _rewind(self) -> None:
        self._flight.events.clear()

    def _keep(self, events: Sequence[Event]) -> None:
        self._flight.add(events)

    def take(self, events: Sequence[Event], over: bool) -> None:
        if self.state == "over":
            return
        super().take(events, over)

    def started(self) -> Started:
        """How the answer has begun."""
        attempt = self._attempt
        if attempt is None:
            return _NOTHING_YET
        reader = attempt.reader
        return Started(
            reader.prompt_tokens,
            reader.cached_tokens,
            "",
            self.dropped,
            self.edits,
            self.prompt_ids,
            self.effective,
            reader.strict,
        )

    def hold(self, *, held: bool) -> None:
        """Hold the engine back, or let it go on."""
        attempt = self._attempt
        if attempt is not None and not attempt.over and attempt.paused != held:
            if held:
                attempt.pause()
            else:
                attempt.resume()


class Flight:
    """One generation. `events` are those so far, `over` says that there will be no more, `failure` why it has none; `seen`: some
    client may have seen a part. `answer` is what the generation makes it with, `task` the one it runs in, `trace` its
    account. `unattended`: nobody waits for it, so it may begin late. `erased`: its tenant is, so it is not kept."""

    def __init__(self, on_left: "Callable[[Flight], None] | None" = None, *, unattended: bool = False) -> None:
        self.events: list[Event] = []
        self.over = self.seen = self.begun = self.erased = False
        self.failure: SmgError | None = None
        self.answer: RecordedAnswer | None = None
        self.kept: CachedAnswer | None = None
        self.task: asyncio.Task[None] | None = None
        self.trace: Trace | None = None
        self.unattended = unattended
        self._followers: list[Follower] = []
        self._on_left = on_left

    @classmethod
    def of(cls, answer: CachedAnswer) -> "Flight":
        """The flight of an answer that is kept."""
        flight = cls()
        flight.events, flight.kept, flight.over, flight.begun = [*answer.events], answer, True, True
        return flight

    @property
    def started(self) -> Started:
        """How the answer has begun."""
        if self.kept is not None:
            return self.kept.started
        return self.answer.started() if self.answer is not None else _NOTHING_YET

    @property
    def usage(self) -> Usage:
        """The tokens of the generation so far."""
        if self.kept is not None:
            return self.kept.usage
        return (self.answer.usage if self.answer is not None else None) or NO_USAGE

    @property
    def losses(self) -> Mapping[str, str]:
        """What of the request the provider that answers was not told."""
        if self.kept is not None:
            return self.kept.losses
        return {} if self.trace is None else self.trace.losses

    @property
    def followed(self) -> bool:
        """Whether anybody follows it."""
        return bool(self._followers)

    def add(self, events: Sequence[Event]) -> None:
        """More has come of the answer."""
        self.events += events
        for each in [each for each in self._followers if each.live]:
            each.tell()

    def end(self, failure: SmgError | None = None) -> None:
        """Nothing more comes of it."""
        if self.over:
            return
        self.over, self.failure = True, failure
        for each in [*self._followers]:
            each.tell()

    def join(self, follower: "Follower") -> None:
        """One more follows it."""
        self._followers.append(follower)

    def leave(self, follower: "Follower") -> None:
        """One follows it no longer."""
        if follower not in self._followers:
            return
        self._followers.remove(follower)
        if not self._followers and not self.over and self._on_left is not None:
            self._on_left(self)
        self.pace()

    def pace(self) -> None:
        """Hold the engine back while all who follow the events as they come are behind."""
        if self.answer is not None and not self.over:
            live = [each for each in self._followers if each.live]
            self.answer.hold(held=bool(live) and len(live) == len(self._followers) and all(e.paused for e in live))


class Follower:
    """The call by which one request follows a flight. `live`: it is told the events as they come, not at the end; `leads`: the
    generation is that of this request, so its failure is."""

    def __init__(self, flight: Flight, attempt: "Attempt[Event]", *, live: bool, leads: bool = False) -> None:
        self._flight, self._attempt, self.live, self._leads = flight, attempt, live, leads
        self.paused = self._due = False
        self._at = 0

    def tell(self) -> None:
        """Tell the request what it was not told yet; the rest soon, if that is much."""
        flight, attempt = self._flight, self._attempt
        if self.paused or self._due or attempt.over or not (self.live or flight.over):
            return
        if flight.failure is not None:
            own = self._leads or self._at
            attempt.end(flight.failure if own else _shared_failure(flight.failure))
            return
        events = flight.events[self._at : self._at + _AT_ONCE]
        if events:
            self._at += len(events)
            flight.seen = flight.seen or not flight.over
            attempt.push(events)
        if self._at < len(flight.events):
            self._due = True
            asyncio.get_running_loop().call_soon(self._go_on)
        elif flight.over and not attempt.over:
            attempt.closed(None)

    def _go_on(self) -> None:
        self._due = False
        self.tell()

    # ------------------------------------------------------------------------------------------- as a call of an engine

    def cancel(self) -> None:
        self._flight.leave(self)

    def leave(self) -> None:
        self._flight.leave(self)

    def pause(self) -> None:
        self.paused = True
        self._flight.pace()

    def resume(self) -> None:
        self.paused = False
        self._flight.pace()
        self.tell()


def _shared_failure(failure: SmgError) -> SmgError:
    """What a request is told that has seen nothing of a generation that failed: the same, if it is to blame itself."""
    if isinstance(failure, NotShared) or (400 <= failure.status < 500 and failure.status not in (408, 429, 499)):
        return failure
    return NotShared(again=False)


class _FlightReader:
    """Reads the events of a flight as a turn. `free`: the request has no tokens of its own in it."""

    family = ""
    engine_done = True

    def __init__(self, flight: Flight, calls: int, *, free: bool) -> None:
        self._flight, self._free, self._calls = flight, free, calls
        self.finishes: list[Finished] = []
        self.rest: list[Event] = []
        self.strict: frozenset[str] | None = None
        self.done = False
        self._passed_on = 0

    @property
    def whole(self) -> bool:
        flight = self._flight
        return flight.over and flight.failure is None and self._passed_on == len(flight.events)

    @property
    def next_call(self) -> int:
        return self._calls

    @property
    def prompt_tokens(self) -> int:
        return self._flight.started.prompt_tokens

    @property
    def cached_tokens(self) -> int:
        started = self._flight.started
        return started.prompt_tokens if self._free else started.cached_tokens or 0

    def feed(self, outputs: Sequence[Event], /) -> list[Event]:
        self._passed_on += len(outputs)
        for event in outputs:
            if isinstance(event, Finished):
                self.finishes.append(event)
            elif isinstance(event, ToolCallStart):
                self._calls += 1
        self.done, self.strict = self.whole, self._flight.started.strict
        return [*outputs]

    def usage(self) -> Usage:
        usage = self._flight.usage
        return replace(usage, cached_tokens=usage.prompt_tokens, cache_write_tokens=0) if self._free else usage

    def cut(self) -> list[Event]:
        return []


class Follow(Step[Turn], frozen=True):
    """Tell the request the events of a flight. `live`: as they come. `leads`: its tokens are the request's own."""

    flight: Flight
    live: bool
    leads: bool


def followed(flight: Flight, *, live: bool, leads: bool) -> Flow[Turn]:
    """The response of a request that follows a flight. Raises NotShared where nothing comes of that, and its client has seen
    nothing; one that `leads` is told why."""
    turn = yield from ask(Follow(flight, live, leads))
    yield from ask(Finish(turn))
    return turn


async def follow_flight(step: Follow, run: Run) -> Turn:
    """The performer of `Follow`."""
    flight, answer = step.flight, run.answer
    reader = _FlightReader(flight, answer.calls, free=not step.leads)
    attempt: Attempt[Event] = Attempt(reader, _Beginning(flight, answer, run.trace))
    answer.begin(attempt)
    follower = Follower(flight, attempt, live=step.live, leads=step.leads)
    flight.join(follower)
    attempt.reads_from(follower)
    try:
        follower.tell()
        await answer.carry(attempt)
    finally:
        attempt.release()
        flight.leave(follower)
    if attempt.error is not None:
        raise attempt.error
    if attempt.state != "complete":
        raise InternalError("The gateway failed on this request.")
    return Turn(tuple(reader.finishes), reader.usage())


class _Beginning:
    """Passes events on to an answer, which says how the shared one began."""

    def __init__(self, flight: Flight, answer: Answer, trace: Trace) -> None:
        self._flight, self._answer, self._trace = flight, answer, trace

    def take(self, events: Sequence[Event], over: bool) -> None:
        answer = self._answer
        if events and not answer.committed:
            started = self._flight.started
            answer.dropped, answer.edits, answer.prompt_ids = started.dropped, started.edits, started.prompt_ids
            answer.effective = started.effective
            if losses := self._flight.losses:
                self._trace.losses = losses
        answer.take(events, over)
