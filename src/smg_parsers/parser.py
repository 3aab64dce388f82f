"""The parser: reads one output, cut anywhere, and returns one ordered stream of pieces.

Decides: what is text, what is reasoning, where a call may begin, and what happens to text that only looked like a call. It
holds back at most a marker less one character, a header, or a value whose type is not yet known.
Above: `smg_core`, or any program. Below: `family`, `models`, the grammars.
Does not know: tokens, requests, transports.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Never, TypedDict, Unpack, get_args

from smg_parsers.families.family import OPEN, Family
from smg_parsers.families.models import explain, family_for_template
from smg_parsers.families.models import family as family_named
from smg_parsers.grammars.citations import CitationMarks
from smg_parsers.grammars.fenced import FencedReader
from smg_parsers.pieces.base import (
    BEHIND_LIMIT,
    DONE,
    FAIL,
    LOOKAHEAD,
    MORE,
    RESUME,
    SPACE,
    SPILL,
    SWITCH,
    UNDECIDED,
    UNFENCED,
    CallArguments,
    CallSpec,
    Grammar,
    MalformedCalls,
    Piece,
    Reasoning,
    Sink,
    Text,
    UnknownTools,
    Within,
    merge,
    tool_schemas,
)
from smg_parsers.pieces.call_ids import numbering
from smg_parsers.pieces.code_fences import BACKTICKS, FENCES, CodeFence, spaced

HOLD_LIMIT: Final = 8192
"""Default for `hold_limit`: longest header, in characters, that may be held back until it proves to be a call."""

UNDECIDED_LIMIT: Final = 1 << 18
"""Default for `undecided_limit`: how much is held back in one output while a value may have ended or not, in characters."""

_START, _TEXT, _ENTERED, _REASONING, _AFTER, _OWED, _OWED_EARLY = range(7)
"""The situations, in the order of `family.Tables.sets`."""
_PART_OF_A_MARKER: Final = 3
"""How much of a marker has to have come, in characters, for its beginning to be taken for one where the output is cut off."""
_WORDS: Final = re.compile(r"[\w\s:`]*\Z")
_LAST_NAME: Final = re.compile(r"[\w.-]+\Z")
_PLAIN: Final = (_TEXT, _REASONING)
_FRESH: Final = (_START, _ENTERED, _AFTER)
_AROUND_CALLS: Final = SPACE + "`}])"
_QUOTES: Final = "`'\"“‘«"
_BEFORE_PROSE: Final = (*_QUOTES, *"([{=", *SPACE)


_UNKNOWN_TOOLS, _MALFORMED_CALLS = get_args(UnknownTools), get_args(MalformedCalls)


def _refuse(option: str, value: str, allowed: tuple[str, ...]) -> Never:
    raise ValueError(f"{option} is {value!r}, which is none of {', '.join(allowed)}")


class Options(TypedDict, total=False):
    """The keyword arguments of `Parser`, which describes them."""

    tools: Sequence[Mapping[str, object]] | None
    in_reasoning: bool | None
    call_id: Callable[[], str] | None
    unknown_tools: UnknownTools
    malformed_calls: MalformedCalls
    calls_before: int
    any_tool: bool
    keep_calls: bool
    hold_limit: int
    undecided_limit: int
    strict: bool


class Parser:
    """Reads one output of one model. Call `feed` with text as it arrives, then `finish`; use a new parser for each output."""

    __slots__ = (
        "_again",
        "_before",
        "_cites",
        "_fast",
        "_fence",
        "_firsts",
        "_gap",
        "_grammar",
        "_held",
        "_keeps",
        "_last",
        "_limit",
        "_marker",
        "_markers",
        "_owed",
        "_owing",
        "_places",
        "_plain",
        "_raw",
        "_raw_size",
        "_sets",
        "_sink",
        "_situation",
        "_spec",
        "_thought",
        "_within",
        "family",
    )

    def __init__(
        self,
        family: Family,
        *,
        tools: Sequence[Mapping[str, object]] | None = None,
        in_reasoning: bool | None = None,
        call_id: Callable[[], str] | None = None,
        unknown_tools: UnknownTools = "forward",
        malformed_calls: MalformedCalls = "repair",
        calls_before: int = 0,
        any_tool: bool = False,
        keep_calls: bool = False,
        hold_limit: int = HOLD_LIMIT,
        undecided_limit: int = UNDECIDED_LIMIT,
        strict: bool = False,
    ) -> None:
        """A parser for one output.

        `tools` are the request's, in OpenAI's form or bare (see `tool_schemas`); `None` means that they are not known, an
        empty sequence that there are none, and then nothing is a call. `in_reasoning` says whether the output begins inside
        reasoning; `None` means what the family's template usually does. `call_id` makes ids if the model writes none and the
        family has no rule for them; `calls_before` is the number of earlier calls in the conversation, for families that
        number on. `unknown_tools` is for calls of tools that are not offered: `forward` passes them on, `drop` leaves them
        out, `error` raises `UnknownTool`. `malformed_calls` is for a call with a missing or misspelt marker, or with
        arguments that are only nearly JSON: `repair` reads it and marks its `CallEnd`, `text` stops the call there, `error`
        raises `MalformedCall`. Where no marker opens a call, only the name of a known tool begins one; with `any_tool`, any
        name does if the tools are not known. With `keep_calls`, calls are passed on as text, unchanged, and only reasoning is
        separated. `hold_limit` is the longest header that is held back, in characters. `undecided_limit` is how much of one
        output is held back, at most, while a value that quotes calls may have ended or not: beyond it, it goes on. A call
        without its wrapper counts only for an offered tool; with `strict`, it does not count if the tools are not known.
        """
        if unknown_tools not in _UNKNOWN_TOOLS:
            _refuse("unknown_tools", unknown_tools, _UNKNOWN_TOOLS)
        if malformed_calls not in _MALFORMED_CALLS:
            _refuse("malformed_calls", malformed_calls, _MALFORMED_CALLS)
        self.family = family
        tables = family.tables
        schemas = None if tools is None else {} if tools == [] else tool_schemas(tools)
        self._sink = Sink(
            schemas,
            unknown_tools,
            numbering(family.ids, call_id, calls_before),
            malformed_calls,
            any_tool=any_tool,
            silent=keep_calls,
            undecided=undecided_limit,
            strict=strict,
            surplus=tables.value_ends,
            openers=tables.openers,
            closers=tables.closers,
        )
        self._sets = tables.quiet if schemas is not None and not schemas else tables.sets
        self._limit = hold_limit
        self._cites = tables.cites
        self._held, self._keeps = "", keep_calls
        self._gap: str | None = None
        self._places: dict[str, int] = {}
        self._grammar: Grammar | None = None
        self._marker = ""  # what has opened the region that is read; empty for a header that the prompt has opened
        self._raw: list[str] = []
        self._raw_size = 0
        self._again = ""  # what was read while a value may have ended or not, and is to be read again
        self._before = 0
        self._begin(family.thinking.opens_in_prompt if in_reasoning is None else in_reasoning)

    def _begin(self, inside: bool) -> None:
        """Set the state at the start: inside reasoning, in the answer, or in a header that the prompt has opened."""
        self._sink.reasoning = inside
        self._thought = inside  # reasoning has begun at least once
        self._fence = CodeFence()
        self._spec: CallSpec | None = None  # the calls that were read last,
        self._owing: tuple[str, ...] = ()  # their closing markers that have not come yet,
        self._owed = 0  # and within how many more characters one may still come
        # The last text or reasoning returned; before white space alone stands a character of what came earlier.
        self._last = ""
        self._enter(_ENTERED if inside else _START)
        if self.family.headed and not inside:
            self._spec = self.family.calls[0]
            self._grammar = self._spec.begin("", self._sink)
        self._fast = self._grammar is None
        self._within: Within | None = None  # reads what is all within an open value

    @classmethod
    def for_model(cls, model_id: str, *, chat_template: str | None = None, **options: Unpack[Options]) -> Parser:
        """A parser of the family that `explain` finds for a model id. Raises `UnknownModelFamily`."""
        return cls(explain(model_id, chat_template).family, **options)

    @classmethod
    def for_family(cls, name: str, *, chat_template: str | None = None, **options: Unpack[Options]) -> Parser:
        """A parser of a family, by its name. Raises `UnknownModelFamily`."""
        return cls(family_for_template(family_named(name), chat_template), **options)

    def feed(self, text: str) -> list[Piece]:
        """Read more output; returns the pieces that are now certain. Raises UnknownTool or MalformedCall as the policies say."""
        if self._fast and (kind := self.plain(text)) is not None:
            return [kind(text)]
        if (within := self._within) is not None and (delta := within(text)) is not None:
            return [CallArguments(self._sink.index, delta)]
        out: list[Piece] = []
        self._sink.out = out
        text, self._held = self._held + text, ""
        self._run(text, False)
        grammar = self._grammar
        if grammar is None:
            self._within = None
            reads = self._sink.late or self._sink.torn or self._fence.reading
            self._fast = not (self._held or reads) and self._gap is None
        else:
            self._fast = False
            passes = self._sink.open and not (self._held or self._sink.muted)
            self._within = getattr(grammar, "within", None) if passes else None
        return out

    def plain(self, text: str) -> type[Text | Reasoning] | None:
        """Read more output if all of it is certainly one piece, as nearly all is, and nothing is held back; returns which kind of
        piece. Else returns None and has read nothing: `feed` is for it. Spares callers who need no piece the making of one."""
        if not self._fast or not text:
            return None
        for first in self._firsts:
            if first in text:
                return None
        if self._plain and not text.isspace():
            self._last = text  # what `_note` does, without a call: nearly every piece comes this way
        else:
            self._note(text)
        return Reasoning if self._sink.reasoning else Text

    def finish(self, *, cut_off: bool = False) -> list[Piece]:
        """End the output; returns the pieces that were held back.

        `cut_off`: the model had not come to its end (a limit of tokens or a stop string ended the output). A call of which only
        the header has come is then left out; else it is given back as text, since the model may have meant it as such.
        """
        if self._fast:  # nothing is held back
            return []
        out: list[Piece] = []
        self._sink.out = out
        self._sink.cut = cut_off
        held, self._held = self._held, ""
        if not self._keeps and (self._cut_in_closing(held) or (cut_off and self._cut_in_header(held))):
            self._leave_out()
            return out
        cut_call = cut_off and self._sink.open and not self._keeps
        self._run(held, True)
        if cut_call and not (self._sink.open or self._sink.ended):
            # The end has cut a tag in two, which breaks the call off: it is no text.
            out[:] = [piece for piece in out if not isinstance(piece, Text | Reasoning)]
            self._leave_out()
            return out
        rest, self._held, grammar = self._held, "", self._grammar
        if grammar is None:
            self._emit((self._gap or "") + rest)
        elif self._keeps and self._sink.count > self._before:
            self._sink.keep("".join(self._raw) + rest)
        elif self._sink.open:
            grammar.finish(rest)
        elif self._keeps or not (cut_off and self._is_header("".join(self._raw) + rest)):
            self._emit(self._without_closers("".join(self._raw)) + rest)
        self._leave_out()
        return out

    def _leave_out(self) -> None:
        """Forget what is held back; an end that was not told yet is told."""
        self._sink.tell()
        self._grammar, self._gap = None, None
        self._raw.clear()

    @property
    def waiting(self) -> int:
        """The number of characters fed and held back: they may yet come out as text or reasoning."""
        return len(self._held) + len(self._gap or "") + sum(map(len, self._raw)) + self._sink.waiting

    @property
    def call_over(self) -> bool:
        """Whether the last call is complete and no other is open: a closing marker that comes now is its own."""
        return self._sink.ended and not self._sink.open

    def _calls_complete(self) -> bool:
        """Whether this region has had calls, and the last of them is complete."""
        return self._sink.ended and self._sink.count > self._before

    def _cut_in_closing(self, held: str) -> bool:
        """Whether the output ends within the closing markers of a call that is complete."""
        if self._grammar is None:
            return bool(held) and self._situation >= _OWED and not self._last.strip() and self._closes(held)
        return self._calls_complete() and self._closes("".join(self._raw) + held)

    def _closes(self, rest: str) -> bool:
        """Whether the output ends in the closing markers of a finished call, the last of which may be cut off."""
        closers = self.family.tables.closers
        for around in (SPACE, _AROUND_CALLS):
            left = rest.strip(around)
            while left.startswith(closers):
                left = left.removeprefix(next(marker for marker in closers if left.startswith(marker))).strip(around)
            if any(marker.startswith(left) for marker in closers) or not left:
                return True
        return False

    def _cut_in_header(self, held: str) -> bool:
        """Whether the output ends within the header of a call: `held` is the last of it, which was not read."""
        if self._grammar is not None:
            return not self._sink.open and self._is_header("".join(self._raw) + held)
        if len(held) < _PART_OF_A_MARKER or _WORDS.match(held):
            return False
        tables = self.family.tables
        begun = [opener for opener in tables.calls if opener.startswith(held)]
        return any(
            not self._is_prose(opener) and self._sink.line
            if opener in tables.unwrapped
            else opener not in tables.doubtful
            for opener in begun
        )

    def _is_header(self, text: str) -> bool:
        """Whether a region in which no call is open is certainly the beginning of one, as its marker or a tool's name says."""
        marker = self._marker
        if self._sink.count > self._before:
            return True
        if not marker:
            return len(text.strip()) >= _PART_OF_A_MARKER
        if marker not in self.family.tables.doubtful:
            return True
        if marker in self.family.tables.unwrapped:
            return self._sink.line
        last = _LAST_NAME.search(text)
        begun = "" if last is None or len(last[0]) < _PART_OF_A_MARKER else last[0]
        return any(name in text or (begun and name.startswith(begun)) for name in self._sink.schemas or ())

    def _without_closers(self, text: str) -> str:
        """What was read since a call that is complete, without the closing markers that it begins with."""
        if not self._calls_complete():
            return text
        closers = self.family.tables.closers
        while (left := text.lstrip(SPACE)).startswith(closers):
            text = left.removeprefix(next(marker for marker in closers if left.startswith(marker)))
        return text

    def parse(self, text: str) -> list[Piece]:
        """Read a whole output: `feed` and `finish`, with adjacent pieces of a kind joined (`merge`)."""
        return merge([*self.feed(text), *self.finish()])

    def _run(self, buf: str, final: bool) -> None:
        pos, size = 0, len(buf)
        self._places.clear()
        while True:
            reached = self._outside(buf, pos, final) if self._grammar is None else self._inside(buf, pos, final)
            if reached < 0:
                self._held = buf[~reached:]
                return
            pos = reached
            if self._again:
                buf, pos, self._again = self._again + buf[pos:], 0, ""
                size = len(buf)
                self._places.clear()
            if pos == size and self._grammar is None:
                return

    def _emit(self, text: str) -> None:
        if text:
            self._note(text)
            if self._fence.reading:
                self._fence.read(text)
            if self._sink.torn:
                self._sink.behind_torn(text)
            self._sink.say(Reasoning(text) if self._sink.reasoning else Text(text))

    def _note(self, text: str) -> None:
        """Take note of text or reasoning that is passed on."""
        self._last = spaced(self._last, text) if text.isspace() else text
        if self._cites and not self._sink.reasoning:
            self._sink.spoken += len(text)
        if self._situation >= _OWED:
            self._owed -= len(text)
            if self._owed <= 0:
                self._enter(_TEXT)
            elif not text.isspace():
                self._enter(_OWED)
        elif self._situation in _FRESH and not text.isspace():
            self._enter(_REASONING if self._situation == _ENTERED else _TEXT)

    def _enter(self, situation: int) -> None:
        self._situation = situation
        self._markers = self._sets[situation]
        self._firsts = self._markers.firsts
        self._plain = situation in _PLAIN and not self._cites

    def _outside(self, buf: str, pos: int, final: bool) -> int:
        """Text or reasoning, up to the next marker."""
        if self._gap is not None:
            after = self._past_gap(buf, pos, final)
            if after < 0:
                return len(buf)
            pos = after
        at, marker = self._markers.find(buf, pos, final, self._places)
        if at > pos:
            self._close_gap()
            self._emit(buf[pos:at])
            return at
        if not marker:
            return ~at if at < len(buf) else at
        spec = self.family.tables.calls.get(marker)
        if self._situation >= _OWED and marker in self.family.tables.closers:
            if marker not in self._owing or self._keeps:
                self._close_gap()
                self._emit(marker)
            elif self._gap is not None:
                self._gap = ""
        elif spec is None:
            self._close_gap()
            self._mark(marker)
        elif marker in self.family.tables.unwrapped and self._is_prose(marker):
            self._close_gap()
            self._emit(marker)
        else:
            if self._cites and isinstance(spec, CitationMarks):
                self._close_gap()
            self._raw, self._raw_size = [self._gap or "", marker], 0
            self._gap, self._before = None, self._sink.count
            self._spec, self._marker = spec, marker
            begun = spec.begin(marker, self._sink)
            self._grammar = FencedReader(begun, self._sink) if marker in self.family.tables.fenceable else begun
        return at + len(marker)

    def _mark(self, marker: str) -> None:
        """A marker that is no call's: a code fence, or one of reasoning."""
        if marker in FENCES:
            begins, reading = self._begins_line(), self._fence.reading
            self._emit(marker)
            if not reading:
                self._fence.mark(marker, begins=begins)
        elif self._quoted(marker):
            self._emit(marker)
        else:
            self._turn(marker)

    def _past_gap(self, buf: str, pos: int, final: bool) -> int:
        """Read white space behind a call, which is dropped if another call follows. Returns -1 if more text is needed."""
        gap, at = self._gap or "", pos
        while at < len(buf) and len(gap) + at - pos < LOOKAHEAD and buf[at] in SPACE:
            at += 1
        self._gap = gap + buf[pos:at]
        return -1 if at == len(buf) and not final else at

    def _close_gap(self) -> None:
        if self._gap is not None:
            self._emit(self._gap)
            self._gap = None

    def _quoted(self, marker: str) -> bool:
        """Whether an opening marker of reasoning is only quoted: in code or quotation marks, or within a line of the answer."""
        if (
            self._situation not in (_TEXT, _OWED)
            or self.family.tables.roles[marker] != OPEN
            or self.family.thinking.interleaved
        ):
            return False
        before = self._last[-1:] or "\n"
        return self._fence.inside or before in _QUOTES or (self._thought and before != "\n")

    def _is_prose(self, marker: str) -> bool:
        """Whether a tag that calls have inside a wrapper only stands in a sentence, or in code."""
        self._sink.line = begins = self._begins_line()
        if begins or self._fence.inside:
            return self._fence.inside
        return self.family.tables.unwrapped[marker] or self._last.endswith(_BEFORE_PROSE)

    def _begins_line(self) -> bool:
        """Whether what comes now is the first text of a line."""
        before = self._last.rstrip()
        behind = self._last[len(before) :]
        return self._gap is not None or self._situation in _FRESH or not before or "\n" in behind

    def _turn(self, marker: str) -> None:
        """Enter or leave reasoning, as the marker says."""
        sink = self._sink
        opens = self.family.tables.roles[marker] == OPEN
        if opens or sink.reasoning:
            # Of the dropped markers, only `breaks` end reasoning, not `drops`.
            if not opens and marker in self.family.drops:
                return
            sink.reasoning = opens
            self._fence.forget()
            self._thought = self._thought or opens
            self._enter(_ENTERED if opens else _START)

    def _inside(self, buf: str, pos: int, final: bool) -> int:
        """Let the grammar read on in a region of calls; text that proves to be no call is passed on as text."""
        sink, grammar = self._sink, self._grammar
        if grammar is None:
            return pos
        opened = sink.open
        reached = grammar.step(buf, pos, final)
        at = reached if reached >= 0 else ~reached
        status = grammar.status
        if status >= UNDECIDED:
            if status != UNFENCED:
                return self._in_doubt(buf, pos, reached, at)
            self._grammar = getattr(grammar, "inner", grammar)
            return pos
        if self._keeps and sink.count > self._before:
            sink.keep("".join(self._raw) + buf[pos:at])
            sink.touched = False
            self._raw.clear()
        elif sink.touched:
            sink.touched = False
            self._raw.clear()
            self._raw_size = 0
        elif at > pos:
            if not opened:  # what has come since a call is no header
                if self._raw_size + at - pos > self._limit:
                    return self._give_up(buf, pos, pos + self._limit - self._raw_size)
                self._raw_size += at - pos
            self._raw.append(buf[pos:at])
        if status == MORE:
            return reached
        if status == SPILL:
            grammar.status = MORE
            text = "".join(self._raw)
            self._raw.clear()
            self._raw_size = 0
            self._emit(text)
            return at
        if status == FAIL or (status == DONE and sink.count == self._before):
            return self._give_up(buf, at, at)
        self._leave(status)
        return at

    def _in_doubt(self, buf: str, pos: int, reached: int, at: int) -> int:
        """Keep what may have to be read again, and what has to be."""
        self._raw.append(buf[pos:at])
        again = self._sink.reread
        if not again:
            return reached
        self._sink.reread = 0
        raw = "".join(self._raw)
        self._again = raw[len(raw) - again :]
        self._raw = [raw[: len(raw) - again]]
        return at

    def _give_up(self, buf: str, pos: int, at: int) -> int:
        """Leave a region that is no call, or no longer one: what was read since the last call is text. Reading goes on at
        `at`."""
        behind = "".join(self._raw)
        text = self._without_closers(behind) + buf[pos:at]
        if self._calls_complete():
            self._last = ""
            self._enter(self._behind_a_call(behind))
        self._grammar = None
        self._raw.clear()
        self._emit(text)
        return at

    def _behind_a_call(self, behind: str) -> int:
        """The situation after a region of calls; `behind` is what came after the last call's arguments."""
        if self._sink.reasoning:
            return _REASONING
        closers = getattr(self._spec, "closers", ())
        closed = any(marker in behind for marker in getattr(self._spec, "ends", closers))
        owing = () if closed else (marker for marker in closers if marker not in behind and marker != BACKTICKS)
        self._owing = tuple(owing)
        self._owed = BEHIND_LIMIT
        if self._situation in (_START, _OWED_EARLY):
            return _OWED_EARLY if self._owing else _START
        return _OWED if self._owing else _AFTER

    def _leave(self, status: int) -> None:
        self._grammar = None
        behind = "".join(self._raw)
        self._raw.clear()
        if status == RESUME:
            return
        self._last = ""
        if status == SWITCH:
            self._thought = self._thought or self._sink.reasoning
            self._enter(_REASONING if self._sink.reasoning else _START)
        else:
            self._gap = ""
            self._enter(self._behind_a_call(behind))
