"""The MLX dialect: `mlx.grpc.engine.MlxEngine`, as smg-grpc-servicer speaks it before mlx-lm.

Decides how an `EngineRequest` is written and what the engine's messages mean; pure. Above: engines.token_ids.client joins it
with a transport. It does not know the socket, the public API or the tokenizer. The messages come from the package smg-grpc-proto.

In this protocol a sampling field of 0 means "not set" (only temperature, max_tokens, logprobs and seed have presence). A value
that cannot be expressed is refused by name. A call gives one choice; `engines.token_ids.fan_out` makes a call for each. The
engine crashes on an empty prompt and on ids outside of the vocabulary, and goes on past its context; all three are refused before
a request is made (`pipeline.prompt.prepare`).
"""

from collections.abc import Collection, Sequence
from functools import partial

from smg_core.engines.base import EngineOutput, EngineRequest, OutputDecoder, Unary
from smg_core.engines.codecs.decoding import FINISH, Wording, decoder_of
from smg_core.engines.codecs.mlx import calls
from smg_core.engines.codecs.protobuf import float32, int32, nonzero, tagged, uint32, varints_of
from smg_core.engines.codecs.refusals import refusing
from smg_core.engines.loads import Loads
from smg_core.engines.upkeep import Adapter, EngineTask
from smg_core.errors import UnsupportedParameter
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_engine_contract.engines import mlx_engine_pb2 as pb

__all__ = ["MlxCodec"]

_refuse = refusing({"seed", "logit_bias"})


class MlxCodec:
    """mlx-lm. Stateless: one instance serves every engine."""

    name = "mlx"
    facts = calls.FACTS
    generate_path = f"/{calls.SERVICE}/Generate"
    health = calls.HEALTH
    model = calls.MODEL
    describes = calls.DESCRIBES
    loads: Unary[Loads] | None = None
    tokenizer = calls.TOKENIZER
    adapters: Unary[tuple[Adapter, ...]] | None = None

    def generate(self, request: EngineRequest) -> bytes:
        """The GenerateRequest. Raises UnsupportedParameter or InvalidRequest naming a field that this dialect cannot express."""
        _refuse(request)
        message = pb.GenerateRequest(
            request_id=request.id, sampling_params=_sampling(request.sampling), stream=request.stream
        )
        tokenized = tagged(calls.INPUT_IDS, varints_of(request.input_ids))
        return b"".join((message.SerializeToString(), tagged(calls.TOKENIZED, tokenized)))

    def decoder(self, request: EngineRequest) -> OutputDecoder:
        stops = request.sampling.stop_token_ids
        return decoder_of(_WORDING if not stops else _wording(stops), request)

    def abort(self, request_id: str) -> Unary[None]:
        return calls.abort(request_id)

    def embed(self, request_id: str, ids: TokenIds, types: Sequence[int] = ()) -> None:
        return None

    def kv_events(self, after: int | None) -> None:
        return None

    def upkeep(self, asked: EngineTask) -> None:
        return None


# --------------------------------------------------------------------------------------------------------- what is sent


def _sampling(asked: Sampling) -> pb.SamplingParams:
    out = pb.SamplingParams()
    if asked.temperature is not None:
        out.temperature = float32("sampling.temperature", asked.temperature)
    if asked.max_tokens is not None:
        out.max_tokens = uint32("sampling.max_tokens", asked.max_tokens)
    if asked.top_p is not None:
        out.top_p = nonzero("sampling.top_p", asked.top_p)
    if asked.top_k is not None and asked.top_k != -1:  # -1 and 0 both mean "all tokens", which is what 0 means here
        out.top_k = uint32("sampling.top_k", asked.top_k)
    if asked.repetition_penalty is not None:
        out.repetition_penalty = nonzero("sampling.repetition_penalty", asked.repetition_penalty)
    for name in ("min_p", "frequency_penalty", "presence_penalty"):
        if value := getattr(asked, name):
            setattr(out, name, float32(f"sampling.{name}", value))
    _rare_sampling(out, asked)
    return out


def _rare_sampling(out: pb.SamplingParams, asked: Sampling) -> None:
    """Write the fields that most requests do not set."""
    if asked.stop_token_ids:
        out.stop_token_ids.extend([uint32("sampling.stop_token_ids", token) for token in asked.stop_token_ids])
    if asked.ignore_eos:
        out.ignore_eos = True
    if asked.seed is not None:
        out.seed = _seed(asked.seed)
    if asked.logprobs is not None:
        # asked for none beside the sampled token's, the engine gives no logprobs at all
        out.logprobs = int32("sampling.logprobs", max(1, asked.logprobs))
    for token, bias in (asked.logit_bias or {}).items():
        out.logit_bias[int32("sampling.logit_bias", token)] = float32("sampling.logit_bias", bias)


def _seed(seed: int) -> int:
    """The engine fails on a negative seed."""
    if seed < 0:
        raise UnsupportedParameter(f"seed must not be negative for this engine, got {seed}.", param="sampling.seed")
    return int32("sampling.seed", seed)


# ---------------------------------------------------------------------------------------------------- what comes back


def _completed(complete: pb.GenerateComplete, *, take_ids: bool, stops: Collection[int] = ()) -> EngineOutput:
    """The engine names the end token as what it stopped at too; only `stops`, which the request named, are passed on."""
    matched = complete.matched_stop_token_id if complete.HasField("matched_stop_token_id") else None
    return EngineOutput(
        index=complete.index,
        ids=complete.output_ids[:] if take_ids else (),
        finish=FINISH.get(complete.finish_reason, "error"),
        matched=matched if matched in stops else None,
        prompt_tokens=complete.prompt_tokens,
        cached_tokens=complete.cached_tokens,
    )


_WORDING = Wording(
    response=pb.GenerateResponse.FromString, chunk=pb.GenerateStreamChunk.FromString, completed=_completed
)


def _wording(stops: Collection[int]) -> Wording:
    return Wording(_WORDING.response, _WORDING.chunk, partial(_completed, stops=frozenset(stops)))
