"""llama.cpp's own server: `/completion` with token ids in and out.

Decides how an `EngineRequest` is written and what the messages mean; pure. Above: engines.token_ids.client. The fields are
listed in docs/http-engines.md.

The server names one id a message and says its text beside it. Of a character that takes several tokens it streams only the last
id: the others are missing, and the text has the whole character. So an output that may lack ids brings its text
(`EngineOutput.text`), and pipeline.output.token_id_lookup finds the ids that say the same. A request that is to tell its ids
(`Sampling.token_ids`) is asked for as one whole answer, which names them all.
"""

import math
from collections.abc import Iterator, Sequence

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
from smg_core.engines.codecs.json_decoding import alternatives, decode, ids_json, is_healthy, raise_error, set_sampling
from smg_core.engines.codecs.refusals import refusing
from smg_core.engines.kv_events import KvEventBatch
from smg_core.engines.loads import Loads
from smg_core.engines.openai.answers import model_served
from smg_core.engines.openai.chunks import ErrorWire
from smg_core.engines.upkeep import Adapter, EngineReply, EngineTask
from smg_core.errors import EngineGarbled, UnsupportedParameter
from smg_core.events import FinishReason
from smg_core.sse import DONE
from smg_core.tokens import TokenIds

__all__ = ["LlamaCppCodec"]

FACTS = EngineFacts(
    dialect="llamacpp-http",
    transport="http",
    fans_out=True,
    min_tokens=False,
    stop_token_ids=False,
    stop_strings=False,  # it holds text back for them, and the text has to be that of the ids beside it
    constraints=frozenset({"json_schema", "json_object", "grammar", "choice"}),
    max_logprobs=None,
    prompt_logprobs=False,
    cache_salt=False,
    media=frozenset(),
    loads=False,
    kv_events=False,
)
"""What llama.cpp's server can be asked through `/completion`."""

_ANY_OBJECT = msgspec.Raw(b'{"type":"object"}')
_refuse = refusing({"constraint", "seed", "logit_bias"})
_PLAIN = {name: name for name in ("temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty")}
_SEEDS = 2**32 - 1  # the server's seeds are 32 bits, of which the highest means "any"
_READ = ["tokens", "stop", "stop_type", "stopping_word", "tokens_predicted", "tokens_evaluated"]
_READ_AT_END = [*_READ, "timings", "completion_probabilities"]
"""The fields of the last message that are read; without this list it repeats the prompt and all settings."""

_ENDS: dict[str, FinishReason] = {"eos": "stop", "word": "stop", "limit": "length"}


class LlamaCppCodec:
    """llama.cpp's HTTP server. Stateless: one instance serves every engine."""

    name = "llamacpp-http"
    facts = FACTS
    generate_path = "POST /completion"
    health: Unary[bool] = Unary("GET /health", b"", is_healthy)
    describes: Unary[EngineFacts] | None = None
    loads: Unary[Loads] | None = None
    tokenizer: Unary[tuple[bytes, str]] | None = None
    adapters: Unary[tuple[Adapter, ...]] | None = None

    @property
    def model(self) -> Unary[ModelInfo]:
        return Unary("GET /v1/models", b"", _model)

    def generate(self, request: EngineRequest) -> bytes:
        """The body. Raises UnsupportedParameter naming a field that this dialect cannot express."""
        _refuse(request)
        asked = request.sampling
        if asked.stop_token_ids:
            raise UnsupportedParameter("This engine ends at no other tokens.", param="sampling.stop_token_ids")
        body: dict[str, object] = {
            "prompt": ids_json(request.input_ids),
            "stream": not asked.token_ids,
            "return_tokens": True,
            "response_fields": _READ_AT_END,
        }
        set_sampling(body, asked, _PLAIN)
        if asked.max_tokens is not None:
            body["n_predict"] = asked.max_tokens
        _rare(body, request)
        if request.constraint is not None:
            name, value = _constraint(request)
            body[name] = value
        return msgspec.json.encode(body)

    def decoder(self, request: EngineRequest) -> OutputDecoder:
        return _Decoder(request.sampling.logprobs)

    def abort(self, request_id: str) -> Unary[None] | None:
        """None: the server stops when its connection is closed."""
        return None

    def embed(self, request_id: str, ids: TokenIds, types: Sequence[int] = ()) -> None:
        return None

    def kv_events(self, after: int | None) -> Unary[Iterator[KvEventBatch]] | None:
        return None

    def upkeep(self, asked: EngineTask) -> Unary[EngineReply] | None:
        """None: the server has no such calls."""
        return None


def _rare(body: dict[str, object], request: EngineRequest) -> None:
    """Write the fields that most requests do not set."""
    asked = request.sampling
    if asked.repetition_penalty is not None:
        body["repeat_penalty"] = asked.repetition_penalty
        body["repeat_last_n"] = len(request.input_ids) + (asked.max_tokens or 0)  # all tokens count, not the last 64
    if asked.seed is not None:
        body["seed"] = asked.seed % _SEEDS
    if asked.ignore_eos:
        body["ignore_eos"] = True
    if asked.logit_bias:
        body["logit_bias"] = [[token, bias] for token, bias in asked.logit_bias.items()]
    if asked.logprobs is not None:
        if asked.logprobs < 0:
            raise UnsupportedParameter("logprobs must be a number for this engine.", param="sampling.logprobs")
        body["n_probs"] = max(1, asked.logprobs)


def _constraint(request: EngineRequest) -> tuple[str, object]:
    """Any JSON object is a schema here, and a choice a grammar."""
    constraint = request.constraint
    if constraint is None or constraint.kind not in FACTS.constraints:
        raise UnsupportedParameter("This engine does not know this constraint.", param="response_format")
    match constraint.kind:
        case "json_object":
            return "json_schema", _ANY_OBJECT
        case "json_schema":
            return "json_schema", msgspec.Raw(constraint.value.encode())
        case "choice":
            return "grammar", "root ::= " + " | ".join(_literal(each) for each in constraint.choices)
    return "grammar", constraint.value


def _literal(text: str) -> str:
    """`text` as a literal of the server's grammar language."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'


# ------------------------------------------------------------------------------------------------------ what comes back


class _TopWire(Struct, gc=False):
    id: int
    logprob: float = 0.0


class _RowWire(Struct, gc=False):
    id: int
    logprob: float = 0.0
    top_logprobs: list[_TopWire] = field(default_factory=list)


class _TimingsWire(Struct, gc=False):
    """`cache_n` counts the tokens of the prompt that were in the cache; the field `tokens_cached` counts others."""

    cache_n: int = 0


class _MessageWire(Struct, gc=False):
    """A message of the stream, or the whole answer."""

    content: str = ""
    tokens: list[int] = field(default_factory=list)
    stop: bool = False
    stop_type: str = ""
    stopping_word: str = ""
    tokens_predicted: int = 0
    tokens_evaluated: int = 0
    timings: _TimingsWire | None = None
    completion_probabilities: list[_RowWire] | None = None
    error: ErrorWire | str | None = None


_MESSAGES = msgspec.json.Decoder(_MessageWire)


class _Decoder:
    """Decodes one call of one choice."""

    __slots__ = ("_ended", "_logprobs", "_named")

    def __init__(self, logprobs: int | None) -> None:
        self._logprobs = logprobs
        self._named = 0  # ids so far
        self._ended = False

    def feed(self, messages: Sequence[bytes]) -> list[EngineOutput]:
        outputs: list[EngineOutput] = []
        for message in messages:
            if message == DONE:
                continue
            wire = decode(_MESSAGES, message)
            if wire.error is not None:
                raise_error(wire.error)
            if self._ended:
                raise after_the_end(0)
            self._add(outputs, wire)
        return outputs

    def _add(self, outputs: list[EngineOutput], wire: _MessageWire) -> None:
        self._named += len(wire.tokens)
        scored = self._logprobs is not None
        may_lack = not wire.stop and wire.tokens_predicted > self._named
        if wire.stop:
            outputs.append(self._last(wire))
        elif wire.tokens and outputs and not (may_lack or scored or outputs[-1].text):
            outputs[-1].ids = [*outputs[-1].ids, *wire.tokens]
        elif wire.tokens:
            output = EngineOutput(0, wire.tokens, text=wire.content if may_lack else "")
            self._score(output, wire)
            outputs.append(output)

    def _last(self, wire: _MessageWire) -> EngineOutput:
        """The end; with all tokens where the answer is no stream."""
        self._ended = True
        output = EngineOutput(
            0,
            wire.tokens,
            _ENDS.get(wire.stop_type, "error"),
            wire.stopping_word or None,
            prompt_tokens=wire.tokens_evaluated,
            cached_tokens=max(0, wire.timings.cache_n) if wire.timings is not None else 0,
        )
        self._score(output, wire)
        return output

    def _score(self, output: EngineOutput, wire: _MessageWire) -> None:
        """The logprobs, one row an id. Of the ids that a stream would leave out the server has none in a whole answer either."""
        if self._logprobs is None:
            return
        rows = iter(wire.completion_probabilities or ())
        row = next(rows, None)
        scores: list[EngineLogprob] = []
        for token in output.ids:
            if row is not None and row.id == token:
                pairs = [(each.id, each.logprob) for each in row.top_logprobs]
                scores.append(EngineLogprob(token, row.logprob, alternatives(pairs, self._logprobs)))
                row = next(rows, None)
            else:
                scores.append(EngineLogprob(token, -math.inf))
        if row is not None:
            raise EngineGarbled("The engine sent logprobs of other tokens than it named.")
        output.logprobs = scores


def _model(message: bytes) -> ModelInfo:
    """What it serves; it names no folder with the tokenizer, so `model.tokenizer` has to."""
    found = model_served(message)
    meta = found.meta
    return ModelInfo(
        found.id,
        found.root or "",
        (meta.n_ctx if meta is not None else found.max_model_len) or 0,
        (meta.n_vocab if meta is not None else None) or 0,
    )
