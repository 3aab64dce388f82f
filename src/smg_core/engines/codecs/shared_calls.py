"""Replies that several dialects share field by field: health, load, the tokenizer's archive.

Decides what they mean; pure. Above: the modules `calls` of the dialects, each of which names its methods and classes of messages.
The messages come from the package smg-grpc-proto.
"""

from collections.abc import Sequence
from math import isfinite
from typing import Protocol, TypeVar

from google.protobuf.message import Message

from smg_core.engines.base import KvFacts, Unary
from smg_core.engines.codecs.answers import parse
from smg_core.engines.loads import Loads, RankLoad
from smg_engine_contract.engines import common_pb2 as common
from smg_engine_contract.engines.pool import Struct

__all__ = [
    "health_call",
    "kv_of_arguments",
    "loads_call",
    "reported",
    "struct_number",
    "struct_text",
    "tokenizer_call",
]

M = TypeVar("M", bound=Message)
_MAX_TEXT = 100  # characters of one value that an engine told of itself


class _Healthy(Protocol):
    healthy: bool


class _Row(Protocol):
    dp_rank: int
    num_running_reqs: int
    num_waiting_reqs: int
    num_used_tokens: int
    max_total_num_tokens: int
    token_usage: float
    gen_throughput: float
    cache_hit_rate: float
    max_running_requests: int


class _Loads(Protocol):
    @property
    def loads(self) -> Sequence[_Row]: ...


def health_call(service: str, reply: type[Message]) -> Unary[bool]:
    """HealthCheck of `service`, whose reply has the field `healthy`."""

    def healthy(message: bytes) -> bool:
        answer: _Healthy = parse(reply, message)  # type: ignore[assignment]
        return bool(answer.healthy)

    return Unary(f"/{service}/HealthCheck", b"", healthy)


def loads_call(service: str, reply: type[Message]) -> Unary[Loads]:
    """GetLoads of `service`, whose reply has a row for each data-parallel rank."""

    def loads(message: bytes) -> Loads:
        answer: _Loads = parse(reply, message)  # type: ignore[assignment]
        return Loads(tuple(_rank(row) for row in answer.loads))

    return Unary(f"/{service}/GetLoads", b"", loads)


def _rank(row: _Row) -> RankLoad:
    return RankLoad(
        rank=row.dp_rank,
        running=row.num_running_reqs,
        waiting=row.num_waiting_reqs,
        used_tokens=row.num_used_tokens,
        max_tokens=row.max_total_num_tokens,
        token_usage=row.token_usage,
        tokens_per_second=row.gen_throughput,
        cache_hit_rate=row.cache_hit_rate,
        max_running=row.max_running_requests,
    )


def tokenizer_call(service: str) -> Unary[tuple[bytes, str]]:
    """GetTokenizer of `service`: a stream of pieces of a zip archive, the last of which has its sha256."""
    return Unary(f"/{service}/GetTokenizer", b"", _piece)


def _piece(message: bytes) -> tuple[bytes, str]:
    chunk = parse(common.GetTokenizerChunk, message)
    return chunk.data, chunk.sha256


def reported(**reported_reason: str | int) -> tuple[tuple[str, str], ...]:
    """What an engine told of itself, for `EngineFacts.reported`: values that are empty are left out, long ones are cut."""
    return tuple((name, str(value)[:_MAX_TEXT]) for name, value in reported_reason.items() if value)


def struct_number(fields: Struct, name: str) -> int:
    """The whole number called `name` among an engine's arguments; 0 where it has none."""
    value = fields.fields.get(name)
    number = value.number_value if value is not None and value.HasField("number_value") else 0.0
    return int(number) if isfinite(number) else 0


def struct_text(fields: Struct, name: str) -> str:
    """The text called `name` among an engine's arguments; "" where it has none."""
    value = fields.fields.get(name)
    return str(value.string_value) if value is not None and value.HasField("string_value") else ""


def kv_of_arguments(arguments: Struct) -> KvFacts:
    """What an engine was started with to share its cache: the names of SGLang's flags."""
    mode = struct_text(arguments, "disaggregation_mode")
    if mode not in ("prefill", "decode", "encode"):
        return KvFacts()
    return KvFacts(
        connector=struct_text(arguments, "disaggregation_transfer_backend"),
        role=mode,
        port=max(0, struct_number(arguments, "disaggregation_bootstrap_port")),
    )
