"""W3C Trace Context: the headers `traceparent` and `tracestate`, read and written.

A trace is named by 32 hexadecimal digits, a span of it by 16. Pure: ids are made of random numbers that are handed in. Above: the
exchange, `tracing`, pipeline.answer.trace. Below: nothing.
"""

import re
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Protocol

from msgspec import Struct

__all__ = [
    "Outgoing",
    "PassedOn",
    "Propagation",
    "RemoteSpan",
    "passed_on",
    "remote_span",
    "settle",
    "trace_id_of",
    "traceparent",
]

_TRACEPARENT = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-((?!0{16})[0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL
)
_TRACESTATE = re.compile(r"[\x20-\x7e]{1,512}")
_MEMBERS = 32  # of a tracestate; one with more is not passed on
_AROUND = " \t"  # what may stand around a header's value
_SAMPLED = 1


class RemoteSpan(Struct, frozen=True):
    """The span of whoever sent a request: its trace, its id, whether it is recorded, and its `tracestate` ("" without one, or for
    one that is over 512 characters or 32 members, or no plain text)."""

    trace_id: str
    span_id: str
    sampled: bool
    state: str = ""


class Outgoing(Struct, frozen=True):
    """What a call of an engine is sent of its trace: `metadata` as headers, and the id of the call's own span ("" where nothing
    is recorded)."""

    span_id: str = ""
    metadata: tuple[tuple[str, str], ...] = ()


class Propagation(Protocol):
    """Says what each call of an engine is sent of the trace that its request belongs to, whose id is `trace_id`."""

    @property
    def trace_id(self) -> str: ...

    def outgoing(self) -> Outgoing:
        """The headers of one call, whose span is a new one."""
        ...


class PassedOn:
    """The `Propagation` of a gateway that makes no spans: the client's headers go on as they came."""

    __slots__ = ("_outgoing", "trace_id")

    def __init__(self, outgoing: Outgoing, trace_id: str) -> None:
        self._outgoing = outgoing
        self.trace_id = trace_id

    def outgoing(self) -> Outgoing:
        return self._outgoing


def _read(header: str) -> "re.Match[str] | None":
    """The parts of a `traceparent`; None for a header that is none. A later version may have more behind the flags."""
    found = _TRACEPARENT.fullmatch(header.rstrip(_AROUND)) if header else None
    return None if found is None or (found[1] == "00" and found[5] is not None) else found


def trace_id_of(header: str) -> str:
    """The id of the trace that a `traceparent` names; "" for a header that is none."""
    found = _read(header)
    return "" if found is None else found[2]


def remote_span(headers: Mapping[str, str]) -> RemoteSpan | None:
    """The span that a request's headers name (their names in lower case), None where they name none."""
    found = _read(headers.get("traceparent", ""))
    if found is None:
        return None
    return RemoteSpan(found[2], found[3], bool(int(found[4], 16) & _SAMPLED), _state(headers.get("tracestate", "")))


def _state(header: str) -> str:
    """A `tracestate` that is passed on: "" for one that is no plain text, or is too long, or has too many members."""
    state = header.strip(_AROUND)
    members = [each for each in state.split(",") if each.strip(_AROUND)]
    return state if len(members) <= _MEMBERS and _TRACESTATE.fullmatch(state) else ""


def settle(headers: MutableMapping[str, str], sent: Iterable[tuple[bytes, bytes]]) -> None:
    """Make of the trace headers that were `sent` what a request has in `headers`, whose names are in lower case: two
    `traceparent` are none, and several `tracestate` are one list (W3C Trace Context, 3.2 and 3.3)."""
    parents = [value for name, value in sent if name == b"traceparent"]
    if len(parents) > 1:
        del headers["traceparent"]
    states = [value for name, value in sent if name == b"tracestate"]
    if len(states) > 1:
        headers["tracestate"] = b",".join(states).decode("latin-1")


def traceparent(trace_id: str, span_id: str, *, sampled: bool) -> str:
    """The header that names a span."""
    return f"00-{trace_id}-{span_id}-{'01' if sampled else '00'}"


def passed_on(headers: Mapping[str, str]) -> PassedOn | None:
    """What goes on of a request's trace where the gateway makes no spans of its own; None where it belongs to no trace."""
    found = remote_span(headers)
    if found is None:
        return None
    metadata = (("traceparent", traceparent(found.trace_id, found.span_id, sampled=found.sampled)),)
    outgoing = Outgoing("", (*metadata, ("tracestate", found.state)) if found.state else metadata)
    return PassedOn(outgoing, found.trace_id)
