"""A prompt with one anchor per item becomes the prompt the engine sees, with the place of every item.

Above: `preparing.prepare`. Below: `prompts`, `records.types`. Works on token ids alone: finds each rule's anchors, substitutes,
and reports spans and content hashes. Does not render, tokenise or look at pixels. An anchor too many or too few is the client's
fault (somebody wrote a placeholder into the text, or a template dropped an item) and is refused.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from smg_multimodal.prompts.prompts import PromptRule
from smg_multimodal.records.errors import PlaceholderMismatch
from smg_multimodal.records.types import ItemFeatures, Modality, Placeholder, Replacement, Span

__all__ = ["Expanded", "ReadyItem", "expand"]


@dataclass(frozen=True, slots=True)
class ReadyItem:
    """An item's features together with the hash of what they were made from (32 bytes)."""

    features: ItemFeatures
    content_hash: bytes


@dataclass(frozen=True, slots=True)
class Expanded:
    """The expanded prompt, and the items' placeholders in the order in which they stand in it."""

    ids: "array[int]"
    placeholders: tuple[Placeholder, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where one anchor (and what it absorbs) lies in the prompt, and which item it stands for."""

    start: int
    stop: int
    rule: PromptRule
    index: int


def _places(ids: "array[int]", rule: PromptRule, count: int) -> list[_Place]:
    found: list[int] = []
    start = 0
    while len(found) <= count:
        try:
            start = ids.index(rule.anchor, start)
        except ValueError:
            break
        found.append(start)
        start += 1
    if len(found) != count:
        more = "more" if len(found) > count else str(len(found))
        raise PlaceholderMismatch(f"the prompt has {more} {rule.modality} placeholders ({rule.text}) for {count} items")
    places = []
    for index, position in enumerate(found):
        before, after = _enclosing(ids, position, rule)
        places.append(_Place(position - before, position + 1 + after, rule, index))
    return places


def _enclosing(ids: "array[int]", position: int, rule: PromptRule) -> tuple[int, int]:
    """How many tokens before and after the anchor at `position` are replaced with it."""
    if rule.around is None or position == 0 or ids[position - 1] != rule.around[0]:
        return 0, 0
    if rule.around[1] is None:
        return 1, 0
    enclosed = position < len(ids) - 1 and ids[position + 1] == rule.around[1]
    return int(enclosed), int(enclosed)


class _Output:
    """The growing prompt; joins tokens at the seams."""

    def __init__(self) -> None:
        self.ids = array("I")

    def copy(self, run: "array[int]", rule: PromptRule | None) -> None:
        """Append the prompt's own tokens; the first may join with the end of the replacement before it."""
        if rule is not None and run and self.ids and (joined := rule.joins.get((self.ids[-1], run[0]))) is not None:
            self.ids[-1] = joined
            run = run[1:]
        self.ids.extend(run)

    def place(self, replacement: Replacement, rule: PromptRule) -> tuple[Span, tuple[Span, ...]]:
        """Append a replacement; its first token may join with the one before. Spans count from the prompt's start."""
        run, shift = replacement.ids, 0
        if self.ids and run and (joined := rule.joins.get((self.ids[-1], run[0]))) is not None:
            self.ids[-1] = joined
            run, shift = run[1:], 1
        offset = len(self.ids) - shift
        self.ids.extend(run)
        features = tuple(Span(offset + span.offset, span.length) for span in replacement.features)
        return Span(offset, len(self.ids) - offset), features


def expand(
    ids: Sequence[int], rules: Sequence[PromptRule], items: Sequence[ReadyItem], *, limit: int = 1_000_000
) -> Expanded:
    """Replace every anchor by its item's tokens; items that lie beside the prompt leave it as it is.

    `items` of each modality are in the order of their anchors; modalities may be mixed. `limit` bounds the expanded
    prompt in tokens. Raises `PlaceholderMismatch` unless every modality has as many anchors as items, or if a
    replacement's feature tokens are not as many as the item's embeddings.
    """
    source = ids if isinstance(ids, array) and ids.typecode == "I" else array("I", ids)
    by_modality: dict[Modality, list[ReadyItem]] = {rule.modality: [] for rule in rules}
    for item in items:
        if item.features.modality not in by_modality:
            raise PlaceholderMismatch(f"the model takes no {item.features.modality}")
        by_modality[item.features.modality].append(item)
    places = [place for rule in rules for place in _places(source, rule, len(by_modality[rule.modality]))]
    places.sort(key=lambda place: place.start)
    return _written(source, places, by_modality, limit)


def _written(
    source: "array[int]", places: Sequence[_Place], items: dict[Modality, list[ReadyItem]], limit: int
) -> Expanded:
    output, placeholders, start = _Output(), [], 0
    previous: PromptRule | None = None
    for place in places:
        item, rule = items[place.rule.modality][place.index], place.rule
        if rule.dictate is not None:
            whole = Span(0, item.features.tokens)
            placeholders.append(Placeholder(rule.modality, place.index, whole, (whole,), item.content_hash))
            continue
        replacement = rule.replace(item.features, place.index)
        if replacement.tokens != item.features.tokens:
            raise PlaceholderMismatch(
                f"{rule.modality} {place.index} has {item.features.tokens} embeddings for {replacement.tokens} tokens"
            )
        output.copy(source[start : place.start], previous)
        span, features = output.place(replacement, rule)
        placeholders.append(Placeholder(rule.modality, place.index, span, features, item.content_hash))
        if len(output.ids) > limit:
            raise PlaceholderMismatch(f"the expanded prompt has more than {limit} tokens")
        start, previous = place.stop, rule
    output.copy(source[start:], previous)
    return Expanded(output.ids, tuple(placeholders))
