"""Code of a plugin in the task of a request: parts what that code does to the task from what others do to it (edge).

The task of a request is cancelled from outside by a client that leaves, a deadline, or the end of the gateway. Code of a plugin
runs in the same task: it may cancel it too, and raise what looks like a cancellation or like the closing of a coroutine. A task
that is cancelled while the code computes was cancelled by the code; one that is cancelled while the code waits was cancelled from
outside, which is never lost, or by a `TaskGroup` of the code. A plain call has no task at all. Above: `asking`. Below: `base`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, TypeVar

from smg_core.middleware.base import MiddlewareFault

__all__ = ["InTask", "Taskless"]

T = TypeVar("T")


_GROUP_END = asyncio.TaskGroup.__aexit__.__code__


def _nobody() -> bool:
    return False


def _group_that_cancelled(code: Any) -> asyncio.TaskGroup | None:
    """The `TaskGroup` at whose end a coroutine waits, if the group itself has cancelled the task because a child of it failed.
    Before Python 3.13 such a group does not take the cancellation back where it comes while the group waits for its children."""
    while code is not None:
        frame = getattr(code, "cr_frame", None)
        if frame is not None and frame.f_code is _GROUP_END:
            group: asyncio.TaskGroup = frame.f_locals["self"]
            if group._parent_cancel_requested:  # type: ignore[attr-defined]
                return group
        code = getattr(code, "cr_await", None) or getattr(code, "gi_yieldfrom", None) or getattr(code, "ag_await", None)
    return None


class Taskless:
    """Around a plain call, in which `asyncio.current_task()` is None: code that does not wait cannot cancel the request."""

    __slots__ = ("_loop", "_task")

    def __enter__(self) -> None:
        self._loop = asyncio._get_running_loop()
        self._task = None if self._loop is None else asyncio.current_task(self._loop)
        if self._loop is not None and self._task is not None:
            asyncio.tasks._leave_task(self._loop, self._task)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._task is not None:
            asyncio.tasks._enter_task(self._loop, self._task)


class InTask(Generic[T]):
    """`await InTask(code)` gives what code of a plugin returns, or raises what it raises. MiddlewareFault where that is
    GeneratorExit or a cancellation of nobody, or where the code has cancelled the task. CancelledError where the task was
    cancelled from outside: whatever the code makes of that, or, without `strict`, where it lets that pass. `left` says whether
    the client has left, for code that may notice that itself and cancel the task for it."""

    __slots__ = (
        "_arrived",
        "_code",
        "_error",
        "_groups",
        "_left",
        "_outside",
        "_over",
        "_own",
        "_seen",
        "_strict",
        "_task",
        "_value",
    )

    def __init__(
        self, code: Coroutine[Any, Any, T], *, strict: bool = True, left: Callable[[], bool] = _nobody
    ) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("code of a plugin that waits is run by a task")
        self._code, self._task, self._strict, self._left = code, task, strict, left
        self._seen = task.cancelling()
        self._own = self._outside = 0  # cancellations that nobody has taken back
        self._groups: list[asyncio.TaskGroup] = []  # of the code that have cancelled the task, and not taken that back
        self._over = self._arrived = False
        self._value: T | None = None
        self._error: BaseException | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        return self  # type: ignore[return-value]  # it has all that `await` asks of a generator

    def __iter__(self) -> "InTask[T]":
        return self

    def __next__(self) -> Any:
        return self._step(self._code.send, None)

    def send(self, value: Any) -> Any:
        """Called by the task, to go on."""
        return self._step(self._code.send, value)

    def throw(self, kind: Any, error: BaseException | None = None, trace: TracebackType | None = None) -> Any:
        """Called by the task that was cancelled, or whose future has failed."""
        cancelled = kind is asyncio.CancelledError or isinstance(kind, asyncio.CancelledError)
        if cancelled and not self._over:
            group = _group_that_cancelled(self._code)
            if group is not None and group not in self._groups:
                self._groups.append(group)
        return self._step(self._code.throw, kind if error is None else error)

    def close(self) -> None:
        """Called where the coroutine that awaits this is closed."""
        self._code.close()

    def _step(self, go_on: Callable[[Any], Any], given: Any) -> Any:
        """Run the code until it waits again, and count who cancelled the task. Returns what it waits for. Raises StopIteration
        with what `await` gives at the end, or what that raises."""
        before = self._task.cancelling()
        self._outside += before - self._seen
        wanted = None
        if self._over:  # it was only waited for the cancellation by the code to arrive
            self._arrived = isinstance(given, asyncio.CancelledError)
        else:
            wanted = self._run(go_on, given)
        self._seen = self._task.cancelling()
        self._own += self._seen - before
        if self._own < 0:  # the code took back what came while it waited, as a timeout of its own does
            del self._groups[: -self._own]
            self._outside, self._own = self._outside + self._own, 0
        if not self._over:
            return wanted
        if not self._arrived and getattr(self._task, "_must_cancel", False):
            return None
        raise StopIteration(self._outcome())

    def _run(self, go_on: Callable[[Any], Any], given: Any) -> Any:
        try:
            return go_on(given)
        except StopIteration as done:
            self._over, self._value = True, done.value
        except BaseException as error:  # noqa: BLE001  # code of a plugin, which may raise anything
            self._over, self._error = True, error
        return None

    def _outcome(self) -> Any:
        task, error = self._task, self._error
        for _ in range(min(len(self._groups), self._outside)):
            self._outside -= 1
            task.uncancel()
        own = 0 if self._left() else self._own
        for _ in range(own):
            task.uncancel()
        cancelled = self._arrived or isinstance(error, asyncio.CancelledError)
        if (self._strict and self._outside > 0) or (cancelled and task.cancelling()):
            if isinstance(error, asyncio.CancelledError):
                raise error
            raise asyncio.CancelledError from error
        if own:
            raise MiddlewareFault("cancelled the task of its request") from error
        if isinstance(error, asyncio.CancelledError):
            raise MiddlewareFault("raised a cancellation") from error
        if isinstance(error, GeneratorExit):
            raise MiddlewareFault("raised GeneratorExit") from error
        if error is not None:
            raise error
        return self._value
