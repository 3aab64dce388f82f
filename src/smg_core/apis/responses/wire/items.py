"""The items of a Responses request as `Message` records.

Decides which item becomes which part of which turn. Consecutive items of the assistant's side (reasoning, messages, calls)
are one turn, in the order of the wire; each output of a call is a turn of its own, directly behind the turn of its call, whatever
the developer has said between them. Items that only other servers can make
(hosted calls, approvals) are never refused, since clients send back what they were once given: they are left out of the
prompt, or stand in it as text. What is refused: a part or role that an item cannot have, an output without its call, and a
call that a later turn of the user leaves without its output.

A history that was loaded is read together with the request's own items, so that an output finds its call in it. Pure. Above:
responses. Below: the wire types, documents, json_bounds, request.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from smg_core.apis.responses.wire import types as wire
from smg_core.apis.responses.wire.client_tools import CLIENT_ITEMS, client_output
from smg_core.apis.responses.wire.content import TEXTS, read_part
from smg_core.apis.responses.wire.mcp import call_result
from smg_core.apis.responses.wire.names import ToolNames
from smg_core.apis.responses.wire.stored_items import item_type
from smg_core.apis.responses.wire.summaries import SummaryMessage
from smg_core.errors import InvalidRequest
from smg_core.json_types import JsonObject
from smg_core.request import (
    AskedCall,
    Message,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from smg_core.tool_names import flat_name
from smg_core.wire.decoding import explained
from smg_core.wire.documents import refuse_faults
from smg_core.wire.json_bounds import NestedJson
from smg_core.wire.settings import LimitsConfig

__all__ = ["ReadInput", "read_items"]

T = TypeVar("T", bound=Struct)

_LEFT_OUT = frozenset(
    {
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
        "program",
        "program_output",
    }
)
"""Items of tools that servers run. A replay of them is taken and says nothing to the model."""
_AS_TEXT: Mapping[str, Role] = {
    "mcp_call": "assistant",
    "local_shell_call": "assistant",
    "shell_call": "assistant",
    "apply_patch_call": "assistant",
    "computer_call": "assistant",
    "local_shell_call_output": "user",
    "shell_call_output": "user",
    "apply_patch_call_output": "user",
    "computer_call_output": "user",
}
"""Calls of built-in tools that no local model has a form for: the prompt has them as text, on this side."""
_OF_A_REQUEST = frozenset({"item_reference", "compaction_trigger"})
"""Items that say something of the request they are in, and nothing in a conversation."""
_NOT_READ = frozenset({"id", "status", "type"})


class ReadInput(Struct, frozen=True):
    """What the items come to. `places` has, for each message, the field it was read from and the field of each of its parts.
    `tools` are those that items bring along, with their fields. `update` is the last configuration_update, `compact` says
    that the last item asks for a compaction instead of a turn. `approved` are the calls that the user agrees to in this request,
    `refused` those that the user does not agree to in it, `listed` the labels of the servers whose tools the items list."""

    messages: tuple[Message, ...]
    places: tuple[tuple[str, tuple[str, ...]], ...]
    tools: tuple[tuple[str, JsonObject], ...] = ()
    update: wire.ConfigurationUpdate | None = None
    compact: bool = False
    approved: tuple[AskedCall, ...] = ()
    listed: frozenset[str] = frozenset()
    refused: tuple[AskedCall, ...] = ()


def read_items(
    items: Sequence[JsonObject],
    *,
    limits: LimitsConfig,
    names: ToolNames,
    loaded: int = 0,
    loaded_at: str = "previous_response_id",
    summaries: Mapping[str, tuple[SummaryMessage, ...]] = {},
    text_input: bool = False,
    hosted: frozenset[str] = frozenset(),
) -> ReadInput:
    """`items` in order; the first `loaded` of them come from the store, by the parameter `loaded_at`. `names` are the tools'
    names before the model, `summaries` what sealed compactions say, by their encrypted_content. `text_input`: the request's
    input was one string. `hosted` are the labels of the servers whose tools run here. Raises `InvalidRequest` naming the field
    at fault."""
    reader = _Reader(limits, names, loaded, summaries, text_input, loaded_at, hosted=hosted)
    for order, item in enumerate(items):
        reader.read(order, item)
    return reader.done()


def check_item(item: JsonObject, limits: LimitsConfig) -> None:
    """Raise `InvalidRequest`, naming a field of "input[0]", where no request could have this item in its history. Called for
    items that are put into a conversation; whether a call has its output is seen when the conversation is continued."""
    kind = item_type(item)
    if kind in _OF_A_REQUEST:
        message = f"Invalid value for 'input[0].type': {kind!r} is an item of requests for a response only."
        raise InvalidRequest(message, param="input[0].type", code="invalid_value")
    token = item.get("encrypted_content")
    summaries: dict[str, tuple[SummaryMessage, ...]] = {token: ()} if isinstance(token, str) else {}
    reader = _Reader(limits, ToolNames(), 0, summaries, False, calls=(str(item.get("call_id")), "input[0]"))
    reader.read(0, item)
    reader.refuse_faults()


def _is_of_model(kind: str, item: JsonObject) -> bool:
    """Whether the item is of an answer of the model: what the user has answered before it was heard in that request."""
    return kind == "reasoning" or kind.endswith("_call") or (kind == "message" and item.get("role") == "assistant")


class _Turn:
    """A message that is being read."""

    __slots__ = ("at", "id", "parts", "phase", "places", "results", "role", "text")

    def __init__(self, role: Role, at: str) -> None:
        self.role: Role = role
        self.at = at
        self.id: str | None = None
        self.phase: Any = None
        self.parts: list[Part] = []
        self.places: list[str] = []
        self.results: list[_Turn] = []  # of its calls
        self.text = False  # the client wrote one plain string

    def add(self, part: Part, place: str) -> None:
        self.parts.append(part)
        self.places.append(place)

    def drop_calls(self, ids: Container[str]) -> None:
        """Leave out the calls of these ids."""
        kept = [
            (part, place)
            for part, place in zip(self.parts, self.places, strict=True)
            if not (isinstance(part, ToolCall) and part.id in ids)
        ]
        self.parts, self.places = [part for part, _ in kept], [place for _, place in kept]

    def message(self) -> Message:
        only_text = self.text and len(self.parts) == 1
        return Message(self.role, tuple(self.parts), content_is_text=only_text, id=self.id, phase=self.phase)


class _OpenCall(Struct, frozen=True):
    """A call without an output yet: where it stands, whether it was cut off, and the turns that it is in; those are more than
    one where a client gives an id twice."""

    at: str
    cut: bool
    turns: list[_Turn]


class _Reader:
    """Reads the items of one request."""

    def __init__(
        self,
        limits: LimitsConfig,
        names: ToolNames,
        loaded: int,
        summaries: Mapping[str, tuple[SummaryMessage, ...]],
        text_input: bool,
        loaded_at: str = "previous_response_id",
        calls: Iterable[str] = (),
        hosted: frozenset[str] = frozenset(),
    ) -> None:
        self._names = names
        self._loaded = loaded
        self._loaded_at = loaded_at
        self._summaries = summaries
        self._text_input = text_input
        self._nested = NestedJson(limits)
        self._turns: list[_Turn] = []
        self._tools: list[tuple[str, JsonObject]] = []
        self._update: wire.ConfigurationUpdate | None = None
        self._compact = False
        self._calls: set[str] = set(calls)
        self._called_in: dict[str, _Turn] = {}  # the turns of the calls, but those before a compaction
        self._open: dict[str, _OpenCall] = {}
        self._unnamed: list[
            str
        ] = []  # searches without an id, which a server's own have: their outputs come in their order
        self._hosted = hosted
        self._listed: set[str] = set()
        self._asked: dict[str, wire.McpApprovalRequest] = {}
        self._approved: dict[str, AskedCall] = {}
        self._refused: dict[str, AskedCall] = {}
        self._heard: set[str] = set()  # the refusals that the model has answered since
        self._unheard: tuple[str, str] | None = None  # an answer to a question that no server here could have asked

    def read(self, order: int, item: JsonObject) -> None:
        at = self._place(order)
        kind = item_type(item)
        if kind == "compaction_trigger" and order < self._loaded:
            return  # it was obeyed when it was sent
        if self._compact:
            raise InvalidRequest(f"Invalid '{at}': a compaction_trigger is the last item.", param=at)
        if _is_of_model(kind, item):
            self._heard, self._unheard = set(self._refused), None
        if self._hosted and kind in _OF_SERVERS and _OF_SERVERS[kind](self, item, at):
            return
        if kind in _OF_CLIENT and self._client_item(kind, item, at):
            return
        if (kind in _LEFT_OUT or kind in _AS_TEXT) and order >= self._loaded:
            explained(item, wire.ReplayedItem, at)
        if kind in _LEFT_OUT:
            if kind == "mcp_approval_response" and order >= self._loaded:
                self._unheard = (at, explained(item, wire.McpApprovalResponse, at).approval_request_id)
            return
        if kind in _AS_TEXT:
            fields = {name: value for name, value in item.items() if name not in _NOT_READ}
            self._turn(_AS_TEXT[kind], at).add(Text(f"[{kind}] {msgspec.json.encode(fields).decode()}"), at)
            return
        reader = _READERS.get(kind)
        if reader is None:
            raise InvalidRequest(
                f"Invalid value for '{at}.type': {kind[:80]!r}.", param=f"{at}.type", code="invalid_value"
            )
        reader(self, item, at)

    def refuse_faults(self) -> None:
        """Raise InvalidRequest for a medium that cannot be had."""
        for turn in self._turns:
            refuse_faults(turn.parts)

    def done(self) -> ReadInput:
        self._settle("input")
        if self._unheard is not None:
            at, asked = self._unheard
            raise InvalidRequest(
                f"The call '{asked[:80]}' cannot be answered: 'tools' has no server of tools that could run it.",
                param=f"{at}.approval_request_id",
            )
        messages: list[Message] = []
        places: list[tuple[str, tuple[str, ...]]] = []
        for turn in self._turns:
            for each in (turn, *turn.results):
                if each.parts:
                    messages.append(each.message())
                    places.append((each.at, tuple(each.places)))
        return ReadInput(
            tuple(messages),
            tuple(places),
            tuple(self._tools),
            self._update,
            self._compact,
            tuple(self._approved.values()),
            frozenset(self._listed),
            tuple([call for call in self._refused.values() if call.id not in self._heard]),
        )

    def _place(self, order: int) -> str:
        if order < self._loaded:
            return self._loaded_at
        return "input" if self._text_input else f"input[{order - self._loaded}]"

    def _turn(self, role: Role, at: str) -> _Turn:
        """The turn that a part goes into: the open one of the assistant, else a new one."""
        last = self._turns[-1] if self._turns else None
        if role == "assistant" and last is not None and last.role == "assistant" and not last.results:
            return last
        turn = _Turn(role, at)
        self._turns.append(turn)
        return turn

    def _settle(self, at: str) -> None:
        """A turn of the user begins, or the input ends: calls before it have their outputs, or were cut off."""
        if not self._open:
            return
        for call_id, call in self._open.items():
            if not call.cut:
                raise InvalidRequest(f"No tool output found for function call {call_id[:80]}.", param=call.at)
        for turn in {id(turn): turn for call in self._open.values() for turn in call.turns}.values():
            turn.drop_calls(self._open)
        self._open.clear()

    # -------------------------------------------------------------------------------------------------------- messages

    def _message(self, item: JsonObject, at: str) -> None:
        read = explained(item, wire.MessageItem, at)
        if read.role == "user":
            self._settle(at)
        turn = self._turn(read.role, at)
        if turn.id is None:
            turn.id = read.id
        turn.phase = read.phase or turn.phase
        if isinstance(read.content, str):
            turn.text = not turn.parts
            turn.add(Text(read.content), f"{at}.content")
            return
        if not read.content and read.role != "assistant" and at != self._loaded_at:
            raise InvalidRequest(f"Invalid '{at}.content': empty array.", param=f"{at}.content", code="empty_array")
        one_text = len(read.content) == 1 and str(read.content[0].get("type")) in TEXTS
        turn.text = one_text and not turn.parts and not read.content[0].get("prompt_cache_breakpoint")
        for order, part in enumerate(read.content):
            where = at if self._text_input else f"{at}.content[{order}]"
            turn.add(read_part(part, read.role, where), where)

    def _reasoning(self, item: JsonObject, at: str) -> None:
        read = explained(item, wire.ReasoningItem, at)
        summary = tuple(part.text for part in read.summary)
        seal = read.encrypted_content.encode() if read.encrypted_content else None
        readable = "".join(part.text for part in read.content or ()) or "\n".join(summary)
        text = readable if seal is None else ""  # what is sealed counts
        if text or seal:
            self._turn("assistant", at).add(Reasoning(text, read.id, summary, seal), at)

    # ----------------------------------------------------------------------------------------------------------- calls

    def _call(self, item: JsonObject, at: str) -> None:
        read = explained(item, wire.FunctionCall, at)
        self._nested.check(read.arguments, f"{at}.arguments")
        name = self._names.flat(read.name, read.namespace)
        call = ToolCall(read.call_id, name, read.arguments, item_id=read.id)
        self._called(call, at, cut=read.status == "incomplete")

    def _custom_call(self, item: JsonObject, at: str) -> None:
        read = explained(item, wire.CustomCall, at)
        name = self._names.flat(read.name, read.namespace)
        call = ToolCall(read.call_id, name, read.input, custom=True, item_id=read.id)
        self._called(call, at, cut=item.get("status") == "incomplete")

    def _search(self, item: JsonObject, at: str) -> None:
        read = explained(item, wire.ToolSearchCall, at)
        arguments = msgspec.json.encode(read.arguments).decode()
        call = ToolCall(read.call_id or at, "tool_search", arguments, item_id=read.id)
        if read.call_id is None:
            self._unnamed.append(at)
        self._called(call, at, cut=item.get("status") == "incomplete" or item.get("execution") == "server")

    def _called(self, call: ToolCall, at: str, *, cut: bool) -> None:
        self._calls.add(call.id)
        turn = self._called_in[call.id] = self._turn("assistant", at)
        earlier = self._open.get(call.id)
        self._open[call.id] = _OpenCall(at, cut, earlier.turns if earlier is not None else [])
        self._open[call.id].turns.append(turn)
        turn.add(call, at)

    def _client_item(self, kind: str, item: JsonObject, at: str) -> bool:
        """A call of a built-in tool that the client runs, or its output; returns whether the request has that tool."""
        call_id = str(item.get("call_id") or item.get("id") or at)
        if kind.endswith("_output"):
            if call_id not in self._calls:
                return False
            self._returned(call_id, *_placed(client_output(item, at), at))
            return True
        name = self._names.built_in(*_OF_CLIENT[kind])
        if name is None:
            return False
        read = explained(item, wire.ReplayedItem, at)
        made = CLIENT_ITEMS[_OF_CLIENT[kind][0]]
        call = ToolCall(call_id, name, made.arguments(item), item_id=read.id)
        self._called(call, at, cut=read.status == "incomplete")
        return True

    def _output(self, item: JsonObject, at: str) -> None:
        read = explained(item, wire.OutputItem, at)
        if isinstance(read.output, str):
            content: tuple[Part, ...] = (Text(read.output),)
            places = [f"{at}.output"]
        else:
            places = [f"{at}.output[{order}]" for order in range(len(read.output))]
            content = tuple(read_part(part, "tool", place) for part, place in zip(read.output, places, strict=True))
        self._returned(read.call_id, content, at, isinstance(read.output, str))

    def _found_tools(self, item: JsonObject, at: str) -> None:
        read = explained(item, wire.ToolSearchOutput, at)
        self._tools += [(f"{at}.tools[{order}]", tool) for order, tool in enumerate(read.tools)]
        found = ", ".join(str(tool.get("name")) for tool in read.tools)
        call_id = read.call_id or (self._unnamed.pop(0) if self._unnamed else at)
        if item.get("execution") == "server" and call_id not in self._calls:
            return  # another server's search, of which the client has kept what was found
        self._returned(call_id, (Text(f"Tools that can be called now: {found or 'none'}"),), at, True)

    def _returned(self, call_id: str, content: tuple[Part, ...], at: str, is_text: bool) -> None:
        if call_id not in self._calls:
            raise InvalidRequest(
                f"No tool call found for function call output with call_id {call_id[:80]}.", param=f"{at}.call_id"
            )
        self._open.pop(call_id, None)
        turn = _Turn("tool", at)
        turn.add(ToolResult(call_id, content), f"{at}.output")
        turn.text = is_text
        of = self._called_in.get(call_id)
        (self._turns if of is None else of.results).append(turn)

    # ----------------------------------------------------------------------------------------- tools that run here
    # Each returns whether the item is of a server of this request; others are read as if no tools ran here.

    def _list_of_tools(self, item: JsonObject, at: str) -> bool:
        self._listed.add(str(item.get("server_label")))
        return True

    def _hosted_call(self, item: JsonObject, at: str) -> bool:
        read = explained(item, wire.McpCall, at)
        if read.server_label not in self._hosted:
            return False
        asked = read.approval_request_id
        if asked is not None and (asked in self._approved or asked in self._calls):
            self._drop_asked(asked)
        call_id = read.id or at
        text, failed = call_result(read)
        self._answered(call_id, read, (Text(text),), at, failed=failed)
        return True

    def _answered(
        self,
        call_id: str,
        call: wire.McpCall | wire.McpApprovalRequest,
        content: tuple[Part, ...],
        at: str,
        *,
        failed: bool = False,
    ) -> None:
        """A call of a hosted tool and its result."""
        self._nested.check(call.arguments, f"{at}.arguments")
        self._calls.add(call_id)
        name = flat_name(call.server_label, call.name)
        of = self._turn("assistant", at)
        of.add(ToolCall(call_id, name, call.arguments or "{}"), at)
        turn = _Turn("tool", at)
        turn.add(ToolResult(call_id, content, failed), at)
        turn.text = True
        of.results.append(turn)

    def _drop_asked(self, asked: str) -> None:
        """The call that was asked about under this id has run, and stands here with its result."""
        self._approved.pop(asked, None)
        for turn in self._turns:
            turn.drop_calls((asked,))
            turn.results = [
                result
                for result in turn.results
                if not any(isinstance(part, ToolResult) and part.call_id == asked for part in result.parts)
            ]

    def _approval_request(self, item: JsonObject, at: str) -> bool:
        read = explained(item, wire.McpApprovalRequest, at)
        if read.server_label in self._hosted:
            self._asked[read.id] = read
        return True

    def _approval_response(self, item: JsonObject, at: str) -> bool:
        read = explained(item, wire.McpApprovalResponse, at)
        asked = self._asked.get(read.approval_request_id)
        if asked is None and at == self._loaded_at:
            return True
        if asked is None or asked.id in self._approved or asked.id in self._refused:
            what = "No approval request" if asked is None else "More than one answer"
            raise InvalidRequest(
                f"{what} found for the id '{read.approval_request_id[:80]}'.", param=f"{at}.approval_request_id"
            )
        reason = f" The user says: {read.reason}" if read.reason else ""
        call = AskedCall(asked.id, asked.server_label, asked.name, asked.arguments)
        if not read.approve:
            text = f"The user did not approve this call.{reason}"
            if at != self._loaded_at:
                self._refused[asked.id] = call
        elif at == self._loaded_at:
            text = "The user approved this call, and its result is not known."
        else:
            text = ""
            self._approved[asked.id] = call
        self._answered(asked.id, asked, (Text(text),), at, failed=bool(text))
        return True

    # ---------------------------------------------------------------------------------------------------------- others

    def _more_tools(self, item: JsonObject, at: str) -> None:
        read = explained(item, wire.AdditionalTools, at)
        self._tools += [(f"{at}.tools[{order}]", tool) for order, tool in enumerate(read.tools)]

    def _configuration(self, item: JsonObject, at: str) -> None:
        self._update = explained(item, wire.ConfigurationUpdate, at)

    def _compaction(self, item: JsonObject, at: str) -> None:
        read = explained(item, wire.Compaction, at)
        summary = self._summaries.get(read.encrypted_content)
        if summary is None and at == self._loaded_at and self._turns:
            return  # sealed with a key that is gone; what it stood for is kept before it
        if summary is None:
            raise InvalidRequest(
                "The encrypted content could not be verified.",
                param=f"{at}.encrypted_content",
                code="invalid_encrypted_content",
            )
        self._turns.clear()
        self._open.clear()
        self._called_in.clear()
        for message in summary:
            turn = self._turn(message.role, at)
            turn.text = True
            turn.add(Text(message.text), at)

    def _trigger(self, item: JsonObject, at: str) -> None:
        self._compact = True

    def _reference(self, item: JsonObject, at: str) -> None:
        read = explained(item, wire.ItemReference, at)
        raise InvalidRequest(f"Item with id '{read.id[:80]}' not found.", param=f"{at}.id")


def _placed(read: tuple[tuple[Part, ...], bool], at: str) -> tuple[tuple[Part, ...], str, bool]:
    content, is_text = read
    return content, at, is_text


_OF_CLIENT: Mapping[str, tuple[str, ...]] = {
    each.type: tuple(kind for kind, other in CLIENT_ITEMS.items() if other.type == each.type)
    for each in CLIENT_ITEMS.values()
}
_OF_CLIENT = {**_OF_CLIENT, **{f"{kind}_output": tools for kind, tools in _OF_CLIENT.items()}}
"""The types of the tools whose calls and outputs these items are."""
_READERS: Mapping[str, Callable[[_Reader, JsonObject, str], None]] = {
    "message": _Reader._message,
    "reasoning": _Reader._reasoning,
    "function_call": _Reader._call,
    "function_call_output": _Reader._output,
    "custom_tool_call": _Reader._custom_call,
    "custom_tool_call_output": _Reader._output,
    "tool_search_call": _Reader._search,
    "tool_search_output": _Reader._found_tools,
    "additional_tools": _Reader._more_tools,
    "configuration_update": _Reader._configuration,
    "item_reference": _Reader._reference,
    "compaction": _Reader._compaction,
    "compaction_trigger": _Reader._trigger,
}
_OF_SERVERS: Mapping[str, Callable[[_Reader, JsonObject, str], bool]] = {
    "mcp_list_tools": _Reader._list_of_tools,
    "mcp_call": _Reader._hosted_call,
    "mcp_approval_request": _Reader._approval_request,
    "mcp_approval_response": _Reader._approval_response,
}
"""The items of servers of tools."""
