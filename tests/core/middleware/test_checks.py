"""What is checked again of what a middleware made."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.middleware.base import MiddlewareFault
from smg_core.middleware.checks import bounded_text


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
