"""Runs the calls of Python functions: what a session is for a server, without a server (edge).

A function that is no coroutine runs in a thread of its own, at most `threads` at once: one that never returns keeps its place,
and nothing else waits for it. Above: `tools`, which makes these. Below: `signature`, the records.
"""

import asyncio
import contextvars
import functools
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from smg_mcp.catalogue.inventory import ListedTool
from smg_mcp.catalogue.results import as_text, block_of, error_outcome, outcome_of
from smg_mcp.functions.signature import ReadFunction, ToolContext
from smg_mcp.records.base import (
    ListFaults,
    OnProgress,
    ToolAudio,
    ToolImage,
    ToolLink,
    ToolOutcome,
    ToolProgress,
    ToolResource,
    ToolText,
)
from smg_mcp.records.errors import McpBusy, McpTimeout, McpUnknownTool
from smg_mcp.records.settings import McpLimits

__all__ = ["FunctionSession", "Functions"]

_PARTS = (ToolText, ToolImage, ToolAudio, ToolResource, ToolLink)
_LONGEST_ERROR = 2000  # characters of what a function raises that the model is shown


class Functions:
    """The functions of one server of a configuration, and the threads that they run in."""

    def __init__(self, functions: Sequence[ReadFunction], limits: McpLimits) -> None:
        self.limits = limits
        self.listed = [
            ListedTool(each.name, each.description, each.schema, hints=each.tool.hints) for each in functions
        ]
        self._functions = {each.name: each for each in functions}
        self._places = asyncio.Semaphore(limits.function_threads)
        self._tasks: set[asyncio.Task[Any]] = set()

    def named(self, tool: str) -> ReadFunction:
        """The function of this name. Raises McpUnknownTool."""
        if tool not in self._functions:
            raise McpUnknownTool(f"there is no tool {tool[:160]!r}")
        return self._functions[tool]

    async def in_thread(self, work: Callable[[], ToolOutcome | Awaitable[Any]]) -> ToolOutcome | Awaitable[Any]:
        """What `work` gives in a thread, which keeps its place until it has ended, whether anybody waits for it or not."""
        await self._places.acquire()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[ToolOutcome | Awaitable[Any]] = loop.create_future()
        context = contextvars.copy_context()

        def ended(found: ToolOutcome | Awaitable[Any]) -> None:
            self._places.release()
            if not done.done():
                done.set_result(found)
            elif inspect.iscoroutine(found):
                found.close()

        def run() -> None:
            found = context.run(work)
            if not loop.is_closed():
                loop.call_soon_threadsafe(ended, found)

        try:
            threading.Thread(target=run, name="smg-tool", daemon=True).start()
        except RuntimeError:  # the machine has no more threads
            self._places.release()
            raise McpBusy("no thread is left for a call of a function") from None
        return await done

    async def in_task(self, call: Callable[[], Awaitable[Any]]) -> ToolOutcome:
        """What a coroutine gives, in a task of its own: what it does to its task does nothing to ours. One that does not end when
        it is cancelled is left behind."""
        task = asyncio.ensure_future(_awaited(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
        return error_outcome("the function was cancelled") if task.cancelled() else task.result()


class FunctionSession:
    """The functions as one request calls them. `faults` are there for the role of a session alone."""

    def __init__(self, functions: Functions, tenant: str, request_id: str) -> None:
        self._functions, self._tenant, self._request_id = functions, tenant, request_id
        self.faults = ListFaults()

    async def tools(self) -> list[ListedTool]:
        """The functions."""
        return self._functions.listed

    def news(self, what: str) -> tuple[int, int]:
        """Always the same: functions have no resources and no prompts."""
        return (0, 0)

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, twice: bool, timeout_s: float, progress: OnProgress | None
    ) -> ToolOutcome:
        """Call a function. What it raises is the tool's error. A caller that is cancelled, or that waited too long, leaves a
        function in a thread behind, since no thread can be ended."""
        function = self._functions.named(tool)
        loop = asyncio.get_running_loop()
        tell = _telling(loop, progress)
        try:
            call = function.call_of(arguments, ToolContext(self._tenant, self._request_id, tell))
        except (msgspec.ValidationError, RecursionError) as error:
            return error_outcome(f"the arguments do not fit: {str(error)[:_LONGEST_ERROR]}")
        try:
            async with asyncio.timeout(function.tool.timeout_s or timeout_s):
                return await self._run(function, call)
        except TimeoutError:
            raise McpTimeout(f"the tool did not answer within {function.tool.timeout_s or timeout_s:g} s") from None

    async def _run(self, function: ReadFunction, call: Callable[[], Any]) -> ToolOutcome:
        functions, limits = self._functions, self._functions.limits
        if function.is_async:
            return await functions.in_task(lambda: _then(call, limits))
        found = await functions.in_thread(functools.partial(_called, call, limits))
        return (
            found if isinstance(found, ToolOutcome) else await functions.in_task(lambda: _then(lambda: found, limits))
        )

    async def listed(self, what: str) -> list[dict[str, Any]]:
        """Functions have no resources and no prompts."""
        return []

    async def read(self, uri: str) -> list[dict[str, Any]]:
        """Raises McpUnknownTool: functions have no resources."""
        raise McpUnknownTool(f"there is no resource {uri[:160]!r}")

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> dict[str, Any]:
        """Raises McpUnknownTool: functions have no prompts."""
        raise McpUnknownTool(f"there is no prompt {name[:160]!r}")

    async def facts(self) -> tuple[str, str, str]:
        """Functions have no name of their own, no instructions and no protocol."""
        return "", "", ""


def _telling(loop: asyncio.AbstractEventLoop, progress: OnProgress | None) -> OnProgress:
    """Passes on what a function tells of its progress, in whatever thread it is."""

    def report(news: ToolProgress) -> None:
        if progress is not None and not loop.is_closed():
            loop.call_soon_threadsafe(progress, news)

    return report


async def _then(call: Callable[[], Awaitable[Any]], limits: McpLimits) -> ToolOutcome:
    """The outcome of what is awaited. A large result is written in a thread."""
    value = await call()
    if (
        value is None
        or isinstance(value, bool | int | float)
        or (isinstance(value, str) and len(value) < _LONGEST_ERROR)
    ):
        return _outcome(value, limits)
    return await asyncio.to_thread(_outcome, value, limits)


async def _awaited(call: Callable[[], Awaitable[ToolOutcome]]) -> ToolOutcome:
    try:
        return await call()
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001  # users' code, which may raise anything, also what ends a process
        return _raised(error)


def _called(call: Callable[[], Any], limits: McpLimits) -> ToolOutcome | Awaitable[Any]:
    """The outcome of a call that is made in this thread; or what it gives, where that is to be awaited."""
    try:
        value = call()
        return value if inspect.isawaitable(value) else _outcome(value, limits)
    except BaseException as error:  # noqa: BLE001  # users' code, which may raise anything, also what ends a process
        return _raised(error)


def _raised(error: BaseException) -> ToolOutcome:
    """What the model is told of an error of a function: which it is, and what it says."""
    try:
        message = str(error)
    except BaseException:  # noqa: BLE001  # users' code, as above
        message = "(it cannot be shown)"
    name = type(error).__name__
    return error_outcome(as_text(f"{name}: {message}" if message else name)[:_LONGEST_ERROR])


def _outcome(value: Any, limits: McpLimits) -> ToolOutcome:
    """The outcome of a call from what the function gave."""
    if isinstance(value, str):
        return outcome_of({"content": [{"type": "text", "text": as_text(value)}]}, limits)
    parts = value if isinstance(value, list | tuple) else [value]
    try:
        if isinstance(value, ToolOutcome):
            if not all(isinstance(each, _PARTS) for each in value.content):
                return error_outcome("the function gave an outcome with what is no part of one")
            structured = msgspec.json.decode(msgspec.json.encode(value.structured))
            fields = {"content": [block_of(each) for each in value.content], "isError": value.is_error}
            return outcome_of({**fields, "structuredContent": structured}, limits)
        if parts and all(isinstance(each, _PARTS) for each in parts):
            return outcome_of({"content": [block_of(each) for each in parts]}, limits)
        text = msgspec.json.encode(value).decode()
        structured = msgspec.json.decode(text) if text.startswith("{") else None
    except (TypeError, ValueError, RecursionError, UnicodeError, msgspec.MsgspecError) as error:
        return error_outcome(
            f"the function gave what is no JSON ({type(value).__name__}): {str(error)[:_LONGEST_ERROR]}"
        )
    return outcome_of({"content": [{"type": "text", "text": text}], "structuredContent": structured}, limits)
