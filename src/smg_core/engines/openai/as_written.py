"""A client's own bytes in the body that a server of the same API is sent.

Decides which of them: each value that says what the gateway would say in its place. So the server gets the spelling of numbers,
the escapes and the order of names that the client chose. Pure. Above: body.
"""

import json

import msgspec

from smg_core.engines.openai.fields import Wire

__all__ = ["as_written"]

_VALUES = msgspec.json.Decoder(dict[str, msgspec.Raw])


def as_written(wire: Wire, written: bytes) -> bytes:
    """`wire` as JSON, in which every value that `written`, a JSON object, says too is written as there, and in its order; all of
    `written` where nothing differs. Nothing of it is used where it has a name twice in an object: servers differ in which of the
    two they read."""
    if not written or _repeats_a_name(written):
        return msgspec.json.encode(wire)
    theirs = _VALUES.decode(written)
    same = {name: raw for name, raw in theirs.items() if name in wire and msgspec.json.decode(raw) == wire[name]}
    if len(same) == len(theirs) == len(wire):
        return written
    rest = {name: value for name, value in wire.items() if name not in theirs}
    return msgspec.json.encode({name: same.get(name, wire[name]) for name in theirs if name in wire} | rest)


def _repeats_a_name(written: bytes) -> bool:
    found = False

    def members(pairs: list[tuple[str, object]]) -> None:
        nonlocal found
        found = found or len({name for name, _ in pairs}) < len(pairs)

    json.loads(written, object_pairs_hook=members)
    return found
