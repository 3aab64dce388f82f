"""One response made by several requests, and the performer of `Together` (edge).

A body of Completions may have several prompts. Each becomes a request with its own answer (a part), so that retries, bounds and
back-pressure work for each prompt alone; the choices of all leave in one response. A streamed part writes its chunks as they
come; whole parts are merged after the last one. The first part that fails ends the others and the response, with its error.

Above: serving.inference makes the answer, the driver performs the step. Below: pipeline.answer.answer, the driver.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from smg_core.errors import GuardrailBlocked, InternalError, SmgError
from smg_core.events import NO_USAGE, Event, Failed, Usage
from smg_core.pipeline.answer.answer import Answer, Write
from smg_core.pipeline.answer.keep_alive import StreamKeepAlive
from smg_core.pipeline.answer.transformed_answer import Show, streamed_answer, whole_answer
from smg_core.pipeline.answer.turn import Turn
from smg_core.pipeline.flow.driver import Run
from smg_core.pipeline.flow.steps import Flow, Together
from smg_core.wire.base import StreamEncoder, WholeEncoder

__all__ = ["PartedAnswer", "PerformTogether", "ShowPart", "StreamedParts", "WholeParts"]


ShowPart = Callable[[int], Show | None]
"""`show(place)` is who is shown the events of the part at a place."""


class PartedAnswer(Answer):
    """The response; `parts` are the answers of its requests. Attempts are begun on the parts, never on this."""

    __slots__ = ("parts",)

    def __init__(self, write: Write, *, model: str) -> None:
        super().__init__(write, model=model)
        self.parts: list[Answer] = []

    @property
    def usage(self) -> Usage | None:
        """The tokens of all parts so far; None before the first."""
        known = [part.usage for part in self.parts]
        return sum([usage for usage in known if usage is not None], NO_USAGE) if any(known) else None

    def release(self) -> None:
        super().release()
        for part in self.parts:
            part.release()

    def expire(self, error: SmgError) -> bool:
        """Called when the request's time is up: ends the parts under way with `error`. False if a part waits for something
        else."""
        if self.state in ("over", "refused"):
            return True
        expired = [part.expire(error) for part in self.parts]  # a list, since every part must be called
        return all(expired)

    def _total(self) -> Usage:
        return self.usage or NO_USAGE


class StreamedParts(PartedAnswer):
    """A streamed response. `make_part` makes the encoder of a part, `make_end` the encoder of the response's end; `show` is who
    is shown events."""

    __slots__ = ("_encoder", "_writing")

    def __init__(
        self,
        count: int,
        make_part: Callable[[int], StreamEncoder],
        make_end: Callable[[], StreamEncoder],
        write: Write,
        *,
        model: str,
        high_water: int,
        keep_alive: StreamKeepAlive | None = None,
        show: ShowPart | None = None,
    ) -> None:
        super().__init__(write, model=model)
        self._encoder = make_end()
        self._writing = asyncio.Lock()  # parts run at the same time; a socket takes one write at a time
        for place in range(count):
            self.parts.append(
                streamed_answer(
                    lambda place=place: make_part(place),  # type: ignore[misc]
                    self._write_part,
                    model=model,
                    high_water=high_water,
                    keep_alive=keep_alive,
                    show=None if show is None else show(place),
                )
            )

    @property
    def content_type(self) -> str:
        return self._encoder.content_type

    async def _write_part(self, data: bytes, last: bool) -> None:
        """Pass on the data of a part. The end of a part does not end the response, so `last` is ignored."""
        async with self._writing:
            if data and self.state in ("open", "committed"):
                self.state = "committed"
                await self._write(data, False)

    async def _end(self, events: Sequence[Event]) -> None:
        async with self._writing:
            with self._encoding():
                data = self._encoder.encode(events)
            self.state = "over"
            await self._write(data, True)


class WholeParts(PartedAnswer):
    """A response that is not streamed. `make_part` makes the encoder of a part; `merge` makes the body from the parts' bodies, in
    their order, and the usage of all."""

    __slots__ = ("_bodies", "_merge")

    def __init__(
        self,
        count: int,
        make_part: Callable[[int], WholeEncoder],
        merge: Callable[[Sequence[bytes], Usage], bytes],
        write: Write,
        *,
        model: str,
        show: ShowPart | None = None,
    ) -> None:
        super().__init__(write, model=model)
        self._merge = merge
        self._bodies = [b""] * count
        for place in range(count):
            self.parts.append(
                whole_answer(
                    lambda place=place: make_part(place),  # type: ignore[misc]
                    self._write_of(place),
                    model=model,
                    show=None if show is None else show(place),
                )
            )

    @property
    def content_type(self) -> str:
        return "application/json"

    def _write_of(self, place: int) -> Callable[[bytes, bool], Awaitable[None]]:
        async def keep(data: bytes, last: bool) -> None:
            self._bodies[place] = data

        return keep

    async def _end(self, events: Sequence[Event]) -> None:
        failed = next((event.error for event in events if isinstance(event, Failed)), None)
        if failed is not None:
            raise failed
        with self._encoding():
            body = self._merge(self._bodies, self._total())
        self.state = "over"
        await self._write(body, True)


class PerformTogether:
    """Performs `Together`: drives the requests of a step at the same time, each with a part of the answer. `drive` is the
    driver's."""

    def __init__(self, drive: Callable[[Flow[object], Run], Awaitable[object]]) -> None:
        self._drive = drive

    async def __call__(self, step: Together, run: Run) -> Turn:
        answer = run.answer
        if not isinstance(answer, PartedAnswer) or len(answer.parts) != len(step.flows):
            raise InternalError("The gateway failed to answer several prompts.")
        room = asyncio.Semaphore(step.at_once)
        tasks = [
            asyncio.create_task(self._part(step, run, part, place, room)) for place, part in enumerate(answer.parts)
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        failures = [each for each in ended if isinstance(each, Exception)]
        if failures:
            raise failures[0]
        return Turn((), answer.usage or NO_USAGE)

    async def _part(self, step: Together, run: Run, part: Answer, place: int, room: asyncio.Semaphore) -> None:
        """Run one request to its end, without a deadline: the driver of the step keeps the deadline of all."""
        own = Run(part, run.trace, replace(run.timeouts, request=None))
        async with room:
            try:
                await self._drive(step.flows[place](part), own)
            except SmgError as error:
                if isinstance(error, GuardrailBlocked) and error.ends_the_answer and await part.fail(error):
                    return  # this part ends, and the others go on
                _relocate(error, f"requests[{place}]")
                raise


def _relocate(error: SmgError, request: str) -> None:
    """Put the request's path before the field that the error names."""
    if error.param is not None:
        error.message = error.message.replace(f"'{error.param}'", f"'{request}.{error.param}'")
        error.param = f"{request}.{error.param}"
