"""vLLM, SGLang and llama.cpp over HTTP, from both sides: what our codec writes the embedded engine understands, and the other way
round. And what real servers do that the embedded one does not."""

import json
import math
import re
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict
from tests.core.engines.codecs.captures import FOLDER
from tests.core.engines.codecs.test_both_sides import DEFAULTS, Scored, ids_of_a_text, joined, no_text
from tests.engine_kinds import HTTP_DIALECTS

from smg_core.engines.base import Codec, EngineOutput, EngineRequest
from smg_core.engines.constraint import Constraint
from smg_core.engines.upkeep import FlushCache, LoadAdapter, StartProfile
from smg_core.errors import EngineFailed, EngineGarbled, EngineRejected, SmgError, UnsupportedParameter, WorkerBusy
from smg_core.request import Sampling
from smg_core.sse import DataReader
from smg_core.tokens import TokenIds
from smg_simulator.codecs.choice_messages import ChoiceMessages
from smg_simulator.codecs.llamacpp import LlamaCppServerCodec
from smg_simulator.codecs.sglang_http import SglangHttpServerCodec
from smg_simulator.codecs.vllm_http import VllmHttpServerCodec, VllmTokensServerCodec
from smg_simulator.engine.engine import Choice

SIDES: dict[str, tuple[Codec, Callable[[], Any]]] = {
    "vllm-http": (HTTP_DIALECTS["vllm-http"].codec(), lambda: VllmHttpServerCodec("sim")),
    "vllm-tokens-http": (HTTP_DIALECTS["vllm-tokens-http"].codec(), lambda: VllmTokensServerCodec("sim")),
    "sglang-http": (HTTP_DIALECTS["sglang-http"].codec(), lambda: SglangHttpServerCodec(incremental=False)),
    "sglang-http, new ids only": (
        HTTP_DIALECTS["sglang-http"].codec(),
        lambda: SglangHttpServerCodec(incremental=True),
    ),
    "llamacpp-http": (
        HTTP_DIALECTS["llamacpp-http"].codec(),
        lambda: LlamaCppServerCodec("task", lambda ids: "x" * len(ids)),
    ),
}
LACKING: dict[str, frozenset[str]] = {
    "vllm-tokens-http": frozenset({"stop"}),
    "llamacpp-http": frozenset({"stop_token_ids", "min_tokens", "stop", "cache_salt", "regex", "structural_tag"}),
}
"""What a dialect refuses, or is not sent since the gateway does it itself."""
UNSAID = frozenset({"skip_special_tokens", "include_stop"})
"""What makes no difference to the ids, so that a dialect need not carry it."""
every = pytest.mark.parametrize("name", SIDES)
each_dialect = pytest.mark.parametrize("name", HTTP_DIALECTS)


def messages(name: str, request: EngineRequest, choice: Choice, step: int) -> list[bytes]:
    codec, other = SIDES[name]
    server = other()
    asked = server.request(codec.generate(request), no_text)
    made = ChoiceMessages(Scored(), server, asked, choice, 0, cached=3)  # type: ignore[arg-type]
    written: list[bytes] = []
    while not made.done:
        written += made.step(step)
    return [each for message in [*written, *server.ending(request.id)] for each in message.split(b"\n\ndata: ") if each]


@every
@given(
    ids=ids_of_a_text,
    cuts=st.lists(st.integers(0, 60), max_size=6),
    step=st.integers(1, 5),
    logprobs=st.sampled_from([None, 1]),
    finish=st.sampled_from(["stop", "length"]),
)
def test_an_answer_is_read_as_it_was_meant_however_its_messages_arrive(
    name: str, ids: list[int], cuts: list[int], step: int, logprobs: int | None, finish: Any
) -> None:
    codec, _ = SIDES[name]
    request = EngineRequest("r", TokenIds([5, 6, 7]), Sampling(max_tokens=99, logprobs=logprobs))
    sent = messages(name, request, Choice(ids, finish), step)
    edges = [0, *sorted({cut % (len(sent) + 1) for cut in cuts}), len(sent)]
    decoder = codec.decoder(request)
    outputs = [each for a, b in pairwise(edges) if b > a for each in decoder.feed(sent[a:b])]

    assert joined(outputs) == (ids, [] if logprobs is None else ids, finish)
    assert max(each.prompt_tokens for each in outputs) == 3
    assert max(each.cached_tokens for each in outputs) == 3


@every
@pytest.mark.parametrize("matched", [8, "END"])
def test_what_was_asked_for_and_ended_a_choice_is_told(name: str, matched: int | str) -> None:
    codec, _ = SIDES[name]
    lacking = LACKING.get(name, frozenset())
    if ("stop_token_ids" if isinstance(matched, int) else "stop") in lacking:
        assert not (codec.facts.stop_token_ids if isinstance(matched, int) else codec.facts.stop_strings)
        return
    if "stop" in lacking:
        asked = EngineRequest("r", TokenIds([5]), Sampling(max_tokens=9, stop_token_ids=(8,)))
        outputs = codec.decoder(asked).feed(messages(name, asked, Choice([7, 8], "stop", matched), 1))
        assert outputs[-1].matched == matched
        return
    asked = EngineRequest("r", TokenIds([5]), Sampling(max_tokens=9, stop_token_ids=(8,), stop=("END",)))
    outputs = codec.decoder(asked).feed(messages(name, asked, Choice([7, 8], "stop", matched), 1))

    assert joined(outputs) == ([7, 8], [], "stop")
    assert outputs[-1].matched == matched


@every
@given(
    ids=ids_of_a_text,
    sampling=st.fixed_dictionaries(
        {"max_tokens": st.integers(1, 2**20)},
        optional={
            "temperature": st.sampled_from([0.0, 0.5, 2.0]),
            "top_p": st.sampled_from([0.25, 1.0]),
            "top_k": st.integers(1, 1000),
            "min_p": st.just(0.25),
            "frequency_penalty": st.sampled_from([-0.5, 0.5]),
            "presence_penalty": st.sampled_from([-0.5, 0.5]),
            "repetition_penalty": st.just(1.5),
            "stop_token_ids": st.tuples(st.integers(0, 2**32 - 1)),
            "ignore_eos": st.just(True),
            "include_stop": st.just(True),
            "skip_special_tokens": st.just(False),
            "logprobs": st.integers(1, 20),
            "min_tokens": st.integers(1, 99),
            "seed": st.integers(0, 2**31 - 1),
            "logit_bias": st.just({5: -1.0}),
            "stop": st.tuples(st.text(min_size=1, max_size=9)),
        },
    ),
    constraint=st.sampled_from([None, Constraint("regex", "a+"), Constraint("json_schema", '{"type":"object"}')]),
    salt=st.sampled_from([None, "tenant"]),
)
def test_a_request_is_understood_as_it_was_meant(
    name: str, ids: list[int], sampling: dict[str, Any], constraint: Constraint | None, salt: str | None
) -> None:
    codec, other = SIDES[name]
    lacking = LACKING.get(name, frozenset())
    sampling = {key: value for key, value in sampling.items() if key not in lacking}
    salt = None if "cache_salt" in lacking else salt
    constraint = None if constraint is not None and constraint.kind in lacking else constraint
    request = EngineRequest("r", TokenIds(ids), Sampling(**sampling), constraint=constraint, cache_salt=salt)
    got = other().request(codec.generate(request), no_text)

    assert list(got.input_ids) == ids
    assert (got.id, got.cache_salt) == ("task" if name == "llamacpp-http" else "r", salt)
    assert (got.constraint is None) is (constraint is None)
    if constraint is not None:
        assert got.constraint.kind == constraint.kind
        assert got.constraint.value.replace(" ", "") == constraint.value
    wanted = asdict(request.sampling)
    told = {key: value for key, value in asdict(got.sampling).items() if value != DEFAULTS.get(key, value)}
    carried = [key for key in sampling if not (lacking and key in UNSAID)]
    assert {key: asdict(got.sampling)[key] for key in carried} == {key: wanted[key] for key in carried}
    assert all(wanted[key] == value for key, value in told.items())


@each_dialect
@pytest.mark.parametrize("kind", ["json_object", "grammar", "structural_tag", "choice"])
def test_every_kind_of_constraint_is_carried(name: str, kind: str) -> None:
    codec, other = SIDES[name]
    constraint = Constraint(kind, "x" if kind in ("grammar", "structural_tag") else "", ("a", "b") * (kind == "choice"))
    request = EngineRequest("r", TokenIds([5]), Sampling(max_tokens=9), constraint=constraint)
    if kind not in codec.facts.constraints:
        assert kind in LACKING[name]
        with pytest.raises(UnsupportedParameter):
            codec.generate(request)
        return
    got = other().request(codec.generate(request), no_text)

    assert got.constraint is not None
    if name.startswith("vllm") or (name, kind) in (("sglang-http", "grammar"), ("sglang-http", "structural_tag")):
        assert got.constraint == constraint


@each_dialect
@pytest.mark.parametrize(
    "more",
    [{"multimodal": object()}, {"kv_transfer": "{}"}, {"sampling": Sampling(n=2, max_tokens=3)}],
    ids=["media", "a hand-over", "choices"],
)
def test_what_the_wire_has_no_field_for_is_refused(name: str, more: dict[str, Any]) -> None:
    codec, _ = SIDES[name]
    request = EngineRequest(**{"id": "r", "input_ids": TokenIds([5]), "sampling": Sampling(max_tokens=3), **more})
    if "sampling" in more and codec.facts.n and not codec.facts.fans_out:
        written = json.loads(codec.generate(request))
        assert written.get("sampling_params", written)["n"] == 2
    else:
        with pytest.raises(UnsupportedParameter):
            codec.generate(request)


@each_dialect
@given(noise=st.binary(max_size=60), scored=st.booleans())
def test_noise_is_read_or_refused_and_nothing_else(name: str, noise: bytes, scored: bool) -> None:
    asked = EngineRequest("r", TokenIds([5]), Sampling(max_tokens=9, logprobs=1 if scored else None))
    with suppress(EngineGarbled):
        SIDES[name][0].decoder(asked).feed([noise])


@each_dialect
def test_an_error_in_the_stream_is_what_it_says(name: str) -> None:
    asked = EngineRequest("r", TokenIds([5]), Sampling(max_tokens=9))
    for error, kind in (
        ({"message": "boom", "type": "InternalServerError", "code": 500}, EngineFailed),
        ({"message": "too long", "type": "BadRequestError", "code": 400}, EngineRejected),
        ("boom", EngineFailed),
    ):
        with pytest.raises(kind) as caught:
            SIDES[name][0].decoder(asked).feed([json.dumps({"error": error}).encode()])
        assert "boom" not in caught.value.message


# ------------------------------------------------------------------------------------------------ what real servers do


def vllm(*chunks: dict[str, Any], n: int = 1, **sampling: Any) -> list[EngineOutput]:
    asked = EngineRequest("r", TokenIds([5]), Sampling(max_tokens=9, n=n, **sampling))
    return SIDES["vllm-http"][0].decoder(asked).feed([json.dumps(each).encode() for each in chunks] + [b"[DONE]"])


def of(index: int, ids: list[int] | None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "choices": [{"index": index, "text": "x" if ids else "", "token_ids": ids, "finish_reason": finish, **more}]
    }


def test_vllm_puts_the_last_tokens_and_the_end_into_one_chunk() -> None:
    usage = {"prompt_tokens": 4, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}
    outputs = vllm(of(0, []), of(0, [1, 2]), of(0, [3], "length"), {"choices": [], "usage": usage})

    assert joined(outputs) == ([1, 2, 3], [], "length")
    assert (outputs[-1].prompt_tokens, outputs[-1].cached_tokens) == (4, 2)


def test_vllm_that_counts_nothing_ends_its_choices_all_the_same() -> None:
    assert joined(vllm(of(0, [1]), of(0, None, "stop")))[2] == "stop"


@pytest.mark.parametrize("more", [{}, {"token_ids": None}, {"token_ids": None, "finish_reason": "stop"}])
def test_text_without_the_ids_that_were_asked_for_is_garbled(more: dict[str, Any]) -> None:
    with pytest.raises(EngineGarbled, match="without the token ids"):
        vllm({"choices": [{"index": 0, "text": "lost", **more}]})


def test_vllm_gives_choices_that_alternate() -> None:
    outputs = vllm(of(0, [1]), of(1, [2]), of(1, [3], "stop"), of(0, [4], "length"), n=2)

    assert [(each.index, list(each.ids)) for each in outputs if each.ids] == [(0, [1]), (1, [2, 3]), (0, [4])]
    assert [(each.index, each.finish) for each in outputs if each.finish] == [(1, "stop"), (0, "length")]


@pytest.mark.parametrize("chunk", [of(1, [1]), of(-1, [1])])
def test_a_choice_that_nobody_asked_for_is_garbled(chunk: dict[str, Any]) -> None:
    with pytest.raises(EngineGarbled):
        vllm(chunk)


def test_more_after_the_end_is_garbled() -> None:
    with pytest.raises(EngineGarbled):
        vllm(of(0, [1], "stop"), of(0, [2]))


def test_logprobs_of_vllm_are_by_ids_and_most_likely_first() -> None:
    told = {
        "tokens": ["token_id:1"],
        "token_logprobs": [-2.0],
        "top_logprobs": [{"token_id:1": -2.0, "token_id:9": -1.0}],
    }
    (output, _) = vllm(of(0, [1], "stop", logprobs=told), logprobs=2)
    assert [(row.token_id, row.logprob, row.top) for row in output.logprobs] == [(1, -2.0, ((9, -1.0), (1, -2.0)))]

    (output, _) = vllm(of(0, [1], "stop", logprobs=told), logprobs=0)
    assert output.logprobs[0].top == ()
    for wrong in (None, {**told, "top_logprobs": [{"Hello": -1.0}]}, {**told, "token_logprobs": []}):
        with pytest.raises(EngineGarbled):
            vllm(of(0, [1], "stop", logprobs=wrong), logprobs=2)


def sglang(*metas: tuple[list[int], dict[str, Any]], **sampling: Any) -> list[EngineOutput]:
    asked = EngineRequest("r", TokenIds([5]), Sampling(max_tokens=9, **sampling))
    sent = [json.dumps({"text": "x", "output_ids": ids, "meta_info": meta}).encode() for ids, meta in metas]
    return SIDES["sglang-http"][0].decoder(asked).feed([*sent, b"[DONE]"])


def test_sglang_with_a_parser_for_reasoning_holds_its_output_from_where_it_is_told() -> None:
    codec = HTTP_DIALECTS["sglang-http"].codec()
    for told, found in (({"reasoning_parser": "qwen3"}, "as_told"), ({"reasoning_parser": None}, "first_token")):
        assert codec.describes.parse(json.dumps(told).encode()).holds_from == found
    asked = EngineRequest("r", TokenIds([5]), Sampling(), constraint=Constraint("json_object"), after_reasoning=True)
    assert json.loads(codec.generate(asked))["require_reasoning"] is True
    assert HTTP_DIALECTS["vllm-http"].codec().facts.holds_from == "unknown"


def test_sglangs_end_token_is_no_stop_token_that_was_asked_for() -> None:
    outputs = sglang(([1, 2], {"completion_tokens": 2, "finish_reason": {"type": "stop", "matched": 2}}))

    assert (joined(outputs)[2], outputs[-1].matched) == ("stop", None)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, EngineRejected), (429, WorkerBusy), (500, EngineFailed), (503, WorkerBusy), (418, EngineRejected)],
)
@pytest.mark.parametrize("came", [[], [1, 2]])
def test_a_request_that_sglang_ends_with_a_status_fails_as_the_status_says(
    status: int, kind: type[SmgError], came: list[int]
) -> None:
    told = {"type": "abort", "message": "The request queue is full.", "status_code": status, "err_type": None}
    before = [(came, {"completion_tokens": len(came)})] if came else []
    with pytest.raises(SmgError, match="no room" if kind is WorkerBusy else "engine") as caught:
        sglang(*before, (came, {"completion_tokens": len(came), "finish_reason": told}))

    assert type(caught.value) is kind
    assert "queue" not in caught.value.message


@pytest.mark.parametrize("status", [{}, {"status_code": None, "err_type": None}])
def test_a_request_that_sglang_was_told_to_abort_is_no_fault_of_the_client(status: dict[str, Any]) -> None:
    told = {"type": "abort", "message": "Abort in waiting queue", **status}

    assert joined(sglang(([], {"completion_tokens": 0, "finish_reason": told})))[2] == "abort"


@pytest.mark.parametrize("meta", [{"completion_tokens": 3}, {"completion_tokens": -1}])
def test_ids_that_sglang_counts_otherwise_are_garbled(meta: dict[str, Any]) -> None:
    with pytest.raises(EngineGarbled):
        sglang(([1, 2], meta))


def test_the_first_token_of_a_prompt_has_no_logprob() -> None:
    meta = {
        "completion_tokens": 1,
        "input_token_logprobs": [[None, 5, None], [-1.0, 6, None]],
        "input_top_logprobs": [None, [[-1.0, 6, None], [-0.5, 7, None]]],
    }
    (output,) = sglang(([1], meta), prompt_logprobs=1)

    first, second = output.prompt_logprobs
    assert first is None
    assert second is not None
    assert (second.token_id, second.top) == (6, ((7, -0.5),))


def test_models_and_their_adapters() -> None:
    body = json.dumps(
        {
            "data": [
                {"id": "m", "root": "/models/m", "max_model_len": 99, "owned_by": "vllm"},
                {"id": "poet", "root": "/adapters/poet", "parent": "m"},
            ]
        }
    ).encode()
    for codec, _ in SIDES.values():
        info = codec.model.parse(body)
        assert (info.model, info.tokenizer_path, info.context_length) == ("m", "/models/m", 99)
        if codec.adapters is None:
            assert not codec.facts.lora
            continue
        assert [each.name for each in codec.adapters.parse(body)] == ["poet"]


def test_what_is_done_for_the_operator() -> None:
    for codec, _ in SIDES.values():
        flush = codec.upkeep(FlushCache())
        if codec.name == "llamacpp-http":
            assert flush is None
            continue
        assert flush is not None
        assert flush.parse(b"Cache flushed.\n").done
        assert flush.parse(b"").done
        assert not flush.parse(b'{"success": false, "message": "busy"}').done
        assert codec.upkeep(StartProfile(num_steps=3)) is not None
        loading = codec.upkeep(LoadAdapter("a", "b", "c"))
        assert loading is not None
        assert loading.path in ("POST /v1/load_lora_adapter", "POST /load_lora_adapter")


# What llama.cpp's server (commit 7e4c0a9) wrote, asked for 32 tokens within the grammar: root ::= "a 😀" "b"
A_FACE = [67, 223, 175, 256, 249, 225, 68, 2]


def llamacpp(case: str, **sampling: Any) -> list[EngineOutput]:
    asked = EngineRequest("r", TokenIds([5]), Sampling(max_tokens=32, **sampling))
    text = (FOLDER / "llamacpp" / case).read_bytes()
    sent = DataReader().feed(text) if case.endswith(".sse") else [text]
    return SIDES["llamacpp-http"][0].decoder(asked).feed(sent)


@pytest.mark.parametrize("case", ["stream.sse", "scored.sse", "all_fields.sse"])
def test_llamacpp_streams_the_last_id_of_a_character_and_the_text_of_all(case: str) -> None:
    outputs = llamacpp(case, logprobs=2 if case == "scored.sse" else None)

    assert [token for each in outputs for token in each.ids] == [67, 223, 225, 68, 2]
    assert [each.text for each in outputs if 225 in each.ids] == ["😀"]
    assert (outputs[-1].finish, outputs[-1].prompt_tokens) == ("stop", 6)
    assert outputs[-1].cached_tokens == 5 or case == "stream.sse"


def test_llamacpp_names_all_ids_of_a_whole_answer_and_scores_those_it_streams() -> None:
    (output,) = llamacpp("whole.json", logprobs=2, token_ids=True)

    assert (list(output.ids), output.finish, output.text) == (A_FACE, "stop", "")
    untold = [row.token_id for row in output.logprobs if row.logprob == -math.inf]
    assert untold == [175, 256, 249]
    assert all(len(row.top) == 2 for row in output.logprobs if row.logprob != -math.inf)


def test_ids_that_are_to_be_told_are_asked_for_in_one_whole_answer() -> None:
    codec, _ = SIDES["llamacpp-http"]
    for told in (True, False):
        asked = EngineRequest("r", TokenIds([5]), Sampling(max_tokens=9, token_ids=told))
        assert json.loads(codec.generate(asked))["stream"] is not told


@pytest.mark.parametrize("case", ["too_long.json", "bad_grammar.json"])
def test_what_llamacpp_refuses_is_rejected(case: str) -> None:
    with pytest.raises(EngineRejected):
        llamacpp(case)


def test_llamacpp_says_its_model_and_context_and_no_folder() -> None:
    info = SIDES["llamacpp-http"][0].model.parse((FOLDER / "llamacpp" / "models.json").read_bytes())
    assert (info.model, info.tokenizer_path, info.context_length, info.vocab_size) == ("tiny.gguf", "", 2048, 4096)


@given(st.lists(st.text(min_size=1, max_size=9), min_size=1, max_size=4))
def test_a_choice_is_a_grammar_of_literals_that_hold_each_text(texts: list[str]) -> None:
    codec, _ = SIDES["llamacpp-http"]
    constraint = Constraint("choice", choices=tuple(texts))
    asked = EngineRequest("r", TokenIds([5]), Sampling(max_tokens=9), constraint=constraint)
    grammar = json.loads(codec.generate(asked))["grammar"]

    assert "\n" not in grammar
    literals = re.findall(r'"((?:[^"\\]|\\.)*)"', grammar)
    escapes = {"\\n": "\n", "\\r": "\r", "\\t": "\t", '\\"': '"', "\\\\": "\\"}
    assert [re.sub(r"\\.", lambda found: escapes[found[0]], each) for each in literals] == texts


def test_vllms_tokens_call_gives_logprobs_by_ids() -> None:
    rows = [
        {
            "token_id": 1,
            "logprob": -2.0,
            "top_logprobs": [{"token_id": 1, "logprob": -2.0}, {"token_id": 9, "logprob": -1.0}],
        }
    ]
    choice = {"index": 0, "token_ids": [1], "finish_reason": "stop", "logprobs": {"content": rows}}
    asked = EngineRequest("r", TokenIds([5]), Sampling(max_tokens=9, logprobs=2))
    decoder = SIDES["vllm-tokens-http"][0].decoder(asked)
    (output, *_) = decoder.feed([json.dumps({"request_id": "r", "choices": [choice]}).encode(), b"[DONE]"])
    assert [(row.token_id, row.logprob, row.top) for row in output.logprobs] == [(1, -2.0, ((9, -1.0), (1, -2.0)))]

    wrong = json.dumps({"choices": [{**choice, "token_ids": [7]}]}).encode()
    with pytest.raises(EngineGarbled):
        SIDES["vllm-tokens-http"][0].decoder(asked).feed([wrong])


def test_vllms_tokens_call_makes_no_text_and_can_be_aborted_by_name() -> None:
    codec, _ = SIDES["vllm-tokens-http"]
    asked = EngineRequest("r", TokenIds([5]), Sampling(max_tokens=9))
    assert json.loads(codec.generate(asked))["sampling_params"] == {"detokenize": False, "max_tokens": 9}
    call = codec.abort("r")
    assert call is not None
    assert (call.path, json.loads(call.message)) == ("POST /inference/v1/abort_requests", {"request_ids": ["r"]})
    with pytest.raises(UnsupportedParameter):
        codec.generate(EngineRequest("r", TokenIds([5]), Sampling(max_tokens=9, stop=("x",))))
