"""The neutral contract, `smg.engine.v1`, as an engine speaks it: an example for authors of engines.

Decides how each message is put; pure. Above: server.grpc_server. The other side of engines.codecs.neutral.codec.
"""

import json
from collections.abc import Callable, Mapping, Sequence

from smg_core.engines.base import EngineLogprob, EngineRequest
from smg_core.engines.constraint import Constraint
from smg_core.engines.loads import RankLoad
from smg_core.engines.status import NAMES
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_engine_contract import engine_pb2 as pb
from smg_simulator.codecs.base import PENALTIES, ChoiceEnd, ChoiceSlice, EngineState, parse_message, stop_fields
from smg_simulator.codecs.neutral_media import KINDS, read_neutral_media
from smg_simulator.engine.engine import SimulatedModel
from smg_simulator.engine.kv_feed import Batch
from smg_simulator.engine.prefix_cache import BlocksRemoved, BlockStored, CacheChange

__all__ = ["NeutralServerCodec"]

_FINISH = {"stop": pb.FINISH_REASON_STOP, "length": pb.FINISH_REASON_LENGTH, "abort": pb.FINISH_REASON_ABORTED}
_RETRYABLE = frozenset({"UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED"})
_UINT64 = (1 << 64) - 1
_OPTIONAL_SAMPLING = (
    "max_tokens",
    "min_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    *PENALTIES,
    "seed",
    "logprobs",
    "prompt_logprobs",
)


class NeutralServerCodec:
    """`ServerCodec` of the contract: each message has new tokens only, optional fields have presence, and an error after the
    first token is a message of the stream."""

    service = "smg.engine.v1.Engine"
    methods: Mapping[str, str] = {
        "generate": "Generate",
        "abort": "Abort",
        "health": "Health",
        "model_info": "GetModel",
        "loads": "GetLoads",
        "embed": "Embed",
        "tokenizer": "GetTokenizer",
        "kv_events": "SubscribeKvEvents",
    }
    unique_ids = True
    replays = True
    recalls = False
    repeats_all = False
    ends_aborted = True

    def request(self, message: bytes, encode: Callable[[str], Sequence[int]]) -> EngineRequest:
        got = parse_message(pb.GenerateRequest, message)
        return EngineRequest(
            id=got.request_id,
            input_ids=TokenIds(got.input_ids[:]),
            sampling=_sampling(got.sampling),
            stream=got.stream,
            constraint=_constraint(got.constraint),
            data_parallel_rank=got.data_parallel_rank if got.HasField("data_parallel_rank") else None,
            kv_transfer=got.kv_transfer_json if got.HasField("kv_transfer_json") else None,
            multimodal=read_neutral_media(got.media) or None,
            cache_salt=got.cache_salt if got.HasField("cache_salt") else None,
        )

    def chunk(self, request_id: str, piece: ChoiceSlice) -> bytes:
        if not piece.ids and not piece.prompt_logprobs:
            return b""
        tokens = pb.Tokens(
            index=piece.index, ids=piece.ids, prompt_tokens=piece.prompt_tokens, cached_tokens=piece.cached_tokens
        )
        if piece.logprobs:
            tokens.logprobs.extend([_logprob(row) for row in piece.logprobs])
        if piece.prompt_logprobs and piece.index == 0:
            tokens.prompt_logprobs.extend([_logprob(row) for row in piece.prompt_logprobs])
        return bytes(pb.GenerateEvent(tokens=tokens).SerializeToString())

    def complete(self, request_id: str, piece: ChoiceSlice, end: ChoiceEnd) -> list[bytes]:
        finished = pb.Finished(
            index=piece.index,
            reason=_FINISH.get(end.finish, pb.FINISH_REASON_UNSPECIFIED),
            prompt_tokens=piece.prompt_tokens,
            completion_tokens=piece.completion_tokens,
            cached_tokens=piece.cached_tokens,
        )
        if isinstance(end.matched, str):
            finished.matched_stop = end.matched
        elif end.matched is not None:
            finished.matched_token_id = end.matched
        if end.kv_transfer is not None:
            finished.kv_transfer_json = end.kv_transfer
        closing = bytes(pb.GenerateEvent(finished=finished).SerializeToString())
        whole = b"" if end.streamed else self.chunk(request_id, piece)
        return [whole, closing] if whole else [closing]

    def failure(self, code: str, message: str) -> bytes | None:
        failure = pb.Failure(code=NAMES.index(code), message=message, retryable=code in _RETRYABLE)
        if failure.retryable:
            failure.retry_after_seconds = 1.0
        return bytes(pb.GenerateEvent(failure=failure).SerializeToString())

    def aborted(self, message: bytes) -> list[str]:
        return list(parse_message(pb.AbortRequest, message).request_ids)

    def abort_answer(self, known: int) -> bytes:
        return bytes(pb.AbortResponse(aborted=known).SerializeToString())

    def health(self, healthy: bool) -> bytes:
        return bytes(pb.HealthResponse(ready=healthy, reason="" if healthy else "told so").SerializeToString())

    def model_info(self, info: SimulatedModel, state: EngineState) -> bytes:
        model = pb.Model(
            name=info.model,
            tokenizer_path=info.tokenizer_path,
            model_type=info.model_type,
            architectures=info.architectures,
            context_length=info.context_length,
            max_prompt_tokens=info.context_length,
            vocab_size=info.vocab_size,
            eos_token_ids=info.eos_token_ids,
            default_sampling_json=json.dumps(dict(info.default_sampling)),
            generates=info.is_generation,
            embeds=not info.is_generation and info.pooled == "embed",
            classifies=not info.is_generation and info.pooled == "classify",
            scores=not info.is_generation and info.pooled == "score",
            labels=info.labels,
            sees_images=info.supports_vision,
        )
        if info.pad_token_id is not None:
            model.pad_token_id = info.pad_token_id
        return bytes(
            pb.GetModelResponse(
                model=model, capabilities=_capabilities(state, info), engine=_engine(state)
            ).SerializeToString()
        )

    def server_info(self, state: EngineState) -> bytes:
        return bytes(pb.GetModelResponse(engine=_engine(state)).SerializeToString())

    def loads(self, load: RankLoad, moment: str) -> bytes:
        row = pb.RankLoad(
            rank=load.rank,
            running=load.running,
            waiting=load.waiting,
            used_tokens=load.used_tokens,
            max_tokens=load.max_tokens,
            tokens_per_second=load.tokens_per_second,
            cache_hit_rate=load.cache_hit_rate,
            max_running=load.max_running,
        )
        return bytes(pb.GetLoadsResponse(ranks=[row]).SerializeToString())

    def embed_request(self, message: bytes) -> tuple[TokenIds, Sequence[int]]:
        request = parse_message(pb.EmbedRequest, message)
        return TokenIds(request.input_ids[:]), request.token_type_ids[:]

    def embed_answer(self, values: Sequence[float], tokens: int) -> bytes:
        return bytes(pb.EmbedResponse(values=values, prompt_tokens=tokens).SerializeToString())

    def flush_answer(self, done: bool) -> bytes:
        return b""

    def profile_answer(self, done: bool, message: str) -> bytes:
        return b""

    def tokenizer_known(self, message: bytes) -> str:
        return str(parse_message(pb.GetTokenizerRequest, message).known_sha256)

    def tokenizer_chunk(self, data: bytes, digest: str, total: int, *, last: bool) -> bytes:
        return bytes(pb.TokenizerChunk(data=data, sha256=digest, total_bytes=total).SerializeToString())

    def kv_cursor(self, message: bytes) -> int | None:
        got = parse_message(pb.SubscribeKvEventsRequest, message)
        return got.after if got.HasField("after") else None

    def kv_batch(self, batch: Batch) -> bytes:
        message = pb.KvEventBatch(sequence=batch.sequence, timestamp=batch.moment)
        message.events.extend([_kv_event(change) for change in batch.changes])
        return bytes(message.SerializeToString())


def _sampling(got: pb.Sampling) -> Sampling:
    given = {name: getattr(got, name) for name in _OPTIONAL_SAMPLING if got.HasField(name)}
    return Sampling(
        **given,
        **stop_fields(got),
        skip_special_tokens=got.skip_special_tokens if got.HasField("skip_special_tokens") else True,
        include_stop=got.include_stop,
        logit_bias=dict(got.logit_bias) or None,
        n=got.n if got.HasField("n") else 1,
    )


def _constraint(got: pb.Constraint) -> Constraint | None:
    kind = got.WhichOneof("kind")
    if kind is None:
        return None
    if kind == "choice":
        return Constraint(kind, choices=tuple(got.choice.values))
    return Constraint(kind, "" if kind == "json_object" else getattr(got, kind))


def _capabilities(state: EngineState, info: SimulatedModel) -> pb.Capabilities:
    return pb.Capabilities(
        contract_revision=3,
        media=[KINDS.index(kind) for kind in sorted(info.media)],
        max_n=state.max_n,
        greedy_n=True,
        max_logprobs=state.max_logprobs,
        prompt_logprobs=True,
        stop_strings=True,
        constraints=state.constraints,
        loads=True,
        kv_events=True,
        kv_replay=True,
        cache_salt=True,
    )


def _engine(state: EngineState) -> pb.EngineInfo:
    return pb.EngineInfo(
        name="simulator",
        version="1",
        instance_id=state.instance,
        data_parallel_size=1,
        block_size=state.block_size,
        max_running=state.batch,
        uptime_seconds=state.uptime,
    )


def _logprob(row: EngineLogprob | None) -> pb.TokenLogprob:
    if row is None:
        return pb.TokenLogprob()
    top = [pb.Alternative(token_id=token, logprob=value) for token, value in row.top]
    return pb.TokenLogprob(token_id=row.token_id, logprob=row.logprob, top=top)


def _kv_event(change: CacheChange) -> pb.KvEvent:
    event = pb.KvEvent()
    if isinstance(change, BlockStored):
        stored = event.stored
        stored.hashes.extend([digest & _UINT64 for digest in change.hashes])
        stored.token_ids.extend([token for row in change.token_ids for token in row])
        stored.block_size = len(change.token_ids[0])
        stored.tier = pb.TIER_DEVICE
        if change.parent is not None:
            stored.parent = change.parent & _UINT64
        if change.salt:
            stored.cache_salt = change.salt
        for block, media in enumerate(change.media):
            for digest, offset in media:
                stored.media.append(pb.BlockMedia(block=block, hash=bytes.fromhex(digest), offset=offset))
    elif isinstance(change, BlocksRemoved):
        event.removed.hashes.extend([digest & _UINT64 for digest in change.hashes])
        event.removed.tier = pb.TIER_DEVICE
    else:
        event.cleared.SetInParent()
    return event
