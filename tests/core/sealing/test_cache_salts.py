"""The salts that part engines' caches by tenant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.models.sealing_keys import cache_salts, with_cache_secret
from smg_core.sealing.cache_salts import CacheSalts
from smg_core.sealing.settings import SealingConfig
from smg_core.settings import ConfigError

SECRET = "0123456789abcdef0123456789abcdef"
names = st.text(min_size=1, max_size=12)
own = st.none() | st.text(max_size=12)


@given(names, own, names, own)
def test_two_tenants_never_have_one_salt_whatever_their_clients_send(
    tenant: str, first: str | None, other: str, second: str | None
) -> None:
    salts = CacheSalts(SECRET.encode())
    same = tenant == other and (first or "") == (second or "")

    assert (salts.of(tenant, first) == salts.of(other, second)) == same


@given(names, own)
def test_a_salt_says_nothing_of_its_tenant_without_the_secret(tenant: str, sent: str | None) -> None:
    salt = CacheSalts(SECRET.encode()).of(tenant, sent)

    assert salt is not None
    assert len(salt) == 32
    assert salt != CacheSalts(b"another secret").of(tenant, sent)


@given(own)
def test_without_a_tenant_the_salt_is_the_clients(sent: str | None) -> None:
    assert CacheSalts(SECRET.encode()).of("", sent) == sent


def test_a_secret_is_the_settings_or_drawn_once_for_all_processes_of_a_start() -> None:
    assert cache_salts(SealingConfig(cache_secret=SECRET)) == CacheSalts(SECRET.encode())
    assert cache_salts(SealingConfig()) != cache_salts(SealingConfig())
    drawn = with_cache_secret(SealingConfig())
    assert cache_salts(drawn) == cache_salts(with_cache_secret(drawn))
    assert with_cache_secret(SealingConfig()) != drawn
    assert "secret" not in repr(cache_salts(drawn))


def test_a_secret_that_could_be_guessed_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"sealing\.cache_secret"):
        cache_salts(SealingConfig(cache_secret="short"))
