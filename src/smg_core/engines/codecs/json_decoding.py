"""Shared by the dialects that send JSON: parsing messages, and what may follow what.

Decides how a message is parsed and what an error in a stream means; pure. Above: the codecs of the dialects over HTTP. Below:
engines.codecs.answers, engines.openai.answers.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from smg_core.engines.codecs.answers import garbled
from smg_core.engines.openai.answers import error_from_event
from smg_core.engines.openai.chunks import ErrorWire
from smg_core.engines.upkeep import EngineReply
from smg_core.tokens import TokenIds

__all__ = ["alternatives", "decode", "done_reply", "ids_json", "is_healthy", "raise_error", "set_sampling"]

W = TypeVar("W")


def decode(decoder: "msgspec.json.Decoder[W]", message: bytes) -> W:
    """Parse one message. Raises EngineGarbled."""
    try:
        return decoder.decode(message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise garbled(error) from error


def raise_error(error: ErrorWire | str) -> None:
    """Raise what an error object in a stream, which began with status 200, means."""
    raise error_from_event(error)


def ids_json(ids: Sequence[int]) -> msgspec.Raw:
    """Token ids as they stand in a body."""
    return msgspec.Raw(msgspec.json.encode(ids.buffer.tolist() if isinstance(ids, TokenIds) else list(ids)))


def set_sampling(body: dict[str, object], asked: object, names: Mapping[str, str]) -> None:
    """Write the fields of `asked` that are set; `names` are ours and the dialect's."""
    for ours, theirs in names.items():
        value = getattr(asked, ours)
        if value is not None:
            body[theirs] = value


def alternatives(pairs: Sequence[tuple[int, float]], most: int) -> tuple[tuple[int, float], ...]:
    """The alternatives of one token, most likely first, at most `most` of them (-1: all)."""
    ordered = sorted(pairs, key=lambda pair: -pair[1])
    return tuple(ordered if most < 0 else ordered[:most])


def is_healthy(message: bytes) -> bool:
    """An answer of status 200 is one of a healthy server, whatever it says."""
    return True


def done_reply(message: bytes) -> EngineReply:
    """What an engine says of a task that it has done: status 200 with a text, or with an object that says `success`."""
    text = message.decode("utf-8", "replace").strip()
    try:
        answer: object = msgspec.json.decode(message) if message else None
    except msgspec.DecodeError:
        return EngineReply(True, text)
    if isinstance(answer, dict):
        done = answer.get("success") is not False
        return EngineReply(done, str(answer.get("message") or answer.get("error_message") or ""))
    return EngineReply(True, "" if answer is None else str(answer))
