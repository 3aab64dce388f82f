"""The rules that hold for every store: names, times, zero retention, hooks, encryption; and stores that fail."""

import base64

import pytest
import redis
from tests.history.conformance import conversation, item, record, response
from tests.history.conftest import KEY, opens_redis

from smg_core import Config
from smg_core.errors import InvalidRequest, StoreFailed
from smg_core.gateway.gateway import Gateway
from smg_core.history.hooks import Rejected
from smg_core.history.memory.store import MemoryStore
from smg_core.history.opening import guarded, open_history
from smg_core.history.sealing import Cipher
from smg_core.history.settings import HistoryConfig
from smg_core.history.store.base import KEYS_OWNER, AppendEvents, AppendItems, DeleteResponse, NotKept, StoredEvent
from smg_core.settings import ConfigError
from smg_core.stored.default_store import DefaultStore, gateway_name

pytestmark = pytest.mark.anyio
OTHER_KEY = "k2=" + base64.b64encode(bytes(32)).decode()
BAD_NAMES = ["", "x" * 256, "a\x00b", "\ud800"]


@pytest.fixture
def memory(clock) -> MemoryStore:
    return MemoryStore(clock, most_bytes=1_000_000, most_links=10, most_link_bytes=100_000, most_page_bytes=100_000)


# ------------------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize("name", BAD_NAMES, ids=["empty", "long", "nul", "surrogate"])
async def test_what_cannot_be_a_name_is_not_found_and_not_written(memory, clock, name: str) -> None:
    store = guarded(memory, HistoryConfig(), clock)
    for operation in (
        response(clock, name),
        response(clock, "r", previous_id=name),
        response(clock, "r", item_ids=("a", name)),
        conversation(clock, name),
        AppendItems("conv_1", (item(clock, name),)),
        AppendEvents(name, ()),
        record(clock, name),
        record(clock, "b", kind=name),
    ):
        with pytest.raises(InvalidRequest):
            await store.write("acme", [operation])
    if name:
        with pytest.raises(InvalidRequest):
            await store.write(name, [response(clock)])
        assert await store.response(name, "resp_1") is None
        assert await store.erase(name) == 0
        assert [each async for each in store.export(name)] == []
    assert await store.response("acme", name) is await store.chain("acme", name) is None
    assert await store.conversation("acme", name) is await store.item("acme", "conv_1", name) is None
    assert (await store.items("acme", name)).data == (await store.items("acme", "conv_1", after=name)).data == ()
    assert await store.record("acme", "batch", name) is None
    assert (await store.events("acme", name), await store.last_event("acme", name)) == ((), -1)
    assert await store.holding("acme", [name]) == ()


# ------------------------------------------------------------------------------------------------- how long, and whether


async def test_what_brings_no_time_is_kept_as_long_as_the_settings_say(memory, clock) -> None:
    config = HistoryConfig(responses_s=100, records_s=200, conversations_s=300, events_s=600)
    store = guarded(memory, config, clock)
    now = clock.time()
    await store.write(
        "acme",
        [response(clock), record(clock, "b"), conversation(clock), response(clock, "own", expires_at=now + 5)],
    )
    await store.write("acme", [AppendEvents("resp_1", (StoredEvent(0, b"{}"),))])

    assert (await store.response("acme", "resp_1")).expires_at == now + 100
    assert (await store.response("acme", "own")).expires_at == now + 5
    assert (await store.record("acme", "batch", "b")).expires_at == now + 200
    assert (await store.conversation("acme", "conv_1")).expires_at == now + 300
    clock.advance(599)
    assert await store.last_event("acme", "resp_1") == 0
    clock.advance(1)
    assert await store.last_event("acme", "resp_1") == -1


async def test_nothing_is_written_of_a_tenant_or_a_key_under_zero_retention(memory, clock) -> None:
    store = guarded(memory, HistoryConfig(zero_retention=("acme", "other/key-1")), clock)

    assert [store.keeps("acme"), store.keeps("acme", "k"), store.keeps("other"), store.keeps("other", "key-1")] == [
        *(False, False, True, False)
    ]
    with pytest.raises(NotKept):
        await store.write("acme", [response(clock)])
    with pytest.raises(NotKept):
        await store.write("other", [response(clock)], principal="key-1")
    with pytest.raises(NotKept):
        await store.acquire("acme", "response", "resp_1", "one", 30)
    await store.write("other", [response(clock)], principal="key-2")
    assert await memory.response("acme", "resp_1") is None
    assert await memory.response("other", "resp_1") is not None
    assert not guarded(memory, HistoryConfig(zero_retention=("*",)), clock).keeps("anybody")


# ------------------------------------------------------------------------------------------------------------- hooks


class Notes:
    """A hook that writes down what it is called for, and changes or rejects what it is told to."""

    def __init__(self, change=None, reject=()) -> None:
        self.seen, self._change, self._reject = [], change or {}, reject

    async def before(self, call):
        self.seen.append(("before", call.method, call.tenant, call.principal))
        if call.method in self._reject:
            raise Rejected("Not today.")
        return self._change.get(call.method)

    async def after(self, call, result):
        self.seen.append(("after", call.method, result))


async def test_hooks_see_every_call_before_and_after(memory, clock) -> None:
    notes = Notes()
    store = guarded(memory, HistoryConfig(), clock, [notes])
    await store.write("acme", [response(clock)], principal="key-1")
    found = await store.response("acme", "resp_1")
    with pytest.raises(InvalidRequest):
        await store.write("acme", [response(clock, "")])

    assert notes.seen == [
        ("before", "write", "acme", "key-1"),
        ("after", "write", None),
        ("before", "response", "acme", ""),
        ("after", "response", found),
        ("before", "write", "acme", ""),
    ]


async def test_a_hook_changes_what_is_written_and_what_is_asked_for(memory, clock) -> None:
    redacted = (response(clock, body=b'{"text":"***"}'),)
    store = guarded(memory, HistoryConfig(), clock, [Notes({"write": {"operations": redacted}}), Notes()])
    await store.write("acme", [response(clock, body=b'{"text":"secret"}')])
    assert (await store.response("acme", "resp_1")).body == b'{"text":"***"}'

    store = guarded(memory, HistoryConfig(), clock, [Notes({"response": {"id": "resp_1"}})])
    assert (await store.response("acme", "resp_9")).id == "resp_1"
    assert await store.response("other", "resp_1") is None


@pytest.mark.parametrize("method", ["write", "response", "chain", "items", "acquire", "erase"])
async def test_a_hook_rejects(memory, clock, method: str) -> None:
    store = guarded(memory, HistoryConfig(), clock, [Notes(reject={method})])
    calls = {
        "write": lambda: store.write("acme", [response(clock)]),
        "response": lambda: store.response("acme", "resp_1"),
        "chain": lambda: store.chain("acme", "resp_1"),
        "items": lambda: store.items("acme", "conv_1"),
        "acquire": lambda: store.acquire("acme", "response", "resp_1", "one", 30),
        "erase": lambda: store.erase("acme"),
    }
    with pytest.raises(Rejected, match="Not today"):
        await calls[method]()
    assert await memory.response("acme", "resp_1") is None


# -------------------------------------------------------------------------------------------------------- encryption


async def test_texts_are_encrypted_at_rest_and_read_after_a_rotation(memory, clock) -> None:
    first = guarded(memory, HistoryConfig(keys=(KEY,)), clock)
    secret, big = b'"a secret"', b'"' + b"s" * 300_000 + b'"'
    await first.write(
        "acme",
        [
            response(clock, body=secret, input=secret, output=big),
            AppendEvents("resp_1", (StoredEvent(0, secret),)),
            conversation(clock, metadata=secret),
            AppendItems("conv_1", (item(clock, "a", secret),)),
            record(clock, "b", body=secret),
        ],
    )
    raw = [part for table in [each async for each in memory.export("acme")] for part in table.parts.values()]
    assert len(raw) == 7
    assert not any(b"secret" in part or b"s" * 20 in part for part in raw)

    rotated = guarded(memory, HistoryConfig(keys=(OTHER_KEY, KEY)), clock)
    assert (await rotated.response("acme", "resp_1")).output == big
    await rotated.write("acme", [response(clock, body=secret)])
    with pytest.raises(StoreFailed, match="'k2'"):
        await first.response("acme", "resp_1")
    only_new = guarded(memory, HistoryConfig(keys=(OTHER_KEY,)), clock)
    assert (await only_new.response("acme", "resp_1")).body == secret
    with pytest.raises(StoreFailed, match="'k1'"):
        await only_new.record("acme", "batch", "b")


async def test_what_was_kept_in_the_clear_is_still_read(memory, clock) -> None:
    await memory.write("acme", [response(clock, body=b'{"old":1}')])

    assert (await guarded(memory, HistoryConfig(keys=(KEY,)), clock).response("acme", "resp_1")).body == b'{"old":1}'


async def test_a_text_that_was_changed_or_moved_does_not_open(memory, clock) -> None:
    store = guarded(memory, HistoryConfig(keys=(KEY,)), clock)
    await store.write("acme", [response(clock, body=b'"mine"')])
    kept = (await memory.response("acme", "resp_1")).body

    await memory.write("other", [response(clock, body=kept)])
    await memory.write("acme", [response(clock, "resp_2", body=kept), response(clock, "resp_3", body=kept[:-1] + b"x")])
    for tenant, id in (("other", "resp_1"), ("acme", "resp_2"), ("acme", "resp_3")):
        with pytest.raises(StoreFailed, match="changed or moved") as failed:
            await store.response(tenant, id)
        assert "mine" not in str(failed.value)


@pytest.mark.parametrize("key", ["k1", "k1=abc", "=AAAA", "k1=" + base64.b64encode(bytes(16)).decode()])
def test_a_key_that_is_none_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Cipher([key], bytes)
    assert "abc" not in str(refused.value)


# -------------------------------------------------------------------------------------------------- memory, and failures


async def test_memory_is_bounded_and_the_oldest_goes_first(clock) -> None:
    store = MemoryStore(clock, most_bytes=100_000, most_links=10, most_link_bytes=1000, most_page_bytes=1000)
    await store.write("acme", [response(clock, "work", pending=True)])
    for n in range(30):
        await store.write("acme", [response(clock, f"resp_{n}", body=b"x" * 10_000)])

    there = [n for n in range(30) if await store.response("acme", f"resp_{n}")]
    assert there == list(range(22, 30))
    assert await store.response("acme", "work") is not None
    with pytest.raises(StoreFailed) as failed:
        await store.write("acme", [DeleteResponse("resp_29"), response(clock, "huge", body=b"x" * 200_000)])
    assert failed.value.reason == "full"
    assert await store.response("acme", "resp_29") is not None


async def test_in_a_full_memory_who_has_most_loses_first_and_virtual_keys_stay(clock) -> None:
    store = MemoryStore(clock, most_bytes=100_000, most_links=10, most_link_bytes=1000, most_page_bytes=1000)
    await store.write(KEYS_OWNER, [record(clock, "key_1")])
    for n in range(2):
        await store.write("small", [response(clock, f"resp_{n}", body=b"x" * 10_000)])
    for n in range(20):
        await store.write("large", [response(clock, f"resp_{n}", body=b"x" * 10_000)])
    for n in range(6):  # a file grows as long as its tenant loses but its own
        await store.write("large", [AppendEvents("file", (StoredEvent(n, b"x" * 10_000),), None)])
    with pytest.raises(StoreFailed) as failed:
        await store.write("large", [AppendEvents("file", (StoredEvent(6, b"x" * 20_000),), None)])

    assert failed.value.reason == "full"
    assert [await store.response("small", f"resp_{n}") is not None for n in range(2)] == [True, True]
    assert await store.response("large", "resp_19") is None
    assert await store.record(KEYS_OWNER, "batch", "key_1") is not None


async def test_nobody_loses_what_others_write_who_have_more(clock) -> None:
    """Tenants write by turns into a full memory: each keeps as much as the others, within one object."""
    store = MemoryStore(clock, most_bytes=120_000, most_links=10, most_link_bytes=1000, most_page_bytes=1000)
    for n in range(40):
        for tenant in ("a", "b", "c") if n < 30 else ("a",):
            await store.write(tenant, [response(clock, f"resp_{n}", body=b"x" * 4_000)])
    kept = {
        tenant: sum([await store.response(tenant, f"resp_{n}") is not None for n in range(40)])
        for tenant in ("a", "b", "c")
    }

    assert max(kept.values()) - min(kept.values()) <= 1
    assert sum(kept.values()) >= 22


@pytest.mark.parametrize("url", ["mysql://x/y", "sqllite:///x", "nonsense"])
async def test_a_url_of_no_store_is_refused(clock, url: str) -> None:
    with pytest.raises(ConfigError, match="there is no store"):
        await open_history(HistoryConfig(url=url), clock)


@pytest.mark.full
@pytest.mark.parametrize(
    "url", ["redis://127.0.0.1:1/0", "postgresql://u:hidden@127.0.0.1:1/db", "sqlite:////no/where/x.db"]
)
async def test_a_store_that_cannot_be_reached_stops_the_start_of_a_gateway(url: str) -> None:
    gateway = Gateway(config=Config(history=HistoryConfig(url=url, timeout_s=5)))
    with pytest.raises(StoreFailed) as failed:
        await gateway.start()
    assert failed.value.reason == "unreachable"
    assert "hidden" not in str(failed.value)
    assert not gateway.started


async def test_a_redis_that_is_full_is_said(valkey, schema, clock) -> None:
    async with opens_redis(valkey, f"{schema}:", clock)() as store:
        await store.write("acme", [response(clock)])
        control = redis.Redis.from_url(valkey)
        try:
            control.config_set("maxmemory-policy", "noeviction")
            control.config_set("maxmemory", 1)
            with pytest.raises(StoreFailed) as failed:
                await store.write("acme", [response(clock, "resp_2")])
            await store.write("acme", [DeleteResponse("resp_1")])
        finally:
            control.config_set("maxmemory", 0)
            control.close()
        assert failed.value.reason == "full"
        assert await store.response("acme", "resp_1") is await store.response("acme", "resp_2") is None


@pytest.mark.full
async def test_a_gateway_opens_the_history_and_closes_it(tmp_path) -> None:
    store = DefaultStore(gateway_name(Config()), {"XDG_STATE_HOME": str(tmp_path)})
    config = store.filled_in(Config())
    file = tmp_path / "smg-gateway" / "gateway-127.0.0.1_3a8000" / "history.db"
    assert (config.history.url, file.stat().st_mode & 0o777) == (f"sqlite:///{file}", 0o600)
    assert [each.stat().st_mode & 0o777 for each in (file.parent, file.parent.parent)] == [0o700, 0o700]
    assert store.filled_in(config) is config

    gateway = Gateway(config=config)
    await gateway.start()
    await gateway.history.write("acme", [response(gateway.services.clock)])
    await gateway.stop()
    await gateway.start()
    assert await gateway.history.response("acme", "resp_1") is not None
    await gateway.stop()
    store.close()
