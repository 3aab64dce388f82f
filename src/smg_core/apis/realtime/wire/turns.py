"""One response of a session as the Responses request that it is: its body, and what of it did not fit the context.

A response is decoded by the decoder of Responses, so that items, tools, approvals and bounds mean the same in both APIs. Of a
conversation that is too long the oldest turns are not read; with a retention ratio so many that only that share of the context
is left, so that the turns that follow begin alike for long. Pure. Above: the session. Below: the conversation, the flow's errors.
"""

from collections.abc import Sequence

import attrs
import msgspec
from msgspec.structs import replace

from smg_core.apis.realtime.wire.conversation import read_by_model
from smg_core.apis.realtime.wire.items import Item
from smg_core.apis.responses.wire.decode import ResponsesRequest, decode_responses
from smg_core.errors import InvalidRequest, PromptTooLong
from smg_core.json_types import Json, JsonObject
from smg_core.origin import REMINDERS, Origin
from smg_core.request import Message
from smg_core.wire.base import Incoming
from smg_core.wire.json_text import encode_body

__all__ = ["ORIGIN", "ResponseTurn", "begins_with", "decode_turn", "first_kept", "turn_of"]

ORIGIN = Origin("realtime", traits=frozenset({REMINDERS}))
_COPIED = ("tools", "tool_choice", "parallel_tool_calls")


@attrs.frozen(eq=False)
class ResponseTurn:
    """One response to be made: its request's body, the ids of the items that the input has, in order, with "" for the
    instructions, and the share of the context that stays when it overflows."""

    body: bytes
    ids: tuple[str, ...]
    retention: float


def turn_of(settings: JsonObject, items: Sequence[Item], metadata: JsonObject | None) -> ResponseTurn:
    """The response to `items` by these settings. Raises InvalidRequest where there is nothing to respond to."""
    items_read, ids = read_by_model(items)
    instructions = settings.get("instructions")
    if instructions:
        leading: JsonObject = {"type": "message", "role": "system", "content": instructions}
        items_read, ids = [encode_body(leading), *items_read], ["", *ids]
    if not items_read:
        raise InvalidRequest(
            "There is nothing to respond to: the conversation is empty, and there are no instructions.",
            param="response",
        )
    fields: JsonObject = {"model": settings["model"], "stream": True, "truncation": "auto"}
    fields |= {name: settings[name] for name in _COPIED if settings.get(name)}
    if not settings.get("parallel_tool_calls"):
        fields["parallel_tool_calls"] = False
    if (most := settings.get("max_output_tokens")) not in (None, "inf"):
        fields["max_output_tokens"] = most
    reasoning = settings.get("reasoning")
    if isinstance(reasoning, dict) and reasoning.get("effort"):
        fields["reasoning"] = {"effort": reasoning["effort"]}
    if metadata:
        fields["metadata"] = metadata
    if settings["truncation"] == "disabled":
        fields["truncation"] = "disabled"
    body = encode_body(fields)[:-1] + b',"input":[' + b",".join(items_read) + b"]}"
    return ResponseTurn(body, tuple(ids), _retention(settings["truncation"]))


def _retention(truncation: Json) -> float:
    ratio = truncation.get("retention_ratio") if isinstance(truncation, dict) else None
    return float(ratio) if isinstance(ratio, int | float) else 1.0


def decode_turn(incoming: Incoming, session: str, home: str) -> ResponsesRequest:
    """The request of a response in this session, for the worker `home` that had the one before ("": none yet)."""
    decoded = decode_responses(incoming)
    generation = replace(decoded.generation, origin=ORIGIN, session_key=session, home=home)
    return replace(decoded, generation=generation)


def begins_with(messages: Sequence[Message], error: PromptTooLong, retention: float) -> int | None:
    """The number of the message that the turns begin with that are kept of a prompt that is too long, behind its instructions;
    None where only the last turn is left."""
    starts = [place for place, message in enumerate(messages) if message.role == "user"]
    if len(starts) < 2:
        return None
    weights = [len(msgspec.json.encode(message.parts)) for message in messages]
    leading = starts[0]
    total = sum(weights[leading:]) or 1
    wanted_tokens = min(error.context_length * retention, error.context_length - error.requested)
    over = max(error.prompt_tokens - wanted_tokens, 1)
    wanted = total * min(1.0, over / max(error.prompt_tokens, 1))
    for start in starts[1:]:
        if sum(weights[leading:start]) >= wanted:
            return start
    return starts[-1]


def first_kept(decoded: ResponsesRequest, message: int, turn: ResponseTurn) -> str | None:
    """The id of the item that the message of this number was read from."""
    if message >= len(decoded.places):
        return None
    place = decoded.places[message][0].partition("[")[2].partition("]")[0]
    return turn.ids[int(place)] or None if place.isdecimal() and int(place) < len(turn.ids) else None
