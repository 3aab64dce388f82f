"""The TensorRT-LLM dialect as an engine speaks it: requests are read into our records, answers written as the dialect's messages.

Decides how each message is put; pure. Above: server.grpc_server. The other side of engines.codecs.trtllm: the two share the
vendor's messages and no code, so that a fault of one shows at the other. Written after the source of TensorRT-LLM's servicer;
no real server was at hand.
"""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256

from smg_core.engines.base import ContextPhase, EngineLogprob, EngineRequest
from smg_core.engines.constraint import Constraint
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_engine_contract.engines import trtllm_service_pb2 as pb
from smg_simulator.codecs.base import PENALTIES, ChoiceEnd, ChoiceSlice, EngineState, parse_message, stop_fields
from smg_simulator.codecs.shared_messages import CALLS, SharedAnswers, token_counts, write_match
from smg_simulator.engine.engine import SimulatedModel
from smg_simulator.engine.media import SeenMedia
from smg_simulator.engine.refusal import Refused

__all__ = ["TrtllmServerCodec"]

_KINDS = {
    pb.GuidedDecodingParams.GUIDE_TYPE_JSON: "json_object",
    pb.GuidedDecodingParams.GUIDE_TYPE_JSON_SCHEMA: "json_schema",
    pb.GuidedDecodingParams.GUIDE_TYPE_REGEX: "regex",
    pb.GuidedDecodingParams.GUIDE_TYPE_EBNF_GRAMMAR: "grammar",
    pb.GuidedDecodingParams.GUIDE_TYPE_STRUCTURAL_TAG: "structural_tag",
}
_OPTIONAL = ("temperature", "top_p", "top_k", "min_p", "seed", "min_tokens", *PENALTIES)
_BEGINNINGS = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"RIFF", b"BM", b"II*", b"MM\x00*")
"""Of files that Pillow, with which the servicer opens them, takes for pictures; there are more."""


class TrtllmServerCodec(SharedAnswers):
    """`ServerCodec` with the habits of TensorRT-LLM's servicer: every message names the request, a chunk counts all tokens so
    far, the closing message has all of them again, logprobs are a message a token, a stop token is left out of the ids unless it
    is asked for, the vocabulary is said to have no added tokens, an answer that was aborted just ends, and settings that mean
    nothing are not refused."""

    service = "trtllm.TrtllmService"
    messages = pb
    methods: Mapping[str, str] = {
        **CALLS,
        "kv_events": "SubscribeKvEvents",
    }
    repeats_all = True

    def request(self, message: bytes, encode: Callable[[str], Sequence[int]]) -> EngineRequest:
        got = parse_message(pb.GenerateRequest, message)
        if not got.HasField("tokenized"):
            raise Refused("Missing tokenized input")
        sampling = _sampling(got)
        if sampling.n > 1 and sampling.temperature == 0:
            raise Refused("Greedy decoding in the LLM API does not allow multiple returns.")
        return EngineRequest(
            id=got.request_id,
            input_ids=TokenIds(got.tokenized.input_token_ids[:]),
            sampling=sampling,
            stream=got.streaming,
            constraint=_constraint(got.guided_decoding) if got.guided_decoding.guide else None,
            context_phase=_phase(got.disaggregated_params) if got.HasField("disaggregated_params") else None,
            multimodal=_pictures(got.multimodal_input) or None,
            lora=str(got.lora_config.task_id) if got.HasField("lora_config") else None,
        )

    def chunk(self, request_id: str, piece: ChoiceSlice) -> bytes:
        if not piece.ids:
            return b""
        chunk = pb.GenerateStreamChunk(
            token_ids=piece.ids,
            sequence_index=piece.index,
            **token_counts(piece),
            logprobs=[_scored(row) for row in piece.logprobs],
        )
        return bytes(pb.GenerateResponse(request_id=request_id, chunk=chunk).SerializeToString())

    def complete(self, request_id: str, piece: ChoiceSlice, end: ChoiceEnd) -> list[bytes]:
        if end.finish == "abort":
            return []
        complete = pb.GenerateComplete(
            output_token_ids=piece.ids,
            sequence_index=piece.index,
            finish_reason=end.finish,
            **token_counts(piece),
            logprobs=[_scored(row) for row in piece.logprobs],
        )
        write_match(complete, end.matched)
        return [bytes(pb.GenerateResponse(request_id=request_id, complete=complete).SerializeToString())]

    def health(self, healthy: bool) -> bytes:
        return bytes(pb.HealthCheckResponse(status="OK" if healthy else "Executor is unhealthy").SerializeToString())

    def model_info(self, info: SimulatedModel, state: EngineState) -> bytes:
        message = pb.GetModelInfoResponse(
            model_id=info.model,
            max_input_len=info.context_length,
            max_seq_len=info.context_length,
            vocab_size=min(info.eos_token_ids, default=info.vocab_size),
        )
        return bytes(message.SerializeToString())

    def server_info(self, state: EngineState) -> bytes:
        message = pb.GetServerInfoResponse(
            version="simulator",
            backend="tensorrt-llm",
            tensor_parallel_size=1,
            pipeline_parallel_size=1,
            context_parallel_size=1,
            world_size=1,
        )
        return bytes(message.SerializeToString())


def _sampling(got: pb.GenerateRequest) -> Sampling:
    config, output = got.sampling_config, got.output_config
    given = {name: getattr(config, name) for name in _OPTIONAL if config.HasField(name)}
    if not got.include_stop_token_in_output and got.stop_token_ids:
        raise Refused("the embedded engine keeps stop tokens in the ids")
    return Sampling(
        **given,
        max_tokens=got.max_tokens,
        **stop_fields(got),
        n=max(1, config.num_return_sequences),
        logprobs=(output.logprobs or None) if output.HasField("logprobs") else None,
    )


def _pictures(got: pb.MultimodalInput) -> tuple[SeenMedia, ...]:
    """The files of a request's pictures. Raises Refused for one that begins as no picture does."""
    files = got.image_data
    if not all(file.startswith(_BEGINNINGS) for file in files):
        raise Refused("cannot identify image file")
    hashes = tuple(sha256(file).hexdigest() for file in files)
    return (
        (SeenMedia("image", {}, None, (), hashes, frozenset(), {}, dialect="trtllm", as_files=True),) if hashes else ()
    )


def _constraint(guide: pb.GuidedDecodingParams) -> Constraint:
    kind = _KINDS.get(guide.guide_type)
    if kind is None:
        raise Refused("guided decoding of no kind")
    return Constraint(kind, "" if kind == "json_object" else guide.guide)


def _phase(got: pb.DisaggregatedParams) -> ContextPhase:
    phase = got.context_phase_params if got.HasField("context_phase_params") else None
    return ContextPhase(
        "context" if got.request_type == pb.DisaggregatedParams.REQUEST_TYPE_CONTEXT_ONLY else "generation",
        got.ctx_request_id,
        None if phase is None else phase.first_gen_token_id,
        b"" if phase is None else phase.kv_cache_blocks,
    )


def _scored(row: EngineLogprob) -> pb.TokenLogprob:
    top = [pb.TopLogprob(token_id=token, logprob=value) for token, value in row.top]
    return pb.TokenLogprob(token_id=row.token_id, logprob=row.logprob, top_logprobs=top)
