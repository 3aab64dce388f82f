"""The TensorRT-LLM dialect: `trtllm.TrtllmService`, as TensorRT-LLM's own servicer speaks it.

Decides how an `EngineRequest` is written and what the engine's messages mean; pure. Above: engines.token_ids.client joins it
with a transport. It does not know the socket, the public API or the tokenizer. The messages come from the package smg-grpc-proto.

Sampling fields have presence here, but the length of the answer has not and must be told. Logprobs are one message a token. The
engine leaves a stop token out of the ids unless it is told to keep it. It always is, since the gateway's reader expects it there.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from operator import attrgetter

import attrs

from smg_core.engines.base import (
    ContextPhase,
    EngineFacts,
    EngineLogprob,
    EngineOutput,
    EngineRequest,
    OutputDecoder,
    Unary,
)
from smg_core.engines.codecs.answers import LazyRows
from smg_core.engines.codecs.decoding import FINISH, Wording, decoder_of
from smg_core.engines.codecs.protobuf import any_of, float32, int32, positive, tagged, uint32, uint64_seed, varints_of
from smg_core.engines.codecs.refusals import refusing
from smg_core.engines.codecs.shared_kv_events import kv_events_call
from smg_core.engines.codecs.tensors import BytesLike, concatenated
from smg_core.engines.codecs.trtllm import calls
from smg_core.engines.codecs.trtllm.media import TrtllmRequestMedia
from smg_core.engines.constraint import Constraint
from smg_core.engines.kv_events import KvEventBatch
from smg_core.engines.loads import Loads
from smg_core.engines.upkeep import Adapter, EngineTask
from smg_core.errors import EngineGarbled, InvalidRequest, UnsupportedParameter
from smg_core.events import FinishReason
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_engine_contract.engines import trtllm_service_pb2 as pb

__all__ = ["TrtllmCodec"]

_refuse = refusing({"constraint", "context_phase", "lora", "multimodal", "n", "seed", "min_tokens"})
_MULTIMODAL = 15  # GenerateRequest
_GUIDES = {
    "json_schema": pb.GuidedDecodingParams.GUIDE_TYPE_JSON_SCHEMA,
    "json_object": pb.GuidedDecodingParams.GUIDE_TYPE_JSON,
    "regex": pb.GuidedDecodingParams.GUIDE_TYPE_REGEX,
    "choice": pb.GuidedDecodingParams.GUIDE_TYPE_REGEX,
    "grammar": pb.GuidedDecodingParams.GUIDE_TYPE_EBNF_GRAMMAR,
    "structural_tag": pb.GuidedDecodingParams.GUIDE_TYPE_STRUCTURAL_TAG,
}
_ANY_OBJECT = '{"type":"object"}'  # the servicer looks at no guide that is empty
_PARTS = {
    "context": pb.DisaggregatedParams.REQUEST_TYPE_CONTEXT_ONLY,
    "generation": pb.DisaggregatedParams.REQUEST_TYPE_GENERATION_ONLY,
}
_FINISH: dict[str, FinishReason] = {**FINISH, "stop_word": "stop", "cancelled": "abort"}


class TrtllmCodec:
    """TensorRT-LLM. Stateless: one instance serves every engine."""

    name = "trtllm"
    facts = calls.FACTS
    generate_path = f"/{calls.SERVICE}/Generate"
    health = calls.HEALTH
    model = calls.MODEL
    describes: Unary[EngineFacts] | None = None
    loads: Unary[Loads] | None = None
    tokenizer = calls.TOKENIZER
    adapters: Unary[tuple[Adapter, ...]] | None = None

    def generate(self, request: EngineRequest) -> bytes:
        """The GenerateRequest. Raises UnsupportedParameter or InvalidRequest naming a field that this dialect cannot express."""
        _refuse(request)
        asked = request.sampling
        message = pb.GenerateRequest(
            request_id=request.id,
            sampling_config=_sampling(asked),
            max_tokens=_max_tokens(asked),
            streaming=request.stream,
            stop_token_ids=[uint32("sampling.stop_token_ids", token) for token in asked.stop_token_ids],
            ignore_eos=asked.ignore_eos,
            include_stop_token_in_output=True,
        )
        if asked.logprobs is not None:
            # asked for none beside the sampled token's, the engine may give no logprobs at all
            message.output_config.logprobs = max(1, int32("sampling.logprobs", asked.logprobs))
        if request.constraint is not None:
            message.guided_decoding.CopyFrom(_guide(request.constraint))
        if request.context_phase is not None:
            message.disaggregated_params.CopyFrom(_part(request.context_phase))
        if request.lora is not None:
            message.lora_config.task_id = _task(request.lora)
        ids, media = _with_pictures(request)
        tokenized = tagged(calls.INPUT_IDS, varints_of(ids))
        return concatenated((message.SerializeToString(), tagged(calls.TOKENIZED, tokenized), *media))

    def decoder(self, request: EngineRequest) -> OutputDecoder:
        stops = request.sampling.stop_token_ids
        return decoder_of(_WORDING if not stops else _wording(stops), request)

    def abort(self, request_id: str) -> Unary[None]:
        return calls.abort(request_id)

    def embed(self, request_id: str, ids: TokenIds, types: Sequence[int] = ()) -> None:
        return None

    def kv_events(self, after: int | None) -> Unary[Iterator[KvEventBatch]]:
        return kv_events_call(calls.SERVICE, after)

    def upkeep(self, asked: EngineTask) -> None:
        return None


# --------------------------------------------------------------------------------------------------------- what is sent


def _with_pictures(request: EngineRequest) -> tuple[TokenIds, list[BytesLike]]:
    """The prompt that the engine is sent, and the field that holds its pictures."""
    media = request.multimodal
    if media is None:
        return request.input_ids, []
    if not isinstance(media, TrtllmRequestMedia):
        raise UnsupportedParameter("These media were not prepared for this engine.", param="messages")
    return media.prompt_of(request.input_ids), media.message().tagged(_MULTIMODAL)


def _max_tokens(asked: Sampling) -> int:
    if asked.max_tokens is None:
        raise InvalidRequest(
            "max_tokens must be given: this engine's protocol needs it, and the engine did not say how long its context is.",
            param="sampling.max_tokens",
        )
    return uint32("sampling.max_tokens", asked.max_tokens)


def _sampling(asked: Sampling) -> pb.SamplingConfig:
    out = pb.SamplingConfig(beam_width=1, num_return_sequences=positive("sampling.n", asked.n))
    for name in (
        "temperature",
        "top_p",
        "min_p",
        "frequency_penalty",
        "presence_penalty",
        "repetition_penalty",
    ):
        if (value := getattr(asked, name)) is not None:
            setattr(out, name, float32(f"sampling.{name}", value))
    if asked.top_k is not None:
        out.top_k = 0 if asked.top_k == -1 else int32("sampling.top_k", asked.top_k)  # 0 is all tokens
    if asked.min_tokens:
        out.min_tokens = uint32("sampling.min_tokens", asked.min_tokens)
    if asked.seed is not None:
        out.seed = uint64_seed("sampling.seed", asked.seed)
    return out


def _guide(constraint: Constraint) -> pb.GuidedDecodingParams:
    """A choice is a regular expression here."""
    if constraint.kind not in _GUIDES:
        raise UnsupportedParameter(f"This engine knows no constraint {constraint.kind!r}.", param="response_format")
    guide = constraint.value
    if constraint.kind == "json_object":
        guide = _ANY_OBJECT
    elif constraint.kind == "choice":
        guide = any_of(constraint.choices)
    return pb.GuidedDecodingParams(guide_type=_GUIDES[constraint.kind], guide=guide)


def _part(phase: ContextPhase) -> pb.DisaggregatedParams:
    out = pb.DisaggregatedParams(request_type=_PARTS[phase.part], ctx_request_id=phase.context_id)
    if phase.first_token is not None:
        out.context_phase_params.first_gen_token_id = phase.first_token
        out.context_phase_params.kv_cache_blocks = phase.cache
    return out


def _task(lora: str) -> int:
    """The engine's adapters have numbers."""
    if not lora.isdecimal() or int(lora) >= 1 << 63:
        raise UnsupportedParameter("This engine's adapters have numbers for names.", param="model")
    return int(lora)


# ---------------------------------------------------------------------------------------------------- what comes back


def _completed(complete: pb.GenerateComplete, *, take_ids: bool, stops: Collection[int] = ()) -> EngineOutput:
    """Only `stops`, which the request named, are passed on as what matched."""
    matched = complete.matched_token_id if complete.HasField("matched_token_id") else None
    return EngineOutput(
        index=complete.sequence_index,
        ids=complete.output_token_ids[:] if take_ids else (),
        finish=_FINISH.get(complete.finish_reason, "error"),
        matched=matched if matched in stops else None,
        prompt_tokens=complete.prompt_tokens,
        cached_tokens=complete.cached_tokens,
    )


def _scores(
    message: pb.GenerateStreamChunk | pb.GenerateComplete, ids: Sequence[int], most: int
) -> Sequence[EngineLogprob]:
    """One row an id, with at most `most` alternatives (-1: all); () where the message has none."""
    rows = message.logprobs
    if not rows:
        return ()
    if len(rows) != len(ids):
        raise EngineGarbled(f"The engine sent {len(rows)} logprobs for {len(ids)} tokens.")
    kept = most if most >= 0 else None

    def row(number: int) -> EngineLogprob:
        found = rows[number]
        top = sorted(((each.token_id, each.logprob) for each in found.top_logprobs), key=lambda pair: -pair[1])
        return EngineLogprob(ids[number], found.logprob, tuple(top[:kept]))

    return LazyRows(len(ids), row)


_WORDING = Wording(
    response=pb.GenerateResponse.FromString,
    chunk=pb.GenerateStreamChunk.FromString,
    completed=_completed,
    chunk_field=2,
    counts=(3, 4, 5),
    index=attrgetter("sequence_index"),
    scores=_scores,
    names_request=True,
)


def _wording(stops: Collection[int]) -> Wording:
    return attrs.evolve(_WORDING, completed=partial(_completed, stops=frozenset(stops)))
