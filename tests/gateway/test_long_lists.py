"""What an API lists from the history is read and written off the event loop where it is long, and in pages that others can answer
between."""

import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.gateway.conftest import House, in_process
from tests.gateway.test_admin import ADMIN, VIRTUAL, bearer, opened

from smg_core.app.app import App
from smg_core.batches.states import BATCH, MESSAGE_BATCH, batch_record
from smg_core.batches.types import KeptBatch
from smg_core.files.kept import file_record
from smg_core.files.types import KeptFile
from smg_core.history.store.base import (
    AppendItems,
    PutConversation,
    PutResponse,
    StoredConversation,
    StoredItem,
    StoredResponse,
)
from smg_core.pipeline.calls.executor import INLINE
from smg_core.wire.json_text import encode_body
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

MANY = 1000
LONG = "n" * 255


def files(now: float) -> list[Any]:
    return [
        file_record(KeptFile(f"file-{n:04}", LONG, "batch", 5, now + n, now + 9999, log="x", pieces=0))
        for n in range(MANY)
    ]


def batches(kind: str, prefix: str, endpoint: str) -> Callable[[float], list[Any]]:
    def made(now: float) -> list[Any]:
        return [
            batch_record(
                KeptBatch(
                    id=f"{prefix}{n:04}",
                    endpoint=endpoint,
                    status="completed",
                    created_at=now + n,
                    expires_at=now + 9999,
                    metadata={"about": LONG * 2},
                ),
                kind,
                9999,
                version=0,
            )
            for n in range(MANY)
        ]

    return made


def items(now: float) -> list[Any]:
    ids = [f"msg_{n:03}" for n in range(100)]
    told = tuple(StoredItem(id=id, body=encode_body({"id": id, "content": LONG * 4}), created_at=now) for id in ids)
    conversation = StoredConversation(id="conv_1", created_at=now, metadata=b"{}")
    return [PutConversation(conversation), AppendItems("conv_1", told)]


def input_items(now: float) -> list[Any]:
    told = [{"type": "message", "role": "user", "content": LONG * 4, "id": f"msg_{n:03}"} for n in range(100)]
    kept = StoredResponse(id="resp_1", body=b"{}", input=encode_body(told), output=b"[]", created_at=now)
    return [PutResponse(kept)]


LISTS = {
    "/v1/files": (files, "?limit=1000"),
    "/v1/files?purpose": (files, "?purpose=batch"),
    "/v1/batches": (batches(BATCH, "batch_", "/v1/chat/completions"), "?limit=100"),
    "/v1/messages/batches": (batches(MESSAGE_BATCH, "msgbatch_", "/v1/messages"), "?limit=1000"),
    "/v1/conversations/{id}/items": (items, "?limit=100"),
    "/v1/responses/{id}/input_items": (input_items, "?limit=100"),
}
IDS = {"conversations": "conv_1", "responses": "resp_1"}
NO_LISTS = {
    "/v1/models",
    "/v1alpha/models",
    "/v1beta/models",
    "/v1beta1/models",
    "/v1/files/{id}/content",
    *("/v1beta/files", "/v1alpha/files"),
    *(f"/{version}/files/{{id}}:download" for version in ("v1", "v1beta", "v1alpha")),
    "/v1/messages/batches/{id}/results",
    "/v1/usage",
    *("/v1/containers", "/v1/containers/{id}/files", "/v1/containers/{id}/files/{file_id}/content"),
    *("/v1/vector_stores", "/v1/vector_stores/{id}/files", "/v1/vector_stores/{id}/files/{file_id}/content"),
    "/v1/vector_stores/{id}/file_batches/{batch_id}/files",
}
"""What no client decides the length of, has a hundred things at most, is sent piece by piece, or read by a thread in pages."""


class Seen:
    """How many bytes each call of what reads and writes JSON was about, and whether it ran on the event loop."""

    def __init__(self) -> None:
        self.loop = threading.get_ident()
        self.calls: list[tuple[int, bool]] = []

    def watch(self, patch: pytest.MonkeyPatch, name: str, size: Callable[[Any, Any], int]) -> None:
        """Watch every function of this name, wherever it was imported."""
        for module in [each for name, each in sys.modules.items() if name.startswith("smg_core.")]:
            if (real := getattr(module, name, None)) is not None:
                patch.setattr(module, name, self._watched(real, size))

    def _watched(self, real: Callable[[Any], Any], size: Callable[[Any, Any], int]) -> Callable[[Any], Any]:
        def called(given: Any) -> Any:
            made = real(given)
            self.calls.append((size(given, made), threading.get_ident() == self.loop))
            return made

        return called


async def filled(house: House, operations: Sequence[Any]) -> None:
    for start in range(0, len(operations), 100):
        await house.gateway.history.write("", operations[start : start + 100])


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("name", LISTS)
async def test_a_long_list_is_read_and_written_off_the_event_loop(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, query = LISTS[name]
    async with in_process(SimulatorConfig(seed=1)) as house:
        await filled(house, made(house.gateway.services.clock.time()))
        path = name.replace("?purpose", "").replace("{id}", IDS.get(name.split("/")[2], ""))
        read, written = Seen(), Seen()
        for reader in ("read_kept_file", "read_kept_batch"):
            read.watch(monkeypatch, reader, lambda given, made: len(given))
        written.watch(monkeypatch, "encode_body", lambda given, made: len(made))
        answer = await house.http.get(path + query)
        assert answer.status_code == 200
        assert len(answer.json()["data"]) >= 100
    assert max(size for size, _ in written.calls) > INLINE
    assert [size for size, on_loop in written.calls if on_loop and size > INLINE] == []
    assert sum(size for size, on_loop in read.calls if on_loop) < INLINE


@pytest.mark.full
async def test_the_keys_at_the_admin_door_are_read_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(auth=VIRTUAL) as door:
        keys = door.house.gateway.virtual_keys
        assert keys is not None
        for number in range(200):
            await keys.create(tenant="acme", name=f"{number:032}")
        read = Seen()
        read.watch(monkeypatch, "read_key", lambda given, made: len(given))
        answer = await door.http.get("/admin/keys", headers=bearer(ADMIN))
    assert len(answer.json()["data"]) == 200
    assert sum(size for size, _ in read.calls) > INLINE
    assert sum(size for size, on_loop in read.calls if on_loop) < INLINE


async def test_others_have_their_turn_between_the_pages_of_a_long_list(monkeypatch: pytest.MonkeyPatch) -> None:
    async with in_process(SimulatorConfig(seed=1)) as house:
        await filled(house, files(house.gateway.services.clock.time()))
        read: list[int] = []
        records = house.gateway.history.records

        async def paged(*place: Any, **arguments: Any) -> Any:
            found = await records(*place, **arguments)
            read.append(len(found.data))
            return found

        monkeypatch.setattr(house.gateway.history, "records", paged)
        answer = await house.http.get("/v1/files")
    assert len(answer.json()["data"]) == MANY
    assert max(read) <= 200


async def test_every_list_of_an_api_is_among_those_tried() -> None:
    async with in_process(SimulatorConfig(seed=1)) as house:
        found = {route.pattern for route in App(house.gateway).routes if route.method == "GET"}
    lists = {each for each in found if each.startswith("/v1") and not each.endswith(("}", "}/models"))}
    assert lists - NO_LISTS == {name.partition("?")[0] for name in LISTS}
