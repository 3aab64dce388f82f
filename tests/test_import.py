"""What `import smg_core` costs: which modules it loads, and how many.

Modules are counted, not milliseconds: a machine may be slow, but it loads the same modules.
"""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "grpc",
    "numpy",
    "PIL",
    "jinja2",
    "uvicorn",
    "httpx",
    "httpx2",
    "tokenizers",
    "fastokens",
    "yaml",
    "asyncio",
    "google",
}
STORES = {"sqlalchemy", "alembic", "redis", "asyncpg", "oracledb"}
"""Loaded when the settings name such a store."""
# Most modules that a package may load beside what the interpreter loads itself. The parsers look for those that others
# have installed (importlib.metadata), which is most of theirs.
MOST_MODULES = {
    "smg_core": 60,
    "smg_parsers": 170,
    "smg_mcp": 60,
    "smg_multimodal": 60,
    "smg_config_files": 60,
    "smg_egress": 60,
    "smg_engine_contract": 60,
    "smg_simulator": 60,
}

OURS_OF_THE_FRONT_DOOR = {"Gateway": 12, "Config, Gateway, WorkerSpec": 105}
"""Most modules of ours, as measured (7 and 98) and a few more: the rooms are loaded when a gateway is made."""
HEAVY_OF_ROOMS = HEAVY - {"asyncio"}
WHAT_A_GATEWAY_IS_MADE_OF = {
    *("smg_core.gateway.assembly", "smg_core.pipeline.performers", "smg_core.apis.rows", "smg_core.fleet.roster"),
    *("smg_core.app.app", "smg_core.app.direct", "smg_core.app.inprocess", "smg_core.serving.explain"),
}

ROOMS_WITHOUT_ENGINES = [
    "smg_core.config.config",
    "smg_core.routing",
    "smg_core.workers",
    "smg_core.wire.base",
    "smg_core.errors",
]


def loaded_by(statement: str) -> set[str]:
    """Modules that a statement loads in a fresh interpreter."""
    code = f"import sys; before = set(sys.modules)\n{statement}\nprint('\\n'.join(set(sys.modules) - before))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(told.stdout.split())


@pytest.mark.parametrize("package", MOST_MODULES)
def test_importing_a_package_loads_nothing_heavy(package: str) -> None:
    loaded = loaded_by(f"import {package}")

    assert package in loaded
    assert {name.partition(".")[0] for name in loaded} & HEAVY == set()
    assert len(loaded) <= MOST_MODULES[package], sorted(loaded)


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("room", ROOMS_WITHOUT_ENGINES)
def test_a_room_that_decides_loads_no_engine_and_no_server(room: str) -> None:
    loaded = {name.partition(".")[0] for name in loaded_by(f"import {room}")}

    assert loaded & {"grpc", "google", "numpy", "PIL", "uvicorn", "httpx", "httpx2", "tokenizers"} == set()


@pytest.mark.parametrize(("names", "most"), OURS_OF_THE_FRONT_DOOR.items())
def test_the_class_that_users_import_loads_none_of_the_rooms(names: str, most: int) -> None:
    loaded = loaded_by(f"from smg_core import {names}")
    ours = {name for name in loaded if name.startswith("smg_")}

    assert "smg_core.gateway.gateway" in ours
    assert len(ours) <= most, sorted(ours)
    assert HEAVY_OF_ROOMS & {name.partition(".")[0] for name in loaded} == set()


@pytest.mark.full
def test_a_gateway_that_is_made_has_loaded_its_rooms_and_no_library_of_those_that_are_off() -> None:
    loaded = loaded_by("import smg_core; smg_core.Gateway(['grpc://a:1'])")

    assert loaded >= WHAT_A_GATEWAY_IS_MADE_OF
    assert {"PIL", "uvicorn", "grpc"} & {name.partition(".")[0] for name in loaded} == set()


CALLED = """
import asyncio, sys, threading
from smg_core import Gateway

class OnTheLoop:
    prefix = "smg_core.engines.codecs"
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is threading.main_thread() and name.startswith(self.prefix):
            print(name)

async def main():
    gateway = await asyncio.to_thread(Gateway.simulated)
    sys.meta_path.insert(0, OnTheLoop())
    async with gateway:
        OnTheLoop.prefix = "smg_core."
        asked = {"model": "sim", "messages": [{"role": "user", "content": "Hello"}]}
        await gateway.chat(asked)
        [_ async for _ in gateway.stream(asked)]
        await gateway.explain(asked)
        print("answered")

asyncio.run(main())
"""


@pytest.mark.full
def test_joining_engines_and_calls_load_nothing_on_the_event_loop_of_a_gateway_that_was_made_in_a_thread() -> None:
    called = subprocess.run([sys.executable, "-c", CALLED], capture_output=True, text=True, check=True)

    assert called.stdout.split() == ["answered"]


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"], ["config"], ["setup", "codex", "--help"]])
def test_a_command_that_serves_nothing_loads_what_it_needs(arguments: list[str]) -> None:
    quiet = "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):"
    command = f"import contextlib, io, smg_core.cli\n{quiet}\n    smg_core.cli.main({arguments})"
    loaded = {name.partition(".")[0] for name in loaded_by(command)}

    assert loaded & (HEAVY | {"cryptography", "email", *STORES}) == set()


@pytest.mark.full
def test_the_server_loads_no_client_and_no_store_before_one_is_used() -> None:
    loaded = {name.partition(".")[0] for name in loaded_by("import smg_core.processes.serve")}

    assert loaded & {"grpc", "google", "numpy", "PIL", "httpx", "httpx2", "tokenizers", *STORES} == set()


KEPT = """
import asyncio
from smg_core.history import PutRecord, StoredRecord, open_store

async def main():
    async with open_store({url!r}) as store:
        await store.write("acme", [PutRecord(StoredRecord(kind="note", id="n", body=b"1", created_at=0.0))])
        assert await store.record("acme", "note", "n")

asyncio.run(main())
"""


@pytest.mark.full
def test_a_history_in_sqlite_is_made_and_used_with_the_standard_library_alone(tmp_path: Path) -> None:
    loaded = loaded_by(KEPT.format(url=f"sqlite:///{tmp_path}/history.db"))

    assert "sqlite3" in loaded
    assert {name.partition(".")[0] for name in loaded} & {*STORES, "greenlet", "mako"} == set()


def test_the_parsers_load_the_standard_library_alone() -> None:
    loaded = loaded_by("import smg_parsers.families.models")

    assert {name.partition(".")[0] for name in loaded} - {"smg_parsers"} <= set(sys.stdlib_module_names)


HIDDEN = """
import importlib, pkgutil, sys
import mcp  # the package of the extra `mcp` loads fcntl itself, except on systems that have none
for name in ("fcntl", "resource", "uvloop"):
    sys.modules[name] = None
import smg_config_files, smg_core, smg_egress, smg_engine_contract, smg_mcp, smg_multimodal, smg_parsers, smg_simulator
for package in (smg_config_files, smg_core, smg_egress, smg_engine_contract, smg_mcp, smg_multimodal, smg_parsers, smg_simulator):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith(("__main__", "pytest_plugin")):
            importlib.import_module(module.name)
            print(module.name)
"""


@pytest.mark.full
def test_every_module_loads_where_fcntl_resource_and_uvloop_are_missing() -> None:
    told = subprocess.run([sys.executable, "-c", HIDDEN], capture_output=True, text=True, check=False)

    assert told.returncode == 0, told.stderr
    assert len(told.stdout.split()) > 200


@pytest.mark.full
def test_the_demo_runs_without_uvloop() -> None:
    code = "import sys; sys.modules['uvloop'] = None; from smg_core.cli import main; raise SystemExit(main(['demo']))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert told.returncode == 0, told.stderr
    assert "tokens in" in told.stdout
