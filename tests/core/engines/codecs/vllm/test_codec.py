"""The vLLM dialect: requests as its servicers read them, answers as both of them send them.

The exchanges below have the shape and the values that real servicers sent for the same requests: the Python one counts each
chunk by itself and repeats the last chunk at the end, the Rust one counts on and repeats everything.
"""

import math
from itertools import pairwise

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.engines.codecs.vllm.test_media import Media

from smg_core.engines.base import EngineLogprob, EngineOutput, EngineRequest
from smg_core.engines.codecs.vllm.codec import VllmCodec
from smg_core.engines.codecs.vllm.media import VllmRequestMedia
from smg_core.engines.constraint import Constraint
from smg_core.errors import EngineGarbled, InvalidRequest, UnsupportedParameter
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_engine_contract.engines import common_pb2 as common
from smg_engine_contract.engines import vllm_engine_pb2 as pb
from smg_simulator.codecs.vllm import VllmServerCodec

CODEC = VllmCodec()
HELLO = [1549, 3, 3087, 450, 502, 373, 388, 3320, 33, 2]


def request(ids=(1, 379, 201), **given) -> EngineRequest:
    return EngineRequest("r-1", TokenIds(ids), Sampling(**given))


def sent(asked: EngineRequest) -> pb.GenerateRequest:
    return pb.GenerateRequest.FromString(CODEC.generate(asked))


def chunk(ids, index=0, prompt=20, completion=1, cached=0, **more) -> bytes:
    body = pb.GenerateStreamChunk(
        token_ids=ids, prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached, index=index, **more
    )
    return pb.GenerateResponse(chunk=body).SerializeToString()


def complete(ids, finish="stop", index=0, prompt=20, **more) -> bytes:
    body = pb.GenerateComplete(
        output_ids=ids, finish_reason=finish, prompt_tokens=prompt, completion_tokens=len(ids), index=index, **more
    )
    return pb.GenerateResponse(complete=body).SerializeToString()


def python_servicer(ids, finish="stop", **more) -> list[bytes]:
    return [*(chunk([token]) for token in ids), complete(ids[-1:], finish, **more)]


def rust_servicer(ids, finish="stop", **more) -> list[bytes]:
    return [*(chunk([token], completion=at + 1) for at, token in enumerate(ids)), complete(ids, finish, **more)]


def collect(outputs: list[EngineOutput]) -> dict[int, tuple[list[int], str | None]]:
    """Ids and finish reason of each choice."""
    found: dict[int, tuple[list[int], str | None]] = {}
    for output in outputs:
        ids, finish = found.get(output.index, ([], None))
        assert finish is None, "output after the end of a choice"
        found[output.index] = ([*ids, *output.ids], output.finish)
    return found


def split(messages: list[bytes], cuts: list[int]) -> list[list[bytes]]:
    edges = [0, *sorted({cut % (len(messages) + 1) for cut in cuts}), len(messages)]
    return [messages[a:b] for a, b in pairwise(edges) if b > a]


# ------------------------------------------------------------------------------------------------------------- requests


def test_a_request_carries_its_id_its_ids_and_its_sampling() -> None:
    got = sent(request(max_tokens=12, temperature=0.0, stop=("\n",), seed=0, n=1))

    assert got.request_id == "r-1"
    assert list(got.tokenized.input_ids) == [1, 379, 201]
    assert got.stream
    assert got.sampling_params.HasField("temperature")
    assert got.sampling_params.temperature == 0.0
    assert got.sampling_params.max_tokens == 12
    assert list(got.sampling_params.stop) == ["\n"]
    assert got.sampling_params.HasField("seed")


def test_what_was_not_asked_for_is_not_sent() -> None:
    params = sent(request()).sampling_params

    assert {field.name for field, _ in params.ListFields()} == {"skip_special_tokens"}


@given(st.lists(st.integers(0, 2**32 - 1), max_size=300))
def test_any_ids_arrive_as_they_were(ids: list[int]) -> None:
    assert list(sent(request(ids)).tokenized.input_ids) == ids


def test_a_prompt_seen_before_is_not_packed_again() -> None:
    asked = request(range(1000))
    first = CODEC.generate(asked)

    kept = asked.input_ids.packed_varints
    assert kept is not None
    assert kept in first
    assert CODEC.generate(asked) == first
    assert asked.input_ids.packed_varints is kept


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("top_p", 0.0),
        ("top_p", 1e-60),
        ("repetition_penalty", 0.0),
        ("seed", 2**31),
        ("seed", -(2**31) - 1),
    ],
)
def test_a_value_the_wire_cannot_say_is_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(UnsupportedParameter) as caught:
        CODEC.generate(request(**{field: value}))

    assert caught.value.param == f"sampling.{field}"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", math.nan),
        ("presence_penalty", math.inf),
        ("temperature", 1e39),
        ("max_tokens", -1),
        ("max_tokens", 2**32),
        ("top_k", -7),
        ("n", 0),
        ("logit_bias", {5: math.inf}),
        ("stop_token_ids", (-1,)),
    ],
)
def test_a_value_no_field_can_hold_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InvalidRequest) as caught:
        CODEC.generate(request(**{field: value}))

    assert caught.value.param == f"sampling.{field}"


@pytest.mark.parametrize("field", ["min_p", "frequency_penalty", "presence_penalty", "min_tokens", "top_k"])
def test_a_zero_that_is_the_engines_default_anyway_is_simply_left_out(field: str) -> None:
    params = sent(request(**{field: 0})).sampling_params

    assert field not in {each.name for each, _ in params.ListFields()}


def test_every_sampling_field_has_its_place() -> None:
    params = sent(
        request(
            min_tokens=2,
            top_p=0.5,
            top_k=40,
            min_p=0.25,
            frequency_penalty=0.5,
            presence_penalty=-0.5,
            repetition_penalty=1.5,
            seed=-7,
            stop_token_ids=(9, 8),
            ignore_eos=True,
            skip_special_tokens=False,
            include_stop=True,
            logit_bias={5: -100.0},
            n=3,
            logprobs=0,
            prompt_logprobs=2,
        )
    ).sampling_params

    assert (params.min_tokens, params.top_p, params.top_k, params.min_p) == (2, 0.5, 40, 0.25)
    assert (params.frequency_penalty, params.presence_penalty, params.repetition_penalty) == (0.5, -0.5, 1.5)
    assert (params.seed, list(params.stop_token_ids), params.ignore_eos) == (-7, [9, 8], True)
    assert (params.skip_special_tokens, params.include_stop_str_in_output) == (False, True)
    assert (dict(params.logit_bias), params.n) == ({5: -100.0}, 3)
    assert params.HasField("logprobs")
    assert (params.logprobs, params.prompt_logprobs) == (0, 2)


@pytest.mark.parametrize(
    ("constraint", "field", "value"),
    [
        (Constraint("json_schema", '{"type": "object"}'), "json_schema", '{"type": "object"}'),
        (Constraint("json_object"), "json_object", True),
        (Constraint("regex", "a+"), "regex", "a+"),
        (Constraint("grammar", 'root ::= "a"'), "grammar", 'root ::= "a"'),
        (Constraint("structural_tag", "{}"), "structural_tag", "{}"),
        (Constraint("choice", choices=("a", "b")), "choice", pb.ChoiceConstraint(choices=["a", "b"])),
    ],
)
def test_each_constraint_has_its_field(constraint: Constraint, field: str, value: object) -> None:
    params = sent(EngineRequest("r", TokenIds([1]), Sampling(), constraint=constraint)).sampling_params

    assert params.WhichOneof("constraint") == field
    assert getattr(params, field) == value
    assert constraint.kind in CODEC.facts.constraints


def test_what_the_dialect_does_not_know_is_refused() -> None:
    plain = {"id": "r", "input_ids": TokenIds([1]), "sampling": Sampling()}

    with pytest.raises(UnsupportedParameter, match="constraint"):
        CODEC.generate(EngineRequest(**plain, constraint=Constraint("haiku")))
    with pytest.raises(UnsupportedParameter, match="cache salt"):
        CODEC.generate(EngineRequest(**plain, cache_salt="tenant"))
    with pytest.raises(UnsupportedParameter, match="media"):
        CODEC.generate(EngineRequest(**plain, multimodal=[object()]))


def test_rank_transfer_and_media_travel_with_the_request() -> None:
    media = VllmRequestMedia((Media(hashes=["a"]), Media(hashes=["b"], modality="video")))

    got = sent(
        EngineRequest(
            "r",
            TokenIds([1]),
            Sampling(),
            False,
            data_parallel_rank=0,
            kv_transfer="{}",
            multimodal=media,
        )
    )

    assert got.HasField("data_parallel_rank")
    assert got.kv_transfer_params_json == "{}"
    assert not got.stream
    assert list(got.mm_inputs.mm_hashes) == ["a"]
    assert [list(each.mm_hashes) for each in got.extra_mm_inputs] == [["b"]]


# -------------------------------------------------------------------------------------------------------------- answers


@pytest.mark.parametrize("servicer", [python_servicer, rust_servicer])
def test_ids_come_once_whatever_the_servicer_repeats(servicer) -> None:
    outputs = CODEC.decoder(request()).feed(servicer(HELLO))

    assert collect(outputs) == {0: (HELLO, "stop")}
    assert outputs[-1].matched is None
    assert outputs[-1].prompt_tokens == 20


@pytest.mark.parametrize("servicer", [python_servicer, rust_servicer])
@given(cuts=st.lists(st.integers(0, 11), max_size=6))
def test_however_reads_divide_the_messages_the_tokens_are_the_same(servicer, cuts: list[int]) -> None:
    decoder = CODEC.decoder(request())
    outputs = [each for batch in split(servicer(HELLO), cuts) for each in decoder.feed(batch)]

    assert collect(outputs) == {0: (HELLO, "stop")}


def test_the_chunks_of_one_read_become_one_output() -> None:
    (output,) = CODEC.decoder(request()).feed(python_servicer(HELLO)[:7])

    assert list(output.ids) == HELLO[:7]
    assert output.completion_tokens is None


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 200_000), max_size=60), st.integers(0, 5000), st.integers(0, 5000)),
        max_size=12,
    )
)
def test_a_joined_read_says_what_its_messages_say_one_by_one(rows) -> None:
    messages = [chunk(ids, prompt=prompt, cached=cached) for ids, prompt, cached in rows]
    together, apart = CODEC.decoder(request()), CODEC.decoder(request())

    assert collect(together.feed(messages)) == collect([each for one in messages for each in apart.feed([one])])


counts = st.sampled_from([0, 1, 127, 128, 16_384, 2**21, 2**32 - 1])


@given(
    st.lists(st.integers(0, 2**22), max_size=2),
    st.tuples(counts, counts, counts),
    st.sampled_from([0, 0, 0, 1]),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 255)), max_size=2),
)
def test_a_token_read_without_the_parser_is_what_the_parser_reads(ids, said, index, changes) -> None:
    prompt, completion, cached = said
    raw = bytearray(chunk(ids, index, prompt, completion, cached))
    for place, value in changes:
        raw[place % len(raw)] = value
    decoder = CODEC.decoder(request())
    decoder.feed([chunk([1])])
    try:
        outputs = decoder.feed([bytes(raw)])
    except EngineGarbled:
        return
    read = pb.GenerateResponse.FromString(bytes(raw))

    assert [token for output in outputs for token in output.ids] == list(read.chunk.token_ids)
    assert read.chunk.index == 0


def test_a_whole_answer_has_its_ids_in_the_end() -> None:
    asked = EngineRequest("r", TokenIds([1]), Sampling(), stream=False)

    (output,) = CODEC.decoder(asked).feed([complete(HELLO[:8], "length", cached_tokens=192)])

    assert list(output.ids) == HELLO[:8]
    assert (output.finish, output.cached_tokens) == ("length", 192)


def test_choices_are_told_apart_by_their_index() -> None:
    messages = [
        chunk([1549]),
        chunk([3]),
        chunk([1549], index=1),
        chunk([373]),
        complete([373], "length"),
        chunk([502], index=1),
        chunk([2], index=1),
        complete([2], "stop", index=1),
    ]

    outputs = CODEC.decoder(request(n=2, temperature=0.9)).feed(messages)

    assert collect(outputs) == {0: ([1549, 3, 373], "length"), 1: ([1549, 502, 2], "stop")}
    assert [output.index for output in outputs] == [0, 1, 0, 1]


def test_an_abort_is_an_end_without_tokens() -> None:
    messages = [chunk([1549]), chunk([3]), chunk([], completion=0), complete([], "abort")]

    outputs = CODEC.decoder(request()).feed(messages)

    assert collect(outputs) == {0: ([1549, 3], "abort")}


@pytest.mark.parametrize(
    ("finish", "expected"),
    [("stop", "stop"), ("length", "length"), ("abort", "abort"), ("error", "error"), ("", "stop"), ("bored", "error")],
)
def test_finish_reasons_are_ours(finish: str, expected: str) -> None:
    (output,) = CODEC.decoder(request()).feed([chunk([5]), complete([5], finish)])

    assert output.finish == expected


@pytest.mark.parametrize(("field", "value"), [("matched_token_id", 3087), ("matched_stop_str", "! Ho")])
def test_what_ended_a_choice_is_kept(field: str, value: object) -> None:
    (output,) = CODEC.decoder(request()).feed([chunk([5]), complete([5], **{field: value})])

    assert output.matched == value


def test_transfer_parameters_come_back() -> None:
    (output,) = CODEC.decoder(request()).feed([complete([5], kv_transfer_params_json='{"remote": 1}')])

    assert output.kv_transfer == '{"remote": 1}'


def row(token: int, logprob: float, *others: tuple[int, float]) -> pb.OutputLogProbs:
    top = pb.TopLogProbs(values=[logprob, *(v for _, v in others)], token_ids=[token, *(t for t, _ in others)])
    return pb.OutputLogProbs(token_logprobs=[logprob], token_ids=[token], top_logprobs=[top])


def test_logprobs_stand_beside_their_tokens_most_likely_first() -> None:
    messages = [
        chunk([1549], output_logprobs=row(1549, -0.5, (2170, -7.5))),
        chunk([3], output_logprobs=row(3, -3.0, (33, -0.25), (34, -0.5))),
        complete([3], "length", output_logprobs=row(3, -3.0, (33, -0.25), (34, -0.5))),
    ]

    (output,) = CODEC.decoder(request(logprobs=2)).feed(messages)

    assert list(output.logprobs) == [
        EngineLogprob(1549, -0.5, ((1549, -0.5), (2170, -7.5))),
        EngineLogprob(3, -3.0, ((33, -0.25), (34, -0.5))),
    ]


def test_with_no_alternatives_asked_for_only_the_sampled_token_has_a_logprob() -> None:
    bare = pb.OutputLogProbs(token_logprobs=[-0.5, -0.25], token_ids=[7, 8])

    (output,) = CODEC.decoder(request(logprobs=0)).feed([complete([7, 8], "length", output_logprobs=bare)])

    assert list(output.logprobs) == [EngineLogprob(7, -0.5), EngineLogprob(8, -0.25)]


def test_prompt_logprobs_come_with_the_first_chunk_and_only_once() -> None:
    prompt = pb.InputLogProbs(
        token_logprobs=[pb.InputTokenLogProb(), pb.InputTokenLogProb(value=-10.25)],
        token_ids=[1549, 3992],
        top_logprobs=[pb.TopLogProbs(), pb.TopLogProbs(values=[-10.25], token_ids=[3992])],
    )
    messages = [chunk([3], input_logprobs=prompt), chunk([2]), complete([2], input_logprobs=prompt)]

    decoder = CODEC.decoder(request(prompt_logprobs=1))
    outputs = [each for message in messages for each in decoder.feed([message])]

    assert [list(output.prompt_logprobs) for output in outputs] == [
        [None, EngineLogprob(3992, -10.25, ((3992, -10.25),))],
        [],
        [],
    ]


@pytest.mark.parametrize(
    "messages",
    [
        [b"\xff\xff\xff\xff"],
        [b""],
        [chunk([1]), b""],
        [b"\x0a\x7f\x01"],
        [chunk([1]), chunk([2])[:-1]],
        [chunk([1], index=1)],
        [chunk([1]), complete([1]), chunk([2])],
        [complete([1], index=3)],
    ],
    ids=["noise", "empty", "empty second", "short", "cut", "unknown choice", "after the end", "unknown end"],
)
@pytest.mark.parametrize("n", [1, 2])
def test_what_the_protocol_does_not_allow_is_garbled(messages: list[bytes], n: int) -> None:
    if n == 2:
        messages = [chunk([1], index=2) if message == chunk([1], index=1) else message for message in messages]

    with pytest.raises(EngineGarbled):
        CODEC.decoder(request(n=n, temperature=1.0)).feed(messages)


def test_tokens_after_the_end_are_garbled_in_a_later_read_too() -> None:
    decoder = CODEC.decoder(request())
    decoder.feed([chunk([1]), complete([1])])

    with pytest.raises(EngineGarbled):
        decoder.feed([chunk([2])])


def test_as_many_logprobs_as_tokens_or_it_is_garbled() -> None:
    with pytest.raises(EngineGarbled, match="1 logprobs for 2 tokens"):
        CODEC.decoder(request(logprobs=1)).feed([chunk([1, 2], output_logprobs=row(1, -0.5))])


@given(st.lists(st.binary(max_size=40), max_size=4))
def test_any_bytes_are_read_or_called_garbled(messages: list[bytes]) -> None:
    for asked in (request(), request(n=2, logprobs=1)):
        try:
            outputs = CODEC.decoder(asked).feed(messages)
        except EngineGarbled:
            continue
        assert all(0 <= output.index < asked.sampling.n for output in outputs)


# ------------------------------------------------------------------------------------------------------ the other calls


def test_model_info_is_read() -> None:
    message = pb.GetModelInfoResponse(
        model_path="models/tiny",
        is_generation=True,
        max_context_length=2048,
        vocab_size=4096,
        served_model_name="tiny",
        tokenizer_path="models/tiny",
        model_type="qwen2",
        architectures=["Qwen2ForCausalLM"],
        eos_token_ids=[2],
        max_req_input_len=2048,
        default_sampling_params_json='{"temperature":0.7,"top_p":0.8,"top_k":20}',
    )

    info = CODEC.model.parse(message.SerializeToString())

    assert (info.model, info.context_length, info.vocab_size, info.eos_token_ids) == ("tiny", 2048, 4096, (2,))
    assert info.default_sampling == {"temperature": 0.7, "top_p": 0.8, "top_k": 20}


def test_an_engine_that_names_no_model_is_known_by_its_path() -> None:
    assert CODEC.model.parse(pb.GetModelInfoResponse(model_path="m").SerializeToString()).model == "m"


@pytest.mark.parametrize("text", ["{", "[]"])
def test_default_sampling_that_is_no_object_is_garbled(text: str) -> None:
    with pytest.raises(EngineGarbled):
        CODEC.model.parse(pb.GetModelInfoResponse(default_sampling_params_json=text).SerializeToString())


def test_the_facts_are_the_dialects_table_with_what_the_engine_says() -> None:
    message = pb.GetServerInfoResponse(
        data_parallel_size=2,
        block_size=32,
        shm_namespace_id="boot:25",
        mm_device_do_normalize=True,
        multimodal_encoder_dtype="bfloat16",
    )

    facts = CODEC.describes.parse(message.SerializeToString())

    assert (facts.dialect, facts.ranks, facts.block_size) == ("vllm", 2, 32)
    assert (facts.shared_memory, facts.normalizes, facts.floats) == ("boot:25", True, "bfloat16")
    unsaid = attrs.evolve(facts, ranks=1, block_size=0, shared_memory="", normalizes=False, floats="float32")
    assert unsaid == CODEC.facts


@pytest.mark.parametrize(
    ("start", "parser", "found"),
    [
        ("first_token", "", "first_token"),
        ("first_token", "qwen3", "first_token"),
        ("after_reasoning", "qwen3", "after_reasoning"),
        ("", "qwen3", "after_reasoning"),
        ("some day", "", "unknown"),
        ("", "", "unknown"),
    ],
)
def test_an_engine_says_from_where_on_it_holds_its_output_to_a_constraint(start: str, parser: str, found: str) -> None:
    message = pb.GetServerInfoResponse(constrained_decoding_start=start, engine_reasoning_parser=parser)
    assert CODEC.describes.parse(message.SerializeToString()).holds_from == found


@pytest.mark.parametrize("said", ["", "float32", "float64", "torch.bfloat16"])
def test_an_encoder_of_another_type_is_sent_single_precision(said: str) -> None:
    message = pb.GetServerInfoResponse(multimodal_encoder_dtype=said)
    assert CODEC.describes.parse(message.SerializeToString()).floats == "float32"


def test_an_engine_that_says_nothing_has_the_dialects_table() -> None:
    assert CODEC.describes.parse(b"") == CODEC.facts
    assert (CODEC.facts.greedy_n, CODEC.facts.cache_salt, CODEC.facts.max_logprobs) == (False, False, 20)
    assert CODEC.facts.media is None


def test_loads_have_a_row_for_each_rank() -> None:
    rows = [
        pb.SchedulerLoad(num_running_reqs=3, num_waiting_reqs=1, num_used_tokens=161, max_total_num_tokens=8192),
        pb.SchedulerLoad(dp_rank=1, num_running_reqs=2, token_usage=0.5, gen_throughput=1462.5, cache_hit_rate=0.25),
    ]

    loads = CODEC.loads.parse(pb.GetLoadsResponse(loads=rows).SerializeToString())

    assert (loads.running, loads.waiting) == (5, 1)
    assert [rank.rank for rank in loads.ranks] == [0, 1]
    assert loads.ranks[0].used_tokens == 161
    assert (loads.ranks[1].tokens_per_second, loads.ranks[1].cache_hit_rate) == (1462.5, 0.25)


def test_the_small_calls_are_put_and_read() -> None:
    abort = CODEC.abort("r-9")
    assert (abort.path, list(pb.AbortRequest.FromString(abort.message).request_ids)) == (
        "/vllm.grpc.engine.VllmEngine/Abort",
        ["r-9"],
    )

    embed = CODEC.embed("r-9", TokenIds([5, 300]))
    got = pb.EmbedRequest.FromString(embed.message)
    assert (got.request_id, list(got.tokenized.input_ids)) == ("r-9", [5, 300])

    found = embed.parse(pb.EmbedResponse(embedding=[0.5, -1], prompt_tokens=2).SerializeToString())
    assert (list(found.values), found.tokens) == ([0.5, -1], 2)
    assert CODEC.health.parse(pb.HealthCheckResponse(healthy=True).SerializeToString())
    assert not CODEC.health.parse(b"")
    piece = common.GetTokenizerChunk(data=b"PK", sha256="ab").SerializeToString()
    assert CODEC.tokenizer.parse(piece) == (b"PK", "ab")


@pytest.mark.parametrize(
    "parse",
    [CODEC.health.parse, CODEC.model.parse, CODEC.describes.parse, CODEC.loads.parse,
     CODEC.embed("r", TokenIds([1])).parse, CODEC.tokenizer.parse],
)  # fmt: skip
def test_an_answer_that_is_no_message_is_garbled(parse) -> None:
    with pytest.raises(EngineGarbled):
        parse(b"\xff\xff\xff")


above_zero = st.floats(0.0078125, 100, width=32)
samplings = st.builds(
    Sampling,
    max_tokens=st.none() | st.integers(0, 2**32 - 1),
    min_tokens=st.none() | st.integers(1, 100),
    temperature=st.none() | st.floats(0, 100, width=32),
    top_p=st.none() | above_zero,
    top_k=st.none() | st.integers(1, 1000),
    min_p=st.none() | above_zero,
    frequency_penalty=st.none() | above_zero,
    presence_penalty=st.none() | above_zero,
    repetition_penalty=st.none() | above_zero,
    seed=st.none() | st.integers(-(2**31), 2**31 - 1),
    stop=st.lists(st.text(max_size=5), max_size=3).map(tuple),
    stop_token_ids=st.lists(st.integers(0, 9999), max_size=3).map(tuple),
    ignore_eos=st.booleans(),
    skip_special_tokens=st.booleans(),
    include_stop=st.booleans(),
    logit_bias=st.none() | st.dictionaries(st.integers(0, 9999), above_zero, min_size=1, max_size=3),
    logprobs=st.none() | st.integers(0, 20),
    prompt_logprobs=st.none() | st.integers(0, 20),
)


@given(samplings, st.booleans(), st.none() | st.text(), st.none() | st.integers(0, 7))
def test_a_request_is_read_as_it_was_meant(sampling, stream: bool, transfer: str | None, rank: int | None) -> None:
    asked = EngineRequest("r", TokenIds([1, 70000]), sampling, stream, None, rank, transfer)

    assert VllmServerCodec().request(CODEC.generate(asked), list) == asked
