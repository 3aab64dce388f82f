"""The calls of the vLLM dialect beside Generate: health, what the engine says of itself, load, tokenizer, abort, embeddings.

Decides which method each call is and what its reply means; pure. Above: `codec`, which offers them. The messages come from the
package smg-grpc-proto. GetModelInfo and GetServerInfo report some facts only; `FACTS`, the dialect's table, has the others.
"""

from typing import Literal

import attrs

from smg_core.engines.base import EngineFacts, KvFacts, ModelInfo, ProcessFacts, Unary
from smg_core.engines.codecs.answers import json_object, parse
from smg_core.engines.codecs.protobuf import tagged, varints_of
from smg_core.engines.codecs.shared_calls import (
    health_call,
    loads_call,
    reported,
    tokenizer_call,
)
from smg_core.engines.constraint import HoldsFrom
from smg_core.engines.pooling import Vector, pools_of, vector_of
from smg_core.tokens import TokenIds
from smg_engine_contract.engines import vllm_engine_pb2 as pb

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
    "embed",
]

SERVICE = "vllm.grpc.engine.VllmEngine"

TOKENIZED, INPUT_IDS = 2, 2
"""Field numbers of GenerateRequest and EmbedRequest, and of TokenizedInput, for what is framed by hand."""

FACTS = EngineFacts(
    dialect="vllm",
    greedy_n=False,
    constraints=frozenset({"json_schema", "json_object", "regex", "grammar", "structural_tag", "choice"}),
    holds_from="unknown",
    max_logprobs=20,
    cache_salt=False,
    hands_over="kv_transfer",
    pools=frozenset({"embed"}),
    resizes="torch",  # it has torchvision installed, so transformers takes that backend
    media_together=frozenset({"image", "video"}),  # the servicer (0.14) takes recordings beside pictures for pictures
)
"""Facts of vLLM that it does not report over this protocol."""

_FLOATS: dict[str, Literal["bfloat16", "float16"]] = {"bfloat16": "bfloat16", "float16": "float16"}
"""Names of the encoder's dtype, as vLLM reports it. Servicers that do (0.14 on) take tensors of it and cast wider ones to it."""

_STARTS: dict[str, HoldsFrom] = {"first_token": "first_token", "after_reasoning": "after_reasoning"}


def _model(message: bytes) -> ModelInfo:
    info = parse(pb.GetModelInfoResponse, message)
    return ModelInfo(
        model=info.served_model_name or info.model_path,
        tokenizer_path=info.tokenizer_path or info.model_path,
        context_length=info.max_context_length,
        vocab_size=info.vocab_size,
        eos_token_ids=tuple(info.eos_token_ids),
        default_sampling=json_object(info.default_sampling_params_json),
        generates=info.is_generation,
        pools=pools_of(info.architectures, 0),
    )


def _facts(message: bytes) -> EngineFacts:
    info = parse(pb.GetServerInfoResponse, message)
    return attrs.evolve(
        FACTS,
        normalizes=info.mm_device_do_normalize,
        floats=_FLOATS.get(info.multimodal_encoder_dtype, "float32"),
        shared_memory=info.shm_namespace_id,
        block_size=info.block_size,
        ranks=max(1, info.data_parallel_size),
        holds_from=_holds_from(info),
        kv=KvFacts(info.kv_connector, info.kv_role, info.kv_engine_id),
        process=ProcessFacts(uptime_s=info.uptime_seconds),
        reported=reported(
            reasoning_parser=info.engine_reasoning_parser,
            server=info.server_type,
        ),
    )


def _holds_from(info: pb.GetServerInfoResponse) -> HoldsFrom:
    """Where its grammars begin. Servicers before 0.14 say neither that nor whether it has a parser for reasoning."""
    start: HoldsFrom | None = _STARTS.get(info.constrained_decoding_start)
    return start or ("after_reasoning" if info.engine_reasoning_parser else FACTS.holds_from)


def _embedding(message: bytes) -> Vector:
    answer = parse(pb.EmbedResponse, message)
    return vector_of(answer.embedding, answer.prompt_tokens, answer.embedding_dim)


HEALTH = health_call(SERVICE, pb.HealthCheckResponse)
MODEL = Unary(f"/{SERVICE}/GetModelInfo", b"", _model)
DESCRIBES = Unary(f"/{SERVICE}/GetServerInfo", b"", _facts)
LOADS = loads_call(SERVICE, pb.GetLoadsResponse)
TOKENIZER = tokenizer_call(SERVICE)


def abort(request_id: str) -> Unary[None]:
    """Ends a request by name."""
    return Unary(f"/{SERVICE}/Abort", pb.AbortRequest(request_ids=[request_id]).SerializeToString(), lambda _: None)


def embed(request_id: str, ids: TokenIds) -> Unary[Vector]:
    """Asks for the embedding of `ids`. The contract has no word for any other pooled work."""
    head: bytes = pb.EmbedRequest(request_id=request_id).SerializeToString()
    message = head + tagged(TOKENIZED, tagged(INPUT_IDS, varints_of(ids)))
    return Unary(f"/{SERVICE}/Embed", message, _embedding)
