"""One call of a hook: whatever it raises is a failure of the plugin (edge).

Errors of the gateway itself are refusals of the plugin, and pass as they are. Above: `chain`. Below: `own_task`, `base`.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, TypeVar

from smg_core.errors import SmgError
from smg_core.events import Event
from smg_core.middleware.base import (
    About,
    AnswerPiece,
    EventVerdict,
    Middleware,
    MiddlewareFault,
    PieceVerdict,
    PluginSession,
)
from smg_core.middleware.own_task import InTask, Taskless
from smg_core.outside_words.exceptions import FaultWords

__all__ = [
    "app_verdict",
    "begun_session",
    "checked",
    "close_session",
    "event_verdict",
    "fault_words",
    "hook_verdict",
    "piece_verdict",
]

T = TypeVar("T")
P = ParamSpec("P")


class _Faults:
    """Stands around code of a plugin, which may raise anything: even SystemExit, which would end the process. All of it is a
    failure of the plugin, beside errors of ours and the kinds in `own`."""

    def __init__(self, *own: type[BaseException]) -> None:
        self._own = (SmgError, MiddlewareFault, *own)

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, self._own):
            raise MiddlewareFault(fault_words(error)) from error


_IN_CALL, _IN_WAIT = _Faults(), _Faults(asyncio.CancelledError, GeneratorExit)
"""Around a plain call, in which no request can be cancelled, and around one that waits, where `InTask` has told that it is not
the plugin that raised these."""


def event_verdict(session: PluginSession, event: Event) -> EventVerdict:
    """What a plugin answers to an event. Raises as `hook_verdict`."""
    with _IN_CALL, Taskless():
        return session.on_event(event)


def checked(check: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """What a check makes of the verdict of a hook, whose fields may be anything. Raises as `hook_verdict`."""
    with _IN_CALL:
        return check(*args, **named)


async def hook_verdict(hook: Callable[P, Awaitable[T]], within: float | None, *args: P.args, **named: P.kwargs) -> T:
    """What a hook in Python answers, in so many seconds; None: that of a component, which has a deadline of its own and no way to
    the task. Raises MiddlewareFault for whatever it raises, beside our own errors: those are its refusals. A cancellation of its
    request is raised as it is, whatever the hook makes of it."""
    with _IN_WAIT:
        if within is None:
            return await _uncancelled(hook(*args, **named))
        return await _in_time(InTask(_awaited(hook, *args, **named)), within)


async def _uncancelled(answer: Awaitable[T]) -> T:
    """Raises MiddlewareFault where it raises a cancellation that is not that of the request."""
    try:
        return await answer
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise MiddlewareFault("raised a cancellation") from error


async def app_verdict(app: Callable[P, Awaitable[T]], left: Callable[[], bool], *args: P.args, **named: P.kwargs) -> T:
    """What an ASGI app of a plugin returns, which has what the gateway does within it; `left` says whether the client has left.
    Raises as `hook_verdict`, and what comes from within as it is, or as the app changes it."""
    with _IN_WAIT:
        return await InTask(_awaited(app, *args, **named), strict=False, left=left)


async def _awaited(hook: Callable[P, Awaitable[T]], *args: P.args, **named: P.kwargs) -> T:
    """A hook as a coroutine, whatever it is that it returns to be awaited."""
    return await hook(*args, **named)


async def _in_time(answer: Awaitable[T], within: float) -> T:
    """Raises MiddlewareFault where it takes longer; what waits is cancelled then."""
    limit = asyncio.timeout(within)
    try:
        async with limit:
            return await answer
    except TimeoutError:
        if limit.expired():
            raise MiddlewareFault("took longer than its deadline") from None
        raise


def piece_verdict(session: PluginSession, piece: AnswerPiece) -> PieceVerdict | Awaitable[PieceVerdict]:
    """What a plugin answers to a piece, to be awaited if it waits. Raises as `hook_verdict`."""
    with _IN_CALL, Taskless():
        return session.on_piece(piece)


def begun_session(middleware: Middleware, about: About) -> PluginSession:
    """The session of one exchange. Raises MiddlewareFault."""
    with _IN_CALL, Taskless():
        return middleware.begin(about)


def close_session(session: PluginSession) -> None:
    """End a session. Raises MiddlewareFault."""
    with _IN_CALL, Taskless():
        session.close()


def fault_words(error: BaseException) -> str:
    """A failure in words of bounded length: its class and the place in the code. Its text is left out, since a client's text, a
    header or a key may stand in it; it is beside them, for a log that may have it."""
    if isinstance(error, MiddlewareFault):
        return error.reason
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return FaultWords.of(f"{type(error).__name__}{place}", error)
