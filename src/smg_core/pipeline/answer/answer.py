"""The response to one client: events in, response bytes out (edge).

An `Answer` is the client side of a request: encoder, buffer, back-pressure, commit point. Attempts push events into it (`take`);
the request's coroutine writes what has gathered (`carry`, `flush`) in one call. Under load several tokens leave in one write, and
the token of an idle stream leaves at once: there is no timer. Once a stream is under way and its socket takes more, what was
encoded is written in the push itself, and the coroutine sleeps on.

It is the only maker of `Started`, `Usage`, `Done`, `Cancelled` and `Failed`, so that a response fed by any number of attempts and
turns has each of them once. The first write is the commit point: before it an attempt that failed leaves no trace (`begin` of the
next one drops its events); after it, nothing can be taken back.

    state       begin(attempt)           take        carry, flush            finish, cancel    fail(error)
    open        drops a failed attempt   buffered    writes -> committed     -> over           -> refused (says False), or over
    committed   closes its open blocks   buffered    writes                  -> over           -> over (in band; says True)
    over        wrong                    ignored     nothing to write        wrong             nothing (says True)
    refused     wrong                    ignored     nothing to write        wrong             nothing (says False)

What an encoder raises is not the engine's fault: it ends the answer with `ReadingFailed`, in an attempt's push as well as here.
Where the encoder of a stream cannot say that either, a new one does.

An answer that leaves whole is committed by `finish` alone. What has been encoded and not yet written is bounded: at `high_water`
bytes the engine's stream is paused until the client has caught up.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from smg_core.errors import GuardrailBlocked, ReadingFailed, SmgError
from smg_core.events import (
    NO_USAGE,
    NOTHING_EFFECTIVE,
    Cancelled,
    Done,
    DroppedReasoning,
    EditedContext,
    Event,
    Failed,
    Finished,
    Started,
    Usage,
)
from smg_core.pipeline.answer.attempt import AnyAttempt
from smg_core.pipeline.answer.keep_alive import Silence, StreamKeepAlive
from smg_core.wire.base import StreamEncoder, WholeEncoder

__all__ = ["Answer", "StreamedAnswer", "WholeAnswer", "Write"]

Write = Callable[[bytes, bool], Awaitable[None]]
"""`await write(data, last)`: pass bytes to the client; `last` ends the response."""


async def _nowhere(data: bytes, last: bool) -> None:
    """The `write` function of an answer after `release`; does nothing."""


class _Encoding:
    """Makes what is raised within it, by an encoder, an error that ends the answer; `attempt` has made what was encoded."""

    __slots__ = ("_attempt",)

    def __init__(self, attempt: AnyAttempt | None) -> None:
        self._attempt = attempt

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, _: object) -> None:
        if isinstance(fault, Exception) and not isinstance(fault, SmgError):
            raise _unread(fault, self._attempt) from fault


def _unread(fault: Exception, attempt: AnyAttempt | None) -> SmgError:
    """The error that ends an answer of which `attempt` made what could not be encoded."""
    error = ReadingFailed.of(fault)
    if attempt is not None and isinstance(error, ReadingFailed):
        error.read_by(attempt.reader.family)
    return error


class Answer:
    """One response to one client. `model` is what the client asked for; `unwritten` is how many bytes wait to be written;
    `dropped` is what was left out of the prompt, `edits` what was made shorter, and `prompt_ids` its ids where they are asked
    for, and `effective` the settings in effect, all of which `Started` tells. `leading` are the events of the flow before its
    first attempt, which come behind `Started`; `hidden` are the numbers of the calls of tools that run here, which the client
    does not get as calls."""

    __slots__ = (
        "_attempt",
        "_brought",
        "_calls",
        "_model",
        "_spent",
        "_started",
        "_waiter",
        "_write",
        "dropped",
        "edits",
        "effective",
        "failure",
        "hidden",
        "leading",
        "prompt_ids",
        "state",
        "unwritten",
    )

    def __init__(self, write: Write, *, model: str) -> None:
        self.state: Literal["open", "committed", "over", "refused"] = "open"
        self.failure: SmgError | None = None
        self.dropped: tuple[DroppedReasoning, ...] = ()
        self.edits: tuple[EditedContext, ...] = ()
        self.effective = NOTHING_EFFECTIVE
        self.leading: tuple[Event, ...] = ()
        self.prompt_ids: tuple[int, ...] = ()
        self.hidden: frozenset[int] = frozenset()
        self.unwritten = 0
        self._calls = 0
        self._model = model
        self._write = write
        self._attempt: AnyAttempt | None = None
        self._brought = False  # whether an attempt with the reader of the one under way brought something
        self._spent: Usage | None = None
        self._started = False
        self._waiter: asyncio.Future[None] | None = None

    def release(self) -> None:
        """Drop the references to client and attempt, once the request is over: the memory of a large request is then free at
        once, without waiting for the garbage collector to find reference cycles."""
        self._write = _nowhere
        self._attempt = None

    @property
    def encoder(self) -> StreamEncoder | WholeEncoder:
        """What has made the response so far."""
        raise AssertionError("a subclass encodes events")

    @property
    def committed(self) -> bool:
        """Whether the client has been sent something that cannot be taken back."""
        return self.state in ("committed", "over")

    @property
    def usage(self) -> Usage | None:
        """The tokens of all turns so far, the one under way included; None before the first."""
        if self._attempt is None:
            return self._spent
        now = self._attempt.usage()
        return now if self._spent is None else self._spent + now

    @property
    def calls(self) -> int:
        """The number of tool calls in all turns so far, without those of an attempt that will be dropped."""
        attempt = self._attempt
        if attempt is None or (attempt.state == "failed" and self.state == "open"):
            return self._calls
        return attempt.reader.next_call

    @property
    def earlier_calls(self) -> int:
        """The number of tool calls in the turns before the one under way."""
        return self._calls

    # -------------------------------------------------------------------------------------- driven by the request

    def begin(self, attempt: AnyAttempt) -> None:
        """Take events from `attempt` from now on. Events of an earlier attempt that failed are dropped, unless `attempt` goes on
        with the same reader or the client has seen some of them. One that brought nothing leaves no trace."""
        if self.state not in ("open", "committed"):
            raise AssertionError(f"an attempt on an answer that is {self.state}")
        before, self._attempt = self._attempt, attempt
        if before is None:
            return
        self._brought = self._brought or before.pushes > 0
        if before.reader is attempt.reader:
            return
        brought, self._brought = self._brought, False
        if before.state == "failed" and self.state == "open":
            self.hidden = frozenset([call for call in self.hidden if call < self._calls])
            self._rewind()
            return
        if before.state == "failed" and not brought:
            return  # the client has seen other things than this attempt, of which nothing came
        self._settle(before)

    def _settle(self, attempt: AnyAttempt) -> None:
        """Make the turn of `attempt` a part of the response: count its calls and tokens, close its open blocks."""
        if attempt.state == "failed" and (events := attempt.reader.cut()):
            with self._encoding():
                self._keep(events)
        self._calls = attempt.reader.next_call
        usage = attempt.usage()
        self._spent = usage if self._spent is None else self._spent + usage

    def _encoding(self) -> _Encoding:
        return _Encoding(self._attempt)

    def _rewind(self) -> None:
        """Drop the events of the turn under way."""
        raise AssertionError("a subclass rewinds")

    def _keep(self, events: Sequence[Event]) -> None:
        raise AssertionError("a subclass encodes events")

    async def carry(self, attempt: AnyAttempt) -> None:
        """Wait until `attempt` is over; a streamed answer writes its events meanwhile."""
        raise AssertionError("a subclass carries")

    async def flush(self) -> None:
        """Write what is buffered and can no longer be dropped. The driver calls it before each step that may take time."""

    async def finish(self, finishes: Sequence[Finished] = ()) -> None:
        """End the response, complete. `finishes` are the ends of choices that have not passed through `take`."""
        await self._end([*finishes, self.usage or NO_USAGE, Done()])

    async def cancel(self, reason: str) -> None:
        """End the response before it is complete, because the client or the gateway wishes so."""
        await self._end([self._total(), Cancelled(reason)])

    async def fail(self, error: SmgError, *, in_band: bool = False) -> bool:
        """End the response with `error`: as an event of the stream if the client has seen some of it, or if `in_band` asks for
        that. Returns False if nothing was written; then the caller answers with an HTTP error."""
        if self.state in ("over", "refused"):
            return self.state == "over"
        if isinstance(error, GuardrailBlocked) and error.ends_the_answer:
            in_band = True  # no failure: it ends as one that a filter has cut
        else:
            self.failure = error
        if self.state == "open" and not in_band:
            self.state = "refused"
            return False
        await self._end([self._total(), Failed(error)])
        return True

    def expire(self, error: SmgError) -> bool:
        """Called when the request's time is up: ends the attempt under way with `error`. Returns False if there is none and the
        request waits for something else; True if the answer is over and only has to be written."""
        if self.state in ("over", "refused"):
            return True
        if self._attempt is None or self._attempt.over:
            return False
        self._attempt.end(error)
        return True

    def _total(self) -> Usage:
        return self.usage or NO_USAGE

    async def _end(self, events: Sequence[Event]) -> None:
        raise AssertionError("a subclass ends")

    def tell(self, events: Sequence[Event]) -> None:
        """Events of the flow itself, between two attempts; they leave with the next write."""
        raise AssertionError("a subclass tells")

    # --------------------------------------------------------------------------------------- pushed by the attempt

    def take(self, events: Sequence[Event], over: bool) -> None:
        """More events of the attempt that was begun last; `over` when it has ended."""
        raise AssertionError("a subclass takes events")

    def _opened(self, events: Sequence[Event]) -> Sequence[Event]:
        """`events`; if they are the first of the response, after the event that opens it."""
        if self._started or self._attempt is None:
            return events
        self._started = True
        reader = self._attempt.reader
        started = Started(
            reader.prompt_tokens,
            reader.cached_tokens,
            self._model,
            self.dropped,
            self.edits,
            self.prompt_ids,
            self.effective,
            reader.strict,
        )
        return [started, *self.leading, *events]

    def _led(self, events: Sequence[Event]) -> bool:
        """Keep events that the flow tells before its first attempt until that has output; returns whether they are kept."""
        if self._attempt is not None or self.state != "open":
            return False
        self.leading += tuple(events)
        return True

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)


class StreamedAnswer(Answer):
    """A streamed answer. `write_now(data)` passes bytes to the client if that needs no waiting; False means that nothing was
    written."""

    __slots__ = (
        "_buffer",
        "_current",
        "_earlier",
        "_encoder",
        "_high_water",
        "_make_encoder",
        "_silence",
        "_write_now",
        "_writing",
    )

    def __init__(
        self,
        make_encoder: Callable[[], StreamEncoder],
        write: Write,
        *,
        model: str,
        high_water: int,
        write_now: Callable[[bytes], bool] | None = None,
        keep_alive: StreamKeepAlive | None = None,
    ) -> None:
        super().__init__(write, model=model)
        self._writing = False
        self._make_encoder = make_encoder
        self._high_water = high_water
        self._write_now = write_now
        self._earlier: list[Sequence[Event]] = []  # of turns before this one, while they can be taken back
        self._current: list[Sequence[Event]] = []
        self._silence = None if keep_alive is None else Silence(keep_alive, self._keep_alive)
        self._reset()

    @property
    def content_type(self) -> str:
        return self._encoder.content_type

    @property
    def encoder(self) -> StreamEncoder:
        """What has made the answer so far."""
        return self._encoder

    @property
    def verbatim(self) -> str:
        """The API in whose own words the encoder takes an answer, "" for none."""
        return getattr(self._encoder, "verbatim", "")

    def _reset(self) -> None:
        self._encoder = self._make_encoder()
        self._buffer: list[bytes] = [self._encoder.start()]
        self.unwritten = 0

    def _settle(self, attempt: AnyAttempt) -> None:
        super()._settle(attempt)
        self._earlier += self._current
        self._current = []

    def _rewind(self) -> None:
        self._current.clear()
        self._started = bool(self._earlier)
        with self._encoding():
            self._reset()
            for events in self._earlier:
                self._put(self._encoder.encode(events))

    def _keep(self, events: Sequence[Event]) -> None:
        self._put(self._encoder.encode(events))

    def _put(self, data: bytes) -> None:
        if data:
            self._buffer.append(data)
            self.unwritten += len(data)

    async def carry(self, attempt: AnyAttempt) -> None:
        while attempt.state == "running":
            if self.unwritten:
                await self._write_out(last=False)
                if attempt.paused and self.unwritten <= self._high_water:
                    attempt.resume()
            else:
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter

    async def flush(self) -> None:
        certain = self._attempt is None or self._attempt.state != "failed" or self.state == "committed"
        if self.unwritten and certain:
            await self._write_out(last=False)

    def release(self) -> None:
        super().release()
        if self._silence is not None:
            self._silence.stop()
            self._silence = None  # it refers to this answer: a reference cycle would keep both in memory

    def _keep_alive(self) -> bool:
        """Called after a silence: sends the API's keep-alive, unless bytes wait for the client anyway. False if it cannot be sent
        now."""
        waits = self._waiter is not None
        if self.state not in ("open", "committed") or self.unwritten or self._writing:
            return False
        if self.state == "open" and not waits:
            return False
        data = self._encoder.keep_alive()
        if self.state == "committed" and self._write_now is not None and self._write_now(data):
            return True
        if waits:
            self._put(data)
            self._wake()
        return waits

    async def _write_out(self, *, last: bool) -> None:
        data = b"".join(self._buffer)
        self._buffer.clear()
        self.unwritten = 0
        if self.state == "open":
            self.state = "committed"
            self._earlier, self._current = [], []  # nothing can be taken back any more
        if self._silence is not None:
            self._silence.committed()
        self._writing = True
        try:
            await self._write(data, last)
        except (
            asyncio.CancelledError
        ):  # the client read nothing meanwhile: the end of the answer must come after this data
            self._buffer.insert(0, data)
            self.unwritten += len(data)
            raise
        finally:
            self._writing = False

    async def _end(self, events: Sequence[Event]) -> None:
        if self.state not in ("open", "committed"):
            raise AssertionError(f"an answer that is {self.state} cannot be ended")
        self._put_end(events if self._started else self._opened(events))
        self.state = "over"
        await self._write_out(last=True)

    def _put_end(self, events: Sequence[Event]) -> None:
        """Put the last events behind the others. Raises the fault of an encoder, but not where they tell of a failure already."""
        try:
            self._put(self._encoder.encode(events))
        except Exception as fault:
            if isinstance(events[-1], Failed):
                self._encoder = self._make_encoder()  # the one before was broken off in the midst of something
                self._encoder.start()
                self._put(self._encoder.encode(events))
                return
            if isinstance(fault, SmgError):
                raise
            raise _unread(fault, self._attempt) from fault

    def take(self, events: Sequence[Event], over: bool) -> None:
        if self.state != "committed":
            if self.state != "open":
                return
            events = self._first(events)
        data = self._encoder.encode(events) if events else b""
        if data and self._silence is not None:
            self._silence.spoke = True
        waiter = self._waiter
        # If the coroutine waits, it has written everything before: bytes written now are in order.
        flows = waiter is not None and not over and self.state == "committed"
        if flows and self._write_now is not None and (not data or self._write_now(data)):
            return
        if data:
            self._buffer.append(data)
            self.unwritten += len(data)
            attempt = self._attempt
            if self.unwritten > self._high_water and attempt is not None and not attempt.paused and not over:
                attempt.pause()
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def tell(self, events: Sequence[Event]) -> None:
        if self._led(events):
            return
        if self.state == "open":
            events = self._first(events)
        if self.state in ("open", "committed"):
            with self._encoding():
                self._put(self._encoder.encode(events))

    def _first(self, events: Sequence[Event]) -> Sequence[Event]:
        """`events`; if they are the first of the response, after the event that opens it, which a rewind drops too."""
        if events:
            events = self._opened(events)
            self._current.append(events)
        return events


class WholeAnswer(Answer):
    """An answer that is not streamed. A worker may be lost at any time before it is sent, and another one asked. Only the encoder
    holds the events; a copy of it is kept at the end of each turn."""

    __slots__ = ("_encoder", "_make_encoder", "_settled", "_settled_started")

    def __init__(self, make_encoder: Callable[[], WholeEncoder], write: Write, *, model: str) -> None:
        super().__init__(write, model=model)
        self._make_encoder = make_encoder
        self._encoder = make_encoder()
        self._settled: WholeEncoder | None = None
        self._settled_started = False

    @property
    def content_type(self) -> str:
        return self._encoder.content_type

    @property
    def encoder(self) -> WholeEncoder:
        """What has made the answer so far."""
        return self._encoder

    @property
    def verbatim(self) -> str:
        """The API in whose own words the encoder takes an answer, "" for none."""
        return getattr(self._encoder, "verbatim", "")

    def _settle(self, attempt: AnyAttempt) -> None:
        super()._settle(attempt)
        with self._encoding():
            self._settled, self._settled_started = self._encoder.fork(), self._started

    def _rewind(self) -> None:
        with self._encoding():
            self._encoder = self._make_encoder() if self._settled is None else self._settled.fork()
        self._started = self._settled_started

    def _keep(self, events: Sequence[Event]) -> None:
        self._encoder.add(events)

    async def carry(self, attempt: AnyAttempt) -> None:
        while attempt.state == "running":
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    async def _end(self, events: Sequence[Event]) -> None:
        if self.state != "open":
            raise AssertionError(f"an answer that is {self.state} cannot be ended")
        try:
            self._encoder.add(events if self._started else self._opened(events))
            body = self._encoder.body()
        except SmgError:
            raise
        except Exception as fault:
            raise _unread(fault, self._attempt) from fault
        self.state = "over"
        await self._write(body, True)

    def tell(self, events: Sequence[Event]) -> None:
        if not self._led(events) and self.state == "open":
            with self._encoding():
                self._keep(self._opened(events))

    def take(self, events: Sequence[Event], over: bool) -> None:
        if self.state == "open" and events:
            self._keep(events if self._started else self._opened(events))
        waiter = self._waiter
        if over and waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)
