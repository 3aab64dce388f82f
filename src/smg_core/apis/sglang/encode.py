"""Encodes the answer to a request to SGLang's `/generate`: from events to server-sent events or JSON objects.

An answer has its text, the ids of its tokens, and `meta_info`. A streamed chunk has all of that from the beginning on, not only
what is new; what is written for each chunk is therefore kept as bytes that only grow. A list of prompts has a list of answers, or
chunks with the `index` of their answer. Pure. Above: the server. Below: events, sglang, json_text.
"""

import copy
from collections.abc import Sequence

from smg_core.apis.sglang.decode import SglangRequest
from smg_core.errors import ClientGone, SmgError
from smg_core.events import Cancelled, Done, Event, Failed, Finished, Started, TextDelta, TokenLogprob, Usage
from smg_core.json_types import JsonObject
from smg_core.sse import COMMENT
from smg_core.wire.errors import openai_error
from smg_core.wire.json_text import encode_object, encode_text
from smg_core.wire.logprobs import finite

__all__ = ["SglangAnswers", "SglangPart", "SglangStreamEncoder", "SglangWholeEncoder", "merge_sglang"]

_DONE = b"data: [DONE]\n\n"


class _Rows:
    """Logprobs as SGLang writes them: `[logprob, id, text]` for each token, and a list of such for its alternatives."""

    __slots__ = ("_texts", "chosen", "count", "tops")

    def __init__(self, *, texts: bool) -> None:
        self._texts = texts
        self.chosen, self.tops, self.count = bytearray(), bytearray(), 0

    def fork(self) -> "_Rows":
        other = copy.copy(self)
        other.chosen, other.tops = self.chosen[:], self.tops[:]
        return other

    def add(self, token: TokenLogprob, *, scored: bool = True) -> None:
        """Append a token; one that is not `scored` has no logprob."""
        if self.count:
            self.chosen += b","
            self.tops += b","
        self.count += 1
        known = scored and token.logprob is not None
        self.chosen += encode_object(self._row(finite(token.logprob) if known else None, token.id, token.token))
        tops = [self._row(finite(top.logprob), top.id, top.token) for top in token.top] if known else None
        self.tops += encode_object(tops)

    def _row(self, logprob: float | None, token: int | None, text: str) -> list[float | int | str | None]:
        return [logprob, token, text if self._texts else None]


class _Choice:
    """What one answer has so far. `number` is its place among all answers, `part` that of its prompt."""

    __slots__ = (
        "_count",
        "_echoed",
        "_finished",
        "_ids",
        "_input",
        "_number",
        "_output",
        "_part",
        "_request",
        "_text",
    )

    def __init__(self, request: SglangRequest, part: int, number: int) -> None:
        self._request, self._part, self._number = request, part, number
        self._text, self._ids, self._count = bytearray(), bytearray(), 0
        self._echoed = 0  # tokens of the prompt that have come
        self._input, self._output = _Rows(texts=request.texts), _Rows(texts=request.texts)
        self._finished: Finished | None = None

    def fork(self) -> "_Choice":
        """An independent copy."""
        other = copy.copy(self)
        other._text, other._ids = self._text[:], self._ids[:]
        other._input, other._output = self._input.fork(), self._output.fork()
        return other

    def add(self, event: TextDelta) -> None:
        """Take in a text. The echo of the prompt has only logprobs for the answer."""
        if event.echo:
            self._score_prompt(event.logprobs)
            return
        self._text += encode_text(event.text)[1:-1]
        if event.ids:
            self._ids += (b"," if self._count else b"") + b",".join([b"%d" % each for each in event.ids])
            self._count += len(event.ids)
        for each in event.logprobs:
            self._output.add(each)

    def _score_prompt(self, logprobs: Sequence[TokenLogprob]) -> None:
        start = self._request.scored_from[self._part] or 0
        for each in logprobs[max(0, start - self._echoed) :]:
            self._input.add(each, scored=self._input.count > 0)
        self._echoed += len(logprobs)

    def finish(self, event: Finished) -> None:
        """The answer is complete."""
        self._finished = event

    def written(self, prompt_tokens: int, cached_tokens: int, *, index: bool = False) -> bytes:
        """The JSON object of all there is so far."""
        meta: list[bytes] = [b'"id":' + encode_text(self._request.ids[self._number])]
        meta.append(b'"finish_reason":' + encode_object(self._finish_reason()))
        meta.append(b'"prompt_tokens":%d' % prompt_tokens)
        asked = self._request.generations[self._part].sampling
        if asked.logprobs is not None:
            self._tell_logprobs(meta, with_tops=asked.logprobs > 0)
        meta.append(b'"completion_tokens":%d,"cached_tokens":%d' % (self._count, cached_tokens))
        number = b',"index":%d' % self._number if index else b""
        fields = b",".join(meta)
        meta_info = b'],"meta_info":{' + fields + b"}" + number + b"}"
        return b"".join((b'{"text":"', self._text, b'","output_ids":[', self._ids, meta_info))

    def _tell_logprobs(self, meta: list[bytes], *, with_tops: bool) -> None:
        before, after = self._input, self._output
        meta += (_listed("input_token_logprobs", before.chosen), _listed("output_token_logprobs", after.chosen))
        meta.append(b'"output_token_logprobs_length":%d' % after.count)
        if with_tops:
            meta += (_listed("input_top_logprobs", before.tops), _listed("output_top_logprobs", after.tops))

    def _finish_reason(self) -> JsonObject | None:
        event = self._finished
        if event is None:
            return None
        if event.reason in ("length", "context"):
            return {"type": "length", "length": self._count}
        if event.reason in ("abort", "error"):
            return {"type": "abort", "message": "The engine ended this answer."}
        return {"type": "stop", "matched": event.matched}


def _listed(name: str, rows: bytearray) -> bytes:
    return b"".join((b'"', name.encode(), b'":[', rows, b"]"))


class _Choices:
    """The answers to prompt number `part`, and its counts of tokens."""

    def __init__(self, request: SglangRequest, part: int) -> None:
        self._request, self._part = request, part
        self._choices = [_Choice(request, part, part * request.n + order) for order in range(request.n)]
        self._prompt_tokens = self._cached_tokens = 0

    def _take(self, event: Event) -> int | None:
        """Take in an event; returns the place of the choice that it changed. The prompt's logprobs change none: they come in
        parts, and a chunk for each part would have all parts before it again."""
        match event:
            case TextDelta():
                self._choices[event.index].add(event)
                return None if event.echo else event.index
            case Finished():
                self._choices[event.index].finish(event)
                return event.index
            case Started() | Usage():
                self._prompt_tokens = event.prompt_tokens
                self._cached_tokens = event.cached_tokens or 0
        return None

    def _written(self, order: int, *, index: bool = False) -> bytes:
        return self._choices[order].written(self._prompt_tokens, self._cached_tokens, index=index)


# ------------------------------------------------------------------------------------------------------------ streams


class SglangPart(_Choices):
    """The chunks of the answers to prompt number `part`; the end of the stream is not among them."""

    content_type = "text/event-stream; charset=utf-8"

    def __init__(self, request: SglangRequest, created: int, part: int = 0) -> None:
        super().__init__(request, part)
        self._ended = False

    def start(self) -> bytes:
        """Nothing: the response stays uncommitted until the first event."""
        return b""

    def keep_alive(self) -> bytes:
        """A comment, which clients of server-sent events pass over."""
        return COMMENT

    def encode(self, events: Sequence[Event]) -> bytes:
        """One chunk for each answer that `events` changed, since a later chunk has all of an earlier one; nothing after the
        end."""
        changed: dict[int, None] = {}
        frames: list[bytes] = []
        for event in events:
            if self._ended:
                break
            order = self._take(event)
            if order is not None:
                changed[order] = None
            elif type(event) in (Done, Failed, Cancelled):
                frames += self._chunks(changed)
                self._end(event, frames)
                changed = {}
        return b"".join([*frames, *self._chunks(changed)])

    def _chunks(self, changed: dict[int, None]) -> list[bytes]:
        listed = self._request.listed
        return [b"data: " + self._written(order, index=listed) + b"\n\n" for order in changed]

    def _end(self, event: Event, frames: list[bytes]) -> None:
        """Nothing: other parts may go on."""


class SglangStreamEncoder(SglangPart):
    """One streamed response. For a body of several prompts it writes the end alone."""

    def _end(self, event: Event, frames: list[bytes]) -> None:
        self._ended = True
        if isinstance(event, Failed):
            frames += (b"data: ", openai_error(event.error, locate=self._request.locate), b"\n\n")
        if not isinstance(event, Cancelled):
            frames.append(_DONE)


# -------------------------------------------------------------------------------------------------------- whole bodies


class SglangAnswers(_Choices):
    """The answers to prompt number `part`, as JSON objects with commas between them."""

    content_type = "application/json"

    def __init__(self, request: SglangRequest, created: int, part: int = 0) -> None:
        super().__init__(request, part)
        self._error: SmgError | None = None

    def add(self, events: Sequence[Event]) -> None:
        """Take in events."""
        for event in events:
            self._take(event)
            if isinstance(event, Failed):
                self._error = event.error
            elif isinstance(event, Cancelled):
                self._error = ClientGone("The request was cancelled.")

    def fork(self) -> "SglangAnswers":
        """An independent copy with the same events so far."""
        other = copy.copy(self)
        other._choices = [choice.fork() for choice in self._choices]
        return other

    def body(self) -> bytes:
        """The answers. Raises the error of a `Failed` event, and `ClientGone` after a `Cancelled`."""
        if self._error is not None:
            raise self._error
        return b",".join([self._written(order) for order in range(len(self._choices))])


class SglangWholeEncoder(SglangAnswers):
    """One whole response to a body of one prompt."""

    def body(self) -> bytes:
        """One object, or a list. Raises as `SglangAnswers.body`."""
        return merge_sglang(self._request, [super().body()])


def merge_sglang(request: SglangRequest, answers: Sequence[bytes]) -> bytes:
    """The body of the answers to all prompts, in their order."""
    joined = b",".join(answers)
    return b"[%b]" % joined if request.listed else joined
