"""Code of a plugin in the task of a request: what it does to the task is its failure, what others do to it is never lost."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shared import PATIENCE

from smg_core.errors import InvalidRequest
from smg_core.middleware.asking import app_verdict, hook_verdict
from smg_core.middleware.base import MiddlewareFault
from smg_core.middleware.own_task import InTask, Taskless

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def own() -> "asyncio.Task[Any]":
    task = asyncio.current_task()
    assert task is not None
    return task


async def in_task(code: Callable[[], Coroutine[Any, Any, object]], cancelled: int = 0) -> tuple[object, int, bool]:
    """What comes of code of a plugin in a task of its own, which is cancelled from outside in so many turns of the loop; the
    cancellations that are left, and whether one of them arrives behind the code."""
    found: list[Any] = []

    async def request() -> None:
        try:
            found.append(await InTask(code()))
        except (asyncio.CancelledError, MiddlewareFault, GeneratorExit, InvalidRequest) as error:
            found.append(error)
        found.append(own().cancelling())
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            found.append(True)
        else:
            found.append(False)

    async with asyncio.timeout(PATIENCE):
        task = asyncio.create_task(request())
        for _ in range(cancelled):
            await asyncio.sleep(0)
        if cancelled:
            task.cancel()
        await asyncio.wait([task])
    return tuple(found)  # type: ignore[return-value]


async def swallowing() -> str:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return "went on"
    return ""


async def failing() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        raise GeneratorExit


async def waiting() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("code", [waiting, swallowing, failing])
async def test_a_cancellation_from_outside_passes_whatever_the_code_makes_of_it(code: Any) -> None:
    error, left, again = await in_task(code, 2)
    assert isinstance(error, asyncio.CancelledError)
    assert (left, again) == (1, False)


async def cancelling() -> str:
    own().cancel()
    return "passed"


async def cancelling_and_waiting() -> None:
    own().cancel()
    await asyncio.sleep(0)


async def cancelling_twice_and_going_on() -> str:
    own().cancel()
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        own().cancel()
    return "went on"


@pytest.mark.parametrize("code", [cancelling, cancelling_and_waiting, cancelling_twice_and_going_on])
async def test_code_that_cancels_its_task_has_failed_and_the_task_goes_on(code: Any) -> None:
    error, left, again = await in_task(code)
    assert isinstance(error, MiddlewareFault)
    assert error.reason == "cancelled the task of its request"
    assert (left, again) == (0, False)


@pytest.mark.parametrize("code", [cancelling, cancelling_and_waiting])
async def test_a_cancellation_from_outside_that_comes_with_one_of_the_codes_own_is_not_lost(code: Any) -> None:
    error, left, _ = await in_task(code, 1)
    assert isinstance(error, asyncio.CancelledError)
    assert left == 1


async def test_a_cancellation_that_came_before_the_code_is_not_lost() -> None:
    async def request() -> None:
        own().cancel()
        await InTask(cancelling())

    task = asyncio.create_task(request())
    await asyncio.wait([task])
    assert task.cancelled()


async def test_a_task_that_has_been_cancelled_may_still_ask_plugins() -> None:
    found: list[str] = []

    async def request() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            found.append(await InTask(answering()))
            raise

    async def answering() -> str:
        await asyncio.sleep(0)
        return "told"

    task = asyncio.create_task(request())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert found == ["told"]
    assert task.cancelled()


async def test_a_cancellation_that_the_code_takes_back_at_once_does_not_arrive() -> None:
    async def code() -> str:
        own().cancel()
        own().uncancel()
        return "passed"

    assert await in_task(code) == ("passed", 0, False)


async def test_a_timeout_of_the_code_is_its_own() -> None:
    async def code() -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            return "late"
        return ""

    assert await in_task(code) == ("late", 0, False)


async def test_a_failure_of_code_that_is_late_is_that_it_is_late() -> None:
    with pytest.raises(MiddlewareFault, match="longer than its deadline"):
        await hook_verdict(failing, 0.0)
    with pytest.raises(MiddlewareFault, match="longer than its deadline"):
        await hook_verdict(swallowing, 0.0)
    assert own().cancelling() == 0


@pytest.mark.parametrize("kind", [GeneratorExit, asyncio.CancelledError, SystemExit, KeyboardInterrupt, StopIteration])
async def test_whatever_code_raises_is_its_failure(kind: type[BaseException]) -> None:
    async def code() -> None:
        raise kind

    with pytest.raises(MiddlewareFault):
        await hook_verdict(code, PATIENCE)
    with pytest.raises(MiddlewareFault):
        await app_verdict(code, lambda: False)


async def test_a_refusal_passes() -> None:
    async def code() -> None:
        raise InvalidRequest("no")

    with pytest.raises(InvalidRequest):
        await hook_verdict(code, PATIENCE)


async def test_code_is_closed_with_what_awaits_it() -> None:
    closed: list[str] = []

    async def code() -> None:
        try:
            await asyncio.Event().wait()
        except GeneratorExit:
            closed.append("closed")
            raise

    asked = hook_verdict(code, PATIENCE)
    asked.send(None)
    asked.close()
    assert closed == ["closed"]


async def test_a_client_that_left_while_an_app_computed_is_not_the_apps_failure() -> None:
    async def code() -> None:
        own().cancel()
        await asyncio.sleep(0)

    task = asyncio.create_task(app_verdict(code, lambda: True))
    await asyncio.wait([task])
    assert task.cancelled()


async def test_a_plain_call_has_no_task() -> None:
    before = own()
    with Taskless():
        assert asyncio.current_task() is None
    assert own() is before


def test_a_plain_call_needs_no_loop() -> None:
    with Taskless():
        pass


ACTS = st.lists(st.sampled_from(["wait", "cancel", "swallow", "take back"]), max_size=8)


async def acting(acts: list[str], came: list[bool]) -> str:
    """Cancels its task, and takes that back, as `acts` say; "wait" lets what arrives pass. `came` are those from outside."""
    for act in acts:
        if act == "cancel":
            own().cancel()
        elif act == "take back":
            if own().cancelling() > len(came):
                own().uncancel()
        else:
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                if act == "wait":
                    raise
    return "passed"


@given(acts=ACTS, turn=st.integers(0, 6))
def test_whatever_code_does_a_cancellation_from_outside_is_kept_and_none_of_its_own_stays(
    acts: list[str], turn: int
) -> None:
    came: list[bool] = []

    async def request() -> object:
        try:
            return await InTask(acting(acts, came))
        except MiddlewareFault:
            return "failed"
        finally:
            assert own().cancelling() == len(came)

    async def all_of_it() -> None:
        task = asyncio.create_task(request())
        for _ in range(turn):
            await asyncio.sleep(0)
        if turn and not task.done():
            came.append(True)
            task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() == bool(came), (acts, turn)
        if not came:
            assert task.result() in ("passed", "failed")
            if "cancel" not in acts:
                assert task.result() == "passed"

    asyncio.run(all_of_it())


async def _child(turns: int, fails: bool) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)
    if fails:
        raise ValueError("a child")


async def grouping(turns: int, fails: bool, waits: int) -> str:
    """A group of children, of which one may fail while the group, or its body, waits; goes on afterwards."""
    told = "whole"
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_child(turns, fails))
            group.create_task(_child(turns + 2, False))
            for _ in range(waits):
                await asyncio.sleep(0)
    except* ValueError:
        told = "caught"
    return told


@pytest.mark.parametrize("waits", [0, 1, 6])
@pytest.mark.parametrize("turns", [0, 1, 3])
async def test_a_group_of_tasks_works_as_it_does_elsewhere(turns: int, waits: int) -> None:
    assert await in_task(lambda: grouping(turns, False, waits)) == ("whole", 0, False)
    assert await in_task(lambda: grouping(turns, True, waits)) == ("caught", 0, False)


async def test_a_group_whose_child_fails_is_the_failure_that_it_raises() -> None:
    async def code() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(_child(1, True))

    with pytest.raises(MiddlewareFault, match="ExceptionGroup"):
        await hook_verdict(code, 60.0)
    assert own().cancelling() == 0


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("waits", [0, 1, 6])
@pytest.mark.parametrize("at", range(1, 10))
async def test_a_cancellation_from_outside_is_kept_beside_one_of_a_group(at: int, waits: int, fails: bool) -> None:
    """Whenever it comes: before the child fails, in the same turn, or after it."""
    found, left, _ = await in_task(lambda: grouping(3, fails, waits), cancelled=at)

    if isinstance(found, str):  # it was over before
        assert at > 3
    else:
        assert isinstance(found, asyncio.CancelledError)
        assert left == 1
