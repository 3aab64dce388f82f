"""Vector stores by the official SDK: files are indexed in the background and found, tenant by tenant and within bounds."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from tests.gateway.conftest import House, over_http

from smg_core import Config
from smg_core.auth.base import Head
from smg_core.history.settings import HistoryConfig
from smg_core.request import Caller
from smg_core.vector_stores.settings import VectorStoresConfig
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

VECTORS = SimulatorConfig(generation_model=False, embedding_size=8)
LAMP = b"The keeper of the lighthouse trims the lamp before dusk."
BREAD = b"Bread is baked in the village every morning."
POLL = 20  # milliseconds


async def by_name(head: Head) -> Caller | None:
    """The tenant is the credential."""
    return None if head.credential is None else Caller(head.credential.text, head.credential.text)


@asynccontextmanager
async def houses(simulator: SimulatorConfig | None = None, history: str = "", **stores: Any) -> AsyncIterator[House]:
    config = Config(
        vector_stores=VectorStoresConfig(**stores), history=HistoryConfig(url=history) if history else HistoryConfig()
    )
    async with over_http(simulator, config=config, identity=by_name) as house:
        yield house


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with houses() as house:
        yield house


@asynccontextmanager
async def sdk(house: House, tenant: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(api_key=tenant, base_url=f"{house.url}/v1", max_retries=0) as client:
        yield client


async def filed(client: openai.AsyncOpenAI, data: bytes, name: str = "a.txt") -> str:
    return (await client.files.create(file=(name, data), purpose="assistants")).id


async def store_of(client: openai.AsyncOpenAI, *texts: bytes, **fields: Any) -> str:
    """A store with these texts, indexed."""
    store = await client.vector_stores.create(**fields)
    for place, text in enumerate(texts):
        file = await client.vector_stores.files.upload_and_poll(
            vector_store_id=store.id, file=(f"{place}.txt", text), poll_interval_ms=POLL
        )
        assert file.status == "completed", file.last_error
    return store.id


async def texts(client: openai.AsyncOpenAI, store: str, query: Any, **fields: Any) -> list[str]:
    found = await client.vector_stores.search(store, query=query, **fields)
    return [part.text for each in found.data for part in each.content]


async def test_a_file_is_added_polled_and_found_by_its_words(house: House) -> None:
    async with sdk(house, "found") as client:
        store = await store_of(client, LAMP, BREAD, name="notes", metadata={"kind": "notes"})

        answer = await client.vector_stores.with_raw_response.search(store, query="Who trims the lamps?")

        found = answer.parse().data
        assert [part.text for part in found[0].content] == [LAMP.decode()]
        assert found[0].filename == "0.txt"
        assert 0 < found[0].score <= 1
        assert answer.headers["x-smg-search"] == "words; reason=no-model"
        kept = await client.vector_stores.retrieve(store)
        assert (kept.status, kept.file_counts.completed, kept.file_counts.total) == ("completed", 2, 2)
        assert kept.usage_bytes == len(LAMP) + len(BREAD)
        assert kept.metadata == {"kind": "notes"}
