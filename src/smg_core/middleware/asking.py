"""One call of a hook: whatever it raises is a failure of the plugin (edge).

Errors of the gateway itself are refusals of the plugin, and pass as they are. Above: `chain`. Below: `base`.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
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

__all__ = ["begun_session", "checked", "close_session", "event_verdict", "fault_words", "hook_verdict", "piece_verdict"]

T = TypeVar("T")
P = ParamSpec("P")


def event_verdict(session: PluginSession, event: Event) -> EventVerdict:
    """What a plugin answers to an event. Raises as `hook_verdict`."""
    try:
        return session.on_event(event)
    except (SmgError, MiddlewareFault):
        raise
    except (Exception, asyncio.CancelledError) as error:
        raise MiddlewareFault(fault_words(error)) from error


def checked(check: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """What a check makes of the verdict of a hook, whose fields may be anything. Raises as `hook_verdict`."""
    try:
        return check(*args, **named)
    except (SmgError, MiddlewareFault):
        raise
    except Exception as error:
        raise MiddlewareFault(fault_words(error)) from error


async def hook_verdict(hook: Callable[P, Awaitable[T]], *args: P.args, **named: P.kwargs) -> T:
    """What a hook answers. Raises MiddlewareFault for whatever it raises, beside our own errors: those are its refusals. It may
    raise a cancellation, too, which is not that of the request."""
    try:
        return await hook(*args, **named)
    except (SmgError, MiddlewareFault):
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise MiddlewareFault("raised a cancellation") from error
    except Exception as error:
        raise MiddlewareFault(fault_words(error)) from error


def piece_verdict(session: PluginSession, piece: AnswerPiece) -> PieceVerdict | Awaitable[PieceVerdict]:
    """What a plugin answers to a piece, to be awaited if it waits. Raises as `hook_verdict`."""
    try:
        return session.on_piece(piece)
    except (SmgError, MiddlewareFault):
        raise
    except (Exception, asyncio.CancelledError) as error:
        raise MiddlewareFault(fault_words(error)) from error


def begun_session(middleware: Middleware, about: About) -> PluginSession:
    """The session of one exchange. Raises MiddlewareFault."""
    try:
        return middleware.begin(about)
    except (Exception, asyncio.CancelledError) as error:
        raise MiddlewareFault(fault_words(error)) from error


def close_session(session: PluginSession) -> None:
    """End a session. Raises MiddlewareFault."""
    try:
        session.close()
    except (Exception, asyncio.CancelledError) as error:
        raise MiddlewareFault(fault_words(error)) from error


def fault_words(error: BaseException) -> str:
    """A failure in words of bounded length: its class and the place in the code. Its text is left out, since a client's text, a
    header or a key may stand in it."""
    if isinstance(error, MiddlewareFault):
        return error.reason
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"
