"""The records and roles between the gateway and its engines. Nothing here belongs to one dialect.

There are two roles of engines. An `IdsEngine` takes token ids and gives token ids back: a *codec* (pure) turns an
`EngineRequest` into the bytes of one dialect, and that dialect's messages into `EngineOutput`s; a *transport* (an edge) carries
bytes to one engine and pushes what comes back into a `Receiver`; `engines.token_ids.client` joins one codec and one transport.
A `ChatEngine` takes a whole `GenerationRequest` and gives events back. `EngineFacts` says what an engine can do. Above: pipeline
and workers. This module knows no protobuf, no socket and no API.

Tokens are pushed. A transport calls `Receiver.messages` with all messages of one call that one read of the socket brought, in
order, and an engine calls `EngineSink.push` with what they mean; each calls `closed` exactly once,
after the last of them. All are plain calls on the event loop's thread and must not block or raise.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeVar, runtime_checkable

import attrs
from msgspec import Struct

from smg_core.engines.calls import AnswerCall, Call
from smg_core.engines.constraint import Constraint, HoldsFrom
from smg_core.engines.elsewhere import Elsewhere
from smg_core.engines.kv_events import KvEventBatch
from smg_core.engines.loads import Loads
from smg_core.engines.pooling import Vector
from smg_core.engines.upkeep import Adapter, EngineReply, EngineTask
from smg_core.errors import SmgError
from smg_core.events import Event, FinishReason
from smg_core.request import GenerationRequest, PoolKind, Sampling
from smg_core.tokens import TokenIds, reported_count

if TYPE_CHECKING:
    from smg_multimodal.preparing.prepare import Prepared

__all__ = [
    "Bootstrap",
    "ChatEngine",
    "Codec",
    "ContextPhase",
    "CountsConnections",
    "EncodeCodec",
    "EncodeEngine",
    "Encoded",
    "Engine",
    "EngineFacts",
    "EngineLogprob",
    "EngineOutput",
    "EngineRequest",
    "EngineSink",
    "FreesConnections",
    "IdsEngine",
    "ItemizedMedia",
    "KvFacts",
    "MediaPacking",
    "ModelInfo",
    "OutputDecoder",
    "Pixels",
    "ProcessFacts",
    "Receiver",
    "RequestMedia",
    "SharedPlace",
    "Tensor",
    "Transport",
    "Unary",
]

T = TypeVar("T")
Pushed = TypeVar("Pushed", contravariant=True)


# ------------------------------------------------------------------------------------------------- what is asked for


class Bootstrap(Struct, frozen=True):
    """Where the two workers of one request meet, in dialects that name a place: both are sent the same one. `host` and `port` are
    of the prefill worker's bootstrap server; `room` is the request's number there, not negative and its own."""

    host: str
    port: int
    room: int


class Encoded(Struct, frozen=True):
    """One medium whose embeddings an encode worker makes. `item` is its number in the prompt, from 0; `place` is where the engine
    that reads the prompt gets them, in a room of this medium's own."""

    item: int
    place: Bootstrap


class ContextPhase(Struct, frozen=True):
    """Which part of one request a worker of TensorRT-LLM does: "context" reads the prompt, "generation" goes on from there.
    `context_id` names the request at the worker that reads the prompt. The other worker gets what that one answered: the first
    token, and `cache`, which says where its cache lies in words of the engines' own."""

    part: Literal["context", "generation"]
    context_id: str = ""
    first_token: int | None = None
    cache: bytes = b""


class EngineRequest(Struct, frozen=True):
    """One call of Generate. `id` is unique among all requests of the engine. Token ids and length are checked against the
    vocabulary and the context before this record is made, since engines crash on ids and lengths outside of them.

    In `sampling` None means "the engine's own default", which a codec must be able to say; of `min_tokens` the default is 0.
    `multimodal` is what the dialect's `MediaPacking` made, opaque to everyone between. A hand-over from a prefill to a decode
    worker is told in one of three ways, as the dialect has it (`EngineFacts.hands_over`): `kv_transfer` is its parameters as JSON
    text, `bootstrap` the place where the two meet, `context_phase` the part that this worker does. `lora` is the engine's id of
    the adapter to use. The media that `encoded` names come to this engine as embeddings; of the others it makes them itself.
    `after_reasoning`: the constraint is for what follows the reasoning that the prompt has opened (`EngineFacts.holds_from`)."""

    id: str
    input_ids: TokenIds
    sampling: Sampling
    stream: bool = True
    constraint: Constraint | None = None
    data_parallel_rank: int | None = None
    kv_transfer: str | None = None
    multimodal: object = None
    cache_salt: str | None = None
    bootstrap: Bootstrap | None = None
    context_phase: ContextPhase | None = None
    lora: str | None = None
    encoded: tuple[Encoded, ...] = ()
    after_reasoning: bool = False


# --------------------------------------------------------------------------------------------------- what comes back


@attrs.frozen
class EngineLogprob:
    """One sampled token and its alternatives `(token id, logprob)`, most likely first."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


class EngineOutput(Struct):
    """New tokens of one choice. `ids` holds only what is new, whatever is repeated. `text` is what `ids` say with ids before
    them that the engine did not name, "" where it named all (see pipeline.output.token_id_lookup). `logprobs` is as long as
    `ids` or empty. `finish` set means that nothing of it follows. Counts are of the choice so far; None: that of `ids`."""

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
    text: str = ""


@attrs.frozen
class ModelInfo:
    """An engine's report of its model. 0, empty or None means it did not say. `context_length` counts prompt and output;
    `generates`: whether it writes text; `pools`: the pooled work it does else; `labels`: names of a classifier's classes."""

    model: str
    tokenizer_path: str = ""
    context_length: int = attrs.field(default=0, converter=reported_count)
    vocab_size: int = attrs.field(default=0, converter=reported_count)
    eos_token_ids: tuple[int, ...] = ()
    default_sampling: Mapping[str, object] = attrs.field(factory=dict)
    generates: bool | None = None
    pools: frozenset[PoolKind] | None = None
    labels: tuple[str, ...] = ()


@attrs.frozen
class Pixels:
    """How an engine wants pictures. `raw`: pixels as bytes, which it rescales and normalises itself. `resize`: the library
    whose arithmetic its own processor uses, Pillow or torch. `floats`: the type in which floats are sent."""

    raw: bool = False
    resize: Literal["pil", "torch"] = "pil"
    floats: Literal["float32", "bfloat16", "float16"] = "float32"


@attrs.frozen
class KvFacts:
    """What an engine says of the cache that it hands over or takes: its `connector` ("NixlConnector"), its `role` there
    ("kv_producer", "kv_consumer", "kv_both"), and its id and port. Empty and 0: it did not say."""

    connector: str = ""
    role: str = ""
    engine_id: str = ""
    port: int = 0


@attrs.frozen
class ProcessFacts:
    """Which process an engine is, as it says itself: an `id` that is new for each process, or the seconds that it has run
    (`uptime_s`). Empty and 0: it did not say."""

    id: str = ""
    uptime_s: float = 0.0


@attrs.frozen(cache_hash=True)
class EngineFacts:
    """The facts and abilities of one engine: as the engine itself reports it, or by the dialect's table for facts that the
    dialect cannot report. What an engine cannot do is refused with a 400 that names the parameter. Hashable, so that it can be a
    key.

    `takes_ids`: it is sent token ids and answers with token ids (`IdsEngine`); else it is sent the request itself, and answers
    with events (`ChatEngine`). `transport` is how it is called, "grpc" or "http", for metrics and traces. `n`: whether a request
    may have more than one choice, `max_n` how many (None: no limit known), `greedy_n` whether also at temperature 0; `fans_out`:
    it gives one choice a call, so each is asked for in a call of its own. `min_tokens`: whether it can be kept from ending early.
    `seed`, `logit_bias`, `stop_token_ids`: whether its protocol carries them. `stop_strings`: whether it looks for them itself.
    `constraints`: kinds of `Constraint` it holds its output to; `holds_from`: from where on. `logprobs`: whether it gives any,
    and then at most `max_logprobs` alternatives (None: no limit known). `media`: the kinds ("image", "video", "audio") it says it
    takes; None: it cannot say, the model's files decide. `media_together`: the kinds that one request may mix; any one kind may
    always come alone. `normalizes`: it rescales and normalises pixels itself, so it wants their bytes; `resizes`: whose
    arithmetic its own processor of pictures uses. `floats`: how wide tensors of floats are best sent; a narrower type than
    float32 is one that it rounds them to anyway. `shared_memory`: id of the shared memory that it can open, "" for none. `kv` is
    of this engine alone: two engines are of one kind whatever it says, and a worker has it apart (`Worker.kv`). `process` is of
    this engine alone, too. `custom_tools`: it takes tools of free text as such, which only an engine that speaks chat can.
    `context_length` and `block_size` are tokens, 0 where it did not say; `ranks` its ranks. `loads`, `kv_events`: whether it
    answers these. `generates`: whether its model writes text. `pools`: the kinds of pooled work it does, empty for none;
    `pool_inputs`: how many inputs one such call may have. `hands_over`: the field of `EngineRequest` in which its dialect tells a
    prefill/decode hand-over; "" for none. `lora`: whether a request may name an adapter. `speech`: whether it has a call for
    recordings, `speaks`: for texts that are spoken, `pictures`: for pictures. `realtime`: it has Realtime sessions, and
    nothing else. `documents`: whether it reads PDF itself. `maker`: the outside provider, account and model whose reasoning it
    takes back, of this engine alone. `reported`: names and values that it told of itself beside these (its parsers, its
    version), for people, which are not compared."""

    dialect: str
    takes_ids: bool = True
    transport: str = "grpc"
    n: bool = True
    max_n: int | None = None
    greedy_n: bool = True
    fans_out: bool = False
    min_tokens: bool = True
    seed: bool = True
    logit_bias: bool = True
    stop_token_ids: bool = True
    stop_strings: bool = True
    constraints: frozenset[str] = frozenset()
    holds_from: HoldsFrom = "first_token"
    logprobs: bool = True
    max_logprobs: int | None = 20
    prompt_logprobs: bool = True
    cache_salt: bool = True
    custom_tools: bool = False
    media: frozenset[str] | None = None
    media_together: frozenset[str] = frozenset()
    normalizes: bool = False
    resizes: Literal["pil", "torch"] = "pil"
    floats: Literal["float32", "bfloat16", "float16"] = "float32"
    shared_memory: str = ""
    kv: KvFacts = attrs.field(factory=KvFacts, eq=False)
    process: ProcessFacts = attrs.field(factory=ProcessFacts, eq=False)
    context_length: int = attrs.field(default=0, converter=reported_count)
    block_size: int = attrs.field(default=0, converter=reported_count)
    ranks: int = 1
    loads: bool = True
    kv_events: bool = True
    generates: bool = True
    pools: frozenset[PoolKind] = frozenset()
    pool_inputs: int = 1
    hands_over: Literal["", "kv_transfer", "bootstrap", "context_phase"] = ""
    lora: bool = False
    speech: bool = False
    documents: bool = False
    speaks: bool = False
    pictures: bool = False
    realtime: bool = False
    maker: tuple[str, str, str] | None = attrs.field(default=None, eq=False)
    reported: tuple[tuple[str, str], ...] = attrs.field(default=(), eq=False)


# ------------------------------------------------------------------------------------------------- what an engine is


class EngineSink(Protocol[Pushed]):
    """Where the output of one call is pushed: `EngineOutput`s of an engine that gives token ids, events of a chat engine."""

    def push(self, pushed: Sequence[Pushed], /) -> None:
        """What one read brought, in order; never empty."""
        ...

    def closed(self, error: SmgError | None) -> None:
        """The call is over: None when the engine ended it as its protocol asks. Called exactly once, after the last push.
        Not called when the call was cancelled."""
        ...


class Engine(Protocol):
    """One engine, whatever it speaks. Errors are this package's."""

    async def describe(self) -> tuple[ModelInfo, EngineFacts]:
        """Its model, and what it can be asked. Called when a worker joins and when it comes back."""
        ...

    async def health(self, timeout: float | None = None) -> bool:
        """Whether it reports itself healthy; `timeout` in seconds."""
        ...

    async def loads(self) -> Loads | None:
        """Its load now; None when its dialect cannot report it."""
        ...

    async def abort(self, request_id: str) -> None:
        """Tell it to forget a request, beside resetting its stream. Never raises for an engine that is gone."""
        ...

    async def tokenizer(self) -> tuple[bytes, str] | None:
        """Its tokenizer's files as a zip archive, and their sha256 as hex; None when its dialect cannot send them."""
        ...

    async def upkeep(self, asked: EngineTask) -> EngineReply | None:
        """Have it empty its cache, begin or end a profile, or load or unload an adapter; None when it has no such call."""
        ...

    async def adapters(self) -> tuple[Adapter, ...] | None:
        """The LoRA adapters that it holds now; None when it cannot list them."""
        ...

    async def close(self) -> None:
        """Let go of its connection."""
        ...


class IdsEngine(Engine, Protocol):
    """An engine that takes token ids and answers with token ids."""

    async def generate(
        self,
        request: EngineRequest,
        sink: EngineSink[EngineOutput],
        *,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
        connect_timeout: float | None = None,
    ) -> AnswerCall:
        """Start one generation. `timeout` in seconds covers the whole call, `connect_timeout` getting a connection for it
        (None: as the client was made). Raises what kept the request from being sent, in which case nothing is pushed."""
        ...


class EncodeEngine(Engine, Protocol):
    """An engine that makes embeddings of media for another engine, and no text."""

    async def encode(
        self,
        request_id: str,
        media: object,
        item: Encoded,
        *,
        timeout: float,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Have it make the embeddings of one item of `media` (`EngineRequest.multimodal`) and keep them in the item's room.
        Returns when it has accepted that. Raises what kept it from doing so; `timeout` in seconds. `metadata` is sent with it."""
        ...


class ChatEngine(Engine, Protocol):
    """An engine that takes the request itself and answers with events: another HTTP server, or a provider."""

    async def chat(
        self,
        request: GenerationRequest,
        sink: EngineSink[Event],
        *,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
        connect_timeout: float | None = None,
        lora: str | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> AnswerCall:
        """Start one generation, as `IdsEngine.generate` does, of the adapter `lora`; a long body is made `elsewhere`."""
        ...


# ------------------------------------------------------------------------------------------------------ what a dialect is


class OutputDecoder(Protocol):
    """Decodes the messages of one Generate call. `Codec.decoder` makes one per call, since some messages repeat earlier ones."""

    def feed(self, messages: Sequence[bytes]) -> list[EngineOutput]:
        """The outputs that `messages` (whole protobuf messages, in order) bring. Adjacent tokens of one choice may come
        as one output. Raises EngineGarbled when a message is not the dialect's, and the error an in-band failure means."""
        ...


@attrs.frozen
class Unary(Generic[T]):
    """One message to send, and how to read the reply: `path` is the full gRPC method path, `parse` raises EngineGarbled. If the
    reply is a stream, `parse` reads one message of it."""

    path: str
    message: bytes
    parse: Callable[[bytes], T]


class Codec(Protocol):
    """One dialect: pure functions between our records and its messages. A call that the dialect does not have is None.

    `facts` are those of an engine that reports nothing itself; `describes` reads what this engine reports, where the dialect has
    such a call (`context_length` may be left to `model`). A piece of the tokenizer's archive is `(bytes, hex sha256 or "")`; at
    least the last one carries the digest.
    """

    @property
    def name(self) -> str: ...

    @property
    def facts(self) -> EngineFacts: ...

    @property
    def generate_path(self) -> str: ...

    @property
    def health(self) -> Unary[bool]: ...

    @property
    def model(self) -> Unary[ModelInfo]: ...

    @property
    def describes(self) -> Unary[EngineFacts] | None: ...

    @property
    def loads(self) -> Unary[Loads] | None: ...

    @property
    def tokenizer(self) -> Unary[tuple[bytes, str]] | None: ...

    @property
    def adapters(self) -> Unary[tuple[Adapter, ...]] | None: ...

    def generate(self, request: EngineRequest) -> bytes:
        """The message that starts a generation. Raises UnsupportedParameter or InvalidRequest naming the field that the
        dialect cannot express."""
        ...

    def decoder(self, request: EngineRequest) -> OutputDecoder: ...

    def abort(self, request_id: str) -> Unary[None] | None: ...

    def embed(self, request_id: str, ids: TokenIds, types: Sequence[int] = ()) -> Unary[Vector] | None:
        """Asks for what the model makes of `ids`: a vector, or a classifier's raw numbers. `types` as in `PoolCall`."""

    def kv_events(self, after: int | None) -> Unary[Iterator[KvEventBatch]] | None:
        """Asks for the changes of the KV cache, until the call is cancelled: from now on, or those after the batch of number
        `after`. A message is read into batches bit by bit, since one may hold thousands of blocks."""
        ...

    def upkeep(self, asked: EngineTask) -> Unary[EngineReply] | None:
        """Asks the engine to empty its cache, to begin or end a profile, or to load or unload an adapter."""
        ...


class EncodeCodec(Codec, Protocol):
    """A dialect with encode workers (`engines.handover.can_encode`)."""

    def encode(self, request_id: str, media: object, item: Encoded) -> Unary[None]:
        """Asks for the embeddings of one item of `media`; `parse` raises where the engine does not accept that."""
        ...


class Tensor(Protocol):
    """Little-endian bytes in C order, with shape and dtype by name ("float32", "int64" ...)."""

    @property
    def data(self) -> memoryview: ...
    @property
    def shape(self) -> Sequence[int]: ...
    @property
    def dtype(self) -> str: ...


class SharedPlace(Protocol):
    """Where a tensor's bytes lie in shared memory: a name that the engine can open, the offset and the size in bytes."""

    @property
    def name(self) -> str: ...
    @property
    def offset(self) -> int: ...
    @property
    def nbytes(self) -> int: ...


class RequestMedia(Protocol):
    """The media of one request as one dialect sends them: `EngineRequest.multimodal`."""

    @property
    def shareable(self) -> Sequence[Tensor]:
        """The tensors that the engine could read from shared memory instead, in a fixed order; empty where the dialect cannot
        name a place in shared memory."""
        ...

    def with_shared(self, places: Sequence[SharedPlace | None]) -> "RequestMedia":
        """The same media with each tensor of `shareable` left out of the message whose place is given; None keeps it in."""
        ...


class ItemizedMedia(RequestMedia, Protocol):
    """Media of a dialect that sends each item by itself, so that another engine can encode it."""

    @property
    def items(self) -> Sequence[object]:
        """In prompt order."""
        ...


class MediaPacking(Protocol):
    """Packs media for one dialect; its row in the table of kinds names it beside the codec."""

    def pack(self, prepared: "Prepared", facts: EngineFacts) -> RequestMedia:
        """What `smg_multimodal` prepared for one request, as this dialect sends it to an engine of these facts: where it
        normalises, pixels go as they are, one byte a value; floats go as `facts.floats`. Raises smg_multimodal's
        UnsupportedModel for what the dialect cannot carry. Copies tensors: not on an event loop."""
        ...


# ------------------------------------------------------------------------------------------------------ what carries bytes


class Receiver(Protocol):
    """The receiver of a call's answer."""

    def messages(self, batch: list[bytes]) -> None:
        """All messages of the call that one read brought, without their 5-byte gRPC prefix."""
        ...

    def closed(self, error: SmgError | None) -> None:
        """The call is over: None when the peer's status was OK. Called exactly once, never before a message."""
        ...


@runtime_checkable
class CountsConnections(Protocol):
    """A transport or a client of an engine that knows how many connections to it were made so far, None where it does not. As
    long as there is no new one the same engine answers, unless a proxy in between has another one answer."""

    @property
    def connections(self) -> int | None: ...


@runtime_checkable
class FreesConnections(Protocol):
    """A transport on which the end of a call frees a connection, of which there are few: an answer that is whole is waited for
    `end_s` seconds, until its call ends by itself."""

    @property
    def end_s(self) -> float: ...


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
        connect_timeout: float | None = None,
    ) -> Call:
        """Send one request message on a new call and half-close; answers go to `receiver`. `timeout` in seconds covers
        the whole call (grpc-timeout is sent), `connect_timeout` the wait for a connection (WorkerGone; None: as the transport
        was made). Waits only for the connection and for a free stream; raises what kept the request from being sent, in which
        case nothing is pushed."""
        ...

    async def unary(
        self,
        path: str,
        message: bytes,
        *,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
        work: bool = False,
    ) -> bytes:
        """One message in, one message out. Without `work` it is a question about the engine, for which room is kept on a
        connection that is full of calls (`EnginesConfig.question_calls`). Raises WorkerBusy where it could not even be sent, and
        the engine was answering others meanwhile."""
        ...

    async def close(self) -> None:
        """Let go of the connection; calls in flight end with WorkerGone."""
        ...
