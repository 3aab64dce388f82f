"""Answers whose events somebody is shown, and may change, before they are encoded (edge).

An answer of this kind keeps events until the request's coroutine takes them: whoever is shown them may wait, which a push may
not. What was shown cannot be taken back, so events are shown when they would be written: those of a stream from the commit point
on, those of a whole answer at its end. If that refuses the answer, nothing more of it is shown or written, and the engine's call
ends with the refusal. Above: serving.answering, `parted`. Below: `answer`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, cast, runtime_checkable

from smg_core.errors import GuardrailBlocked, InternalError, SmgError
from smg_core.events import Done, Event, Failed, ReasoningDelta, RefusalDelta, TextDelta, ToolCallDelta
from smg_core.pipeline.answer.answer import StreamedAnswer, WholeAnswer, Write
from smg_core.pipeline.answer.attempt import AnyAttempt
from smg_core.pipeline.answer.keep_alive import StreamKeepAlive
from smg_core.wire.base import StreamEncoder, WholeEncoder

__all__ = ["HoldsBack", "Show", "TransformedStream", "TransformedWhole", "streamed_answer", "whole_answer"]

Show = Callable[[Sequence[Event]], Awaitable[Sequence[Event]]]
"""`await show(events)`: the events that leave in their place. Raises SmgError, which refuses the answer."""


@runtime_checkable
class HoldsBack(Protocol):
    """Who is shown events and holds some back for a time: calls `wake` to be shown what there is, be it nothing."""

    wake: Callable[[], None] | None


_EVENT = 64  # bytes that an event counts as beside its text


def _size(events: Sequence[Event]) -> int:
    """About how many bytes events will be."""
    size = _EVENT * len(events)
    for event in events:
        if isinstance(event, TextDelta | ReasoningDelta | RefusalDelta):
            size += len(event.text)
        elif isinstance(event, ToolCallDelta):
            size += len(event.arguments)
    return size


def streamed_answer(
    make_encoder: Callable[[], StreamEncoder],
    write: Write,
    *,
    model: str,
    high_water: int,
    show: Show | None,
    write_now: Callable[[bytes], bool] | None = None,
    keep_alive: StreamKeepAlive | None = None,
) -> StreamedAnswer:
    """A streamed answer, which shows its events to `show` if there is one."""
    if show is not None:
        return TransformedStream(
            make_encoder, write, model=model, high_water=high_water, show=show, keep_alive=keep_alive
        )
    return StreamedAnswer(
        make_encoder, write, model=model, high_water=high_water, write_now=write_now, keep_alive=keep_alive
    )


def whole_answer(
    make_encoder: Callable[[], WholeEncoder], write: Write, *, model: str, show: Show | None
) -> WholeAnswer:
    """An answer that leaves whole, which shows its events to `show` if there is one."""
    if show is not None:
        return TransformedWhole(make_encoder, write, model=model, show=show)
    return WholeAnswer(make_encoder, write, model=model)


class TransformedStream(StreamedAnswer):
    """A streamed answer of which `show` is shown the events. `unwritten` counts about the bytes that they will be."""

    __slots__ = ("_due", "_pending", "_refusal", "_show")
    verbatim = ""  # what is shown is told in the gateway's words

    def __init__(
        self,
        make_encoder: Callable[[], StreamEncoder],
        write: Write,
        *,
        model: str,
        high_water: int,
        show: Show,
        keep_alive: StreamKeepAlive | None = None,
    ) -> None:
        self._show = show
        self._due = False  # what is held back for a time has been for long enough
        if isinstance(show, HoldsBack):
            show.wake = self._come_back
        self._refusal: SmgError | None = None
        self._pending: list[Event] = []
        super().__init__(make_encoder, write, model=model, high_water=high_water, keep_alive=keep_alive)

    def begin(self, attempt: AnyAttempt) -> None:
        if self._refusal is not None:
            raise self._refusal
        super().begin(attempt)

    def _rewind(self) -> None:
        self._pending.clear()
        self._current.clear()
        self._started = bool(self._earlier)
        self._reset()
        for events in self._earlier:
            self._keep(events)

    def _keep(self, events: Sequence[Event]) -> None:
        self._pending += events
        self.unwritten += _size(events)

    async def _show_pending(self) -> None:
        """Show what has come, and encode what is left of it. The answer is committed then, also where all is held back."""
        events, self._pending = self._pending, []
        if not (events or self._due) or self._refusal is not None:
            return
        self._due = False
        try:
            transformed = await self._show(events)
        except GuardrailBlocked as error:  # what may still leave of it does, and its end follows
            self._refuse(error)
            with self._encoding():
                self._put(self._encoder.encode(cast("Sequence[Event]", error.left)))
            raise
        except SmgError as error:
            self._refuse(error)
            raise
        except asyncio.CancelledError:  # nobody knows what was shown: only the end of the answer can follow
            self._refuse(InternalError("The answer was cut off."))
            raise
        if self.state == "open":
            self.state = "committed"
            self._earlier, self._current = [], []
        try:
            with self._encoding():
                self._put(self._encoder.encode(transformed))
        except SmgError as error:
            self._refuse(error)
            raise

    def _refuse(self, error: SmgError) -> None:
        self._refusal = error
        self._pending.clear()
        self.unwritten = 0

    def _come_back(self) -> None:
        """Something is held back for long enough: have the request's coroutine show what there is."""
        if self.state in ("open", "committed") and self._refusal is None:
            self._due = True
            self.unwritten = max(1, self.unwritten)
            self._wake()

    def release(self) -> None:
        super().release()
        if isinstance(self._show, HoldsBack):
            self._show.wake = None  # a reference cycle would keep both in memory

    async def _write_out(self, *, last: bool) -> None:
        await self._show_pending()
        if last or any(self._buffer):
            await super()._write_out(last=last)
        else:
            self.unwritten = _size(self._pending)

    async def _end(self, events: Sequence[Event]) -> None:
        if self.state not in ("open", "committed"):
            raise AssertionError(f"an answer that is {self.state} cannot be ended")
        if isinstance(self._refusal, GuardrailBlocked):
            self._put_end(self._opened([*events[:-1], Done()]))
        elif self._refusal is None:
            self._keep(self._opened(events))
            await self._show_pending()
        elif not isinstance(events[-1], Failed):
            raise self._refusal  # an answer that was refused has no good end
        else:  # the end tells of the refusal: plugins have nothing to say of it
            self._put_end(self._opened(events))
        self.state = "over"
        await super()._write_out(last=True)

    def take(self, events: Sequence[Event], over: bool) -> None:
        if self.state not in ("open", "committed") or self._refusal is not None:
            return
        if events:
            self._keep(self._first(events) if self.state == "open" else events)
            if self._silence is not None:
                self._silence.spoke = True
        attempt = self._attempt
        if self.unwritten > self._high_water and attempt is not None and not attempt.paused and not over:
            attempt.pause()
        self._wake()

    def tell(self, events: Sequence[Event]) -> None:
        if self._led(events):
            return
        if self.state in ("open", "committed"):
            self._keep(self._first(events) if self.state == "open" else events)


class TransformedWhole(WholeAnswer):
    """An answer that is not streamed of which `show` is shown the events, with the tokens of a text joined."""

    __slots__ = ("_events", "_index", "_kept_of", "_show", "_texts")
    verbatim = ""  # as of `TransformedStream`

    def __init__(self, make_encoder: Callable[[], WholeEncoder], write: Write, *, model: str, show: Show) -> None:
        super().__init__(make_encoder, write, model=model)
        self._show = show
        self._events: list[Event] = []
        self._texts: list[str] = []  # of the choice `_index`, behind the events
        self._index = self._kept_of = 0

    def _settle(self, attempt: AnyAttempt) -> None:
        super()._settle(attempt)
        self._join()
        self._kept_of = len(self._events)

    def _rewind(self) -> None:
        super()._rewind()
        self._texts.clear()
        del self._events[self._kept_of :]

    def _keep(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, TextDelta) and not (event.logprobs or event.ids or event.echo):
                if event.index != self._index:
                    self._join()
                    self._index = event.index
                self._texts.append(event.text)
            else:
                self._join()
                self._events.append(event)

    def _join(self) -> None:
        if self._texts:
            self._events.append(TextDelta(self._index, "".join(self._texts)))
            self._texts.clear()

    async def _end(self, events: Sequence[Event]) -> None:
        if self.state != "open":
            raise AssertionError(f"an answer that is {self.state} cannot be ended")
        self._keep(self._opened(events))
        self._join()
        transformed = await self._show(self._events)
        self._events = []
        with self._encoding():
            self._encoder.add(transformed)
            body = self._encoder.body()
        self.state = "over"
        await self._write(body, True)
