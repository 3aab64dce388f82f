"""The items that a client puts into a session of Gemini Live before its next response.

Messages and calls become turns, the answer to a call of the model's becomes a response of a tool. Pure. Above: the translation.
Below: nothing of the gateway's but errors and JSON.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from smg_core.engines.realtime.live_response import LiveCall
from smg_core.errors import InvalidRequest
from smg_core.json_types import Json, JsonObject

__all__ = ["LiveItems"]

_LONGEST_ID = 32
_MOST_BYTES = 4 << 20
"""What may wait for the next response."""
_CALLS = 512
"""Calls that may be answered; the oldest are forgotten."""
_Wanted = Literal["waits", "told", "gone"]
"""The server waits for the answer to a call; the client tells of a call and its answer; the server has given the call up."""


class LiveItems:
    """The items of one session that its server has not been told, and the calls that may be answered. `last` is the id of the
    last item of the conversation."""

    def __init__(self, names: Callable[[str], str]) -> None:
        self._names = names
        self.last: str | None = None
        self._turns: list[JsonObject] = []
        self._answers: list[JsonObject] = []
        self._size = 0
        self._calls: dict[str, tuple[str, _Wanted]] = {}  # the function, and who wants the answer

    def joined(self, id: str) -> str | None:
        """An item is the last from now on; returns the id of the one before."""
        before, self.last = self.last, id
        return before

    def asked(self, calls: Sequence[LiveCall]) -> None:
        """The model has called these functions."""
        for call in calls:
            self._know(call.id, call.name, "waits")

    def forget(self, calls: Sequence[str]) -> None:
        """The server does not wait for the answers to these calls any more."""
        for id in calls:
            if id in self._calls:
                self._calls[id] = (self._calls[id][0], "gone")

    def _know(self, id: str, name: str, wanted: _Wanted) -> None:
        self._calls[id] = (name, wanted)
        while len(self._calls) > _CALLS:
            del self._calls[next(iter(self._calls))]

    def take(self, item: Json, previous: Json, size: int) -> JsonObject:
        """The item of so many bytes as its client is told it; it waits for the next response. Raises InvalidRequest."""
        if not isinstance(item, dict):
            raise InvalidRequest("Missing required parameter: 'item'.", param="item", code="missing_required_parameter")
        if previous is not None and previous != self.last:
            raise InvalidRequest(
                "'previous_item_id' cannot be translated for this model: items come in the order in which they are sent.",
                param="previous_item_id",
                code="unsupported",
            )
        if self._size + size > _MOST_BYTES:
            raise InvalidRequest(
                f"At most {_MOST_BYTES} bytes of items wait for a response.", param="item", code="session_too_large"
            )
        id = item.get("id")
        if id is not None and (not isinstance(id, str) or not 0 < len(id) <= _LONGEST_ID):
            raise _wrong("item.id", f"An id has 1 to {_LONGEST_ID} characters.")
        item = dict(item)
        match item.get("type"):
            case "message":
                self._turns.append(_turn_of(item))
            case "function_call":
                self._turns.append(self._call(item))
            case "function_call_output":
                self._answer(item)
            case _:
                raise _wrong("item.type", "Supported values are: 'message', 'function_call', 'function_call_output'.")
        self._size += size
        made: JsonObject = {**item, "id": id or self._names("item_"), "object": "realtime.item", "status": "completed"}
        self.last = str(made["id"])
        return made

    def waiting(self) -> tuple[list[JsonObject], list[JsonObject]]:
        """The turns and the answers to calls that the server is told now."""
        turns, answers = self._turns, self._answers
        self._turns, self._answers, self._size = [], [], 0
        return turns, answers

    def _call(self, item: JsonObject) -> JsonObject:
        name, id = item.get("name"), item.get("call_id") or self._names("call_")
        arguments = item.get("arguments") or "{}"
        if not isinstance(name, str) or not name or not isinstance(id, str):
            raise _wrong("item.name", "A call has the name of its function.")
        try:
            read = msgspec.json.decode(arguments if isinstance(arguments, str) else "", type=dict[str, Json])
        except (msgspec.DecodeError, RecursionError):
            raise _wrong("item.arguments", "They are the text of a JSON object.") from None
        item |= {"call_id": id, "arguments": arguments}
        self._know(id, name, "told")
        return {"role": "model", "parts": [{"functionCall": {"id": id, "name": name, "args": read}}]}

    def _answer(self, item: JsonObject) -> None:
        id, output = item.get("call_id"), item.get("output")
        known = self._calls.get(id) if isinstance(id, str) else None
        if known is None:
            raise InvalidRequest(
                f"Tool call ID '{str(id)[:80]}' not found in conversation.", param="item.call_id", code="item_not_found"
            )
        if not isinstance(output, str):
            raise _wrong("item.output", "It is text.")
        name, wanted = known
        response: JsonObject = {"id": id, "name": name, "response": _result(output)}
        if wanted == "waits":
            self._answers.append(response)
        elif wanted == "told":
            self._turns.append({"role": "user", "parts": [{"functionResponse": response}]})


def _result(output: str) -> JsonObject:
    """The answer of a function as an object, which the server wants."""
    try:
        found = msgspec.json.decode(output)
    except (msgspec.DecodeError, RecursionError):
        found = output
    return found if isinstance(found, dict) else {"output": found}


_ROLES = {"user": ("user", ("input_text", "input_image")), "assistant": ("model", ("output_text", "text"))}


def _turn_of(item: JsonObject) -> JsonObject:
    """A message as a turn. Raises InvalidRequest."""
    role, content = item.get("role"), item.get("content")
    if role == "system":
        raise InvalidRequest(
            "A message of the system cannot be translated for this model: its server knows users and models. Put it into the "
            "session's instructions.",
            param="item.role",
            code="unsupported",
        )
    if role not in _ROLES:
        raise _wrong("item.role", f"Supported values are: {', '.join(map(repr, _ROLES))}.")
    if not isinstance(content, list) or not content:
        raise _wrong("item.content", "A message has content.")
    there, kinds = _ROLES[str(role)]
    return {"role": there, "parts": [_part(part, kinds, f"item.content[{at}]") for at, part in enumerate(content)]}


def _part(part: Json, kinds: tuple[str, ...], at: str) -> JsonObject:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or kind not in kinds:
        raise _wrong(f"{at}.type", f"Supported values for this model are: {', '.join(map(repr, kinds))}.")
    if kind != "input_image":
        text = part.get("text")
        if not isinstance(text, str):
            raise _wrong(f"{at}.text", "It is text.")
        return {"text": text}
    url = part.get("image_url")
    head, comma, data = url.partition(",") if isinstance(url, str) else ("", "", "")
    if not head.startswith("data:") or not head.endswith(";base64") or not comma:
        raise _wrong(f"{at}.image_url", "For this model it is a data URL in base64.")
    return {"inlineData": {"mimeType": head[len("data:") : -len(";base64")], "data": data}}


def _wrong(param: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid value for '{param}'. {why}", param=param, code="invalid_value")
