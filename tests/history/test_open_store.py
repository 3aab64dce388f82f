"""A program opens a store by its URL, and it is closed behind it."""

from pathlib import Path

import pytest

from smg_core.history import HistoryConfig, NotKept, PutRecord, StoredRecord, open_store
from smg_core.settings import ConfigError

pytestmark = pytest.mark.anyio
NOTE = StoredRecord(kind="note", id="n-1", body=b"{}", created_at=1.0)


@pytest.mark.full
async def test_what_was_put_is_there_when_the_store_is_opened_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/notes.db"
    async with open_store(url) as store:
        await store.write("acme", [PutRecord(NOTE)])
    async with open_store(url) as store:
        page = await store.records("acme", "note")

    assert [each.body for each in page.data] == [b"{}"]


async def test_the_rules_of_the_settings_hold() -> None:
    async with open_store("memory:", HistoryConfig(zero_retention=("acme",))) as store:
        with pytest.raises(NotKept):
            await store.write("acme", [PutRecord(NOTE)])


async def test_a_store_is_closed_also_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []
    from smg_core.history.guard import GuardedStore

    monkeypatch.setattr(GuardedStore, "close", lambda self: _note(closed))
    with pytest.raises(KeyError):
        async with open_store("memory:"):
            raise KeyError

    assert closed == [True]


async def _note(closed: list[bool]) -> None:
    closed.append(True)


async def test_a_url_of_no_store_is_refused() -> None:
    with pytest.raises(ConfigError, match="no store for mysql"):
        async with open_store("mysql://host/db"):
            pass
