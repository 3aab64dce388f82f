"""The stored events of an interaction: made of a stream's frames, sent again as frames, and gone on from.

An interaction whose process has died is run again: numbers go on behind the last stored event, the step that was open is
closed, and the steps of the new run follow it. Pure. Above: the server. Below: the grammar.
"""

from collections.abc import Iterable

import msgspec

from smg_core.apis.interactions.grammar import EVENTS, START, STEP, InteractionGrammar
from smg_core.apis.interactions.object import interaction_error, legacy_usage, stream_fields, time_text
from smg_core.errors import InvalidRequest, SmgError
from smg_core.json_types import JsonObject
from smg_core.wire.json_text import encode_object

__all__ = [
    "InteractionLog",
    "changed_interaction",
    "ends_interaction",
    "interaction_event",
    "interaction_events",
    "interaction_frame",
    "interaction_gone",
]

_DATA = b"\ndata: "
_TYPE = b'{"event_type":"'
_ENDS = frozenset(names[kind].encode() for names in EVENTS.values() for kind in ("completed", "error"))


def interaction_events(frames: bytes) -> list[bytes]:
    """The data of each event of a stream, as it is stored: without comments, and without what closes it."""
    datas = (frame.partition(_DATA)[2] for frame in frames.split(b"\n\n"))
    return [data for data in datas if data.startswith(_TYPE)]


def _type_of(data: bytes) -> bytes:
    return data[len(_TYPE) : data.index(b'"', len(_TYPE))]


def interaction_frame(data: bytes) -> bytes:
    """The frame of a stored event."""
    return b"event: %b%b%b\n\n" % (_type_of(data), _DATA, data)


def interaction_gone(error: SmgError, id: str, number: int) -> bytes:
    """The event that ends a stream whose interaction is there no more."""
    return encode_object({"event_type": "error", "error": interaction_error(error), "event_id": f"{id}.{number}"})


def ends_interaction(data: bytes) -> bool:
    """Whether the stored event ends its stream."""
    return _type_of(data) in _ENDS


def interaction_event(text: str, id: str) -> int:
    """The number of the event that `last_event_id` names. Raises InvalidRequest."""
    owner, _, number = text.rpartition(".")
    if owner != id or not (number.isascii() and number.isdecimal() and len(number) < 16):
        raise InvalidRequest(
            f"Invalid value at 'last_event_id': \"{text[:80]}\" is no event of this interaction.", param="last_event_id"
        )
    return int(number)


def changed_interaction(body: JsonObject, status: str, error: SmgError | None, now: float) -> JsonObject:
    """A stored object with another status since `now`, and with the error that ended it."""
    errors: JsonObject = {} if error is None else {"errors": [interaction_error(error)]}
    return {**body, **errors, "status": status, "updated": time_text(now)}


class InteractionLog:
    """What the stored events of one interaction say, taken in their order.

    `following` is the number of the next event, `items` are the steps that are done. `close` makes the event that an open step
    lacks, and takes it in.
    """

    def __init__(self, events: Iterable[bytes] = ()) -> None:
        self.following = 0
        self._grammar = InteractionGrammar()
        for data in events:
            self.take(data)

    @property
    def begun(self) -> bool:
        """Whether the event that opens the stream is there."""
        return self._grammar.state != START

    @property
    def items(self) -> list[JsonObject]:
        return self._grammar.steps

    def take(self, data: bytes) -> None:
        """The next stored event. Raises ValueError where it cannot follow the one before it."""
        fault = self._grammar.take(msgspec.json.decode(data))
        if fault is not None:
            raise ValueError(fault)
        self.following += 1

    def close(self) -> list[bytes]:
        """The event that closes the open step; none where no step is open."""
        grammar = self._grammar
        if grammar.state != STEP:
            return []
        event: JsonObject = {
            "event_type": EVENTS[grammar.revision]["stop"],
            "index": len(grammar.steps),
            "event_id": f"{grammar.interaction_id}.{self.following}",
        }
        made = encode_object(event)
        self.take(made)
        return [made]

    def ending(self, status: str, found: JsonObject) -> bytes:
        """The event that ends the stream with `found`, the finished object of this status."""
        fields, revision = stream_fields(found), self._grammar.revision
        if revision == "legacy" and "usage" in fields:
            fields["usage"] = legacy_usage(fields["usage"])
        name = EVENTS[revision]["completed"]
        return encode_object({"event_type": name, "interaction": fields, "event_id": f"{found['id']}.{self.following}"})
