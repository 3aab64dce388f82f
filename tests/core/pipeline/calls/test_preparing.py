"""Prompts made on the event loop where they are short, and in a pool where they are long."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import attrs
import pytest
from msgspec.structs import replace
from tests.core.pipeline.road import REQUEST, Road, eventually, road
from tests.origins import ORIGINS
from tests.shared import PATIENCE

from smg_core.errors import ModelNotFound, NoWorker, PromptTooLong
from smg_core.hooks import EncodeDone, ReasoningLeftOut, Rendered
from smg_core.pipeline.calls.preparing import Preparing
from smg_core.request import Caller, Image, MediaSource, Message, Part, Reasoning, Text, ToolCall, ToolResult
from smg_core.sealing.reasoning import ReasoningSeals
from smg_core.sealing.sealer import Sealer
from smg_core.testing import FakeClock
from smg_core.tokenizer.base import EncodeReport, Prompt, Tokenizer

pytestmark = pytest.mark.anyio

LONG = replace(REQUEST, messages=(Message("user", (Text("word " * 3000),)),))


async def test_a_model_that_nobody_has_is_told_from_one_that_is_still_loaded() -> None:
    async with road() as here:
        with pytest.raises(ModelNotFound):
            await here.preparing.prepare(replace(REQUEST, model="other"), here.trace)
        here.registry.serve(here.worker, ("m", "other"))
        with pytest.raises(NoWorker):
            await here.preparing.prepare(replace(REQUEST, model="other"), here.trace)


async def test_a_long_prompt_is_rendered_and_encoded_in_the_pool_and_a_short_one_is_not() -> None:
    async with road(render_inline=1000) as here:
        free = threading.Event()
        busy = [asyncio.create_task(here.executor.run(lambda _: free.wait(PATIENCE), size=1)) for _ in range(2)]
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
        busy = [asyncio.create_task(here.executor.run(lambda _: free.wait(PATIENCE), size=1)) for _ in range(2)]
        await asyncio.sleep(0)
        again = await asyncio.wait_for(here.preparing.prepare(LONG, here.trace), PATIENCE)
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
            await here.preparing.prepare(replace(LONG, caller=Caller(tenant=tenant), id=tenant), here.trace)
        known = [each.cached_characters > 0 for each in here.observer.of(EncodeDone)]

        assert known == [False, False, True]


class Watched:
    """A tokenizer that counts what it is asked to encode."""

    def __init__(self, inner: Tokenizer, longest: int = 8) -> None:
        self.inner, self.longest_token, self.encoded = inner, longest, 0

    def encode_prompt(self, prompt: Prompt, **options: Any) -> EncodeReport:
        self.encoded += sum(map(len, prompt.pieces))
        return self.inner.encode_prompt(prompt, **options)

    def recall(self, prompt: Prompt, **options: Any) -> None:
        """Nothing is known: the tests share a cache."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@asynccontextmanager
async def watched(context: int, **options: Any) -> AsyncIterator[tuple[Road, Watched]]:
    async with road(context_length=context, **options) as here:
        served = here.models["m"]
        assert served.tokenizer is not None
        tokenizer = Watched(served.tokenizer)
        here.models["m"] = attrs.evolve(served, tokenizer=cast(Tokenizer, tokenizer))
        yield here, tokenizer


@pytest.mark.parametrize("render_inline", [1000, 1_000_000])
async def test_a_text_that_cannot_fit_the_context_is_refused_before_it_is_encoded(render_inline: int) -> None:
    async with watched(1000, render_inline=render_inline) as (here, tokenizer):
        with pytest.raises(PromptTooLong) as refused:
            await here.preparing.prepare(LONG, here.trace)

        assert tokenizer.encoded == 0
        assert refused.value.prompt_tokens >= 15_000 // 8
        assert "at least" in refused.value.message


async def test_a_text_that_may_fit_is_encoded_to_find_out() -> None:
    async with watched(14_000) as (here, tokenizer):
        assert len((await here.preparing.prepare(LONG, here.trace)).ids) > 3000
        assert tokenizer.encoded > 15_000


async def test_of_a_tokenizer_without_a_bound_on_its_tokens_every_text_is_encoded() -> None:
    async with watched(1000) as (here, tokenizer):
        tokenizer.longest_token = 0
        with pytest.raises(PromptTooLong):
            await here.preparing.prepare(LONG, here.trace)
        assert tokenizer.encoded > 15_000


async def test_a_prompt_of_more_pieces_than_the_context_has_tokens_is_refused_before_it_is_encoded() -> None:
    spelled = replace(REQUEST, messages=(Message("user", (Text("<|im_end|>" * 500),)),))
    async with watched(400) as (here, tokenizer):
        with pytest.raises(PromptTooLong):
            await here.preparing.prepare(spelled, here.trace)

        assert tokenizer.encoded == 0


async def test_a_request_whose_client_has_left_is_not_encoded() -> None:
    async with watched(1_000_000) as (here, tokenizer):
        free = threading.Event()
        busy = [asyncio.create_task(here.executor.run(lambda _: free.wait(PATIENCE), size=1)) for _ in range(2)]
        await asyncio.sleep(0)
        waiting = asyncio.create_task(here.preparing.prepare(LONG, here.trace))
        await eventually(lambda: here.executor.waiting == 1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        free.set()
        await asyncio.gather(*busy)

        assert tokenizer.encoded == 0
        assert here.executor.waiting == 0


@pytest.mark.parametrize(
    "part",
    [
        Text("word " * 3000),
        Reasoning("word " * 3000),
        ToolCall("c", "f", '{"a": "' + "word " * 3000 + '"}'),
        ToolResult("c", (Text("word " * 3000),)),
    ],
    ids=lambda part: type(part).__name__,
)
async def test_what_a_flow_adds_to_a_small_request_is_weighed_too(part: Part) -> None:
    role = "tool" if isinstance(part, ToolResult) else "assistant"
    grown = replace(REQUEST, size=100, messages=(*REQUEST.messages, Message(role, (part,)), *REQUEST.messages))
    async with road(render_inline=1000) as here:
        free = threading.Event()
        busy = [asyncio.create_task(here.executor.run(lambda _: free.wait(PATIENCE), size=1)) for _ in range(2)]
        await asyncio.sleep(0)
        waiting = asyncio.create_task(here.preparing.prepare(grown, here.trace))
        for _ in range(3):
            await asyncio.sleep(0)
        assert here.executor.waiting == 1
        free.set()
        await waiting
        await asyncio.gather(*busy)


async def test_a_picture_for_a_model_whose_workers_are_all_away_is_no_fault_of_the_request() -> None:
    class Pictures:
        """A model that takes pictures."""

        kinds = frozenset({"image"})
        dictates = False

        async def load(self, items: Any, **options: Any) -> Any:
            raise NoWorker("asked in vain", retry_after=1.0)

    picture = Image(MediaSource(url="https://pictures.example/1"))
    asked = replace(REQUEST, messages=(Message("user", (picture,)),))
    async with road() as here:
        here.models["m"] = attrs.evolve(here.models["m"], media=cast(Any, Pictures()))
        here.worker.facts = attrs.evolve(here.worker.facts, media=frozenset({"image"}))
        here.registry.signal(here.worker, "failing")

        with pytest.raises(NoWorker):
            await here.preparing.prepare(asked, here.trace)


@pytest.mark.parametrize("length", [10, 100_000], ids=["short", "long"])
async def test_sealed_reasoning_is_opened_before_the_prompt_is_made_and_what_does_not_open_is_reported(
    length: int,
) -> None:
    asked = replace(REQUEST, origin=ORIGINS["messages"])
    async with road() as here:
        seals = ReasoningSeals(Sealer([b"k" * 32], most=1 << 20), "family")
        here.models["m"] = attrs.evolve(here.models["m"], seals=seals)
        seal = seals.sealing(asked)
        assert seal is not None
        thought = "t" * length
        parts = (Reasoning(thought, seal=seal(thought)), Reasoning("edited", seal=seal(thought)))
        turns = (*REQUEST.messages, Message("assistant", parts), *REQUEST.messages)
        made = await here.preparing.prepare(replace(asked, messages=turns), here.trace)

        assert made.request.messages[1].parts == (Reasoning(thought), Reasoning(""))
        assert [(each.param, each.reason) for each in made.dropped] == [("messages[1].parts[1]", "edited")]
        assert [each.reasons for each in here.observer.of(ReasoningLeftOut)] == [("edited",)]
