"""Token ids and numbers as protobuf has them."""

import inspect

from hypothesis import given
from hypothesis import strategies as st

from smg_core.engines.codecs.protobuf import tagged, varints_of
from smg_core.tokens import TokenIds
from smg_engine_contract import engine_pb2 as pb

INPUT_IDS = 2  # in GenerateRequest


@given(st.lists(st.integers(0, 2**32 - 1), max_size=300))
def test_varints_are_what_protobuf_reads_as_the_ids(ids: list[int]) -> None:
    message = tagged(INPUT_IDS, varints_of(TokenIds(ids)))

    assert list(pb.GenerateRequest.FromString(message).input_ids) == ids


def test_varints_are_made_once_and_kept_with_the_ids() -> None:
    ids = TokenIds(range(1000))

    assert ids.packed_varints is None
    assert varints_of(ids) is varints_of(ids) is ids.packed_varints


def test_nobody_can_ask_for_another_form_and_be_given_varints() -> None:
    """A codec that packs otherwise makes its own: what is kept has one name, one maker, and takes no packer."""
    assert list(inspect.signature(varints_of).parameters) == ["ids"]
    assert not any(callable(getattr(TokenIds, name)) and "wire" in name for name in dir(TokenIds))
