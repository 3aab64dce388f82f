"""The vLLM dialect as an engine speaks it: requests are read into our records, answers written as the dialect's messages.

Decides how each message is put; pure. Above: server.grpc_server. The other side of engines.codecs.vllm: the two share the
vendor's messages and no code, so that a fault of one shows at the other.
"""

import json
from collections.abc import Callable, Mapping, Sequence

from smg_core.engines.base import EngineRequest
from smg_core.engines.constraint import Constraint
from smg_core.engines.loads import RankLoad
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_engine_contract.engines import vllm_engine_pb2 as pb
from smg_simulator.codecs.base import (
    PENALTIES,
    ChoiceEnd,
    ChoiceSlice,
    EngineState,
    parse_message,
    set_fields,
    stop_fields,
)
from smg_simulator.codecs.shared_messages import (
    MORE_CALLS,
    ManyAborted,
    SharedAnswers,
    context_fields,
    model_fields,
    scheduler_load,
    write_all_logprobs,
    write_match,
)
from smg_simulator.engine.engine import SimulatedModel
from smg_simulator.engine.media import ReadShared, read_media
from smg_simulator.engine.refusal import Refused

__all__ = ["VllmServerCodec"]


class VllmServerCodec(ManyAborted, SharedAnswers):
    """`ServerCodec` with the habits of one of vLLM's two servicers.

    Python: a chunk counts its own tokens, the closing message repeats the last chunk, two requests in flight may have one id,
    KV events are not replayed. Rust (`rust`): a chunk counts all tokens so far, the closing message repeats all of them, ids in
    flight are unique, KV events are replayed, from the first one or from a list of all blocks. `shared` reads tensors from shared
    memory; None refuses them.
    """

    service = "vllm.grpc.engine.VllmEngine"
    messages, well, unwell = pb, "Health", "Engine is not healthy"
    methods: Mapping[str, str] = {
        **MORE_CALLS,
        "embed": "Embed",
    }

    def __init__(self, *, rust: bool = False, shared: ReadShared | None = None) -> None:
        self._shared = {} if shared is None else {"shared": shared}
        self.unique_ids = self.replays = self.recalls = self.repeats_all = rust

    def request(self, message: bytes, encode: Callable[[str], Sequence[int]]) -> EngineRequest:
        got = parse_message(pb.GenerateRequest, message)
        if self.repeats_all and got.WhichOneof("input") == "text":
            raise Refused("text input is not supported; send token ids")
        ids = encode(got.text) if got.WhichOneof("input") == "text" else got.tokenized.input_ids[:]
        params = got.sampling_params
        if params.n > 1 and params.HasField("temperature") and params.temperature == 0:
            raise Refused(f"n must be 1 when using greedy sampling, got {params.n}.")
        return EngineRequest(
            id=got.request_id,
            input_ids=TokenIds(ids),
            sampling=_sampling(params),
            stream=got.stream,
            constraint=_constraint(params),
            data_parallel_rank=got.data_parallel_rank if got.HasField("data_parallel_rank") else None,
            kv_transfer=got.kv_transfer_params_json if got.HasField("kv_transfer_params_json") else None,
            multimodal=read_media(got, **self._shared) or None,
        )

    def chunk(self, request_id: str, piece: ChoiceSlice) -> bytes:
        if self.repeats_all and not piece.ids:
            return b""
        chunk = pb.GenerateStreamChunk(
            token_ids=piece.ids,
            prompt_tokens=piece.prompt_tokens,
            completion_tokens=piece.completion_tokens if self.repeats_all else len(piece.ids),
            cached_tokens=piece.cached_tokens,
            index=piece.index,
        )
        write_all_logprobs(chunk, piece, prompt=True)
        return bytes(pb.GenerateResponse(chunk=chunk).SerializeToString())

    def complete(self, request_id: str, piece: ChoiceSlice, end: ChoiceEnd) -> list[bytes]:
        complete = pb.GenerateComplete(
            output_ids=piece.ids,
            finish_reason=end.finish,
            prompt_tokens=piece.prompt_tokens,
            completion_tokens=len(piece.ids),
            cached_tokens=piece.cached_tokens,
            index=piece.index,
        )
        write_all_logprobs(complete, piece, prompt=True)
        write_match(complete, end.matched)
        if end.kv_transfer is not None:
            complete.kv_transfer_params_json = end.kv_transfer
        return [bytes(pb.GenerateResponse(complete=complete).SerializeToString())]

    def model_info(self, info: SimulatedModel, state: EngineState) -> bytes:
        message = pb.GetModelInfoResponse(
            **model_fields(info),
            **context_fields(info),
            tokenizer_path=info.tokenizer_path,
            is_generation=info.is_generation,
            pad_token_id=info.pad_token_id or 0,
            supports_vision=info.supports_vision,
            default_sampling_params_json=json.dumps(dict(info.default_sampling)),
        )
        return bytes(message.SerializeToString())

    def server_info(self, state: EngineState) -> bytes:
        message = pb.GetServerInfoResponse(
            active_requests=state.active,
            uptime_seconds=state.uptime,
            server_type="vllm-grpc",
            kv_connector=state.kv[0],
            kv_role=state.kv[1],
            kv_engine_id=state.kv[2] if state.kv[0] else "",
            shm_namespace_id=state.memory,
            mm_device_do_normalize=state.normalizes,
            multimodal_encoder_dtype=state.encoder_dtype,
            data_parallel_size=state.ranks,
            block_size=state.block_size,
            max_num_seqs=state.batch,
            kv_cache_dtype="auto",
            model_dtype="torch.bfloat16",
            constrained_decoding_start="first_token",
        )
        return bytes(message.SerializeToString())

    def loads(self, load: RankLoad, moment: str) -> bytes:
        row = pb.SchedulerLoad(utilization=load.token_usage, **scheduler_load(load))
        message = pb.GetLoadsResponse(timestamp=moment, version="simulator", dp_rank_count=1, loads=[row])
        return bytes(message.SerializeToString())

    def embed_request(self, message: bytes) -> tuple[TokenIds, Sequence[int]]:
        return TokenIds(parse_message(pb.EmbedRequest, message).tokenized.input_ids[:]), ()

    def embed_answer(self, values: Sequence[float], tokens: int) -> bytes:
        message = pb.EmbedResponse(embedding=values, prompt_tokens=tokens, embedding_dim=len(values))
        return bytes(message.SerializeToString())


def _sampling(params: pb.SamplingParams) -> Sampling:
    """Fields without presence on the wire: 0 means "not set"."""
    return Sampling(
        max_tokens=params.max_tokens if params.HasField("max_tokens") else None,
        temperature=params.temperature if params.HasField("temperature") else None,
        **set_fields(params, "min_tokens", "top_p", "top_k", "min_p", *PENALTIES),
        seed=params.seed if params.HasField("seed") else None,
        **stop_fields(params),
        skip_special_tokens=params.skip_special_tokens,
        include_stop=params.include_stop_str_in_output,
        logit_bias=dict(params.logit_bias) or None,
        n=params.n or 1,
        logprobs=params.logprobs if params.HasField("logprobs") else None,
        prompt_logprobs=params.prompt_logprobs if params.HasField("prompt_logprobs") else None,
    )


def _constraint(params: pb.SamplingParams) -> Constraint | None:
    kind = params.WhichOneof("constraint")
    if kind is None:
        return None
    if kind == "choice":
        return Constraint(kind, choices=tuple(params.choice.choices))
    return Constraint(kind, "" if kind == "json_object" else getattr(params, kind))
