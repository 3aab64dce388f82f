"""Answers in a provider's own words: in order, with their seals, and never kept back for good."""

from smg_core.events import ReasoningEnd, Verbatim
from smg_core.wire.base import VerbatimStream


def test_what_waits_for_a_seal_leaves_with_it_and_what_is_behind_it_too() -> None:
    stream = VerbatimStream(bytes)

    assert stream.encode([Verbatim(0, "", (b"a", b"b")), Verbatim(0, "", (b"c",))]) == b""
    assert stream.encode([ReasoningEnd(0, b"-", carried=True)]) == b"data: a-b\n\ndata: c\n\n"


def test_a_seal_that_never_comes_keeps_few_pieces_back() -> None:
    stream = VerbatimStream(bytes, most=3)

    assert stream.encode([Verbatim(0, "", (b"a", b"b"))]) == b""
    assert stream.encode([Verbatim(0, "", (b"c",)), Verbatim(0, "", (b"d",))]) == b""
    assert stream.encode([Verbatim(0, "", (b"e",))]) == b"data: ab\n\ndata: c\n\ndata: d\n\ndata: e\n\n"
