"""vLLM over its own HTTP server: `/v1/completions` with token ids in and, by `return_token_ids`, out; and
`/inference/v1/generate`, which knows ids alone.

Decides how an `EngineRequest` is written and what the chunks mean; pure. Above: engines.token_ids.client. The fields are
listed in docs/http-engines.md.

The chunk of a choice's last tokens says why it ended; how many tokens of the prompt were cached is said once, in a chunk behind
the last choice. So the ends of choices are held back until that chunk, or the end of the stream.
"""

from collections.abc import Iterator, Sequence

import attrs
import msgspec
from msgspec import Struct, field

from smg_core.engines.base import (
    EngineFacts,
    EngineLogprob,
    EngineOutput,
    EngineRequest,
    ModelInfo,
    OutputDecoder,
    Unary,
)
from smg_core.engines.codecs.answers import after_the_end, join, unknown_choice
from smg_core.engines.codecs.http_upkeep import vllm_task
from smg_core.engines.codecs.json_decoding import (
    alternatives,
    decode,
    ids_json,
    is_healthy,
    raise_error,
    set_sampling,
)
from smg_core.engines.codecs.refusals import refusing
from smg_core.engines.kv_events import KvEventBatch
from smg_core.engines.loads import Loads
from smg_core.engines.openai.answers import adapters_of, model_served
from smg_core.engines.openai.chunks import ErrorWire, ModelsWire, UsageWire
from smg_core.engines.upkeep import Adapter, EngineReply, EngineTask
from smg_core.errors import EngineGarbled, UnsupportedParameter
from smg_core.events import FinishReason
from smg_core.request import Sampling
from smg_core.sse import DONE
from smg_core.tokens import TokenIds

__all__ = ["VllmHttpCodec", "VllmTokensCodec"]

FACTS = EngineFacts(
    dialect="vllm-http",
    transport="http",
    greedy_n=False,
    constraints=frozenset({"json_schema", "json_object", "regex", "grammar", "structural_tag", "choice"}),
    holds_from="unknown",
    max_logprobs=20,
    prompt_logprobs=False,  # refused by the server for streams
    media=frozenset(),
    loads=False,
    kv_events=False,
    lora=True,
)
"""Facts of vLLM behind its HTTP server, which reports none of them."""

TOKENS_FACTS = attrs.evolve(FACTS, dialect="vllm-tokens-http", stop_strings=False)
"""Of its tokens-only call: nothing is made text there, so stop strings are the gateway's to find."""

_CARRIED = frozenset({"constraint", "lora", "cache_salt", "n", "seed", "stop", "min_tokens", "logit_bias"})
_refuse, _refuse_tokens = refusing(_CARRIED), refusing(_CARRIED - {"stop"})
_PLAIN = {
    name: name for name in ("temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty", "seed")
} | {"repetition_penalty": "repetition_penalty", "max_tokens": "max_tokens", "logprobs": "logprobs"}
_ANSWERS: dict[str, FinishReason] = {"stop": "stop", "length": "length", "abort": "abort"}
_ID_MARK = "token_id:"


class VllmHttpCodec:
    """vLLM's OpenAI server. Stateless: one instance serves every engine."""

    name = "vllm-http"
    facts = FACTS
    generate_path = "POST /v1/completions"
    health: Unary[bool] = Unary("GET /health", b"", is_healthy)
    describes: Unary[EngineFacts] | None = None
    loads: Unary[Loads] | None = None
    tokenizer: Unary[tuple[bytes, str]] | None = None

    @property
    def model(self) -> Unary[ModelInfo]:
        return Unary("GET /v1/models", b"", _model)

    @property
    def adapters(self) -> Unary[tuple[Adapter, ...]]:
        return Unary("GET /v1/models", b"", _adapters)

    def generate(self, request: EngineRequest) -> bytes:
        """The body. Raises UnsupportedParameter naming a field that this dialect cannot express."""
        _refuse(request)
        asked = request.sampling
        body: dict[str, object] = {
            "prompt": ids_json(request.input_ids),
            "request_id": request.id,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
            "skip_special_tokens": asked.skip_special_tokens,
        }
        if request.lora is not None:
            body["model"] = request.lora
        if request.cache_salt is not None:
            body["cache_salt"] = request.cache_salt
        set_sampling(body, asked, _PLAIN)
        _rare(body, asked)
        if request.constraint is not None:
            body["structured_outputs"] = _constraint(request)
        return msgspec.json.encode(body)

    def decoder(self, request: EngineRequest) -> OutputDecoder:
        return _Decoder(request.sampling.n, request.sampling.logprobs)

    def abort(self, request_id: str) -> Unary[None] | None:
        """None: the server stops when its connection is closed."""
        return None

    def embed(self, request_id: str, ids: TokenIds, types: Sequence[int] = ()) -> None:
        return None

    def kv_events(self, after: int | None) -> Unary[Iterator[KvEventBatch]] | None:
        return None

    def upkeep(self, asked: EngineTask) -> Unary[EngineReply] | None:
        return vllm_task(asked)


class VllmTokensCodec(VllmHttpCodec):
    """The same server by its tokens-only call, which newer vLLMs have, also those that were started with `--tokens-only`."""

    name = "vllm-tokens-http"
    facts = TOKENS_FACTS
    generate_path = "POST /inference/v1/generate"

    # Gives up nothing, for which a server that was started without these calls refuses itself (403). Older ones, which do not
    # know this path (404), always have the call that generates.
    describes = Unary("POST /inference/v1/abort_requests", b'{"request_ids":[]}', lambda _: TOKENS_FACTS)

    def generate(self, request: EngineRequest) -> bytes:
        """The body. Raises as that of `VllmHttpCodec`."""
        _refuse_tokens(request)
        asked = request.sampling
        sampling: dict[str, object] = {"detokenize": False}
        set_sampling(sampling, asked, _PLAIN)
        _rare(sampling, asked)
        sampling.pop("return_tokens_as_token_ids", None)
        if request.constraint is not None:
            sampling["structured_outputs"] = _constraint(request)
        body: dict[str, object] = {
            "request_id": request.id,
            "token_ids": ids_json(request.input_ids),
            "sampling_params": sampling,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.lora is not None:
            body["model"] = request.lora
        if request.cache_salt is not None:
            body["cache_salt"] = request.cache_salt
        return msgspec.json.encode(body)

    def abort(self, request_id: str) -> Unary[None]:
        body = msgspec.json.encode({"request_ids": [request_id]})
        return Unary("POST /inference/v1/abort_requests", body, lambda _: None)


def _rare(body: dict[str, object], asked: Sampling) -> None:
    """Write the fields that most requests do not set."""
    if asked.n != 1:
        body["n"] = asked.n
    if asked.min_tokens:
        body["min_tokens"] = asked.min_tokens
    if asked.stop:
        body["stop"] = list(asked.stop)
    if asked.stop_token_ids:
        body["stop_token_ids"] = list(asked.stop_token_ids)
    if asked.ignore_eos:
        body["ignore_eos"] = True
    if asked.include_stop:
        body["include_stop_str_in_output"] = True
    if asked.logit_bias:
        body["logit_bias"] = {str(token): bias for token, bias in asked.logit_bias.items()}
    if asked.logprobs is not None:
        body["return_tokens_as_token_ids"] = True


def _constraint(request: EngineRequest) -> dict[str, object]:
    constraint = request.constraint
    if constraint is None or constraint.kind not in FACTS.constraints:
        raise UnsupportedParameter("This engine does not know this constraint.", param="response_format")
    match constraint.kind:
        case "json_object":
            return {"json_object": True}
        case "choice":
            return {"choice": list(constraint.choices)}
        case "json_schema":
            return {"json": msgspec.Raw(constraint.value.encode())}
    return {constraint.kind: constraint.value}


# ------------------------------------------------------------------------------------------------------ what comes back


class _CandidateWire(Struct, gc=False):
    token_id: int
    logprob: float | None = None


class _RowWire(_CandidateWire, gc=False):
    top_logprobs: list[_CandidateWire] = field(default_factory=list)


class _LogprobsWire(Struct, gc=False):
    """Of completions four lists, of the tokens-only call `content`."""

    content: list[_RowWire] | None = None
    tokens: list[str] = field(default_factory=list)
    token_logprobs: list[float | None] = field(default_factory=list)
    top_logprobs: list[dict[str, float] | None] | None = None


class _ChoiceWire(Struct, gc=False):
    index: int = 0
    token_ids: list[int] | None = None
    text: str = ""  # the ids are read; that there is text says that they were left out
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    logprobs: _LogprobsWire | None = None


class _ChunkWire(Struct, gc=False):
    choices: list[_ChoiceWire] | None = None
    usage: UsageWire | None = None
    error: ErrorWire | str | None = None


_CHUNKS = msgspec.json.Decoder(_ChunkWire)
_MODELS = msgspec.json.Decoder(ModelsWire)


class _Decoder:
    """Decodes one call of `n` choices."""

    __slots__ = ("_ended", "_logprobs", "_n", "_waiting")

    def __init__(self, n: int, logprobs: int | None) -> None:
        self._n = n
        self._logprobs = logprobs
        self._ended: set[int] = set()
        self._waiting: list[EngineOutput] = []  # the ends of choices

    def feed(self, messages: Sequence[bytes]) -> list[EngineOutput]:
        outputs: list[EngineOutput] = []
        for message in messages:
            if message == DONE:
                outputs += self._release(None)
                continue
            chunk = decode(_CHUNKS, message)
            if chunk.error is not None:
                raise_error(chunk.error)
            for choice in chunk.choices or ():
                outputs = join(outputs, self._choice(choice))
            if chunk.usage is not None and len(self._ended) == self._n:
                outputs += self._release(chunk.usage)
        return outputs

    def _choice(self, wire: _ChoiceWire) -> list[EngineOutput]:
        index = wire.index
        if not 0 <= index < self._n:
            raise unknown_choice(index)
        if index in self._ended:
            raise after_the_end(index)
        if wire.token_ids is None and wire.text:
            raise EngineGarbled("The engine sent text without the token ids that it was asked for.")
        ids = wire.token_ids or ()
        if wire.finish_reason is not None:
            self._ended.add(index)
            reason = _ANSWERS.get(wire.finish_reason, "error")
            self._waiting.append(EngineOutput(index, (), reason, wire.stop_reason))
        if not ids:
            return []
        output = EngineOutput(index, ids)
        if self._logprobs is not None:
            output.logprobs = _scores(wire.logprobs, ids, self._logprobs)
        return [output]

    def _release(self, usage: UsageWire | None) -> list[EngineOutput]:
        waiting, self._waiting = self._waiting, []
        if usage is not None:
            details = usage.prompt_tokens_details
            for each in waiting:
                each.prompt_tokens = usage.prompt_tokens or 0
                each.cached_tokens = (details.cached_tokens or 0) if details is not None else 0
        return waiting


def _scores(wire: _LogprobsWire | None, ids: Sequence[int], most: int) -> list[EngineLogprob]:
    if wire is not None and wire.content is not None:
        return _rows(wire.content, ids, most)
    if wire is None or len(wire.token_logprobs) != len(ids):
        raise EngineGarbled(f"The engine sent other logprobs than those of its {len(ids)} tokens.")
    tops: Sequence[dict[str, float] | None] = wire.top_logprobs or [None] * len(ids)
    return [
        EngineLogprob(
            token, logprob or 0.0, alternatives([(_id_of(name), value) for name, value in (top or {}).items()], most)
        )
        for token, logprob, top in zip(ids, wire.token_logprobs, tops, strict=True)
    ]


def _rows(content: list[_RowWire], ids: Sequence[int], most: int) -> list[EngineLogprob]:
    if [row.token_id for row in content] != list(ids):
        raise EngineGarbled(f"The engine sent other logprobs than those of its {len(ids)} tokens.")
    return [
        EngineLogprob(
            row.token_id,
            row.logprob or 0.0,
            alternatives([(each.token_id, each.logprob or 0.0) for each in row.top_logprobs], most),
        )
        for row in content
    ]


def _id_of(name: str) -> int:
    """The id in a token's name, as `return_tokens_as_token_ids` has it written."""
    number = name.removeprefix(_ID_MARK)
    if number is name or not (number.isascii() and number.isdigit()):
        raise EngineGarbled("The engine named a token by its text where its id was due.")
    return int(number)


def _model(message: bytes) -> ModelInfo:
    found = model_served(message)
    return ModelInfo(found.id, found.root or found.id, found.max_model_len or 0)


def _adapters(message: bytes) -> tuple[Adapter, ...]:
    return tuple(Adapter(name, name) for name in adapters_of(message, model_served(message).id))
