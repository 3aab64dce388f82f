"""Tools of MCP servers in Chat Completions, which is an extension: what a request says of them, and what an answer tells.

Among `tools` may be servers of tools, with the fields that Responses has for them. An assistant's message has the calls that ran
(`mcp_calls`) and those that the user is asked about (`mcp_approval_requests`); a message of a tool with `approve` answers such a
question. In the prompt the calls of a message stand before its text, each with its result. A question that nobody answered is not
in the prompt. An answer counts in the request that brings it first, which is one where no assistant's message follows it.

Pure. Above: chat, chat_encode. Below: the wire types, responses_mcp, request.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from smg_core.apis.chat import types as wire
from smg_core.apis.chat.messages import read_message, read_messages
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.events import Event, HostedEnd, HostedStart
from smg_core.json_types import Json, JsonObject
from smg_core.request import AskedCall, HostedTool, Message, Part, Text, Tool, ToolCall, ToolKey, ToolResult
from smg_core.tool_names import flat_name
from smg_core.wire.decoding import brief
from smg_core.wire.json_bounds import NestedJson
from smg_core.wire.mcp_types import hosted_server
from smg_core.wire.settings import LimitsConfig

__all__ = ["HostedCalls", "MessagesWithCalls", "has_calls", "hosted_key", "read_hosted", "read_with_calls"]

KIND = "mcp"


def read_hosted(tool: wire.McpToolWire, at: str, hosted: frozenset[str]) -> HostedTool:
    """The server of tools at `at`. Raises UnsupportedParameter where none runs here: `hosted` are the kinds that do."""
    if KIND not in hosted:
        raise UnsupportedParameter(
            f"Unsupported value: '{at}.type' does not support '{KIND}' on this server. Supported values are: 'function' and "
            "'custom'.",
            param=f"{at}.type",
            code="unsupported_value",
        )
    return hosted_server(tool, at)


def hosted_key(choice: wire.McpChoice, tools: Sequence[Tool], at: str) -> ToolKey:
    """The tool of a server that a choice at `at` means. Raises InvalidRequest for a server that the request does not have."""
    for tool in tools:
        if isinstance(tool, HostedTool) and tool.config.get("label") == choice.server_label:
            return ToolKey(choice.name or "", choice.server_label, KIND)
    raise InvalidRequest(
        f"Invalid value for '{at}.server_label': no server is named '{brief(choice.server_label)}'.",
        param=f"{at}.server_label",
        code="invalid_value",
    )


# ------------------------------------------------------------------------------------------------------------ the messages


class MessagesWithCalls(Struct, frozen=True):
    """The messages of a request; `places` has for each the place of its message in the body, and the field of that message which
    it was made of ("" for the message itself). `approved` are the calls that the user agrees to in this request, `refused`
    those that the user does not agree to."""

    messages: tuple[Message, ...]
    places: tuple[tuple[int, str], ...] = ()
    approved: tuple[AskedCall, ...] = ()
    refused: tuple[AskedCall, ...] = ()


def has_calls(messages: Sequence[wire.MessageWire]) -> bool:
    """Whether a message has calls of hosted tools, or questions or answers about them."""
    for message in messages:
        if isinstance(message, wire.AssistantMessage):
            if message.mcp_calls or message.mcp_approval_requests:
                return True
        elif isinstance(message, wire.ToolMessage) and message.approve is not None:
            return True
    return False


def read_with_calls(
    messages: Sequence[wire.MessageWire], limits: LimitsConfig, labels: frozenset[str]
) -> MessagesWithCalls:
    """The messages in order; `labels` are the servers of this request. Raises `InvalidRequest` naming the part at fault."""
    reader = _Reader(messages, limits, labels)
    for position, message in enumerate(messages):
        reader.read(position, message)
    return reader.done()


class _Reader:
    """Reads messages with calls of hosted tools, in order."""

    def __init__(self, messages: Sequence[wire.MessageWire], limits: LimitsConfig, labels: frozenset[str]) -> None:
        self._limits = limits
        self._labels = labels
        self._nested = NestedJson(limits)
        assistant_turns = [each for each in messages if isinstance(each, wire.AssistantMessage)]
        places = [place for place, each in enumerate(messages) if isinstance(each, wire.AssistantMessage)]
        self._last_answer = places[-1] if places else -1
        answers = (each for each in messages if isinstance(each, wire.ToolMessage))
        self._answered = {each.tool_call_id for each in answers if each.approve is not None}
        self._ran = {call.approval_request_id for each in assistant_turns for call in each.mcp_calls or ()}
        self._asked: dict[str, wire.McpApprovalRequestWire] = {}
        self._seen: set[str] = set()
        self._approved: list[AskedCall] = []
        self._refused: list[AskedCall] = []
        self._messages: list[Message] = []
        self._places: list[tuple[int, str]] = []

    def done(self) -> MessagesWithCalls:
        return MessagesWithCalls(
            tuple(self._messages), tuple(self._places), tuple(self._approved), tuple(self._refused)
        )

    def read(self, position: int, message: wire.MessageWire) -> None:
        if isinstance(message, wire.AssistantMessage):
            self._assistant(position, message)
        elif isinstance(message, wire.ToolMessage) and (
            message.tool_call_id in self._asked or message.approve is not None
        ):
            self._answer(position, message)
        elif isinstance(message, wire.ToolMessage | wire.FunctionMessage):
            self._put(read_message(message, position, self._nested), position)
        else:
            self._put(read_messages([message], self._limits)[0], position)

    def _put(self, message: Message, position: int, field: str = "") -> None:
        self._messages.append(message)
        self._places.append((position, field))

    def _assistant(self, position: int, message: wire.AssistantMessage) -> None:
        calls, asked = message.mcp_calls or [], message.mcp_approval_requests or []
        if calls:
            self._calls(position, calls)
        parts: list[Part] = []
        for order, each in enumerate(asked):
            self._asked[each.id] = each
            self._nested.check(each.arguments, f"messages[{position}].mcp_approval_requests[{order}].arguments")
            if each.id in self._answered and each.id not in self._ran:
                parts.append(ToolCall(each.id, flat_name(each.server_label, each.name), each.arguments or "{}"))
        plain = read_message(replace(message, mcp_calls=None, mcp_approval_requests=None), position, self._nested)
        visible = [part for part in plain.parts if not isinstance(part, Text) or part.text]
        if (calls or asked) and not parts and not visible:
            return
        self._put(replace(plain, parts=(*(visible if parts else plain.parts), *parts)), position)

    def _calls(self, position: int, calls: Sequence[wire.McpCallWire]) -> None:
        """The calls that ran, as a turn of the model, and their results."""
        for order, call in enumerate(calls):
            self._nested.check(call.arguments, f"messages[{position}].mcp_calls[{order}].arguments")
        made = tuple(
            ToolCall(call.id, flat_name(call.server_label, call.name), call.arguments or "{}") for call in calls
        )
        self._put(Message("assistant", made), position, "mcp_calls")
        for order, call in enumerate(calls):
            failed = call.error is not None
            text = call.error if call.error is not None else call.output
            if text is None:
                text, failed = "This call has no result: it was interrupted.", True
            result = ToolResult(call.id, (Text(text),), failed)
            self._put(Message("tool", (result,), content_is_text=True), position, f"mcp_calls[{order}]")

    def _answer(self, position: int, message: wire.ToolMessage) -> None:
        """The user's answer to a question."""
        at, asked = f"messages[{position}]", self._asked.get(message.tool_call_id)
        if message.approve is None:
            raise InvalidRequest(
                f"Missing required parameter: '{at}.approve'.",
                param=f"{at}.approve",
                code="missing_required_parameter",
            )
        if asked is None or asked.id in self._seen:
            what = "No approval request" if asked is None else "More than one answer"
            raise InvalidRequest(
                f"{what} found for the id '{brief(message.tool_call_id)}'.", param=f"{at}.tool_call_id"
            )
        self._seen.add(asked.id)
        if asked.id in self._ran:
            return
        text = ""
        if position > self._last_answer:
            (self._approved if message.approve else self._refused).append(self._asked_call(asked, at))
        if not message.approve:
            words = _answer_words(message)
            text = f"The user did not approve this call.{f' The user says: {words}' if words else ''}"
        elif position < self._last_answer:
            text = "The user approved this call, and its result is not known."
        result = ToolResult(asked.id, (Text(text),), bool(text))
        self._put(Message("tool", (result,), content_is_text=True), position)

    def _asked_call(self, asked: wire.McpApprovalRequestWire, at: str) -> AskedCall:
        """The call that is answered now. Raises InvalidRequest where its server is not in the request."""
        if asked.server_label not in self._labels:
            raise InvalidRequest(
                f"The answered call is of the server '{brief(asked.server_label)}', which this request does not have.",
                param=f"{at}.tool_call_id",
            )
        return AskedCall(asked.id, asked.server_label, asked.name, asked.arguments)


def _answer_words(message: wire.ToolMessage) -> str:
    """What the user says with an answer."""
    if isinstance(message.content, str):
        return message.content
    return "\n".join(part.text for part in message.content if isinstance(part, wire.TextPart))


# -------------------------------------------------------------------------------------------------------------- the encoder


class HostedCalls:
    """The calls of hosted tools in one answer, in order: `calls` that ran and `asked` that the user is to approve. `name` is
    the part of their ids that is the answer's own."""

    __slots__ = ("_name", "asked", "calls")

    def __init__(self, response_id: str) -> None:
        self._name = response_id.partition("-")[2] or response_id
        self.calls: list[JsonObject] = []
        self.asked: list[JsonObject] = []

    def __bool__(self) -> bool:
        return bool(self.calls or self.asked)

    def fork(self) -> "HostedCalls":
        """An independent copy."""
        other = HostedCalls("")
        other._name = self._name
        other.calls, other.asked = [dict(call) for call in self.calls], list(self.asked)
        return other

    def take(self, event: Event) -> tuple[str, JsonObject] | None:
        """Take in an event; returns the field of a delta and what is new in it, None for what Chat has no place for."""
        if isinstance(event, HostedEnd):
            return self._ended(event)
        if not isinstance(event, HostedStart) or event.kind not in (KIND, "mcp_approval_request"):
            return None
        payload = _object(event.payload)
        ran = event.kind == KIND
        found = self.calls if ran else self.asked
        item: JsonObject = {
            "id": f"{'mcp' if ran else 'mcpr'}_{self._name}{len(found)}",
            "server_label": payload.get("server"),
            "name": payload.get("name"),
            "arguments": payload.get("arguments") or "{}",
        }
        if payload.get("approval") is not None:
            item["approval_request_id"] = payload["approval"]
        found.append(item)
        return ("mcp_calls" if ran else "mcp_approval_requests"), {"index": len(found) - 1, **item}

    def _ended(self, event: HostedEnd) -> tuple[str, JsonObject] | None:
        call = self.calls[-1] if self.calls else None
        if call is None or "output" in call:
            return None
        text = _object(event.payload).get("text") or ""
        found: JsonObject = {"output": None, "error": text} if event.failed else {"output": text, "error": None}
        call.update(found)
        return "mcp_calls", {"index": len(self.calls) - 1, **found}


def _object(payload: bytes) -> dict[str, Json]:
    return msgspec.json.decode(payload, type=dict[str, Json]) if payload else {}
