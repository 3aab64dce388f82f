"""Both kinds of indexes keep one contract: what is put in is found by words and by vectors, and what is taken out is not."""

import asyncio
import random
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from itertools import count
from pathlib import Path

import asyncpg
import numpy as np
import pytest
from tests.core.retrieval.kinds import in_files, in_postgres
from tests.shared import PATIENCE

from smg_core.retrieval.chunking import TextChunk
from smg_core.retrieval.filters import Comparison
from smg_core.retrieval.indexes import (
    Indexes,
    IndexFailed,
    IndexFull,
    IndexName,
    Query,
    VectorsDiffer,
    vectors_as_bytes,
)
from smg_core.retrieval.nearest import unit_vector
from smg_core.retrieval.postgres_connections import has_index_tables
from smg_core.retrieval.postgres_statements import PostgresStatements

pytestmark = pytest.mark.anyio

MANY = 1 << 30
OURS = IndexName("acme", "vs_1")
NUMBERS = count()


@pytest.fixture
def pool() -> AsyncIterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool  # type: ignore[misc]


@pytest.fixture(params=["files", pytest.param("postgresql", marks=pytest.mark.full)])
async def indexes(request: pytest.FixtureRequest, tmp_path: Path, pool: ThreadPoolExecutor) -> AsyncIterator[Indexes]:
    found: Indexes
    if request.param == "files":
        found = in_files(tmp_path, pool)
    else:
        found = in_postgres(request.getfixturevalue("postgresql"), pool, f"i{next(NUMBERS)}_")
    async with aclosing(_closed(found)) as opened:
        yield await anext(opened)


async def _closed(found: Indexes) -> AsyncIterator[Indexes]:
    try:
        yield found
    finally:
        await found.close()


async def put(
    indexes: Indexes,
    key: str,
    *texts: str,
    vectors: list[list[float]] | None = None,
    of: IndexName = OURS,
    **attributes: str,
) -> None:
    number = await indexes.begin(of, key, f"{key}.txt")
    chunks = [TextChunk(text, place, place + len(text)) for place, text in enumerate(texts)]
    await indexes.add(of, number, chunks, None if vectors is None else vectors_as_bytes(vectors), MANY)
    await indexes.finish(of, number, key, attributes)


async def words(indexes: Indexes, text: str, of: IndexName = OURS, **filters: str) -> list[str]:
    asked = None if not filters else Comparison("eq", *next(iter(filters.items())))
    (found,) = await indexes.search(of, [Query(text)], asked, 10)
    hits = await indexes.hits(of, [number for number, _ in found.words])
    return [hits[number].chunk.text for number, _ in found.words]


async def near(indexes: Indexes, vector: list[float], **filters: str) -> list[str]:
    asked = None if not filters else Comparison("eq", *next(iter(filters.items())))
    (found,) = await indexes.search(OURS, [Query("", vector)], asked, 10)
    hits = await indexes.hits(OURS, [number for number, _ in found.vectors])
    return [hits[number].chunk.text for number, _ in found.vectors]


async def test_words_are_found_whatever_their_ending_and_operators_are_words(indexes: Indexes) -> None:
    await put(indexes, "a", "The keepers trimmed lamps.", "Bread.")

    assert await words(indexes, "trimming a lamp") == ["The keepers trimmed lamps."]
    for hostile in (
        *('bread" OR "lamps', "bread NOT lamps", "text:bread*", "NEAR(bread)", "'; DROP TABLE files;--bread"),
        *("!bread | (", "bread & '/1'", "bread\\", "'/1'|bread", "b\u0301read bread", "http://bread/x?y=1 a@bread.com"),
    ):
        assert "Bread." in await words(indexes, hostile)
    assert await words(indexes, "\"\"''()*^-") == []
    assert await words(indexes, "of the") == ["The keepers trimmed lamps."]


async def test_accents_and_languages_without_spaces_are_found(indexes: Indexes) -> None:
    lights = "\u706f\u5854\u770b\u5b88\u4eba\u6bcf\u5929\u5199\u65e5\u8bb0\u3002"
    await put(indexes, "a", lights, "Le gardien \u00e9crit \u00e0 Z\u00fcrich.", "\ud55c\uad6d\uc5b4 \ub4f1\ub300")

    assert await words(indexes, "\u706f\u5854") == [lights]
    assert await words(indexes, "\u5854\u706f") == []
    assert (
        await words(indexes, "zurich")
        == await words(indexes, "\u00c9CRIT")
        == ["Le gardien \u00e9crit \u00e0 Z\u00fcrich."]
    )
    assert await words(indexes, "\ub4f1\ub300") == ["\ud55c\uad6d\uc5b4 \ub4f1\ub300"]


async def test_a_rare_word_counts_more_than_a_frequent_one(indexes: Indexes) -> None:
    await put(indexes, "a", *(f"lamp number {place}" for place in range(40)), "a keeper")

    assert (await words(indexes, "lamp keeper"))[0] == "a keeper"


async def test_a_file_is_found_once_it_is_whole_and_not_any_more_when_it_is_taken_out(indexes: Indexes) -> None:
    number = await indexes.begin(OURS, "a", "a.txt")
    await indexes.add(OURS, number, [TextChunk("lamp", 0, 4)], vectors_as_bytes([[1.0, 0.0]]), MANY)
    assert await words(indexes, "lamp") == await near(indexes, [1.0, 0.0]) == []
    assert await indexes.size(OURS, "a") == 0
    await indexes.finish(OURS, number, "a", {})
    assert await words(indexes, "lamp") == await near(indexes, [1.0, 0.0]) == ["lamp"]
    assert await indexes.size(OURS, "a") == 4 + 2 * 2
    assert await indexes.texts(OURS, "a", 8) == [TextChunk("lamp", 0, 4)]
    assert await indexes.texts(OURS, "a", 7) is None
    await indexes.remove(OURS, "a")
    assert await words(indexes, "lamp") == await near(indexes, [1.0, 0.0]) == []
    again = await indexes.begin(OURS, "b", "b.txt")
    await indexes.add(OURS, again, [TextChunk("lamp", 0, 4)], None, 1)  # what was taken out does not count


async def test_a_file_that_is_put_in_again_takes_the_place_of_its_earlier_self_at_its_end(indexes: Indexes) -> None:
    await put(indexes, "a", "old lamp")
    number = await indexes.begin(OURS, "a", "a.txt")
    await indexes.add(OURS, number, [TextChunk("new lamp", 0, 8)], None, MANY)
    assert await words(indexes, "lamp") == ["old lamp"]
    again = await indexes.begin(OURS, "a", "a.txt")  # the process was killed, and this is another
    with pytest.raises(IndexFailed):
        await indexes.add(OURS, number, [TextChunk("late lamp", 0, 9)], None, MANY)
    await indexes.add(OURS, again, [TextChunk("new lamp", 0, 8)], None, MANY)
    await indexes.finish(OURS, again, "a", {})
    assert await words(indexes, "lamp") == ["new lamp"]


async def test_filters_narrow_words_and_vectors_and_attributes_can_change(indexes: Indexes) -> None:
    await put(indexes, "a", "lamp one", vectors=[[1.0, 0.0]], kind="x")
    await put(indexes, "b", "lamp two", vectors=[[0.9, 0.1]], kind="y")

    assert await words(indexes, "lamp", kind="y") == await near(indexes, [1.0, 0.0], kind="y") == ["lamp two"]
    assert await near(indexes, [1.0, 0.0]) == ["lamp one", "lamp two"]
    await indexes.set_attributes(OURS, "a", {"kind": "y"})
    assert len(await words(indexes, "lamp", kind="y")) == 2
    assert await words(indexes, "lamp", kind="x") == []


async def test_the_bound_of_chunks_is_kept_and_what_was_put_in_stays(indexes: Indexes) -> None:
    await put(indexes, "a", "lamp")
    number = await indexes.begin(OURS, "b", "b.txt")
    with pytest.raises(IndexFull):
        await indexes.add(OURS, number, [TextChunk("lamp", 0, 4)] * 2, None, 2)
    assert await words(indexes, "lamp") == ["lamp"]


async def test_every_vector_is_compared(indexes: Indexes) -> None:
    rng = random.Random(5)
    vectors = [[rng.gauss(0, 1) for _ in range(4)] for _ in range(300)]
    for begin in range(0, 300, 150):
        texts = map(str, range(begin, begin + 150))
        await put(indexes, str(begin), *texts, vectors=vectors[begin : begin + 150])

    units = np.array([unit_vector(each) for each in vectors])
    expected = [str(each) for each in np.argsort(-(units @ units[7]))[:10]]

    found = await near(indexes, vectors[7])
    assert found[0] == expected[0] == "7"
    assert len(set(found) & set(expected)) >= 9  # in numbers of 16 bits


async def test_vectors_of_another_length_are_near_to_nothing(indexes: Indexes) -> None:
    await put(indexes, "a", "lamp", vectors=[[1.0, 0.0]])
    assert await near(indexes, [1.0, 0.0, 0.0]) == []
    assert await near(indexes, [float("nan"), 0.0]) == ["lamp"]  # as far as any other
    with pytest.raises(VectorsDiffer, match="vectors of 3 numbers"):
        await put(indexes, "b", "light", vectors=[[1.0, 0.0, 0.0]])


async def test_an_index_is_of_one_store_of_one_tenant_and_is_dropped_alone(indexes: Indexes) -> None:
    theirs, other = IndexName("other", "vs_1"), IndexName("acme", "vs_2")
    for of in (OURS, theirs, other):
        await put(indexes, "a", f"lamp of {of.tenant} {of.store}", of=of)
    mark = await indexes.mark(vectors=True)

    assert await words(indexes, "lamp") == ["lamp of acme vs_1"]
    (foreign,) = (await indexes.search(theirs, [Query("lamp")], None, 5))[0].words
    assert (await indexes.hits(OURS, [foreign[0]])).get(foreign[0]) in (None, await _only(indexes))
    assert set(await indexes.names()) == {OURS, theirs, other}
    await indexes.check(OURS, mark)
    number = await indexes.begin(OURS, "b", "b.txt")
    await indexes.drop(OURS)
    with pytest.raises(IndexFailed):
        await indexes.check(OURS, mark)
    with pytest.raises(IndexFailed):  # what was being put in does not make it anew
        await indexes.add(OURS, number, [TextChunk("lamp", 0, 4)], None, MANY)
    await indexes.remove(OURS, "a")
    await indexes.set_attributes(OURS, "a", {})
    with pytest.raises(IndexFailed):
        await indexes.check(other, "elsewhere")
    assert set(await indexes.names()) == {theirs, other}
    assert await words(indexes, "lamp", of=theirs) == ["lamp of other vs_1"]


async def _only(indexes: Indexes) -> object:
    """The one chunk of our store."""
    ((number, _),) = (await indexes.search(OURS, [Query("lamp")], None, 5))[0].words
    return (await indexes.hits(OURS, [number]))[number]


@pytest.mark.full
async def test_tables_that_may_not_be_made_and_an_extension_that_is_missing_are_said(
    postgresql: str, pool: ThreadPoolExecutor
) -> None:
    prefix = f"i{next(NUMBERS)}_"
    statements = PostgresStatements(prefix)
    assert not await has_index_tables(postgresql, statements, PATIENCE)
    denied = in_postgres(postgresql, pool, prefix, may_make=False)
    with pytest.raises(IndexFailed) as refused:
        await denied.names()
    assert "history.migrate is off" in (refused.value.detail or "")
    name, owner = f"without_{prefix}", await asyncpg.connect(postgresql)
    await owner.execute(f'CREATE DATABASE "{name}"')
    await owner.execute(f"CREATE ROLE {prefix} LOGIN")
    await owner.close()
    elsewhere = postgresql.replace("/postgres?", f"/{name}?").replace("://postgres", f"://{prefix}")
    inside = await asyncpg.connect(postgresql.replace("/postgres?", f"/{name}?"))
    await inside.execute(f"GRANT ALL ON SCHEMA public TO {prefix}")
    await inside.close()
    words_alone = in_postgres(elsewhere, pool, prefix)
    try:
        await put(words_alone, "a", "lamp")
        assert await words(words_alone, "lamp") == ["lamp"]
        with pytest.raises(IndexFailed) as refused:
            await words_alone.mark(vectors=True)
        assert "extension vector" in (refused.value.detail or "")
    finally:
        await words_alone.close()


@pytest.mark.full
async def test_many_write_to_one_index_in_postgresql_within_its_bound(
    postgresql: str, pool: ThreadPoolExecutor
) -> None:
    prefix = f"i{next(NUMBERS)}_"
    gateways = [in_postgres(postgresql, pool, prefix) for _ in range(3)]

    async def write(indexes: Indexes, key: str) -> bool:
        number = await indexes.begin(OURS, key, key)
        try:
            for place in range(5):
                await indexes.add(OURS, number, [TextChunk(f"lamp {key} {place}", 0, 4)], None, 20)
        except IndexFull:
            await indexes.remove(OURS, key)
            return False
        await indexes.finish(OURS, number, key, {})
        return True

    try:
        done = await asyncio.gather(*(write(gateways[place % 3], f"k{place}") for place in range(6)))
        done.append(await write(gateways[0], "last"))  # for those that found no room have left it
        (found,) = await gateways[1].search(OURS, [Query("lamp")], None, 100)
        assert sum(done) <= 4
        assert done[-1] is (sum(done[:-1]) < 4)
        assert len(found.words) == 5 * sum(done)
    finally:
        for each in gateways:
            await each.close()
