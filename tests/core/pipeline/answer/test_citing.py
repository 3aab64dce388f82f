"""Marks of sources are taken out of an answer wherever it is cut, and what they cite is told exactly."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from smg_core.events import Annotation, Event, Finished, ReasoningDelta, ReasoningEnd, TextDelta, TextEnd, TokenLogprob
from smg_core.pipeline.answer.citing import LONGEST, Citing
from smg_core.sources import CitableSource, marked

SOURCES = (
    CitableSource("url", "https://a.example", "A", "Words of a."),
    CitableSource("file", "file-b", "b.txt", "Words of b."),
)


class Taken:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.over = False

    def take(self, events: Sequence[Event], over: bool) -> None:
        self.events += events
        self.over = self.over or over


def cited(*pieces: str, sources: Sequence[CitableSource] = SOURCES) -> tuple[str, list[tuple[int, int, str]]]:
    """The text of an answer of these pieces, and what is cited: from where, to where, of which source."""
    taken = Taken()
    citing = Citing(sources, taken)
    for piece in pieces:
        citing.take([TextDelta(0, piece)], False)
    citing.take([TextEnd(0), Finished(0, "stop")], True)
    assert taken.over
    text = "".join(event.text for event in taken.events if isinstance(event, TextDelta))
    found = [event for event in taken.events if isinstance(event, Annotation)]
    return text, [(each.start, each.end, each.source) for each in found]


def words(*pieces: str) -> list[tuple[str, str]]:
    """The words that are cited, and of which source."""
    text, found = cited(*pieces)
    return [(text[start:end], source[-1]) for start, end, source in found]


@pytest.mark.parametrize(
    ("written", "text", "found"),
    [
        ("The sky is blue【1】.", "The sky is blue.", [("The sky is blue", "e")]),
        ("One. Two.【2】 Three.", "One. Two. Three.", [("Two.", "b")]),
        ("One. Two. 【2】", "One. Two. ", [("Two.", "b")]),
        ("Both【1】【2】 and【1, 2】", "Both and", [("Both", "e"), ("Both", "b"), ("and", "e"), ("and", "b")]),
        ("Daggers【2†L1-L4】!", "Daggers!", [("Daggers", "b")]),
        ("- a【1】\n- b【2】\n", "- a\n- b\n", [("- a", "e"), ("- b", "b")]),
        ("天空是蓝的。【1】海", "天空是蓝的。海", [("天空是蓝的。", "e")]),
        ("【1】", "", [("", "e")]),
    ],
)
def test_a_mark_cites_the_sentence_before_it(written: str, text: str, found: list[tuple[str, str]]) -> None:
    assert cited(written)[0] == text
    assert words(written) == found


@pytest.mark.parametrize(
    "text",
    [
        "【3】",
        "【0】",
        "【注意】",
        "【1",
        "【",
        "【1†" + "x" * LONGEST + "】",
        "【123456】",
        "【1†\n】",
        "【,1】",
        "【】",
        "a 【 1】",
    ],
)
def test_what_is_no_mark_of_a_source_stays_text(text: str) -> None:
    assert cited(text) == (text, [])
    assert cited(*text) == (text, [])


PIECES = st.lists(
    st.sampled_from(
        ["【", "】", "1", "2", "3", "†", ",", " ", "【1】", "【2†L3】", "One", ". ", "!", "\n", "天。", "x" * 70]
    ),
    max_size=14,
).map("".join)


@settings(max_examples=examples(300))
@given(PIECES)
def test_an_answer_is_read_the_same_wherever_it_is_cut(written: str) -> None:
    whole = cited(written)
    for place in range(len(written) + 1):
        assert cited(written[:place], written[place:]) == whole
    assert cited(*written) == whole
    assert all(0 <= start <= end <= len(whole[0]) for start, end, _ in whole[1])


@settings(max_examples=examples(100))
@given(PIECES)
def test_only_what_may_become_a_mark_is_held(written: str) -> None:
    taken = Taken()
    citing = Citing(SOURCES, taken)
    for count, piece in enumerate(written, 1):
        citing.take([TextDelta(0, piece)], False)
        passed = sum(len(event.text) for event in taken.events if isinstance(event, TextDelta))
        marks = sum(isinstance(event, Annotation) for event in taken.events)
        assert marks or count - passed < LONGEST


def test_every_annotation_stands_behind_the_text_that_it_cites_and_before_its_end() -> None:
    taken = Taken()
    citing = Citing(SOURCES, taken)
    citing.take([ReasoningDelta(0, "【1】"), ReasoningEnd(0), TextDelta(0, "So【1】 it【2"), TextEnd(0)], True)
    assert taken.events == [
        ReasoningDelta(0, "【1】"),
        ReasoningEnd(0),
        TextDelta(0, "So"),
        Annotation(0, "url", 0, 2, "https://a.example", "A", "Words of a.", 0),
        TextDelta(0, " it"),
        TextDelta(0, "【2"),
        TextEnd(0),
    ]


def test_tokens_of_a_mark_keep_their_logprobs_and_ids() -> None:
    taken = Taken()
    citing = Citing(SOURCES, taken)
    scores = [TokenLogprob(text, text.encode(), -1.0, id=number) for number, text in enumerate(["a", "【1", "】", "b"])]
    for number, each in enumerate(scores):
        citing.take([TextDelta(0, each.token, (each,), (number,))], False)
    citing.take([TextEnd(0)], True)
    passed = [event for event in taken.events if isinstance(event, TextDelta)]
    assert [score for event in passed for score in event.logprobs] == scores
    assert [each for event in passed for each in event.ids] == [0, 1, 2, 3]
    assert "".join(event.text for event in passed) == "ab"


def test_sources_stand_in_a_prompt_behind_their_marks() -> None:
    assert marked(SOURCES, 4) == "【5】 A\nhttps://a.example\nWords of a.\n\n【6】 b.txt\nWords of b."
