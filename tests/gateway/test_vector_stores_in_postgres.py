"""Vector stores beside a history in PostgreSQL: several gateways share them, and what a killed one leaves is done by another."""

import asyncio
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.gateway.conftest import House, over_http
from tests.gateway.test_batches import process
from tests.gateway.test_vector_stores import BREAD, LAMP, POLL, VECTORS, by_name, filed, sdk, store_of, story, texts
from tests.shared import PATIENCE

from smg_core import Config
from smg_core.history.settings import HistoryConfig
from smg_core.http.file_settings import FilesConfig
from smg_core.vector_stores.settings import VectorStoresConfig
from smg_core.vector_stores.work import VectorStoreWork
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = [pytest.mark.anyio, pytest.mark.full]  # they start a PostgreSQL

NUMBERS = count()


async def gateways(stack: AsyncExitStack, url: str, folder: Path, many: int, **stores: Any) -> list[House]:
    """So many gateways that share a history."""
    history = HistoryConfig(url=url, prefix=f"g{next(NUMBERS)}_")
    config = Config(
        history=history, vector_stores=VectorStoresConfig(**stores), files=FilesConfig(folder=str(folder / "files"))
    )
    return [await stack.enter_async_context(over_http(VECTORS, config=config, identity=by_name)) for _ in range(many)]


async def test_what_one_gateway_indexes_another_finds_filters_and_deletes(postgresql: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        one, two = await gateways(stack, postgresql, tmp_path, 2, model="sim")
        async with sdk(one, "acme") as client, sdk(two, "acme") as other, sdk(two, "other") as stranger:
            store = await store_of(client, LAMP, BREAD)

            raw = await other.vector_stores.with_raw_response.search(store, query=LAMP.decode())

            assert raw.headers["x-smg-search"] == "hybrid"
            first = raw.parse().data[0]
            assert (first.filename, first.score) == ("0.txt", 1.0)
            kept = await other.vector_stores.retrieve(store)
            assert kept.usage_bytes == len(LAMP) + len(BREAD) + 2 * 2 * 8
            content = await other.vector_stores.files.content(first.file_id, vector_store_id=store)
            assert [each.text for each in content.data] == [LAMP.decode()]
            await client.vector_stores.files.update(first.file_id, vector_store_id=store, attributes={"year": 1901})
            of_1901: Any = {"type": "eq", "key": "year", "value": 1901}
            assert await texts(other, store, "bread lamp", filters=of_1901) == [LAMP.decode()]
            with pytest.raises(openai.NotFoundError, match="No such"):
                await stranger.vector_stores.search(store, query="lamp")
            await other.vector_stores.files.delete(first.file_id, vector_store_id=store)
            assert await texts(client, store, "lamp", ranking_options={"hybrid_search": WORDS}) == []  # type: ignore[typeddict-item]
            await client.vector_stores.delete(store)
            indexes = (await VectorStoreWork.of(one.gateway.services)._loaded()).indexes
            async with asyncio.timeout(PATIENCE):
                while await indexes.names():
                    await asyncio.sleep(0.01)


WORDS: Any = {"embedding_weight": 0, "text_weight": 1}


async def test_indexes_of_a_tenant_that_was_erased_are_swept(postgresql: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        (house,) = await gateways(stack, postgresql, tmp_path, 1)
        async with sdk(house, "gone") as client, sdk(house, "stays") as other:
            await store_of(client, LAMP)
            left = await store_of(other, LAMP)
            await house.gateway.services.running.history.erase("gone")
            rooms = await VectorStoreWork.of(house.gateway.services)._loaded()
            await rooms.queue.sweep()
            assert [each.store for each in await rooms.indexes.names()] == [left]


async def test_after_kill_9_another_process_indexes_every_file_and_none_is_found_twice(
    postgresql: str, tmp_path: Path
) -> None:
    files, most = 6, ("--vector-stores-model", "sim", "--files-folder", str(tmp_path / "files"))
    prefix = ("--history-prefix", f"g{next(NUMBERS)}_")
    async with SimulatedEngine(VECTORS) as engine, process(engine, postgresql, *most, *prefix) as (running, url):
        async with openai.AsyncOpenAI(api_key="x", base_url=f"{url}/v1", max_retries=0) as client:
            store = (await client.vector_stores.create()).id
            ids = [await filed(client, story(number)) for number in range(files)]
            batch = await client.vector_stores.file_batches.create(store, file_ids=ids)
            while not (await client.vector_stores.retrieve(store)).file_counts.completed:
                await asyncio.sleep(0.02)
        running.kill()
        await running.wait()
        async with (
            process(engine, postgresql, *most, *prefix) as (_, url),
            openai.AsyncOpenAI(api_key="x", base_url=f"{url}/v1", max_retries=0) as client,
        ):
            done = await client.vector_stores.file_batches.poll(batch.id, vector_store_id=store, poll_interval_ms=POLL)
            found = await client.vector_stores.search(store, query="chapter number0", max_num_results=50)
            whole = [each async for each in client.vector_stores.files.list(store)]
    assert (done.file_counts.completed, done.file_counts.total) == (files, files)
    assert len({each.usage_bytes for each in whole}) == 1
    places = [(each.file_id, each.content[0].text) for each in found.data]
    assert len(places) == len(set(places))
