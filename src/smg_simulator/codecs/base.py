"""One dialect as the simulated engine speaks it: the role, and the records that its implementations share.

Above: server.grpc_server, which serves every dialect on one port. Implemented by the modules of `all_codecs`.
Decides nothing; pure.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import attrs
from google.protobuf.message import DecodeError, Message

from smg_core.engines.base import EngineLogprob, EngineRequest
from smg_core.engines.loads import RankLoad
from smg_core.tokens import TokenIds
from smg_simulator.engine.engine import SimulatedModel
from smg_simulator.engine.kv_feed import Batch
from smg_simulator.engine.refusal import Refused

__all__ = ["ChoiceSlice", "EngineState", "FullServerCodec", "ServerCodec", "disaggregation_arguments", "parse_message"]

M = TypeVar("M", bound=Message)


@attrs.frozen
class ChoiceSlice:
    """Consecutive tokens of one choice, for one message. `index` is the choice's. `completion_tokens` counts from the choice's
    first token to the end of this slice. `logprobs` is as long as `ids` or empty; the first slice carries `prompt_logprobs`."""

    index: int
    ids: Sequence[int]
    prompt_tokens: int
    cached_tokens: int = 0
    completion_tokens: int = 0
    logprobs: Sequence[EngineLogprob] = ()
    prompt_logprobs: Sequence[EngineLogprob | None] = ()


@attrs.frozen
class EngineState:
    """What the engine reports of itself. `active`: requests in flight; `uptime`: seconds; `batch`: requests that run at once;
    `instance`: an id that changes when the engine restarts; `memory`: the id of the shared memory it sees ("": none);
    `normalizes`: it asks for pixels as bytes; `encoder_dtype`: the floats that its encoder works with ("": not said);
    `context_length` and `cache_tokens`: the tokens of one request, and those that its KV cache has room for; `kv`: connector,
    role, id and port of what hands its cache over (connector "": nothing does)."""

    active: int
    uptime: float
    block_size: int
    batch: int
    instance: str
    max_n: int
    max_logprobs: int
    constraints: tuple[str, ...]
    context_length: int = 0
    cache_tokens: int = 0
    memory: str = ""
    normalizes: bool = False
    encoder_dtype: str = ""
    kv: tuple[str, str, str, int] = ("", "", "", 0)
    ranks: int = 1


class ServerCodec(Protocol):
    """Reads the requests of one dialect and writes its answers. A request that cannot be read raises Refused."""

    service: str
    methods: Mapping[str, str]
    """The dialect's RPC for each operation: generate, abort, health, model_info, server_info, loads, embed, flush, profile_start,
    profile_stop, tokenizer, kv_events, list_adapters, load_adapter, unload_adapter.
    Operations that the dialect lacks are absent."""
    unique_ids: bool
    """Whether a second request with the id of one in flight is refused."""
    replays: bool
    """Whether a subscriber may ask for KV events from an earlier sequence number on."""
    recalls: bool
    """Whether a subscriber without such a number is told first what the cache holds already."""
    repeats_all: bool
    """Whether the closing message of a streamed choice holds all its tokens again, rather than those of the last chunk."""
    ends_aborted: bool
    """Whether an answer that was aborted by name comes to an end."""

    def request(self, message: bytes, encode: Callable[[str], Sequence[int]]) -> EngineRequest:
        """Read a Generate request; `encode` tokenizes a prompt that came as text."""
        ...

    def chunk(self, request_id: str, piece: ChoiceSlice) -> bytes:
        """The message for new tokens of a streamed choice; b"" where the dialect sends none. Some dialects name the request in
        it."""
        ...

    def complete(
        self,
        request_id: str,
        piece: ChoiceSlice,
        *,
        finish: str,
        matched: str | int | None,
        streamed: bool,
        kv_transfer: str | None,
    ) -> list[bytes]:
        """The closing messages of a choice. `piece` is its last slice when it was streamed and `repeats_all` is False, else the
        whole choice. `finish` is the finish reason, `matched` the stop string or token."""
        ...

    def failure(self, code: str, message: str) -> bytes | None:
        """An error as a message of the stream; None where the dialect reports errors by the gRPC status only."""
        ...

    def aborted(self, message: bytes) -> list[str]:
        """The ids of the requests that an Abort names."""
        ...

    def abort_answer(self, known: int) -> bytes:
        """The answer to an Abort that ended `known` requests."""
        ...

    def health(self, healthy: bool) -> bytes: ...

    def model_info(self, info: SimulatedModel, state: EngineState) -> bytes: ...

    def server_info(self, state: EngineState) -> bytes: ...

    def tokenizer_known(self, message: bytes) -> str:
        """The sha256 of the archive that the client already has, as hex, or ""."""
        ...

    def tokenizer_chunk(self, data: bytes, digest: str, total: int, *, last: bool) -> bytes:
        """One chunk of the tokenizer's archive, which has `total` bytes and the sha256 `digest`."""
        ...


class FullServerCodec(ServerCodec, Protocol):
    """A dialect that has every operation, those too which MLX's lacks."""

    def loads(self, load: RankLoad, moment: str) -> bytes:
        """The load of the engine's one rank; `moment` is the time in ISO 8601."""
        ...

    def embed_request(self, message: bytes) -> tuple[TokenIds, Sequence[int]]:
        """The ids, and for each of them to which text of a pair it belongs, if the request says it."""
        ...

    def embed_answer(self, values: Sequence[float], tokens: int) -> bytes: ...

    def flush_answer(self, done: bool) -> bytes: ...

    def profile_answer(self, done: bool, message: str) -> bytes: ...

    def kv_cursor(self, message: bytes) -> int | None:
        """The sequence number of the last batch that the subscriber has; None: it wants new batches only."""
        ...

    def kv_batch(self, batch: Batch) -> bytes: ...


def parse_message(kind: type[M], message: bytes) -> M:
    """Parse `message` as a protobuf message of class `kind`. Raises Refused when it is not one."""
    try:
        return kind.FromString(message)
    except DecodeError as error:
        raise Refused("the message cannot be read") from error


def disaggregation_arguments(state: EngineState) -> dict[str, str | int]:
    """How an engine of SGLang or TokenSpeed says that it was started to do one part of each request."""
    connector, role, _, port = state.kv
    modes = {"kv_producer": "prefill", "kv_consumer": "decode", "encoder": "encode"}
    mode = modes.get(role, "null") if connector else "null"
    return {
        "disaggregation_mode": mode,
        "disaggregation_bootstrap_port": port if mode in ("prefill", "encode") else 8998,
        "disaggregation_transfer_backend": connector.lower().removesuffix("connector") or "mooncake",
    }
