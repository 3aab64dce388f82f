"""Gateways of one user that were not told where their history is: each has its own, which it has again after a restart."""

import asyncio
import os
import signal
import socket
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote, unquote

import httpx
import pytest
from tests.gateway.conftest import eventually
from tests.gateway.test_serve import Served, begun, read, ready, start
from tests.shared import PATIENCE

from smg_core import Config, Gateway
from smg_core.apis import PERMISSIONS
from smg_core.config.check import check
from smg_core.history.settings import HistoryConfig
from smg_core.http.settings import ServerConfig
from smg_core.settings import ConfigError
from smg_core.stored.default_store import DefaultStore, gateway_name
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

SLOW = SimulatorConfig(rules=(Rule((), Reply("A long answer, word by word. " * 20)),), timing=Timing(decode_rate=2))
BRISK = ("--responses-lease-s", "2", "--responses-poll-s", "0.05", "--batches-poll-s", "0.05")


@pytest.fixture
def ports() -> tuple[int, int]:
    """Two that are free."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        return one.getsockname()[1], other.getsockname()[1]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The folder of all gateways."""
    return tmp_path / "my %41 state?" / "smg-gateway"


@asynccontextmanager
async def served(
    state: Path, port: int, *arguments: str, engine: SimulatorConfig | None = None
) -> AsyncIterator[Served]:
    async with SimulatedEngine(engine or SimulatorConfig()) as simulated:
        given = ("--worker", simulated.target, "--port", str(port), *BRISK, *arguments)
        async with begun(simulated, *given, env={"XDG_STATE_HOME": str(state.parent)}) as gateway:
            gateway.http.headers["connection"] = "close"  # nothing that a process would wait for when it leaves
            yield gateway


async def kept(http: httpx.AsyncClient, **fields: object) -> str:
    """The id of a new response."""
    answer = await http.post("/v1/responses", json={"model": "sim", "input": "Hello", **fields})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


async def shows(http: httpx.AsyncClient, id: str) -> bool:
    return (await http.get(f"/v1/responses/{id}")).status_code == 200


async def stop(gateway: Served) -> None:
    gateway.process.send_signal(signal.SIGTERM)
    assert await gateway.ended() == 0


async def old_response(state: Path) -> str:
    """A response in the file that versions before had for all gateways."""
    state.mkdir(parents=True)
    history = HistoryConfig(url=f"sqlite:///{quote(str(state))}/history.db")
    async with Gateway.simulated(config=Config(history=history)) as gateway:
        await gateway.ready()
        async with gateway.http_client(httpx, base_url="http://gateway") as http:
            return await kept(http)


def where(gateway: Served) -> str:
    return next(line.partition(" is in ")[2] for line in gateway.log if "the history of" in line and " is in " in line)


# ------------------------------------------------------------------------------------------------------------- processes


@pytest.mark.full
async def test_two_gateways_share_nothing_and_each_has_its_own_again_after_a_restart(
    state: Path, ports: tuple[int, int]
) -> None:
    old = await old_response(state)
    first, second = ports
    async with served(state, first) as a, served(state, second) as b:
        of_a, of_b = await kept(a.http), await kept(b.http)
        assert [await shows(a.http, id) for id in (old, of_a, of_b)] == [True, True, False]
        assert [await shows(b.http, id) for id in (old, of_a, of_b)] == [False, False, True]
        assert where(a) == str(state / "history.db") != where(b)
        assert a.told("belongs to")
        assert not b.told("belongs to")
        a.process.kill()
        await stop(b)
    own, other = (f"gateway-127.0.0.1_3a{port}" for port in ports)
    assert {each.name for each in state.iterdir() if each.is_dir()} == {own, other}
    assert [*(state / own).iterdir()] == [state / own / "lock"]  # what it has is the file for all
    async with served(state, second) as b, served(state, first) as a:  # in the other order
        assert [await shows(a.http, id) for id in (old, of_a, of_b)] == [True, True, False]
        assert [await shows(b.http, id) for id in (old, of_a, of_b)] == [False, False, True]


@pytest.mark.slow
async def test_work_in_the_background_is_that_of_its_gateway(state: Path, ports: tuple[int, int]) -> None:
    async with served(state, ports[0], engine=SLOW) as a:
        id = await kept(a.http, background=True)
        await eventually(lambda: a.engine.requests)
        a.process.kill()
    async with served(state, ports[1]) as b:
        own = await kept(b.http, background=True)
        await until_completed(b.http, own)
        assert len(b.engine.requests) == 1
        assert not await shows(b.http, id)
    async with served(state, ports[0]) as a:
        await until_completed(a.http, id)
        assert not await shows(a.http, own)


async def until_completed(http: httpx.AsyncClient, id: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await http.get(f"/v1/responses/{id}")).json()["status"] != "completed":
            await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_processes_of_one_supervisor_have_one_store_and_so_have_those_that_replace_them(
    state: Path, ports: tuple[int, int]
) -> None:
    async with served(state, ports[0], "--processes", "2") as a:
        id = await kept(a.http)
        before = children(a)
        a.process.send_signal(signal.SIGHUP)
        await eventually(lambda: a.told("go on with the history in"))
        await eventually(lambda: len(children(a)) == 2 and not children(a) & before)
        await ready(a.http)
        later = await kept(a.http)
        assert await shows(a.http, id)
        for pid in (a.process.pid, *map(int, children(a))):  # the supervisor first
            os.kill(pid, signal.SIGKILL)
        await a.process.wait()
        await eventually(lambda: not listening(ports[0]))
    async with served(state, ports[0]) as a:
        assert await shows(a.http, id)
        assert await shows(a.http, later)


def children(gateway: Served) -> set[str]:
    pid = gateway.process.pid
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {each for each in found if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()}


def listening(port: int) -> bool:
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            free.bind(("127.0.0.1", port))
        except OSError:
            return True
        return False


@pytest.mark.slow
async def test_a_name_is_that_of_one_gateway_at_a_time_wherever_it_listens(state: Path, ports: tuple[int, int]) -> None:
    async with served(state, ports[0], "--name", "Blue") as a:
        id = await kept(a.http)
        environment = {"XDG_STATE_HOME": str(state.parent)}
        process = await start("--worker", a.engine.target, "--port", str(ports[1]), "--name", "blue", env=environment)
        log: list[str] = []
        await read(process, log)
        assert await process.wait() == 1
        assert [line for line in log if "the history of the gateway blue is in use by another" in line]
        await stop(a)
    async with served(state, ports[1], "--name", "blue") as a:
        assert await shows(a.http, id)


@pytest.mark.slow
async def test_a_gateway_on_a_free_port_without_a_name_keeps_its_history_while_it_runs(state: Path) -> None:
    async with served(state, 0, "--processes", "2") as a, served(state, 0) as b:
        of_a, of_b = await kept(a.http), await kept(b.http)
        assert [await shows(a.http, of_a), await shows(a.http, of_b)] == [True, False]
        assert [await shows(b.http, of_a), await shows(b.http, of_b)] == [False, True]
        assert len([*state.glob("*/history.db")]) == 2
        await stop(a)
        assert len([*state.glob("*/history.db")]) == 1
        b.process.kill()
        await b.process.wait()
    async with served(state, 0) as c:
        assert not await shows(c.http, of_b)
        assert len([*state.glob("*/history.db")]) == 1  # that of the killed one was swept


async def test_gateways_in_python_keep_nothing_below_the_state_folder(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(state.parent))
    async with (
        Gateway.simulated() as a,
        SimulatedEngine(SimulatorConfig()) as engine,
        Gateway([engine.target]) as b,
        a.http_client(httpx, base_url="http://gateway") as of_a,
        b.http_client(httpx, base_url="http://gateway") as of_b,
    ):
        id = await kept(of_a)
        assert (await shows(of_a, id), await shows(of_b, id)) == (True, False)
    assert not state.exists()


# ------------------------------------------------------------------------------------------------------------- the choice


@pytest.fixture
def store(state: Path):
    """Makes the default store of a name, and lets go of all at the end."""
    made: list[DefaultStore] = []

    def make(name: str) -> DefaultStore:
        made.append(DefaultStore(name, {"XDG_STATE_HOME": str(state.parent)}))
        return made[-1]

    make.made = made
    yield make
    for each in made:
        each.close()


def url_of(store: DefaultStore) -> str:
    return unquote(str(store.filled_in(Config()).history.url))


def old_file(state: Path) -> sqlite3.Connection:
    state.mkdir(parents=True)
    connection = sqlite3.connect(state / "history.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE something (x)")
    return connection


async def test_the_old_file_goes_once_to_the_first_name_that_is_started(state: Path, store) -> None:
    old_file(state).close()
    first, second = store("a"), store("b")
    old = f"sqlite:///{state}/history.db"
    assert (url_of(first), url_of(first)) == (old, old)
    assert url_of(second) == f"sqlite:///{state}/gateway-b/history.db"
    first.close()
    second.close()
    assert url_of(store("b")) == f"sqlite:///{state}/gateway-b/history.db"
    assert url_of(store("a")) == old


async def test_a_name_is_that_of_one_gateway_that_runs(state: Path, store) -> None:
    url = url_of(store("a"))
    with pytest.raises(ConfigError, match="the history of the gateway a is in use by another"):
        store("a").filled_in(Config())
    assert store("a").filled_in(Config(history=HistoryConfig(url="memory:"))).history.url == "memory:"
    store.made[0].close()
    assert url_of(store("a")) == url


async def test_the_old_file_is_left_to_a_process_of_an_older_version_that_uses_it(state: Path, store) -> None:
    running = old_file(state)
    assert url_of(store("a")) == f"sqlite:///{state}/gateway-a/history.db"
    running.close()
    assert url_of(store("b")) == f"sqlite:///{state}/history.db"
    assert url_of(store("c")) == f"sqlite:///{state}/gateway-c/history.db"


async def test_who_has_a_file_of_its_own_does_not_take_over_an_old_one(state: Path, store) -> None:
    first = store("a")
    own = url_of(first)
    first.close()
    with sqlite3.connect(state / "history.db"):
        assert url_of(store("a")) == own


@pytest.mark.sampled(keep=5)
@pytest.mark.parametrize("name", ["..", "../../etc", "a/b", "a%2Fb", "127.0.0.1:8000", "with space", "?x=1", "."])
async def test_every_name_has_a_file_of_its_own_in_the_folder_of_all(state: Path, store, name: str) -> None:
    check(Config(history=HistoryConfig(gateway=name)), PERMISSIONS)
    named, other = str(store(name).filled_in(Config()).history.url), url_of(store("a-b"))
    file = Path(unquote(named.removeprefix("sqlite:///")))
    assert named != other
    assert file.parent.parent == state
    config = Config(history=HistoryConfig(url=named))
    async with Gateway.simulated(config=config):  # what the URL names is the file
        assert file.stat().st_size > 0


@pytest.mark.parametrize("name", ["", "ü", "a\nb", "x" * 65])
async def test_a_name_that_cannot_be_one_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"history\.gateway: expected 1 to 64"):
        check(Config(history=HistoryConfig(gateway=name)), PERMISSIONS)


async def test_the_name_is_the_one_that_is_set_or_else_the_address() -> None:
    assert gateway_name(Config(server=ServerConfig(port=0), history=HistoryConfig(gateway="Blue"))) == "blue"
    assert gateway_name(Config(server=ServerConfig(host="::1", port=80))) == "::1:80"
    assert gateway_name(Config(server=ServerConfig(port=0))) == ""
