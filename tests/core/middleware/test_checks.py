"""What is checked again of what a middleware made."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.middleware.base import ChangeHead, MiddlewareFault
from smg_core.middleware.checks import bounded_text, changed_headers


@given(st.text(st.characters(exclude_categories=()), max_size=8), st.integers(0, 40))
def test_a_text_is_taken_exactly_where_it_is_utf_8_within_its_bound(text: str, most: int) -> None:
    try:
        fits = len(text.encode()) <= most
    except UnicodeEncodeError:
        fits = False
    if fits:
        assert bounded_text(text, most) == text
    else:
        with pytest.raises(MiddlewareFault):
            bounded_text(text, most)


@pytest.mark.parametrize(
    "given", [(("X-A", "b"), ("X-C", "d")), [["X-A", "b"], ["X-C", "d"]], {"X-A": "b", "X-C": "d"}]
)
@pytest.mark.parametrize("field", ["set", "add"])
def test_headers_of_a_change_are_pairs_or_a_mapping(field: str, given: Any) -> None:
    change = ChangeHead(**{field: given})

    assert changed_headers((("x-b", "1"),), change, 100) == (("x-b", "1"), ("x-a", "b"), ("x-c", "d"))


@pytest.mark.parametrize("given", ["ab", ("x-a", "b"), ("ab",), (("x-a", 1),), (("x-a",),), {"x-a": None}])
@pytest.mark.parametrize("field", ["set", "add"])
def test_headers_of_another_form_are_told_in_words(field: str, given: Any) -> None:
    with pytest.raises(MiddlewareFault, match="neither pairs"):
        ChangeHead(**{field: given})
