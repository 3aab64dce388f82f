"""The calls of the neutral contract beside Generate: health, what the engine says of itself, load, tokenizer, abort, embeddings.

Decides which method each call is and what its reply means; pure. Above: `codec`, which offers them. `Capabilities` is believed
field by field: an engine lacks what it does not declare, with one exception that the contract makes itself (an absent `max_n`
means no limit).
"""

from collections.abc import Sequence

from smg_core.engines.base import EngineFacts, ModelInfo, ProcessFacts, Unary
from smg_core.engines.codecs.answers import json_object, parse
from smg_core.engines.codecs.protobuf import tagged, varints_of
from smg_core.engines.loads import Loads, RankLoad
from smg_core.engines.pooling import Vector, vector_of
from smg_core.request import PoolKind
from smg_core.tokens import TokenIds
from smg_engine_contract import engine_pb2 as pb

__all__ = ["DESCRIBES", "FACTS", "HEALTH", "INPUT_IDS", "LOADS", "MODEL", "SERVICE", "TOKENIZER", "abort", "embed"]

SERVICE = "smg.engine.v1.Engine"

INPUT_IDS = 2
"""Field number in GenerateRequest and in EmbedRequest, for what is framed by hand."""

_CONSTRAINTS = frozenset({"json_schema", "json_object", "regex", "grammar", "structural_tag", "choice"})
_MEDIA = {pb.MEDIA_KIND_IMAGE: "image", pb.MEDIA_KIND_VIDEO: "video", pb.MEDIA_KIND_AUDIO: "audio"}

FACTS = EngineFacts(
    dialect="neutral",
    constraints=_CONSTRAINTS,
    max_logprobs=None,
    media=frozenset(),
    media_together=frozenset(_MEDIA.values()),
    hands_over="kv_transfer",
    pools=frozenset({"embed", "classify", "score"}),
)
"""Everything that the contract can carry. What one engine has of it is in its `Capabilities`."""


def _health(message: bytes) -> bool:
    return bool(parse(pb.HealthResponse, message).ready)


def _model(message: bytes) -> ModelInfo:
    model = parse(pb.GetModelResponse, message).model
    return ModelInfo(
        model=model.name,
        tokenizer_path=model.tokenizer_path,
        context_length=model.context_length,
        vocab_size=model.vocab_size,
        eos_token_ids=tuple(model.eos_token_ids),
        default_sampling=json_object(model.default_sampling_json),
        labels=tuple(model.labels),
    )


def _facts(message: bytes) -> EngineFacts:
    answer = parse(pb.GetModelResponse, message)
    able, engine, pools = answer.capabilities, answer.engine, _pools(answer.model)
    return EngineFacts(
        dialect=FACTS.dialect,
        n=not able.HasField("max_n") or able.max_n > 1,
        max_n=able.max_n if able.HasField("max_n") else None,
        greedy_n=able.greedy_n,
        stop_strings=able.stop_strings,
        constraints=_CONSTRAINTS & set(able.constraints),
        logprobs=able.HasField("max_logprobs"),
        max_logprobs=able.max_logprobs,
        prompt_logprobs=able.prompt_logprobs,
        cache_salt=able.cache_salt,
        media=frozenset(_MEDIA[kind] for kind in able.media if kind in _MEDIA),
        media_together=FACTS.media_together,
        hands_over=FACTS.hands_over,
        context_length=answer.model.context_length,
        block_size=engine.block_size,
        ranks=max(1, engine.data_parallel_size),
        process=ProcessFacts(engine.instance_id, engine.uptime_seconds),
        loads=able.loads,
        kv_events=able.kv_events,
        generates=answer.model.generates or not pools,
        pools=pools,
    )


def _pools(model: pb.Model) -> frozenset[PoolKind]:
    stated: tuple[tuple[PoolKind, bool], ...] = (
        ("embed", model.embeds),
        ("classify", model.classifies),
        ("score", model.scores),
    )
    return frozenset([kind for kind, able in stated if able])


def _loads(message: bytes) -> Loads:
    return Loads(tuple(_rank(row) for row in parse(pb.GetLoadsResponse, message).ranks))


def _rank(row: pb.RankLoad) -> RankLoad:
    return RankLoad(
        rank=row.rank,
        running=row.running,
        waiting=row.waiting,
        used_tokens=row.used_tokens,
        max_tokens=row.max_tokens,
        token_usage=row.used_tokens / row.max_tokens if row.max_tokens else 0.0,
        tokens_per_second=row.tokens_per_second,
        cache_hit_rate=row.cache_hit_rate,
        max_running=row.max_running,
    )


def _embedding(message: bytes) -> Vector:
    answer = parse(pb.EmbedResponse, message)
    return vector_of(answer.values, answer.prompt_tokens)


def _piece(message: bytes) -> tuple[bytes, str]:
    chunk = parse(pb.TokenizerChunk, message)
    return chunk.data, chunk.sha256


HEALTH = Unary(f"/{SERVICE}/Health", b"", _health)
MODEL = Unary(f"/{SERVICE}/GetModel", b"", _model)
DESCRIBES = Unary(f"/{SERVICE}/GetModel", b"", _facts)
LOADS = Unary(f"/{SERVICE}/GetLoads", b"", _loads)
TOKENIZER = Unary(f"/{SERVICE}/GetTokenizer", b"", _piece)


def abort(request_id: str) -> Unary[None]:
    """Ends a request by name."""
    return Unary(f"/{SERVICE}/Abort", pb.AbortRequest(request_ids=[request_id]).SerializeToString(), lambda _: None)


def embed(request_id: str, ids: TokenIds, types: Sequence[int] = ()) -> Unary[Vector]:
    """Asks for the numbers of `ids`: a vector, or the raw numbers of a classifier."""
    head: bytes = pb.EmbedRequest(request_id=request_id, token_type_ids=types).SerializeToString()
    return Unary(f"/{SERVICE}/Embed", head + tagged(INPUT_IDS, varints_of(ids)), _embedding)
