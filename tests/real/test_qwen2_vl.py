"""The gateway before a real vLLM with a tiny random Qwen2-VL: it answers what transformers answers, token by token.

`make tiny-qwen2-vl` writes the model, and what transformers makes of a handful of requests, to build/tiny-qwen2-vl;
make_tiny_qwen2_vl.py says how. Serve it in single precision, on CPU or GPU, and run the tests:

    python -m vllm.entrypoints.launchers.grpc_server --model build/tiny-qwen2-vl --dtype float32 --enforce-eager \\
        --block-size 32 --enable-prefix-caching --limit-mm-per-prompt '{"image": 4, "video": 0}'
    make test-real ENGINE=grpc://host:port MODEL=build/tiny-qwen2-vl

vLLM 0.32 normalises this model's pixels on the device unless --no-mm-device-do-normalize is given, and says so; the gateway then
sends their bytes. The answers are transformers' own either way.

The engine's environment must be able to import torchvision: vLLM asks transformers for the model's processor when it starts,
though the gateway brings the tensors. tests/engines/torchvision_operators says how where only its usual build is there;
`make test-engines ENGINES=vllm` does all of it by itself.
"""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.real.qwen2_vl_cases import Cases

from smg_core import Config, Gateway
from smg_core.workers.settings import WorkersConfig

pytestmark = [pytest.mark.anyio, pytest.mark.real]

CASES = Cases.read(Path(os.environ["SMG_REAL_MODEL"]))


@pytest.fixture(params=["h2", "grpcio"])
async def gateway(request: pytest.FixtureRequest) -> AsyncIterator[Gateway]:
    config = Config(workers=WorkersConfig(transport=request.param))
    async with Gateway([os.environ["SMG_REAL_ENGINE"]], config=config) as gateway:
        yield gateway


@pytest.fixture
def client(gateway: Gateway) -> openai.AsyncOpenAI:
    http = gateway.http_client(openai)
    return openai.AsyncOpenAI(http_client=http, base_url="http://gateway/v1", api_key="-", max_retries=0)


async def asked(gateway: Gateway, client: openai.AsyncOpenAI, name: str) -> Any:
    return await CASES.asked(client, next(iter(gateway.models)), name)


@pytest.mark.parametrize("name", CASES.by_name)
async def test_the_answer_is_transformers_own(gateway: Gateway, client: openai.AsyncOpenAI, name: str) -> None:
    CASES.is_transformers_own(await asked(gateway, client, name), name)


async def test_low_detail_costs_fewer_tokens_and_high_detail_none(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    cost = {
        name: (await asked(gateway, client, name)).usage.prompt_tokens
        for name in ("a photograph", "low detail", "high detail")
    }

    assert cost["low detail"] < cost["a photograph"] == cost["high detail"]


async def test_pictures_asked_again_are_found_in_the_engines_cache(
    gateway: Gateway, client: openai.AsyncOpenAI
) -> None:
    first = await asked(gateway, client, "a photograph")
    again = await asked(gateway, client, "a photograph")

    assert again.usage.prompt_tokens_details.cached_tokens > 0
    assert again.choices[0].message.content == first.choices[0].message.content


async def test_a_picture_of_other_pixels_is_not_taken_for_one_seen_before(
    gateway: Gateway, client: openai.AsyncOpenAI
) -> None:
    one = await asked(gateway, client, "a picture, then words")
    other = await asked(gateway, client, "the same sizes, other pixels")

    assert one.usage.prompt_tokens == other.usage.prompt_tokens
    assert one.choices[0].message.content != other.choices[0].message.content
