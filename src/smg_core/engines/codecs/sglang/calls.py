"""The calls of the SGLang dialect beside Generate: health, what the engine says of itself, load, tokenizer, abort, embeddings.

Decides which method each call is and what its reply means; pure. Above: `codec`, which offers them. The messages come from the
package smg-grpc-proto. GetServerInfo has the engine's own arguments, which are the surest source of its context: the servicers
report the size of the whole KV cache as the context length, and of some models a vocabulary that is not theirs (the tokenizer
bounds it too).
"""

from collections.abc import Sequence

import attrs

from smg_core.engines.base import EngineFacts, ModelInfo, ProcessFacts, Unary
from smg_core.engines.codecs.answers import json_object, parse
from smg_core.engines.codecs.protobuf import tagged, varints_of
from smg_core.engines.codecs.shared_calls import (
    health_call,
    kv_of_arguments,
    loads_call,
    reported,
    struct_number,
    struct_text,
    tokenizer_call,
)
from smg_core.engines.codecs.shared_upkeep import reply_of
from smg_core.engines.pooling import Vector, class_names, pools_of, vector_of
from smg_core.engines.upkeep import Adapter, EngineReply, LoadAdapter, UnloadAdapter
from smg_core.tokens import TokenIds
from smg_engine_contract.engines import sglang_scheduler_pb2 as pb

__all__ = [
    "ADAPTERS",
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
    "change_adapters",
    "embed",
]

SERVICE = "sglang.grpc.scheduler.SglangScheduler"

TOKENIZED, INPUT_IDS = 2, 2
"""Field numbers of GenerateRequest and EmbedRequest, and of TokenizedInput, for what is framed by hand."""

_KEPT_FREE = 6
"""Tokens of its context that SGLang takes no prompt for: its longest prompt is shorter than the context by so many."""

FACTS = EngineFacts(
    dialect="sglang",
    fans_out=True,
    greedy_n=False,
    seed=False,
    constraints=frozenset({"json_schema", "json_object", "regex", "grammar", "structural_tag", "choice"}),
    max_logprobs=None,
    cache_salt=False,
    media=frozenset({"image"}),
    resizes="torch",  # transformers takes that backend where torchvision is installed, which SGLang needs
    hands_over="bootstrap",
    pools=frozenset({"embed", "classify", "score"}),
    lora=True,
)
"""What SGLang can be asked. Its servicers number the choices of a whole answer wrongly and abort none of several, so each choice
is a call of its own. Its protocol has no field for a seed or a cache salt."""


def _model(message: bytes) -> ModelInfo:
    info = parse(pb.GetModelInfoResponse, message)
    longest = info.max_req_input_len + _KEPT_FREE if info.max_req_input_len > 0 else 0
    contexts = [each for each in (info.max_context_length, longest) if each > 0]
    labels = class_names(json_object(info.id2label_json))
    return ModelInfo(
        model=info.served_model_name or info.model_path,
        tokenizer_path=info.tokenizer_path or info.model_path,
        context_length=min(contexts, default=0),
        vocab_size=info.vocab_size,
        eos_token_ids=tuple(info.eos_token_ids),
        default_sampling=json_object(info.default_sampling_params_json or info.preferred_sampling_params),
        generates=info.is_generation,
        pools=pools_of(info.architectures, info.num_labels or len(labels)),
        labels=labels,
    )


def _facts(message: bytes) -> EngineFacts:
    info = parse(pb.GetServerInfoResponse, message)
    arguments = info.server_args
    return attrs.evolve(
        FACTS,
        context_length=struct_number(arguments, "context_length"),
        block_size=max(0, struct_number(arguments, "page_size")),
        ranks=max(1, struct_number(arguments, "dp_size")),
        holds_from="as_told" if struct_text(arguments, "reasoning_parser") else "first_token",
        kv_events=bool(struct_text(arguments, "kv_events_config")),
        kv=kv_of_arguments(arguments),
        process=ProcessFacts(uptime_s=info.uptime_seconds),
        reported=reported(
            reasoning_parser=struct_text(arguments, "reasoning_parser"),
            tool_call_parser=struct_text(arguments, "tool_call_parser"),
            version=info.sglang_version,
        ),
    )


def _embedding(message: bytes) -> Vector:
    answer = parse(pb.EmbedResponse, message)
    return vector_of(answer.embedding, answer.prompt_tokens, answer.embedding_dim)


def _adapters(message: bytes) -> tuple[Adapter, ...]:
    loaded = parse(pb.ListLoadedLoRAAdaptersResponse, message).loaded_adapters
    return tuple(Adapter(each.lora_name or each.lora_id, each.lora_id) for each in loaded if each.lora_id)


def _loaded(message: bytes) -> EngineReply:
    answer = parse(pb.LoadLoRAAdapterResponse, message)
    return reply_of(answer.success, answer.message)


def _unloaded(message: bytes) -> EngineReply:
    answer = parse(pb.UnloadLoRAAdapterResponse, message)
    return reply_of(answer.success, answer.message)


HEALTH = health_call(SERVICE, pb.HealthCheckResponse)
MODEL = Unary(f"/{SERVICE}/GetModelInfo", b"", _model)
DESCRIBES = Unary(f"/{SERVICE}/GetServerInfo", b"", _facts)
LOADS = loads_call(SERVICE, pb.GetLoadsResponse)
TOKENIZER = tokenizer_call(SERVICE)
ADAPTERS = Unary(f"/{SERVICE}/ListLoadedLoRAAdapters", b"", _adapters)


def change_adapters(asked: LoadAdapter | UnloadAdapter) -> Unary[EngineReply]:
    """Loads an adapter, or lets go of one."""
    if isinstance(asked, UnloadAdapter):
        gone = pb.UnloadLoRAAdapterRequest(lora_name=asked.name, lora_id=asked.id)
        return Unary(f"/{SERVICE}/UnloadLoRAAdapter", gone.SerializeToString(), _unloaded)
    new = pb.LoadLoRAAdapterRequest(lora_name=asked.name, lora_path=asked.path, pinned=asked.pinned, lora_id=asked.id)
    return Unary(f"/{SERVICE}/LoadLoRAAdapter", new.SerializeToString(), _loaded)


def abort(request_id: str) -> Unary[None]:
    """Ends a request by name."""
    message = pb.AbortRequest(request_id=request_id, reason="cancelled").SerializeToString()
    return Unary(f"/{SERVICE}/Abort", message, lambda _: None)


def embed(request_id: str, ids: TokenIds, types: Sequence[int] = ()) -> Unary[Vector]:
    """Asks for the numbers of `ids`: a vector, or what the head of a classifier gives. The engine wants sampling settings here
    too, and zeros are not neutral ones. `types` says to which text of a pair each id belongs."""
    neutral = pb.SamplingParams(temperature=1.0, top_p=1.0, top_k=-1, repetition_penalty=1.0, n=1)
    head: bytes = pb.EmbedRequest(
        request_id=request_id, sampling_params=neutral, token_type_ids=types, is_cross_encoder=bool(types)
    ).SerializeToString()
    message = head + tagged(TOKENIZED, tagged(INPUT_IDS, varints_of(ids)))
    return Unary(f"/{SERVICE}/Embed", message, _embedding)
