"""The gateway before a real vLLM with a tiny random Qwen2-Audio: it answers what transformers answers, token by token.

make_tiny_qwen2_audio.py writes the model, and what transformers makes of a handful of requests with recordings. Serve it in
single precision and run the tests; what test_qwen2_vl.py says of torchvision holds here too:

    python tests/real/make_tiny_qwen2_audio.py build/tiny-qwen2-audio
    python -m vllm.entrypoints.launchers.grpc_server --model build/tiny-qwen2-audio --dtype float32 --enforce-eager \\
        --block-size 32 --enable-prefix-caching --limit-mm-per-prompt '{"audio": 4}'
    make test-real ENGINE=grpc://host:port MODEL=build/tiny-qwen2-audio
"""

import os

import openai
import pytest
from tests.real.test_qwen2_vl import CASES, asked, client, gateway, test_the_answer_is_transformers_own

from smg_core import Config, Gateway
from smg_core.http.settings import MediaConfig
from smg_multimodal.preparing.shm import namespace_id

__all__ = ["client", "gateway", "test_the_answer_is_transformers_own"]

pytestmark = [pytest.mark.anyio, pytest.mark.real]


async def test_a_recording_asked_again_is_found_in_the_engines_cache_and_another_is_not(
    gateway: Gateway, client: openai.AsyncOpenAI
) -> None:
    first = await asked(gateway, client, "a recording, then words")
    again = await asked(gateway, client, "a recording, then words")
    other = await asked(gateway, client, "the same length, other sounds")

    assert again.choices[0].message.content == first.choices[0].message.content
    assert other.usage.prompt_tokens == first.usage.prompt_tokens
    assert other.choices[0].message.content != first.choices[0].message.content
    longer = [await asked(gateway, client, "words, then a recording") for _ in range(2)]
    assert longer[1].usage.prompt_tokens_details.cached_tokens > 0


async def test_an_engine_on_this_host_reads_tensors_from_shared_memory() -> None:
    config = Config(media=MediaConfig(shared_memory="auto"))
    async with Gateway([os.environ["SMG_REAL_ENGINE"]], config=config) as gateway:
        (worker,) = gateway.registry
        assert worker.memory == namespace_id(), "the engine sees another shared memory: run it on this host"
        media = gateway.services.running.onboarding.media
        assert media is not None
        placed: list[int] = []
        take = media._shared.memory.take  # type: ignore[union-attr]
        media._shared.memory.take = lambda tensor: placed.append(tensor.nbytes) or take(tensor)  # type: ignore
        case = CASES.by_name["two recordings"]
        http = gateway.http_client(openai)
        async with openai.AsyncOpenAI(http_client=http, base_url="http://gateway/v1", api_key="-") as shared:
            answer = await asked(gateway, shared, "two recordings")
        content = answer.choices[0].logprobs.content
        assert [each.logprob for each in content] == pytest.approx([row[0] for row in case["logprobs"]], abs=0.001)
        assert max(placed) == 2 * 128 * 3000 * 4
        assert media.shared_bytes == 0
