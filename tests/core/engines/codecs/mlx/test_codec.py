"""The MLX dialect: what its messages can say, and what is refused by name."""

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.engines.base import EngineOutput, EngineRequest
from smg_core.engines.codecs.mlx.codec import MlxCodec
from smg_core.engines.constraint import Constraint
from smg_core.errors import EngineGarbled, InvalidRequest, UnsupportedParameter
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_engine_contract.engines import mlx_engine_pb2 as pb

CODEC = MlxCodec()
HELLO = [1549, 3, 3087, 450, 502, 373, 388, 3320, 33, 2]


def request(ids=(1, 379, 201), **sampling) -> EngineRequest:
    return EngineRequest("r-1", TokenIds(ids), Sampling(**sampling))


def sent(asked: EngineRequest) -> pb.GenerateRequest:
    return pb.GenerateRequest.FromString(CODEC.generate(asked))


def streamed(ids: list[int], finish: str = "stop", **end) -> list[bytes]:
    chunks = [
        pb.GenerateStreamChunk(token_ids=[token], prompt_tokens=20, completion_tokens=at + 1)
        for at, token in enumerate(ids)
    ]
    complete = pb.GenerateComplete(finish_reason=finish, prompt_tokens=20, completion_tokens=len(ids), **end)
    return [
        *(pb.GenerateResponse(chunk=each).SerializeToString() for each in chunks),
        pb.GenerateResponse(complete=complete).SerializeToString(),
    ]


def ids_of(outputs: list[EngineOutput]) -> list[int]:
    return [token for each in outputs for token in each.ids]


@given(st.lists(st.integers(0, 2**32 - 1), max_size=300))
def test_any_ids_arrive_as_they_were(ids: list[int]) -> None:
    assert list(sent(request(ids)).tokenized.input_ids) == ids


def test_what_was_not_asked_for_is_not_sent() -> None:
    assert sent(request()).sampling_params == pb.SamplingParams()


def test_every_sampling_field_has_its_place() -> None:
    params = sent(
        request(
            temperature=0.0,
            max_tokens=9,
            top_p=0.5,
            top_k=40,
            min_p=0.25,
            frequency_penalty=0.5,
            presence_penalty=-0.5,
            repetition_penalty=1.5,
            seed=7,
            stop_token_ids=(9, 8),
            ignore_eos=True,
            logit_bias={5: -100.0},
            logprobs=3,
        )
    ).sampling_params

    assert {field.name for field, _ in params.ListFields()} == {
        each.name for each in pb.SamplingParams.DESCRIPTOR.fields
    }
    assert (params.top_p, params.top_k, params.min_p, params.repetition_penalty) == (0.5, 40, 0.25, 1.5)
    assert (params.frequency_penalty, params.presence_penalty, dict(params.logit_bias)) == (0.5, -0.5, {5: -100.0})
    assert (list(params.stop_token_ids), params.seed, params.logprobs) == ([9, 8], 7, 3)


def test_the_sampled_tokens_logprob_alone_is_asked_for_with_one_alternative_since_none_gives_nothing() -> None:
    asked = request(logprobs=0)
    scores = pb.OutputLogProbs(token_ids=[5], token_logprobs=[-0.5])
    scores.top_logprobs.add(token_ids=[5], values=[-0.5])
    chunk = pb.GenerateStreamChunk(token_ids=[5], output_logprobs=scores)

    (output,) = CODEC.decoder(asked).feed([pb.GenerateResponse(chunk=chunk).SerializeToString()])

    assert sent(asked).sampling_params.logprobs == 1
    assert [(row.token_id, row.logprob, row.top) for row in output.logprobs] == [(5, -0.5, ())]


@pytest.mark.parametrize(
    ("sampling", "outer", "param"),
    [
        ({"n": 2}, {}, "sampling.n"),
        ({"stop": ("x",)}, {}, "sampling.stop"),
        ({"min_tokens": 1}, {}, "sampling.min_tokens"),
        ({"prompt_logprobs": 1}, {}, "sampling.prompt_logprobs"),
        ({"seed": -1}, {}, "sampling.seed"),
        ({"seed": 2**31}, {}, "sampling.seed"),
        ({"top_p": 0.0}, {}, "sampling.top_p"),
        ({"repetition_penalty": 0.0}, {}, "sampling.repetition_penalty"),
        ({"temperature": float("inf")}, {}, "sampling.temperature"),
        ({"max_tokens": -1}, {}, "sampling.max_tokens"),
        ({}, {"constraint": Constraint("json_object")}, "response_format"),
        ({}, {"cache_salt": "tenant"}, "cache_salt"),
        ({}, {"multimodal": object()}, "messages"),
        ({}, {"kv_transfer": "{}"}, "kv_transfer"),
        ({}, {"data_parallel_rank": 1}, "data_parallel_rank"),
    ],
)
def test_what_the_wire_cannot_say_is_refused_by_name(sampling: dict, outer: dict, param: str) -> None:
    with pytest.raises((UnsupportedParameter, InvalidRequest)) as caught:
        CODEC.generate(EngineRequest("r", TokenIds([1]), Sampling(**sampling), **outer))

    assert caught.value.param == param


@given(cuts=st.lists(st.integers(0, 11), max_size=6), finish=st.sampled_from(["stop", "length"]))
def test_however_reads_divide_the_messages_the_tokens_are_the_same(cuts: list[int], finish: str) -> None:
    messages = streamed(HELLO, finish)
    edges = [0, *sorted({cut % (len(messages) + 1) for cut in cuts}), len(messages)]
    decoder = CODEC.decoder(request())
    outputs = [each for a, b in pairwise(edges) if b > a for each in decoder.feed(messages[a:b])]

    assert ids_of(outputs) == HELLO
    assert (outputs[-1].finish, outputs[-1].prompt_tokens) == (finish, 20)


@pytest.mark.parametrize(("stops", "matched"), [((), None), ((2,), 2), ((7,), None)])
def test_the_end_token_matched_only_where_the_request_named_it(stops: tuple[int, ...], matched: int | None) -> None:
    outputs = CODEC.decoder(request(stop_token_ids=stops)).feed(streamed(HELLO, matched_stop_token_id=2))

    assert outputs[-1].matched == matched


def test_a_finish_word_that_nobody_knows_is_an_error() -> None:
    assert CODEC.decoder(request()).feed(streamed(HELLO, "evicted"))[-1].finish == "error"


@given(st.binary(max_size=40), st.booleans())
def test_noise_is_read_or_refused_and_nothing_else(noise: bytes, scored: bool) -> None:
    with suppress(EngineGarbled):
        CODEC.decoder(request(logprobs=1 if scored else None)).feed([noise])


def test_nothing_more_may_come_after_the_end() -> None:
    decoder = CODEC.decoder(request())
    decoder.feed(streamed(HELLO))

    with pytest.raises(EngineGarbled):
        decoder.feed(streamed(HELLO)[:1])
