"""Values of Google's APIs, as clients and Google's own libraries write them."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.apis.google.values import inline_address


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("padded", [True, False])
@given(st.binary(max_size=40))
def test_media_of_either_alphabet_are_an_address_that_everybody_reads(
    encode: object, padded: bool, data: bytes
) -> None:
    text = encode(data).decode()  # type: ignore[operator]

    url = inline_address("image/png", text if padded else text.rstrip("="))

    head, _, rest = url.partition(",")
    assert head == "data:image/png;base64"
    assert base64.b64decode(rest, validate=True) == data
