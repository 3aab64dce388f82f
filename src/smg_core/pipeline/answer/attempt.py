"""One call of one engine: turns what the engine pushes into events, and keeps how the call ended.

An engine of either role pushes into an `Attempt`: outputs of token ids, which an `OutputProcessor` reads, or events of an
engine that speaks chat, which a `ChatReader` reads. The attempt pushes the resulting events into its `EventReceiver` (the
`Answer`). All of this happens in one plain call on the event loop's thread.

    state       push         closed(None)  closed(error)  end(error)   release
    running     -> running   -> complete   -> failed      -> failed    reset the call
                -> complete     where the reader is whole
                -> failed    -> failed where it is not
    complete    ignored      noted         noted          ignored      leave the call to its end, else reset it
    failed      ignored      noted         noted          ignored      reset the call

A push completes the attempt when every choice has finished, and fails it when the reader finds an error. An attempt
that is released while it runs was given up by the gateway: its state is then `failed`, without an error.

Whatever else is raised while a push is read or taken is a fault of the gateway's own code, not of the engine: it fails the
attempt with `ReadingFailed`, also one that was complete, and never reaches the transport, which would take it for the loss of its
connection. So it is with an error that speaks of an engine (`WorkerError`) and comes from where events are taken, and with
a cancellation: nothing is awaited here, so it is not the client's.

An attempt may go on where another one ended: it is made with the other's reader (`Attempt(failed.reader, ...)`), so that
detokeniser, parser, stop strings and counts go on as if one engine had spoken. Above: pipeline.calls.streaming makes one for each
engine call. Below: the readers. Knows no wire and no API.
"""

from collections.abc import Callable, Sequence
from typing import Generic, Literal, Never, Protocol, TypeVar

from smg_core.engines.calls import AnswerCall
from smg_core.errors import EngineGarbled, EngineTimeout, ReadingFailed, SmgError, WorkerError
from smg_core.events import Event, Finished, Usage
from smg_core.pipeline.prompt.prompt_shares import PromptShares

__all__ = ["AnyAttempt", "AnyReader", "Attempt", "EventReceiver", "TurnReader"]

Pushed = TypeVar("Pushed", contravariant=True)


class TurnReader(Protocol[Pushed]):
    """Turns an engine's pushes into events; holds the state of one turn. `done`: every choice has finished; `engine_done`: the
    engine has said so itself; `finishes`: the ends of the choices so far; `rest`: the events before the error in a push that
    could not be read to its end; `family`: the name of the family whose parser reads the output, "" where none does. `strict`:
    the functions whose calls the engine holds to their schemas, None where that is not known."""

    done: bool
    strict: frozenset[str] | None
    finishes: list[Finished]
    rest: list[Event]

    @property
    def whole(self) -> bool:
        """Whether the turn is complete if the engine closes its stream now."""
        ...

    @property
    def engine_done(self) -> bool: ...

    @property
    def family(self) -> str: ...

    @property
    def next_call(self) -> int:
        """The number of the next tool call of the response."""
        ...

    @property
    def prompt_tokens(self) -> int: ...

    @property
    def cached_tokens(self) -> int: ...

    def feed(self, outputs: Sequence[Pushed], /) -> list[Event]:
        """The events that follow. Raises SmgError when the engine failed or broke its protocol."""
        ...

    def usage(self) -> Usage: ...

    def cut(self) -> list[Event]: ...


class EventReceiver(Protocol):
    """Receives an attempt's events."""

    def take(self, events: Sequence[Event], over: bool) -> None:
        """More events, perhaps none; `over` says that the attempt has ended and nothing more comes from it."""
        ...


class Attempt(Generic[Pushed]):
    """`on_first` is called once, with the first events. `tells_stops`: the engine knows every stop condition, so it ends the turn
    by itself where the gateway does. `shares`: what the prompt consists of besides text. `pushes` counts the engine's pushes and
    `beats` its signs of life without one; `paused`: the engine is held back, `silent`: it will say all at once. `on_end` is
    called by `end`; it is set while the call is being opened, so that opening can be cancelled. `blames` is the name of the
    worker that it was ended for, "" where nobody has said."""

    __slots__ = (
        "_call",
        "_closed",
        "_on_first",
        "_receiver",
        "_shares",
        "_take",
        "_tells_stops",
        "_usage",
        "beats",
        "blames",
        "error",
        "on_end",
        "paused",
        "pushes",
        "reader",
        "silent",
        "state",
    )

    def __init__(
        self,
        reader: TurnReader[Pushed],
        receiver: EventReceiver,
        *,
        on_first: Callable[[], None] | None = None,
        tells_stops: bool = True,
        shares: PromptShares | None = None,
    ) -> None:
        self.reader = reader
        self.state: Literal["running", "complete", "failed"] = "running"
        self.error: SmgError | None = None
        self.blames = ""
        self.pushes = self.beats = 0
        self.paused = self.silent = False
        self.on_end: Callable[[], None] | None = None
        self._receiver = receiver
        self._take = receiver.take
        self._on_first = on_first
        self._tells_stops = tells_stops
        self._shares = shares
        self._call: AnswerCall | None = None
        self._closed = False
        self._usage: Usage | None = None

    # ---------------------------------------------------------------------------------------- pushed by the engine

    def push(self, pushed: Sequence[Pushed], /) -> None:
        """Called by the engine's client with what one read of the stream brought."""
        if self.state != "running":
            return
        self.pushes += 1
        reader = self.reader
        try:
            try:
                events = reader.feed(pushed)
            except SmgError as error:
                if reader.rest:  # the reader has counted these events: they must reach the answer too
                    self._note_first()
                    self._take(reader.rest, False)
                self.end(error)
                return
            if events and self._on_first is not None:
                self._note_first()
            if reader.done:
                self.state = "complete"
                self._take(events, True)
            elif events:
                self._take(events, False)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as fault:  # noqa: BLE001  # parser, encoder: the engine is not to pay for any of them
            self._spoil(fault)

    @property
    def verbatim(self) -> str:
        """The API in whose own words the answer may be told by an engine that speaks it, "" for none."""
        return getattr(self._receiver, "verbatim", "") if getattr(self.reader, "plain", False) else ""

    def alive(self) -> None:
        """Called where the engine has said that it is at work, and nothing more."""
        self.beats += 1

    def wait_for_all(self) -> None:
        """Called where the engine says all at once: until then its silence means nothing."""
        self.silent = True

    def _spoil(self, fault: BaseException) -> None:
        """Fail for what was raised on this side, also where the engine has come to a good end."""
        if self.state == "complete":
            self.state = "running"
        if isinstance(fault, SmgError) and not isinstance(fault, WorkerError):
            self.end(fault)
        else:
            self.end(ReadingFailed.hiding(fault))

    def _note_first(self) -> None:
        on_first, self._on_first = self._on_first, None
        if on_first is not None:
            on_first()

    def closed(self, error: SmgError | None) -> None:
        """The engine's stream is over. An engine that was not understood, or was too slow, may go on with the request."""
        self._closed = not isinstance(error, EngineGarbled | EngineTimeout | ReadingFailed)
        if self.state != "running":
            return
        if error is None and self.reader.whole:
            self.state = "complete"
            self._take((), True)
        else:
            self.end(error or EngineGarbled("The engine's stream ended before its answer was complete."))

    # ------------------------------------------------------------------------------------------- driven by the request

    @property
    def over(self) -> bool:
        return self.state != "running"

    def usage(self) -> Usage:
        """What the turn has used so far."""
        if self._usage is None:
            usage = self.reader.usage()
            if self._shares is not None:
                usage = self._shares.with_shares(usage)
            if self.state == "running":
                return usage
            self._usage = usage
        return self._usage

    def end(self, error: SmgError, blames: str = "") -> None:
        """Fail with `error`, unless the attempt is over already. `blames` is the name of the worker that is the reason, where one
        of several is."""
        if self.state == "running":
            if isinstance(error, ReadingFailed):
                error.read_by(self.reader.family)
            self.state, self.error, self.blames = "failed", error, blames
            self._take((), True)
            if self.on_end is not None:
                self.on_end()

    def reads_from(self, call: AnswerCall | None) -> None:
        """Set the engine call whose messages arrive here, to be paused and reset; None if no engine had to be asked."""
        self._call = call

    def pause(self) -> None:
        """Hold the engine back until `resume`."""
        self.paused = True
        if self._call is not None:
            self._call.pause()

    def resume(self) -> None:
        self.paused = False
        if self._call is not None:
            self._call.resume()

    def release(self) -> bool:
        """Give up the engine's call. If the engine still works on it, the stream is reset and True is returned: an Abort must be
        sent too. If it has finished and only its status is missing, the status may still come, soon."""
        if self.state == "running":
            self.state = "failed"
        call, self._call = self._call, None
        if call is None or self._closed:
            return False
        if self.state == "complete" and self.reader.engine_done:
            call.leave()
            return False
        call.cancel()
        return self.state != "complete" or not self._tells_stops


AnyReader = TurnReader[Never]
"""A reader, whatever it is fed with."""

AnyAttempt = Attempt[Never]
"""An attempt, whatever its engine brings: outputs of token ids, or events."""
