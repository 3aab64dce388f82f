"""SGLang over its own HTTP server: `/generate` with `input_ids` in and `output_ids` out.

Decides how an `EngineRequest` is written and what the chunks mean; pure. Above: engines.token_ids.client. The fields are
listed in docs/http-engines.md.

A chunk brings either all ids so far or the new ones, as the server was started; `completion_tokens` counts all in both cases, so
the new ones are the last of them. The same holds for logprobs. A call gives one choice.
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
from smg_core.engines.codecs.answers import after_the_end
from smg_core.engines.codecs.http_upkeep import sglang_task
from smg_core.engines.codecs.json_decoding import (
    alternatives,
    decode,
    ids_json,
    is_healthy,
    raise_error,
    set_sampling,
)
from smg_core.engines.codecs.protobuf import any_of
from smg_core.engines.codecs.refusals import refusing
from smg_core.engines.kv_events import KvEventBatch
from smg_core.engines.loads import Loads
from smg_core.engines.openai.answers import adapters_of, model_served
from smg_core.engines.openai.chunks import ErrorWire
from smg_core.engines.upkeep import Adapter, EngineReply, EngineTask
from smg_core.errors import EngineGarbled, UnsupportedParameter
from smg_core.events import FinishReason
from smg_core.request import Sampling
from smg_core.sse import DONE
from smg_core.tokens import TokenIds

__all__ = ["SglangHttpCodec"]

FACTS = EngineFacts(
    dialect="sglang-http",
    transport="http",
    fans_out=True,
    greedy_n=False,
    constraints=frozenset({"json_schema", "json_object", "regex", "grammar", "structural_tag", "choice"}),
    max_logprobs=None,
    seed=True,
    cache_salt=True,
    media=frozenset(),
    loads=False,
    kv_events=False,
    lora=True,
)
"""What SGLang can be asked over HTTP. Each choice is a call of its own, as over gRPC."""

_ANY_OBJECT = '{"type":"object"}'
_refuse = refusing(
    {"constraint", "lora", "cache_salt", "data_parallel_rank", "seed", "stop", "min_tokens", "logit_bias"}
    | {"prompt_logprobs", "after_reasoning"}
)
_PLAIN = {
    name: name
    for name in ("temperature", "top_p", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty")
} | {"seed": "sampling_seed"}
_ANSWERS: dict[str, FinishReason] = {"stop": "stop", "length": "length", "abort": "abort"}


class SglangHttpCodec:
    """SGLang's HTTP server. Stateless: one instance serves every engine."""

    name = "sglang-http"
    facts = FACTS
    generate_path = "POST /generate"
    health: Unary[bool] = Unary("GET /health", b"", is_healthy)
    loads: Unary[Loads] | None = None
    tokenizer: Unary[tuple[bytes, str]] | None = None

    @property
    def model(self) -> Unary[ModelInfo]:
        return Unary("GET /v1/models", b"", _model)

    @property
    def describes(self) -> Unary[EngineFacts]:
        return Unary("GET /get_server_info", b"", _facts)

    @property
    def adapters(self) -> Unary[tuple[Adapter, ...]]:
        return Unary("GET /v1/models", b"", _adapters)

    def generate(self, request: EngineRequest) -> bytes:
        """The body. Raises UnsupportedParameter naming a field that this dialect cannot express."""
        _refuse(request)
        body: dict[str, object] = {
            "rid": request.id,
            "input_ids": ids_json(request.input_ids),
            "stream": True,
            "sampling_params": _sampling(request),
        }
        if request.lora is not None:
            body["lora_path"] = request.lora
        if request.cache_salt is not None:
            body["extra_key"] = request.cache_salt
        if request.data_parallel_rank is not None:
            body["data_parallel_rank"] = request.data_parallel_rank
        if request.after_reasoning:
            body["require_reasoning"] = True
        asked = request.sampling
        if asked.logprobs is not None or asked.prompt_logprobs is not None:
            body["return_logprob"] = True
            body["logprob_start_len"] = -1 if asked.prompt_logprobs is None else 0
            body["top_logprobs_num"] = max(
                _count("logprobs", asked.logprobs), _count("prompt_logprobs", asked.prompt_logprobs)
            )
        return msgspec.json.encode(body)

    def decoder(self, request: EngineRequest) -> OutputDecoder:
        return _Decoder(request.sampling)

    def abort(self, request_id: str) -> Unary[None]:
        body = msgspec.json.encode({"rid": request_id})
        return Unary("POST /abort_request", body, lambda _: None)

    def embed(self, request_id: str, ids: TokenIds, types: Sequence[int] = ()) -> None:
        return None

    def kv_events(self, after: int | None) -> Unary[Iterator[KvEventBatch]] | None:
        return None

    def upkeep(self, asked: EngineTask) -> Unary[EngineReply] | None:
        return sglang_task(asked)


def _sampling(request: EngineRequest) -> dict[str, object]:
    asked = request.sampling
    out: dict[str, object] = {"max_new_tokens": asked.max_tokens, "skip_special_tokens": asked.skip_special_tokens}
    set_sampling(out, asked, _PLAIN)
    if asked.top_k:  # 0 means all tokens here, which the server calls -1
        out["top_k"] = asked.top_k
    if asked.min_tokens:
        out["min_new_tokens"] = asked.min_tokens
    if asked.stop:
        out["stop"] = list(asked.stop)
    if asked.stop_token_ids:
        out["stop_token_ids"] = list(asked.stop_token_ids)
    if asked.ignore_eos:
        out["ignore_eos"] = True
    if asked.include_stop:
        out["no_stop_trim"] = True
    if asked.logit_bias:
        out["logit_bias"] = {str(token): bias for token, bias in asked.logit_bias.items()}
    if request.constraint is not None:
        name, value = _constraint(request)
        out[name] = value
    return out


def _constraint(request: EngineRequest) -> tuple[str, str]:
    """Any JSON object is a schema here, and a choice a regular expression."""
    constraint = request.constraint
    if constraint is None or constraint.kind not in FACTS.constraints:
        raise UnsupportedParameter("This engine does not know this constraint.", param="response_format")
    match constraint.kind:
        case "json_object":
            return "json_schema", _ANY_OBJECT
        case "choice":
            return "regex", any_of(constraint.choices)
        case "grammar":
            return "ebnf", constraint.value
    return constraint.kind, constraint.value


def _count(name: str, count: int | None) -> int:
    if count is not None and count < 0:
        sentence = f"{name} must be a number of alternatives for this engine."
        raise UnsupportedParameter(sentence, param=f"sampling.{name}")
    return count or 0


# ------------------------------------------------------------------------------------------------------ what comes back

_Row = tuple[float | None, int, str | None]


class _FinishWire(Struct, gc=False):
    type: str = "stop"
    matched: int | str | None = None
    message: str | None = None
    status_code: int | str | None = None
    err_type: str | None = None


class _MetaWire(Struct, gc=False):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int | None = None
    finish_reason: _FinishWire | None = None
    output_token_logprobs: list[_Row] | None = None
    output_top_logprobs: list[list[_Row] | None] | None = None
    input_token_logprobs: list[_Row] | None = None
    input_top_logprobs: list[list[_Row] | None] | None = None


class _ChunkWire(Struct, gc=False):
    output_ids: list[int] | None = None
    meta_info: _MetaWire = field(default_factory=_MetaWire)
    error: ErrorWire | str | None = None


_CHUNKS = msgspec.json.Decoder(_ChunkWire)


class _Decoder:
    """Decodes one call."""

    __slots__ = ("_asked", "_ended", "_prompted", "_seen")

    def __init__(self, asked: Sampling) -> None:
        self._asked = asked
        self._seen = 0  # tokens
        self._ended = False
        self._prompted = asked.prompt_logprobs is None

    def feed(self, messages: Sequence[bytes]) -> list[EngineOutput]:
        outputs: list[EngineOutput] = []
        for message in messages:
            if message == DONE:
                continue
            chunk = decode(_CHUNKS, message)
            if chunk.error is not None:
                raise_error(chunk.error)
            if self._ended:
                raise after_the_end(0)
            output = self._output(chunk)
            if output.ids or output.finish is not None:
                outputs.append(output)
        return outputs

    def _output(self, chunk: _ChunkWire) -> EngineOutput:
        meta, ids = chunk.meta_info, chunk.output_ids or []
        new = meta.completion_tokens - self._seen
        if new < 0 or new > len(ids):
            raise EngineGarbled(f"The engine sent {len(ids)} ids where {new} more are counted.")
        self._seen += new
        first = len(ids) - new
        output = EngineOutput(
            0, ids[first:] if first else ids, prompt_tokens=meta.prompt_tokens, cached_tokens=meta.cached_tokens
        )
        if self._asked.logprobs is not None and new:
            output.logprobs = _scores(meta, output.ids, self._asked.logprobs)
        if not self._prompted and meta.input_token_logprobs:
            self._prompted = True
            output.prompt_logprobs = _prompt_scores(meta, self._asked.prompt_logprobs or 0)
        if meta.finish_reason is not None:
            self._ended = True
            self._finish(output, meta.finish_reason)
            output.reasoning_tokens = meta.reasoning_tokens or 0
        return output

    def _finish(self, output: EngineOutput, wire: _FinishWire) -> None:
        if wire.type == "abort" and wire.status_code is not None:
            # Its scheduler refused the request, had no room for it, or failed: over gRPC the same number becomes the status.
            raise_error(ErrorWire(wire.message, wire.err_type, wire.status_code))
        output.finish = _ANSWERS.get(wire.type, "error")
        matched = wire.matched
        # The server names its own end token there too, which no request did.
        if isinstance(matched, str) or matched in self._asked.stop_token_ids:
            output.matched = matched


def _scores(meta: _MetaWire, ids: Sequence[int], most: int) -> list[EngineLogprob]:
    rows = (meta.output_token_logprobs or [])[-len(ids) :]
    if len(rows) != len(ids):
        raise EngineGarbled(f"The engine sent {len(rows)} logprobs for {len(ids)} tokens.")
    tops = (meta.output_top_logprobs or [])[-len(ids) :] if most else []
    return [
        _row(token, row, tops[at] if at < len(tops) else None, most)
        for at, (token, row) in enumerate(zip(ids, rows, strict=True))
    ]


def _row(token: int, row: _Row, top: list[_Row] | None, most: int) -> EngineLogprob:
    pairs = [(other, value) for value, other, _ in top or () if value is not None]
    return EngineLogprob(token, row[0] or 0.0, alternatives(pairs, most))


def _prompt_scores(meta: _MetaWire, most: int) -> list[EngineLogprob | None]:
    """One row a token of the prompt; None for the first, which nothing predicts."""
    tops = (meta.input_top_logprobs or []) if most else []
    return [
        None if row[0] is None else _row(row[1], row, tops[at] if at < len(tops) else None, most)
        for at, row in enumerate(meta.input_token_logprobs or ())
    ]


def _model(message: bytes) -> ModelInfo:
    found = model_served(message)
    return ModelInfo(found.id, found.root or found.id, found.max_model_len or 0)


def _adapters(message: bytes) -> tuple[Adapter, ...]:
    return tuple(Adapter(name, name) for name in adapters_of(message, model_served(message).id))


class _ServerWire(Struct):
    """What it was started with; most of it is of no interest here."""

    context_length: int | None = None
    page_size: int | None = None
    dp_size: int | None = None
    version: str | None = None
    reasoning_parser: str | None = None


_SERVERS = msgspec.json.Decoder(_ServerWire)


def _facts(message: bytes) -> EngineFacts:
    servers = decode(_SERVERS, message)
    return attrs.evolve(
        FACTS,
        context_length=servers.context_length or 0,
        block_size=max(0, servers.page_size or 0),
        ranks=max(1, servers.dp_size or 1),
        holds_from="as_told" if servers.reasoning_parser else "first_token",
        reported=(("version", servers.version),) if servers.version else (),
    )
