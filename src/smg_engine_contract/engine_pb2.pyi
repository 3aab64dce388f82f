# Made by tools/proto.py from proto/smg/engine/v1/engine.proto; do not edit.
from collections.abc import Iterable, Mapping, MutableMapping, MutableSequence
from typing import Literal

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message import Message

DESCRIPTOR: FileDescriptor


class GenerateRequest(Message):
    request_id: str
    input_ids: MutableSequence[int]
    sampling: "Sampling"
    constraint: "Constraint"
    data_parallel_rank: int
    cache_salt: str
    kv_transfer_json: str
    stream: bool
    media: MutableSequence["Media"]
    def __init__(
        self,
        *,
        request_id: str | None = ...,
        input_ids: Iterable[int] | None = ...,
        sampling: "Sampling" | None = ...,
        constraint: "Constraint" | None = ...,
        data_parallel_rank: int | None = ...,
        cache_salt: str | None = ...,
        kv_transfer_json: str | None = ...,
        stream: bool | None = ...,
        media: Iterable["Media"] | None = ...,
    ) -> None: ...


class Media(Message):
    kind: int
    hash: bytes
    placeholder: "Span"
    embeddings: MutableSequence["Span"]
    token_id: int
    tensors: MutableSequence["Tensor"]
    def __init__(
        self,
        *,
        kind: int | None = ...,
        hash: bytes | None = ...,
        placeholder: "Span" | None = ...,
        embeddings: Iterable["Span"] | None = ...,
        token_id: int | None = ...,
        tensors: Iterable["Tensor"] | None = ...,
    ) -> None: ...


class Span(Message):
    offset: int
    length: int
    def __init__(
        self,
        *,
        offset: int | None = ...,
        length: int | None = ...,
    ) -> None: ...


class Tensor(Message):
    name: str
    dtype: str
    shape: MutableSequence[int]
    data: bytes
    def __init__(
        self,
        *,
        name: str | None = ...,
        dtype: str | None = ...,
        shape: Iterable[int] | None = ...,
        data: bytes | None = ...,
    ) -> None: ...


class Sampling(Message):
    max_tokens: int
    min_tokens: int
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    frequency_penalty: float
    presence_penalty: float
    repetition_penalty: float
    seed: int
    stop: MutableSequence[str]
    stop_token_ids: MutableSequence[int]
    ignore_eos: bool
    n: int
    logprobs: int
    prompt_logprobs: int
    logit_bias: MutableMapping[int, float]
    skip_special_tokens: bool
    include_stop: bool
    def __init__(
        self,
        *,
        max_tokens: int | None = ...,
        min_tokens: int | None = ...,
        temperature: float | None = ...,
        top_p: float | None = ...,
        top_k: int | None = ...,
        min_p: float | None = ...,
        frequency_penalty: float | None = ...,
        presence_penalty: float | None = ...,
        repetition_penalty: float | None = ...,
        seed: int | None = ...,
        stop: Iterable[str] | None = ...,
        stop_token_ids: Iterable[int] | None = ...,
        ignore_eos: bool | None = ...,
        n: int | None = ...,
        logprobs: int | None = ...,
        prompt_logprobs: int | None = ...,
        logit_bias: Mapping[int, float] | None = ...,
        skip_special_tokens: bool | None = ...,
        include_stop: bool | None = ...,
    ) -> None: ...


class Constraint(Message):
    json_schema: str
    json_object: bool
    regex: str
    grammar: str
    structural_tag: str
    choice: "Choices"
    def __init__(
        self,
        *,
        json_schema: str | None = ...,
        json_object: bool | None = ...,
        regex: str | None = ...,
        grammar: str | None = ...,
        structural_tag: str | None = ...,
        choice: "Choices" | None = ...,
    ) -> None: ...
    def WhichOneof(self, oneof_group: Literal["kind"]) -> Literal["json_schema", "json_object", "regex", "grammar", "structural_tag", "choice"] | None: ...


class Choices(Message):
    values: MutableSequence[str]
    def __init__(
        self,
        *,
        values: Iterable[str] | None = ...,
    ) -> None: ...


class GenerateEvent(Message):
    tokens: "Tokens"
    finished: "Finished"
    failure: "Failure"
    def __init__(
        self,
        *,
        tokens: "Tokens" | None = ...,
        finished: "Finished" | None = ...,
        failure: "Failure" | None = ...,
    ) -> None: ...
    def WhichOneof(self, oneof_group: Literal["event"]) -> Literal["tokens", "finished", "failure"] | None: ...


class Tokens(Message):
    index: int
    ids: MutableSequence[int]
    logprobs: MutableSequence["TokenLogprob"]
    prompt_logprobs: MutableSequence["TokenLogprob"]
    prompt_tokens: int
    cached_tokens: int
    def __init__(
        self,
        *,
        index: int | None = ...,
        ids: Iterable[int] | None = ...,
        logprobs: Iterable["TokenLogprob"] | None = ...,
        prompt_logprobs: Iterable["TokenLogprob"] | None = ...,
        prompt_tokens: int | None = ...,
        cached_tokens: int | None = ...,
    ) -> None: ...


class TokenLogprob(Message):
    token_id: int
    logprob: float
    top: MutableSequence["Alternative"]
    def __init__(
        self,
        *,
        token_id: int | None = ...,
        logprob: float | None = ...,
        top: Iterable["Alternative"] | None = ...,
    ) -> None: ...


class Alternative(Message):
    token_id: int
    logprob: float
    def __init__(
        self,
        *,
        token_id: int | None = ...,
        logprob: float | None = ...,
    ) -> None: ...


class Finished(Message):
    index: int
    reason: int
    matched_stop: str
    matched_token_id: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    kv_transfer_json: str
    def __init__(
        self,
        *,
        index: int | None = ...,
        reason: int | None = ...,
        matched_stop: str | None = ...,
        matched_token_id: int | None = ...,
        prompt_tokens: int | None = ...,
        completion_tokens: int | None = ...,
        cached_tokens: int | None = ...,
        reasoning_tokens: int | None = ...,
        kv_transfer_json: str | None = ...,
    ) -> None: ...
    def WhichOneof(self, oneof_group: Literal["matched"]) -> Literal["matched_stop", "matched_token_id"] | None: ...


class Failure(Message):
    code: int
    message: str
    retryable: bool
    retry_after_seconds: float
    def __init__(
        self,
        *,
        code: int | None = ...,
        message: str | None = ...,
        retryable: bool | None = ...,
        retry_after_seconds: float | None = ...,
    ) -> None: ...


class AbortRequest(Message):
    request_ids: MutableSequence[str]
    def __init__(
        self,
        *,
        request_ids: Iterable[str] | None = ...,
    ) -> None: ...


class AbortResponse(Message):
    aborted: int
    def __init__(
        self,
        *,
        aborted: int | None = ...,
    ) -> None: ...


class HealthRequest(Message):
    pass


class HealthResponse(Message):
    ready: bool
    reason: str
    def __init__(
        self,
        *,
        ready: bool | None = ...,
        reason: str | None = ...,
    ) -> None: ...


class GetModelRequest(Message):
    pass


class GetModelResponse(Message):
    model: "Model"
    capabilities: "Capabilities"
    engine: "EngineInfo"
    def __init__(
        self,
        *,
        model: "Model" | None = ...,
        capabilities: "Capabilities" | None = ...,
        engine: "EngineInfo" | None = ...,
    ) -> None: ...


class Model(Message):
    name: str
    aliases: MutableSequence[str]
    tokenizer_path: str
    model_type: str
    architectures: MutableSequence[str]
    context_length: int
    max_prompt_tokens: int
    vocab_size: int
    eos_token_ids: MutableSequence[int]
    bos_token_id: int
    pad_token_id: int
    default_sampling_json: str
    generates: bool
    embeds: bool
    sees_images: bool
    classifies: bool
    scores: bool
    labels: MutableSequence[str]
    def __init__(
        self,
        *,
        name: str | None = ...,
        aliases: Iterable[str] | None = ...,
        tokenizer_path: str | None = ...,
        model_type: str | None = ...,
        architectures: Iterable[str] | None = ...,
        context_length: int | None = ...,
        max_prompt_tokens: int | None = ...,
        vocab_size: int | None = ...,
        eos_token_ids: Iterable[int] | None = ...,
        bos_token_id: int | None = ...,
        pad_token_id: int | None = ...,
        default_sampling_json: str | None = ...,
        generates: bool | None = ...,
        embeds: bool | None = ...,
        sees_images: bool | None = ...,
        classifies: bool | None = ...,
        scores: bool | None = ...,
        labels: Iterable[str] | None = ...,
    ) -> None: ...


class Capabilities(Message):
    contract_revision: int
    max_n: int
    greedy_n: bool
    max_logprobs: int
    prompt_logprobs: bool
    stop_strings: bool
    constraints: MutableSequence[str]
    loads: bool
    kv_events: bool
    kv_replay: bool
    cache_salt: bool
    media: MutableSequence[int]
    def __init__(
        self,
        *,
        contract_revision: int | None = ...,
        max_n: int | None = ...,
        greedy_n: bool | None = ...,
        max_logprobs: int | None = ...,
        prompt_logprobs: bool | None = ...,
        stop_strings: bool | None = ...,
        constraints: Iterable[str] | None = ...,
        loads: bool | None = ...,
        kv_events: bool | None = ...,
        kv_replay: bool | None = ...,
        cache_salt: bool | None = ...,
        media: Iterable[int] | None = ...,
    ) -> None: ...


class EngineInfo(Message):
    name: str
    version: str
    instance_id: str
    data_parallel_size: int
    block_size: int
    max_running: int
    uptime_seconds: float
    def __init__(
        self,
        *,
        name: str | None = ...,
        version: str | None = ...,
        instance_id: str | None = ...,
        data_parallel_size: int | None = ...,
        block_size: int | None = ...,
        max_running: int | None = ...,
        uptime_seconds: float | None = ...,
    ) -> None: ...


class GetLoadsRequest(Message):
    pass


class GetLoadsResponse(Message):
    ranks: MutableSequence["RankLoad"]
    def __init__(
        self,
        *,
        ranks: Iterable["RankLoad"] | None = ...,
    ) -> None: ...


class RankLoad(Message):
    rank: int
    running: int
    waiting: int
    used_tokens: int
    max_tokens: int
    tokens_per_second: float
    cache_hit_rate: float
    max_running: int
    def __init__(
        self,
        *,
        rank: int | None = ...,
        running: int | None = ...,
        waiting: int | None = ...,
        used_tokens: int | None = ...,
        max_tokens: int | None = ...,
        tokens_per_second: float | None = ...,
        cache_hit_rate: float | None = ...,
        max_running: int | None = ...,
    ) -> None: ...


class GetTokenizerRequest(Message):
    known_sha256: str
    def __init__(
        self,
        *,
        known_sha256: str | None = ...,
    ) -> None: ...


class TokenizerChunk(Message):
    data: bytes
    sha256: str
    total_bytes: int
    def __init__(
        self,
        *,
        data: bytes | None = ...,
        sha256: str | None = ...,
        total_bytes: int | None = ...,
    ) -> None: ...


class EmbedRequest(Message):
    request_id: str
    input_ids: MutableSequence[int]
    token_type_ids: MutableSequence[int]
    def __init__(
        self,
        *,
        request_id: str | None = ...,
        input_ids: Iterable[int] | None = ...,
        token_type_ids: Iterable[int] | None = ...,
    ) -> None: ...


class EmbedResponse(Message):
    values: MutableSequence[float]
    prompt_tokens: int
    def __init__(
        self,
        *,
        values: Iterable[float] | None = ...,
        prompt_tokens: int | None = ...,
    ) -> None: ...


class SubscribeKvEventsRequest(Message):
    after: int
    def __init__(
        self,
        *,
        after: int | None = ...,
    ) -> None: ...


class KvEventBatch(Message):
    sequence: int
    timestamp: float
    rank: int
    events: MutableSequence["KvEvent"]
    def __init__(
        self,
        *,
        sequence: int | None = ...,
        timestamp: float | None = ...,
        rank: int | None = ...,
        events: Iterable["KvEvent"] | None = ...,
    ) -> None: ...


class KvEvent(Message):
    stored: "BlocksStored"
    removed: "BlocksRemoved"
    cleared: "CacheCleared"
    def __init__(
        self,
        *,
        stored: "BlocksStored" | None = ...,
        removed: "BlocksRemoved" | None = ...,
        cleared: "CacheCleared" | None = ...,
    ) -> None: ...
    def WhichOneof(self, oneof_group: Literal["event"]) -> Literal["stored", "removed", "cleared"] | None: ...


class BlocksStored(Message):
    hashes: MutableSequence[int]
    token_ids: MutableSequence[int]
    block_size: int
    parent: int
    tier: int
    media: MutableSequence["BlockMedia"]
    cache_salt: str
    adapter: str
    def __init__(
        self,
        *,
        hashes: Iterable[int] | None = ...,
        token_ids: Iterable[int] | None = ...,
        block_size: int | None = ...,
        parent: int | None = ...,
        tier: int | None = ...,
        media: Iterable["BlockMedia"] | None = ...,
        cache_salt: str | None = ...,
        adapter: str | None = ...,
    ) -> None: ...


class BlockMedia(Message):
    block: int
    hash: bytes
    offset: ""
    def __init__(
        self,
        *,
        block: int | None = ...,
        hash: bytes | None = ...,
        offset: "" | None = ...,
    ) -> None: ...


class BlocksRemoved(Message):
    hashes: MutableSequence[int]
    tier: int
    def __init__(
        self,
        *,
        hashes: Iterable[int] | None = ...,
        tier: int | None = ...,
    ) -> None: ...


class CacheCleared(Message):
    pass

MEDIA_KIND_UNSPECIFIED: int
MEDIA_KIND_IMAGE: int
MEDIA_KIND_VIDEO: int
MEDIA_KIND_AUDIO: int
FINISH_REASON_UNSPECIFIED: int
FINISH_REASON_STOP: int
FINISH_REASON_LENGTH: int
FINISH_REASON_ABORTED: int
TIER_UNSPECIFIED: int
TIER_DEVICE: int
TIER_HOST: int
TIER_DISK: int
TIER_EXTERNAL: int
