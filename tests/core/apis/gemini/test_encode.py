"""Answers of generateContent: both kinds of streams say the same as the whole answer, whatever the events are."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from smg_core.apis.gemini.decode import GeminiRequest
from smg_core.apis.gemini.encode import GeminiStreamEncoder, GeminiWholeEncoder
from smg_core.events import (
    Done,
    Event,
    Finished,
    ReasoningDelta,
    ReasoningEnd,
    RefusalDelta,
    Started,
    TextDelta,
    TextEnd,
    TokenLogprob,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    TopLogprob,
    Usage,
)
from smg_core.request import GenerationRequest, ReasoningSettings, Sampling
from smg_core.sse import SseReader

CANDIDATES = 2
TEXTS = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=3)


@st.composite
def blocks(draw: st.DrawFn, index: int, number: int) -> list[Event]:
    kind = draw(st.sampled_from(["text", "scored", "refusal", "thought", "call"]))
    texts = draw(TEXTS)
    if kind == "refusal":
        return [*(RefusalDelta(index, text) for text in texts), TextEnd(index)]
    if kind == "thought":
        return [*(ReasoningDelta(index, text) for text in texts), ReasoningEnd(index, draw(st.none() | st.just(b"gw")))]
    if kind == "call":
        arguments = draw(st.sampled_from(["{}", "", '{"a":[1,"é"]}', '{"a":', "[1]"]))
        cut = draw(st.integers(0, len(arguments)))
        pieces = [ToolCallDelta(index, number, each) for each in (arguments[:cut], arguments[cut:]) if each]
        valid = draw(st.booleans())
        return [
            ToolCallStart(index, number, f"call_{number}", "f"),
            *pieces,
            ToolCallEnd(index, number, valid),
        ]
    top = (TopLogprob("b", b"b", float("-inf"), 4),)
    rows = (TokenLogprob("a", b"a", -0.5, top, id=3), TokenLogprob("\u2028", b"", None)) if kind == "scored" else ()
    return [*(TextDelta(index, text, rows) for text in texts), TextEnd(index)]


@st.composite
def candidates(draw: st.DrawFn, index: int) -> list[Event]:
    count = draw(st.integers(0, 4))
    said = [event for number in range(count) for event in draw(blocks(index, number))]
    reason = draw(st.sampled_from(["stop", "length", "tool_calls", "context", "content_filter", "pause", "abort"]))
    return [*said, Finished(index, reason)]


@st.composite
def responses(draw: st.DrawFn) -> list[Event]:
    waiting = [draw(candidates(index)) for index in range(CANDIDATES)]
    mixed: list[Event] = []
    while any(waiting):
        mixed.append(draw(st.sampled_from([each for each in waiting if each])).pop(0))
    usage = Usage(10, draw(st.integers(2, 9)), draw(st.integers(0, 10)), 1)
    return [Started(10, None, "m"), *mixed, usage, Done()]


def chunks(data: bytes, *, array: bool) -> list[dict[str, Any]]:
    return json.loads(data) if array else [json.loads(event.data) for event in SseReader().feed(data)]  # type: ignore[no-any-return]


def told(answers: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """What a client makes of chunks, or of one whole answer: texts of one kind joined, signatures in their order."""
    found: dict[int, dict[str, Any]] = {}
    for answer in answers:
        for wire in answer.get("candidates", ()):
            candidate = found.setdefault(wire["index"], {"parts": [], "signed": [], "chosen": [], "tops": []})
            assert "finish" not in candidate
            for part in wire["content"]["parts"]:
                candidate["signed"] += [part.pop("thoughtSignature")] if "thoughtSignature" in part else []
                last = candidate["parts"][-1] if candidate["parts"] else {}
                if "text" in part and "text" in last and part.get("thought") == last.get("thought"):
                    last["text"] += part["text"]
                elif part.get("text") != "":
                    candidate["parts"].append(part)
            result = wire.get("logprobsResult", {})
            candidate["chosen"] += result.get("chosenCandidates", [])
            candidate["tops"] += result.get("topCandidates", [])
            if "finishReason" in wire:
                candidate["finish"] = wire["finishReason"], wire.get("finishMessage")
    return found


@given(responses(), st.booleans(), st.booleans(), st.data())
def test_streams_say_what_the_whole_answer_says(
    events: list[Event], array: bool, thoughts: bool, data: st.DataObject
) -> None:
    generation = GenerationRequest(
        id="r",
        model="m",
        sampling=Sampling(n=CANDIDATES),
        reasoning=ReasoningSettings(visible="text" if thoughts else "none"),
    )
    request = GeminiRequest(generation, array)
    whole, stream = GeminiWholeEncoder(request, 1), GeminiStreamEncoder(request, 1)
    written, left = stream.start(), events
    while left:
        size = data.draw(st.integers(1, len(left)))
        written += stream.encode(left[:size])
        whole.add(left[:size])
        whole, left = (whole.fork() if data.draw(st.booleans()) else whole), left[size:]
    streamed, said = chunks(written, array=array), json.loads(whole.body())

    assert streamed[-1]["usageMetadata"] == said["usageMetadata"]
    assert told(streamed) == told([said])
