"""A store in Redis or Valkey (edge), through redis-py.

A write reads the fields that it depends on and then runs one script. The script does all of the write if these fields are still
the same, and nothing otherwise; then the write starts again.
A chain is one script. What is pending and what expires is listed in sets of all tenants. An entry is written by the script that
writes its thing, and stays when the thing goes: whoever reads the list checks it, and removes what is outdated by a script that
checks again, so that an entry which was written meanwhile stays. Above: `opening`. Below: `plan`, which decides, and
`scripts`.
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, unquote

import attrs
import redis.asyncio as client
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import OutOfMemoryError, RedisError, ResponseError
from redis.exceptions import TimeoutError as NoAnswer

from smg_core.clock import Clock
from smg_core.errors import StoreFailed
from smg_core.history.redis.plan import Fields, Keys, RedisPlan, alive, item_of_hash, needed, stored_number
from smg_core.history.redis.scripts import BEHIND, CHAIN, FIELDS, HASHES, LEASE, NOT_DUE, NOT_PENDING, RUN
from smg_core.history.redis.server import redis_fault
from smg_core.history.store.base import (
    LEASE_KEPT_S,
    Chain,
    ChainBroken,
    ChainLink,
    DeleteConversation,
    DeleteEvents,
    DeleteRecord,
    DeleteResponse,
    Exported,
    ItemPosition,
    Lease,
    LeaseLost,
    Owned,
    Page,
    RecordPosition,
    StoredConversation,
    StoredEvent,
    StoredItem,
    StoredRecord,
    StoredResponse,
    StoreOperation,
)
from smg_core.history.store.urls import check_redis_url
from smg_core.settings import ConfigError

__all__ = ["RedisStore"]

log = logging.getLogger("smg.gateway")

_TRIES = 50  # of one write, while others are quicker
_PAGE = 500  # keys or entries that a walk takes at once
_HOLDING = 1000  # responses in which an item is looked for at once
_TEXTS = ("body", "input", "output")  # of responses and records
_Mark = tuple[float, bytes]  # a place in a sorted set: a score and a member


@contextmanager
def _failures() -> Iterator[None]:
    """Turns what Redis and its client raise into StoreFailed. Where the task was cancelled meanwhile that is what is raised: the
    client may have swallowed it, and a task that is to end would go on."""
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        yield
    except (NoConnection, NoAnswer, OSError) as error:
        _raise_cancelled(task, before)
        raise StoreFailed("unreachable", f"Redis: {error}", outside_text=str(error)) from error
    except RedisError as error:
        _raise_cancelled(task, before)
        raise StoreFailed(
            "full" if isinstance(error, OutOfMemoryError) else "failed", f"Redis: {error}", outside_text=str(error)
        ) from error
    _raise_cancelled(task, before)


def _raise_cancelled(task: "asyncio.Task[object] | None", before: int) -> None:
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError


async def _check(redis: Any) -> None:
    """Raise ConfigError where the server says something of itself for which it cannot have the history."""
    try:
        info = await redis.info()
    except ResponseError as error:  # not every user may ask
        log.warning("whether this Redis is one that can have the history is not known: %s", error)
        return
    if fault := redis_fault(info):
        raise ConfigError(f"history.url: {fault}")


class RedisStore:
    """A `Store` and `Upkeep` under keys that begin with `prefix`. `most_links` and `most_link_bytes` bound a chain,
    `most_page_bytes` a page. `redis` is a client that answers in bytes; its own types leave open whether it does."""

    def __init__(
        self, redis: Any, clock: Clock, *, prefix: str, most_links: int, most_link_bytes: int, most_page_bytes: int
    ) -> None:
        self._redis, self._now, self._prefix = redis, clock.time, prefix
        self._most_links, self._most_link_bytes = most_links, most_link_bytes
        self._most_page_bytes = most_page_bytes
        self._chain, self._lease = redis.register_script(CHAIN), redis.register_script(LEASE)
        self._fields, self._hashes = redis.register_script(FIELDS), redis.register_script(HASHES)
        self._members = redis.register_script(BEHIND)
        self._not_pending, self._not_due = redis.register_script(NOT_PENDING), redis.register_script(NOT_DUE)
        # A script that names its language is refused as a whole when memory is short; one that only deletes may run then.
        self._adding, self._deleting = redis.register_script(f"#!lua\n{RUN}"), redis.register_script(RUN)

    @classmethod
    async def open(
        cls,
        url: str,
        clock: Clock,
        *,
        prefix: str,
        most_links: int,
        most_link_bytes: int,
        most_page_bytes: int,
        connections: int,
        seconds: float,
    ) -> "RedisStore":
        """The store, reached. Raises StoreFailed, and ConfigError for a URL that is none and a server that cannot have it."""
        check_redis_url(url)
        try:
            pool = client.BlockingConnectionPool.from_url(
                url,
                max_connections=connections,
                timeout=seconds,
                socket_timeout=seconds,
                socket_connect_timeout=seconds,
            )
            pool.connection_class(**pool.connection_kwargs)  # reads what the URL says
        except (TypeError, ValueError, RedisError) as error:
            raise ConfigError(f"history.url: {error}") from None
        redis = client.Redis.from_pool(pool)
        try:
            with _failures():
                await redis.ping()
                await _check(redis)
        except BaseException:
            await redis.aclose()
            raise
        return cls(
            redis,
            clock,
            prefix=prefix,
            most_links=most_links,
            most_link_bytes=most_link_bytes,
            most_page_bytes=most_page_bytes,
        )

    def keeps(self, tenant: str, principal: str = "") -> bool:
        return True

    # ------------------------------------------------------------------------------------------------------------ writing

    async def write(
        self, tenant: str, operations: Sequence[StoreOperation], *, lease: Lease | None = None, principal: str = ""
    ) -> None:
        await self._written(Keys(self._prefix, tenant), operations, lease)

    async def _written(
        self, keys: Keys, operations: Sequence[StoreOperation], lease: Lease | None, expired: str | None = None
    ) -> bool:
        """Do the operations; nothing, and False, where the hash `expired` is gone or its time is not up any more."""
        wanted = needed(keys, operations, lease)
        with _failures():
            for _ in range(_TRIES):
                read, now = await self._read(wanted), self._now()
                if expired is not None and (read[expired]["version"] is None or alive(read[expired], now)):
                    return False
                plan = RedisPlan(keys, read, now)
                plan.run(operations, lease)
                script = self._adding if plan.adds else self._deleting
                if await script(keys=[keys.base], args=plan.arguments):
                    return True
        raise StoreFailed("failed", f"Redis: others were quicker {_TRIES} times")

    async def _read(self, wanted: dict[str, list[str]]) -> dict[str, Fields]:
        async with self._redis.pipeline(transaction=True) as pipe:
            for key, fields in wanted.items():
                pipe.hmget(key, fields)
            found = await pipe.execute() if wanted else []
        return {
            key: dict(zip(fields, values, strict=True))
            for (key, fields), values in zip(wanted.items(), found, strict=True)
        }

    async def _leased(self, tenant: str, lease: Lease, until: float, token: str) -> int:
        now = self._now()
        key = Keys(self._prefix, tenant).lease(lease.kind, lease.id)
        with _failures():
            kept = math.ceil(until - now + LEASE_KEPT_S)
            return int(await self._lease(keys=[key], args=[repr(now), lease.owner, token, repr(until), kept]))

    async def acquire(self, tenant: str, kind: str, id: str, owner: str, seconds: float) -> Lease | None:
        lease = Lease(kind=kind, id=id, owner=owner, token=0, expires_at=self._now() + seconds)
        token = await self._leased(tenant, lease, lease.expires_at, "")
        return attrs.evolve(lease, token=token) if token else None

    async def renew(self, tenant: str, lease: Lease, seconds: float) -> Lease:
        renewed = attrs.evolve(lease, expires_at=self._now() + seconds)
        if not await self._leased(tenant, lease, renewed.expires_at, str(lease.token)):
            raise LeaseLost(lease.id)
        return renewed

    async def release(self, tenant: str, lease: Lease) -> None:
        await self._leased(tenant, lease, self._now(), str(lease.token))

    # ------------------------------------------------------------------------------------------------------------ reading

    async def _hash(self, key: str) -> dict[str, bytes] | None:
        """The hash, if it exists and has not expired."""
        with _failures():
            found = await self._redis.hgetall(key)
        fields = {name.decode(): value for name, value in found.items()}
        return fields if fields and _live(fields, self._now()) else None

    async def response(self, tenant: str, id: str) -> StoredResponse | None:
        found = await self._hash(Keys(self._prefix, tenant).response(id))
        return None if found is None else _response(id, found)

    async def chain(self, tenant: str, id: str) -> Chain | None:
        base = Keys(self._prefix, tenant).response("")
        arguments = [base, id, self._most_links, self._most_link_bytes, repr(self._now())]
        with _failures():
            rows = await self._chain(keys=[f"{base}{id}"], args=arguments)
        links = [_link(row) for row in rows]
        if not links:
            return None
        if len({link.id for link in links}) < len(links):
            raise ChainBroken(id, "cycle")
        if len(links) > self._most_links:
            raise ChainBroken(id, "too_long", self._most_links)
        if sum(len(link.input) + len(link.output) for link in links) > self._most_link_bytes:
            raise ChainBroken(id, "too_large", self._most_link_bytes)
        return Chain(tuple(reversed(links)), missing=links[-1].previous_id)

    async def holding(self, tenant: str, item_ids: Sequence[str]) -> tuple[StoredResponse, ...]:
        if not item_ids:
            return ()
        keys = Keys(self._prefix, tenant)
        now = self._now()
        with _failures():
            ids = [id.decode() for id in await self._redis.sunion([keys.holders(item) for item in item_ids])]
            async with self._redis.pipeline(transaction=False) as pipe:
                for id in ids:
                    pipe.hmget(keys.response(id), ["version", "expires_at", "created_at"])
                heads = await pipe.execute() if ids else []
        alive_ = [
            (-float(created_at), id)
            for id, (version, expires_at, created_at) in zip(ids, heads, strict=True)
            if alive({"version": version, "expires_at": expires_at}, now)
        ]
        newest = [id for _, id in sorted(alive_)][:_HOLDING]
        found = await self._load([keys.response(id) for id in newest])
        return tuple(_response(id, fields) for id, fields in zip(newest, found, strict=False) if fields)

    async def _load(self, keys: Sequence[str]) -> list[dict[str, bytes]]:
        """The first of some hashes, as many as one page has bytes for; an empty one for one that is gone."""
        if not keys:
            return []
        with _failures():
            found = await self._hashes(keys=keys, args=[self._most_page_bytes, *_TEXTS])
        return [{name.decode(): value for name, value in zip(each[::2], each[1::2], strict=True)} for each in found]

    async def conversation(self, tenant: str, id: str) -> StoredConversation | None:
        found = await self._hash(Keys(self._prefix, tenant).conversation(id))
        if found is None:
            return None
        return StoredConversation(
            id=id,
            created_at=float(found["created_at"]),
            metadata=found["metadata"],
            expires_at=_time(found),
            version=stored_number(found["version"]),
        )

    async def items(
        self,
        tenant: str,
        conversation_id: str,
        *,
        after: str | ItemPosition | None = None,
        limit: int = 100,
        newest_first: bool = False,
    ) -> Page[StoredItem]:
        keys = Keys(self._prefix, tenant)
        if await self.conversation(tenant, conversation_id) is None:
            return Page((), False)
        mark: float | None = after.number if isinstance(after, ItemPosition) else None
        if isinstance(after, str):
            with _failures():
                mark = await self._redis.zscore(keys.order(conversation_id), after)
            if mark is None:
                return Page((), False)
        while True:
            listed = await self._ranged(keys.order(conversation_id), mark, limit + 1, newest_first=newest_first)
            texts = await self._texts(keys.items(conversation_id), [id for id, _ in listed[:limit]])
            found = [
                item_of_hash(id.decode(), text, ItemPosition(int(at)))
                for (id, at), text in zip(listed, texts, strict=False)
                if text is not None
            ]
            more = len(texts) < len(listed)
            if found or not more:  # else they were deleted since they were listed
                return Page(tuple(found), more)

    async def _texts(self, key: str, names: Sequence[bytes]) -> list[bytes | None]:
        """The first of some fields, as many as one page has bytes for; None for one that is gone."""
        if not names:
            return []
        with _failures():
            return list(await self._fields(keys=[key], args=[self._most_page_bytes, *names]))

    async def _ranged(
        self, key: str, mark: float | None, limit: int, *, newest_first: bool
    ) -> list[tuple[bytes, float]]:
        """Members of a sorted set behind the score `mark`, with their scores."""
        bounds = (
            ("+inf" if mark is None else f"({mark!r}", "-inf")
            if newest_first
            else ("-inf" if mark is None else f"({mark!r}", "+inf")
        )
        ranged = self._redis.zrevrangebyscore if newest_first else self._redis.zrangebyscore
        with _failures():
            return list(await ranged(key, *bounds, start=0, num=limit, withscores=True))

    async def item(self, tenant: str, conversation_id: str, id: str) -> StoredItem | None:
        if await self.conversation(tenant, conversation_id) is None:
            return None
        with _failures():
            text = await self._redis.hget(Keys(self._prefix, tenant).items(conversation_id), id)
        return None if text is None else item_of_hash(id, text)

    async def events(
        self, tenant: str, response_id: str, *, after: int = -1, limit: int = 1000
    ) -> tuple[StoredEvent, ...]:
        keys = Keys(self._prefix, tenant)
        if await self._hash(keys.log(response_id)) is None:
            return ()
        listed = await self._ranged(keys.numbers(response_id), float(after), limit, newest_first=False)
        numbers = [number for number, _ in listed]
        texts = await self._texts(keys.events(response_id), numbers)
        return tuple(
            StoredEvent(int(each), text) for each, text in zip(numbers, texts, strict=False) if text is not None
        )

    async def last_event(self, tenant: str, response_id: str) -> int:
        keys = Keys(self._prefix, tenant)
        if await self._hash(keys.log(response_id)) is None:
            return -1
        last = await self._ranged(keys.numbers(response_id), None, 1, newest_first=True)
        return int(last[0][0]) if last else -1

    async def record(self, tenant: str, kind: str, id: str) -> StoredRecord | None:
        found = await self._hash(Keys(self._prefix, tenant).record(kind, id))
        return None if found is None else _record(kind, id, found)

    async def records(
        self,
        tenant: str,
        kind: str,
        *,
        after: str | RecordPosition | None = None,
        limit: int = 100,
        newest_first: bool = True,
    ) -> Page[StoredRecord]:
        keys = Keys(self._prefix, tenant)
        mark: _Mark | None = None
        if after is not None:
            place = await self.record(tenant, kind, after) if isinstance(after, str) else after
            if place is None:
                return Page((), False)
            mark = place.created_at, place.id.encode()
        found: list[StoredRecord] = []
        size = 0
        while True:
            listed = await self._behind(keys.records(kind), mark, limit + 1 - len(found), newest_first=newest_first)
            ids = [name.decode() for _, name in listed]
            loaded = await self._load([keys.record(kind, id) for id in ids])
            if not loaded:
                return Page(tuple(found), False)
            for id, fields in zip(ids, loaded, strict=False):
                if not fields or not _live(fields, self._now()):
                    continue
                size += len(fields["body"])
                if found and (len(found) == limit or size > self._most_page_bytes):
                    return Page(tuple(found), True)
                found.append(_record(kind, id, fields))
            mark = listed[len(loaded) - 1]

    async def _behind(self, key: str, mark: _Mark | None, limit: int, *, newest_first: bool = False) -> list[_Mark]:
        """Members of a sorted set behind one of a score, which need not be there any more."""
        score, member = ("", b"") if mark is None else (repr(mark[0]), mark[1])
        with _failures():
            found = await self._members(keys=[key], args=[score, member, limit, "1" if newest_first else ""])
        return [(float(score), name) for name, score in zip(found[::2], found[1::2], strict=True)]

    # ------------------------------------------------------------------------------------------------- a tenant as a whole

    async def _scan(self, tenant: str) -> AsyncIterator[tuple[str, str, str]]:
        """Every key of a tenant, with the kind of thing and its name."""
        base = Keys(self._prefix, tenant).base
        with _failures():
            seen = [key.decode() async for key in self._redis.scan_iter(match=f"{base}*", count=_PAGE)]
        for key in dict.fromkeys(seen):
            what, _, name = key.removeprefix(base).partition(":")
            yield key, what, name

    async def export(self, tenant: str) -> AsyncIterator[Exported]:
        async for _, what, name in self._scan(tenant):
            if what == "response" and (response := await self.response(tenant, name)):
                parts = {"body": response.body, "input": response.input, "output": response.output}
                yield Exported("response", "", name, response.created_at, parts)
            elif what == "log":
                after = -1
                while events := await self.events(tenant, name, after=after, limit=_PAGE):
                    for event in events:
                        yield Exported("event", name, str(event.number), None, {"data": event.data})
                    after = events[-1].number
            elif what == "conversation" and (head := await self.conversation(tenant, name)):
                yield Exported("conversation", "", name, head.created_at, {"metadata": head.metadata})
                async for item in self._all_items(tenant, name):
                    yield Exported("item", name, item.id, item.created_at, {"body": item.body})
            elif what == "record":
                kind, _, id = name.partition(":")
                record = await self.record(tenant, unquote(kind), id)
                if record is not None:
                    yield Exported("record", record.kind, id, record.created_at, {"body": record.body})

    async def _all_items(self, tenant: str, conversation_id: str) -> AsyncIterator[StoredItem]:
        """The items of a conversation, from position to position: the last one that was read may be deleted meanwhile."""
        after, more = None, True
        while more:
            page = await self.items(tenant, conversation_id, after=after, limit=_PAGE)
            for item in page.data:
                yield item
            after, more = page.data[-1].position if page.data else after, page.has_more

    async def erase(self, tenant: str) -> int:
        gone, live = 0, set[tuple[str, str]]()
        found = [each async for each in self._scan(tenant)]
        for key, what, name in found:
            if what in ("response", "conversation", "record", "log"):
                with _failures():
                    version, expires_at = await self._redis.hmget(key, ["version", "expires_at"])
                if alive({"version": version, "expires_at": expires_at}, self._now()):
                    live.add((what, name))
                    gone += what != "log"
        for key, what, name in found:
            head = {"items": "conversation", "events": "log"}.get(what)
            with _failures():
                if head is not None and (head, name) in live:
                    gone += await self._redis.hlen(key)
                await self._redis.delete(key)
        return gone

    # ------------------------------------------------------------------------------------------------------- all tenants

    async def abandoned(self, kind: str, limit: int = 100) -> tuple[Owned, ...]:
        list_, mark = f"{self._prefix}pending:{quote(kind, safe='')}", None
        free: list[Owned] = []
        while len(free) < limit:
            listed = await self._behind(list_, mark, _PAGE)
            if not listed:
                break
            for _, name in listed:
                tenant, id = (unquote(part) for part in name.decode().split("/"))
                keys = Keys(self._prefix, tenant)
                key = keys.response(id) if kind == "response" else keys.record(kind, id)
                with _failures():
                    version, expires_at, pending = await self._redis.hmget(key, ["version", "expires_at", "pending"])
                if not pending or not alive({"version": version, "expires_at": expires_at}, self._now()):
                    with _failures():
                        await self._not_pending(keys=[list_, key], args=[name, repr(self._now())])
                elif not await self._taken(keys.lease(kind, id)):
                    free.append(Owned(tenant, id))
            mark = listed[-1]
        return tuple(free[:limit])

    async def _taken(self, key: str) -> bool:
        with _failures():
            expires_at = await self._redis.hget(key, "expires_at")
        return expires_at is not None and float(expires_at) > self._now()

    async def sweep(self, limit: int = 1000) -> int:
        due, now, gone = f"{self._prefix}due", self._now(), 0
        with _failures():
            names = await self._redis.zrangebyscore(due, "-inf", now, start=0, num=limit)
        for name in names:
            tenant, what, kind, id = (unquote(part) for part in name.decode().split("/"))
            gone += await self._expire(tenant, what, kind, id)
            with _failures():
                await self._not_due(keys=[due], args=[name, repr(now)])
        return gone

    async def _expire(self, tenant: str, what: str, kind: str, id: str) -> bool:
        """Delete one thing if its time is up; it may have been given a later one, up to the moment in which it is deleted."""
        keys = Keys(self._prefix, tenant)
        operation: StoreOperation
        match what:
            case "response":
                key, operation = keys.response(id), DeleteResponse(id)
            case "conversation":
                key, operation = keys.conversation(id), DeleteConversation(id)
            case "log":
                key, operation = keys.log(id), DeleteEvents(id)
            case _:
                key, operation = keys.record(kind, id), DeleteRecord(kind, id)
        return await self._written(keys, [operation], None, expired=key)

    async def close(self) -> None:
        """Let go of the connections."""
        await self._redis.aclose()


def _live(fields: dict[str, bytes], now: float) -> bool:
    return not fields["expires_at"] or float(fields["expires_at"]) > now


def _time(fields: dict[str, bytes]) -> float | None:
    return float(fields["expires_at"]) if fields["expires_at"] else None


def _response(id: str, fields: dict[str, bytes]) -> StoredResponse:
    return StoredResponse(
        id=id,
        body=fields["body"],
        created_at=float(fields["created_at"]),
        input=fields["input"],
        output=fields["output"],
        status=fields["status"].decode(),
        model=fields["model"].decode(),
        previous_id=fields["previous_id"].decode() or None,
        conversation_id=fields["conversation_id"].decode() or None,
        pending=bool(fields["pending"]),
        expires_at=_time(fields),
        version=stored_number(fields["version"]),
    )


def _link(row: list[bytes]) -> ChainLink:
    id, previous_id, status, model, created_at, input, output = row
    return ChainLink(
        id=id.decode(),
        previous_id=previous_id.decode() or None,
        status=status.decode(),
        model=model.decode(),
        created_at=float(created_at),
        input=input,
        output=output,
    )


def _record(kind: str, id: str, fields: dict[str, bytes]) -> StoredRecord:
    return StoredRecord(
        kind=kind,
        id=id,
        body=fields["body"],
        created_at=float(fields["created_at"]),
        pending=bool(fields["pending"]),
        expires_at=_time(fields),
        version=stored_number(fields["version"]),
    )
