"""The TokenSpeed dialect as an engine speaks it: requests are read into our records, answers written as the dialect's messages.

Decides how each message is put; pure. Above: server.grpc_server. The other side of engines.codecs.tokenspeed: the two share the
vendor's messages and no code, so that a fault of one shows at the other. Written after the source of its servicer; no real
server was at hand.
"""

import json
from collections.abc import Callable, Collection, Sequence

from smg_core.engines.base import Bootstrap, Encoded, EngineRequest
from smg_core.engines.loads import RankLoad
from smg_core.request import Sampling
from smg_engine_contract.engines import common_pb2 as common
from smg_engine_contract.engines import tokenspeed_scheduler_pb2 as pb
from smg_engine_contract.engines.pool import Struct
from smg_simulator.codecs.base import (
    PENALTIES,
    ChoiceEnd,
    ChoiceSlice,
    EngineState,
    disaggregation_arguments,
    parse_message,
    stop_fields,
)
from smg_simulator.codecs.shared_messages import (
    MORE_CALLS,
    SharedAnswers,
    bootstrap_of,
    context_fields,
    model_fields,
    scheduled_fields,
    scheduler_load,
    token_counts,
    write_all_logprobs,
    write_match,
)
from smg_simulator.engine.engine import SimulatedModel
from smg_simulator.engine.media import SeenMedia, seen_tensor
from smg_simulator.engine.refusal import Refused

__all__ = ["TokenSpeedServerCodec", "seen_item"]

_MODALITIES = {common.IMAGE: "image", common.VIDEO: "video"}
_PRIMARY = {"image": "pixel_values", "video": "pixel_values_videos"}
_OPTIONAL = ("temperature", "top_p", "top_k", "min_p", *PENALTIES)


class TokenSpeedServerCodec(SharedAnswers):
    """`ServerCodec` with the habits of TokenSpeed's servicer: every message names the request, a chunk counts all tokens so far,
    the closing message has all of them again, the end token is named as what matched, stop tokens are left out of the ids
    unless they are asked for, and media come item by item."""

    service = "tokenspeed.grpc.scheduler.TokenSpeedScheduler"
    messages, well, unwell = pb, "Health check passed", "Scheduler returned no output"
    methods = MORE_CALLS
    repeats_all = True

    def request(self, message: bytes, encode: Callable[[str], Sequence[int]]) -> EngineRequest:
        got = parse_message(pb.GenerateRequest, message)
        if not got.HasField("tokenized"):
            raise Refused("GenerateRequest.tokenized is required")
        if not got.tokenized.input_ids:
            raise Refused("GenerateRequest.tokenized.input_ids is empty")
        encoded = _encoded(got)
        return EngineRequest(
            **scheduled_fields(got),
            sampling=_sampling(got),
            multimodal=_media(got.mm_inputs, {each.item for each in encoded}) if got.HasField("mm_inputs") else None,
            encoded=encoded,
            bootstrap=bootstrap_of(got, "kv_bootstrap_info"),
        )

    def chunk(self, request_id: str, piece: ChoiceSlice) -> bytes:
        chunk = pb.GenerateStreamChunk(
            token_ids=piece.ids,
            **token_counts(piece),
            index=piece.index,
        )
        write_all_logprobs(chunk, piece, prompt=False)
        return bytes(pb.GenerateResponse(request_id=request_id, chunk=chunk).SerializeToString())

    def complete(self, request_id: str, piece: ChoiceSlice, end: ChoiceEnd) -> list[bytes]:
        complete = pb.GenerateComplete(
            output_ids=piece.ids,
            finish_reason=end.finish,
            **token_counts(piece),
            index=piece.index,
        )
        write_all_logprobs(complete, piece, prompt=False)
        ended_by = piece.ids[-1] if end.finish == "stop" and piece.ids else None  # the end token
        write_match(complete, ended_by if end.matched is None else end.matched)
        return [bytes(pb.GenerateResponse(request_id=request_id, complete=complete).SerializeToString())]

    def model_info(self, info: SimulatedModel, state: EngineState) -> bytes:
        modalities = [number for number, name in _MODALITIES.items() if name in info.media]
        message = pb.GetModelInfoResponse(
            **model_fields(info),
            **context_fields(info),
            tokenizer_path=info.tokenizer_path,
            default_sampling_params_json=json.dumps(dict(info.default_sampling)),
            supports_vision=info.supports_vision,
            supports_multimodal=bool(modalities),
            supported_modalities=modalities,
            model_dtype="bfloat16",
            multimodal_encoder_dtype=state.encoder_dtype,
        )
        return bytes(message.SerializeToString())

    def server_info(self, state: EngineState) -> bytes:
        arguments, scheduler = Struct(), Struct()
        arguments.update(
            {"page_size": state.block_size, "dp_size": state.ranks, "kv_events_config": '{"publisher": "zmq"}'}
        )
        arguments.update(disaggregation_arguments(state))
        scheduler.update({"multimodal_encoder_dtype": state.encoder_dtype, "shm_namespace_id": state.memory})
        message = pb.GetServerInfoResponse(
            server_args=arguments,
            scheduler_info=scheduler,
            active_requests=state.active,
            uptime_seconds=state.uptime,
            max_total_num_tokens=state.cache_tokens,
            tokenspeed_version="simulator",
        )
        return bytes(message.SerializeToString())

    def loads(self, load: RankLoad, moment: str) -> bytes:
        row = pb.SchedulerLoad(utilization=load.token_usage, **scheduler_load(load))
        message = pb.GetLoadsResponse(timestamp=moment, version="tokenspeed", dp_rank_count=1, loads=[row])
        return bytes(message.SerializeToString())


def _sampling(got: pb.GenerateRequest) -> Sampling:
    params = got.sampling_params
    given = {name: getattr(params, name) for name in _OPTIONAL if params.HasField(name)}
    if not params.no_stop_trim:
        raise Refused("the embedded engine keeps stop tokens in the ids")
    return Sampling(
        **given,
        max_tokens=params.max_new_tokens if params.HasField("max_new_tokens") else None,
        min_tokens=params.min_new_tokens or None,
        seed=params.sampling_seed if params.HasField("sampling_seed") else None,
        **stop_fields(params),
        skip_special_tokens=params.skip_special_tokens,
        logit_bias={int(token): bias for token, bias in params.logit_bias.items()} or None,
        n=max(1, params.n),
        logprobs=got.top_logprobs_num if got.return_logprob else None,
    )


def _encoded(got: pb.GenerateRequest) -> tuple[Encoded, ...]:
    """The media that encode workers make embeddings of. Raises Refused for one that the request does not have."""
    found = got.encode_bootstrap_info.items
    if found and not got.HasField("mm_inputs"):
        raise Refused("encode_bootstrap_info is present but mm_inputs is missing")
    if any(each.item_index >= len(got.mm_inputs.items) for each in found):
        raise Refused("an item_index of encode_bootstrap_info is out of range")
    return tuple(
        Encoded(each.item_index, Bootstrap(each.bootstrap_host, each.bootstrap_port, each.bootstrap_room))
        for each in found
    )


def _media(inputs: pb.MultimodalInputs, encoded: Collection[int]) -> tuple[SeenMedia, ...]:
    """The media of a request, each by itself; those numbered in `encoded` come without their encoder's input. Raises Refused for
    what is malformed."""
    if not inputs.items:
        raise Refused("MultimodalInputs.items is empty")
    return tuple(seen_item(item, bare=at in encoded) for at, item in enumerate(inputs.items))


def seen_item(item: pb.MultimodalItem, *, bare: bool = False) -> SeenMedia:
    """One medium as it was sent; `bare`: without its encoder's input, which is not needed here. Raises Refused."""
    modality = _MODALITIES.get(item.modality)
    if modality is None:
        raise Refused("an item of a modality that is not supported")
    if item.HasField("encoder_input") is bare:
        raise Refused("encoder_input is sent to the engine that encodes the item, and to no other")
    if not item.placeholders:
        raise Refused("MultimodalItem carried no placeholders")
    if (f"{modality}_grid_thw" not in item.model_specific_tensors) and modality == "video":
        raise Refused("VIDEO MultimodalItem must carry video_grid_thw")
    tensors = {} if bare else {_PRIMARY[modality]: item.encoder_input}
    tensors |= item.model_specific_tensors
    spans = tuple((each.offset, each.length) for each in item.placeholders)
    start, end = spans[0][0], sum(spans[-1])
    return SeenMedia(
        modality=modality,
        tensors={
            name: seen_tensor(name, tuple(tensor.shape), tensor.dtype, tensor.inline)
            for name, tensor in tensors.items()
        },
        token_id=item.placeholder_token_id if item.HasField("placeholder_token_id") else None,
        placeholders=((start, end - start),),
        hashes=(item.content_hash.hex(),),
        batched=frozenset(),
        flat={},
        embeddings=spans,
        dialect="tokenspeed",
    )
