"""Performs `ListTools` and `CallTools`: has tools run at the same time, and tells the client how each goes (edge).

Calls run side by side; the client hears of them one after the other, in the order in which the model made them, since only one
block of a response is open at a time. What a tool tells of its progress is passed on while its block is open. A client that
leaves cancels the calls that run. Above: the wiring. Below: the `ToolService`, the answer.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec.structs import replace

from smg_core.built_in import FaultCode
from smg_core.clock import Clock
from smg_core.errors import Overloaded, SmgError
from smg_core.events import HostedEnd, HostedProgress, HostedStart
from smg_core.hooks import ToolCalled
from smg_core.json_types import Json, JsonObject
from smg_core.pipeline.flow.driver import Run
from smg_core.pipeline.settings import McpConfig
from smg_core.pipeline.tools.built_in import action_of
from smg_core.pipeline.tools.hosted import (
    Called,
    CallTools,
    HostedCall,
    HostedResult,
    ListedServer,
    ListTools,
    NotMade,
    ServerTool,
    ToolAnswer,
    ToolService,
)
from smg_core.pipeline.tools.search import search_answer, search_of
from smg_core.request import Part, Text
from smg_core.wire.json_text import encode_object

if TYPE_CHECKING:
    from smg_core.guardrails.guards import Guards

__all__ = ["Takes", "ToolCalling", "ToolListing"]

_AT_WORK = {"code": "interpreting", "image": "generating"}
Takes = Callable[[str, str], frozenset[str]]
"""The kinds of media that a model takes, for its name and the tenant that asks."""


class ToolListing:
    """The performer of `ListTools`."""

    def __init__(self, service: ToolService) -> None:
        self._service = service

    async def __call__(self, step: ListTools, run: Run) -> tuple[ListedServer, ...]:
        return await self.listed(step)

    async def listed(self, step: ListTools) -> tuple[ListedServer, ...]:
        """What the servers offer, for whoever asks outside of a flow. Raises as the step."""
        asked = [
            asyncio.ensure_future(self._service.tools(server, step.caller, step.headers)) for server in step.servers
        ]
        try:
            return tuple([await task for task in asked])
        finally:
            await _ended(asked)


class ToolCalling:
    """The performer of `CallTools`. `guarding` is shown the arguments of calls before any of them is made."""

    def __init__(self, service: ToolService, clock: Clock, settings: McpConfig, takes: Takes) -> None:
        self._service = service
        self._takes = takes
        self._clock = clock
        self._settings = settings
        self.guarding: Guards | None = None

    async def __call__(self, step: CallTools, run: Run) -> Called:
        if self.guarding is not None:
            step = await self._guarded(step, self.guarding, run)
        answered = (*step.calls, *step.refused)
        if approvals := [call.approval for call in answered if call.approval is not None]:
            error = await self._service.claim(approvals, step.request_id, step.caller)
            if error is not None:
                raise error
        for call in step.refused:
            await self._note(call, "refused", step)
        for call in step.asked:
            await self._note(call, "asked", step)
        places = asyncio.Semaphore(step.at_once)
        running = [_Running(call, self._settings.progress) for call in step.calls]
        tasks = [asyncio.ensure_future(self._run(each, step, places, run)) for each in running]
        try:
            return Called(
                tuple(
                    [
                        await self._report_progress(each, task, step, run)
                        for each, task in zip(running, tasks, strict=True)
                    ]
                ),
                self._clock.monotonic() - run.trace.started,
            )
        finally:
            await _ended(tasks)

    @staticmethod
    async def _guarded(step: CallTools, guarding: "Guards", run: Run) -> CallTools:
        """The step with the arguments that guardrails have left. Raises GuardrailBlocked and GuardrailFailed."""
        report = run.trace.report
        left = [
            await guarding.arguments(call.arguments, step.caller, step.model, step.request_id, report)
            for call in step.calls
        ]
        calls = [replace(call, arguments=text) for call, text in zip(step.calls, left, strict=True)]
        return replace(step, calls=tuple(calls))

    async def _report_progress(
        self, running: "_Running", task: "asyncio.Task[ToolAnswer]", step: CallTools, run: Run
    ) -> HostedResult:
        """Tell the client of one call, from its beginning to its result."""
        call, answer = running.call, run.answer
        own = call.server.built_in
        answer.tell((HostedStart(0, call.id, "mcp" if own is None else own.kind, _opening(call)),))
        if own is not None:
            answer.tell((HostedProgress(0, _AT_WORK.get(own.kind, "searching")),))
        await answer.flush()
        task.add_done_callback(lambda _: running.changed.set())
        while not task.done():
            await running.changed.wait()
            if news := running.take():
                phase = "partial_image" if own is not None and own.kind == "image" else "progress"
                answer.tell(tuple(HostedProgress(0, phase, encode_object(each)) for each in news))
                await answer.flush()
        found = task.result()
        answer.tell((HostedEnd(0, _closing(found), found.is_error),))
        await answer.flush()
        kinds = self._takes(step.model, step.caller.tenant)
        content = tuple([_taken(part, kinds) for part in found.content])
        sources = found.sources if found.cites else ()
        return HostedResult(call, content or (Text(""),), found.is_error, found.found, sources)

    async def _run(self, running: "_Running", step: CallTools, places: asyncio.Semaphore, run: Run) -> ToolAnswer:
        """One call, when there is a place for it. What goes wrong is its answer."""
        call = running.call
        async with places:
            began = self._clock.monotonic()
            found, outcome = await self._outcome(running, step)
            now = self._clock.monotonic()
            server, tool = call.server, call.name if call.known else ""
            named = server.url is None
            run.trace.report(ToolCalled(step.request_id, server.label, tool, outcome, now - began, now, named))
            return found

    async def _outcome(self, running: "_Running", step: CallTools) -> tuple[ToolAnswer, str]:
        call = running.call
        if call.fault is not None:
            if call.denied or call.approval is not None:
                await self._note(call, "denied", step)
            return _failed(call.fault, call.code or ""), "bad_arguments"
        arguments: JsonObject = msgspec.json.decode(call.arguments or "{}")
        if call.within is not None:
            return await self._searched(call.within, arguments)
        try:
            found = await self._service.call(
                call, arguments, step.caller, step.headers, running.progress, step.request_id
            )
        except SmgError as error:
            code: FaultCode = "busy" if isinstance(error, Overloaded) else "failed"
            return _failed(error.message, code), type(error).__name__
        return found, "error" if found.is_error else "ok"

    async def _note(self, call: HostedCall, why: NotMade, step: CallTools) -> None:
        await self._service.note(call, why, step.caller, step.headers, step.request_id)

    async def _searched(self, within: Mapping[str, ServerTool], arguments: JsonObject) -> tuple[ToolAnswer, str]:
        asked = search_of(arguments)
        if isinstance(asked, str):
            return _failed(asked), "bad_arguments"
        return search_answer(within, await self._service.search(within, *asked)), "ok"


class _Running:
    """One call under way, and what it has told of its progress that the client has not been told; at most `most` notifications of
    a call are passed on."""

    def __init__(self, call: HostedCall, most: int) -> None:
        self.call = call
        self.changed = asyncio.Event()
        self._news: list[JsonObject] = []
        self._left = most

    def progress(self, payload: JsonObject) -> None:
        """The `OnToolProgress` of the call."""
        if self._left:
            self._left -= 1
            self._news.append(payload)
            self.changed.set()

    def take(self) -> list[JsonObject]:
        """What is new since the last time."""
        news, self._news = self._news, []
        self.changed.clear()
        return news


def _taken(part: Part, kinds: frozenset[str]) -> Part:
    """The part of a result as the model gets it: words stand for a medium that it does not take."""
    kind = type(part).__name__.lower()
    if isinstance(part, Text) or kind in kinds:
        return part
    return Text(f"[The tool returned a part of the kind {kind}, which this model does not take.]")


def _failed(message: str, code: "FaultCode | Literal['']" = "") -> ToolAnswer:
    return ToolAnswer((Text(message),), is_error=True, code=code)


def _opening(call: HostedCall) -> bytes:
    payload: JsonObject = {"server": call.server.label, "name": call.name, "arguments": call.arguments or "{}"}
    if call.approval is not None:
        payload["approval"] = call.approval
    if call.server.built_in is not None:
        payload["action"] = action_of(call.name, call.arguments)
    return encode_object(payload)


def _closing(found: ToolAnswer) -> bytes:
    """The result as the encoders are told it: `text`, `content` as a list of parts, `structured`; of a built-in tool also
    `sources` and `code`."""
    payload: dict[str, Json] = {
        "text": "\n".join(part.text for part in found.content if isinstance(part, Text)),
        "content": [_described(part) for part in found.content],
    }
    if found.structured is not None:
        payload["structured"] = found.structured
    if found.sources:
        payload["sources"] = msgspec.to_builtins(found.sources, str_keys=True)
        payload["cites"] = found.cites
    if found.code:
        payload["code"] = found.code
    return encode_object(payload)


def _described(part: Part) -> JsonObject:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    return {"type": type(part).__name__.lower()}


async def _ended(tasks: Sequence["asyncio.Task[Any]"]) -> None:
    """Cancel what still runs, and wait until it has ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
