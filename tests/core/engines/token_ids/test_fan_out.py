"""One request for several choices as a call for each: whatever the calls do, one answer comes of it."""

import asyncio
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.conftest import eventually

from smg_core.engines.base import EngineOutput, EngineRequest
from smg_core.engines.codecs.mlx.calls import abort as mlx_abort
from smg_core.engines.codecs.mlx.codec import MlxCodec
from smg_core.engines.token_ids.client import EngineClient
from smg_core.engines.token_ids.fan_out import FanOut, requests_of
from smg_core.errors import EngineFailed, SmgError, WorkerGone
from smg_core.request import Sampling
from smg_core.tokens import TokenIds


@attrs.define
class Told:
    """A call or a sink that takes down what it is told."""

    got: list[tuple[int, int]] = attrs.field(factory=list)
    ends: list[SmgError | None] = attrs.field(factory=list)
    orders: list[str] = attrs.field(factory=list)

    def push(self, outputs: Sequence[EngineOutput]) -> None:
        assert not self.ends
        self.got += [(each.index, token) for each in outputs for token in each.ids]

    def closed(self, error: SmgError | None) -> None:
        self.ends.append(error)

    def cancel(self) -> None:
        self.orders.append("cancel")

    def leave(self) -> None:
        self.orders.append("leave")

    def pause(self) -> None:
        self.orders.append("pause")

    def resume(self) -> None:
        self.orders.append("resume")


def asked(n: int, seed: int | None = None) -> EngineRequest:
    return EngineRequest("r", TokenIds([1]), Sampling(n=n, seed=seed))


@given(st.integers(1, 130), st.none() | st.integers(0, 2**31 - 1))
def test_the_calls_have_ids_and_seeds_of_their_own_and_one_choice_each(n: int, seed: int | None) -> None:
    requests = requests_of(asked(n, seed))

    assert [each.sampling.n for each in requests] == [1] * n
    assert len({each.id for each in requests}) == n
    assert requests[0].id == "r"
    if seed is not None:
        seeds = [each.sampling.seed for each in requests]
        assert len(set(seeds)) == n
        assert seeds[0] == seed
        assert all(0 <= each < 2**31 for each in seeds if each is not None)


@given(st.data())
def test_however_the_calls_take_turns_there_is_one_end_and_it_is_the_first_error_or_the_last_close(data) -> None:
    count = data.draw(st.integers(2, 4))
    sink, calls, ended, left = Told(), [Told() for _ in range(count)], [], []
    fan = FanOut(range(count), sink, lambda: ended.append(True), on_left=lambda: left.append(len(ended)))
    branches = [fan.branch(index) for index in range(count)]
    for call in calls:
        fan.attach(call)
    open_, expected, error = set(range(count)), [], None
    for _ in range(data.draw(st.integers(0, 12))):
        if not open_ or error is not None:
            break
        index = data.draw(st.sampled_from(sorted(open_)))
        step = data.draw(st.sampled_from(["token", "token", "end", "error"]))
        if step == "token":
            branches[index].push([EngineOutput(ids=[7])])
            expected.append((index, 7))
        else:
            error = EngineFailed("no") if step == "error" else None
            open_.discard(index)
            branches[index].closed(error)
    over = error is not None or not open_
    for branch in branches if over else ():
        branch.push([EngineOutput(ids=[8])])
        branch.closed(None)

    assert sink.got == expected
    assert sink.ends == ([error] if over else [])
    assert len(ended) == over
    assert left == ([0] if error is not None and open_ else [])
    assert error is None or all(call.orders == ["cancel"] for call in calls)


def test_pausing_holds_every_call_those_too_that_start_later() -> None:
    fan, first, second = FanOut(range(2), Told(), lambda: None), Told(), Told()
    fan.attach(first)
    fan.pause()
    fan.attach(second)
    fan.resume()
    fan.cancel()
    late = Told()
    fan.attach(late)

    assert first.orders == second.orders == ["pause", "resume", "cancel"]
    assert late.orders == ["cancel"]


@attrs.define
class Wire:
    """A transport on which the call number `fails_at` cannot be started."""

    fails_at: int = -1
    started: list[Told] = attrs.field(factory=list)
    asked: list[bytes] = attrs.field(factory=list)
    receivers: list[Any] = attrs.field(factory=list)

    async def start(self, path: str, message: bytes, receiver, **more) -> Told:
        if len(self.started) == self.fails_at:
            raise WorkerGone("gone")
        self.receivers.append(receiver)
        self.started.append(Told())
        return self.started[-1]

    async def unary(self, path: str, message: bytes, **more) -> bytes:
        self.asked.append(message)
        return b""

    async def close(self) -> None:
        """Nothing is open."""


@pytest.mark.anyio
@pytest.mark.parametrize("fails_at", [0, 1, 2])
async def test_a_call_that_cannot_be_started_ends_those_that_were(fails_at: int) -> None:
    wire, sink = Wire(fails_at), Told()
    client = EngineClient(MlxCodec(), wire)
    if fails_at == 0:
        with pytest.raises(WorkerGone):
            await client.generate(asked(3), sink)
    else:
        await client.generate(asked(3), sink)
        assert [type(each) for each in sink.ends] == [WorkerGone]
    await eventually(lambda: len(wire.asked) == (3 if fails_at else 0))  # the engine may work on those that run
    wire.asked.clear()
    await client.abort("r")

    assert [each.orders for each in wire.started] == [["cancel"]] * fails_at
    assert len(wire.asked) == 1, "nothing is kept of a request that has ended"


@pytest.mark.anyio
async def test_where_one_choice_fails_the_engine_is_told_to_drop_the_others() -> None:
    wire, sink = Wire(), Told()
    client = EngineClient(MlxCodec(), wire)
    await client.generate(asked(3), sink)
    wire.receivers[1].closed(EngineFailed("no"))
    await eventually(lambda: len(wire.asked) == 3)

    assert [type(each) for each in sink.ends] == [EngineFailed]
    assert [message[2:].decode() for message in wire.asked] == ["r", "r-1", "r-2"]
    assert [each.orders for each in wire.started] == [["cancel"], [], ["cancel"]]


@pytest.mark.anyio
async def test_where_the_last_choice_fails_nothing_is_left_to_drop() -> None:
    wire, sink = Wire(), Told()
    client = EngineClient(MlxCodec(), wire)
    await client.generate(asked(1), sink)
    wire.receivers[0].closed(EngineFailed("no"))
    await client.close()

    assert (len(sink.ends), wire.asked) == (1, [])


@pytest.mark.anyio
async def test_an_abort_names_every_call_of_the_request() -> None:
    wire = Wire()
    client = EngineClient(MlxCodec(), wire)
    call = await client.generate(asked(3), Told())
    call.cancel()
    await client.abort("r")

    assert [message[2:].decode() for message in wire.asked] == ["r", "r-1", "r-2"]
    assert all(each.orders == ["cancel"] for each in wire.started)


def test_leaving_leaves_every_call_to_its_end_and_tells_nobody() -> None:
    sink, calls = Told(), [Told(), Told()]
    fan = FanOut(range(2), sink, lambda: None)
    for call in calls:
        fan.attach(call)
    fan.leave()
    fan.branch(0).closed(None)
    fan.branch(1).closed(WorkerGone("gone"))

    assert [call.orders for call in calls] == [["leave"], ["leave"]]
    assert (sink.got, sink.ends) == ([], [])


@pytest.mark.anyio
@pytest.mark.parametrize("told", [False, True])
async def test_nothing_is_kept_of_a_request_that_was_given_up_and_its_abort_names_every_call(told: bool) -> None:
    wire = Wire()
    client = EngineClient(MlxCodec(), wire)
    call = await client.generate(asked(3), Told())
    call.cancel()
    aborting = client.abort("r") if told else None
    for _ in range(3):
        await asyncio.sleep(0)
    assert not client._fanned
    if aborting is not None:
        await aborting

    assert wire.asked == [mlx_abort(each).message for each in (("r", "r-1", "r-2") if told else ())]


@pytest.mark.anyio
async def test_a_request_that_is_made_again_under_its_name_is_not_forgotten_with_the_first_one() -> None:
    wire = Wire()
    client = EngineClient(MlxCodec(), wire)
    (await client.generate(asked(3), Told())).cancel()
    await client.generate(asked(2), Told())
    await asyncio.sleep(0)
    await client.abort("r")

    assert wire.asked == [mlx_abort(each).message for each in ("r", "r-1")]
