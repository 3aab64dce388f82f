"""The common messages of several dialects of the embedded engine: the tokenizer's archive, KV events, logprobs, load.

Decides how each is put; pure. Above: the dialects' codecs. The messages are those of the package smg-grpc-proto.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from smg_core.engines.base import Bootstrap, EngineLogprob
from smg_core.engines.constraint import Constraint
from smg_core.engines.loads import RankLoad
from smg_core.tokens import TokenIds
from smg_engine_contract.engines import common_pb2 as common
from smg_simulator.codecs.base import ChoiceSlice, parse_message
from smg_simulator.engine.engine import SimulatedModel
from smg_simulator.engine.kv_feed import Batch
from smg_simulator.engine.prefix_cache import BlocksRemoved, BlockStored, CacheChange

__all__ = [
    "CALLS",
    "MORE_CALLS",
    "GrpcAnswers",
    "ManyAborted",
    "SharedAnswers",
    "bootstrap_of",
    "context_fields",
    "guide_of",
    "model_fields",
    "scheduled_fields",
    "scheduler_load",
    "token_counts",
    "write_all_logprobs",
    "write_logprobs",
    "write_match",
    "write_prompt_logprobs",
]

CALLS: Mapping[str, str] = {
    "generate": "Generate",
    "abort": "Abort",
    "health": "HealthCheck",
    "model_info": "GetModelInfo",
    "server_info": "GetServerInfo",
    "tokenizer": "GetTokenizer",
}
"""The RPCs that all vendors' dialects have, under these names."""
MORE_CALLS: Mapping[str, str] = {
    **CALLS,
    "loads": "GetLoads",
    "flush": "FlushCache",
    "profile_start": "StartProfile",
    "profile_stop": "StopProfile",
    "kv_events": "SubscribeKvEvents",
}
"""Those of the dialects that an operator can ask for more than answers."""


_KINDS = {"json_schema": "json_schema", "regex": "regex", "ebnf_grammar": "grammar", "structural_tag": "structural_tag"}
_FIRST = 1
"""The number of the feed's first batch; these dialects call it 0."""


class GrpcAnswers:
    """What the vendors' dialects have alike: their habits where a dialect says nothing else, and the tokenizer's archive.
    `messages` is the module of its messages, `well` and `unwell` what it says of its health."""

    messages: Any
    well: str
    unwell: str
    unique_ids: bool = False
    replays: bool = False
    recalls: bool = False
    repeats_all: bool = False
    ends_aborted: bool = True

    def failure(self, code: str, message: str) -> bytes | None:
        """None: errors are told by the gRPC status."""
        return None

    def aborted(self, message: bytes) -> list[str]:
        return [parse_message(self.messages.AbortRequest, message).request_id]

    def abort_answer(self, known: int) -> bytes:
        outcome = "aborted" if known else "not found"
        answer = self.messages.AbortResponse(success=bool(known), message=f"the request was {outcome}")
        return bytes(answer.SerializeToString())

    def health(self, healthy: bool) -> bytes:
        answer = self.messages.HealthCheckResponse(healthy=healthy, message=self.well if healthy else self.unwell)
        return bytes(answer.SerializeToString())

    def tokenizer_known(self, message: bytes) -> str:
        return ""

    def tokenizer_chunk(self, data: bytes, digest: str, total: int, *, last: bool) -> bytes:
        return bytes(common.GetTokenizerChunk(data=data, sha256=digest if last else "").SerializeToString())


class ManyAborted(GrpcAnswers):
    """The form of Abort that names several requests and says nothing."""

    def aborted(self, message: bytes) -> list[str]:
        return list(parse_message(self.messages.AbortRequest, message).request_ids)

    def abort_answer(self, known: int) -> bytes:
        return b""


class SharedAnswers(GrpcAnswers):
    """The calls of a `FullServerCodec` whose messages belong to no dialect."""

    def flush_answer(self, done: bool) -> bytes:
        message = "the prefix cache is empty" if done else "the prefix cache is in use; requests are in flight"
        return bytes(common.FlushCacheResponse(success=done, message=message).SerializeToString())

    def profile_answer(self, done: bool, message: str) -> bytes:
        return bytes(common.ProfileResponse(success=done, message=message).SerializeToString())

    def kv_cursor(self, message: bytes) -> int | None:
        cursor = parse_message(common.SubscribeKvEventsRequest, message).start_sequence_number
        return cursor + _FIRST if cursor else None

    def kv_batch(self, batch: Batch) -> bytes:
        made_up = batch.part is not None  # events of a snapshot have no numbers
        events = [
            _kv_event(0 if made_up else batch.first_event + at, change) for at, change in enumerate(batch.changes)
        ]
        message = common.KvEventBatch(
            sequence_number=batch.sequence - _FIRST, timestamp=batch.moment, events=events, dp_rank=0
        )
        if batch.part is not None:
            index, count = batch.part
            message.snapshot.index, message.snapshot.count = index, count
        return bytes(message.SerializeToString())


def scheduled_fields(got: Any) -> dict[str, Any]:
    """What SGLang's and TokenSpeed's requests say of every generation, as `EngineRequest` has it."""
    return {
        "id": got.request_id,
        "input_ids": TokenIds(got.tokenized.input_ids[:]),
        "stream": got.stream,
        "constraint": guide_of(got.sampling_params),
        "data_parallel_rank": got.data_parallel_rank if got.HasField("data_parallel_rank") else None,
    }


def bootstrap_of(got: Any, field: str) -> Bootstrap | None:
    """Where a request says that the cache of its prompt is handed over, in the field of this name."""
    place = getattr(got, field)
    return Bootstrap(place.bootstrap_host, place.bootstrap_port, place.bootstrap_room) if got.HasField(field) else None


def guide_of(params: Any) -> Constraint | None:
    """What a request's parameters hold the answer to, in the words of SGLang's dialect and of TokenSpeed's."""
    kind = params.WhichOneof("constraint")
    return None if kind is None else Constraint(_KINDS[kind], getattr(params, kind))


def model_fields(info: SimulatedModel) -> dict[str, Any]:
    """What all but one say of the model, under the same names."""
    return {
        "model_path": info.tokenizer_path,
        "served_model_name": info.model,
        "model_type": info.model_type,
        "architectures": info.architectures,
        "vocab_size": info.vocab_size,
    }


def context_fields(info: SimulatedModel) -> dict[str, Any]:
    """What engines say of the length of a context that is no matter of their cache, and of what ends an answer."""
    return {
        "max_context_length": info.context_length,
        "max_req_input_len": info.context_length,
        "eos_token_ids": info.eos_token_ids,
    }


def token_counts(piece: ChoiceSlice) -> dict[str, int]:
    """The counts that a chunk and a closing message have, which reach to the end of the piece."""
    return {
        "prompt_tokens": piece.prompt_tokens,
        "completion_tokens": piece.completion_tokens,
        "cached_tokens": piece.cached_tokens,
    }


def scheduler_load(load: RankLoad) -> dict[str, Any]:
    """The fields of a SchedulerLoad that all dialects with one have."""
    return {
        "dp_rank": load.rank,
        "num_running_reqs": load.running,
        "num_waiting_reqs": load.waiting,
        "num_total_reqs": load.running + load.waiting,
        "num_used_tokens": load.used_tokens,
        "max_total_num_tokens": load.max_tokens,
        "token_usage": load.token_usage,
        "gen_throughput": load.tokens_per_second,
        "cache_hit_rate": load.cache_hit_rate,
        "max_running_requests": load.max_running,
    }


def write_match(complete: Any, matched: str | int | None) -> None:
    """Name the stop string or token that ended a choice, if one did."""
    if isinstance(matched, str):
        complete.matched_stop_str = matched
    elif matched is not None:
        complete.matched_token_id = matched


def write_all_logprobs(out: Any, piece: ChoiceSlice, *, prompt: bool) -> None:
    """Fill in the logprobs of a chunk or a closing message; with `prompt`, those of the prompt too."""
    if piece.logprobs:
        write_logprobs(out.output_logprobs, piece.logprobs)
    if piece.prompt_logprobs and prompt:
        write_prompt_logprobs(out.input_logprobs, piece.prompt_logprobs)


def write_logprobs(out: Any, rows: Sequence[EngineLogprob]) -> None:
    """Fill an OutputLogProbs, which is arrays side by side."""
    out.token_ids.extend([row.token_id for row in rows])
    out.token_logprobs.extend([row.logprob for row in rows])
    for row in rows:
        if row.top:
            out.top_logprobs.add(values=[value for _, value in row.top], token_ids=[token for token, _ in row.top])


def write_prompt_logprobs(out: Any, rows: Sequence[EngineLogprob | None]) -> None:
    """Fill an InputLogProbs; None is the first token, which nothing predicts."""
    for row in rows:
        if row is None:
            out.token_logprobs.add()
            out.token_ids.append(0)
            out.top_logprobs.add()
        else:
            out.token_logprobs.add(value=row.logprob)
            out.token_ids.append(row.token_id)
            out.top_logprobs.add(values=[value for _, value in row.top], token_ids=[token for token, _ in row.top])


def _kv_event(event_id: int, change: CacheChange) -> common.KvCacheEvent:
    event = common.KvCacheEvent(event_id=event_id)
    if isinstance(change, BlockStored):
        stored = event.stored
        for digest, row, media in zip(change.hashes, change.token_ids, change.media, strict=True):
            block = stored.blocks.add(block_hash=digest, token_ids=row, block_size=len(row))
            for identifier, offset in media:
                block.extra_keys.add(multimodal=common.KvMultimodalKey(identifier=identifier, offset=offset))
        if change.parent is not None:
            stored.parent_block_hash = change.parent
        if change.salt:
            stored.cache_salt = change.salt
        if change.lora:
            stored.lora_name = change.lora
        stored.tier = common.KV_CACHE_TIER_DEVICE
        stored.medium = "GPU"
    elif isinstance(change, BlocksRemoved):
        event.removed.block_hashes.extend(change.hashes)
        event.removed.tier = common.KV_CACHE_TIER_DEVICE
        event.removed.medium = "GPU"
    else:
        event.cleared.SetInParent()
    return event
