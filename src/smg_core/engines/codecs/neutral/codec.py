"""The neutral dialect: `smg.engine.v1.Engine`, the contract in proto/ that anybody's engine may speak.

Decides how an `EngineRequest` is written and what the engine's events mean; pure. Above: engines.token_ids.client joins it with a
transport. It does not know the socket, the public API or the tokenizer. The contract has presence for every optional field and
sends deltas only, so little is decided here: `Failure`, the error in band, becomes the same error as the gRPC status it names.
"""

from collections.abc import Iterator, Sequence

from google.protobuf.message import DecodeError

from smg_core.engines.base import EngineLogprob, EngineOutput, EngineRequest, OutputDecoder, Unary
from smg_core.engines.codecs.answers import (
    LazyRows,
    after_the_end,
    all_short,
    empty_response,
    garbled,
    join,
    unknown_choice,
)
from smg_core.engines.codecs.neutral import calls
from smg_core.engines.codecs.neutral.kv_events import kv_events
from smg_core.engines.codecs.neutral.media import NeutralRequestMedia
from smg_core.engines.codecs.protobuf import float32, positive, tagged, uint32, varints_of
from smg_core.engines.codecs.refusals import OPTIONAL, refusing
from smg_core.engines.codecs.tensors import BytesLike, concatenated
from smg_core.engines.constraint import Constraint
from smg_core.engines.kv_events import KvEventBatch
from smg_core.engines.pooling import Vector
from smg_core.engines.status import error_from_status
from smg_core.engines.upkeep import Adapter, EngineTask
from smg_core.errors import EngineFailed, EngineGarbled, InvalidRequest, SmgError, UnsupportedParameter
from smg_core.events import FinishReason
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_engine_contract import engine_pb2 as pb

__all__ = ["NeutralCodec"]

_refuse = refusing(OPTIONAL.keys() - {"after_reasoning", "bootstrap", "context_phase", "encoded", "lora"})
_MEDIA = 9  # in GenerateRequest
_TOKENS_TAG = 0x0A  # first byte of a GenerateEvent that holds Tokens
_INT64 = range(-(2**63), 2**63)

_FINISH: dict[int, FinishReason] = {
    pb.FINISH_REASON_STOP: "stop",
    pb.FINISH_REASON_LENGTH: "length",
    pb.FINISH_REASON_ABORTED: "abort",
}
_FLOATS = (
    "temperature",
    "top_p",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
)


class NeutralCodec:
    """An engine that implements our own contract. Stateless: one instance serves every engine."""

    name = "neutral"
    facts = calls.FACTS
    generate_path = f"/{calls.SERVICE}/Generate"
    health = calls.HEALTH
    model = calls.MODEL
    describes = calls.DESCRIBES
    loads = calls.LOADS
    tokenizer = calls.TOKENIZER
    adapters: Unary[tuple[Adapter, ...]] | None = None

    def generate(self, request: EngineRequest) -> bytes:
        """The GenerateRequest. The ids' varints are made once per prompt (`varints_of`) and framed here."""
        _refuse(request)
        message = pb.GenerateRequest(request_id=request.id, sampling=_sampling(request.sampling), stream=request.stream)
        if request.constraint is not None:
            _constrain(message.constraint, request.constraint)
        if request.data_parallel_rank is not None:
            message.data_parallel_rank = request.data_parallel_rank
        if request.cache_salt is not None:
            message.cache_salt = request.cache_salt
        if request.kv_transfer is not None:
            message.kv_transfer_json = request.kv_transfer
        framed: bytes = message.SerializeToString()
        media = [] if request.multimodal is None else _media(request.multimodal)
        return concatenated((framed, tagged(calls.INPUT_IDS, varints_of(request.input_ids)), *media))

    def decoder(self, request: EngineRequest) -> OutputDecoder:
        sampling = request.sampling
        plain = sampling.n == 1 and sampling.logprobs is None and sampling.prompt_logprobs is None
        return _Decoder(sampling.n, plain=plain)

    def abort(self, request_id: str) -> Unary[None]:
        return calls.abort(request_id)

    def embed(self, request_id: str, ids: TokenIds, types: Sequence[int] = ()) -> Unary[Vector]:
        return calls.embed(request_id, ids, types)

    def kv_events(self, after: int | None) -> Unary[Iterator[KvEventBatch]]:
        return kv_events(after)

    def upkeep(self, asked: EngineTask) -> None:
        return None


# --------------------------------------------------------------------------------------------------------- what is sent


def _media(multimodal: object) -> list[BytesLike]:
    """The fields that hold the media of the prompt, one per item."""
    if not isinstance(multimodal, NeutralRequestMedia):
        raise UnsupportedParameter("These media were not prepared for this engine.", param="messages")
    return [piece for message in multimodal.messages() for piece in message.tagged(_MEDIA)]


def _sampling(asked: Sampling) -> pb.Sampling:
    out = pb.Sampling(skip_special_tokens=asked.skip_special_tokens)
    for name in _FLOATS:
        if (value := getattr(asked, name)) is not None:
            setattr(out, name, float32(f"sampling.{name}", value))
    for name in ("max_tokens", "min_tokens", "logprobs", "prompt_logprobs"):
        if (count := getattr(asked, name)) is not None:
            setattr(out, name, uint32(f"sampling.{name}", count))
    if asked.top_k is not None:
        out.top_k = 0 if asked.top_k == -1 else uint32("sampling.top_k", asked.top_k)
    if asked.n != 1:
        out.n = positive("sampling.n", asked.n)
    if asked.seed is not None:
        if asked.seed not in _INT64:
            raise InvalidRequest(f"seed must fit 64 bits, got {asked.seed}.", param="sampling.seed")
        out.seed = asked.seed
    _ends_and_biases(out, asked)
    return out


def _ends_and_biases(out: pb.Sampling, asked: Sampling) -> None:
    if asked.stop:
        out.stop.extend(asked.stop)
    if asked.stop_token_ids:
        out.stop_token_ids.extend([uint32("sampling.stop_token_ids", token) for token in asked.stop_token_ids])
    if asked.ignore_eos:
        out.ignore_eos = True
    if asked.include_stop:
        out.include_stop = True
    for token, bias in (asked.logit_bias or {}).items():
        out.logit_bias[uint32("sampling.logit_bias", token)] = float32("sampling.logit_bias", bias)


def _constrain(out: pb.Constraint, constraint: Constraint) -> None:
    if constraint.kind not in calls.FACTS.constraints:
        raise UnsupportedParameter(f"This engine knows no constraint {constraint.kind!r}.", param="response_format")
    if constraint.kind == "json_object":
        out.json_object = True
    elif constraint.kind == "choice":
        out.choice.values.extend(constraint.choices)
    else:
        setattr(out, constraint.kind, constraint.value)


# ---------------------------------------------------------------------------------------------------- what comes back


class _Decoder:
    """Reads the events of one call. With `plain` (one choice, no logprobs) several token events are parsed in one go."""

    __slots__ = ("_done", "_n", "_plain", "_prompt_rows", "_prompted")

    def __init__(self, n: int, *, plain: bool) -> None:
        self._n = n
        self._plain = plain
        self._done: set[int] = set()
        self._prompt_rows: Sequence[EngineLogprob | None] = ()
        self._prompted: set[int] = set()

    def feed(self, messages: Sequence[bytes]) -> list[EngineOutput]:
        """Raises the error that a `Failure` carries; tokens that came in the same read are lost with it."""
        try:
            if self._plain and not self._done and all_short(messages, _TOKENS_TAG):
                if len(messages) == 1:
                    return _plain(pb.Tokens.FromString(messages[0][2:]))
                return _plain(pb.GenerateEvent.FromString(b"".join(messages)).tokens)
            outputs: list[EngineOutput] = []
            for message in messages:
                outputs = join(outputs, self._event(pb.GenerateEvent.FromString(message)))
        except (DecodeError, IndexError) as error:
            raise garbled(error) from error
        return outputs

    def _event(self, event: pb.GenerateEvent) -> list[EngineOutput]:
        if event.HasField("tokens"):
            return self._tokens(event.tokens)
        if event.HasField("finished"):
            return self._finished(event.finished)
        if event.HasField("failure"):
            raise _failure(event.failure)
        raise empty_response()

    def _tokens(self, tokens: pb.Tokens) -> list[EngineOutput]:
        index = self._open_choice(tokens.index)
        ids = tokens.ids[:]
        output = EngineOutput(index, ids, None, None, tokens.prompt_tokens, None, tokens.cached_tokens)
        if not self._plain:
            output.logprobs = LazyRows(len(tokens.logprobs), lambda number: _logprob(tokens.logprobs[number]))
            if output.logprobs and len(output.logprobs) != len(ids):
                raise EngineGarbled(f"The engine sent {len(output.logprobs)} logprobs for {len(ids)} tokens.")
            self._add_prompt(output, tokens.prompt_logprobs)
        return [output] if ids or output.prompt_logprobs else []

    def _finished(self, finished: pb.Finished) -> list[EngineOutput]:
        index = self._open_choice(finished.index)
        self._done.add(index)
        kind = finished.WhichOneof("matched")
        output = EngineOutput(
            index=index,
            finish=_FINISH.get(finished.reason, "error"),
            matched=getattr(finished, kind) if kind else None,
            prompt_tokens=finished.prompt_tokens,
            completion_tokens=finished.completion_tokens,
            cached_tokens=finished.cached_tokens,
            reasoning_tokens=finished.reasoning_tokens,
            kv_transfer=finished.kv_transfer_json if finished.HasField("kv_transfer_json") else None,
        )
        self._add_prompt(output, ())
        return [output]

    def _add_prompt(self, output: EngineOutput, rows: Sequence[pb.TokenLogprob]) -> None:
        """The prompt's logprobs, once for each choice, whichever the engine sent them with."""
        if rows and not self._prompt_rows:
            self._prompt_rows = LazyRows(len(rows), lambda number: _prompt_logprob(rows[number]))
        if self._prompt_rows and output.index not in self._prompted:
            self._prompted.add(output.index)
            output.prompt_logprobs = self._prompt_rows

    def _open_choice(self, index: int) -> int:
        if index >= self._n:
            raise unknown_choice(index)
        if index in self._done:
            raise after_the_end(index)
        return index


def _plain(tokens: pb.Tokens) -> list[EngineOutput]:
    """Tokens of the one choice there is."""
    ids = tokens.ids[:]
    if tokens.index:
        raise unknown_choice(tokens.index)
    return [EngineOutput(0, ids, None, None, tokens.prompt_tokens, None, tokens.cached_tokens)] if ids else []


def _failure(failure: pb.Failure) -> SmgError:
    error = error_from_status(failure.code, failure.message) or EngineFailed(
        "The engine failed while it worked on the request.", detail=failure.message, outside_text=failure.message
    )
    if failure.HasField("retry_after_seconds"):
        error.retry_after = failure.retry_after_seconds
    return error


def _prompt_logprob(row: pb.TokenLogprob) -> EngineLogprob | None:
    return _logprob(row) if row.HasField("logprob") else None


def _logprob(row: pb.TokenLogprob) -> EngineLogprob:
    return EngineLogprob(row.token_id, row.logprob, tuple((each.token_id, each.logprob) for each in row.top))
