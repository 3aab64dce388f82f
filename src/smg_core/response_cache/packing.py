"""An answer as it is kept: the events of one generation, as bytes from which they are made again.

Texts that follow each other are joined up to a length, so that an answer that is streamed again comes in pieces and without the
pauses of the engine. Pure. Above: `caching`. Below: events.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from smg_core.events import (
    Annotation,
    Event,
    Finished,
    HostedEnd,
    HostedProgress,
    HostedStart,
    OpaqueBlock,
    ReasoningDelta,
    ReasoningEnd,
    RefusalDelta,
    SampledIds,
    Started,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)

__all__ = ["PIECE", "CachedAnswer", "joined_texts", "packed", "unpacked"]

PIECE = 1024
"""Characters of one piece of a text of an answer that is kept."""

_KINDS: Mapping[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        *(SampledIds, TextDelta, TextEnd, RefusalDelta, Annotation, ReasoningDelta, ReasoningEnd, ToolCallStart),
        *(ToolCallDelta, ToolCallEnd, HostedStart, HostedProgress, HostedEnd, OpaqueBlock, Finished),
    )
}
_VERSION = 1


class CachedAnswer(Struct, frozen=True):
    """An answer that is kept: how it began, its events up to the last `Finished`, what it used, what of the request the provider
    was told otherwise, and when it was kept, in seconds since the epoch."""

    started: Started
    events: tuple[Event, ...]
    usage: Usage
    losses: Mapping[str, str]
    kept_at: float


def joined_texts(events: Iterable[Event]) -> list[Event]:
    """The same events with texts of one block joined, up to PIECE characters each."""
    found: list[Event] = []
    for event in events:
        last = found[-1] if found else None
        if isinstance(event, TextDelta) and isinstance(last, TextDelta):
            plain = not (event.logprobs or event.ids or last.logprobs or last.ids) and event.echo == last.echo
            if plain and event.index == last.index and len(last.text) + len(event.text) <= PIECE:
                found[-1] = TextDelta(event.index, last.text + event.text, echo=event.echo)
                continue
        elif isinstance(event, ReasoningDelta) and isinstance(last, ReasoningDelta):
            if event.index == last.index and len(last.text) + len(event.text) <= PIECE:
                found[-1] = ReasoningDelta(event.index, last.text + event.text)
                continue
        elif isinstance(event, ToolCallDelta) and isinstance(last, ToolCallDelta):
            same = (event.index, event.call) == (last.index, last.call)
            if same and len(last.arguments) + len(event.arguments) <= PIECE:
                found[-1] = ToolCallDelta(event.index, event.call, last.arguments + event.arguments)
                continue
        found.append(event)
    return found


def packed(answer: CachedAnswer) -> bytes:
    """The answer as bytes."""
    return msgspec.msgpack.encode(
        (
            _VERSION,
            answer.kept_at,
            _values(answer.started),
            _values(answer.usage),
            dict(answer.losses),
            [(type(event).__name__, _values(event)) for event in joined_texts(answer.events)],
        )
    )


def unpacked(data: bytes) -> CachedAnswer | None:
    """The answer that was kept; None where it is of another version, or no answer at all."""
    try:
        version, kept_at, started, usage, losses, events = msgspec.msgpack.decode(data)
        if version != _VERSION:
            return None
        return CachedAnswer(
            _made(Started, started),
            tuple([_made(_KINDS[kind], values) for kind, values in events]),
            _made(Usage, usage),
            msgspec.convert(losses, dict[str, str]),
            msgspec.convert(kept_at, float),
        )
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError):
        return None


def _values(event: Struct) -> dict[str, Any]:
    """The fields of a record that are not as they are by default."""
    kind = type(event)
    defaults = kind.__struct_defaults__
    named = kind.__struct_fields__[len(kind.__struct_fields__) - len(defaults) :]
    usual = dict(zip(named, defaults, strict=True))
    return {name: value for name, value in asdict(event).items() if name not in usual or value != usual[name]}


def _made(kind: type[Any], values: Any) -> Any:
    return msgspec.convert(values, kind, builtin_types=(bytes,))
