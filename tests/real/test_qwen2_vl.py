"""The gateway before a real vLLM with a tiny random Qwen2-VL: it answers what transformers answers, token by token.

`make tiny-qwen2-vl` writes the model, and what transformers makes of a handful of requests, to build/tiny-qwen2-vl;
make_tiny_qwen2_vl.py says how. Serve it in single precision, on CPU or GPU, and run the tests:

    python -m vllm.entrypoints.launchers.grpc_server --model build/tiny-qwen2-vl --dtype float32 --enforce-eager \\
        --block-size 32 --enable-prefix-caching --limit-mm-per-prompt '{"image": 4, "video": 0}'
    make test-real ENGINE=grpc://host:port MODEL=build/tiny-qwen2-vl

vLLM 0.32 normalises this model's pixels on the device unless --no-mm-device-do-normalize is given, and says so; the gateway then
sends their bytes. The answers are transformers' own either way.

The engine's environment must be able to import torchvision: vLLM asks transformers for the model's processor when it starts,
though the gateway brings the tensors. torchvision's build for CPU is not where pip looks by itself; the usual one for torch's
version, installed with --no-deps beside torch's CPU build, lacks its compiled part there and stops at "operator torchvision::nms
does not exist". A `sitecustomize.py` in a folder of its own, named by the engine's PYTHONPATH, gets past that by declaring the
two operators before torchvision is imported. Neither is ever called here:

    import importlib.abc, sys

    class Declare(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name == "torchvision":
                sys.meta_path.remove(self)
                import torch
                self.library = torch.library.Library("torchvision", "DEF")
                for operator in ("nms", "qnms"):
                    self.library.define(operator + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            return None

    declare = Declare()  # and the declarations live as long as this does
    sys.meta_path.insert(0, declare)
"""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
from tokenizers import Tokenizer

from smg_core import Config, Gateway
from smg_core.config import WorkersConfig

pytestmark = [pytest.mark.anyio, pytest.mark.real]

FOLDER = Path(os.environ["SMG_REAL_MODEL"])
CASES: list[dict[str, Any]] = json.loads((FOLDER / "cases.json").read_text())
BY_NAME = {case["name"]: case for case in CASES}
NEAR = 0.001
"""Logprobs in single precision, once by transformers and once by the engine, differ by less."""


@pytest.fixture(params=["h2", "grpcio"])
async def gateway(request: pytest.FixtureRequest) -> AsyncIterator[Gateway]:
    config = Config(workers=WorkersConfig(transport=request.param))
    async with Gateway([os.environ["SMG_REAL_ENGINE"]], config=config) as gateway:
        yield gateway


@pytest.fixture
def client(gateway: Gateway) -> openai.AsyncOpenAI:
    http = gateway.http_client(openai)
    return openai.AsyncOpenAI(http_client=http, base_url="http://gateway/v1", api_key="-", max_retries=0)


@pytest.fixture(scope="module")
def pieces() -> dict[str, int]:
    """The id of every token's text, as a byte-level vocabulary spells it."""
    vocabulary: dict[str, int] = Tokenizer.from_file(str(FOLDER / "tokenizer.json")).get_vocab()
    return vocabulary


def bytes_spelled(data: bytes) -> str:
    """Bytes as byte-level vocabularies spell them: printable Latin-1 as it is, the rest from U+0100 on, in order."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in kept]
    return "".join(chr(byte) if byte in kept else chr(0x100 + others.index(byte)) for byte in data)


async def asked(gateway: Gateway, client: openai.AsyncOpenAI, case: dict[str, Any]) -> Any:
    return await client.chat.completions.create(
        model=next(iter(gateway.models)),
        messages=case["messages"],
        temperature=0,
        max_tokens=len(case["ids"]),
        logprobs=True,
        top_logprobs=len(case["ids"][0]),
        extra_body={"ignore_eos": True, "skip_special_tokens": False},
    )


@pytest.mark.parametrize("name", BY_NAME)
async def test_the_answer_is_transformers_own(
    gateway: Gateway, client: openai.AsyncOpenAI, pieces: dict[str, int], name: str
) -> None:
    case = BY_NAME[name]
    answer = await asked(gateway, client, case)
    content = answer.choices[0].logprobs.content
    ids = [pieces.get(each.token) or pieces[bytes_spelled(bytes(each.bytes))] for each in content]

    assert answer.usage.prompt_tokens == len(case["prompt_ids"])
    assert ids == [step[0] for step in case["ids"]]
    for each, expected in zip(content, case["logprobs"], strict=True):
        assert each.logprob == pytest.approx(expected[0], abs=NEAR)
        assert [top.logprob for top in each.top_logprobs] == pytest.approx(expected, abs=NEAR)


async def test_low_detail_costs_fewer_tokens_and_high_detail_none(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    cost = {
        name: (await asked(gateway, client, BY_NAME[name])).usage.prompt_tokens
        for name in ("a photograph", "low detail", "high detail")
    }

    assert cost["low detail"] < cost["a photograph"] == cost["high detail"]


async def test_pictures_asked_again_are_found_in_the_engines_cache(
    gateway: Gateway, client: openai.AsyncOpenAI
) -> None:
    first = await asked(gateway, client, BY_NAME["a photograph"])
    again = await asked(gateway, client, BY_NAME["a photograph"])

    assert again.usage.prompt_tokens_details.cached_tokens > 0
    assert again.choices[0].message.content == first.choices[0].message.content


async def test_a_picture_of_other_pixels_is_not_taken_for_one_seen_before(
    gateway: Gateway, client: openai.AsyncOpenAI
) -> None:
    one = await asked(gateway, client, BY_NAME["a picture, then words"])
    other = await asked(gateway, client, BY_NAME["the same sizes, other pixels"])

    assert one.usage.prompt_tokens == other.usage.prompt_tokens
    assert one.choices[0].message.content != other.choices[0].message.content
