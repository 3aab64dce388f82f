"""What a gateway says of its models in a shared store is taken back when it ends, whatever it was doing then."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from smg_core import Config
from smg_core.batches.served_elsewhere import ServedElsewhere
from smg_core.clock import SystemClock
from smg_core.history.memory.store import MemoryStore
from smg_core.history.settings import HistoryConfig
from smg_core.history.store.base import KEYS_OWNER, SERVED_MODELS

pytestmark = pytest.mark.anyio


class Held(MemoryStore):
    """A store that has written before it answers, as another machine has: the answer waits until it is let go."""

    def __init__(self) -> None:
        sizes = {"most_links": 10, "most_link_bytes": 1 << 20, "most_page_bytes": 1 << 20}
        super().__init__(SystemClock(), most_bytes=1 << 20, **sizes)
        self.written, self.let_go = asyncio.Event(), asyncio.Event()

    async def write(self, *arguments: Any, **more: Any) -> Any:
        done = await super().write(*arguments, **more)
        self.written.set()
        await self.let_go.wait()
        return done


def told_by(store: MemoryStore) -> ServedElsewhere:
    live = SimpleNamespace(config=Config(history=HistoryConfig(url="sqlite:////shared.db")))
    services: Any = SimpleNamespace(
        live=live, models={"m": None}, running=SimpleNamespace(history=store), clock=SystemClock()
    )
    return ServedElsewhere(services, "one")


async def said(store: MemoryStore) -> list[str]:
    return [each.id for each in (await store.records(KEYS_OWNER, SERVED_MODELS, limit=10)).data]


@pytest.mark.parametrize("cut", [False, True], ids=["after it was said", "while it is said"])
async def test_nothing_is_left_of_what_a_gateway_said_of_its_models(cut: bool) -> None:
    store = Held()
    elsewhere = told_by(store)
    telling = asyncio.create_task(elsewhere.tell())
    await store.written.wait()
    assert await said(store) == ["one"]
    if cut:
        telling.cancel()
    store.let_go.set()
    await asyncio.gather(telling, return_exceptions=True)
    await elsewhere.forget()
    assert await said(store) == []


async def test_what_was_cut_off_is_said_again() -> None:
    store = Held()
    elsewhere = told_by(store)
    telling = asyncio.create_task(elsewhere.tell())
    await store.written.wait()
    telling.cancel()
    await asyncio.gather(telling, return_exceptions=True)
    store.written.clear()
    store.let_go.set()
    await elsewhere.tell()
    assert store.written.is_set()
    store.written.clear()
    await elsewhere.tell()  # nothing has changed since
    assert not store.written.is_set()
