"""The SGLang dialect against a real server's messages: our side writes the requests that were sent and reads the answers that
came; the embedded engine writes the same answers."""

from collections import Counter

import pytest
from tests.core.engines.codecs.captures import Exchange, Scored, exchanges, no_text

from smg_core.engines.base import EngineOutput, EngineRequest
from smg_core.engines.codecs.sglang.codec import SglangCodec
from smg_engine_contract.engines import common_pb2 as common
from smg_engine_contract.engines import sglang_scheduler_pb2 as pb
from smg_simulator.codecs.choice_messages import ChoiceMessages
from smg_simulator.codecs.sglang import SglangServerCodec
from smg_simulator.engine.engine import Choice
from smg_simulator.engine.refusal import Refused

CODEC, ENGINE = SglangCodec(), SglangServerCodec()
ANSWERED = [
    "Generate-stream",
    "Generate-nonstream",
    "Generate-stop-token-ids",
    "Generate-stop-string-stream",
    "Generate-stop-string-nonstream",
    "Generate-ignore-eos",
    "Generate-logprobs-0",
    "Generate-logprobs-2-stream",
    "Generate-logprobs-2-nonstream",
    "Generate-logit-bias",
    "Generate-penalties",
    "Generate-sampled-seed",
    "Generate-no-temperature-no-max",
    "Generate-min-tokens",
    "Structured-choice",
    "Structured-json-object",
    "Structured-json-schema",
    "Structured-grammar",
    "Structured-regex",
    "Structured-structural-tag",
]
SCORED_PROMPTS = ["Generate-prompt-logprobs-stream", "Generate-prompt-logprobs-nonstream"]


def calls(case: str) -> list[Exchange]:
    return [each for each in exchanges("sglang", case, pb) if each.method == "Generate"]


def asked_by(call: Exchange) -> EngineRequest:
    """The request as the embedded engine understands it."""
    return ENGINE.request(call.request.SerializeToString(), no_text)


def read(call: Exchange, request: EngineRequest) -> list[EngineOutput]:
    return CODEC.decoder(request).feed([each.SerializeToString() for each in call.responses])


@pytest.mark.parametrize("case", [*ANSWERED, *SCORED_PROMPTS])
def test_a_request_that_was_understood_is_written_as_it_was_sent(case: str) -> None:
    for call in calls(case):
        call.request.tokenized.original_text = ""
        assert pb.GenerateRequest.FromString(CODEC.generate(asked_by(call))) == call.request


@pytest.mark.parametrize("case", [*ANSWERED, *SCORED_PROMPTS])
def test_an_answer_is_read_as_the_ids_and_the_end_that_it_has(case: str) -> None:
    for call in calls(case):
        request = asked_by(call)
        outputs = read(call, request)
        ids = [token for each in outputs for token in each.ids]
        end = call.responses[-1].complete

        assert call.status == "OK"
        assert len(ids) == end.completion_tokens
        assert [each.finish for each in outputs][-1] == end.finish_reason
        named = end.matched_token_id if end.matched_token_id in request.sampling.stop_token_ids else None
        assert outputs[-1].matched == (end.matched_stop_str or named)
        assert {each.prompt_tokens for each in outputs if each.prompt_tokens} == {end.prompt_tokens}
        rows = [row for each in outputs for row in each.logprobs]
        assert [row.token_id for row in rows] == (ids if request.sampling.logprobs is not None else [])
        assert all(len(row.top) == request.sampling.logprobs for row in rows)


@pytest.mark.parametrize("case", SCORED_PROMPTS)
def test_the_logprobs_of_a_prompt_are_read_with_the_first_output(case: str) -> None:
    (call,) = calls(case)
    request = asked_by(call)
    rows = read(call, request)[0].prompt_logprobs

    assert rows[0] is None
    assert [row.token_id for row in rows[1:] if row] == list(request.input_ids)[1:]
    assert [len(row.top) for row in rows[1:] if row] == [1, 1]


@pytest.mark.parametrize("case", ANSWERED)
def test_the_embedded_engine_writes_the_same_messages_for_the_same_tokens(case: str) -> None:
    for call in calls(case):
        request = asked_by(call)
        outputs = read(call, request)
        ids = [token for each in outputs for token in each.ids]
        core = Scored([row for each in outputs for row in each.logprobs])
        ends: list[int] = []
        for chunk in (each.chunk for each in call.responses if each.HasField("chunk")):
            ends.append(len(chunk.token_ids) + (ends[-1] if ends else 0))
        choice = Choice(ids, outputs[-1].finish or "stop", outputs[-1].matched, tuple(ends))
        cached = call.responses[-1].complete.cached_tokens
        made = ChoiceMessages(core, ENGINE, request, choice, 0, cached=cached)  # type: ignore[arg-type]
        written: list[bytes] = []
        while not made.done:
            written += made.step(1)

        assert [pb.GenerateResponse.FromString(each) for each in written] == call.responses


@pytest.mark.parametrize("case", ["Generate-n2-nonstream", "Generate-n2-stream"])
def test_choices_are_numbered_in_a_stream_alone_so_each_is_asked_for_in_a_call_of_its_own(case: str) -> None:
    (call,) = calls(case)
    parts = [each.chunk if each.HasField("chunk") else each.complete for each in call.responses]

    assert set(Counter(each.index for each in parts)) == ({0, 1} if call.request.stream else {0})
    assert CODEC.facts.fans_out


@pytest.mark.parametrize("case", ["Abort-midstream", "Abort-nonstream"])
def test_an_answer_that_was_aborted_by_name_never_ends(case: str) -> None:
    (call,) = calls(case)
    ids = [token for each in call.responses for token in each.chunk.token_ids]
    choice = Choice([*ids, 7], "stop")
    cached = call.responses[0].chunk.cached_tokens if call.responses else 0
    made = ChoiceMessages(Scored([]), ENGINE, asked_by(call), choice, 0, cached=cached)  # type: ignore[arg-type]
    written = [each for _ in ids for each in made.step(1)] + made.abort()

    assert [pb.GenerateResponse.FromString(each) for each in written] == call.responses
    assert (call.status, ENGINE.ends_aborted) == ("DEADLINE_EXCEEDED", False)


def test_a_prompt_that_is_no_ids_is_refused_as_the_engine_does() -> None:
    (call,) = calls("Error-no-input")

    with pytest.raises(Refused) as caught:
        ENGINE.request(call.request.SerializeToString(), no_text)

    assert (caught.value.code, caught.value.message) == (call.status, "Tokenized input must be provided")


def test_an_abort_is_answered_as_the_engine_does() -> None:
    (call,) = exchanges("sglang", "Abort-unknown-id", pb)

    assert ENGINE.aborted(call.request.SerializeToString()) == ["no-such-request"]
    assert pb.AbortResponse.FromString(ENGINE.abort_answer(0)).success == call.responses[0].success
    wanted = CODEC.abort("no-such-request")
    assert pb.AbortRequest.FromString(wanted.message).request_id == call.request.request_id


def test_what_the_engine_says_of_itself_is_understood() -> None:
    ((model,), (server,), (health,)) = (
        exchanges("sglang", case, pb) for case in ("GetModelInfo", "GetServerInfo", "HealthCheck")
    )
    info = CODEC.model.parse(model.responses[0].SerializeToString())
    facts = CODEC.describes.parse(server.responses[0].SerializeToString())

    assert (info.model, info.tokenizer_path) == ("tiny", "MODELS/tinymodel")
    assert info.context_length == 2048  # it says 16384, the size of its whole cache, and a longest prompt of 2042
    assert info.default_sampling == {"temperature": 0.7, "top_p": 0.8, "top_k": 20}
    assert (facts.context_length, facts.block_size, facts.ranks, facts.kv_events) == (2048, 16, 1, True)
    assert CODEC.health.parse(health.responses[0].SerializeToString())


def test_its_load_is_understood() -> None:
    (call,) = exchanges("sglang", "GetLoads-idle", pb)
    (rank,) = CODEC.loads.parse(call.responses[0].SerializeToString()).ranks

    assert (rank.rank, rank.running, rank.waiting, rank.max_running, rank.max_tokens) == (0, 0, 0, 16, 16384)


def test_the_archive_is_read_piece_by_piece() -> None:
    pieces = [common.GetTokenizerChunk(data=b"PK"), common.GetTokenizerChunk(data=b"..", sha256="ab")]

    assert [CODEC.tokenizer.parse(each.SerializeToString()) for each in pieces] == [(b"PK", ""), (b"..", "ab")]
