"""The calls of the TokenSpeed dialect beside Generate: health, what the engine says of itself, load, tokenizer, abort.

Decides which method each call is and what its reply means; pure. Above: `codec`, which offers them. The messages come from the
package smg-grpc-proto. GetServerInfo has the engine's own arguments; what they do not say is in the table.
"""

from typing import Literal

import attrs

from smg_core.engines.base import EngineFacts, ModelInfo, ProcessFacts, Unary
from smg_core.engines.codecs.answers import json_object, parse
from smg_core.engines.codecs.shared_calls import (
    health_call,
    kv_of_arguments,
    loads_call,
    reported,
    struct_number,
    struct_text,
    tokenizer_call,
)
from smg_core.engines.codecs.tensors import MediaMessage, concatenated
from smg_core.errors import WorkerBusy
from smg_engine_contract.engines import tokenspeed_encoder_pb2 as encoder
from smg_engine_contract.engines import tokenspeed_scheduler_pb2 as pb

__all__ = [
    "DESCRIBES",
    "FACTS",
    "HEALTH",
    "INPUT_IDS",
    "LOADS",
    "MODEL",
    "SERVICE",
    "TOKENIZED",
    "TOKENIZER",
    "abort",
    "encode_item",
]

SERVICE = "tokenspeed.grpc.scheduler.TokenSpeedScheduler"
ENCODER = "tokenspeed.grpc.encoder.TokenSpeedEncoder"
"""The service of an encode worker, beside which it answers the calls of `SERVICE` that say what it is."""

_MM_INPUTS = 2  # field number of EncodeRequest, for what is framed by hand

TOKENIZED, INPUT_IDS = 2, 1
"""Field numbers of GenerateRequest, and of TokenizedInput, for what is framed by hand."""

FACTS = EngineFacts(
    dialect="tokenspeed",
    fans_out=True,
    greedy_n=False,
    constraints=frozenset({"json_schema", "json_object", "regex", "grammar", "structural_tag", "choice"}),
    max_logprobs=None,
    prompt_logprobs=False,
    cache_salt=False,
    media=frozenset({"image", "video"}),
    media_together=frozenset({"image", "video"}),
    resizes="torch",
    hands_over="bootstrap",
)
"""What TokenSpeed can be asked. Several choices of one call would have one seed, so each is a call of its own. Its protocol has
no field for a cache salt or an adapter, and gives no logprobs of the prompt."""

_FLOATS: dict[str, Literal["bfloat16", "float16"]] = {"bfloat16": "bfloat16", "float16": "float16"}
"""Names of the encoder's dtype, as the engine reports it; it casts wider floats to it."""


def _model(message: bytes) -> ModelInfo:
    info = parse(pb.GetModelInfoResponse, message)
    return ModelInfo(
        model=info.served_model_name or info.model_path,
        tokenizer_path=info.tokenizer_path or info.model_path,
        context_length=info.max_context_length,
        vocab_size=max(0, info.vocab_size),
        eos_token_ids=tuple(info.eos_token_ids),
        default_sampling=json_object(info.default_sampling_params_json),
    )


def _facts(message: bytes) -> EngineFacts:
    info = parse(pb.GetServerInfoResponse, message)
    arguments = info.server_args
    return attrs.evolve(
        FACTS,
        floats=_FLOATS.get(struct_text(info.scheduler_info, "multimodal_encoder_dtype"), "float32"),
        block_size=max(0, struct_number(arguments, "page_size") or struct_number(arguments, "block_size")),
        ranks=max(1, struct_number(arguments, "dp_size"), struct_number(arguments, "data_parallel_size")),
        kv_events=bool(struct_text(arguments, "kv_events_config")),
        kv=kv_of_arguments(arguments),
        process=ProcessFacts(uptime_s=info.uptime_seconds),
        reported=reported(
            reasoning_parser=struct_text(arguments, "reasoning_parser"),
            tool_call_parser=struct_text(arguments, "tool_call_parser"),
            version=info.tokenspeed_version,
        ),
    )


HEALTH = health_call(SERVICE, pb.HealthCheckResponse)
MODEL = Unary(f"/{SERVICE}/GetModelInfo", b"", _model)
DESCRIBES = Unary(f"/{SERVICE}/GetServerInfo", b"", _facts)
LOADS = loads_call(SERVICE, pb.GetLoadsResponse)
TOKENIZER = tokenizer_call(SERVICE)


def abort(request_id: str) -> Unary[None]:
    """Ends a request by name."""
    message = pb.AbortRequest(request_id=request_id, reason="cancelled").SerializeToString()
    return Unary(f"/{SERVICE}/Abort", message, lambda _: None)


def encode_item(request_id: str, media: MediaMessage, room: int) -> Unary[None]:
    """Has an encode worker make the embeddings of the one item of `media`, and keep them in `room` for the engine that asks."""
    request = encoder.EncodeRequest(request_id=request_id, items=[encoder.EncodeItemAssignment(bootstrap_room=room)])
    message = concatenated((request.SerializeToString(), *media.tagged(_MM_INPUTS)))
    return Unary(f"/{ENCODER}/Encode", message, _accepted)


def _accepted(message: bytes) -> None:
    if not parse(encoder.EncodeResponse, message).accepted:
        raise WorkerBusy("The engine has no room for the request.", detail="the encode worker did not accept an item")
