"""The fields of a query, of which so many are taken."""

from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.errors import InvalidRequest
from smg_core.http.queries import MOST_FIELDS, check_query, query_fields


@given(st.lists(st.sampled_from(["a=1", "a", "b=%C3%A9", "%61=+", "=", "", "c==d"]), max_size=20))
def test_a_query_within_the_bound_has_all_of_its_fields(fields: list[str]) -> None:
    sent = "&".join(fields)
    check_query(sent.encode())
    expected = {name: tuple(values) for name, values in parse_qs(sent, keep_blank_values=True).items()}
    assert query_fields(sent.encode()) == expected


@pytest.mark.parametrize("field", [b"a=1", b"", b"%61"])
def test_a_query_over_the_bound_is_refused_and_its_first_fields_can_be_read_for_that(field: bytes) -> None:
    check_query(b"&".join([field] * MOST_FIELDS))
    longer = b"&".join([b"key=1", *[field] * MOST_FIELDS])
    with pytest.raises(InvalidRequest, match="1000 fields"):
        check_query(longer)
    assert query_fields(longer)["key"] == ("1",)
    assert sum(map(len, query_fields(longer).values())) <= MOST_FIELDS
