"""The SGLang dialect: `sglang.grpc.scheduler.SglangScheduler`, as SGLang's servicers speak it.

Decides how an `EngineRequest` is written and what the engine's messages mean; pure. Above: engines.token_ids.client joins it
with a transport. It does not know the socket, the public API or the tokenizer. The messages come from the package smg-grpc-proto.

In this protocol nearly every sampling field is taken as it stands: 0 is a temperature of 0, not "not set". So all are written,
with the engine's own default for those that nobody asked for. A call gives one choice; `engines.token_ids.fan_out` makes a
call for each. The engine crashes on an empty prompt and on ids outside of the vocabulary, and mixes two requests of one id;
all three are prevented before a request is made (`pipeline.prompt.prepare`, and ids of the gateway's own).
"""

from collections.abc import Collection, Iterator, Sequence
from functools import partial

import attrs

from smg_core.engines.base import Bootstrap, EngineOutput, EngineRequest, OutputDecoder, Unary
from smg_core.engines.codecs.decoding import FINISH, Wording, decoder_of, matched_stop, prompt_scores
from smg_core.engines.codecs.protobuf import any_of, float32, int32, nonzero, tagged, uint32, varints_of, within
from smg_core.engines.codecs.refusals import refusing
from smg_core.engines.codecs.sglang import calls
from smg_core.engines.codecs.sglang.media import SglangRequestMedia
from smg_core.engines.codecs.shared_kv_events import kv_events_call
from smg_core.engines.codecs.shared_upkeep import upkeep_call
from smg_core.engines.codecs.tensors import BytesLike, concatenated
from smg_core.engines.constraint import Constraint
from smg_core.engines.kv_events import KvEventBatch
from smg_core.engines.pooling import Vector
from smg_core.engines.upkeep import EngineReply, EngineTask, LoadAdapter, UnloadAdapter
from smg_core.errors import UnsupportedParameter
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_engine_contract.engines import sglang_scheduler_pb2 as pb

__all__ = ["SglangCodec"]

_MM_INPUTS = 3  # field number of GenerateRequest, for what is framed by hand
_PORT_BITS, _ROOM_BITS = 16, 31
_ANY_OBJECT = '{"type":"object"}'
_refuse = refusing(
    {
        *("constraint", "after_reasoning", "multimodal", "bootstrap", "data_parallel_rank", "lora"),
        *("stop", "min_tokens", "logit_bias", "prompt_logprobs"),
    }
)


class SglangCodec:
    """SGLang, either servicer. Stateless: one instance serves every engine."""

    name = "sglang"
    facts = calls.FACTS
    generate_path = f"/{calls.SERVICE}/Generate"
    health = calls.HEALTH
    model = calls.MODEL
    describes = calls.DESCRIBES
    loads = calls.LOADS
    tokenizer = calls.TOKENIZER
    adapters = calls.ADAPTERS

    def generate(self, request: EngineRequest) -> bytes:
        """The GenerateRequest. Raises UnsupportedParameter or InvalidRequest naming a field that this dialect cannot express."""
        _refuse(request)
        message = pb.GenerateRequest(
            request_id=request.id,
            sampling_params=_sampling(request.sampling, request.constraint),
            stream=request.stream,
            require_reasoning=request.after_reasoning,
        )
        _score(message, request.sampling)
        if request.bootstrap is not None:
            message.disaggregated_params.CopyFrom(_bootstrap(request.bootstrap))
        if request.data_parallel_rank is not None:
            message.data_parallel_rank = request.data_parallel_rank
        if request.lora is not None:
            message.lora_id = request.lora
        tokenized = tagged(calls.INPUT_IDS, varints_of(request.input_ids))
        return concatenated(
            (message.SerializeToString(), tagged(calls.TOKENIZED, tokenized), *_media(request.multimodal))
        )

    def decoder(self, request: EngineRequest) -> OutputDecoder:
        stops = request.sampling.stop_token_ids
        return decoder_of(_WORDING if not stops else _wording(stops), request)

    def abort(self, request_id: str) -> Unary[None]:
        return calls.abort(request_id)

    def embed(self, request_id: str, ids: TokenIds, types: Sequence[int] = ()) -> Unary[Vector]:
        return calls.embed(request_id, ids, types)

    def kv_events(self, after: int | None) -> Unary[Iterator[KvEventBatch]]:
        return kv_events_call(calls.SERVICE, after)

    def upkeep(self, asked: EngineTask) -> Unary[EngineReply] | None:
        if isinstance(asked, LoadAdapter | UnloadAdapter):
            return calls.change_adapters(asked)
        return upkeep_call(calls.SERVICE, asked)


# --------------------------------------------------------------------------------------------------------- what is sent


def _sampling(asked: Sampling, constraint: Constraint | None) -> pb.SamplingParams:
    out = pb.SamplingParams(
        temperature=1.0 if asked.temperature is None else float32("sampling.temperature", asked.temperature),
        top_p=1.0 if asked.top_p is None else nonzero("sampling.top_p", asked.top_p),
        top_k=-1 if not asked.top_k or asked.top_k == -1 else int32("sampling.top_k", asked.top_k),
        repetition_penalty=1.0
        if asked.repetition_penalty is None
        else nonzero("sampling.repetition_penalty", asked.repetition_penalty),
        skip_special_tokens=asked.skip_special_tokens,
        spaces_between_special_tokens=True,
        n=1,
    )
    if asked.max_tokens is not None:
        out.max_new_tokens = uint32("sampling.max_tokens", asked.max_tokens)
    for name in ("min_p", "frequency_penalty", "presence_penalty"):
        if value := getattr(asked, name):
            setattr(out, name, float32(f"sampling.{name}", value))
    _ends_and_biases(out, asked)
    if constraint is not None:
        _constrain(out, constraint)
    return out


def _ends_and_biases(out: pb.SamplingParams, asked: Sampling) -> None:
    """Write the fields that most requests do not set."""
    if asked.min_tokens:
        out.min_new_tokens = uint32("sampling.min_tokens", asked.min_tokens)
    if asked.stop:
        out.stop.extend(asked.stop)
    if asked.stop_token_ids:
        out.stop_token_ids.extend([uint32("sampling.stop_token_ids", token) for token in asked.stop_token_ids])
    if asked.ignore_eos:
        out.ignore_eos = True
    if asked.include_stop:
        out.no_stop_trim = True
    for token, bias in (asked.logit_bias or {}).items():
        out.logit_bias[str(uint32("sampling.logit_bias", token))] = float32("sampling.logit_bias", bias)


def _constrain(out: pb.SamplingParams, constraint: Constraint) -> None:
    """Any JSON object is a schema here, and a choice a regular expression."""
    if constraint.kind not in calls.FACTS.constraints:
        raise UnsupportedParameter(f"This engine knows no constraint {constraint.kind!r}.", param="response_format")
    if constraint.kind == "json_object":
        out.json_schema = _ANY_OBJECT
    elif constraint.kind == "choice":
        out.regex = any_of(constraint.choices)
    elif constraint.kind == "grammar":
        out.ebnf_grammar = constraint.value
    else:
        setattr(out, constraint.kind, constraint.value)


def _score(message: pb.GenerateRequest, asked: Sampling) -> None:
    """Ask for logprobs. There is one number of alternatives for the prompt and the output: the larger is asked for, and the
    decoder leaves out what is too much."""
    message.logprob_start_len = -1  # of no token of the prompt
    if asked.logprobs is None and asked.prompt_logprobs is None:
        return
    message.return_logprob = True
    if asked.prompt_logprobs is not None:
        message.logprob_start_len = 0
    most = max(_alternatives("logprobs", asked.logprobs), _alternatives("prompt_logprobs", asked.prompt_logprobs))
    message.top_logprobs_num = most


def _alternatives(name: str, count: int | None) -> int:
    if count is not None and count < 0:
        raise UnsupportedParameter(
            f"{name} must be a number of alternatives for this engine.", param=f"sampling.{name}"
        )
    return int32(f"sampling.{name}", count or 0)


def _bootstrap(place: Bootstrap) -> pb.DisaggregatedParams:
    return pb.DisaggregatedParams(
        bootstrap_host=place.host,
        bootstrap_port=within(_PORT_BITS, place.port, "a port"),
        bootstrap_room=within(_ROOM_BITS, place.room, "a room at the bootstrap server"),
    )


def _media(multimodal: object) -> list[BytesLike]:
    """The field that holds the pictures of the prompt."""
    if multimodal is None:
        return []
    if not isinstance(multimodal, SglangRequestMedia):
        raise UnsupportedParameter("These media were not prepared for this engine.", param="messages")
    return multimodal.message().tagged(_MM_INPUTS)


# ---------------------------------------------------------------------------------------------------- what comes back


def _completed(complete: pb.GenerateComplete, *, take_ids: bool, stops: Collection[int] = ()) -> EngineOutput:
    return EngineOutput(
        index=complete.index,
        ids=complete.output_ids[:] if take_ids else (),
        finish=FINISH.get(complete.finish_reason, "error"),
        matched=matched_stop(complete, stops),
        prompt_tokens=complete.prompt_tokens,
        cached_tokens=complete.cached_tokens,
        reasoning_tokens=complete.reasoning_tokens,
    )


_WORDING = Wording(
    response=pb.GenerateResponse.FromString,
    chunk=pb.GenerateStreamChunk.FromString,
    completed=_completed,
    chunk_field=2,
    prompt_scores=prompt_scores,
    names_request=True,
)


def _wording(stops: Collection[int]) -> Wording:
    return attrs.evolve(_WORDING, completed=partial(_completed, stops=frozenset(stops)))
