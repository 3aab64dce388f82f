"""Texts are cut into chunks: within their size, with their overlap, the same however the text comes."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from smg_core.retrieval.chunking import AUTO_CHUNKING, Chunker, Chunking, TextChunk

SIZES = st.builds(
    lambda most, share: Chunking(most, int(most * share / 2)), st.integers(1, 40), st.floats(0, 1, allow_nan=False)
)
TEXTS = st.text(st.sampled_from("ab  c9 .!?\n\n\u4e2d\u00e9-"), max_size=400)


def cut(pieces: Sequence[str], chunking: Chunking) -> list[TextChunk]:
    chunker = Chunker(chunking)
    return [each for piece in pieces for each in chunker.feed(piece)] + list(chunker.end())


@settings(max_examples=examples(200))
@given(text=TEXTS, chunking=SIZES, at=st.lists(st.integers(0, 400), max_size=5))
def test_a_text_is_cut_the_same_however_it_comes(text: str, chunking: Chunking, at: list[int]) -> None:
    places = sorted(each for each in at if each <= len(text))
    pieces = [text[begin:end] for begin, end in zip([0, *places], [*places, len(text)], strict=True)]

    whole = cut([text], chunking)

    assert cut(pieces, chunking) == whole
    assert cut(list(text), chunking) == whole


@settings(max_examples=examples(200))
@given(text=TEXTS, chunking=SIZES)
def test_chunks_are_where_they_say_and_nothing_but_space_is_left_out(text: str, chunking: Chunking) -> None:
    chunks, reached = cut([text], chunking), 0

    for each in chunks:
        assert text[each.start : each.end] == each.text
        assert each.end > reached
        assert not text[reached : each.start].strip()
        reached = each.end
    assert not text[reached:].strip()


def test_a_chunk_has_no_more_tokens_than_it_may_and_repeats_the_end_of_the_one_before() -> None:
    words = [f"w{number % 10}" for number in range(1000)]
    chunks = cut([" ".join(words)], Chunking(100, 50))

    assert all(len(each.text.split()) * 2 <= 100 for each in chunks)  # a letter and a digit are two
    shared = [before.end - after.start for before, after in pairwise(chunks)]
    assert all(60 <= each <= 80 for each in shared)


def test_a_chunk_ends_with_a_paragraph_where_one_ends_near() -> None:
    text = "One two three four.\n\n" * 40

    chunks = cut([text], Chunking(100, 0))

    assert all(each.text.endswith("four.") for each in chunks)


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("unit", ["x", "\u4e2d", " ", "\n", "a "])
def test_a_text_of_one_long_line_is_cut_in_time_that_grows_with_it(unit: str) -> None:
    chunks = cut([unit * 65536] * 4, AUTO_CHUNKING)

    assert bool(chunks) is bool(unit.strip())
    assert all(len(each.text) <= 800 * 16 for each in chunks)
