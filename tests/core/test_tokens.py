"""A run of token ids behaves as the list it holds, and packs itself once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.tokens import MOST_TOKENS_REPORTED, TokenIds, reported_count

ids = st.lists(st.integers(0, 2**32 - 1), max_size=50)


@given(ids)
def test_it_reads_as_the_list_of_its_ids(values):
    run = TokenIds(values)
    assert (len(run), list(run), run.tolist()) == (len(values), values, values)
    assert run == values
    assert run == tuple(values)
    assert list(run.buffer) == values
    assert run.buffer.readonly
    assert run.nbytes == 4 * len(values)


@given(ids, st.integers(-60, 60) | st.none(), st.integers(-60, 60) | st.none())
def test_it_is_sliced_as_a_list_is(values, start, stop):
    piece = TokenIds(values)[start:stop]
    assert isinstance(piece, TokenIds)
    assert piece == values[start:stop]


@given(ids, ids)
def test_runs_are_joined_and_compared_as_lists_are(one, other):
    assert TokenIds(one) + TokenIds(other) == one + other
    assert (TokenIds(one) == TokenIds(other)) == (one == other)
    if one == other:
        assert hash(TokenIds(one)) == hash(TokenIds(other))


def test_it_is_not_equal_to_what_holds_no_ids():
    assert TokenIds([1]) != "1"
    assert TokenIds([1]) != {1}


@pytest.mark.parametrize("value", [-1, 2**32, 1.5, "a"])
def test_what_is_no_id_is_refused(value):
    with pytest.raises((OverflowError, TypeError)):
        TokenIds([value])


def test_varints_that_are_kept_count_as_memory():
    run = TokenIds([1, 2, 3])
    assert (run.packed_varints, run.nbytes) == (None, 12)

    run.packed_varints = b"\x01\x02\x03"
    assert run.nbytes == 12 + 3


def test_a_long_run_prints_short():
    assert repr(TokenIds([1, 2])) == "TokenIds([1, 2], n=2)"
    assert repr(TokenIds(range(1000))) == "TokenIds([0, 1, 2, 3, 4, 5, 6, 7, ...], n=1000)"


@given(st.integers() | st.none() | st.sampled_from([-1, 0, MOST_TOKENS_REPORTED, MOST_TOKENS_REPORTED + 1]))
def test_a_number_of_tokens_that_cannot_be_is_not_told(value):
    possible = value is not None and 0 <= value <= MOST_TOKENS_REPORTED
    assert reported_count(value) == (value if possible else 0)
