"""Searches vector stores: the vectors of queries are made, each index is looked into, what was found is put together (edge).

Fulfils `retrieval.searching.StoreSearch`. What is deleted as a file is not found any more, and is taken out of its store when it
would have been. Above: the handlers, tools that search. Below: the records, the indexes, embedding, fusion.
"""

import asyncio
from collections.abc import Mapping, Sequence

import attrs

from smg_core.errors import InvalidRequest, NotFound, SmgError
from smg_core.request import Caller
from smg_core.retrieval.filters import FileFilter
from smg_core.retrieval.fusion import DEPTH, fused
from smg_core.retrieval.indexes import ChunkHit, IndexName, Query, Ranked
from smg_core.retrieval.searching import MOST_RESULTS, Found, FoundText, Ranking, StoreFindings
from smg_core.vector_stores.indexing import IndexRooms
from smg_core.vector_stores.place import check_stores
from smg_core.vector_stores.records import KeptStore

__all__ = ["StoreSearcher"]

_QUERY_S = 10.0  # for the vectors of queries; then words are looked for alone
_MOST_STORES = 32  # of one search

_Place = tuple[int, int]
"""A chunk: which of the stores, and its number there."""


@attrs.frozen
class _Vectors:
    """The vectors of the queries by model, and why there are none of some."""

    by_model: Mapping[str, Sequence[Sequence[float]]]
    reason: str


class StoreSearcher:
    """Searches for one gateway."""

    def __init__(self, rooms: IndexRooms) -> None:
        self._rooms = rooms

    async def search(
        self,
        caller: Caller,
        store_ids: Sequence[str],
        queries: Sequence[str],
        *,
        max_results: int = 10,
        filters: FileFilter | None = None,
        ranking: Ranking | None = None,
    ) -> StoreFindings:
        """`StoreSearch.search`."""
        rooms, ranking = self._rooms, ranking or Ranking()
        check_stores(rooms.services)
        ids = list(dict.fromkeys(store_ids))
        if len(ids) > _MOST_STORES:
            raise InvalidRequest(
                f"At most {_MOST_STORES} vector stores are searched together.", param="vector_store_ids"
            )
        stores = [await rooms.kept.usable(caller.tenant, id) for id in ids]
        if not queries:  # whether they are there is all that is asked
            return StoreFindings((), "words")
        vectors = await self._vectors(caller, stores, queries)
        found = [await self._ranked(caller, each, queries, vectors, filters) for each in stores]
        for each in stores:
            await rooms.kept.use(caller, each)
        order = [each for each in _together(found, ranking) if each[1] >= ranking.threshold]
        results = await self._results(caller, stores, order, min(max_results, MOST_RESULTS))
        return StoreFindings(results, "words" if vectors.reason else "hybrid", vectors.reason)

    async def _vectors(self, caller: Caller, stores: Sequence[KeptStore], queries: Sequence[str]) -> _Vectors:
        """The vectors of the queries, by each model that the stores have."""
        found: dict[str, Sequence[Sequence[float]]] = {}
        reason = "" if any(each.model for each in stores) else "no-model"
        for model in {each.model for each in stores if each.model and each.counts.completed}:
            try:
                async with asyncio.timeout(_QUERY_S):
                    found[model] = await self._rooms.embedding.vectors(caller, model, queries, "query")
            except (SmgError, TimeoutError):
                reason = "model-unavailable"
        return _Vectors(found, reason)

    async def _ranked(
        self,
        caller: Caller,
        store: KeptStore,
        queries: Sequence[str],
        vectors: _Vectors,
        filters: FileFilter | None,
    ) -> list[Ranked]:
        if not store.counts.completed:
            return []
        of = IndexName(caller.tenant, store.id)
        await self._rooms.indexes.check(of, store.folder)
        of_queries = vectors.by_model.get(store.model, [None] * len(queries))
        asked = [Query(text, vector) for text, vector in zip(queries, of_queries, strict=True)]
        return await self._rooms.indexes.search(of, asked, filters, DEPTH)

    async def _results(
        self, caller: Caller, stores: Sequence[KeptStore], order: Sequence[tuple[_Place, float]], most: int
    ) -> tuple[Found, ...]:
        """The best of what was found, as far as its files are there still."""
        found: list[Found] = []
        alive: dict[tuple[int, str], bool] = {}
        for at in range(0, len(order), most):
            some = order[at : at + most]
            hits = await self._hits(caller, stores, [place for place, _ in some])
            for place, score in some:
                hit, store = hits.get(place), stores[place[0]]
                if hit is None:
                    continue
                key = place[0], hit.key
                if key not in alive:
                    alive[key] = await self._is_there(caller, store, hit.key)
                if alive[key]:
                    found.append(_found(store, hit, score))
            if len(found) >= most:
                break
        return tuple(found[:most])

    async def _hits(
        self, caller: Caller, stores: Sequence[KeptStore], places: Sequence[_Place]
    ) -> dict[_Place, ChunkHit]:
        rooms, found = self._rooms, dict[_Place, ChunkHit]()
        for number, store in enumerate(stores):
            mine = [each for place, each in places if place == number]
            if mine:
                hits = await rooms.indexes.hits(IndexName(caller.tenant, store.id), mine)
                found |= {(number, id): hit for id, hit in hits.items()}
        return found

    async def _is_there(self, caller: Caller, store: KeptStore, id: str) -> bool:
        """Whether a file is kept still; one that is not is taken out of its store."""
        rooms = self._rooms
        try:
            await rooms.kept.file(caller.tenant, store.id, id)
            await rooms.files.find(caller.tenant, id)
        except NotFound:
            await rooms.kept.change(caller, store.id, {id: lambda _: None})
            return False
        return True


def _together(found: Sequence[Sequence[Ranked]], ranking: Ranking) -> list[tuple[_Place, float]]:
    """What the stores have found for all queries, best first, with scores from 0 to 1."""
    many = range(max(map(len, found), default=0))
    words = [_merged(found, query, "words") for query in many]
    vectors = [each for query in many if (each := _merged(found, query, "vectors"))]
    by_words, by_vectors = ranking.words, ranking.vectors
    if not vectors:  # the only ranks there are count, whatever their weight
        by_words = 1.0
    elif not ranking.fused:
        by_words, by_vectors = 0.0, 1.0
    lists = [*((by_words, each) for each in words), *((by_vectors, each) for each in vectors)]
    return [(place, round(score, 6)) for place, score in fused(lists) if score > 0]


def _merged(found: Sequence[Sequence[Ranked]], query: int, kind: str) -> list[_Place]:
    scored = [
        (score, (store, number))
        for store, ranked in enumerate(found)
        if query < len(ranked)
        for number, score in getattr(ranked[query], kind)
    ]
    scored.sort(key=lambda each: -each[0])
    return [place for _, place in scored[:DEPTH]]


def _found(store: KeptStore, hit: ChunkHit, score: float) -> Found:
    chunk = hit.chunk
    return Found(
        store_id=store.id,
        file_id=hit.key,
        filename=hit.name,
        score=score,
        attributes=hit.attributes,
        texts=(FoundText(chunk.text, chunk.start, chunk.end),),
    )
