"""The vLLM dialect: `vllm.grpc.engine.VllmEngine`, as vLLM's Python and Rust servicers speak it.

Decides how an `EngineRequest` is written and what the engine's messages mean; pure. Above: engines.token_ids.client joins it
with a transport. It does not know the socket, the public API or the tokenizer. The messages come from the package smg-grpc-proto.

In this protocol a sampling field of 0 means "not set" (only temperature, max_tokens, logprobs and seed have presence), and the
engine then uses a fixed default. So a value that cannot be expressed is refused by name; it is never sent as something else.

The servicers differ in what they repeat; `engines.codecs.decoding` has the one rule that covers them.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import attrgetter

from smg_core.engines.base import EngineOutput, EngineRequest, OutputDecoder, Unary
from smg_core.engines.codecs.decoding import FINISH, Wording, decoder_of, prompt_scores
from smg_core.engines.codecs.protobuf import float32, int32, nonzero, positive, tagged, uint32, varints_of
from smg_core.engines.codecs.refusals import refusing
from smg_core.engines.codecs.shared_kv_events import kv_events_call
from smg_core.engines.codecs.shared_upkeep import upkeep_call
from smg_core.engines.codecs.tensors import BytesLike, concatenated
from smg_core.engines.codecs.vllm import calls
from smg_core.engines.codecs.vllm.media import VllmRequestMedia
from smg_core.engines.constraint import Constraint
from smg_core.engines.kv_events import KvEventBatch
from smg_core.engines.pooling import Vector
from smg_core.engines.upkeep import Adapter, EngineReply, EngineTask
from smg_core.errors import UnsupportedParameter
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_engine_contract.engines import vllm_engine_pb2 as pb

__all__ = ["VllmCodec"]

_refuse = refusing(
    {
        *("constraint", "multimodal", "kv_transfer", "data_parallel_rank"),
        *("n", "seed", "stop", "min_tokens", "logit_bias", "prompt_logprobs"),
    }
)
_MM_INPUTS, _EXTRA_MM_INPUTS = 7, 11  # field numbers of GenerateRequest, for what is framed by hand


class VllmCodec:
    """vLLM, either servicer. Stateless: one instance serves every engine."""

    name = "vllm"
    facts = calls.FACTS
    generate_path = f"/{calls.SERVICE}/Generate"
    health = calls.HEALTH
    model = calls.MODEL
    describes = calls.DESCRIBES
    loads = calls.LOADS
    tokenizer = calls.TOKENIZER
    adapters: Unary[tuple[Adapter, ...]] | None = None

    def generate(self, request: EngineRequest) -> bytes:
        """The GenerateRequest. Raises UnsupportedParameter or InvalidRequest naming a field that this dialect cannot express.

        The ids' varints are made once per prompt (`varints_of`) and framed here; the rest is serialized and put before.
        """
        _refuse(request)
        message = pb.GenerateRequest(
            request_id=request.id,
            sampling_params=_sampling(request.sampling, request.constraint),
            stream=request.stream,
        )
        if request.kv_transfer is not None:
            message.kv_transfer_params_json = request.kv_transfer
        if request.data_parallel_rank is not None:
            message.data_parallel_rank = request.data_parallel_rank
        tokenized = tagged(calls.INPUT_IDS, varints_of(request.input_ids))
        return concatenated(
            (
                message.SerializeToString(),
                tagged(calls.TOKENIZED, tokenized),
                *(() if request.multimodal is None else _media(request.multimodal)),
            )
        )

    def decoder(self, request: EngineRequest) -> OutputDecoder:
        return decoder_of(_WORDING, request)

    def abort(self, request_id: str) -> Unary[None]:
        return calls.abort(request_id)

    def embed(self, request_id: str, ids: TokenIds, types: Sequence[int] = ()) -> Unary[Vector]:
        return calls.embed(request_id, ids)

    def kv_events(self, after: int | None) -> Unary[Iterator[KvEventBatch]]:
        return kv_events_call(calls.SERVICE, after)

    def upkeep(self, asked: EngineTask) -> Unary[EngineReply] | None:
        return upkeep_call(calls.SERVICE, asked)


# --------------------------------------------------------------------------------------------------------- what is sent


def _sampling(asked: Sampling, constraint: Constraint | None) -> pb.SamplingParams:
    """The message of what is asked. Who fills it in further copies it: one of the usual fields alone is made once."""
    usual = _usual_sampling(*_USUAL(asked))
    if constraint is None and _RARE(asked) == _UNUSED:
        return usual
    out = pb.SamplingParams()
    out.CopyFrom(usual)
    _rare_sampling(out, asked)
    if constraint is not None:
        _constrain(out, constraint)
    return out


@lru_cache(maxsize=256)
def _usual_sampling(
    skip_special_tokens: bool,
    temperature: float | None,
    max_tokens: int | None,
    top_p: float | None,
    top_k: int | None,
    repetition_penalty: float | None,
    min_tokens: int,
    n: int,
) -> pb.SamplingParams:
    out = pb.SamplingParams(skip_special_tokens=skip_special_tokens)
    if temperature is not None:
        out.temperature = float32("sampling.temperature", temperature)
    if max_tokens is not None:
        out.max_tokens = uint32("sampling.max_tokens", max_tokens)
    if top_p is not None:
        out.top_p = nonzero("sampling.top_p", top_p)
    if top_k is not None and top_k != -1:  # -1 and 0 both mean "all tokens", which is what 0 on the wire means
        out.top_k = uint32("sampling.top_k", top_k)
    if repetition_penalty is not None:
        out.repetition_penalty = nonzero("sampling.repetition_penalty", repetition_penalty)
    if min_tokens:
        out.min_tokens = uint32("sampling.min_tokens", min_tokens)
    if n != 1:
        out.n = positive("sampling.n", n)
    return out


_USUAL = attrgetter(
    *("skip_special_tokens", "temperature", "max_tokens", "top_p", "top_k", "repetition_penalty", "min_tokens", "n")
)
_RARE = attrgetter(
    *("min_p", "frequency_penalty", "presence_penalty", "seed", "stop", "stop_token_ids", "ignore_eos", "include_stop"),
    *("logprobs", "prompt_logprobs", "logit_bias"),
)
_UNUSED = _RARE(Sampling())


def _rare_sampling(out: pb.SamplingParams, asked: Sampling) -> None:
    """Write the fields that most requests do not set. Of a penalty, 0 is both the engine's default and "not set"."""
    if asked.min_p:
        out.min_p = float32("sampling.min_p", asked.min_p)
    if asked.frequency_penalty:
        out.frequency_penalty = float32("sampling.frequency_penalty", asked.frequency_penalty)
    if asked.presence_penalty:
        out.presence_penalty = float32("sampling.presence_penalty", asked.presence_penalty)
    if asked.seed is not None:
        out.seed = int32("sampling.seed", asked.seed)
    if asked.stop:
        out.stop.extend(asked.stop)
    if asked.stop_token_ids:
        out.stop_token_ids.extend([uint32("sampling.stop_token_ids", token) for token in asked.stop_token_ids])
    if asked.ignore_eos:
        out.ignore_eos = True
    if asked.include_stop:
        out.include_stop_str_in_output = True
    if asked.logprobs is not None:
        out.logprobs = int32("sampling.logprobs", asked.logprobs)
    if asked.prompt_logprobs is not None:
        out.prompt_logprobs = int32("sampling.prompt_logprobs", asked.prompt_logprobs)
    for token, bias in (asked.logit_bias or {}).items():
        out.logit_bias[int32("sampling.logit_bias", token)] = float32("sampling.logit_bias", bias)


def _constrain(out: pb.SamplingParams, constraint: Constraint) -> None:
    if constraint.kind not in calls.FACTS.constraints:
        raise UnsupportedParameter(f"This engine knows no constraint {constraint.kind!r}.", param="response_format")
    if constraint.kind == "json_object":
        out.json_object = True
    elif constraint.kind == "choice":
        out.choice.choices.extend(constraint.choices)
    else:
        setattr(out, constraint.kind, constraint.value)


def _media(multimodal: object) -> list[BytesLike]:
    """One MultimodalInputs for each modality; the first has a field of its own."""
    if not isinstance(multimodal, VllmRequestMedia):
        raise UnsupportedParameter("These media were not prepared for this engine.", param="messages")
    pieces: list[BytesLike] = []
    for at, message in enumerate(multimodal.messages()):
        pieces += message.tagged(_EXTRA_MM_INPUTS if at else _MM_INPUTS)
    return pieces


# ---------------------------------------------------------------------------------------------------- what comes back


def _completed(complete: pb.GenerateComplete, *, take_ids: bool) -> EngineOutput:
    matched: str | int | None = None
    if kind := complete.WhichOneof("matched_stop"):
        matched = getattr(complete, kind)
    return EngineOutput(
        index=complete.index,
        ids=complete.output_ids[:] if take_ids else (),
        finish=FINISH.get(complete.finish_reason, "error"),
        matched=matched,
        prompt_tokens=complete.prompt_tokens,
        cached_tokens=complete.cached_tokens,
        kv_transfer=complete.kv_transfer_params_json if complete.HasField("kv_transfer_params_json") else None,
    )


_WORDING = Wording(
    response=pb.GenerateResponse.FromString,
    chunk=pb.GenerateStreamChunk.FromString,
    completed=_completed,
    prompt_scores=prompt_scores,
)
