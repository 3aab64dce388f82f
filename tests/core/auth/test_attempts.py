"""Failed attempts are limited."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.auth.attempts import Attempts, network_of
from smg_core.errors import RateLimited


def attempts(alike: int = 3, in_all: int = 5, most: int = 100) -> Attempts:
    return Attempts(alike, in_all, window=60.0, most=most)


def test_an_address_may_fail_so_often_with_credentials_that_begin_alike() -> None:
    found = attempts()
    for guess in range(3):
        found.check("10.0.0.1", f"sk-abcdefghijk{guess}", 0.0)
        found.failed("10.0.0.1", f"sk-abcdefghijk{guess}", 0.0)

    with pytest.raises(RateLimited) as refused:
        found.check("10.0.0.1", "sk-abcdefghijk9", 1.0)
    assert refused.value.retry_after == 59.0
    found.check("10.0.0.1", "another", 1.0)
    found.check("10.0.0.2", "sk-abcdefghijk9", 1.0)
    found.check("10.0.0.1", "sk-abcdefghijk9", 60.0)


def test_an_address_may_fail_so_often_with_any() -> None:
    found = attempts()
    for guess in range(5):
        found.failed("10.0.0.1", f"{guess}", 0.0)

    with pytest.raises(RateLimited):
        found.check("10.0.0.1", "new", 0.0)


def test_addresses_of_one_ipv6_network_are_one() -> None:
    found = attempts()
    for host in range(5):
        found.failed(f"2001:db8::{host + 1:x}", f"{host}", 0.0)

    with pytest.raises(RateLimited):
        found.check("2001:db8::ffff", "new", 0.0)
    found.check("2001:db8:0:1::1", "new", 0.0)


@pytest.mark.parametrize(
    ("address", "network"),
    [("10.0.0.1", "10.0.0.1"), ("::ffff:10.0.0.1", "10.0.0.1"), ("fe80::1%eth0", "fe80000000000000"), ("a:b", "a:b")],
)
def test_an_address_has_a_network(address: str, network: str) -> None:
    assert network_of(address) == network


def test_who_has_no_address_is_not_counted() -> None:
    found = attempts()
    for _ in range(10):
        found.failed("", "guess", 0.0)

    found.check("", "guess", 0.0)
    assert len(found) == 0


@given(st.lists(st.tuples(st.integers(0, 1000), st.text(max_size=20), st.floats(0, 1e6)), max_size=200))
def test_what_is_remembered_is_bounded(failures: list[tuple[int, str, float]]) -> None:
    found = attempts(most=10)
    for address, credential, now in failures:
        found.failed(str(address), credential, now)

    assert len(found) <= 20
