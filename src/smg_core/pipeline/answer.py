"""The answer under way: engine messages in on one side, response bytes out on the other (edge).

An `Answer` is what the transport pushes into. Decoding, processing and encoding happen in that push, as plain calls; the
request's coroutine wakes once, takes everything that has gathered, and writes it in one call. Under load several tokens
leave in one write, and the token of an idle stream leaves at once: there is no timer. Once a stream is under way and its
socket takes more, what was encoded is written in the push itself, and the coroutine sleeps on.

The first write is the commit point. An error before it is raised to the flow, which may try another worker; after it, the
encoder's in-band error ends the answer. What has been encoded and not yet written is bounded: at `high_water` bytes the
engine's stream is paused until the client has caught up.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from smg_core.engines.base import Call, EngineOutput
from smg_core.errors import EngineGarbled, SmgError
from smg_core.events import Event, Failed, Usage
from smg_core.pipeline.output import OutputProcessor
from smg_core.protocols.base import StreamEncoder, WholeEncoder

__all__ = ["Answer", "StreamedAnswer", "WholeAnswer", "Write", "WriteNow"]

Write = Callable[[bytes, bool], Awaitable[None]]
"""`await write(data, last)`: pass bytes to the client; `last` ends the response."""

WriteNow = Callable[[bytes], bool]
"""`write_now(data)`: pass bytes to the client if nobody has to wait for that; False means that nothing was done."""


class Answer:
    """One response to one client. `begin` starts it over for each attempt, until something was written."""

    __slots__ = (
        "_call",
        "_engine_over",
        "_error",
        "_processor",
        "_trailing",
        "_waiter",
        "_write",
        "committed",
        "ended",
        "failure",
        "on_first",
        "usage",
    )

    def __init__(self, write: Write, *, on_first: Callable[[], None]) -> None:
        self._write = write
        self._call: Call | None = None
        self._trailing: Call | None = None
        self._processor: OutputProcessor | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._engine_over = True
        self._error: SmgError | None = None
        self.on_first: Callable[[], None] | None = on_first
        self.committed = False
        self.ended = False
        self.failure: SmgError | None = None
        self.usage: Usage | None = None

    # -------------------------------------------------------------------------------------- driven by the request

    def begin(self, processor: OutputProcessor) -> None:
        """A new attempt: what came of an earlier one is forgotten."""
        if self._trailing is not None:
            self._trailing.cancel()  # what it has still to say is not of this attempt
        self._processor, self._call, self._trailing = processor, None, None
        self._engine_over = self.ended = False
        self._error = None

    def reads_from(self, call: Call) -> None:
        """The call whose messages arrive here, to be paused and cancelled."""
        self._call = call

    def let_go(self) -> bool:
        """Be done with the engine's stream. Where the engine still works on it, the stream is reset, and True says that the
        engine must be told by name too; where it has finished and only its status is to come, that may come."""
        call, self._call = self._call, None
        if call is None or self._engine_over:
            return False
        whole = self.ended and self.failure is None and self._error is None
        if whole and self._processor is not None and self._processor.engine_done:
            self._trailing = call
            return False
        call.cancel()
        return not whole

    async def deliver(self) -> None:
        """Write the answer as it comes; done when all of it is written. Raises an error that came before the first
        byte."""
        raise AssertionError("a subclass delivers")

    async def _wait(self) -> None:
        if not self.ended:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    # ---------------------------------------------------------------------------------------- pushed by the engine

    def outputs(self, outputs: Sequence[EngineOutput]) -> None:
        """The engine's outputs of one socket read."""
        processor = self._processor
        if self.ended or processor is None:
            return
        try:
            events = processor.feed(outputs)
        except SmgError as error:
            self._fail(error)
            return
        if not events:
            return
        if self.on_first is not None:
            self.on_first()
            self.on_first = None
        if processor.done:
            self.usage = processor.usage()
            self.ended = True
        self._take(events)

    def closed(self, error: SmgError | None) -> None:
        """The engine's stream is over; one that could not be read may still be worked on, so it is aborted by name."""
        self._engine_over = not isinstance(error, EngineGarbled)
        if not self.ended:
            self._fail(error or EngineGarbled("The engine's stream ended before its answer was complete."))

    def _fail(self, error: SmgError) -> None:
        """End this attempt with an error: in band when the client has seen something, else for the flow to judge."""
        self.ended = True
        if self.committed and self._processor is not None:
            self.failure, self.usage = error, self._processor.usage()
            self._take([Failed(error)])
        else:
            self._error = error
            self._wake()

    def _take(self, events: Sequence[Event]) -> None:
        raise AssertionError("a subclass takes events")

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)


class StreamedAnswer(Answer):
    """An answer that leaves as it comes."""

    __slots__ = ("_buffer", "_encoder", "_high_water", "_make_encoder", "_paused", "_size", "_write_now")

    def __init__(
        self,
        make_encoder: Callable[[], StreamEncoder],
        write: Write,
        *,
        high_water: int,
        on_first: Callable[[], None],
        write_now: WriteNow | None = None,
    ) -> None:
        super().__init__(write, on_first=on_first)
        self._make_encoder = make_encoder
        self._high_water = high_water
        self._write_now = write_now

    def begin(self, processor: OutputProcessor) -> None:
        super().begin(processor)
        self._encoder = self._make_encoder()
        self._buffer: list[bytes] = [self._encoder.start()]
        self._size = 0
        self._paused = False

    async def deliver(self) -> None:
        while True:
            if self._error is not None:
                raise self._error
            if self._size:
                data = b"".join(self._buffer)
                self._buffer.clear()
                self._size = 0
                self.committed = True
                last = self.ended
                await self._write(data, last)
                if last:
                    return
                if self._paused and self._call is not None:
                    self._paused = False
                    self._call.resume()
            elif self.ended:
                await self._write(b"", True)
                return
            else:
                await self._wait()

    async def break_off(self, error: SmgError) -> None:
        """End an answer that the client has seen some of with `error`, although the engine has more to say."""
        if not self.ended:
            self._fail(error)
        await self.deliver()

    def _take(self, events: Sequence[Event]) -> None:
        data = self._encoder.encode(events)
        waiter = self._waiter
        # A coroutine that waits has written all there was: bytes that leave now leave in order.
        flows = waiter is not None and self.committed and not self.ended
        if flows and self._write_now is not None and (not data or self._write_now(data)):
            return
        if data:
            self._buffer.append(data)
            self._size += len(data)
            if self._size > self._high_water and not self._paused and self._call is not None:
                self._paused = True
                self._call.pause()
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)


class WholeAnswer(Answer):
    """An answer that leaves in one piece; until then any loss of a worker can be mended."""

    __slots__ = ("_encoder", "_make_encoder")

    def __init__(self, make_encoder: Callable[[], WholeEncoder], write: Write, *, on_first: Callable[[], None]) -> None:
        super().__init__(write, on_first=on_first)
        self._make_encoder = make_encoder

    def begin(self, processor: OutputProcessor) -> None:
        super().begin(processor)
        self._encoder = self._make_encoder()

    async def deliver(self) -> None:
        while not self.ended:
            await self._wait()
        if self._error is not None:
            raise self._error
        body = self._encoder.body()
        self.committed = True
        await self._write(body, True)

    def _take(self, events: Sequence[Event]) -> None:
        self._encoder.add(events)
        if self.ended:
            self._wake()
