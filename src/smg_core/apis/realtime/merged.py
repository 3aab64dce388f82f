"""One response to a client made of several of its server, with the gateway's tools run in between.

To the client it is one response: what the server says of the later ones is told with the id of the first, items are counted on,
and a call of a tool that runs here is an `mcp_call` in place of the function call and its output, which the client never sees.
Pure. Above: the session that is passed through. Below: the tools of the session, the MCP items of Responses.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from smg_core.apis.realtime.session_tools import SessionTools
from smg_core.apis.realtime.wire.events import written
from smg_core.apis.responses.wire.mcp import arguments_of, closed_item, hosted_item
from smg_core.events import HostedEnd, HostedStart
from smg_core.json_types import Json, JsonObject

__all__ = ["ClientsView", "MergedResponse", "call_of"]

_KNOWN = 4096
"""Items of calls of which a session knows what they stand for: the newest."""
_ADDS = ("conversation.item.added", "conversation.item.done", "conversation.item.created")


def call_of(item: Json) -> tuple[str, str, str] | None:
    """The id, the name and the arguments of a function call that is whole; None for another item."""
    if not isinstance(item, dict) or item.get("type") != "function_call" or item.get("status") == "incomplete":
        return None
    fields = [item.get(name) for name in ("call_id", "name", "arguments")]
    call_id, name, arguments = (each if isinstance(each, str) else "" for each in fields)
    return (call_id, name, arguments) if call_id and name else None


class ClientsView:
    """The items of a session's conversation as its client knows them."""

    def __init__(self, tools: SessionTools) -> None:
        self._tools = tools
        self._outputs: OrderedDict[str, str] = OrderedDict()  # of calls: which call each item is of
        self._before: OrderedDict[str, Json] = OrderedDict()  # by the item of a call, the item before it

    def answered(self, output: str, call: str) -> None:
        """The item `output`, which the client is not told of, has the output of the call `call`."""
        self._outputs[output] = call
        if len(self._outputs) > _KNOWN:
            self._outputs.popitem(last=False)

    def outputs_of(self, call: str) -> list[str]:
        """The items that go with that of a call."""
        return [output for output, of in self._outputs.items() if of == call]

    def before(self, call: str) -> Json:
        """The id of the item before that of a call."""
        return self._before.pop(call, None)

    def rendered(self, event: JsonObject) -> JsonObject | None:
        """An event that is of no response, as the client is told it; None for none."""
        item, before = event.get("item"), event.get("previous_item_id")
        if isinstance(before, str) and before in self._outputs:
            before = self._outputs[before]
            event = {**event, "previous_item_id": before}
        if event.get("type") == "conversation.item.deleted" and str(event.get("item_id")) in self._outputs:
            return None
        if not isinstance(item, dict) or event.get("type") not in _ADDS:
            return event
        id = str(item.get("id"))
        if item.get("type") == "function_call" and item.get("name") in self._tools:
            if event["type"] != "conversation.item.done":
                self._before[id] = before
                if len(self._before) > _KNOWN:
                    self._before.popitem(last=False)
            return None
        return None if id in self._outputs else event


class MergedResponse:
    """One response, whose id is that of the first that the server has made. `output` are the items that are done; `open` the
    calls that have no output yet, with their items; `paused`, the server has nothing to do for it now: its tools are run."""

    def __init__(self, id: str, view: ClientsView, tools: SessionTools, names: Callable[[str], str]) -> None:
        self.id, self._view, self._tools, self._names = id, view, tools, names
        self.output: list[JsonObject] = []
        self.open: dict[str, str] = {}
        self.asked: list[str] = []  # the items of calls that the server has made, and of their outputs
        self.paused = self.ended = False
        self._turns = 1
        self._hidden: set[str] = set()
        self._at: dict[int, int] = {}
        self._count = 0
        self._usage: JsonObject = {}
        self._last: JsonObject = {}
        self._calls: dict[str, str] = {}
        self._item: JsonObject | None = None  # the call that runs
        self._item_before: Json = None
        self._running = ""

    @property
    def as_it_comes(self) -> bool:
        """Whether what the server says of it is told as it is, but for the beginnings and ends of items."""
        return self._turns == 1 and not self._hidden

    def answered(self, call: str, output: str) -> None:
        """The item `output` has the output of a call."""
        self.open.pop(call, None)
        self.asked.append(output)
        self._view.answered(output, self._calls.get(call, ""))

    def goes_on(self) -> None:
        """The server has begun the next response that it is made of."""
        self._turns += 1
        self._at, self.paused = {}, False

    def rendered(self, event: JsonObject) -> JsonObject | None:
        """What the server says of it, as the client is told; None for nothing."""
        item, at = event.get("item"), event.get("output_index")
        kind, item_id = event["type"], event.get("item_id")
        if isinstance(item, dict):
            item_id = item.get("id")
            if kind == "response.output_item.added":
                if item.get("type") == "function_call" and item.get("name") in self._tools:
                    self._hidden.add(str(item_id))
                elif isinstance(at, int):
                    self._at[at] = self._count
                    self._count += 1
        if str(item_id) in self._hidden:
            call = call_of(item) if kind == "response.output_item.done" else None
            if call is not None:
                self.open[call[0]] = self._calls[call[0]] = str(item_id)
                self.asked.append(str(item_id))
            return None
        if kind == "response.output_item.done" and isinstance(item, dict):
            self.output.append(item)
        event = {**event, "response_id": self.id} if "response_id" in event else event
        return {**event, "output_index": self._at.get(at, at)} if isinstance(at, int) else event

    # ------------------------------------------------------------------------------------------------------------ ends

    def over(self, response: JsonObject) -> bool:
        """The server has ended what it made last; returns whether that ends all of it, and calls do not follow."""
        self._last = response
        usage = response.get("usage")
        self._usage = _sum(self._usage, usage) if isinstance(usage, dict) else self._usage
        self.paused = bool(self.open) and response.get("status") == "completed"
        return not self.paused

    def done(
        self,
        status: Literal["completed", "incomplete", "cancelled", "failed"] | None = None,
        details: Mapping[str, Json] | None = None,
    ) -> bytes:
        """The event of its end: as the server has told it, or with this `status`."""
        self.ended = True
        response: JsonObject = {**self._last, "id": self.id, "output": list(self.output)}
        response["usage"] = self._usage or None
        if status is not None:
            response |= {"status": status, "status_details": {"type": status, **(details or {})}}
        return written("response.done", self._names("event_"), response=response)

    # ------------------------------------------------------------------------------------------------ calls of tools here

    def starts(self, event: HostedStart) -> list[bytes]:
        """What is told of a call that begins to run."""
        made = hosted_item(event)
        if made is None or event.kind != "mcp":
            return []
        arguments = arguments_of(event) or "{}"
        item = {"id": self._calls.get(event.id) or self._names("item_"), **made[1]}
        self._item, self._running = item, event.id
        lines = [self._of("response.output_item.added", item=item)]
        self._item_before = self._view.before(str(item["id"]))
        lines.append(self._line("conversation.item.added", previous_item_id=self._item_before, item=item))
        where: JsonObject = {"item_id": item["id"]}
        lines.append(self._of("response.mcp_call_arguments.delta", **where, delta=arguments))
        lines.append(self._of("response.mcp_call_arguments.done", **where, arguments=arguments))
        item["arguments"] = arguments
        lines.append(self._of("response.mcp_call.in_progress", **where))
        return lines

    def ends(self, event: HostedEnd) -> tuple[list[bytes], str, str] | None:
        """What is told of the call whose end this is, its id, and its output as the server is given it; None where none runs."""
        item, self._item = self._item, None
        if item is None:
            return None
        closed = closed_item(item, event)
        closed.pop("status", None)
        text = _text(event)
        if event.failed:
            closed["error"] = {"type": "tool_execution_error", "message": text or "The tool failed."}
        item.update(closed)
        phase = "failed" if event.failed else "completed"
        lines = [self._of(f"response.mcp_call.{phase}", item_id=item["id"])]
        lines.append(self._of("response.output_item.done", item=item))
        lines.append(self._line("conversation.item.done", previous_item_id=self._item_before, item=item))
        self.output.append(item)
        self._count += 1
        return lines, self._running, text

    def _of(self, kind: str, **fields: object) -> bytes:
        return self._line(kind, response_id=self.id, output_index=self._count, **fields)

    def _line(self, kind: str, **fields: object) -> bytes:
        return written(kind, self._names("event_"), **fields)


def _text(event: HostedEnd) -> str:
    """What a call has returned, as text: of other media there is a note."""
    payload = msgspec.json.decode(event.payload, type=dict[str, Json]) if event.payload else {}
    content = payload.get("content")
    kinds = [str(each.get("type")) for each in content if isinstance(each, dict)] if isinstance(content, list) else []
    notes = [f"[The tool returned a part of the kind {kind}, which is no text.]" for kind in kinds if kind != "text"]
    return "\n".join([each for each in (str(payload.get("text") or ""), *notes) if each])


def _sum(first: JsonObject, second: JsonObject) -> JsonObject:
    """Two counts of tokens in one."""
    summed = dict(first)
    for name, value in second.items():
        before = summed.get(name)
        if isinstance(value, dict):
            summed[name] = _sum(before if isinstance(before, dict) else {}, value)
        elif isinstance(value, int) and isinstance(before, int):
            summed[name] = before + value
        else:
            summed[name] = value
    return summed
