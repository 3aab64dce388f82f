"""Vector stores by the official SDK: files are indexed in the background and found, tenant by tenant and within bounds."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from msgspec.structs import replace
from tests.gateway.conftest import House, over_http
from tests.gateway.test_batches import process
from tests.pdf_files import bomb, pdf
from tests.shared import PATIENCE

from smg_core import Config, disk_room
from smg_core.apis.rows import PERMISSIONS
from smg_core.auth.base import Head
from smg_core.config import ConfigError
from smg_core.config.check import check
from smg_core.history.settings import HistoryConfig
from smg_core.http.settings import BatchesConfig
from smg_core.request import Caller
from smg_core.retrieval.filters import read_filter
from smg_core.retrieval.searching import StoreUnknown
from smg_core.vector_stores.settings import VectorStoresConfig
from smg_core.vector_stores.work import VectorStoreWork
from smg_simulator.answers.faults import Fault
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

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


async def test_files_are_sent_several_at_once_as_the_sdk_does_unasked(house: House) -> None:
    async with sdk(house, "several") as client:
        store = await client.vector_stores.create()
        files: Any = [(f"{place}.txt", LAMP) for place in range(8)]
        made = await client.vector_stores.file_batches.upload_and_poll(store.id, files=files, poll_interval_ms=POLL)
        assert (made.status, made.file_counts.completed) == ("completed", 8)


@pytest.mark.full
async def test_with_a_model_vectors_are_made_of_texts_and_queries_and_results_are_of_both() -> None:
    async with houses(VECTORS, model="sim") as house, sdk(house, "acme") as client:
        store = await store_of(client, LAMP, BREAD)

        raw = await client.vector_stores.with_raw_response.search(store, query=LAMP.decode())

        assert raw.headers["x-smg-search"] == "hybrid"
        found = raw.parse().data
        assert (found[0].filename, found[0].score) == ("0.txt", 1.0)
        by_vectors = await client.vector_stores.search(store, query=BREAD.decode(), ranking_options={"ranker": "none"})
        assert (by_vectors.data[0].filename, by_vectors.data[0].score) == ("1.txt", 1.0)
        kept = await client.vector_stores.retrieve(store)
        assert kept.usage_bytes == len(LAMP) + len(BREAD) + 2 * 2 * 8
        words_alone: Any = {"hybrid_search": {"embedding_weight": 0, "text_weight": 1}}
        assert await texts(client, store, "nothing of it", ranking_options=words_alone) == []
        assert await texts(client, store, "lamp", ranking_options=words_alone) == [LAMP.decode()]


@pytest.mark.full
async def test_where_the_engine_fails_words_alone_are_looked_for_and_the_answer_says_so() -> None:
    async with houses(VECTORS, model="sim") as house, sdk(house, "acme") as client:
        store = await store_of(client, LAMP)
        house.engine.faults.set_rates({Fault("error"): 1.0})

        raw = await client.vector_stores.with_raw_response.search(store, query="lamp")

        assert raw.headers["x-smg-search"] == "words; reason=model-unavailable"
        assert [each.filename for each in raw.parse().data] == ["0.txt"]


async def test_files_are_listed_filtered_read_and_taken_out(house: House) -> None:
    async with sdk(house, "listed") as client:
        store = await store_of(client, LAMP, BREAD)
        first, second = [each.id async for each in client.vector_stores.files.list(store, order="asc", limit=1)]

        done = await client.vector_stores.files.list(store, filter="completed", order="desc")
        assert [each.id for each in done.data] == [second, first]
        assert (await client.vector_stores.files.list(store, filter="failed")).data == []
        before = await client.vector_stores.files.list(store, before=second, order="asc")
        assert [each.id for each in before.data] == [first]
        content = await client.vector_stores.files.content(first, vector_store_id=store)
        assert [each.text for each in content.data] == [LAMP.decode()]
        gone = await client.vector_stores.files.delete(first, vector_store_id=store)
        assert gone.deleted
        assert await texts(client, store, "lamp") == []
        assert (await client.vector_stores.retrieve(store)).file_counts.total == 1
        assert (await client.files.retrieve(first)).id == first


async def test_a_batch_is_polled_to_its_end_and_says_how_its_files_ended(house: House) -> None:
    async with sdk(house, "batches") as client:
        store = await client.vector_stores.create()
        good, bad = await filed(client, LAMP), await filed(client, b"\x00\xff\xfe binary")

        batch = await client.vector_stores.file_batches.create_and_poll(
            store.id, file_ids=[good, bad], attributes={"lot": 7}, poll_interval_ms=POLL
        )

        assert (batch.status, batch.file_counts.completed, batch.file_counts.failed) == ("completed", 1, 1)
        files = await client.vector_stores.file_batches.list_files(batch.id, vector_store_id=store.id)
        assert {each.id: each.status for each in files.data} == {good: "completed", bad: "failed"}
        failed = next(each for each in files.data if each.id == bad)
        assert failed.last_error is not None
        assert failed.last_error.code == "unsupported_file"
        assert failed.attributes == {"lot": 7}
        several = await client.vector_stores.file_batches.upload_and_poll(
            store.id, files=[("x.txt", BREAD), ("y.md", LAMP)], poll_interval_ms=POLL
        )
        assert several.file_counts.completed == 2
        own = [{"file_id": good, "attributes": {"lot": 8}}]
        again = await client.vector_stores.file_batches.create_and_poll(store.id, files=own, poll_interval_ms=POLL)  # type: ignore[arg-type]
        assert again.file_counts.total == 1
        file = await client.vector_stores.files.retrieve(good, vector_store_id=store.id)
        assert file.attributes == {"lot": 8}


async def test_filters_hold_for_attributes_as_they_are_now(house: House) -> None:
    async with sdk(house, "filters") as client:
        store = await store_of(client, LAMP, LAMP + b" Twice.")
        first, second = [each.id async for each in client.vector_stores.files.list(store, order="asc")]
        await client.vector_stores.files.update(first, vector_store_id=store, attributes={"year": 1901, "sort": "log"})
        await client.vector_stores.files.update(second, vector_store_id=store, attributes={"year": 1950, "sort": "log"})

        async def found(**filters: Any) -> set[str]:
            page = await client.vector_stores.search(store, query="lamp", filters=filters)  # type: ignore[arg-type]
            return {each.file_id for each in page.data}

        assert await found(type="gt", key="year", value=1910) == {second}
        both = [{"type": "eq", "key": "sort", "value": "log"}, {"type": "lt", "key": "year", "value": 1910}]
        assert await found(type="and", filters=both) == {first}
        assert await found(type="nin", key="year", value=[1901, 1950]) == set()
        page = await client.vector_stores.search(store, query="lamp")
        assert {each.file_id: each.attributes for each in page.data}[first] == {"year": 1901, "sort": "log"}


async def test_a_store_of_another_tenant_is_unknown_in_every_call(house: House) -> None:
    async with sdk(house, "mine") as mine, sdk(house, "yours") as yours:
        store = await store_of(mine, LAMP)
        (file,) = [each.id async for each in mine.vector_stores.files.list(store)]

        for call in (
            yours.vector_stores.retrieve(store),
            yours.vector_stores.update(store, name="x"),
            yours.vector_stores.delete(store),
            yours.vector_stores.search(store, query="lamp"),
            yours.vector_stores.files.list(store),
            yours.vector_stores.files.retrieve(file, vector_store_id=store),
            yours.vector_stores.files.content(file, vector_store_id=store),
            yours.vector_stores.files.delete(file, vector_store_id=store),
            yours.vector_stores.file_batches.retrieve("vsfb_1", vector_store_id=store),
        ):
            with pytest.raises(openai.NotFoundError) as refused:
                await call
            assert "No such" in refused.value.message
        own = await yours.vector_stores.create()
        with pytest.raises(openai.BadRequestError, match="No such File"):
            await yours.vector_stores.files.create(own.id, file_id=file)
        assert [each.id async for each in yours.vector_stores.list()] == [own.id]
        assert await texts(mine, store, "lamp") == [LAMP.decode()]


@pytest.mark.full
async def test_a_deleted_store_is_gone_with_its_index_and_its_files_stay(tmp_path: Path) -> None:
    async with houses(history=f"sqlite:///{tmp_path}/h.db") as house, sdk(house, "acme") as client:
        store = await store_of(client, LAMP)
        (file,) = [each.id async for each in client.vector_stores.files.list(store)]
        (index,) = (tmp_path / "h.db.search").glob(f"*/{store}.index")

        assert (await client.vector_stores.delete(store)).deleted

        async with asyncio.timeout(PATIENCE):
            while index.exists():
                await asyncio.sleep(0.01)
        with pytest.raises(openai.NotFoundError):
            await client.vector_stores.retrieve(store)
        assert (await client.files.retrieve(file)).id == file


@pytest.mark.full
async def test_a_store_that_is_deleted_while_a_file_is_put_in_leaves_nothing(tmp_path: Path) -> None:
    async with houses(history=f"sqlite:///{tmp_path}/h.db") as house, sdk(house, "acme") as client:
        store = (await client.vector_stores.create()).id
        file = await filed(client, story(0) * 8)
        await client.vector_stores.files.create(store, file_id=file)
        folder, work = tmp_path / "h.db.search", VectorStoreWork.of(house.gateway.services)
        rooms = await work._loaded()
        async with asyncio.timeout(PATIENCE):
            while not list(folder.glob(f"*/{store}.index")):
                await asyncio.sleep(0.01)
            await client.vector_stores.delete(store)
            while rooms.queue._runs or list(folder.glob(f"*/{store}.index*")):
                await asyncio.sleep(0.01)
        assert [each.store for each in await rooms.indexes.names()] == []
        assert (await client.files.retrieve(file)).id == file


async def test_a_file_that_is_deleted_is_not_found_any_more(house: House) -> None:
    async with sdk(house, "deleted") as client:
        store = await store_of(client, LAMP, LAMP + b" Again.")
        first, second = [each.id async for each in client.vector_stores.files.list(store, order="asc")]

        await client.files.delete(first)

        found = await client.vector_stores.search(store, query="lamp", max_num_results=1)
        assert [each.file_id for each in found.data] == [second]
        assert (await client.vector_stores.retrieve(store)).file_counts.total == 1


async def test_the_threshold_and_the_number_of_results_are_kept(house: House) -> None:
    async with sdk(house, "ranked") as client:
        store = await store_of(client, LAMP, LAMP + b" The lamp burns oil.", b"A lamp.")

        assert len(await texts(client, store, "lamp", max_num_results=2)) == 2
        scores = [each.score for each in (await client.vector_stores.search(store, query="lamp")).data]
        assert scores == sorted(scores, reverse=True)
        above = await texts(client, store, "lamp", ranking_options={"score_threshold": scores[1]})
        assert len(above) == 2


async def test_a_query_is_rewritten_where_that_is_asked_for_and_several_are_put_together(house: House) -> None:
    async with sdk(house, "queries") as client:
        store = await store_of(client, LAMP, BREAD)
        raw = await client.vector_stores.with_raw_response.search(
            store, query=["Could you tell me who trims the lamp?", "bread"], rewrite_query=True
        )

        assert raw.http_response.json()["search_query"] == ["trims lamp", "bread"]
        assert {each.filename for each in raw.parse().data} == {"0.txt", "1.txt"}


async def test_text_in_chinese_and_with_accents_is_found(house: House) -> None:
    async with sdk(house, "languages") as client:
        store = await store_of(
            client,
            "\u706f\u5854\u770b\u5b88\u4eba\u6bcf\u5929\u5199\u65e5\u8bb0\u3002".encode(),
            "Le gardien \u00e9crit.".encode("utf-16"),
        )

        assert len(await texts(client, store, "\u706f\u5854")) == 1
        assert len(await texts(client, store, "ecrit")) == 1
        assert await texts(client, store, "\u5854\u706f") == []


@pytest.mark.full
async def test_on_a_full_disk_files_wait_and_are_told_of_and_are_indexed_once_there_is_room(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = Config(batches=BatchesConfig(lease_s=0.5, poll_s=0.05))
    async with over_http(config=config, identity=by_name) as house, sdk(house, "acme") as client:
        store = await store_of(client, LAMP)
        later = await filed(client, BREAD)
        with monkeypatch.context() as full:
            full.setattr(disk_room, "_SPARE", 1 << 62)
            with pytest.raises(openai.InternalServerError, match="no room for this file"):
                await filed(client, BREAD)
            await client.vector_stores.files.create(store, file_id=later)
            async with asyncio.timeout(PATIENCE):
                while "files of vector stores wait to be indexed" not in caplog.text:
                    await asyncio.sleep(0.01)
            assert "No space left" in caplog.text
            assert (await client.vector_stores.files.retrieve(later, vector_store_id=store)).status == "in_progress"
            assert await texts(client, store, "lamp bread") == [LAMP.decode()]
            await client.files.delete(await _first(client, store))  # what makes room goes on
        file = await client.vector_stores.files.poll(later, vector_store_id=store, poll_interval_ms=POLL)
        assert file.status == "completed"
        assert await texts(client, store, "lamp bread") == [BREAD.decode()]


async def _first(client: openai.AsyncOpenAI, store: str) -> str:
    return (await client.vector_stores.files.list(store, order="asc")).data[0].id


@pytest.mark.full
async def test_a_pdf_is_read_and_a_bomb_fails_by_name(house: House) -> None:
    async with sdk(house, "pdf") as client:
        store = (await client.vector_stores.create()).id
        for data, status in ((pdf("The keeper writes."), "completed"), (bomb(76), "failed")):
            file = await client.vector_stores.files.upload_and_poll(
                vector_store_id=store, file=("a.pdf", data), poll_interval_ms=POLL
            )
            assert file.status == status, file.last_error
            if status == "failed":
                assert file.last_error is not None
                assert file.last_error.code == "invalid_file"
        assert len(await texts(client, store, "keeper")) == 1


async def test_a_store_is_changed_and_expires_and_says_so() -> None:
    async with houses() as house, sdk(house, "acme") as client:
        store = await store_of(client, LAMP, expires_after={"anchor": "last_active_at", "days": 1})
        changed = await client.vector_stores.update(store, name="new", metadata={"a": "b"})
        assert (changed.name, changed.metadata, changed.expires_after and changed.expires_after.days) == (
            "new",
            {"a": "b"},
            1,
        )
        work = VectorStoreWork.of(house.gateway.services)
        kept = (await work._loaded()).searcher._rooms.kept
        await kept.update(
            Caller("acme", "acme"), store, lambda each: replace(each, last_active_at=each.last_active_at - 2 * 86400)
        )

        assert (await client.vector_stores.retrieve(store)).status == "expired"
        with pytest.raises(openai.NotFoundError, match="has expired"):
            await client.vector_stores.search(store, query="lamp")
        with pytest.raises(StoreUnknown):
            await work.search(Caller("acme"), [store], ["lamp"])


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("", {"name": "x" * 300}, "name"),
    ("", {"name": 7}, "name"),
    ("", {"expires_after": {"anchor": "created_at", "days": 1}}, "expires_after.anchor"),
    ("", {"expires_after": {"anchor": "last_active_at", "days": 0}}, "expires_after.days"),
    ("", {"chunking_strategy": {"type": "other"}}, "chunking_strategy"),
    ("", {"file_ids": ["../etc/passwd"]}, "file_ids[0]"),
    ("", {"file_ids": ["file-none"]}, "file_ids[0]"),
    ("", {"colour": "red"}, "colour"),
    ("/search", {}, "query"),
    ("/search", {"query": ""}, "query"),
    ("/search", {"query": ["a"] * 17}, "query"),
    ("/search", {"query": "a", "max_num_results": 51}, "max_num_results"),
    ("/search", {"query": "a", "filters": {"type": "like", "key": "a", "value": "b"}}, "filters.type"),
    ("/search", {"query": "a", "filters": {"type": "and", "filters": []}}, "filters.filters"),
    ("/search", {"query": "a", "ranking_options": {"score_threshold": 2}}, "ranking_options.score_threshold"),
    ("/files", {"file_id": "nothing"}, "file_id"),
    ("/files", {"file_id": "file-a", "attributes": {"a": {"b": 1}}}, "attributes"),
    ("/files", {"file_id": "file-a", "attributes": {str(place): 1 for place in range(17)}}, "attributes"),
    ("/file_batches", {}, "file_ids"),
    ("/file_batches", {"file_ids": []}, "file_ids"),
    ("/file_batches", {"file_ids": ["file-a", "file_a"]}, "file_ids[1]"),
]


@pytest.mark.parametrize(("path", "body", "param"), BAD)
async def test_bad_input_is_refused_by_name(house: House, path: str, body: dict[str, Any], param: str) -> None:
    async with sdk(house, "bad") as client, httpx.AsyncClient(base_url=house.url, timeout=PATIENCE) as http:
        store = "" if not path else f"/{(await client.vector_stores.create()).id}"
        answer = await http.post(f"/v1/vector_stores{store}{path}", json=body, headers={"authorization": "Bearer bad"})

        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["param"].startswith(param), answer.text


@pytest.mark.full
async def test_bounds_of_stores_files_and_chunks_are_kept() -> None:
    async with houses(stores=1, files=1, chunks=100) as house, sdk(house, "acme") as client:
        store = (await client.vector_stores.create()).id
        with pytest.raises(openai.BadRequestError, match="delete some"):
            await client.vector_stores.create()
        large = await client.vector_stores.files.upload_and_poll(
            vector_store_id=store, file=("a.txt", b"one two three. " * 20_000), poll_interval_ms=POLL
        )
        assert large.last_error is not None
        assert "more than 100 chunks" in large.last_error.message
        with pytest.raises(openai.BadRequestError, match="1 files at most"):
            await client.vector_stores.files.create(store, file_id=await filed(client, LAMP))
        await client.vector_stores.files.delete(large.id, vector_store_id=store)
        assert len(await texts(client, await _with(client, store, LAMP), "lamp")) == 1


async def _with(client: openai.AsyncOpenAI, store: str, data: bytes) -> str:
    file = await client.vector_stores.files.upload_and_poll(
        vector_store_id=store, file=("b.txt", data), poll_interval_ms=POLL
    )
    assert file.status == "completed"
    return store


@pytest.mark.full
async def test_where_words_would_lie_open_beside_a_sealed_history_stores_are_refused() -> None:
    config = Config(history=HistoryConfig(keys=("k1=" + base64.b64encode(bytes(32)).decode(),)))
    async with over_http(config=config, identity=by_name) as house, sdk(house, "acme") as client:
        with pytest.raises(openai.APIStatusError, match=r"history\.keys") as refused:
            await client.vector_stores.create()
        assert refused.value.status_code == 501


@pytest.mark.parametrize(
    ("url", "field", "why"),
    [
        ("oracle://host/db", "model", "vector stores need a history in SQLite"),
        ("redis://host/0", "model", "vector stores need a history in SQLite"),
        ("postgresql://host/db", "folder", "in no folder"),
    ],
)
def test_what_cannot_be_with_a_history_elsewhere_is_refused_at_the_start(url: str, field: str, why: str) -> None:
    with pytest.raises(ConfigError, match=rf"vector_stores\.{field}: .*{why}"):
        check(Config(vector_stores=VectorStoresConfig(**{field: "m"}), history=HistoryConfig(url=url)), PERMISSIONS)


@pytest.mark.full
async def test_tools_search_several_stores_by_the_seam(house: House) -> None:
    async with sdk(house, "seam") as client:
        stores = [await store_of(client, LAMP), await store_of(client, BREAD)]
        work = VectorStoreWork.of(house.gateway.services)

        result = await work.search(
            Caller("seam"),
            stores,
            ["lamp", "bread"],
            filters=read_filter({"type": "ne", "key": "a", "value": "b"}),
        )

        assert {each.store_id for each in result.found} == set(stores)
        (piece,) = result.found[0].texts
        assert piece.text == (LAMP + BREAD).decode()[: len(piece.text)] or piece.text == BREAD.decode()
        assert (piece.start, piece.end) == (0, len(piece.text))
        with pytest.raises(StoreUnknown, match="No such vector store: 'vs_none'"):
            await work.search(Caller("seam"), ["vs_none"], ["lamp"])


@pytest.mark.full
async def test_after_kill_9_every_file_is_indexed_and_none_is_found_twice(tmp_path: Path) -> None:
    """Of some files that are long, so that the process is killed amid one."""
    history, count = f"sqlite:///{tmp_path}/h.db", 6
    async with SimulatedEngine(VECTORS) as engine:
        bounds = ("--vector-stores-model", "sim", "--vector-stores-at-once", "2")
        async with process(engine, history, *bounds) as (running, url):
            async with openai.AsyncOpenAI(api_key="x", base_url=f"{url}/v1", max_retries=0) as client:
                store = (await client.vector_stores.create()).id
                ids = [await filed(client, story(number)) for number in range(count)]
                batch = await client.vector_stores.file_batches.create(store, file_ids=ids)
                while not (await client.vector_stores.retrieve(store)).file_counts.completed:
                    await asyncio.sleep(0.02)
            running.kill()
            await running.wait()
        async with (
            process(engine, history, *bounds) as (_, url),
            openai.AsyncOpenAI(api_key="x", base_url=f"{url}/v1", max_retries=0) as client,
        ):
            before = await client.vector_stores.file_batches.retrieve(batch.id, vector_store_id=store)
            done = await client.vector_stores.file_batches.poll(batch.id, vector_store_id=store, poll_interval_ms=50)
            found = await client.vector_stores.search(store, query="chapter number0", max_num_results=50)
            whole = [each async for each in client.vector_stores.files.list(store)]
    assert before.file_counts.in_progress, "nothing was left to do; are the texts too short?"
    assert (done.file_counts.completed, done.file_counts.total) == (count, count)
    assert len({each.usage_bytes for each in whole}) == 1
    places = [(each.file_id, each.content[0].text) for each in found.data]
    assert len(places) == len(set(places))


def story(number: int) -> bytes:
    return "".join(
        f"Chapter {place:05}, of number{number}: the keeper trims the lamp.\n" for place in range(6000)
    ).encode()
