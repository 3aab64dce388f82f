"""What is sent for a vector and what comes back, in every dialect that makes any."""

from array import array
from contextlib import suppress
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine_kinds import DIALECTS

from smg_core.engines.kinds.table import kind
from smg_core.engines.pooling import vector_of
from smg_core.errors import EngineGarbled
from smg_core.tokens import TokenIds
from smg_simulator.codecs.all_codecs import server_codecs

NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)
MAKES_NONE = {"mlx", "trtllm", "tokenspeed"}
SERVERS = {each.service: each for each in server_codecs(rust=False, shared=lambda place: b"", only=())}


def test_the_dialects_that_make_vectors_say_so_and_no_others():
    for name in DIALECTS:
        codec = kind(name).codec()
        call = codec.embed("r", TokenIds([1]))
        assert (call is None) == (name in MAKES_NONE)
        carried = {"embed"} if name == "vllm" else {"embed", "classify", "score"}
        assert codec.facts.pools == (frozenset() if call is None else carried)


@pytest.mark.parametrize("name", sorted(set(DIALECTS) - MAKES_NONE))
@given(
    ids=st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=50),
    values=st.lists(NUMBERS, min_size=1, max_size=50),
)
def test_ids_and_vectors_pass_the_wire_unchanged(name, ids, values):
    call = kind(name).codec().embed("r-1", TokenIds(ids))
    assert call is not None
    _, service, method = call.path.split("/")
    server = SERVERS[service]
    assert method == server.methods["embed"]
    assert (list(server.embed_request(call.message)[0]), list(server.embed_request(call.message)[1])) == (ids, [])
    found = call.parse(server.embed_answer(values, len(ids)))
    assert (found.values, found.tokens) == (array("f", values), len(ids))


@pytest.mark.parametrize("name", sorted(set(DIALECTS) - MAKES_NONE))
@given(message=st.binary(max_size=60))
def test_a_message_of_any_bytes_is_a_vector_or_is_refused(name, message):
    call = kind(name).codec().embed("r-1", TokenIds([1]))
    with suppress(EngineGarbled):
        assert len(call.parse(message).values) > 0


def test_a_vector_that_is_empty_or_not_as_long_as_it_says_or_has_no_numbers_is_refused():
    for values, dimensions in (([], 0), ([1.0], 2), ([1.0, 2.0], 1), ([1.0, inf], 0), ([inf, -inf], 0), ([nan], 1)):
        with pytest.raises(EngineGarbled):
            vector_of(values, 1, dimensions)
    assert list(vector_of([1.0, 2.0], 1, 2).values) == [1.0, 2.0]
