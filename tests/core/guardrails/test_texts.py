"""Windows, masks and spans: nothing of what is masked is left, and nothing else is lost."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from smg_core.guardrails.records import GuardSpan
from smg_core.guardrails.texts import mapped_back, masked_parts, merged, plain_json, windows, with_masks

TEXTS = st.text(alphabet="ab<>é\U0001f600", max_size=60)


@st.composite
def spanned(draw: st.DrawFn) -> tuple[str, tuple[GuardSpan, ...]]:
    text = draw(TEXTS)
    found = []
    for _ in range(draw(st.integers(0, 4)) if text else 0):
        start = draw(st.integers(0, len(text) - 1))
        found.append(GuardSpan(start, draw(st.integers(start + 1, len(text))), draw(st.sampled_from("XYZ"))))
    return text, tuple(found)


@given(TEXTS, st.integers(2, 20), st.integers(0, 10))
def test_whatever_is_as_long_as_the_overlap_is_whole_in_a_window(text: str, most: int, overlap: int) -> None:
    found = list(windows(text, most, overlap))

    assert all(len(piece) <= most and text[start : start + len(piece)] == piece for start, piece in found)
    held = min(overlap, most // 2)
    for start in range(max(0, len(text) - held + 1)):
        assert any(at <= start and start + held <= at + len(piece) for at, piece in found)


@given(spanned())
def test_a_mask_stands_for_each_part_and_the_rest_is_as_it_was(case: tuple[str, tuple[GuardSpan, ...]]) -> None:
    text, spans = case
    left = merged(spans)

    assert all(one.end <= other.start for one, other in pairwise(left))
    hidden = {at for each in spans for at in range(each.start, each.end)}
    assert hidden == {at for each in left for at in range(each.start, each.end)}
    shown = "".join(char for at, char in enumerate(text) if at not in hidden)
    made = with_masks(text, left)
    for each in left:
        made = made.replace(each.mask, "", 1) if each.mask in made else made
    assert len(with_masks(text, left)) == len(shown) + sum(len(each.mask) for each in left)


@given(spanned(), st.lists(st.integers(0, 60), max_size=4))
def test_masks_over_parts_are_those_of_the_joined_text(
    case: tuple[str, tuple[GuardSpan, ...]], cuts: list[int]
) -> None:
    text, spans = case
    places = sorted({0, len(text), *(min(each, len(text)) for each in cuts)})
    parts = [text[start:end] for start, end in pairwise(places)] or [""]

    assert "".join(masked_parts(parts, merged(spans))) == with_masks(text, merged(spans))


@given(spanned(), st.data())
def test_what_is_found_behind_a_mask_is_masked_in_the_text_as_it_was(
    case: tuple[str, tuple[GuardSpan, ...]], data: st.DataObject
) -> None:
    text, spans = case
    before = merged(spans)
    seen = with_masks(text, before)
    if not seen:
        return
    start = data.draw(st.integers(0, len(seen) - 1))
    end = data.draw(st.integers(start + 1, len(seen)))

    both = mapped_back(before, [GuardSpan(start, end, "NEW")])

    assert all(0 <= each.start < each.end <= len(text) for each in both)
    hidden = {at for each in both for at in range(each.start, each.end)}
    assert {at for each in before for at in range(each.start, each.end)} <= hidden
    at = 0  # each character that was seen and found is hidden
    for each in (*before, GuardSpan(len(text), len(text) + 1)):
        shift = each.start - at
        offset = seen_place(before, at)
        for number in range(shift):
            if start <= offset + number < end:
                assert at + number in hidden
        at = each.end


def seen_place(before: tuple[GuardSpan, ...], place: int) -> int:
    """Where a place of the text, behind the spans that end before it, is in the masked text."""
    return place + sum(len(each.mask) - (each.end - each.start) for each in before if each.end <= place)


def test_json_loses_the_escapes_that_a_writer_may_choose() -> None:
    assert plain_json('{"a": "\\u0062\\u00e9\\/"}') == '{"a":"bé/"}'
    assert plain_json("{") is None


def test_a_label_is_no_markup() -> None:
    assert GuardSpan(0, 1, 'a<b">').mask == "<a_b_>"
