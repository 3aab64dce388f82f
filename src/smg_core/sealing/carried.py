"""Reasoning that only its provider can read, with where it came from: so that it is given back to that provider alone.

A provider signs or encrypts the reasoning of its models, and wants it back unchanged in the next request. A client may speak
another API: the original then travels inside the gateway's own seal, and the encoder of the right provider finds it there.
Pure. Above: the formats. Below: the vocabulary.
"""

import msgspec
from msgspec import Struct

from smg_core.request import Reasoning

__all__ = ["Carried", "carried_in", "carrying"]


class Carried(Struct, frozen=True, array_like=True):
    """A provider's original. `account` tells apart the accounts of one provider, where an original is good for one alone;
    `part` says what it stands on: "thought", "text", or "call:" with the call's id. `payload` is JSON as the provider wrote it,
    or a signature."""

    provider: str
    account: str
    model: str
    part: str
    payload: bytes

    @property
    def maker(self) -> tuple[str, str, str]:
        """Who has made it: provider, account and model, as in the facts of a worker that takes it back."""
        return self.provider, self.account, self.model


_DECODER = msgspec.msgpack.Decoder(Carried)


def carrying(original: Carried) -> bytes:
    """The bytes that are sealed: the same for the same original."""
    return msgspec.msgpack.encode(original)


def carried_in(part: Reasoning) -> Carried | None:
    """The original that came with a piece of reasoning, None where there is none."""
    if part.carried is None:
        return None
    try:
        return _DECODER.decode(part.carried)
    except msgspec.DecodeError:
        return None
