"""Plugins around the store of the history: they let calls happen, change texts, reject, and are told; both kinds of plugins."""

from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.gateway.conftest import in_process
from tests.gateway.test_plugins import listed
from tests.gateway.test_said import NUMBERS, SAID

from smg_core.errors import InternalError, PermissionDenied
from smg_core.history.store.base import (
    AppendEvents,
    AppendItems,
    DeleteRecord,
    PutConversation,
    PutRecord,
    PutResponse,
    StoredConversation,
    StoredEvent,
    StoredItem,
    StoredRecord,
    StoredResponse,
)
from smg_core.middleware.base import CONTINUE, ChangeStored, Reject, StorageCall, StorageVerdict
from smg_core.middleware.python import PythonPlugin

pytestmark = pytest.mark.anyio

HERE = "tests.core.middleware.test_storing"
GUESTS = Path(__file__).parents[2] / "guests"


class Keeper(PythonPlugin):
    """Writes "me at" in capitals, rejects what has "never", fails at "broken", and notes what it is told."""

    told: ClassVar[list[tuple[str, StorageCall]]] = []

    async def on_store(self, call: StorageCall) -> StorageVerdict:
        Keeper.told.append(("before", call))
        texts = " ".join([text for _, text in call.texts])
        if "never" in texts:
            return Reject(403, "This is not kept.")
        if "broken" in texts:
            raise RuntimeError("a secret of the plugin")
        if "no json" in texts:
            return ChangeStored(tuple((name, "{") for name, _ in call.texts))
        if "another" in texts:
            return ChangeStored((("other", "{}"),))
        changed = tuple((name, text.replace("me at", "ME AT")) for name, text in call.texts if "me at" in text)
        return ChangeStored(changed) if changed else CONTINUE

    async def on_stored(self, call: StorageCall) -> None:
        Keeper.told.append(("after", call))
        if call.operation == "erase":
            raise RuntimeError("too late")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Keeper.told.clear()


def keeper(kind: str, **said: Any) -> dict[str, Any]:
    if kind == "component":
        return {"source": str(GUESTS / "storage.wasm"), "deadline_ms": 20_000, **said}
    return {"source": f"{HERE}:Keeper", **said}


KINDS = pytest.mark.parametrize("kind", ["python", "component"])


def record(text: str, kind: str = "note") -> PutRecord:
    return PutRecord(StoredRecord(kind=kind, id="r1", body=f'"{text}"'.encode(), created_at=1.0))


@KINDS
async def test_texts_are_kept_as_plugins_leave_them(tmp_path: Path, kind: str) -> None:
    async with in_process(config=listed(tmp_path, keeper(kind))) as house:
        store = house.gateway.history
        response = StoredResponse(
            id="resp_1", body=b"{}", input=b'["me at in"]', output=b'["me at out"]', created_at=1.0
        )
        items = (
            StoredItem(id="i1", body=b'"me at one"', created_at=1.0),
            StoredItem(id="i2", body=b'"two"', created_at=1.0),
        )
        await store.write(
            "t1",
            [PutResponse(response), record("me at said"), PutConversation(StoredConversation(id="c1", created_at=1.0))],
        )
        await store.write("t1", [AppendItems("c1", items), AppendEvents("resp_1", (StoredEvent(0, b'"me at event"'),))])
        kept = await store.response("t1", "resp_1")
        assert kept is not None
        assert (kept.input, kept.output) == (b'["ME AT in"]', b'["ME AT out"]')
        assert (await store.record("t1", "note", "r1")).body == b'"ME AT said"'  # type: ignore[union-attr]
        assert [each.body for each in (await store.items("t1", "c1")).data] == [b'"ME AT one"', b'"two"']
        assert [each.data for each in await store.events("t1", "resp_1")] == [b'"ME AT event"']


@KINDS
async def test_a_call_that_is_rejected_does_not_happen_and_none_of_a_write_is_done(tmp_path: Path, kind: str) -> None:
    async with in_process(config=listed(tmp_path, keeper(kind))) as house:
        store = house.gateway.history
        with pytest.raises(PermissionDenied, match="This is not kept"):
            await store.write("t1", [record("fine", "first"), record("never")])
        assert await store.record("t1", "first", "r1") is None


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@KINDS
@pytest.mark.parametrize("fault", ["broken", "no json", "another"])
async def test_a_failure_counts_as_the_entry_says(tmp_path: Path, kind: str, fault: str) -> None:
    async with in_process(config=listed(tmp_path, keeper(kind))) as house:
        with pytest.raises(InternalError, match="A plugin of this gateway failed"):
            await house.gateway.history.write("t1", [record(fault)])
    async with in_process(config=listed(tmp_path, keeper(kind, on_failure="open"))) as house:
        await house.gateway.history.write("t1", [record(fault)])
        assert (await house.gateway.history.record("t1", "note", "r1")).body == f'"{fault}"'.encode()  # type: ignore[union-attr]


async def test_plugins_are_told_of_calls_by_name_before_and_after_and_of_no_leases(tmp_path: Path) -> None:
    async with in_process(config=listed(tmp_path, keeper("python"))) as house:
        store = house.gateway.history
        await store.write("t1", [record("x"), DeleteRecord("note", "r0")], principal="p1")
        await store.record("t1", "note", "r1")
        lease = await store.acquire("t1", "work", "w", "me", 5)
        assert lease is not None
        await store.release("t1", lease)
        assert await store.erase("t1") >= 1  # the plugin fails after it, which is reported and costs nothing

    seen = [(when, each.operation, each.kind, each.id, each.tenant, each.principal) for when, each in Keeper.told]
    assert seen == [
        ("before", "put-record", "note", "r1", "t1", "p1"),
        ("before", "delete-record", "note", "r0", "t1", "p1"),
        ("after", "put-record", "note", "r1", "t1", "p1"),
        ("after", "delete-record", "note", "r0", "t1", "p1"),
        ("before", "record", "note", "r1", "t1", ""),
        ("after", "record", "note", "r1", "t1", ""),
        ("before", "erase", "", "", "t1", ""),
        ("after", "erase", "", "", "t1", ""),
    ]


async def test_plugins_for_other_tenants_are_not_asked(tmp_path: Path) -> None:
    async with in_process(config=listed(tmp_path, keeper("python", tenants=["t2"]))) as house:
        await house.gateway.history.write("t1", [record("x")])
        await house.gateway.history.write("t2", [record("x")])

    assert {each.tenant for _, each in Keeper.told} == {"t2"}


@KINDS
async def test_what_a_response_said_is_kept_as_a_plugin_leaves_it_and_answered_as_it_was(
    tmp_path: Path, kind: str
) -> None:
    async with in_process(NUMBERS, config=listed(tmp_path, keeper(kind))) as house:
        made = (await house.http.post("/v1/responses", json={"model": "sim", "input": "Hi", "store": True})).json()
        kept = (await house.http.get(f"/v1/responses/{made['id']}")).json()

    assert made["output"][0]["content"][0]["text"] == SAID
    assert kept["output"][0]["content"][0]["text"] == SAID.replace("me at", "ME AT")


async def test_what_is_no_text_is_not_kept_where_plugins_would_have_to_be_shown_it(tmp_path: Path) -> None:
    async with in_process(config=listed(tmp_path, keeper("python"))) as house:
        with pytest.raises(PermissionDenied, match="could not be shown"):
            await house.gateway.history.write("t1", [AppendEvents("f", (StoredEvent(0, b"\xff\xfe"),))])
