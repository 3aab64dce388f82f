"""The MLX dialect against a real server's messages: our side writes the requests that were sent and reads the answers that came;
the embedded engine writes the same answers."""

import pytest
from tests.core.engines.codecs.captures import Exchange, Scored, exchanges, no_text

from smg_core.engines.base import EngineOutput, EngineRequest
from smg_core.engines.codecs.mlx.codec import MlxCodec
from smg_engine_contract.engines import mlx_engine_pb2 as pb
from smg_simulator.codecs.choice_messages import ChoiceMessages
from smg_simulator.codecs.mlx import MlxServerCodec
from smg_simulator.engine.engine import Choice
from smg_simulator.engine.refusal import Refused

CODEC, ENGINE = MlxCodec(), MlxServerCodec()
ANSWERED = [
    "Generate-stream",
    "Generate-nonstream",
    "Generate-stop-token-ids",
    "Generate-ignore-eos",
    "Generate-logprobs-0",
    "Generate-logprobs-2-stream",
    "Generate-logprobs-2-nonstream",
    "Generate-logit-bias",
    "Generate-penalties",
    "Generate-sampled-seed",
    "Generate-no-temperature-no-max",
    "Error-max-tokens-0",
]


def calls(case: str) -> list[Exchange]:
    return [each for each in exchanges("mlx", case, pb) if each.method == "Generate"]


def asked_by(call: Exchange) -> EngineRequest:
    """The request as the embedded engine understands it."""
    return ENGINE.request(call.request.SerializeToString(), no_text)


def read(call: Exchange, request: EngineRequest) -> list[EngineOutput]:
    return CODEC.decoder(request).feed([each.SerializeToString() for each in call.responses])


@pytest.mark.parametrize(
    "case", [case for case in ANSWERED if case not in ("Generate-logprobs-0", "Error-max-tokens-0")]
)
def test_a_request_that_was_understood_is_written_as_it_was_sent(case: str) -> None:
    for call in calls(case):
        call.request.tokenized.original_text = ""
        assert pb.GenerateRequest.FromString(CODEC.generate(asked_by(call))) == call.request


@pytest.mark.parametrize("case", ANSWERED)
def test_an_answer_is_read_as_the_ids_and_the_end_that_it_has(case: str) -> None:
    for call in calls(case):
        request = asked_by(call)
        outputs = read(call, request)
        ids = [token for each in outputs for token in each.ids]
        end = call.responses[-1].complete

        assert call.status == "OK"
        assert len(ids) == end.completion_tokens
        assert [each.finish for each in outputs][-1] == end.finish_reason
        wanted = end.matched_stop_token_id if end.matched_stop_token_id in request.sampling.stop_token_ids else None
        assert outputs[-1].matched == wanted
        rows = [row for each in outputs for row in each.logprobs]
        assert [row.token_id for row in rows] == (ids if request.sampling.logprobs else [])
        assert all(len(row.top) == request.sampling.logprobs for row in rows)


@pytest.mark.parametrize("case", ANSWERED)
def test_the_embedded_engine_writes_the_same_messages_for_the_same_tokens(case: str) -> None:
    for call in calls(case):
        request = asked_by(call)
        outputs = read(call, request)
        ids = [token for each in outputs for token in each.ids]
        core = Scored([row for each in outputs for row in each.logprobs])
        choice = Choice(ids, outputs[-1].finish or "stop", outputs[-1].matched)
        made = ChoiceMessages(core, ENGINE, request, choice, 0, cached=0)  # type: ignore[arg-type]
        written: list[bytes] = []
        while not made.done:
            written += made.step(1)

        assert [pb.GenerateResponse.FromString(each) for each in written] == call.responses


@pytest.mark.parametrize("case", ["Abort-midstream", "Abort-nonstream"])
def test_an_aborted_answer_just_ends(case: str) -> None:
    (call,) = calls(case)
    ids = [token for each in call.responses for token in each.chunk.token_ids]
    made = ChoiceMessages(Scored([]), ENGINE, asked_by(call), Choice([*ids, 7], "stop"), 0, cached=0)  # type: ignore[arg-type]
    written = [each for _ in ids for each in made.step(1)] + made.abort()

    assert [pb.GenerateResponse.FromString(each) for each in written] == call.responses
    assert call.status == "OK"
    assert all(each.finish is None for each in read(call, asked_by(call)))


@pytest.mark.parametrize("case", ["Generate-text-input", "Error-no-input"])
def test_a_prompt_that_is_no_ids_is_refused_as_the_engine_does(case: str) -> None:
    (call,) = calls(case)

    with pytest.raises(Refused) as caught:
        ENGINE.request(call.request.SerializeToString(), no_text)

    assert caught.value.code == call.status == "INVALID_ARGUMENT"


def test_what_the_engine_says_of_its_model_is_understood() -> None:
    ((model,), (health,)) = (exchanges("mlx", case, pb) for case in ("GetModelInfo", "HealthCheck"))
    info = CODEC.model.parse(model.responses[0].SerializeToString())

    assert (info.model, info.tokenizer_path) == ("MODELS/tinymodel", "MODELS/tinymodel")
    assert (info.context_length, info.vocab_size, info.eos_token_ids) == (2048, 4096, (2,))
    assert CODEC.health.parse(health.responses[0].SerializeToString())
