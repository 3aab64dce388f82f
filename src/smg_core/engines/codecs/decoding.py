"""Reads the answers of dialects that send chunks and a closing message: all but the neutral one.

Decides what counts as new. One rule covers what engines repeat: ids come from the chunks; those of the closing message count only
where no chunk brought any. Counts of tokens are made from the ids, since engines count chunks in different ways. Pure. Above: the
codecs, each of which gives a `Wording`. Knows protobuf's framing and the field names that most of these dialects share, but none
of them.
"""

import re
from collections.abc import Callable, Collection, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, Protocol

import attrs
from google.protobuf.message import DecodeError

from smg_core.engines.base import EngineLogprob, EngineOutput, EngineRequest, OutputDecoder
from smg_core.engines.codecs.answers import (
    LazyRows,
    after_the_end,
    all_short,
    empty_response,
    garbled,
    join,
    unknown_choice,
)
from smg_core.engines.codecs.protobuf import tagged
from smg_core.errors import EngineGarbled
from smg_core.events import FinishReason

__all__ = [
    "FINISH",
    "ClosingMessage",
    "TokenChunk",
    "Wording",
    "decoder_of",
    "matched_stop",
    "output_scores",
    "prompt_scores",
]

FINISH: dict[str, FinishReason] = {"stop": "stop", "": "stop", "length": "length", "abort": "abort"}
"""The engines' finish words; any other is an error."""

_REQUEST_ID = 1  # field number in a response that repeats the request's id
_LENGTH_DELIMITED = 2
_MADE_AT_ONCE = 16


class _Top(Protocol):
    token_ids: Sequence[int]
    values: Sequence[float]


class _Scores(Protocol):
    token_ids: Sequence[int]
    token_logprobs: Sequence[float]
    top_logprobs: Sequence[_Top]


class _PromptScore(Protocol):
    value: float

    def HasField(self, name: str, /) -> bool: ...  # noqa: N802  # protobuf's own name


class _PromptScores(Protocol):
    token_ids: Sequence[int]
    token_logprobs: Sequence[_PromptScore]
    top_logprobs: Sequence[_Top]


class _Scored(Protocol):
    """A message that may hold logprobs."""

    output_logprobs: _Scores
    input_logprobs: _PromptScores

    def HasField(self, name: str, /) -> bool: ...  # noqa: N802  # protobuf's own name


class TokenChunk(Protocol):
    """New tokens of a streamed choice."""

    token_ids: Sequence[int]
    prompt_tokens: int
    cached_tokens: int


class ClosingMessage(Protocol):
    """The end of a choice."""

    finish_reason: str
    prompt_tokens: int
    cached_tokens: int


class _Response(Protocol):
    chunk: TokenChunk
    complete: ClosingMessage

    def HasField(self, name: str, /) -> bool: ...  # noqa: N802  # protobuf's own name


def matched_stop(complete: Any, stops: Collection[int]) -> str | int | None:
    """What ended a choice, by the closing message's oneof `matched_stop`: a stop string, or one of `stops`, the tokens that the
    request named. Engines name their end token there too, which no request did."""
    kind = complete.WhichOneof("matched_stop")
    matched: str | int | None = getattr(complete, kind) if kind else None
    return matched if isinstance(matched, str) or matched in stops else None


def output_scores(message: _Scored, ids: Sequence[int], most: int) -> Sequence[EngineLogprob]:
    """The logprobs of `ids`, with at most `most` alternatives each (-1: all), from arrays that lie side by side; () where the
    message has none."""
    return _output_logprobs(message.output_logprobs, ids, most) if message.HasField("output_logprobs") else ()


def prompt_scores(message: _Scored, most: int) -> Sequence[EngineLogprob | None]:
    """The logprobs of the prompt's tokens, with at most `most` alternatives each (-1: all); () where the message has none."""
    return _input_logprobs(message.input_logprobs, most) if message.HasField("input_logprobs") else ()


@attrs.frozen
class Wording:
    """The messages of one dialect.

    `response` and `chunk` parse a response and the chunk inside one; `completed` reads a closing message, with or without its
    ids. `chunk_field` is the chunk's field number in a response, `counts` those of the three counts in a chunk. `index` reads the
    choice's number from a chunk or a closing message. `scores` reads the logprobs of ids from either, and `prompt_scores` those
    of the prompt (None: the dialect has no field for them). `names_request`: every response begins with the request's id.
    """

    response: Callable[[bytes], _Response]
    chunk: Callable[[bytes], TokenChunk]
    completed: Callable[..., EngineOutput]
    chunk_field: int = 1
    counts: tuple[int, int, int] = (2, 3, 4)
    index: Callable[[Any], int] = attrgetter("index")
    scores: Callable[[Any, Sequence[int], int], Sequence[EngineLogprob]] = output_scores
    prompt_scores: Callable[[Any, int], Sequence[EngineLogprob | None]] | None = None
    names_request: bool = False


def decoder_of(wording: Wording, request: EngineRequest) -> OutputDecoder:
    """A decoder for the one call that `request` started."""
    asked = request.sampling
    if asked.n == 1 and asked.logprobs is None and asked.prompt_logprobs is None:
        head = tagged(_REQUEST_ID, request.id.encode()) if wording.names_request else b""
        return _PlainDecoder(wording, head)
    return _Decoder(wording, asked.n, asked.logprobs, asked.prompt_logprobs)


_VARINT = rb"[\x80-\xff]{0,4}[\x00-\x7f]"
_ONE_ID = rb"\x0a(?:\x02[\x80-\xff][\x00-\x7f]|\x03[\x80-\xff]{2}[\x00-\x7f]|\x01[\x00-\x7f])"


@cache
def _one_token_pattern(chunk_field: int, counts: tuple[int, int, int]) -> Callable[[bytes], object]:
    """Matches a message that is a chunk of one id and its counts. As many patterns are kept as there are dialects."""
    tag = re.escape(bytes([chunk_field << 3 | _LENGTH_DELIMITED]))
    rest = b"".join(b"(?:" + re.escape(bytes([field << 3])) + _VARINT + b")?" for field in counts)
    return re.compile(tag + b"." + _ONE_ID + rest, re.DOTALL).fullmatch


class _PlainDecoder:
    """Decodes calls with one choice and no logprobs, as nearly all are. Several chunks are parsed at once: protobuf merges
    messages that are concatenated, and merging joins their ids. `head` is how every message begins, b"" where that is nothing:
    the request's id, which is cut off first."""

    __slots__ = ("_done", "_head", "_one_token", "_seen", "_tag", "_wording")

    def __init__(self, wording: Wording, head: bytes) -> None:
        self._wording = wording
        self._head = head
        self._tag = wording.chunk_field << 3 | _LENGTH_DELIMITED
        self._one_token = _one_token_pattern(wording.chunk_field, wording.counts)
        self._seen = False
        self._done = False

    def feed(self, messages: Sequence[bytes]) -> list[EngineOutput]:
        if self._done:
            raise after_the_end(0)
        if self._head:
            messages = [each.removeprefix(self._head) for each in messages]
        tag = self._tag
        try:
            if len(messages) == 1:
                message = messages[0]
                # a chunk, whole, with a length of one byte
                if message[0] == tag and message[1] == len(message) - 2:
                    if self._seen and self._one_token(message):
                        # An id and counts, as nearly all have, takes a third of the time of parsing. The counts of a chunk
                        # that is not the first are not needed.
                        token = message[4] & 127
                        if (size := message[3]) > 1:
                            token |= (message[5] & 127) << 7
                            if size > 2:
                                token |= message[6] << 14
                        return [EngineOutput(0, (token,))]
                    return self._tokens(self._wording.chunk(message[2:]))
            elif all_short(messages, tag):
                return self._tokens(self._wording.response(b"".join(messages)).chunk)
            elif len(messages) > 2 and all_short(messages[:-1], tag):
                return self._with_last(messages)
            return self._one_by_one(messages)
        except (DecodeError, IndexError) as error:
            raise garbled(error) from error

    def _tokens(self, chunk: TokenChunk) -> list[EngineOutput]:
        ids = chunk.token_ids[:]
        if index := self._wording.index(chunk):
            raise unknown_choice(index)
        if self._seen:
            return [EngineOutput(0, ids)] if ids else []  # the prompt's counts came with the first chunk
        if not ids:
            return []
        self._seen = True
        return [EngineOutput(0, ids, None, None, chunk.prompt_tokens, None, chunk.cached_tokens)]

    def _with_last(self, messages: Sequence[bytes]) -> list[EngineOutput]:
        outputs = self._tokens(self._wording.response(b"".join(messages[:-1])).chunk)
        return join(outputs, self._one_by_one(messages[-1:]))

    def _one_by_one(self, messages: Sequence[bytes]) -> list[EngineOutput]:
        outputs: list[EngineOutput] = []
        for message in messages:
            if self._done:
                raise after_the_end(0)
            response = self._wording.response(message)
            if response.HasField("chunk"):
                new = self._tokens(response.chunk)
            elif response.HasField("complete"):
                if index := self._wording.index(response.complete):
                    raise unknown_choice(index)
                self._done = True
                new = [self._wording.completed(response.complete, take_ids=not self._seen)]
            else:
                raise empty_response()
            outputs = join(outputs, new)
        return outputs


class _Decoder:
    """Decodes calls with several choices or logprobs. `seen` are the choices that have brought ids, `done` the complete ones."""

    __slots__ = ("_done", "_logprobs", "_n", "_prompt_logprobs", "_prompt_rows", "_prompted", "_seen", "_wording")

    def __init__(self, wording: Wording, n: int, logprobs: int | None, prompt_logprobs: int | None) -> None:
        self._wording = wording
        self._n = n
        self._logprobs = logprobs
        self._prompt_logprobs = prompt_logprobs
        self._seen: set[int] = set()
        self._done: set[int] = set()
        self._prompt_rows: Sequence[EngineLogprob | None] = ()
        self._prompted: set[int] = set()

    def feed(self, messages: Sequence[bytes]) -> list[EngineOutput]:
        outputs: list[EngineOutput] = []
        for message in messages:
            try:
                response = self._wording.response(message)
            except DecodeError as error:
                raise garbled(error) from error
            if response.HasField("chunk"):
                outputs = join(outputs, self._chunk(response.chunk))
            elif response.HasField("complete"):
                outputs = join(outputs, self._complete(response.complete))
            else:
                raise empty_response()
        return outputs

    def _chunk(self, chunk: TokenChunk) -> list[EngineOutput]:
        index = self._open_choice(self._wording.index(chunk))
        ids = chunk.token_ids[:]
        if ids:
            self._seen.add(index)
        output = EngineOutput(index, ids, None, None, chunk.prompt_tokens, None, chunk.cached_tokens)
        self._add_logprobs(output, chunk)
        return [output] if ids or output.prompt_logprobs else []

    def _complete(self, complete: ClosingMessage) -> list[EngineOutput]:
        index = self._open_choice(self._wording.index(complete))
        self._done.add(index)
        take_ids = index not in self._seen
        output = self._wording.completed(complete, take_ids=take_ids)
        if take_ids:
            self._add_logprobs(output, complete)
        elif self._prompt_rows and index not in self._prompted:
            output.prompt_logprobs = self._prompt_rows
        return [output]

    def _open_choice(self, index: int) -> int:
        if index >= self._n:
            raise unknown_choice(index)
        if index in self._done:
            raise after_the_end(index)
        return index

    def _add_logprobs(self, output: EngineOutput, message: TokenChunk | ClosingMessage) -> None:
        if self._logprobs is not None:
            output.logprobs = self._wording.scores(message, output.ids, self._logprobs)
        read = self._wording.prompt_scores
        if read is None or self._prompt_logprobs is None or output.index in self._prompted:
            return
        if not self._prompt_rows:
            self._prompt_rows = read(message, self._prompt_logprobs)
        if self._prompt_rows:  # of all choices, whichever the engine sent them with
            self._prompted.add(output.index)
            output.prompt_logprobs = self._prompt_rows


def _output_logprobs(message: _Scores, ids: Sequence[int], most: int) -> Sequence[EngineLogprob]:
    """One row an id. The engine adds the sampled token to the alternatives where it is not among them."""
    if len(message.token_logprobs) != len(ids):
        raise EngineGarbled(f"The engine sent {len(message.token_logprobs)} logprobs for {len(ids)} tokens.")
    kept, tops = (most if most >= 0 else None), (len(message.top_logprobs) if most else 0)

    def row(number: int) -> EngineLogprob:
        top = _top(message.top_logprobs[number])[:kept] if number < tops else ()
        return EngineLogprob(ids[number], message.token_logprobs[number], top)

    rows = LazyRows(len(ids), row)
    return rows if len(ids) > _MADE_AT_ONCE else rows[:]


def _input_logprobs(message: _PromptScores, most: int) -> Sequence[EngineLogprob | None]:
    """One row a prompt token; None for the first, which nothing predicts."""
    kept, tops = (most if most >= 0 else None), (len(message.top_logprobs) if most else 0)

    def row(number: int) -> EngineLogprob | None:
        value = message.token_logprobs[number]
        if not value.HasField("value"):
            return None
        top = _top(message.top_logprobs[number])[:kept] if number < tops else ()
        return EngineLogprob(message.token_ids[number], value.value, top)

    return LazyRows(min(len(message.token_ids), len(message.token_logprobs)), row)


def _top(row: _Top) -> tuple[tuple[int, float], ...]:
    return tuple(sorted(zip(row.token_ids, row.values, strict=False), key=lambda pair: -pair[1]))
