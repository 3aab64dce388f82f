"""Pieces of a message become one, long ones some at a time."""

import tracemalloc
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from smg_core.engines.codecs import tensors
from smg_core.engines.codecs.tensors import concatenated


@given(st.lists(st.binary(max_size=50)), st.integers(1, 60))
def test_pieces_are_joined_in_order_whatever_is_copied_at_once(pieces: list[bytes], at_once: int) -> None:
    with patch.object(tensors, "_COPIED_AT_ONCE", at_once):
        assert concatenated([memoryview(piece) if at % 2 else piece for at, piece in enumerate(pieces)]) == b"".join(
            pieces
        )


def test_long_pieces_are_copied_once() -> None:
    pieces = [bytes(3 << 20), memoryview(bytes(5 << 20))]
    tracemalloc.start()
    try:
        whole = concatenated(pieces)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(whole) == 8 << 20
    assert peak < 1.4 * len(whole)
