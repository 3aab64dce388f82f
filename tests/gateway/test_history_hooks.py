"""A hook of the history that refuses a call, fails or waits: it costs what the call was for, and nothing else."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import pytest
from tests.gateway.conftest import eventually, in_process
from tests.gateway.test_background import BRISK, ENDLESS, client_of
from tests.shared import PATIENCE

from smg_core import Config
from smg_core.history.base import DeleteResponse
from smg_core.history.hooks import Rejected, StoreCall

pytestmark = pytest.mark.anyio


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
