"""What policies compare prompts by: token ids for text, words of hashes for media, never one taken for the other."""

from array import array
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.routing import Candidate, Pick, RoutingContext
from smg_core.routing.base import RankState
from smg_core.tokens import TokenIds
from smg_multimodal.preparing.content import routing_keys
from smg_multimodal.prompts.expand import Expanded, ReadyItem, expand
from smg_multimodal.prompts.prompts import repeat_rule
from smg_multimodal.records.types import ItemFeatures, Modality, Size

ANCHOR = 7
WORDS = st.lists(st.sampled_from([1, 2, 3]), max_size=6)
PICTURES = st.integers(0, 3)
PROMPTS = st.lists(WORDS | PICTURES, max_size=6)


def picture(which: int) -> ReadyItem:
    """Picture number `which`, of five to eight tokens."""
    features = ItemFeatures({"x": np.zeros(1)}, Size(1, 1), 5 + which, (1,), Modality.IMAGE)
    return ReadyItem(features, bytes([which + 1]) * 32)


def context(prompt: list[list[int] | int], salt: str | None = None) -> tuple[RoutingContext, Expanded]:
    """The request of runs of words and pictures, as the pipeline would describe it."""
    ids = [token for part in prompt for token in (part if isinstance(part, list) else [ANCHOR])]
    pictures = [picture(part) for part in prompt if isinstance(part, int)]
    expanded = expand(ids, [repeat_rule("<image>", ANCHOR)], pictures)
    keys = array("Q", routing_keys(expanded).tobytes()) if pictures else None
    return RoutingContext("r", "m", TokenIds(expanded.ids), cache_salt=salt, media_keys=keys), expanded


def shared(left: list[int], right: list[int]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))


def meaning(expanded: Expanded) -> list[object]:
    """What each token really is: its id, or which part of which picture."""
    tokens: list[object] = list(expanded.ids)
    for place in expanded.placeholders:
        for at in range(place.span.length):
            tokens[place.span.offset + at] = (place.content_hash, at)
    return tokens


@given(PROMPTS, PROMPTS)
def test_two_prompts_share_keys_as_far_as_they_are_the_same_and_no_further(
    left: list[list[int] | int], right: list[list[int] | int]
) -> None:
    (one, whole), (other, rest) = context(left), context(right)

    found = shared(list(one.prefix_keys), list(other.prefix_keys))
    assert found == shared(meaning(whole), meaning(rest))  # type: ignore[arg-type]
    assert len(one.prefix_keys) == len(one.input_ids)


@given(PROMPTS, PROMPTS, st.integers(1, 5))
def test_hashes_of_blocks_begin_alike_for_as_many_blocks_as_the_keys_do(
    left: list[list[int] | int], right: list[list[int] | int], block: int
) -> None:
    (one, _), (other, _) = context(left), context(right)

    keys = shared(list(one.prefix_keys), list(other.prefix_keys))
    hashes = one.prefix_hashes(block), other.prefix_hashes(block)
    assert shared(*hashes) == keys // block
    assert one.prefix_hashes(block, 2) == hashes[0][:2]
    assert len(set(hashes[0])) == len(hashes[0]) == len(one.input_ids) // block


@given(PROMPTS)
def test_prompts_with_different_salts_share_no_block(prompt: list[list[int] | int]) -> None:
    hashes = [set(context(prompt, salt)[0].prefix_hashes(1)) for salt in (None, "a", "b")]

    assert not hashes[0] & hashes[1]
    assert not hashes[1] & hashes[2]


def test_a_picture_behind_the_same_words_begins_as_the_words_alone() -> None:
    (words, _), (seen, _) = context([[1, 2, 3, 1]]), context([[1, 2, 3, 1], 0])

    assert seen.prefix_hashes(4)[0] == words.prefix_hashes(4)[0]
    assert list(words.prefix_keys) == [1, 2, 3, 1]
    assert all(key >= 1 << 63 for key in list(seen.prefix_keys)[4:])


PAGE = Path(__file__).parents[3] / "docs" / "routing-policies.md"


def named_on_the_page(kind: type) -> set[str]:
    """The names in the first column of the page's table of `kind`."""
    rows = PAGE.read_text().partition(f"| `{kind.__name__}` |")[2].partition("\n\n")[0].splitlines()[2:]
    return {name.partition("(")[0] for row in rows for name in row.split("|")[1].split("`")[1::2]}


def public(kind: type) -> set[str]:
    """What a policy can read of a record: fields, properties and methods, without what only the gateway calls."""
    own = {*getattr(kind, "__struct_fields__", ()), *vars(kind)}
    return {name for name in own if not name.startswith("_")} - {"fault"}


@pytest.mark.parametrize("kind", [Candidate, RoutingContext, Pick])
def test_the_page_names_exactly_what_a_policy_can_read_and_say(kind: type) -> None:
    assert named_on_the_page(kind) == public(kind)


def test_the_page_names_what_the_load_of_a_rank_has() -> None:
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith("| `ranks` |")]
    assert set(row.split("with")[1].split("`")[1::2]) == public(RankState)
