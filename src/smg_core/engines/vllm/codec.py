"""The vLLM dialect: `vllm.grpc.engine.VllmEngine`, as vLLM's Python and Rust servicers speak it.

Decides how an `EngineRequest` is written and what the engine's messages mean; pure. Above: engines.client joins it with a
transport. It does not know the socket, the public API or the tokenizer. The messages come from the package smg-grpc-proto.

In this protocol a sampling field of 0 means "not set" (only temperature, max_tokens, logprobs and seed have presence), and the
engine then uses a fixed default. So a value that cannot be expressed is refused by name; it is never sent as something else.

The servicers differ in what they repeat, and one rule covers them: ids come from the chunks; those of the closing message
count only where no chunk brought any.
"""

import re
from collections.abc import Sequence
from typing import overload

from google.protobuf.message import DecodeError
from smg_grpc_proto.generated import vllm_engine_pb2 as pb

from smg_core.engines.answers import (
    after_the_end,
    all_short,
    empty_response,
    garbled,
    join,
    unknown_choice,
)
from smg_core.engines.base import (
    Constraint,
    EngineLogprob,
    EngineOutput,
    EngineRequest,
    OutputDecoder,
    Unary,
)
from smg_core.engines.tensors import BytesLike
from smg_core.engines.vllm import calls
from smg_core.engines.vllm.media import VllmRequestMedia
from smg_core.engines.wire import float32, int32, nonzero, positive, tagged, uint32, varints_of
from smg_core.errors import EngineGarbled, UnsupportedParameter
from smg_core.events import FinishReason
from smg_core.request import Sampling
from smg_core.tokens import TokenIds

__all__ = ["VllmCodec"]

_MM_INPUTS, _EXTRA_MM_INPUTS = 7, 11  # field numbers of GenerateRequest, for what is framed by hand
_CHUNK_TAG = 0x0A  # first byte of a GenerateResponse that holds a chunk

_FINISH: dict[str, FinishReason] = {"stop": "stop", "": "stop", "length": "length", "abort": "abort"}


class VllmCodec:
    """vLLM, either servicer. Stateless: one instance serves every engine."""

    name = "vllm"
    facts = calls.FACTS
    generate_path = f"/{calls.SERVICE}/Generate"
    health = calls.HEALTH
    model = calls.MODEL
    describes = calls.DESCRIBES
    loads = calls.LOADS
    tokenizer = calls.TOKENIZER

    def generate(self, request: EngineRequest) -> bytes:
        """The GenerateRequest. Raises UnsupportedParameter or InvalidRequest naming a field that this dialect cannot express.

        The ids' varints are made once per prompt (`varints_of`) and framed here; the rest is serialized and put before.
        """
        if request.cache_salt is not None:
            raise UnsupportedParameter("This engine's protocol cannot carry a cache salt.", param="cache_salt")
        message = pb.GenerateRequest(
            request_id=request.id,
            sampling_params=_sampling(request.sampling, request.constraint),
            stream=request.stream,
        )
        if request.kv_transfer is not None:
            message.kv_transfer_params_json = request.kv_transfer
        if request.data_parallel_rank is not None:
            message.data_parallel_rank = request.data_parallel_rank
        tokenized = tagged(calls.INPUT_IDS, varints_of(request.input_ids))
        return b"".join((message.SerializeToString(), tagged(calls.TOKENIZED, tokenized), *_media(request.multimodal)))

    def decoder(self, request: EngineRequest) -> OutputDecoder:
        sampling = request.sampling
        if sampling.n == 1 and sampling.logprobs is None and sampling.prompt_logprobs is None:
            return _PlainDecoder()
        return _Decoder(sampling.n, sampling.logprobs)

    def abort(self, request_id: str) -> Unary[None]:
        return calls.abort(request_id)

    def embed(self, request_id: str, ids: TokenIds) -> Unary[tuple[list[float], int]]:
        return calls.embed(request_id, ids)


# --------------------------------------------------------------------------------------------------------- what is sent


def _sampling(asked: Sampling, constraint: Constraint | None) -> pb.SamplingParams:
    out = pb.SamplingParams(skip_special_tokens=asked.skip_special_tokens)
    if asked.temperature is not None:
        out.temperature = float32("sampling.temperature", asked.temperature)
    if asked.max_tokens is not None:
        out.max_tokens = uint32("sampling.max_tokens", asked.max_tokens)
    if asked.top_p is not None:
        out.top_p = nonzero("sampling.top_p", asked.top_p)
    if (
        asked.top_k is not None and asked.top_k != -1
    ):  # -1 and 0 both mean "all tokens", which is what 0 on the wire means
        out.top_k = uint32("sampling.top_k", asked.top_k)
    if asked.repetition_penalty is not None:
        out.repetition_penalty = nonzero("sampling.repetition_penalty", asked.repetition_penalty)
    if asked.min_tokens:
        out.min_tokens = uint32("sampling.min_tokens", asked.min_tokens)
    if asked.n != 1:
        out.n = positive("sampling.n", asked.n)
    _penalties(out, asked)
    _rare_sampling(out, asked)
    if constraint is not None:
        _constrain(out, constraint)
    return out


def _penalties(out: pb.SamplingParams, asked: Sampling) -> None:
    """Write the fields for which 0 is both the engine's default and "not set"."""
    if asked.min_p:
        out.min_p = float32("sampling.min_p", asked.min_p)
    if asked.frequency_penalty:
        out.frequency_penalty = float32("sampling.frequency_penalty", asked.frequency_penalty)
    if asked.presence_penalty:
        out.presence_penalty = float32("sampling.presence_penalty", asked.presence_penalty)


def _rare_sampling(out: pb.SamplingParams, asked: Sampling) -> None:
    """Write the fields that most requests do not set."""
    if asked.seed is not None:
        out.seed = int32("sampling.seed", asked.seed)
    if asked.stop:
        out.stop.extend(asked.stop)
    if asked.stop_token_ids:
        out.stop_token_ids.extend([uint32("sampling.stop_token_ids", token) for token in asked.stop_token_ids])
    if asked.ignore_eos:
        out.ignore_eos = True
    if asked.include_stop:
        out.include_stop_str_in_output = True
    if asked.logprobs is not None:
        out.logprobs = int32("sampling.logprobs", asked.logprobs)
    if asked.prompt_logprobs is not None:
        out.prompt_logprobs = int32("sampling.prompt_logprobs", asked.prompt_logprobs)
    for token, bias in (asked.logit_bias or {}).items():
        out.logit_bias[int32("sampling.logit_bias", token)] = float32("sampling.logit_bias", bias)


def _constrain(out: pb.SamplingParams, constraint: Constraint) -> None:
    if constraint.kind not in calls.FACTS.constraints:
        raise UnsupportedParameter(f"This engine knows no constraint {constraint.kind!r}.", param="response_format")
    if constraint.kind == "json_object":
        out.json_object = True
    elif constraint.kind == "choice":
        out.choice.choices.extend(constraint.choices)
    else:
        setattr(out, constraint.kind, constraint.value)


def _media(multimodal: object) -> list[BytesLike]:
    """One MultimodalInputs for each modality; the first has a field of its own."""
    if multimodal is None:
        return []
    if not isinstance(multimodal, VllmRequestMedia):
        raise UnsupportedParameter("These media were not prepared for this engine.", param="messages")
    pieces: list[BytesLike] = []
    for at, message in enumerate(multimodal.messages()):
        pieces += message.tagged(_EXTRA_MM_INPUTS if at else _MM_INPUTS)
    return pieces


# ---------------------------------------------------------------------------------------------------- what comes back


_parse_chunk = pb.GenerateStreamChunk.FromString
_VARINT = rb"[\x80-\xff]{0,4}[\x00-\x7f]"
_is_one_token = re.compile(
    rb"\x0a.\x0a(?:\x02[\x80-\xff][\x00-\x7f]|\x03[\x80-\xff]{2}[\x00-\x7f]|\x01[\x00-\x7f])"  # a chunk of one id
    rb"(?:\x10" + _VARINT + rb")?(?:\x18" + _VARINT + rb")?(?:\x20" + _VARINT + rb")?",  # the three counts
    re.DOTALL,
).fullmatch


def _one_token(message: bytes) -> int:
    """The id in a message that is a chunk of one token and its counts, as nearly all are; else -1. Takes a third of the time
    of parsing the message. The counts of a chunk that is not the first are not needed."""
    if not _is_one_token(message) or message[1] != len(message) - 2:
        return -1
    size = message[3]
    if size == 2:
        return message[4] & 127 | message[5] << 7
    if size == 3:
        return message[4] & 127 | (message[5] & 127) << 7 | message[6] << 14
    return message[4]


class _PlainDecoder:
    """Decodes calls with one choice and no logprobs, as nearly all are. Several chunks are parsed at once: protobuf merges
    messages that are concatenated, and merging joins their ids."""

    __slots__ = ("_done", "_seen")

    def __init__(self) -> None:
        self._seen = False
        self._done = False

    def feed(self, messages: Sequence[bytes]) -> list[EngineOutput]:
        if self._done:
            raise after_the_end(0)
        try:
            if len(messages) == 1:
                message = messages[0]
                if self._seen and (token := _one_token(message)) >= 0:
                    return [EngineOutput(0, (token,))]
                # a chunk, whole, with a length of one byte: parsed without its wrapper
                if message[0] == _CHUNK_TAG and message[1] == len(message) - 2:
                    return self._tokens(_parse_chunk(message[2:]))
            elif all_short(messages, _CHUNK_TAG):
                return self._tokens(pb.GenerateResponse.FromString(b"".join(messages)).chunk)
            elif len(messages) > 2 and all_short(messages[:-1], _CHUNK_TAG):
                return self._with_last(messages)
            return self._one_by_one(messages)
        except (DecodeError, IndexError) as error:
            raise garbled(error) from error

    def _tokens(self, chunk: pb.GenerateStreamChunk) -> list[EngineOutput]:
        ids = chunk.token_ids[:]
        if chunk.index:
            raise unknown_choice(chunk.index)
        if self._seen:
            return [EngineOutput(0, ids)] if ids else []  # the prompt's counts came with the first chunk
        if not ids:
            return []
        self._seen = True
        return [EngineOutput(0, ids, None, None, chunk.prompt_tokens, None, chunk.cached_tokens)]

    def _with_last(self, messages: Sequence[bytes]) -> list[EngineOutput]:
        outputs = self._tokens(pb.GenerateResponse.FromString(b"".join(messages[:-1])).chunk)
        return join(outputs, self._one_by_one(messages[-1:]))

    def _one_by_one(self, messages: Sequence[bytes]) -> list[EngineOutput]:
        outputs: list[EngineOutput] = []
        for message in messages:
            if self._done:
                raise after_the_end(0)
            response = pb.GenerateResponse.FromString(message)
            if response.HasField("chunk"):
                new = self._tokens(response.chunk)
            elif response.HasField("complete"):
                if response.complete.index:
                    raise unknown_choice(response.complete.index)
                self._done = True
                new = [_completed(response.complete, take_ids=not self._seen)]
            else:
                raise empty_response()
            outputs = join(outputs, new)
        return outputs


class _Decoder:
    """Decodes calls with several choices or logprobs. `seen` are the choices that have brought ids, `done` the complete ones."""

    __slots__ = ("_done", "_logprobs", "_n", "_prompted", "_seen")

    def __init__(self, n: int, logprobs: int | None) -> None:
        self._n = n
        self._logprobs = logprobs
        self._seen: set[int] = set()
        self._done: set[int] = set()
        self._prompted: set[int] = set()

    def feed(self, messages: Sequence[bytes]) -> list[EngineOutput]:
        outputs: list[EngineOutput] = []
        for message in messages:
            try:
                response = pb.GenerateResponse.FromString(message)
            except DecodeError as error:
                raise garbled(error) from error
            if response.HasField("chunk"):
                outputs = join(outputs, self._chunk(response.chunk))
            elif response.HasField("complete"):
                outputs = join(outputs, self._complete(response.complete))
            else:
                raise empty_response()
        return outputs

    def _chunk(self, chunk: pb.GenerateStreamChunk) -> list[EngineOutput]:
        index = self._open_choice(chunk.index)
        ids = chunk.token_ids[:]
        if not ids and not chunk.HasField("input_logprobs"):
            return []
        if ids:
            self._seen.add(index)
        output = EngineOutput(index, ids, None, None, chunk.prompt_tokens, None, chunk.cached_tokens)
        self._add_logprobs(output, chunk)
        return [output]

    def _complete(self, complete: pb.GenerateComplete) -> list[EngineOutput]:
        index = self._open_choice(complete.index)
        self._done.add(index)
        take_ids = index not in self._seen
        output = _completed(complete, take_ids=take_ids)
        if take_ids:
            self._add_logprobs(output, complete)
        return [output]

    def _open_choice(self, index: int) -> int:
        if index >= self._n:
            raise unknown_choice(index)
        if index in self._done:
            raise after_the_end(index)
        return index

    def _add_logprobs(self, output: EngineOutput, message: pb.GenerateStreamChunk | pb.GenerateComplete) -> None:
        if self._logprobs is not None and message.HasField("output_logprobs"):
            output.logprobs = _output_logprobs(message.output_logprobs, output.ids, self._logprobs)
        if message.HasField("input_logprobs") and output.index not in self._prompted:
            self._prompted.add(output.index)
            output.prompt_logprobs = _input_logprobs(message.input_logprobs)


def _completed(complete: pb.GenerateComplete, *, take_ids: bool) -> EngineOutput:
    matched: str | int | None = None
    if kind := complete.WhichOneof("matched_stop"):
        matched = getattr(complete, kind)
    return EngineOutput(
        index=complete.index,
        ids=complete.output_ids[:] if take_ids else (),
        finish=_FINISH.get(complete.finish_reason, "error"),
        matched=matched,
        prompt_tokens=complete.prompt_tokens,
        cached_tokens=complete.cached_tokens,
        kv_transfer=complete.kv_transfer_params_json if complete.HasField("kv_transfer_params_json") else None,
    )


def _output_logprobs(message: pb.OutputLogProbs, ids: Sequence[int], most: int) -> Sequence[EngineLogprob]:
    """One row an id. The engine adds the sampled token to the alternatives where it is not among them."""
    if len(message.token_logprobs) != len(ids):
        raise EngineGarbled(f"The engine sent {len(message.token_logprobs)} logprobs for {len(ids)} tokens.")
    rows = _Rows(message, ids, most)
    return rows if len(ids) > _MADE_AT_ONCE else rows[:]


class _Rows(Sequence[EngineLogprob]):
    """The rows of `_output_logprobs`, each made when it is read: an answer that is not streamed has all its tokens in one
    message."""

    def __init__(self, message: pb.OutputLogProbs, ids: Sequence[int], most: int) -> None:
        self._message, self._ids = message, ids
        self._most = most if most >= 0 else None
        self._tops = len(message.top_logprobs) if most else 0

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, at: int) -> EngineLogprob: ...
    @overload
    def __getitem__(self, at: slice) -> list[EngineLogprob]: ...
    def __getitem__(self, at: int | slice) -> EngineLogprob | list[EngineLogprob]:
        numbers = range(len(self._ids))[at]
        return self._row(numbers) if isinstance(numbers, int) else [self._row(number) for number in numbers]

    def _row(self, number: int) -> EngineLogprob:
        top = _top(self._message.top_logprobs[number])[: self._most] if number < self._tops else ()
        return EngineLogprob(self._ids[number], self._message.token_logprobs[number], top)


def _input_logprobs(message: pb.InputLogProbs) -> list[EngineLogprob | None]:
    """One row a prompt token; None for the first, which nothing predicts."""
    tops = [_top(row) for row in message.top_logprobs]
    tops += [()] * (len(message.token_ids) - len(tops))
    return [
        EngineLogprob(token, value.value, top) if value.HasField("value") else None
        for token, value, top in zip(message.token_ids, message.token_logprobs, tops, strict=False)
    ]


_MADE_AT_ONCE = 16


def _top(row: pb.TopLogProbs) -> tuple[tuple[int, float], ...]:
    return tuple(sorted(zip(row.token_ids, row.values, strict=False), key=lambda pair: -pair[1]))
