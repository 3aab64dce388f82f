"""The neutral dialect: what is asked arrives with its presence, what is answered is read once, errors in band become ours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.engines.base import EngineFacts, EngineLogprob, EngineRequest
from smg_core.engines.codecs.neutral.codec import NeutralCodec
from smg_core.engines.constraint import Constraint
from smg_core.errors import (
    EngineFailed,
    EngineGarbled,
    EngineRejected,
    InvalidRequest,
    SmgError,
    UnsupportedParameter,
    WorkerBusy,
    WorkerGone,
)
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_engine_contract import engine_pb2 as pb
from smg_simulator.codecs.neutral import NeutralServerCodec

CODEC = NeutralCodec()

floats = st.floats(0, 100, width=32)
samplings = st.builds(
    Sampling,
    max_tokens=st.none() | st.integers(0, 2**32 - 1),
    min_tokens=st.none() | st.integers(0, 100),
    temperature=st.none() | floats,
    top_p=st.none() | floats,
    top_k=st.none() | st.integers(0, 1000),
    min_p=st.none() | floats,
    frequency_penalty=st.none() | floats,
    presence_penalty=st.none() | floats,
    repetition_penalty=st.none() | floats,
    seed=st.none() | st.integers(-(2**63), 2**63 - 1),
    stop=st.lists(st.text(max_size=5), max_size=3).map(tuple),
    stop_token_ids=st.lists(st.integers(0, 9999), max_size=3).map(tuple),
    ignore_eos=st.booleans(),
    skip_special_tokens=st.booleans(),
    include_stop=st.booleans(),
    logit_bias=st.none() | st.dictionaries(st.integers(0, 9999), floats, min_size=1, max_size=3),
    n=st.integers(1, 8),
    logprobs=st.none() | st.integers(0, 20),
    prompt_logprobs=st.none() | st.integers(0, 20),
)
constraints = st.sampled_from(
    [
        None,
        Constraint("json_object"),
        Constraint("json_schema", "{}"),
        Constraint("regex", "a"),
        Constraint("grammar", "g"),
        Constraint("structural_tag", "{}"),
        Constraint("choice", choices=("a", "b")),
    ]
)


def request(**given) -> EngineRequest:
    return EngineRequest("r-1", TokenIds([1, 2]), Sampling(**given))


def tokens(ids, index=0, **more) -> bytes:
    return pb.GenerateEvent(tokens=pb.Tokens(index=index, ids=ids, prompt_tokens=20, **more)).SerializeToString()


def finished(reason=pb.FINISH_REASON_STOP, index=0, **more) -> bytes:
    return pb.GenerateEvent(finished=pb.Finished(reason=reason, index=index, **more)).SerializeToString()


def failure(code: int, **more) -> bytes:
    return pb.GenerateEvent(failure=pb.Failure(code=code, message="10.0.0.7 is full", **more)).SerializeToString()


@pytest.mark.full
@given(st.lists(st.integers(0, 2**32 - 1), max_size=50), samplings, constraints, st.booleans(), st.none() | st.text())
def test_a_request_arrives_as_it_was_asked(ids, sampling, constraint, stream, salt) -> None:
    asked = EngineRequest("r", TokenIds(ids), sampling, stream, constraint, 3, "{}", cache_salt=salt)

    assert NeutralServerCodec().request(CODEC.generate(asked), list) == asked


def test_all_tokens_can_be_said_in_two_ways() -> None:
    assert NeutralServerCodec().request(CODEC.generate(request(top_k=-1)), list).sampling.top_k == 0


def test_what_the_contract_cannot_carry_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequest) as caught:
        CODEC.generate(request(seed=2**63))
    assert caught.value.param == "sampling.seed"

    with pytest.raises(UnsupportedParameter):
        CODEC.generate(EngineRequest("r", TokenIds([1]), Sampling(), constraint=Constraint("haiku")))
    with pytest.raises(UnsupportedParameter):
        CODEC.generate(EngineRequest("r", TokenIds([1]), Sampling(), multimodal=b"pixels"))


@given(st.lists(st.lists(st.integers(0, 200_000), max_size=50), max_size=10), st.integers(0, 10))
def test_however_reads_divide_the_events_the_tokens_are_the_same(rows, cut) -> None:
    messages = [*(tokens(ids) for ids in rows), finished(completion_tokens=7)]
    decoder = CODEC.decoder(request())

    outputs = (
        [*decoder.feed(messages[:cut]), *decoder.feed(messages[cut:])] if messages[:cut] else decoder.feed(messages)
    )

    assert [token for output in outputs for token in output.ids] == [token for ids in rows for token in ids]
    assert outputs[-1].finish == "stop"
    assert outputs[-1].completion_tokens == 7


def test_choices_with_logprobs_are_told_apart() -> None:
    row = pb.TokenLogprob(token_id=5, logprob=-0.5, top=[pb.Alternative(token_id=5, logprob=-0.5)])
    decoder = CODEC.decoder(request(n=2, logprobs=1, prompt_logprobs=0))

    outputs = decoder.feed(
        [
            tokens([5], logprobs=[row], prompt_logprobs=[pb.TokenLogprob(), row]),
            tokens([5], index=1, logprobs=[row]),
            finished(pb.FINISH_REASON_LENGTH, matched_token_id=5),
            finished(pb.FINISH_REASON_ABORTED, index=1, matched_stop="x"),
        ]
    )

    logprob = EngineLogprob(5, -0.5, ((5, -0.5),))
    assert [(each.index, list(each.ids), each.finish, each.matched) for each in outputs] == [
        (0, [5], None, None),
        (1, [5], None, None),
        (0, [], "length", 5),
        (1, [], "abort", "x"),
    ]
    assert list(outputs[1].logprobs) == [logprob]
    assert list(outputs[0].prompt_logprobs) == [None, logprob]


@pytest.mark.parametrize(
    ("code", "expected"),
    [(3, EngineRejected), (8, WorkerBusy), (13, EngineFailed), (14, WorkerGone), (0, EngineFailed)],
)
def test_a_failure_in_band_is_the_error_its_status_would_be(code: int, expected: type[Exception]) -> None:
    with pytest.raises(expected) as caught:
        CODEC.decoder(request()).feed([failure(code, retry_after_seconds=2.5)])

    assert caught.value.retry_after == 2.5


@pytest.mark.parametrize(
    "messages",
    [[b""], [b"\xff\xff"], [tokens([1], index=1)], [finished(), tokens([1])], [tokens([1]), finished(), finished()]],
)
def test_what_the_contract_does_not_allow_is_garbled(messages) -> None:
    with pytest.raises(EngineGarbled):
        CODEC.decoder(request()).feed(messages)


def test_an_end_without_a_reason_is_an_error() -> None:
    (output,) = CODEC.decoder(request()).feed([finished(pb.FINISH_REASON_UNSPECIFIED)])

    assert output.finish == "error"


def test_model_server_and_loads_are_read() -> None:
    message = pb.GetModelResponse(
        model=pb.Model(
            name="m", context_length=4096, vocab_size=300, eos_token_ids=[2, 0], pad_token_id=0, generates=True
        ),
        capabilities=pb.Capabilities(contract_revision=1, constraints=["regex"]),
        engine=pb.EngineInfo(name="mine", block_size=16, instance_id="a"),
    ).SerializeToString()

    info, facts = CODEC.model.parse(message), CODEC.describes.parse(message)

    assert (info.model, info.context_length, info.eos_token_ids) == ("m", 4096, (2, 0))
    assert (facts.dialect, facts.block_size, facts.ranks, facts.context_length) == ("neutral", 16, 1, 4096)
    assert facts.constraints == {"regex"}

    rows = [pb.RankLoad(running=1, waiting=2, used_tokens=50, max_tokens=200)]
    assert CODEC.loads.parse(pb.GetLoadsResponse(ranks=rows).SerializeToString()).ranks[0].token_usage == 0.25


CAPABLE = {
    "n": {"max_n": 4},
    "max_n": {"max_n": 4},
    "greedy_n": {"greedy_n": True},
    "stop_strings": {"stop_strings": True},
    "constraints": {"constraints": ["regex", "haiku"]},
    "logprobs": {"max_logprobs": 0},
    "max_logprobs": {"max_logprobs": 5},
    "prompt_logprobs": {"prompt_logprobs": True},
    "cache_salt": {"cache_salt": True},
    "media": {"media": [pb.MEDIA_KIND_IMAGE, 99]},
    "loads": {"loads": True},
    "kv_events": {"kv_events": True},
}
VALUES = {
    "n": True, "max_n": 4, "constraints": {"regex"}, "max_logprobs": 5, "media": {"image"},
}  # fmt: skip


def declared(**capabilities) -> EngineFacts:
    answer = pb.GetModelResponse(model=pb.Model(name="m"), capabilities=pb.Capabilities(**capabilities))
    return CODEC.describes.parse(answer.SerializeToString())


@pytest.mark.parametrize("field", CAPABLE)
def test_an_engine_has_what_it_declares(field: str) -> None:
    assert getattr(declared(**CAPABLE[field]), field) == VALUES.get(field, True)


@pytest.mark.parametrize("capabilities", [{}, {"max_n": 1}])
def test_an_engine_that_declares_nothing_has_nothing(capabilities) -> None:
    facts = declared(**capabilities)

    assert facts.constraints == facts.media == frozenset()
    assert not any(
        getattr(facts, name)
        for name in (
            "greedy_n",
            "stop_strings",
            "logprobs",
            "prompt_logprobs",
            "cache_salt",
            "loads",
            "kv_events",
            "pools",
        )
    )
    assert (facts.n, facts.max_n) == ((False, 1) if capabilities else (True, None))


def test_every_capability_of_the_contract_is_looked_at() -> None:
    fields = {field.name for field in pb.Capabilities.DESCRIPTOR.fields}

    assert fields - {name for given in CAPABLE.values() for name in given} == {"contract_revision", "kv_replay"}


def test_the_small_calls_are_put_and_read() -> None:
    assert pb.AbortRequest.FromString(CODEC.abort("r").message).request_ids == ["r"]
    embed = CODEC.embed("r", TokenIds([5]))
    assert list(pb.EmbedRequest.FromString(embed.message).input_ids) == [5]
    found = embed.parse(pb.EmbedResponse(values=[1], prompt_tokens=1).SerializeToString())
    assert (list(found.values), found.tokens) == ([1.0], 1)
    assert CODEC.health.parse(pb.HealthResponse(ready=True).SerializeToString())
    assert CODEC.tokenizer.parse(pb.TokenizerChunk(data=b"PK", sha256="a").SerializeToString()) == (b"PK", "a")
    for call in (CODEC.health, CODEC.model, CODEC.describes, CODEC.loads, CODEC.tokenizer):
        assert call.path.startswith("/smg.engine.v1.Engine/")


@given(st.lists(st.binary(max_size=40), max_size=4))
def test_any_bytes_are_read_or_refused(messages: list[bytes]) -> None:
    for asked in (request(), request(n=2, logprobs=1)):
        try:
            outputs = CODEC.decoder(asked).feed(messages)
        except SmgError:
            continue
        assert all(0 <= output.index < asked.sampling.n for output in outputs)
