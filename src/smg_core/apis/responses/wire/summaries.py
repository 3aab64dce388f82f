"""What a sealed compaction says: the messages that take the place of all items before it.

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

__all__ = ["COMPACTION", "Said", "read_said", "said_by", "summary_of"]

COMPACTION = "compaction"
"""Kind of the `OpaqueBlock` by which a flow tells that it has compacted; its payload is what is sealed."""


class Said(Struct, frozen=True, array_like=True):
    """One message in place of what was compacted."""

    role: Literal["developer", "system", "user"]
    text: str


_SAID = msgspec.json.Decoder(tuple[Said, ...])


def summary_of(text: str) -> bytes:
    """The bytes to seal for a summary without other messages."""
    return msgspec.json.encode((Said("developer", without_surrogates(text)),))


def said_by(messages: Sequence[Message]) -> bytes:
    """The bytes to seal for `messages`: their texts."""
    lines = [
        Said(message.role, without_surrogates("".join(part.text for part in message.parts if isinstance(part, Text))))
        for message in messages
        if message.role in ("developer", "system", "user")
    ]
    return msgspec.json.encode(lines)


def read_said(sealed: bytes) -> tuple[Said, ...] | None:
    """The messages; None where these bytes are none."""
    try:
        return _SAID.decode(sealed)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
