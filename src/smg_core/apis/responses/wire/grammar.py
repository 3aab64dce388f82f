"""The order of a Responses stream's events, as a table, and a checker of streams by it.

`NEXT` says for every event in which states it may come and which state follows; `MUST_MATCH` what is compared beside it.
Every test of the encoder, and every tool that looks at another server's stream, checks by this one table. Source: OpenAI's
API reference and what its SDK and Codex raise on. Pure; knows no encoder.
"""

from collections.abc import Iterable, Mapping

from smg_core.json_types import Json, JsonObject

__all__ = [
    "CALL",
    "CALL_DONE",
    "CODE_DONE",
    "CODE_WRITTEN",
    "CODING",
    "COMPACTION",
    "CUSTOM",
    "CUSTOM_DONE",
    "END",
    "IMAGE_DONE",
    "ITEM",
    "LISTING",
    "LISTING_DONE",
    "MESSAGE",
    "NEXT",
    "PAINTING",
    "PART_DONE",
    "REASONING",
    "REFUSAL",
    "RUN",
    "RUN_ASKED",
    "RUN_DONE",
    "SEARCH",
    "SEARCH_DONE",
    "START",
    "SUMMARY",
    "SUMMARY_DONE",
    "TERMINAL",
    "TEXT",
    "THOUGHT",
    "THOUGHT_DONE",
    "ResponsesGrammar",
    "check_stream",
]

START, CREATED, OPEN, END = "nothing has come", "created", "no item is open", "ended"
ITEM = "an item is open"
MESSAGE, TEXT, REFUSAL, PART_DONE = "a message is open", "a text is open", "a refusal is open", "a part is complete"
REASONING, THOUGHT, THOUGHT_DONE = "reasoning is open", "a reasoning text is open", "a reasoning text is complete"
SUMMARY, SUMMARY_DONE = "a summary part is open", "a summary part is complete"
CALL, CALL_DONE = "a call is open", "a call's arguments are complete"
CUSTOM, CUSTOM_DONE = "a custom call is open", "a custom call's input is complete"
COMPACTION = "a compaction is open"
RUN, RUN_ASKED, RUN_DONE = "a hosted call is open", "a hosted call's arguments are complete", "a hosted call is over"
LISTING, LISTING_DONE = "a list of tools is open", "a list of tools is complete"
SEARCH, SEARCH_DONE = "a search is open", "a search is over"
CODING, CODE_WRITTEN, CODE_DONE = "a call of code is open", "a call's code is complete", "a call of code is over"

PAINTING, IMAGE_DONE = "a picture is being made", "a picture is made"

_WITHIN: tuple[str, ...] = (ITEM, MESSAGE, TEXT, REFUSAL, PART_DONE, REASONING, THOUGHT, THOUGHT_DONE)
_WITHIN += (SUMMARY, SUMMARY_DONE, CALL, CALL_DONE, CUSTOM, CUSTOM_DONE, COMPACTION)
_HOSTED: tuple[str, ...] = (RUN, RUN_ASKED, RUN_DONE, LISTING, LISTING_DONE, SEARCH, SEARCH_DONE)
_HOSTED += (CODING, CODE_WRITTEN, CODE_DONE, PAINTING, IMAGE_DONE)
_WITHIN += _HOSTED
TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})
_ADDED, _DONE = "response.output_item.added", "response.output_item.done"

_PICTURE_MOMENTS = ("in_progress", "generating", "partial_image")

NEXT: Mapping[str, Mapping[str, str]] = {
    "response.created": {START: CREATED},
    "response.queued": {CREATED: CREATED},
    "response.in_progress": {CREATED: OPEN, OPEN: OPEN, **{state: state for state in _WITHIN}},
    _ADDED: {OPEN: ITEM, CREATED: ITEM},
    "response.content_part.added": {MESSAGE: TEXT, PART_DONE: TEXT, REASONING: THOUGHT, THOUGHT_DONE: THOUGHT},
    "response.output_text.delta": {TEXT: TEXT},
    "response.output_text.annotation.added": {TEXT: TEXT},
    "response.output_text.done": {TEXT: PART_DONE},
    "response.refusal.delta": {TEXT: REFUSAL, REFUSAL: REFUSAL},
    "response.refusal.done": {TEXT: PART_DONE, REFUSAL: PART_DONE},
    "response.content_part.done": {PART_DONE: MESSAGE, THOUGHT_DONE: REASONING},
    "response.reasoning_text.delta": {THOUGHT: THOUGHT},
    "response.reasoning_text.done": {THOUGHT: THOUGHT_DONE},
    "response.reasoning_summary_part.added": {REASONING: SUMMARY},
    "response.reasoning_summary_text.delta": {SUMMARY: SUMMARY},
    "response.reasoning_summary_text.done": {SUMMARY: SUMMARY_DONE},
    "response.reasoning_summary_part.done": {SUMMARY_DONE: REASONING},
    "response.function_call_arguments.delta": {CALL: CALL},
    "response.function_call_arguments.done": {CALL: CALL_DONE},
    **{f"response.shell_call_command.{moment}": {ITEM: ITEM} for moment in ("added", "delta", "done")},
    "response.custom_tool_call_input.delta": {CUSTOM: CUSTOM},
    "response.custom_tool_call_input.done": {CUSTOM: CUSTOM_DONE},
    "response.mcp_call.in_progress": {RUN: RUN, RUN_ASKED: RUN_ASKED},
    "response.mcp_call_arguments.delta": {RUN: RUN},
    "response.mcp_call_arguments.done": {RUN: RUN_ASKED},
    "response.mcp_call.completed": {RUN_ASKED: RUN_DONE},
    "response.mcp_call.failed": {RUN: RUN_DONE, RUN_ASKED: RUN_DONE},
    "response.mcp_list_tools.in_progress": {LISTING: LISTING},
    "response.mcp_list_tools.completed": {LISTING: LISTING_DONE},
    "response.mcp_list_tools.failed": {LISTING: LISTING_DONE},
    **{
        f"response.{kind}_search_call.{moment}": {SEARCH: SEARCH_DONE if moment == "completed" else SEARCH}
        for kind in ("web", "file")
        for moment in ("in_progress", "searching", "completed")
    },
    "response.code_interpreter_call.in_progress": {CODING: CODING},
    "response.code_interpreter_call_code.delta": {CODING: CODING},
    "response.code_interpreter_call_code.done": {CODING: CODE_WRITTEN},
    "response.code_interpreter_call.interpreting": {CODE_WRITTEN: CODE_WRITTEN},
    "response.code_interpreter_call.completed": {CODE_WRITTEN: CODE_DONE},
    **{f"response.image_generation_call.{moment}": {PAINTING: PAINTING} for moment in _PICTURE_MOMENTS},
    "response.image_generation_call.completed": {PAINTING: IMAGE_DONE},
    "response.compaction.compacting": {COMPACTION: COMPACTION},
    _DONE: dict.fromkeys((ITEM, MESSAGE, REASONING, CALL_DONE, CUSTOM_DONE, COMPACTION, *_HOSTED), OPEN),
    "response.completed": {OPEN: END, CREATED: END},
    "response.incomplete": {OPEN: END, CREATED: END},
    "response.failed": {OPEN: END, CREATED: END, **dict.fromkeys(_WITHIN, END)},
}
"""Event to what state it leads to, by the state it may come in."""
_OPENS: Mapping[str, str] = {
    "message": MESSAGE,
    "reasoning": REASONING,
    "function_call": CALL,
    "custom_tool_call": CUSTOM,
    "compaction": COMPACTION,
    "mcp_call": RUN,
    "mcp_list_tools": LISTING,
    "web_search_call": SEARCH,
    "file_search_call": SEARCH,
    "code_interpreter_call": CODING,
    "image_generation_call": PAINTING,
}
"""The state that an added item of each type leads to; of every other type it is `ITEM`."""
_JOINED: Mapping[str, tuple[str, str]] = {
    "response.output_text.done": ("response.output_text.delta", "text"),
    "response.refusal.done": ("response.refusal.delta", "refusal"),
    "response.reasoning_text.done": ("response.reasoning_text.delta", "text"),
    "response.reasoning_summary_text.done": ("response.reasoning_summary_text.delta", "text"),
    "response.function_call_arguments.done": ("response.function_call_arguments.delta", "arguments"),
    "response.custom_tool_call_input.done": ("response.custom_tool_call_input.delta", "input"),
    "response.mcp_call_arguments.done": ("response.mcp_call_arguments.delta", "arguments"),
    "response.code_interpreter_call_code.done": ("response.code_interpreter_call_code.delta", "code"),
}
"""Events that repeat the deltas before them, and the field they do it in."""
_WITH_PART = frozenset(
    f"response.{part}.{moment}" for part in ("content_part", "reasoning_summary_part") for moment in ("added", "done")
)


_STATUSES: Mapping[str, tuple[str, ...]] = {
    "response.completed": ("completed",),
    "response.failed": ("failed",),
    "response.incomplete": ("incomplete", "cancelled"),
}
"""The status that a response has in each terminal event."""
_WITHOUT_STATUS = ("mcp_list_tools", "mcp_approval_request")
_ITEM_STATUSES: Mapping[str, tuple[str | None, ...]] = {
    **dict.fromkeys(_WITHOUT_STATUS, (None,)),
    **dict.fromkeys(
        ("mcp_call", "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call"),
        ("completed", "incomplete", "failed"),
    ),
}
"""The statuses of an item that is done, by its type; of all others it is complete or not."""


class ResponsesGrammar:
    """Follows one stream. `fault` is what is wrong with the event that was taken last, None while nothing is."""

    def __init__(self) -> None:
        self.state = START
        self.items: list[JsonObject] = []
        self.response_id: Json = None
        self._number = -1
        self._added: JsonObject = {}
        self._deltas: list[str] = []

    def take(self, event: JsonObject) -> str | None:
        """Take the next event; returns what is wrong with it, None if nothing is."""
        kind = str(event.get("type"))
        following = NEXT.get(kind)
        if following is None:
            return f"{kind} is no event that is known"
        if self.state not in following:
            return f"{kind} came when {self.state}"
        fault = self._numbers(event, kind) or self._contents(event, kind)
        self.state = following[self.state]
        if kind == _ADDED:
            self.state = _OPENS.get(str(self._added.get("type")), ITEM)
        return fault

    def _numbers(self, event: JsonObject, kind: str) -> str | None:
        number, expected = event.get("sequence_number"), self._number + 1
        if self._number >= 0 and number != expected:
            return f"{kind} has the number {number} behind {self._number}"
        if not isinstance(number, int):
            return f"{kind} has no sequence_number"
        self._number = number
        return None

    def _contents(self, event: JsonObject, kind: str) -> str | None:
        response = event.get("response")
        if isinstance(response, dict):
            return self._lifecycle(response, kind)
        if event.get("output_index") != len(self.items):
            return f"{kind} has the output_index {event.get('output_index')} and not {len(self.items)}"
        item = event.get("item")
        if kind == _ADDED and isinstance(item, dict):
            self._added, self._deltas = item, []
            status = None if item.get("type") in _WITHOUT_STATUS else "in_progress"
            return None if item.get("id") and item.get("status") == status else "an added item is not in_progress"
        if kind == _DONE and isinstance(item, dict):
            return self._item_done(item)
        if kind.startswith("response.shell_call_command."):
            return None  # these name no item
        if event.get("item_id") != self._added.get("id"):
            return f"{kind} is of the item {event.get('item_id')} and not of {self._added.get('id')}"
        if kind in _WITH_PART and not (
            isinstance(part := event.get("part"), dict) and isinstance(part.get("type"), str)
        ):
            return f"{kind} has no part"
        if isinstance(event.get("delta"), str):
            self._deltas.append(str(event["delta"]))
        elif kind in _JOINED:
            _, field = _JOINED[kind]
            joined, self._deltas = "".join(self._deltas), []
            if event.get(field) != joined:
                return f"{kind} has other text than its deltas"
        return None

    def _item_done(self, item: JsonObject) -> str | None:
        for name in ("id", "type", "call_id"):
            if item.get(name) != self._added.get(name):
                return f"the item done has another {name} than the item added"
        if item.get("status") not in _ITEM_STATUSES.get(str(item.get("type")), ("completed", "incomplete")):
            return f"an item is done with the status {item.get('status')}"
        self.items.append(item)
        return None

    def _lifecycle(self, response: JsonObject, kind: str) -> str | None:
        if self.response_id is None:
            self.response_id = response.get("id")
        if response.get("id") != self.response_id:
            return f"{kind} has another response id"
        if kind in TERMINAL and not self._is_output(response.get("output"), kind):
            return f"{kind} has other output than the items that were done"
        if kind in _STATUSES and response.get("status") not in _STATUSES[kind]:
            return f"{kind} has the status {response.get('status')}"
        return None

    def _is_output(self, output: Json, kind: str) -> bool:
        """Whether these are the items that are done. A response that failed may also have the one that was open, as it was."""
        if output == self.items:
            return True
        if kind != "response.failed" or self.state not in _WITHIN or not isinstance(output, list) or not output:
            return False
        last = output[-1]
        if not isinstance(last, dict) or last.get("id") != self._added.get("id"):
            return False
        # A hosted call that ran stays as it ended.
        statuses = _ITEM_STATUSES.get(str(last.get("type")), ("incomplete",))
        return last.get("status") in statuses and output[:-1] == self.items


def check_stream(events: Iterable[JsonObject], *, whole: bool = True) -> ResponsesGrammar:
    """Follow `events` and return the grammar behind the last. Raises ValueError with the place of the first fault; `whole`: also
    where no terminal event comes."""
    grammar = ResponsesGrammar()
    for place, event in enumerate(events):
        fault = grammar.take(event)
        if fault is not None:
            raise ValueError(f"event {place}: {fault}")
    if whole and grammar.state != END:
        raise ValueError(f"the stream ended when {grammar.state}")
    return grammar
