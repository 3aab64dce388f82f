"""One of a pair is broken and the engines do not say which: it is found out, and the others are not left alone for it."""

import asyncio
import time
from collections import Counter
from typing import Any

import attrs
import pytest
from tests.gateway.conftest import House, eventually
from tests.gateway.test_prefill_decode import TEXT, Way, ask, calls, engine, idle, pools, settings, way

from smg_core.engines.base import EngineOutput, EngineRequest
from smg_core.errors import SmgError, WorkerGone
from smg_core.pipeline.settings import TimeoutsConfig
from smg_core.workers.settings import BreakerConfig
from smg_core.workers.worker import Worker
from smg_simulator.answers.faults import Fault, FaultKind
from smg_simulator.engine.clockwork import Timing

__all__ = ["way"]

pytestmark = pytest.mark.anyio
SETUPS = ((2, 2), (2, 1), (4, 2), (1, 2))
"""Prefill and decode engines."""
BREAKS = ("spoiled", "told as an output", "withheld", "failing")
"""How an engine is broken: its caches are another's, the same where the engine that takes them tells its failure as the end of an
output, its caches never come, it fails while it waits for one."""
CASES = [
    pytest.param(how, setup, id=f"{how}-{setup[0]}P{setup[1]}D")
    for how in BREAKS
    for setup in SETUPS
    if setup[how == "failing"] > 1  # the others of its kind can take its part
]


def broken(house: House, how: str) -> str:
    """Break one engine; its name."""
    if how == "failing":
        engine(house, "d0").inject(*[Fault("error")] * 200)
        return "d0"
    if how == "told as an output":
        for each in house.gateway.registry:
            if each.role == "decode":
                tell_failures_as_outputs(each)
        how = "spoiled"
    setattr(engine(house, "p0").exchange, how, True)
    return "p0"


def tell_failures_as_outputs(worker: Worker) -> None:
    """Have failures of a worker's calls come as the end of an output, as engines do that go on serving others."""
    reached: Any = worker.reached
    generate = reached.generate

    class Sink:
        def __init__(self, sink: Any) -> None:
            self.push, self._sink = sink.push, sink

        def closed(self, error: SmgError | None) -> None:
            if error is not None:
                self.push([EngineOutput(finish="error", prompt_tokens=5)])
            self._sink.closed(None)

    async def told(request: EngineRequest, sink: Any, **options: Any) -> Any:
        return await generate(request, Sink(sink), **options)

    reached.generate = told


@pytest.mark.full
@pytest.mark.parametrize("at_once", [1, 6])
@pytest.mark.parametrize(("how", "setup"), CASES)
async def test_whichever_engine_of_a_pair_is_broken_is_left_alone_and_no_other(
    how: str, setup: tuple[int, int], at_once: int
) -> None:
    prefill, decode = [f"p{at}" for at in range(setup[0])], [f"d{at}" for at in range(setup[1])]
    transfer = 2.0 if how == "withheld" else 60.0  # seconds that a healthy pair needs on no machine
    config = attrs.evolve(settings(transfer_s=transfer), breaker=BreakerConfig(failures=3, window_s=600.0))
    async with pools(prefill=prefill, decode=decode, config=config) as house:
        name, breakers, codes = broken(house, how), house.gateway.registry.breakers, Counter[int]()
        for number in range(0, 30, at_once):
            several = [ask(house, f"{number + at} {TEXT}", max_tokens=3) for at in range(at_once)]
            codes.update(answer.status_code for answer in await asyncio.gather(*several))
        await idle(house)

        states = {each: breakers.state(each) for each in (*prefill, *decode)}
        assert states == {each: "open" if each == name else "closed" for each in states}
        assert set(codes) == {200}
        assert len([outcome for _, _, outcome in calls(house) if outcome.startswith("Engine")]) < 5 + 2 * at_once + max(
            setup
        )


@pytest.mark.full
@pytest.mark.sampled(keep=3)
async def test_a_call_whose_cache_was_not_taken_is_no_good_call_of_the_engine_that_made_it(way: Way) -> None:
    config = attrs.evolve(settings(), breaker=BreakerConfig(failures=2, open_s=0.05, probes=3))
    async with pools(way, config=config) as house:
        breakers = house.gateway.registry.breakers
        for _ in range(2):
            breakers.ended("p", WorkerGone("gone"), time.monotonic())
        opened = time.monotonic()
        await eventually(lambda: time.monotonic() > opened + 0.1)
        engine(house, "p").exchange.spoiled = True
        for _ in range(4):
            await ask(house, max_tokens=3)
        await idle(house)

        assert breakers.state("p") != "closed"


@pytest.mark.full
@pytest.mark.sampled(keep=3)
async def test_where_no_other_worker_could_tell_whose_fault_it_was_it_counts_for_both(way: Way) -> None:
    async with pools(way) as house:
        engine(house, "p").exchange.spoiled = True
        for _ in range(6):
            await ask(house, max_tokens=3)
        await idle(house)

        assert [house.gateway.registry.breakers.state(name) for name in ("p", "d")] == ["open", "open"]


@pytest.mark.full
@pytest.mark.parametrize("kind", ["cut", "error"])
async def test_a_slow_call_that_only_one_which_has_failed_could_take_is_left_running(kind: FaultKind) -> None:
    async with pools(decode=("d0", "d1")) as house:
        slow = house.gateway.registry.get("d1")
        assert slow is not None
        engine(house, "d0").inject(Fault(kind))
        engine(house, "d1").inject(Fault("stall", 0, 0.3))
        asked = asyncio.create_task(ask(house, max_tokens=3))
        await eventually(lambda: engine(house, "d1").counters["stalled"] == 1)
        house.gateway.services.running.monitor.signal(slow, "failing", "a health check was late")
        answer = await asked

        assert answer.status_code == 200
        assert calls(house)[-1] == ("d1", "decode", "ok")


@pytest.mark.parametrize("kind", ["cut", "error"])
async def test_a_stream_that_moves_is_gone_on_with_by_one_that_had_failed_before_it_began(kind: FaultKind) -> None:
    async with pools(decode=("d0", "d1"), timing=Timing(decode_rate=200.0)) as house:
        engine(house, "d0").inject(Fault(kind))
        engine(house, "d1").inject(Fault("cut", 3))
        answer = await ask(house, max_tokens=12, stream=True, temperature=0)
        await idle(house)

        assert '"error"' not in answer.text
        assert '"finish_reason":"length"' in answer.text
        assert [each[0] for each in calls(house) if each[1] == "decode"] == ["d0", "d1", "d0"]


@pytest.mark.full
@pytest.mark.parametrize("bound", ["transfer", "first token"])
async def test_a_prefill_engine_whose_caches_never_come_is_left_alone_whatever_bounds_the_wait(bound: str) -> None:
    config = settings(transfer_s=3.0)
    if bound == "first token":
        config = attrs.evolve(settings(), timeouts=TimeoutsConfig(first_token_s=3.0))
    config = attrs.evolve(config, breaker=BreakerConfig(failures=2, window_s=600.0))
    async with pools(prefill=("p0", "p1"), config=config) as house:
        engine(house, "p0").exchange.withheld = True
        codes = [(await ask(house, f"{number} {TEXT}", max_tokens=3)).status_code for number in range(6)]
        await idle(house)

        assert codes == [200] * 6
        assert [house.gateway.registry.breakers.state(each) for each in ("p0", "p1", "d")] == [
            "open",
            "closed",
            "closed",
        ]
