"""Prompts with anchors become prompts with items: every placeholder where it says, nothing else moved."""

from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from vocabulary import TestVocabulary

from smg_multimodal.preparing.content import routing_keys
from smg_multimodal.prompts.expand import ReadyItem, expand
from smg_multimodal.prompts.prompts import (
    PromptRule,
    gemma_rule,
    marked_rule,
    pixtral_rule,
    repeat_rule,
    timed_video_rule,
)
from smg_multimodal.records.errors import PlaceholderMismatch
from smg_multimodal.records.types import ItemFeatures, Modality, Replacement, Size, Span

PAD, AUDIO = 900, 901
WORDS = TestVocabulary()


def item(tokens: int, grid: tuple[int, ...] = (1, 1), modality: Modality = Modality.IMAGE, mark: int = 0) -> ReadyItem:
    facts = {"seconds": tuple(float(second) for second in range(grid[0]))}
    return ReadyItem(ItemFeatures({}, Size(1, 1), tokens, grid, modality, facts), bytes([mark]) * 32)


def rebuilt(ids: "array[int]", rule: PromptRule, spans: list[Span]) -> list[int]:
    """The expanded prompt with every placeholder turned back into its anchor."""
    out, start = [], 0
    for span in spans:
        out += [*ids[start : span.offset], rule.anchor]
        start = span.stop
    return out + list(ids[start:])


@given(st.lists(st.integers(0, 50) | st.just(PAD), max_size=60), st.randoms(use_true_random=False))
def test_turning_placeholders_back_into_anchors_gives_the_prompt(ids: list[int], random: "object") -> None:
    rule = repeat_rule("<pad>", PAD)
    counts = [random.randint(1, 9) for each in ids if each == PAD]  # type: ignore[attr-defined]
    expanded = expand(ids, [rule], [item(count) for count in counts])
    assert rebuilt(expanded.ids, rule, [place.span for place in expanded.placeholders]) == ids
    assert len(expanded.ids) == len(ids) - len(counts) + sum(counts)
    for place, count in zip(expanded.placeholders, counts, strict=True):
        assert place.features == (Span(place.span.offset, count),)
        assert set(expanded.ids[place.span.offset : place.span.stop]) == {PAD}


def test_items_of_several_kinds_keep_their_order_and_their_hashes() -> None:
    rules = [repeat_rule("<pad>", PAD), repeat_rule("<audio>", AUDIO, Modality.AUDIO)]
    items = [item(2, mark=1), item(3, modality=Modality.AUDIO, mark=2), item(1, mark=3)]
    expanded = expand([5, PAD, AUDIO, 6, PAD], rules, items)
    assert list(expanded.ids) == [5, PAD, PAD, AUDIO, AUDIO, AUDIO, 6, PAD]
    assert [(place.modality, place.index, place.content_hash[0]) for place in expanded.placeholders] == [
        (Modality.IMAGE, 0, 1),
        (Modality.AUDIO, 0, 2),
        (Modality.IMAGE, 1, 3),
    ]


@pytest.mark.parametrize("ids", [[], [PAD], [PAD, PAD, PAD], [1, 2, 3]])
def test_other_than_one_anchor_per_item_is_refused(ids: list[int]) -> None:
    with pytest.raises(PlaceholderMismatch):
        expand(ids, [repeat_rule("<pad>", PAD)], [item(1), item(1)])


def test_an_anchor_without_any_item_is_refused() -> None:
    """A placeholder that somebody wrote into plain text."""
    with pytest.raises(PlaceholderMismatch):
        expand([1, PAD, 2], [repeat_rule("<pad>", PAD)], [])


def test_a_kind_the_model_does_not_take_is_refused() -> None:
    with pytest.raises(PlaceholderMismatch):
        expand([PAD], [repeat_rule("<pad>", PAD)], [item(1, modality=Modality.AUDIO)])


def test_a_rule_that_disagrees_with_the_encoder_is_refused() -> None:
    wrong = PromptRule(Modality.IMAGE, "<pad>", PAD, PAD, lambda _item, _index: Replacement((PAD,), (Span(0, 1),)))
    with pytest.raises(PlaceholderMismatch):
        expand([PAD], [wrong], [item(2)])


def test_the_expanded_prompt_has_a_bound() -> None:
    with pytest.raises(PlaceholderMismatch):
        expand([PAD] * 10, [repeat_rule("<pad>", PAD)], [item(100)] * 10, limit=500)


def test_markers_that_the_template_wrote_are_not_written_twice() -> None:
    rule = marked_rule(10, PAD, 11, "<imgpad>")
    bare, dressed = expand([1, PAD, 2], [rule], [item(2)]), expand([1, 10, PAD, 11, 2], [rule], [item(2)])
    assert list(bare.ids) == list(dressed.ids) == [1, 10, PAD, PAD, 11, 2]
    assert bare.placeholders == dressed.placeholders
    assert bare.placeholders[0].span == Span(1, 4)
    assert bare.placeholders[0].features == (Span(2, 2),)


def test_rows_of_pixtral_have_one_embedding_span_each() -> None:
    expanded = expand([7, 1], [pixtral_rule(1, 2, 3)], [item(6, (2, 3))])
    assert list(expanded.ids) == [7, 1, 1, 1, 2, 1, 1, 1, 3]
    assert expanded.placeholders[0].features == (Span(1, 3), Span(5, 3))


def test_line_feeds_at_the_edges_of_a_gemma_picture_join_with_the_prompts() -> None:
    """Tokenising the text as a whole gives the same ids as expanding the tokens."""
    rule = gemma_rule(WORDS, 3, {})
    whole = "\n\n<start_of_image>" + "<image_soft_token>" * 3 + "<end_of_image>\n\n"
    for before, after in (("user\n", "hi"), ("user\n\n", "\nhi"), ("", "\n\n"), ("x", "")):
        prompt = WORDS.encode(before + "<start_of_image>" + after)
        expanded = expand(prompt, [rule], [item(3, (1,))])
        assert list(expanded.ids) == list(WORDS.encode(before + whole + after)), (before, after)
        (span,) = expanded.placeholders[0].features
        assert set(expanded.ids[span.offset : span.stop]) == {rule.feature}


def test_a_clip_replaces_the_markers_around_its_anchor() -> None:
    rule = timed_video_rule(WORDS, {})
    prompt = WORDS.encode("a<|vision_start|><|video_pad|><|vision_end|>b")
    expanded = expand(prompt, [rule], [item(4, (2, 2, 4), Modality.VIDEO)])
    frames = "".join(
        f"<{second:.1f} seconds><|vision_start|><|video_pad|><|video_pad|><|vision_end|>" for second in (0.0, 1.0)
    )
    assert list(expanded.ids) == list(WORDS.encode(f"a{frames}b"))
    assert [span.length for span in expanded.placeholders[0].features] == [2, 2]


def test_routing_keys_differ_from_the_first_token_of_a_different_picture() -> None:
    rule = repeat_rule("<pad>", PAD)
    first = routing_keys(expand([1, PAD, 2], [rule], [ReadyItem(item(5).features, b"a" * 32)]))
    again = routing_keys(expand([1, PAD, 2], [rule], [ReadyItem(item(5).features, b"a" * 32)]))
    other = routing_keys(expand([1, PAD, 2], [rule], [ReadyItem(item(5).features, b"b" * 32)]))
    assert np.array_equal(first, again)
    assert first.dtype == np.uint64
    assert list(first[[0, -1]]) == [1, 2]
    assert not np.any(first[1:6] == other[1:6])
    assert int(first[1]) >> 63 == 1


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32), st.integers(1, 40))
def test_two_prompts_share_a_prefix_key_only_if_the_pictures_are_the_same(
    left: bytes, right: bytes, tokens: int
) -> None:
    rule, features = repeat_rule("<pad>", PAD), item(tokens).features
    keys = [routing_keys(expand([PAD], [rule], [ReadyItem(features, each)])) for each in (left, right)]
    same = np.frombuffer(left, "<u8") | np.uint64(1 << 63), np.frombuffer(right, "<u8") | np.uint64(1 << 63)
    assert np.array_equal(*keys) == np.array_equal(same[0][:tokens], same[1][:tokens])
