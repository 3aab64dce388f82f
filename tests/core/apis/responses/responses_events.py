"""Streams of events as one choice of a model makes them, for the tests of the Responses encoders."""

from hypothesis import strategies as st

from smg_core.errors import EngineFailed, Overloaded
from smg_core.events import (
    Cancelled,
    Done,
    Event,
    Failed,
    Finished,
    HostedEnd,
    HostedProgress,
    HostedStart,
    ReasoningDelta,
    ReasoningEnd,
    RefusalDelta,
    Started,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)

__all__ = ["STARTED", "USAGE", "streams"]

STARTED = Started(10, 4, "sim")
USAGE = Usage(10, 5, cached_tokens=4, reasoning_tokens=2)
_HOSTED = ("mcp", "mcp_list_tools", "mcp_approval_request")
_TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)


@st.composite
def _block(draw: st.DrawFn, call: int) -> list[Event]:
    pieces = draw(st.lists(_TEXT, min_size=1, max_size=4))
    kind = draw(st.sampled_from(["text", "refusal", "reasoning", "function", "custom", "search", *_HOSTED]))
    match kind:
        case "text":
            return [*(TextDelta(0, piece) for piece in pieces), TextEnd(0)]
        case "refusal":
            return [*(RefusalDelta(0, piece) for piece in pieces), TextEnd(0)]
        case "reasoning":
            return [
                *(ReasoningDelta(0, piece) for piece in pieces),
                ReasoningEnd(0, draw(st.sampled_from([None, b"gw1.x"]))),
            ]
    if kind in _HOSTED:
        start = HostedStart(0, "call_h", kind, b'{"server":"notes","name":"add","arguments":"{\\"a\\":1}"}')
        told = [HostedProgress(0, "progress", b'{"progress":1}')] if kind == "mcp" else []
        return [
            start,
            *told,
            HostedEnd(0, b'{"text":"3","content":[{"type":"text","text":"3"}],"tools":[]}', draw(st.booleans())),
        ]
    name = {"function": "look", "custom": "patch", "search": "tool_search"}[kind]
    begins = ToolCallStart(0, call, f"call_{call}", name, custom=kind == "custom")
    deltas = [ToolCallDelta(0, call, piece) for piece in pieces]
    return [begins, *deltas, ToolCallEnd(0, call)]


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    """A whole response: some blocks, cut somewhere or complete, and one of the three ends."""
    events: list[Event] = []
    calls = 0
    for _ in range(draw(st.integers(0, 5))):
        block = draw(_block(calls))
        calls += isinstance(block[0], ToolCallStart)
        events += block
    how = draw(st.sampled_from(["stop", "length", "context", "content_filter", "abort", "failed", "cancelled"]))
    if how in ("failed", "cancelled"):
        events = events[: draw(st.integers(0, len(events)))]
        end: Event = Cancelled("asked") if how == "cancelled" else Failed(draw(st.sampled_from(FAILURES)))
        return [STARTED, *events, USAGE, end]
    cut = how == "length" and draw(st.booleans())
    return [STARTED, *events, Finished(0, how, cut=cut), USAGE, Done()]  # type: ignore[arg-type]


FAILURES = [EngineFailed("The engine failed."), Overloaded("Full.", retry_after=2.0)]
