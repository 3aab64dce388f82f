"""The MLX dialect as an engine speaks it: requests are read into our records, answers written as the dialect's messages.

Decides how each message is put; pure. Above: server.grpc_server. The other side of engines.codecs.mlx: the two share the vendor's
messages and no code, so that a fault of one shows at the other. Captures of a real server (mlx-lm 0.31 behind smg-grpc-servicer
0.14) are what the tests hold it to.
"""

from collections.abc import Callable, Mapping, Sequence

from smg_core.engines.base import EngineLogprob, EngineRequest
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_engine_contract.engines import mlx_engine_pb2 as pb
from smg_simulator.codecs.base import PENALTIES, ChoiceEnd, ChoiceSlice, EngineState, parse_message, set_fields
from smg_simulator.codecs.shared_messages import CALLS, GrpcAnswers, ManyAborted, context_fields, model_fields
from smg_simulator.engine.engine import SimulatedModel
from smg_simulator.engine.refusal import Refused

__all__ = ["MlxServerCodec"]


class MlxServerCodec(ManyAborted, GrpcAnswers):
    """`ServerCodec` with the habits of MLX's servicer: a chunk counts all tokens so far, the closing message of a stream has none
    of them, the end token is named as what matched, no prompt token is ever reported as cached, an aborted answer has no closing
    message, and `logprobs` 0 gives none. Settings that mean nothing are not refused: no tokens asked for is one."""

    service = "mlx.grpc.engine.MlxEngine"
    messages, well, unwell = pb, "OK", "Generation loop is not running"
    methods: Mapping[str, str] = {
        **CALLS,
    }

    def request(self, message: bytes, encode: Callable[[str], Sequence[int]]) -> EngineRequest:
        got = parse_message(pb.GenerateRequest, message)
        if got.WhichOneof("input") != "tokenized":
            raise Refused("MLX servicer requires tokenized input")
        params = got.sampling_params
        if params.HasField("seed") and params.seed < 0:
            raise Refused("the seed must not be negative", "INTERNAL")
        return EngineRequest(
            id=got.request_id,
            input_ids=TokenIds(got.tokenized.input_ids[:]),
            sampling=_sampling(params),
            stream=got.stream,
        )

    def chunk(self, request_id: str, piece: ChoiceSlice) -> bytes:
        if not piece.ids:
            return b""
        chunk = pb.GenerateStreamChunk(
            token_ids=piece.ids, prompt_tokens=piece.prompt_tokens, completion_tokens=piece.completion_tokens
        )
        if piece.logprobs:
            _write_logprobs(chunk.output_logprobs, piece.logprobs)
        return bytes(pb.GenerateResponse(chunk=chunk).SerializeToString())

    def complete(self, request_id: str, piece: ChoiceSlice, end: ChoiceEnd) -> list[bytes]:
        if end.finish == "abort":
            return []
        complete = pb.GenerateComplete(
            output_ids=() if end.streamed else piece.ids,
            finish_reason=end.finish,
            prompt_tokens=piece.prompt_tokens,
            completion_tokens=piece.completion_tokens,
        )
        if piece.logprobs and not end.streamed:
            _write_logprobs(complete.output_logprobs, piece.logprobs)
        if isinstance(end.matched, int):
            complete.matched_stop_token_id = end.matched
        elif end.finish == "stop" and piece.ids:
            complete.matched_stop_token_id = piece.ids[-1]
        return [bytes(pb.GenerateResponse(complete=complete).SerializeToString())]

    def model_info(self, info: SimulatedModel, state: EngineState) -> bytes:
        message = pb.GetModelInfoResponse(
            **model_fields(info),
            **context_fields(info),
            is_generation=info.is_generation,
        )
        return bytes(message.SerializeToString())

    def server_info(self, state: EngineState) -> bytes:
        message = pb.GetServerInfoResponse(
            server_type="mlx-grpc", active_requests=state.active, uptime_seconds=state.uptime
        )
        return bytes(message.SerializeToString())


def _sampling(params: pb.SamplingParams) -> Sampling:
    """Fields without presence on the wire: 0 means "not set"."""
    return Sampling(
        max_tokens=max(1, params.max_tokens) if params.HasField("max_tokens") else None,
        temperature=max(0.0, params.temperature) if params.HasField("temperature") else None,
        seed=params.seed if params.HasField("seed") else None,
        stop_token_ids=tuple(params.stop_token_ids),
        ignore_eos=params.ignore_eos,
        logit_bias=dict(params.logit_bias) or None,
        **set_fields(params, "logprobs", "top_p", "top_k", "min_p", *PENALTIES),
    )


def _write_logprobs(out: pb.OutputLogProbs, rows: Sequence[EngineLogprob]) -> None:
    out.token_ids.extend([row.token_id for row in rows])
    out.token_logprobs.extend([row.logprob for row in rows])
    for row in rows:
        out.top_logprobs.add(values=[value for _, value in row.top], token_ids=[token for token, _ in row.top])
