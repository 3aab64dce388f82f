"""How tokens are sampled, in every API's fields: what the values at the edge mean is the same for all."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from smg_core.apis.chat.decode import decode_chat
from smg_core.apis.completions.decode import decode_completion
from smg_core.apis.gemini.decode import decode_generate
from smg_core.apis.interactions.decode import interaction_decoder
from smg_core.apis.messages.decode import decode_messages
from smg_core.apis.responses.wire.decode import decode_responses
from smg_core.apis.sglang.decode import decode_sglang
from smg_core.request import Sampling
from smg_core.wire.base import Incoming

Body = dict[str, Any]
TURNS = [{"role": "user", "content": "Hi"}]
CONTENTS = [{"parts": [{"text": "Hi"}]}]
WAYS: dict[str, tuple[Callable[[Incoming], Any], Body, str, str, str]] = {
    "chat": (decode_chat, {"messages": TURNS}, "", "top_p", "top_k"),
    "completions": (decode_completion, {"prompt": "Hi"}, "", "top_p", "top_k"),
    "messages": (decode_messages, {"messages": TURNS, "max_tokens": 9}, "", "top_p", "top_k"),
    "responses": (decode_responses, {"input": "Hi"}, "", "top_p", "top_k"),
    "generateContent": (decode_generate, {"contents": CONTENTS}, "generationConfig", "topP", "topK"),
    "interactions": (interaction_decoder("steps"), {"input": "Hi"}, "generation_config", "top_p", ""),
    "generate": (
        lambda incoming: decode_sglang(incoming, lambda name: "m"),
        {"text": "Hi"},
        "sampling_params",
        "",
        "top_k",
    ),
}
"""The decoder, a body, the field that the settings stand in, and the names of the two; "" for one that the API lacks, or does not
take as 0."""


def sampling(name: str, **settings: float | None) -> Sampling:
    decode, body, within, *_ = WAYS[name]
    whole = {**body, within: settings} if within else {**body, **settings}
    named = whole if name in ("generate", "generateContent") else {"model": "m", **whole}
    generation = decode(Incoming(json.dumps(named).encode(), "r_1", path_values={"model": "m"})).generation
    found: Sampling = generation.sampling
    return found


@pytest.mark.parametrize("name", WAYS)
def test_zero_is_the_likeliest_token_for_top_p_and_no_bound_for_top_k(name: str) -> None:
    top_p, top_k = WAYS[name][3:]
    asked = {each: 0 for each in (top_p, top_k) if each}
    found, unsaid = sampling(name, **asked), sampling(name)

    assert (found.top_p, found.top_k) == (1e-06 if top_p else None, -1 if top_k else None)
    assert (unsaid.top_p, unsaid.top_k) == (None, None)


@pytest.mark.parametrize("name", WAYS)
def test_other_values_are_taken_as_they_are(name: str) -> None:
    top_p, top_k = WAYS[name][3:]
    found = sampling(name, **{each: value for each, value in ((top_p, 0.25), (top_k, 7)) if each})

    assert (found.top_p, found.top_k) == (0.25 if top_p else None, 7 if top_k else None)
