"""A hook of the history that refuses a call, fails or waits: it costs what the call was for, and nothing else."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import attrs
import openai
import pytest
from tests.gateway import test_batches
from tests.gateway.conftest import eventually, in_process
from tests.gateway.test_background import BRISK, ENDLESS, QUICK, client_of, polled
from tests.gateway.test_batches import batch_of, line, over
from tests.shared import PATIENCE

from smg_core import Config
from smg_core.app.app import App
from smg_core.app.inprocess import async_client
from smg_core.history.hooks import Rejected, StoreCall
from smg_core.history.store.base import DeleteResponse
from smg_core.request import Caller
from smg_core.testing import FakeClock
from smg_simulator.answers.faults import Fault

pytestmark = pytest.mark.anyio

STALLED = attrs.evolve(ENDLESS, faults=(Fault("stall", after=3),))


class Asked:
    """A hook: `before` and `after` are called with each call, whose names are in `done` once it has happened."""

    def __init__(
        self,
        before: Callable[[StoreCall], Awaitable[None]] | None = None,
        after: Callable[[StoreCall], None] = lambda call: None,
    ) -> None:
        self._before, self._after = before, after
        self.done: list[str] = []

    async def before(self, call: StoreCall) -> Mapping[str, object] | None:
        if self._before is not None:
            await self._before(call)
        return None

    async def after(self, call: StoreCall, result: object) -> None:
        self.done.append(call.method)
        self._after(call)


def deletes_response(call: StoreCall) -> bool:
    operations = call.arguments.get("operations")
    return isinstance(operations, tuple) and any(isinstance(each, DeleteResponse) for each in operations)


# ------------------------------------------------------------------------------------------------------- clearing up a response


async def test_a_run_that_is_cancelled_again_while_it_clears_up_is_counted_no_more_and_has_no_lease() -> None:
    """It is cancelled by the client that deletes it, and while the store does not answer by the gateway that stops."""
    deleted, waits, never = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def before(call: StoreCall) -> None:
        if call.method == "response" and deleted.is_set():
            waits.set()
            await never.wait()

    hook = Asked(before, lambda call: deleted.set() if deletes_response(call) else None)
    async with in_process(ENDLESS, config=Config(responses=BRISK), history_hooks=[hook]) as house:
        client = client_of(house)
        made = await client.responses.create(model="sim", input="Hello", background=True)
        await eventually(lambda: house.engine.active)
        await client.responses.delete(made.id)
        async with asyncio.timeout(PATIENCE):
            await waits.wait()
        counted = house.gateway.in_flight
        await house.gateway.stop()

    assert (counted, house.gateway.in_flight) == (1, 0)
    assert "release" in hook.done


async def test_a_run_whose_response_a_hook_lets_nobody_read_is_counted_no_more_and_has_no_lease() -> None:
    taken = asyncio.Event()

    async def before(call: StoreCall) -> None:
        if call.method == "acquire":
            taken.set()
        if call.method == "response" and taken.is_set():
            raise Rejected("Not now.")

    hook = Asked(before)
    async with in_process(ENDLESS, config=Config(responses=BRISK), history_hooks=[hook]) as house:
        await client_of(house).responses.create(model="sim", input="Hello", background=True)
        await eventually(lambda: "release" in hook.done)
        await eventually(lambda: not house.gateway.in_flight)


# ------------------------------------------------------------------------------------------------- the queues and their guards


@pytest.mark.full
async def test_a_hook_that_lets_nothing_of_one_tenant_be_run_holds_up_no_other() -> None:
    async def before(call: StoreCall) -> None:
        if call.method == "acquire" and call.tenant == "a":
            refused.add(str(call.arguments["kind"]))
            raise Rejected("Not this one.")

    async def identify(head: Any) -> Caller:
        return Caller(tenant=head.headers["authorization"].removeprefix("Bearer "))

    refused: set[str] = set()
    config = Config(responses=BRISK, batches=test_batches.BRISK)
    async with in_process(QUICK, config=config, history_hooks=[Asked(before)]) as house:
        app = App(house.gateway, identify)

        def of(tenant: str) -> openai.AsyncOpenAI:
            http = async_client(app, openai)
            return openai.AsyncOpenAI(api_key=tenant, base_url="http://gateway/v1", http_client=http, max_retries=0)

        async with of("a") as a, of("b") as b:
            waits = [await made_by(a), await batch_of(a, line("a"))]
            await eventually(lambda: len(refused) == 2)
            ended = await polled(b, (await made_by(b)).id)
            over_too = await over(b, (await batch_of(b, line("a"))).id)
            still = [await a.responses.retrieve(waits[0].id), await a.batches.retrieve(waits[1].id)]

    assert (ended.status, over_too.status) == ("completed", "completed")
    assert [each.status for each in still] == ["queued", "validating"]


async def made_by(client: openai.AsyncOpenAI) -> Any:
    return await client.responses.create(model="sim", input="Hello", background=True)


@pytest.mark.parametrize("make", [made_by, lambda client: batch_of(client, line("a", max_completion_tokens=3000))])
async def test_a_hook_that_refuses_to_look_at_a_run_once_does_not_end_the_renewal_of_its_lease(
    make: Callable[[openai.AsyncOpenAI], Awaitable[Any]],
) -> None:
    """What is looked at while an engine answers is looked at by the guard of the lease."""
    clock, engine_asked, refused = FakeClock(), asyncio.Event(), asyncio.Event()

    async def before(call: StoreCall) -> None:
        if call.method == "record" and engine_asked.is_set() and not refused.is_set():
            refused.set()
            raise Rejected("Not now.")

    hook = Asked(before)
    config = Config(responses=BRISK, batches=test_batches.BRISK)
    async with in_process(STALLED, config=config, history_hooks=[hook], clock=clock) as house:
        await make(client_of(house))
        await eventually(lambda: house.engine.active)
        engine_asked.set()
        async with asyncio.timeout(PATIENCE):
            await refused.wait()
        clock.advance(BRISK.lease_s / 3)
        await eventually(lambda: "renew" in hook.done)
        under_way = house.engine.active

    assert (under_way, hook.done.count("acquire")) == (1, 1)


async def test_what_ends_beside_the_requests_is_told(caplog: pytest.LogCaptureFixture) -> None:
    class Ends:
        async def run(self) -> None:
            raise RuntimeError("no more")

    async with in_process(QUICK) as house:
        house.gateway.services.side_tasks.one_of(Ends, Ends)
        await eventually(lambda: "Ends, which runs beside the requests, failed" in caplog.text)


# ------------------------------------------------------------------------------------------------------- a drain and a slow store


@pytest.mark.parametrize("background", [False, True])
async def test_a_request_that_was_admitted_counts_while_the_history_is_asked_for_what_came_before(
    background: bool,
) -> None:
    """Else a gateway that drains could be told to have none left, and have one begin after that."""
    waits, go_on, asked = asyncio.Event(), asyncio.Event(), False

    async def before(call: StoreCall) -> None:
        if asked:
            waits.set()
            await go_on.wait()

    async with in_process(QUICK, config=Config(responses=BRISK), history_hooks=[Asked(before)]) as house:
        given = {"model": "sim", "input": "Hello"}
        first = (await house.http.post("/v1/responses", json=given)).json()["id"]
        asked = True
        more = {"background": True} if background else {}
        body = {**given, **more, "previous_response_id": first}
        answer = asyncio.create_task(house.http.post("/v1/responses", json=body))
        async with asyncio.timeout(PATIENCE):
            await waits.wait()
        house.gateway.drain()
        counted = house.gateway.in_flight
        go_on.set()
        status = (await answer).status_code
        refused = await house.http.post("/v1/responses", json=given)
        left = house.gateway.in_flight

    assert (counted, left) == (1, 0)
    assert status == (503 if background else 200)  # it would begin after the drain, and can be kept elsewhere
    assert refused.status_code == 503
