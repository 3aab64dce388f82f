"""What a server of the Embeddings API is asked, and what its answers mean."""

import json
import struct
from base64 import b64encode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.engines.openai.embeddings import read_embeddings, write_embeddings
from smg_core.engines.pooling import PoolCall
from smg_core.errors import EngineGarbled, UnsupportedParameter

VECTORS = st.lists(
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=9), min_size=1
)


@given(VECTORS, st.booleans(), st.randoms())
def test_vectors_come_in_the_order_of_the_inputs_however_they_are_written_and_sorted(vectors, packed, random):
    rows = [
        {
            "index": at,
            "embedding": b64encode(struct.pack(f"<{len(each)}f", *each)).decode() if packed else each,
            "object": "embedding",
        }
        for at, each in enumerate(vectors)
    ]
    random.shuffle(rows)
    body = msgspec.json.encode({"data": rows, "usage": {"prompt_tokens": 7, "total_tokens": 7}})
    found = read_embeddings(body, len(vectors))
    assert [list(each.values) for each in found] == vectors
    assert sum(each.tokens for each in found) == 7


@given(st.binary(max_size=80))
def test_any_bytes_are_vectors_or_refused(body):
    with pytest.raises(EngineGarbled):
        read_embeddings(body, 1)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"index": 1, "embedding": [1]}],
        [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}],
        [{"index": 0, "embedding": []}],
        [{"index": 0, "embedding": "AAA"}],
        [{"index": 0, "embedding": "AAAA"}],
        [{"index": 0, "embedding": [1e300]}],
    ],
)
def test_an_answer_that_is_not_a_vector_for_each_input_is_refused(rows):
    with pytest.raises(EngineGarbled):
        read_embeddings(json.dumps({"data": rows}).encode(), 1)


def test_a_server_is_sent_what_the_client_gave_and_told_to_cut_where_it_has_a_word_for_it():
    call = PoolCall("r", given=["One", [5, 6]], truncate=3, truncate_side="start")
    asked = json.loads(write_embeddings(call, model="m", extras=True))
    assert asked == {
        "model": "m",
        "input": ["One", [5, 6]],
        "encoding_format": "base64",
        "truncate_prompt_tokens": 3,
        "truncation_side": "left",
    }
    with pytest.raises(UnsupportedParameter):
        write_embeddings(call, model="m", extras=False)
    whole = PoolCall("r", given=["One"], truncate=-1)
    assert "truncate_prompt_tokens" not in json.loads(write_embeddings(whole, model="m", extras=False))
