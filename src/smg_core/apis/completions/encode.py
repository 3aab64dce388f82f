"""Encodes the answer to a Completions request: from events to server-sent events or one JSON object.

The answer to a body with several prompts is put together from parts, one for each prompt: `CompletionPart` encodes the chunks
of one for a stream, `CompletionChoices` the choices of one for a whole answer, and `merge_choices` puts those into one body.
With `best_of`, the likeliest choices are kept, by the mean logprob of their tokens.

With `return_token_ids` each choice has `prompt_token_ids`, in a stream its first chunk, and `token_ids`, those of a chunk being
the new ones (vLLM's fields). What the API cannot express is left out: reasoning, refusals, calls, annotations. Pure. Above: the
server. Below: events, completions, json_text.
"""

import codecs
import copy
from array import array
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from smg_core.apis.chat.blocks import usage_object
from smg_core.apis.completions.decode import CompletionRequest
from smg_core.errors import ClientGone, SmgError
from smg_core.events import (
    NO_USAGE,
    Cancelled,
    Done,
    Event,
    Failed,
    Finished,
    FinishReason,
    Started,
    TextDelta,
    TokenLogprob,
    Usage,
)
from smg_core.json_types import JsonObject
from smg_core.sse import COMMENT
from smg_core.wire.errors import openai_error
from smg_core.wire.json_text import encode_body, encode_object, encode_text
from smg_core.wire.logprobs import finite

__all__ = [
    "CompletionChoices",
    "CompletionPart",
    "CompletionStreamEncoder",
    "CompletionWholeEncoder",
    "merge_choices",
]

_FINISH: dict[FinishReason, str] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "abort": "abort",
    "error": "error",
    "context": "length",
    "refusal": "stop",
    "pause": "stop",
    "tool_calls": "stop",
    "malformed_call": "stop",
}
"""The API's names of the reasons; "abort" and "error" are those that engines of this API write."""


def _head(request: CompletionRequest, created: int) -> JsonObject:
    """The first fields of a chunk or body. The id is the first request's, without the number of its prompt."""
    first = request.generation
    response_id = first.id if len(request.generations) == 1 else first.id.rpartition("-")[0]
    return {"id": response_id, "object": "text_completion", "created": created, "model": first.model}


# ------------------------------------------------------------------------------------------------------------ streams


class CompletionPart:
    """The chunks of the choices of prompt number `part`; the end of the stream is not among them. `created` is seconds since the
    epoch."""

    content_type = "text/event-stream; charset=utf-8"

    def __init__(self, request: CompletionRequest, created: int, part: int = 0) -> None:
        self._request = request
        self._part = part
        self._open = b"data: " + encode_object(_head(request, created))[:-1] + b',"choices":['
        self._close = b'],"usage":null}\n\n' if request.include_usage else b"]}\n\n"
        self._text_suffix = b',"logprobs":null,"finish_reason":null}' + self._close
        self._text_prefix: dict[int, bytes] = {}
        self._tokens: dict[int, _Tokens] = {}
        self._prompt_ids = b""  # the field that tells them, where they are asked for
        self._usage_so_far = NO_USAGE
        self._ended = False

    def start(self) -> bytes:
        """Nothing: the response stays uncommitted until the first event."""
        return b""

    def keep_alive(self) -> bytes:
        """A comment, which clients of server-sent events pass over."""
        return COMMENT

    def encode(self, events: Sequence[Event]) -> bytes:
        """The frames of `events`, in order; nothing after the end."""
        frames: list[bytes] = []
        for event in events:
            if self._ended:
                break
            if type(event) is TextDelta:
                self._text(event, frames)
            elif type(event) is Finished:
                self._finished(event, frames)
            elif type(event) is Started:
                if self._request.counts:
                    self._usage_so_far = Usage(event.prompt_tokens, 0, event.cached_tokens or 0)
                    self._count(0)
                if self._request.generation.sampling.token_ids and not self._request.hides_ids:
                    self._prompt_ids = b',"prompt_token_ids":' + msgspec.json.encode(event.prompt_ids)
            elif type(event) in (Usage, Done, Failed, Cancelled):
                self._end(event, frames)
        return b"".join(frames)

    def _count(self, tokens: int) -> None:
        """Have the chunks that follow tell the usage so far, with so many tokens more."""
        so_far = self._usage_so_far
        self._usage_so_far = so_far = replace(so_far, completion_tokens=so_far.completion_tokens + tokens)
        self._close = b'],"usage":%b}\n\n' % encode_object(usage_object(so_far))
        self._text_suffix = b',"logprobs":null,"finish_reason":null}' + self._close

    def _text(self, event: TextDelta, frames: list[bytes]) -> None:
        if self._request.counts and event.ids:
            self._count(len(event.ids))
        prefix, ids = self._text_prefix.get(event.index), b""
        if prefix is None:
            number = self._part * self._request.n + event.index
            prefix = self._text_prefix[event.index] = self._open + b'{"index":%d,"text":' % number
            ids = self._prompt_ids
        if event.ids and self._prompt_ids:
            ids += b',"token_ids":' + msgspec.json.encode(event.ids)
        if not event.logprobs:
            if event.text or ids:
                frames += (prefix, encode_text(event.text), ids, self._text_suffix)
            return
        tokens = self._tokens.get(event.index)
        if tokens is None:
            tokens = self._tokens[event.index] = _Tokens(_first_offset(self._request, self._part))
        tokens.add(event.logprobs)
        logprobs = tokens.take()
        frames += (prefix, encode_text(event.text), ids)
        frames += (b',"logprobs":', logprobs, b',"finish_reason":null}', self._close)

    def _finished(self, event: Finished, frames: list[bytes]) -> None:
        choice: JsonObject = {
            "index": self._part * self._request.n + event.index,
            "text": "",
            "logprobs": None,
            **_ending(event),
        }
        frames += (self._open, encode_object(choice), self._close)

    def _end(self, event: Event, frames: list[bytes]) -> None:
        """Nothing: other parts may go on."""


class CompletionStreamEncoder(CompletionPart):
    """One streamed response. For a body of several prompts it writes the end alone."""

    def _end(self, event: Event, frames: list[bytes]) -> None:
        match event:
            case Usage():
                if self._request.include_usage:
                    frames += (self._open, b'],"usage":', encode_object(usage_object(event)), b"}\n\n")
            case Done():
                self._ended = True
                frames.append(b"data: [DONE]\n\n")
            case Failed():
                self._ended = True
                frames += (b"data: ", openai_error(event.error, locate=self._request.locate), b"\n\n")
            case Cancelled():
                self._ended = True


# -------------------------------------------------------------------------------------------------------- whole bodies


class _Choice:
    """The events of one choice so far; `total` and `count` are of the logprobs of its tokens, the prompt's not among them."""

    __slots__ = ("count", "finished", "ids", "text", "tokens", "total")

    def __init__(self, offset: int) -> None:
        self.text: list[str] = []
        self.tokens = _Tokens(offset)
        self.finished: Finished | None = None
        self.total, self.count = 0.0, 0
        self.ids = array("Q")  # of its tokens, where they are asked for

    def fork(self) -> "_Choice":
        """An independent copy."""
        other = copy.copy(self)
        other.text, other.tokens, other.ids = self.text.copy(), self.tokens.fork(), self.ids[:]
        return other

    @property
    def likelihood(self) -> float:
        """The mean logprob of its tokens."""
        return self.total / self.count if self.count else 0.0


class CompletionChoices:
    """The choices of prompt number `part`, as JSON objects with commas between them."""

    content_type = "application/json"

    def __init__(self, request: CompletionRequest, created: int, part: int = 0) -> None:
        self._request = request
        self._created = created
        self._part = part
        offset, asked = _first_offset(request, part), request.generation.sampling
        self._choices = [_Choice(offset) for _ in range(asked.n)]
        self._prompt_ids: tuple[int, ...] = ()
        self._usage: Usage | None = None
        self._error: SmgError | None = None

    def add(self, events: Sequence[Event]) -> None:
        """Take in events."""
        for event in events:
            match event:
                case Started():
                    self._prompt_ids = event.prompt_ids
                case TextDelta():
                    self._text(event, self._choices[event.index])
                case Finished():
                    self._choices[event.index].finished = event
                case Usage():
                    self._usage = event
                case Failed():
                    self._error = event.error
                case Cancelled():
                    self._error = ClientGone("The request was cancelled.")

    def _text(self, event: TextDelta, choice: _Choice) -> None:
        choice.text.append(event.text)
        if event.ids:
            choice.ids.extend(event.ids)
        if self._request.logprobs is not None:
            choice.tokens.add(event.logprobs)
        if not event.echo:
            choice.total += sum([each.logprob or 0.0 for each in event.logprobs])
            choice.count += len(event.logprobs)

    def fork(self) -> "CompletionChoices":
        """An independent copy with the same events so far."""
        other = copy.copy(self)
        other._choices = [choice.fork() for choice in self._choices]
        return other

    def body(self) -> bytes:
        """The choices. Raises the error of a `Failed` event, and `ClientGone` after a `Cancelled`."""
        if self._error is not None:
            raise self._error
        kept = self._choices
        if len(kept) > self._request.n:
            kept = sorted(kept, key=lambda choice: -choice.likelihood)[: self._request.n]
        first = self._part * self._request.n
        return encode_body([self._choice(first + order, choice) for order, choice in enumerate(kept)])[1:-1]

    def _choice(self, index: int, choice: _Choice) -> JsonObject:
        return {
            "index": index,
            "text": "".join(choice.text),
            "logprobs": None if self._request.logprobs is None else msgspec.Raw(choice.tokens.take()),
            **(_ending(choice.finished) if choice.finished is not None else {"finish_reason": None}),
            **(self._ids(choice) if self._request.generation.sampling.token_ids else {}),
        }

    def _ids(self, choice: _Choice) -> JsonObject:
        return {"prompt_token_ids": self._prompt_ids, "token_ids": choice.ids.tolist()}


class CompletionWholeEncoder(CompletionChoices):
    """One whole response to a body of one prompt."""

    def body(self) -> bytes:
        """The `text_completion` object. Raises as `CompletionChoices.body`."""
        return merge_choices(self._request, self._created, [super().body()], self._usage)


def merge_choices(request: CompletionRequest, created: int, choices: Sequence[bytes], usage: Usage | None) -> bytes:
    """The `text_completion` object of the choices of all prompts, in their order."""
    body = _head(request, created) | {"choices": msgspec.Raw(b"[%b]" % b",".join(choices))}
    if usage is not None:
        body["usage"] = usage_object(usage)
    return encode_body(body)


# ------------------------------------------------------------------------------------------------------------- tokens


def _ending(event: Finished) -> JsonObject:
    found: JsonObject = {"finish_reason": _FINISH[event.reason]}
    if event.matched is not None:
        found["stop_reason"] = event.matched
    return found


def _first_offset(request: CompletionRequest, part: int) -> int:
    """Where the first listed token stands in the prompt and the text together, in characters; a prompt of ids counts as none."""
    prompt = request.generations[part].prompt
    return len(prompt) if isinstance(prompt, str) and not request.generation.sampling.echo else 0


_LISTS = (b"tokens", b"token_logprobs", b"top_logprobs", b"text_offset")


class _Tokens:
    """The logprobs of a text in the API's four lists. A token may be part of a character, so offsets are counted in bytes that
    have become characters."""

    __slots__ = ("_decoder", "_lists", "_offset")

    def __init__(self, offset: int) -> None:
        self._offset = offset
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lists = tuple(bytearray() for _ in _LISTS)  # as JSON, which grows: a prompt may have thousands of tokens

    def fork(self) -> "_Tokens":
        other = _Tokens(self._offset)
        other._decoder.setstate(self._decoder.getstate())
        other._lists = tuple(each[:] for each in self._lists)
        return other

    def add(self, logprobs: Sequence[TokenLogprob]) -> None:
        """Append tokens."""
        tokens: list[str] = []
        values: list[float | None] = []
        tops: list[JsonObject | None] = []
        offsets: list[int] = []
        for each in logprobs:
            name = _name(each.token, each.raw)
            tokens.append(name)
            offsets.append(self._offset)
            self._offset += len(self._decoder.decode(each.raw))
            if each.logprob is None:
                values.append(None)
                tops.append(None)
                continue
            values.append(finite(each.logprob))
            likeliest: JsonObject = {_name(top.token, top.raw): finite(top.logprob) for top in each.top}
            tops.append({**likeliest, name: finite(each.logprob)})
        for grown, new in zip(self._lists, (tokens, values, tops, offsets), strict=True):
            if new:
                grown += (b"," if grown else b"") + encode_object(new)[1:-1]

    def take(self) -> bytes:
        """The object of the tokens since the last call, as JSON."""
        lists, self._lists = self._lists, tuple(bytearray() for _ in _LISTS)
        return b"{%b}" % b",".join(
            [b'"%b":[%b]' % (name, bytes(each)) for name, each in zip(_LISTS, lists, strict=True)]
        )


def _name(token: str, raw: bytes) -> str:
    """A token's text; the bytes of one that is part of a character, as OpenAI writes them, so that no two tokens are alike."""
    if "\ufffd" not in token:
        return token
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)
