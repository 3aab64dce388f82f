"""Prompts made on the event loop where they are short, and in a pool where they are long."""

import asyncio
import threading

import attrs
import pytest
from tests.core.pipeline.road import REQUEST, road

from smg_core.errors import ModelNotFound, NoWorker
from smg_core.hooks import EncodeDone, Rendered
from smg_core.pipeline.preparing import Preparing
from smg_core.request import Caller, Message, Text
from smg_core.testing import FakeClock

pytestmark = pytest.mark.anyio

LONG = attrs.evolve(REQUEST, messages=(Message("user", (Text("word " * 3000),)),))


async def test_a_model_that_nobody_has_is_told_from_one_that_is_still_loaded() -> None:
    async with road() as here:
        with pytest.raises(ModelNotFound):
            await here.preparing.prepare(attrs.evolve(REQUEST, model="other"), here.trace)
        here.registry.serve(here.worker, ("m", "other"))
        with pytest.raises(NoWorker):
            await here.preparing.prepare(attrs.evolve(REQUEST, model="other"), here.trace)


async def test_a_long_prompt_is_rendered_and_encoded_in_the_pool_and_a_short_one_is_not() -> None:
    async with road(render_inline=1000) as here:
        free = threading.Event()
        busy = [asyncio.create_task(here.executor.run(lambda _: free.wait(10), size=1)) for _ in range(2)]
        await asyncio.sleep(0)
        waiting = asyncio.create_task(here.preparing.prepare(LONG, here.trace))
        short = await here.preparing.prepare(REQUEST, here.trace)
        assert not waiting.done()
        free.set()
        made = await waiting
        await asyncio.gather(*busy)

        assert len(short.ids) < 50
        assert len(made.ids) > 3000
        assert [each.prompt_tokens > 3000 for each in here.observer.of(EncodeDone)] == [False, True]


async def test_a_long_prompt_that_the_cache_knows_does_not_leave_the_event_loop() -> None:
    async with road() as here:
        first = await here.preparing.prepare(LONG, here.trace)
        free = threading.Event()
        busy = [asyncio.create_task(here.executor.run(lambda _: free.wait(10), size=1)) for _ in range(2)]
        await asyncio.sleep(0)
        again = await asyncio.wait_for(here.preparing.prepare(LONG, here.trace), 10)
        free.set()
        await asyncio.gather(*busy)

        assert again.ids == first.ids
        assert here.observer.of(EncodeDone)[-1].cached_characters > 0


async def test_each_moment_has_its_time() -> None:
    async with road() as here:
        clock = FakeClock(now=5.0)
        preparing = Preparing(
            registry=here.registry, models={"m": (await here.preparing.prepare(REQUEST, here.trace)).model},
            clock=clock, executor=here.executor,
        )  # fmt: skip
        here.observer.moments.clear()
        made = await preparing.prepare(REQUEST, here.trace)
        (rendered,), (encoded,) = here.observer.of(Rendered), here.observer.of(EncodeDone)

        assert (rendered.request_id, rendered.at) == ("r", 5.0)
        assert (encoded.seconds, encoded.at) == (0.0, 5.0)
        assert encoded.prompt_tokens == len(made.ids)
        assert encoded.characters == len(made.text)
        assert here.trace.prompted is made


async def test_a_tenants_prompts_are_not_found_in_anothers_cache() -> None:
    async with road() as here:
        for tenant in ("a", "b", "b"):
            await here.preparing.prepare(attrs.evolve(LONG, caller=Caller(tenant=tenant), id=tenant), here.trace)
        known = [each.cached_characters > 0 for each in here.observer.of(EncodeDone)]

        assert known == [False, False, True]
