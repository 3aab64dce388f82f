"""Asks encode workers for the embeddings of a request's media, one call for each medium (edge).

Counts what is accepted, reports each call with its worker, and gives back the worker's place on the load board. The embeddings go
from the encode worker to the engine that reads the prompt; the gateway never sees them. Above: pairing. Below: engines.base.
"""

import asyncio
from collections.abc import Callable, Sequence

from smg_core.clock import Clock
from smg_core.engines.base import Encoded, EncodeEngine
from smg_core.errors import EngineStalled, EngineTimeout, InternalError, SmgError
from smg_core.observability.trace_context import Outgoing
from smg_core.pipeline.flow.steps import Chosen
from smg_core.workers.worker import WorkerPlace

__all__ = ["Encoding", "OnPart"]

OnPart = Callable[[Chosen, SmgError | None, float, bool, str], None]
"""Called when a call of a worker that does its part for another one is over, with its error, its seconds, whether it was given
up, and the id of its span ("" without one)."""


class Encoding:
    """The calls of one request's encode workers, which take its media in turn. `on_done` is called when all are accepted,
    `on_failed` with the first error, `on_part` when a call is over; `outgoing` says what each is sent of the request's trace.
    `to_blame` is the worker whose call failed first; while none has, the one that has had its call for the longest time."""

    def __init__(
        self,
        encoders: Sequence[Chosen],
        *,
        on_done: Callable[[], None],
        on_failed: Callable[[SmgError], None],
        on_part: OnPart,
        outgoing: Callable[[], Outgoing],
        clock: Clock,
    ) -> None:
        self._encoders = encoders
        self._on_done = on_done
        self._on_failed = on_failed
        self._on_part = on_part
        self._outgoing = outgoing
        self._clock = clock
        self._failed: Chosen | None = None
        self._left = 0
        self._running: dict[asyncio.Task[None], tuple[Chosen, float, WorkerPlace, str]] = {}

    @property
    def to_blame(self) -> Chosen:
        return self._failed or next((chosen for chosen, _, _, _ in self._running.values()), self._encoders[0])

    def start(self, request_id: str, media: object, items: Sequence[Encoded], timeout: float) -> None:
        """Ask for each of `items` of `media`; `timeout` in seconds bounds each call. None of them has begun when this returns."""
        self._left = len(items)
        for each in items:
            chosen = self._encoders[each.item % len(self._encoders)]
            sent = self._outgoing()
            asked = _encode(chosen, f"{request_id}-media-{each.item}", media, each, timeout, sent)
            task = asyncio.ensure_future(asked)
            self._running[task] = chosen, self._clock.monotonic(), WorkerPlace(chosen.worker, 0), sent.span_id
            task.add_done_callback(self._ended)

    def cancel(self) -> None:
        """Cancel the calls that are not over."""
        for task in list(self._running):
            task.cancel()
            self._give_back(task, None, given_up=True)

    def _give_back(self, task: "asyncio.Task[None]", error: SmgError | None, *, given_up: bool) -> Chosen:
        """Give back the place of a call that is over, and report it."""
        chosen, began, place, span_id = self._running.pop(task)
        place.leave()
        self._on_part(chosen, error, self._clock.monotonic() - began, given_up, span_id)
        return chosen

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if task not in self._running:
            if not task.cancelled():
                task.exception()  # it failed while it was cancelled, which is told already
            return
        if task.cancelled():
            self._give_back(task, None, given_up=True)
            return
        failure = task.exception()
        error = None if failure is None else _as_ours(failure)
        chosen = self._give_back(task, error, given_up=False)
        if error is not None:
            self._failed = self._failed or chosen
            self._on_failed(error)
            return
        self._left -= 1
        if not self._left:
            self._on_done()


async def _encode(
    chosen: Chosen, request_id: str, media: object, item: Encoded, timeout: float, sent: Outgoing
) -> None:
    engine: EncodeEngine = chosen.worker.engine  # type: ignore[assignment]  # the engines of workers in this role can
    await engine.encode(request_id, media, item, timeout=timeout, metadata=sent.metadata)


def _as_ours(failure: BaseException) -> SmgError:
    if isinstance(failure, EngineTimeout):  # another worker may be faster
        return EngineStalled(failure.message, detail=failure.detail, outside_text=failure.outside_text)
    if isinstance(failure, SmgError):
        return failure
    return InternalError(
        "The gateway failed to have a medium encoded.", detail=repr(failure), outside_text=repr(failure)
    )
