"""What a request may ask for is carried by a dialect's message or refused by name: every field, in every dialect."""

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields, replace
from tests.engine_kinds import DIALECTS

from smg_core.engines.base import Bootstrap, Codec, ContextPhase, Encoded, EngineRequest
from smg_core.engines.codecs.refusals import OPTIONAL, refusing
from smg_core.engines.constraint import Constraint
from smg_core.engines.handover import can_encode
from smg_core.errors import UnsupportedParameter
from smg_core.request import Sampling
from smg_core.tokens import TokenIds

PLAIN = EngineRequest("r-1", TokenIds([5, 6]), Sampling(max_tokens=9))
OUTER: dict[str, Any] = {
    "id": "r-2",
    "input_ids": TokenIds([7]),
    "stream": False,
    "constraint": Constraint("regex", "a+"),
    "data_parallel_rank": 1,
    "kv_transfer": '{"do_remote_decode": true}',
    "multimodal": object(),
    "cache_salt": "tenant",
    "bootstrap": Bootstrap("10.0.0.1", 8998, 77),
    "context_phase": ContextPhase("generation", "c-1", 3, b"blocks"),
    "lora": "3",
    "encoded": (Encoded(0, Bootstrap("10.0.0.2", 8998, 78)),),
    "after_reasoning": True,
}
SAMPLED: dict[str, Any] = {
    "max_tokens": 7,
    "min_tokens": 3,
    "temperature": 0.5,
    "top_p": 0.5,
    "top_k": 7,
    "min_p": 0.25,
    "frequency_penalty": 0.5,
    "presence_penalty": 0.5,
    "repetition_penalty": 1.5,
    "seed": 7,
    "stop": ("end",),
    "stop_token_ids": (9,),
    "ignore_eos": True,
    "logit_bias": {5: 1.0},
    "n": 2,
    "logprobs": 1,
    "prompt_logprobs": 1,
}
DONE_HERE = {"skip_special_tokens", "include_stop", "echo", "token_ids", "suffix", "truncate_prompt"}
"""The gateway makes ids of the text and text of the ids itself, so an engine need not be told of these."""
ASKED = [
    *((name, replace(PLAIN, **{name: value})) for name, value in OUTER.items()),
    *((name, replace(PLAIN, sampling=replace(PLAIN.sampling, **{name: value}))) for name, value in SAMPLED.items()),
]
TOLD_AS = {
    "vllm": "vLLM",
    "neutral": "neutral contract",
    "mlx": "MLX",
    "sglang": "SGLang",
    "trtllm": "TensorRT-LLM",
    "tokenspeed": "TokenSpeed",
}
"""What the pages call each dialect."""
CODECS = {name: row.codec() for name, row in DIALECTS.items()}


def refused(codec: Codec, asked: EngineRequest) -> UnsupportedParameter | None:
    """The refusal of a request that the dialect cannot carry."""
    try:
        codec.generate(asked)
    except UnsupportedParameter as refusal:
        return refusal
    return None


def test_every_field_of_a_request_is_tried() -> None:
    assert {each.name for each in fields(EngineRequest)} == OUTER.keys() | {"sampling"}
    assert {each.name for each in fields(Sampling)} == SAMPLED.keys() | DONE_HERE
    assert OPTIONAL.keys() <= OUTER.keys() | SAMPLED.keys()


@pytest.mark.sampled(per=("name",), keep=3)
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("name", "request_"), ASKED, ids=[name for name, _ in ASKED])
def test_a_field_is_carried_or_refused_by_its_own_name(dialect: str, name: str, request_: EngineRequest) -> None:
    refusal = refused(CODECS[dialect], request_)

    if refusal is None:
        assert CODECS[dialect].generate(request_) != CODECS[dialect].generate(PLAIN)
    else:
        assert refusal.param == OPTIONAL[name][2]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_facts_of_a_dialect_say_what_its_messages_carry(dialect: str) -> None:
    codec: Codec = CODECS[dialect]
    asked, facts = dict(ASKED), codec.facts

    told = {
        "seed": facts.seed,
        "logit_bias": facts.logit_bias,
        "min_tokens": facts.min_tokens,
        "stop": facts.stop_strings,
        "prompt_logprobs": facts.prompt_logprobs,
        "cache_salt": facts.cache_salt,
        "constraint": "regex" in facts.constraints,
        "n": facts.n and not facts.fans_out,
        "lora": facts.lora,
        "encoded": can_encode(dialect),
        **{name: facts.hands_over == name for name in ("kv_transfer", "bootstrap", "context_phase")},
    }
    assert {name: refused(codec, asked[name]) is None for name in told} == told


def test_a_codec_cannot_claim_a_field_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="wings"):
        refusing({"wings"})


def test_the_page_of_tenants_says_of_every_dialect_whether_it_takes_a_salt() -> None:
    page = (Path(__file__).parents[4] / "docs" / "tenants.md").read_text()
    rows = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("|")]
    for name, codec in CODECS.items():
        (said,) = [
            answer.strip() for engines, answer in rows if TOLD_AS[name] in re.split(r", | by gRPC", engines.strip())
        ]
        salted = refused(codec, replace(PLAIN, cache_salt="tenant")) is None
        assert said.startswith("where it declares" if salted else "no: their protocols have no field"), name
