"""The gateway before a real vLLM with a tiny Qwen2-VL: answers about pictures are transformers' own. For `make test-engines`."""

from collections.abc import AsyncIterator

import openai
import pytest
from tests.engines.real_engines import TINY_QWEN2_VL, VLLM_PICTURES
from tests.engines.running import COMES_UP_S, Running, running
from tests.real.qwen2_vl_cases import Cases

from smg_core import Gateway

pytestmark = [pytest.mark.anyio, pytest.mark.engines, pytest.mark.timeout(COMES_UP_S + 300)]
TITLE = VLLM_PICTURES.title


@pytest.fixture(scope="module")
def cases() -> Cases:
    return Cases.read(TINY_QWEN2_VL)


@pytest.fixture(scope="module")
async def engine() -> AsyncIterator[Running]:
    async with running(VLLM_PICTURES) as started:
        yield started


async def test_every_answer_about_pictures_is_transformers_own(
    gateway: Gateway, client: openai.AsyncOpenAI, model: str, cases: Cases
) -> None:
    assert gateway.registry
    for name in cases.by_name:
        cases.is_transformers_own(await cases.asked(client, model, name), name)


async def test_pictures_asked_again_are_found_in_the_engines_cache_and_others_are_not(
    client: openai.AsyncOpenAI, model: str, cases: Cases
) -> None:
    first = await cases.asked(client, model, "a photograph")
    again = await cases.asked(client, model, "a photograph")
    one = await cases.asked(client, model, "a picture, then words")
    other = await cases.asked(client, model, "the same sizes, other pixels")

    assert again.usage.prompt_tokens_details.cached_tokens > 0
    assert again.choices[0].message.content == first.choices[0].message.content
    assert one.usage.prompt_tokens == other.usage.prompt_tokens
    assert one.choices[0].message.content != other.choices[0].message.content
