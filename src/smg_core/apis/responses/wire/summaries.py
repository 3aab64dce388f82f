"""The contents of a sealed compaction: the messages that take the place of all items before it.

That is the model's summary, as a message of the developer. Where the gateway has compacted on its own (`context_management`),
the developer's first messages and the user's last one are sealed with it, so that later turns are told them too. Pure. Above:
responses_items, the encoder, the server. Below: request.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from smg_core.request import Message, Text
from smg_core.wire.json_text import without_surrogates

__all__ = ["COMPACTION", "SummaryMessage", "read_summary", "summary_bytes_of", "summary_of"]

COMPACTION = "compaction"
"""Kind of the `OpaqueBlock` by which a flow tells that it has compacted; its payload is what is sealed."""


class SummaryMessage(Struct, frozen=True, array_like=True):
    """One message in place of what was compacted."""

    role: Literal["developer", "system", "user"]
    text: str


_SUMMARY = msgspec.json.Decoder(tuple[SummaryMessage, ...])


def summary_of(text: str) -> bytes:
    """The bytes to seal for a summary without other messages."""
    return msgspec.json.encode((SummaryMessage("developer", without_surrogates(text)),))


def summary_bytes_of(messages: Sequence[Message]) -> bytes:
    """The bytes to seal for `messages`: their texts."""
    lines = [
        SummaryMessage(
            message.role, without_surrogates("".join(part.text for part in message.parts if isinstance(part, Text)))
        )
        for message in messages
        if message.role in ("developer", "system", "user")
    ]
    return msgspec.json.encode(lines)


def read_summary(sealed: bytes) -> tuple[SummaryMessage, ...] | None:
    """The messages; None where these bytes are none."""
    try:
        return _SUMMARY.decode(sealed)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
