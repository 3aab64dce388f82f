"""How vectors are written."""

from array import array
from base64 import b64decode

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.apis.pooling.vectors import as_base64, as_bits, as_floats, shortened_vector

VECTORS = st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=70).map(lambda values: array("f", values))


@given(VECTORS)
def test_base64_is_little_endian_float32_as_numpy_reads_it(vector):
    assert np.frombuffer(b64decode(as_base64(vector)), dtype="<f4").tolist() == as_floats(vector)


@given(VECTORS)
def test_bits_are_those_of_numpy(vector):
    packed = np.packbits(np.array(vector) > 0)
    assert as_bits(vector, signed=False) == packed.tolist()
    assert as_bits(vector, signed=True) == (packed.astype(int) - 128).tolist()


@given(VECTORS, st.integers(1, 80))
def test_a_shortened_vector_has_the_first_numbers_and_the_length_one(vector, dimensions):
    found = shortened_vector(vector, dimensions)
    if dimensions >= len(vector):
        assert found is vector
        return
    kept = np.array(vector[:dimensions], dtype=float)
    length = np.linalg.norm(kept)
    assert len(found) == dimensions
    if length:
        assert np.allclose(found, kept / length, atol=1e-6)
    else:
        assert list(found) == pytest.approx(list(kept))
