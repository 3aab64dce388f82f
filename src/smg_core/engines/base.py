"""What the gateway asks of an engine, in records that no dialect appears in.

Three things meet here. A *codec* turns an `EngineRequest` into the bytes of one dialect and that dialect's messages into
`EngineOutput`s; it is pure. A *transport* carries bytes to one engine and pushes what comes back into a `Receiver`; it is
an edge. `engines.client` puts one codec on one transport. Above: pipeline and workers. This module knows no protobuf, no
socket and no API.

Tokens are pushed. A transport calls `Receiver.messages` with all messages of one call that one read of the socket
brought, in order, and `Receiver.closed` exactly once, after the last of them. Both are plain calls on the event loop's
thread and must not block or raise.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs
from msgspec import Struct

from smg_core.errors import SmgError
from smg_core.events import FinishReason
from smg_core.tokens import TokenIds

__all__ = [
    "Call",
    "Capabilities",
    "Codec",
    "Constraint",
    "EngineLogprob",
    "EngineOutput",
    "EngineRequest",
    "EngineSampling",
    "Loads",
    "ModelInfo",
    "OutputDecoder",
    "RankLoad",
    "Receiver",
    "ServerInfo",
    "Transport",
]


# ------------------------------------------------------------------------------------------------- what is asked for


@attrs.frozen
class Constraint:
    """Structured output. `kind` is one of "json_schema", "json_object", "regex", "grammar", "structural_tag", "choice";
    `value` is its text (JSON for a schema or tag), `choices` the strings of a "choice"."""

    kind: str
    value: str = ""
    choices: tuple[str, ...] = ()


@attrs.frozen
class EngineSampling:
    """Sampling as an engine takes it. None always means "the engine's own default", which a codec must be able to say.

    `logprobs`: alternatives per position beside the sampled token (0: only the sampled one); None: none at all.
    """

    max_tokens: int | None = None
    min_tokens: int = 0
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    include_stop: bool = False
    logit_bias: Mapping[int, float] | None = None
    n: int = 1
    logprobs: int | None = None
    prompt_logprobs: int | None = None


@attrs.frozen
class EngineRequest:
    """One call of Generate. `id` is unique among all requests the engine knows; ids are checked against the
    vocabulary and the context before this record is made (engines crash on what is outside).

    `multimodal` is what smg_multimodal packaged for this engine, opaque to everyone between; `kv_transfer` is the
    disaggregation parameters as JSON text.
    """

    id: str
    input_ids: TokenIds
    sampling: EngineSampling
    stream: bool = True
    constraint: Constraint | None = None
    data_parallel_rank: int | None = None
    kv_transfer: str | None = None
    multimodal: Any = None
    cache_salt: str | None = None


# --------------------------------------------------------------------------------------------------- what comes back


@attrs.frozen
class EngineLogprob:
    """One sampled token and its alternatives `(token id, logprob)`, most likely first."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


class EngineOutput(Struct):
    """New tokens of one choice. `ids` holds only what is new, whatever the dialect repeats.

    `logprobs` is as long as `ids` or empty. `finish` set means the choice is complete and no more output for `index`
    follows. Counts are of the whole choice so far; `completion_tokens` None means "count the ids".
    """

    index: int = 0
    ids: Sequence[int] = ()
    finish: FinishReason | None = None
    matched: str | int | None = None
    prompt_tokens: int = 0
    completion_tokens: int | None = None
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    logprobs: Sequence[EngineLogprob] = ()
    prompt_logprobs: Sequence[EngineLogprob | None] = ()
    kv_transfer: str | None = None


@attrs.frozen
class ModelInfo:
    """What an engine says of its model. 0 or empty means it did not say. `context_length` counts prompt and output. `media` are
    the kinds ("image", "video", "audio") it takes; None: its dialect cannot say, and the model's files decide."""

    model: str
    tokenizer_path: str = ""
    model_type: str = ""
    architectures: tuple[str, ...] = ()
    context_length: int = 0
    max_prompt_tokens: int = 0
    vocab_size: int = 0
    eos_token_ids: tuple[int, ...] = ()
    bos_token_id: int | None = None
    pad_token_id: int | None = None
    is_generation: bool = True
    supports_vision: bool = False
    media: frozenset[str] | None = None
    default_sampling: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class ServerInfo:
    """What an engine says of itself; `raw` holds every field of the dialect's answer by its name. `memory` is the id of the
    shared memory it sees ("": it does not say); `normalizes` whether it rescales and normalises pixels itself, so that it wants
    their bytes."""

    server_type: str
    data_parallel_size: int = 1
    block_size: int = 0
    uptime_seconds: float = 0.0
    memory: str = ""
    normalizes: bool = False
    raw: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class RankLoad:
    """Load of one data-parallel rank. `token_usage` is the share of the KV cache in use, 0 to 1."""

    rank: int
    running: int
    waiting: int
    used_tokens: int = 0
    max_tokens: int = 0
    token_usage: float = 0.0
    tokens_per_second: float = 0.0
    cache_hit_rate: float = 0.0
    max_running: int = 0


@attrs.frozen
class Loads:
    """Load of one engine, a row a rank."""

    ranks: tuple[RankLoad, ...]

    @property
    def running(self) -> int:
        return sum(rank.running for rank in self.ranks)

    @property
    def waiting(self) -> int:
        return sum(rank.waiting for rank in self.ranks)


@attrs.frozen
class Capabilities:
    """What an engine dialect can be asked; what it cannot is refused with a 400 that names the parameter."""

    n: bool = True
    stop_strings: bool = True
    constraints: frozenset[str] = frozenset()
    max_logprobs: int | None = 20
    prompt_logprobs: bool = True
    loads: bool = True
    kv_events: bool = True
    embed: bool = True
    greedy_n: bool = True


# --------------------------------------------------------------------------------------------------------- the roles


class OutputDecoder(Protocol):
    """Decodes the messages of one Generate call; made by `Codec.decoder`, one per call, since dialects repeat things."""

    def feed(self, messages: Sequence[bytes]) -> list[EngineOutput]:
        """The outputs that `messages` (whole protobuf messages, in order) bring. Adjacent tokens of one choice may come
        as one output. Raises EngineGarbled when a message is not the dialect's."""
        ...


class Codec(Protocol):
    """One dialect: pure functions between our records and its messages. Paths are full gRPC method paths."""

    name: str
    service: str
    generate_path: str
    capabilities: Capabilities

    def generate(self, request: EngineRequest) -> bytes: ...

    def decoder(self, request: EngineRequest) -> OutputDecoder: ...

    def abort(self, request_id: str) -> tuple[str, bytes]: ...

    def health(self) -> tuple[str, bytes]: ...

    def parse_health(self, message: bytes) -> bool: ...

    def model_info(self) -> tuple[str, bytes]: ...

    def parse_model_info(self, message: bytes) -> ModelInfo: ...

    def server_info(self) -> tuple[str, bytes]: ...

    def parse_server_info(self, message: bytes) -> ServerInfo: ...

    def loads(self) -> tuple[str, bytes]: ...

    def parse_loads(self, message: bytes) -> Loads: ...

    def embed(self, request_id: str, ids: TokenIds) -> tuple[str, bytes]: ...

    def parse_embed(self, message: bytes) -> tuple[list[float], int]: ...

    def tokenizer(self) -> tuple[str, bytes]: ...

    def parse_tokenizer_chunk(self, message: bytes) -> tuple[bytes, str]:
        """`(piece of the zip archive, hex sha256 or "")`; only the last chunk carries the digest."""
        ...


class Receiver(Protocol):
    """Where a call's answer is pushed."""

    def messages(self, batch: list[bytes]) -> None:
        """All messages of the call that one read brought, without their 5-byte gRPC prefix."""
        ...

    def closed(self, error: SmgError | None) -> None:
        """The call is over: None when the peer's status was OK. Called exactly once, never before a message."""
        ...


class Call(Protocol):
    """A call in flight."""

    def cancel(self) -> None:
        """Reset the stream at the engine. `closed` is not called any more. Harmless when the call is already over."""
        ...

    def pause(self) -> None:
        """Stop reading: grant the engine no more window for this call. What is in flight may still arrive."""
        ...

    def resume(self) -> None:
        """Read again."""
        ...


class Transport(Protocol):
    """A way to one engine. Connects on first use, reconnects by itself, speaks bytes.

    Errors, from every method and through `Receiver.closed`, are this package's: a refused, reset or lost connection and
    UNAVAILABLE are WorkerGone, RESOURCE_EXHAUSTED is WorkerBusy, the rest as `engines.status` has them.
    """

    async def start(
        self,
        path: str,
        message: bytes,
        receiver: Receiver,
        *,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
    ) -> Call:
        """Send one request message on a new call and half-close; answers go to `receiver`. `timeout` in seconds covers
        the whole call (grpc-timeout is sent). Waits only for the connection and for a free stream; raises what kept the
        request from being sent, in which case nothing is pushed."""
        ...

    async def unary(
        self, path: str, message: bytes, *, metadata: Sequence[tuple[str, str]] = (), timeout: float | None = None
    ) -> bytes:
        """One message in, one message out."""
        ...

    async def close(self) -> None:
        """Let go of the connection; calls in flight end with WorkerGone."""
        ...
