"""An answer that is kept is told again as it was: the same texts and calls, in few pieces."""

from hypothesis import given
from hypothesis import strategies as st
from tests.core.event_grammar import check

from smg_core.events import (
    Done,
    Effective,
    Event,
    Finished,
    OpaqueBlock,
    ReasoningDelta,
    ReasoningEnd,
    SampledIds,
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
from smg_core.pipeline.answer.turn import Transcript
from smg_core.response_cache.packing import PIECE, CachedAnswer, joined_texts, packed, unpacked

STARTED = Started(3, 1, "m", effective=Effective("low", 0.0), strict=frozenset({"f"}))
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)


@st.composite
def _block(draw: st.DrawFn, number: int) -> list[Event]:
    pieces = draw(st.lists(TEXTS, min_size=1, max_size=6))
    kind = draw(st.sampled_from(["text", "told", "reasoning", "call"]))
    if kind == "text":
        return [*(TextDelta(0, each) for each in pieces), TextEnd(0)]
    if kind == "told":
        token = TokenLogprob("a", b"\xff", -0.5, (TopLogprob("b", b"b", -1.0, 7),), 3)
        return [SampledIds(0, (1, 2)), *(TextDelta(0, each, (token,), (5,)) for each in pieces), TextEnd(0)]
    if kind == "reasoning":
        return [*(ReasoningDelta(0, each) for each in pieces), ReasoningEnd(0, b"seal", carried=True)]
    calls = [ToolCallDelta(0, number, each) for each in pieces]
    return [ToolCallStart(0, number, f"call_{number}", "f"), *calls, ToolCallEnd(0, number)]


@st.composite
def answers(draw: st.DrawFn) -> CachedAnswer:
    events: list[Event] = []
    calls = 0
    for _ in range(draw(st.integers(0, 4))):
        block = draw(_block(calls))
        calls += isinstance(block[0], ToolCallStart)
        events += block
    events.append(Finished(0, "stop", draw(st.none() | st.just(7) | TEXTS)))
    return CachedAnswer(STARTED, tuple(events), Usage(3, 9, 1), {"seed": "left out"}, 12.5)


@given(answers())
def test_what_was_packed_is_read_as_it_was(answer: CachedAnswer) -> None:
    found = unpacked(packed(answer))
    assert found is not None
    assert (found.started, found.usage, found.losses, found.kept_at) == (
        answer.started,
        answer.usage,
        answer.losses,
        answer.kept_at,
    )
    assert found.events == tuple(joined_texts(answer.events))
    one, two = Transcript(), Transcript()
    one.add(answer.events)
    two.add(found.events)
    assert one.outputs() == two.outputs()
    check([STARTED, *found.events, found.usage, Done()])


def test_texts_are_joined_up_to_a_length_so_that_a_stream_stays_one() -> None:
    events = [*(TextDelta(0, "word ") for _ in range(1000)), TextEnd(0)]
    found = joined_texts(events)
    assert "".join(each.text for each in found if isinstance(each, TextDelta)) == "word " * 1000
    assert 5 * 1000 / PIECE <= len(found) - 1 <= 6
    assert all(len(each.text) <= PIECE for each in found if isinstance(each, TextDelta))


@given(st.binary(max_size=60))
def test_what_is_no_answer_is_none(data: bytes) -> None:
    assert unpacked(data) is None


def test_an_answer_of_another_version_or_that_was_cut_is_none() -> None:
    whole = packed(CachedAnswer(STARTED, (OpaqueBlock(0, "k", b"p"), Finished(0, "stop")), Usage(1, 1), {}, 1.0))
    assert unpacked(whole) is not None
    assert all(unpacked(whole[:length]) is None for length in range(len(whole)))
    assert unpacked(whole.replace(b"\x96\x01", b"\x96\x02", 1)) is None
