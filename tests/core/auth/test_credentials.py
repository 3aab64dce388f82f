"""The one credential of a request."""

import hashlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.auth.credentials import Credential
from smg_core.auth.credentials import presented as presented_in
from smg_core.errors import AuthenticationFailed

KEY = "sk-0123456789abcdef"


def presented(pairs: list[tuple[bytes, bytes]], in_query: Sequence[str] = ()) -> Credential | None:
    """As an exchange asks."""
    return presented_in({name.decode("latin-1"): value.decode("latin-1") for name, value in pairs}, pairs, in_query)


@pytest.mark.parametrize(
    "header",
    [
        (b"authorization", b"Bearer " + KEY.encode()),
        (b"authorization", b"bearer   " + KEY.encode() + b" "),
        (b"x-api-key", KEY.encode()),
        (b"x-goog-api-key", KEY.encode()),
    ],
)
def test_each_carrier_is_read(header: tuple[bytes, bytes]) -> None:
    found = presented([(b"host", b"x"), header])

    assert found is not None
    assert found.text == KEY
    assert found.digest == hashlib.sha256(KEY.encode()).digest()
    assert KEY not in repr(found)


def test_the_key_of_the_query_is_read() -> None:
    found = presented([], [KEY])

    assert found is not None
    assert found.text == KEY


@pytest.mark.parametrize(
    "headers", [[], [(b"authorization", b"")], [(b"authorization", b"Bearer ")], [(b"x-api-key", b"")]]
)
def test_without_a_credential_there_is_none(headers: list[tuple[bytes, bytes]]) -> None:
    assert presented(headers) is None


def test_the_same_credential_in_two_carriers_is_one() -> None:
    found = presented([(b"authorization", b"Bearer " + KEY.encode()), (b"x-api-key", KEY.encode())])

    assert found is not None
    assert found.text == KEY


REFUSED = {
    "a header twice": [(b"authorization", b"Bearer a"), (b"authorization", b"Bearer a")],
    "a header twice, the second empty": [(b"x-api-key", b"a"), (b"x-api-key", b"")],
    "two carriers that differ": [(b"authorization", b"Bearer a"), (b"x-api-key", b"b")],
    "another scheme": [(b"authorization", b"Basic YTpi")],
    "no scheme": [(b"authorization", KEY.encode())],
    "two words": [(b"authorization", b"Bearer a b")],
    "a NUL": [(b"x-api-key", b"sk-\x00a")],
    "a letter beyond ASCII": [(b"x-api-key", "sk-ä".encode())],
    "a control character": [(b"x-api-key", b"sk-\x7f")],
    "two lines": [(b"x-api-key", b"a\r\nx: b")],
    "a blank beyond ASCII behind it": [(b"x-api-key", KEY.encode() + b"\xa0")],
    "a next line before it": [(b"x-goog-api-key", b"\x85" + KEY.encode())],
    "a blank beyond ASCII behind the scheme": [(b"authorization", b"Bearer \xa0" + KEY.encode())],
    "a control character around it": [(b"authorization", b"bearer " + KEY.encode() + b"\x1c")],
}


@pytest.mark.parametrize("headers", REFUSED.values(), ids=REFUSED)
def test_what_can_be_read_in_two_ways_is_refused(headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(AuthenticationFailed):
        presented(headers)


def test_a_key_twice_in_the_query_is_refused() -> None:
    with pytest.raises(AuthenticationFailed):
        presented([], ["a", "a"])


def test_a_key_in_the_query_that_differs_from_the_header_is_refused() -> None:
    with pytest.raises(AuthenticationFailed):
        presented([(b"x-goog-api-key", b"a")], ["b"])


HEADERS = st.lists(
    st.tuples(st.sampled_from([b"authorization", b"x-api-key", b"x-goog-api-key", b"host"]), st.binary(max_size=40))
)


@given(HEADERS, st.lists(st.text(max_size=20), max_size=3))
def test_whatever_is_sent_there_is_one_clean_credential_or_a_refusal(
    headers: list[tuple[bytes, bytes]], queried: list[str]
) -> None:
    try:
        found = presented(headers, queried)
    except AuthenticationFailed:
        return
    if found is not None:
        assert found.text.isascii()
        assert found.text.isprintable()
        assert found.text.split() == [found.text]
