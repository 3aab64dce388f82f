"""Texts as guardrails see them: long ones in windows, masks in the place of parts, JSON without escapes.

Pure. Above: `asking`, `prompts`, `answers`. Below: `records`.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

import attrs
import msgspec

from smg_core.guardrails.records import GuardFault, GuardSpan

__all__ = ["checked_spans", "mapped_back", "masked_parts", "merged", "plain_json", "windows", "with_masks"]


def windows(text: str, most: int, overlap: int) -> Iterator[tuple[int, str]]:
    """The text in windows of at most `most` characters, each with where it begins; the next begins `overlap` characters before
    the end of the one before, so that what is as long as that is whole in one of them."""
    if len(text) <= most:
        yield 0, text
        return
    step = max(1, most - min(overlap, most // 2))
    for start in range(0, len(text), step):
        yield start, text[start : start + most]
        if start + most >= len(text):
            return


def merged(spans: Iterable[GuardSpan]) -> tuple[GuardSpan, ...]:
    """Spans in order, of which none overlaps another one: those that do are one, with the label of the first."""
    found: list[GuardSpan] = []
    for each in sorted(spans, key=lambda span: (span.start, -span.end)):
        if found and each.start < found[-1].end:
            found[-1] = attrs.evolve(found[-1], end=max(found[-1].end, each.end))
        else:
            found.append(each)
    return tuple(found)


def checked_spans(spans: Sequence[GuardSpan], length: int) -> tuple[GuardSpan, ...]:
    """Spans of a text of this length. Raises GuardFault for one that lies outside of it or is none."""
    for each in spans:
        if not isinstance(each, GuardSpan) or type(each.start) is not int or type(each.end) is not int:
            raise GuardFault("gave a span that is none")
        if not 0 <= each.start < each.end <= length:
            raise GuardFault(f"gave a span from {each.start} to {each.end} of a text of {length} characters")
    return tuple(spans)


def with_masks(text: str, spans: Sequence[GuardSpan]) -> str:
    """The text with the mask of each span in its place; the spans are those of `merged`."""
    found, at = list[str](), 0
    for each in spans:
        found += (text[at : each.start], each.mask)
        at = each.end
    return "".join((*found, text[at:]))


def masked_parts(texts: Sequence[str], spans: Sequence[GuardSpan]) -> list[str]:
    """Texts whose joined text has these spans, with masks in their places: that of a span over several stands in the first."""
    found = list[str]()
    for text, end in zip(texts, accumulate(map(len, texts)), strict=True):
        start = end - len(text)
        made, at = list[str](), start
        for each in spans:
            if each.end <= start or each.start >= end:
                continue
            made.append(text[max(at, start) - start : max(each.start, start) - start])
            made.append(each.mask if each.start >= start else "")
            at = min(each.end, end)
        found.append("".join((*made, text[at - start :])))
    return found


def mapped_back(before: Sequence[GuardSpan], after: Iterable[GuardSpan]) -> tuple[GuardSpan, ...]:
    """Spans of a text to which those `before` have led already, together with spans that were found in what was left of it; all
    are of the text as it was."""
    return merged((*before, *(_mapped(before, each) for each in after)))


def _mapped(before: Sequence[GuardSpan], span: GuardSpan) -> GuardSpan:
    return attrs.evolve(span, start=_place(before, span.start, end=False), end=_place(before, span.end, end=True))


def _place(before: Sequence[GuardSpan], place: int, *, end: bool) -> int:
    """Where a place of the masked text is in the text as it was; within a mask it is the whole span that the mask stands for."""
    moved = 0  # how much longer the text was, up to here
    for each in before:
        start = each.start - moved
        stop = start + len(each.mask)
        if place < start or (end and place == start):
            break
        if place < stop or (end and place == stop):
            return each.end if end else each.start
        moved += each.end - each.start - len(each.mask)
    return place + moved


def plain_json(text: str) -> str | None:
    """A JSON text without the escapes that a writer may choose to write; None for what is no JSON."""
    try:
        return msgspec.json.encode(msgspec.json.decode(text)).decode()
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
