"""The states of a session and of a response in it, as tables: what may come in each, and what follows.

`STREAM` are the events of one response in the order in which clients take them; the encoder goes by it, and so every test of a
stream does. `CLIENT` says of each event of a client how it is answered while a response is made in the conversation, and while
none is. Pure. Above: the encoder, the session.
"""

from collections.abc import Mapping
from typing import Literal

import attrs

__all__ = ["ANYWHERE", "CLIENT", "STREAM", "ClientRow", "SessionState", "StreamState", "following"]

StreamState = Literal["idle", "response", "item", "message", "text", "audio", "part_done", "call", "mcp", "settled"]
"""Of one response: not begun or over; between items; an item was begun; within a message between its parts; within a part; the
part's content is complete; within a call of the client's, or of a tool that runs here; all of the item is told but its end."""

STREAM: Mapping[tuple[StreamState, str], StreamState] = {
    ("idle", "response.created"): "response",
    ("response", "rate_limits.updated"): "response",
    ("response", "response.output_item.added"): "item",
    ("item", "response.content_part.added"): "text",  # or "audio", by the type of the part
    ("message", "response.content_part.added"): "text",
    ("text", "response.output_text.delta"): "text",
    ("text", "response.output_text.done"): "part_done",
    ("audio", "response.output_audio_transcript.delta"): "audio",
    ("audio", "response.output_audio.delta"): "audio",
    ("audio", "response.output_audio.done"): "audio",
    ("audio", "response.output_audio_transcript.done"): "part_done",
    ("part_done", "response.content_part.done"): "message",
    ("item", "response.function_call_arguments.delta"): "call",
    ("call", "response.function_call_arguments.delta"): "call",
    ("item", "response.function_call_arguments.done"): "settled",
    ("call", "response.function_call_arguments.done"): "settled",
    ("item", "response.mcp_call_arguments.delta"): "mcp",
    ("mcp", "response.mcp_call_arguments.delta"): "mcp",
    ("mcp", "response.mcp_call_arguments.done"): "mcp",
    ("mcp", "response.mcp_call.in_progress"): "mcp",
    ("mcp", "response.mcp_call.completed"): "settled",
    ("mcp", "response.mcp_call.failed"): "settled",
    (
        "item",
        "response.output_item.done",
    ): "response",  # an approval that is asked for, or what was cut off at its beginning
    ("message", "response.output_item.done"): "response",
    ("call", "response.output_item.done"): "response",  # cut off
    ("mcp", "response.output_item.done"): "response",  # cut off
    ("settled", "response.output_item.done"): "response",
    ("response", "response.done"): "idle",
}
"""What follows an event in a state. What is not here must not come."""

ANYWHERE = frozenset(
    {
        "conversation.item.added",
        "conversation.item.created",
        "conversation.item.deleted",
        "conversation.item.done",
        "conversation.item.input_audio_transcription.completed",
        "conversation.item.input_audio_transcription.delta",
        "conversation.item.input_audio_transcription.failed",
        "conversation.item.retrieved",
        "conversation.item.truncated",
        "error",
        "input_audio_buffer.cleared",
        "input_audio_buffer.committed",
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.timeout_triggered",
        "mcp_list_tools.completed",
        "mcp_list_tools.failed",
        "mcp_list_tools.in_progress",
        "output_audio_buffer.cleared",
        "output_audio_buffer.started",
        "output_audio_buffer.stopped",
        "session.updated",
    }
)
"""Events of the session, which may stand between those of a response and change nothing of its state."""


def following(state: StreamState, kind: str, *, sound: bool = False) -> StreamState:
    """The state of a response behind an event of this kind; `sound` where it begins a part that is spoken. Raises KeyError for an
    event that must not come here."""
    after = STREAM[state, kind]
    return "audio" if sound and kind == "response.content_part.added" else after


SessionState = Literal["free", "busy"]
"""Whether a response is being made in the conversation."""


@attrs.frozen
class ClientRow:
    """How an event of a client is answered: with events of these types in this order, or with an error of this code."""

    answers: tuple[str, ...] = ()
    refused: str = ""


_ITEM_CREATED = ClientRow(("conversation.item.added", "conversation.item.done"))
_ALIKE: Mapping[str, ClientRow] = {
    "session.update": ClientRow(("session.updated",)),
    "conversation.item.create": _ITEM_CREATED,
    "conversation.item.retrieve": ClientRow(("conversation.item.retrieved",)),
    "conversation.item.delete": ClientRow(("conversation.item.deleted",)),
    "conversation.item.truncate": ClientRow(("conversation.item.truncated",)),
    "input_audio_buffer.append": ClientRow(),
    "input_audio_buffer.commit": ClientRow(("input_audio_buffer.committed", *_ITEM_CREATED.answers)),
    "input_audio_buffer.clear": ClientRow(("input_audio_buffer.cleared",)),
    "output_audio_buffer.clear": ClientRow(refused="output_audio_buffer_not_available"),
}
CLIENT: Mapping[tuple[str, SessionState], ClientRow] = {
    **{(kind, state): row for kind, row in _ALIKE.items() for state in ("free", "busy")},
    ("response.create", "free"): ClientRow(("response.created",)),
    ("response.create", "busy"): ClientRow(refused="conversation_already_has_active_response"),
    ("response.cancel", "busy"): ClientRow(("response.done",)),
    ("response.cancel", "free"): ClientRow(refused="response_cancel_not_active"),
}
"""The answer to each event of a client in each state. A response outside of the conversation is begun and cancelled in both."""
