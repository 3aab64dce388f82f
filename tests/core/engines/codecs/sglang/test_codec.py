"""The SGLang dialect: what its messages can say, and what is refused by name."""

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from smg_core.engines.base import Bootstrap, EngineOutput, EngineRequest
from smg_core.engines.codecs.sglang.codec import SglangCodec
from smg_core.engines.constraint import Constraint
from smg_core.errors import EngineGarbled, InvalidRequest, UnsupportedParameter
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_engine_contract.engines import sglang_scheduler_pb2 as pb

CODEC = SglangCodec()
HELLO = [1549, 3, 3087, 450, 502, 373, 388, 3320, 33, 2]


def request(ids=(1, 379, 201), id="r-1", **sampling) -> EngineRequest:
    return EngineRequest(id, TokenIds(ids), Sampling(**sampling))


def sent(asked: EngineRequest) -> pb.GenerateRequest:
    return pb.GenerateRequest.FromString(CODEC.generate(asked))


def response(name: str = "r-1", **part) -> bytes:
    return pb.GenerateResponse(request_id=name, **part).SerializeToString()


def streamed(ids: list[int], finish: str = "stop", name: str = "r-1", **end) -> list[bytes]:
    chunks = [
        pb.GenerateStreamChunk(token_ids=[token], prompt_tokens=20, completion_tokens=at + 1, cached_tokens=16)
        for at, token in enumerate(ids)
    ]
    complete = pb.GenerateComplete(output_ids=ids[-1:], finish_reason=finish, prompt_tokens=20, **end)
    return [*(response(name, chunk=each) for each in chunks), response(name, complete=complete)]


def ids_of(outputs: list[EngineOutput]) -> list[int]:
    return [token for each in outputs for token in each.ids]


@given(st.lists(st.integers(0, 2**32 - 1), max_size=300))
def test_any_ids_arrive_as_they_were(ids: list[int]) -> None:
    assert list(sent(request(ids)).tokenized.input_ids) == ids


def test_what_was_not_asked_for_is_written_as_the_engines_own_default() -> None:
    assert sent(request()) == pb.GenerateRequest(
        request_id="r-1",
        tokenized=pb.TokenizedInput(input_ids=[1, 379, 201]),
        sampling_params=pb.SamplingParams(
            temperature=1.0,
            top_p=1.0,
            top_k=-1,
            repetition_penalty=1.0,
            skip_special_tokens=True,
            spaces_between_special_tokens=True,
            n=1,
        ),
        logprob_start_len=-1,
        stream=True,
    )


def test_every_sampling_field_has_its_place() -> None:
    got = sent(
        request(
            temperature=0.5,
            max_tokens=9,
            min_tokens=3,
            top_p=0.5,
            top_k=40,
            min_p=0.25,
            frequency_penalty=0.5,
            presence_penalty=-0.5,
            repetition_penalty=1.5,
            stop=("end",),
            stop_token_ids=(9, 8),
            ignore_eos=True,
            include_stop=True,
            logit_bias={5: -100.0},
            logprobs=3,
        )
    )
    params = got.sampling_params
    of_others = {"regex", "json_schema", "ebnf_grammar", "structural_tag", "stream_interval", "custom_params"}

    assert {field.name for field, _ in params.ListFields()} == {
        each.name for each in pb.SamplingParams.DESCRIPTOR.fields
    } - of_others
    assert (params.top_p, params.top_k, params.min_p, params.repetition_penalty) == (0.5, 40, 0.25, 1.5)
    assert (params.frequency_penalty, params.presence_penalty, dict(params.logit_bias)) == (0.5, -0.5, {"5": -100.0})
    assert (list(params.stop), list(params.stop_token_ids), params.min_new_tokens) == (["end"], [9, 8], 3)
    assert (got.return_logprob, got.top_logprobs_num, got.logprob_start_len) == (True, 3, -1)


@pytest.mark.parametrize("top_k", [None, 0, -1])
def test_all_tokens_are_asked_for_with_minus_one(top_k: int | None) -> None:
    assert sent(request(top_k=top_k)).sampling_params.top_k == -1


def test_a_temperature_of_0_is_sent_as_it_is() -> None:
    assert sent(request(temperature=0.0)).sampling_params.temperature == 0.0


@pytest.mark.parametrize(
    ("constraint", "field", "value"),
    [
        (Constraint("json_schema", '{"type": "integer"}'), "json_schema", '{"type": "integer"}'),
        (Constraint("json_object"), "json_schema", '{"type":"object"}'),
        (Constraint("regex", "a+"), "regex", "a+"),
        (Constraint("grammar", 'root ::= "a"'), "ebnf_grammar", 'root ::= "a"'),
        (Constraint("structural_tag", "{}"), "structural_tag", "{}"),
        (Constraint("choice", choices=("yes", "no (1.5$)")), "regex", r"(yes|no \(1\.5\$\))"),
    ],
)
def test_a_constraint_is_put_in_the_words_that_the_engine_has(constraint: Constraint, field: str, value: str) -> None:
    params = sent(EngineRequest("r", TokenIds([1]), Sampling(), constraint=constraint)).sampling_params

    assert params.WhichOneof("constraint") == field
    assert getattr(params, field) == value


def test_one_number_of_alternatives_is_asked_for_and_what_is_too_much_is_left_out() -> None:
    asked = request(logprobs=1, prompt_logprobs=3)
    row = pb.TopLogProbs(token_ids=[7, 8, 9], values=[-0.1, -2.0, -3.0])
    prompt = pb.InputLogProbs(
        token_ids=[1, 7],
        token_logprobs=[pb.InputTokenLogProb(), pb.InputTokenLogProb(value=-0.1)],
        top_logprobs=[pb.TopLogProbs(), row],
    )
    chunk = pb.GenerateStreamChunk(
        token_ids=[7],
        output_logprobs=pb.OutputLogProbs(token_ids=[7], token_logprobs=[-0.1], top_logprobs=[row]),
        input_logprobs=prompt,
    )
    (output,) = CODEC.decoder(asked).feed([response(chunk=chunk)])

    assert (sent(asked).top_logprobs_num, sent(asked).logprob_start_len) == (3, 0)
    assert [len(each.top) for each in output.logprobs] == [1]
    assert [len(each.top) for each in output.prompt_logprobs if each] == [3]


def test_a_rank_an_adapter_and_a_bootstrap_server_have_their_places() -> None:
    place = Bootstrap("10.0.0.1", 8998, 2**31 - 1)
    got = sent(EngineRequest("r", TokenIds([1]), Sampling(), data_parallel_rank=0, bootstrap=place, lora="sql"))

    assert (got.HasField("data_parallel_rank"), got.data_parallel_rank, got.lora_id) == (True, 0, "sql")
    assert got.disaggregated_params == pb.DisaggregatedParams(
        bootstrap_host="10.0.0.1", bootstrap_port=8998, bootstrap_room=2**31 - 1
    )


@pytest.mark.parametrize(
    ("sampling", "outer", "param"),
    [
        ({"n": 2}, {}, "sampling.n"),
        ({"seed": 1}, {}, "sampling.seed"),
        ({"top_p": 0.0}, {}, "sampling.top_p"),
        ({"top_k": 2**31}, {}, "sampling.top_k"),
        ({"repetition_penalty": 0.0}, {}, "sampling.repetition_penalty"),
        ({"temperature": float("inf")}, {}, "sampling.temperature"),
        ({"max_tokens": -1}, {}, "sampling.max_tokens"),
        ({"logprobs": -1}, {}, "sampling.logprobs"),
        ({"prompt_logprobs": -1}, {}, "sampling.prompt_logprobs"),
        ({}, {"constraint": Constraint("lark")}, "response_format"),
        ({}, {"cache_salt": "tenant"}, "cache_salt"),
        ({}, {"multimodal": object()}, "messages"),
        ({}, {"kv_transfer": "{}"}, "kv_transfer"),
        ({}, {"bootstrap": Bootstrap("h", 1, 2**31)}, None),
        ({}, {"bootstrap": Bootstrap("h", -1, 1)}, None),
    ],
)
def test_what_the_wire_cannot_say_is_refused_by_name(sampling: dict, outer: dict, param: str | None) -> None:
    with pytest.raises((UnsupportedParameter, InvalidRequest)) as caught:
        CODEC.generate(EngineRequest("r", TokenIds([1]), Sampling(**sampling), **outer))

    assert caught.value.param == param


@pytest.mark.full
@given(
    cuts=st.lists(st.integers(0, 11), max_size=6),
    finish=st.sampled_from(["stop", "length"]),
    name=st.text(max_size=200),
    named=st.booleans(),
)
def test_however_reads_divide_the_messages_the_tokens_are_the_same(
    cuts: list[int], finish: str, name: str, named: bool
) -> None:
    messages = streamed(HELLO, finish, name if named else "another")
    edges = [0, *sorted({cut % (len(messages) + 1) for cut in cuts}), len(messages)]
    decoder = CODEC.decoder(request(id=name))
    outputs = [each for a, b in pairwise(edges) if b > a for each in decoder.feed(messages[a:b])]

    assert ids_of(outputs) == HELLO
    assert (outputs[-1].finish, max(each.prompt_tokens for each in outputs)) == (finish, 20)
    assert max(each.cached_tokens for each in outputs) == 16


@pytest.mark.parametrize(("stops", "matched"), [((), None), ((2,), 2), ((7,), None)])
def test_the_end_token_matched_only_where_the_request_named_it(stops: tuple[int, ...], matched: int | None) -> None:
    outputs = CODEC.decoder(request(stop_token_ids=stops)).feed(streamed(HELLO, matched_token_id=2))

    assert outputs[-1].matched == matched


@pytest.mark.parametrize(("parser", "found"), [("qwen3", "as_told"), (None, "first_token")])
def test_with_a_parser_for_reasoning_the_engine_holds_its_output_from_where_it_is_told(
    parser: str | None, found: str
) -> None:
    message = pb.GetServerInfoResponse()
    message.server_args.update({"reasoning_parser": parser})

    assert CODEC.describes.parse(message.SerializeToString()).holds_from == found
    asked = EngineRequest("r", TokenIds([5]), Sampling(), constraint=Constraint("json_object"))
    for after in (False, True):
        sent = pb.GenerateRequest.FromString(CODEC.generate(replace(asked, after_reasoning=after)))
        assert sent.require_reasoning == after


def test_reasoning_tokens_are_passed_on() -> None:
    outputs = CODEC.decoder(request()).feed(streamed(HELLO, reasoning_tokens=4))

    assert outputs[-1].reasoning_tokens == 4


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
