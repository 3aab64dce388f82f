"""The gateway before a real vLLM whose model makes vectors. For `make test-engines`."""

from collections.abc import AsyncIterator

import openai
import pytest
from tests.engines.real_engines import VLLM_POOLING
from tests.engines.running import COMES_UP_S, Running, running

from smg_core import Gateway

pytestmark = [pytest.mark.anyio, pytest.mark.engines, pytest.mark.timeout(COMES_UP_S + 300)]
TITLE = VLLM_POOLING.title
TEXTS = ["One sheep", "Two sheep", "The weather in Paris is fine today."]


@pytest.fixture(scope="module")
async def engine() -> AsyncIterator[Running]:
    async with running(VLLM_POOLING) as started:
        yield started


async def vectors(client: openai.AsyncOpenAI, model: str, texts: list[str]) -> list[list[float]]:
    return [each.embedding for each in (await client.embeddings.create(model=model, input=texts)).data]


async def test_vectors_come_in_order_with_length_one_and_exact_usage(
    gateway: Gateway, client: openai.AsyncOpenAI, model: str
) -> None:
    answer = await client.embeddings.create(model=model, input=TEXTS)
    ids = [gateway.models[model].tokenizer.encode(text) for text in TEXTS]
    assert answer.usage.prompt_tokens == sum(map(len, ids))
    alone = [(await vectors(client, model, [text]))[0] for text in TEXTS]
    for found, single in zip(answer.data, alone, strict=True):
        assert sum(each * each for each in found.embedding) == pytest.approx(1, abs=0.01)
        assert found.embedding == pytest.approx(single, abs=0.02)
    assert alone[0] != pytest.approx(alone[2], abs=0.02)


async def test_ids_make_the_vector_of_their_text(gateway: Gateway, client: openai.AsyncOpenAI, model: str) -> None:
    ids = gateway.models[model].tokenizer.encode(TEXTS[0], add_special_tokens=True)
    answer = await client.embeddings.create(model=model, input=[list(ids)])
    assert answer.data[0].embedding == pytest.approx((await vectors(client, model, TEXTS[:1]))[0], abs=0.02)


async def test_an_input_over_the_context_is_refused_and_the_engine_lives(
    client: openai.AsyncOpenAI, model: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await client.embeddings.create(model=model, input=["One", "word " * 5000])
    assert refused.value.param == "input[1]"
    assert len(await vectors(client, model, TEXTS)) == 3


async def test_text_is_refused_by_a_model_that_makes_vectors(client: openai.AsyncOpenAI, model: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await client.completions.create(model=model, prompt="Hello")
    assert refused.value.param == "model"
