"""Fields and queries that several APIs have alike."""

import pytest

from smg_core.apis.conversations.types import read_items_query
from smg_core.batches.message_types import read_page
from smg_core.errors import InvalidRequest
from smg_core.files.types import read_file_query
from smg_core.wire.fields import read_limit

READERS = {
    "batches": lambda query: read_limit(query, usual=20, most=100),
    "batches of Messages": lambda query: read_page(query).limit,
    "files": lambda query: read_file_query(query).limit,
    "items": lambda query: read_items_query(query).limit,
}


@pytest.mark.parametrize("api", READERS)
@pytest.mark.parametrize("text", ["0", "-1", "1.0", "", "١", "100001", "0" * 8 + "1" + "9" * 6, "9" * 5000])
def test_the_limit_of_a_page_is_bounded_however_it_is_written(api: str, text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        READERS[api]({"limit": (text,)})

    assert refused.value.param == "limit"


@pytest.mark.parametrize("api", READERS)
def test_the_last_limit_of_a_query_counts(api: str) -> None:
    assert READERS[api]({"limit": ("x", "7")}) == 7
