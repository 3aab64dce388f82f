"""The SGLang dialect as an engine speaks it: requests are read into our records, answers written as the dialect's messages.

Decides how each message is put; pure. Above: server.grpc_server. The other side of engines.codecs.sglang: the two share the
vendor's messages and no code, so that a fault of one shows at the other. Captures of a real server (SGLang 0.5.23 behind
smg-grpc-servicer 0.14) are what the tests hold it to.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256

from smg_core.engines.base import EngineRequest
from smg_core.engines.loads import RankLoad
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_engine_contract.engines import sglang_scheduler_pb2 as pb
from smg_engine_contract.engines.pool import Struct
from smg_simulator.codecs.base import (
    PENALTIES,
    ChoiceEnd,
    ChoiceSlice,
    EngineState,
    disaggregation_arguments,
    parse_message,
    set_fields,
    stop_fields,
)
from smg_simulator.codecs.shared_messages import (
    MORE_CALLS,
    SharedAnswers,
    bootstrap_of,
    model_fields,
    scheduled_fields,
    scheduler_load,
    token_counts,
    write_all_logprobs,
    write_match,
)
from smg_simulator.engine.adapters import Adapters, LoadedAdapter
from smg_simulator.engine.engine import SimulatedModel
from smg_simulator.engine.media import SeenMedia, seen_tensor
from smg_simulator.engine.refusal import Refused

__all__ = ["SglangServerCodec"]


class SglangServerCodec(SharedAnswers):
    """`ServerCodec` with the habits of SGLang's servicer: every message names the request, a chunk counts all tokens so far, the
    closing message repeats the last chunk, the end token is named as what matched, the choices of a whole answer are all called
    0, a context is as long as the whole KV cache, and an answer that was aborted by name never ends. Pictures come with the
    places of their embeddings and without hashes."""

    service = "sglang.grpc.scheduler.SglangScheduler"
    messages, well, unwell = pb, "Health check passed", "Health check timeout after 20s"
    methods: Mapping[str, str] = {
        **MORE_CALLS,
        "embed": "Embed",
        "list_adapters": "ListLoadedLoRAAdapters",
        "load_adapter": "LoadLoRAAdapter",
        "unload_adapter": "UnloadLoRAAdapter",
    }
    ends_aborted = False

    def request(self, message: bytes, encode: Callable[[str], Sequence[int]]) -> EngineRequest:
        got = parse_message(pb.GenerateRequest, message)
        if not got.HasField("tokenized"):
            raise Refused("Tokenized input must be provided")
        return EngineRequest(
            **scheduled_fields(got),
            sampling=_sampling(got),
            multimodal=_media(got.mm_inputs) if got.HasField("mm_inputs") else None,
            bootstrap=bootstrap_of(got, "disaggregated_params"),
            lora=got.lora_id or None,
        )

    def chunk(self, request_id: str, piece: ChoiceSlice) -> bytes:
        if not piece.ids:
            return b""
        chunk = pb.GenerateStreamChunk(
            token_ids=piece.ids,
            **token_counts(piece),
            index=piece.index,
        )
        write_all_logprobs(chunk, piece, prompt=True)
        return bytes(pb.GenerateResponse(request_id=request_id, chunk=chunk).SerializeToString())

    def complete(self, request_id: str, piece: ChoiceSlice, end: ChoiceEnd) -> list[bytes]:
        if end.finish == "abort":
            return []
        complete = pb.GenerateComplete(
            output_ids=piece.ids,
            finish_reason=end.finish,
            **token_counts(piece),
            index=piece.index if end.streamed else 0,
        )
        write_all_logprobs(complete, piece, prompt=not end.streamed)
        ended_by = piece.ids[-1] if end.finish == "stop" and piece.ids else None  # the end token
        write_match(complete, ended_by if end.matched is None else end.matched)
        return [bytes(pb.GenerateResponse(request_id=request_id, complete=complete).SerializeToString())]

    def abort_answer(self, known: int) -> bytes:
        return bytes(pb.AbortResponse(success=True, message="the request was aborted").SerializeToString())

    def model_info(self, info: SimulatedModel, state: EngineState) -> bytes:
        labels = info.labels or ("LABEL_0", "LABEL_1")  # what transformers makes up for a model that is no classifier
        message = pb.GetModelInfoResponse(
            **model_fields(info),
            tokenizer_path=info.tokenizer_path,
            is_generation=info.is_generation,
            weight_version="default",
            max_context_length=state.cache_tokens,
            supports_vision=info.supports_vision,
            id2label_json=json.dumps({str(at): name for at, name in enumerate(labels)}),
            num_labels=len(labels),
            max_req_input_len=info.context_length - 6,
            default_sampling_params_json=json.dumps(dict(info.default_sampling)),
        )
        return bytes(message.SerializeToString())

    def server_info(self, state: EngineState) -> bytes:
        arguments = Struct()
        arguments.update(
            {
                "context_length": state.context_length,
                "page_size": state.block_size,
                "dp_size": state.ranks,
                **disaggregation_arguments(state),
                "reasoning_parser": None,
                "tool_call_parser": None,
                "kv_events_config": '{"publisher": "zmq"}',
            }
        )
        message = pb.GetServerInfoResponse(
            server_args=arguments,
            active_requests=state.active,
            uptime_seconds=state.uptime,
            sglang_version="simulator",
            server_type="grpc",
            max_total_num_tokens=state.cache_tokens,
        )
        return bytes(message.SerializeToString())

    def loads(self, load: RankLoad, moment: str) -> bytes:
        row = pb.SchedulerLoad(utilization=load.token_usage, **scheduler_load(load))
        total = pb.AggregateMetrics(
            total_running_reqs=load.running,
            total_waiting_reqs=load.waiting,
            total_reqs=load.running + load.waiting,
            avg_token_usage=load.token_usage,
        )
        message = pb.GetLoadsResponse(
            timestamp=moment, version="simulator", dp_rank_count=1, loads=[row], aggregate=total
        )
        return bytes(message.SerializeToString())

    def embed_request(self, message: bytes) -> tuple[TokenIds, Sequence[int]]:
        request = parse_message(pb.EmbedRequest, message)
        return TokenIds(request.tokenized.input_ids[:]), request.token_type_ids[:]

    def embed_answer(self, values: Sequence[float], tokens: int) -> bytes:
        message = pb.EmbedResponse(embedding=values, prompt_tokens=tokens, embedding_dim=len(values))
        return bytes(message.SerializeToString())

    def list_adapters(self, adapters: Adapters, message: bytes) -> bytes:
        """The answer to ListLoadedLoRAAdapters."""
        parse_message(pb.ListLoadedLoRAAdaptersRequest, message)
        rows = [
            pb.LoadedLoRAAdapter(lora_id=each.id, lora_name=each.name, lora_path=each.path, pinned=each.pinned)
            for each in adapters
        ]
        return bytes(pb.ListLoadedLoRAAdaptersResponse(loaded_adapters=rows).SerializeToString())

    def load_adapter(self, adapters: Adapters, message: bytes) -> bytes:
        """Load an adapter, and answer LoadLoRAAdapter."""
        got = parse_message(pb.LoadLoRAAdapterRequest, message)
        why = adapters.load(LoadedAdapter(got.lora_id, got.lora_name, got.lora_path, got.pinned))
        answer = pb.LoadLoRAAdapterResponse(success=not why, message=why, loaded_lora_ids=[e.id for e in adapters])
        return bytes(answer.SerializeToString())

    def unload_adapter(self, adapters: Adapters, message: bytes) -> bytes:
        """Unload an adapter, and answer UnloadLoRAAdapter."""
        got = parse_message(pb.UnloadLoRAAdapterRequest, message)
        why = adapters.unload(got.lora_name, got.lora_id)
        answer = pb.UnloadLoRAAdapterResponse(success=not why, message=why, loaded_lora_ids=[e.id for e in adapters])
        return bytes(answer.SerializeToString())


def _sampling(got: pb.GenerateRequest) -> Sampling:
    """Every number as it stands, zeros too. Alternatives are asked for with one number for prompt and output."""
    params, scored = got.sampling_params, got.return_logprob
    return Sampling(
        max_tokens=params.max_new_tokens if params.HasField("max_new_tokens") else None,
        min_tokens=params.min_new_tokens or None,
        **set_fields(params, "min_p", *PENALTIES),
        temperature=max(0.0, params.temperature),
        top_p=params.top_p,
        top_k=params.top_k,
        **stop_fields(params),
        skip_special_tokens=params.skip_special_tokens,
        include_stop=params.no_stop_trim,
        logit_bias={int(token): bias for token, bias in params.logit_bias.items()} or None,
        n=params.n,
        logprobs=got.top_logprobs_num if scored else None,
        prompt_logprobs=got.top_logprobs_num if scored and got.logprob_start_len >= 0 else None,
    )


def _media(inputs: pb.MultimodalInputs) -> tuple[SeenMedia, ...]:
    """The pictures of a request. Raises Refused for what is malformed. The engine makes a hash of all their pixels."""
    if not inputs.HasField("pixel_values"):
        return ()
    tensors = {"pixel_values": inputs.pixel_values} | dict(inputs.model_specific_tensors)
    if unread := {tensor.dtype for tensor in tensors.values()} - {"float32", "int64"}:
        raise Refused(f"tensors of {', '.join(sorted(unread))} are read as float32")
    places = tuple((each.offset, each.length) for each in inputs.mm_placeholders)
    digest = sha256(inputs.pixel_values.data).hexdigest()
    media = SeenMedia(
        modality="image",
        tensors={
            name: seen_tensor(name, tuple(tensor.shape), tensor.dtype, tensor.data) for name, tensor in tensors.items()
        },
        token_id=inputs.im_token_id if inputs.HasField("im_token_id") else None,
        placeholders=places,
        hashes=tuple(f"{digest}/{at}" for at in range(len(places))),
        batched=frozenset(),
        flat={},
        dialect="sglang",
    )
    return (media,)
