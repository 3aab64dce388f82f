"""The end of a tagged call's value and the next call's beginning, also with misspelt markers.

Decides: whether the tag at a place in a value is the value's end tag, a misspelling of it, the next parameter, the call's
closing sequence, the next call, or text that the value quotes. It looks ahead at most a few tags and `LOOKAHEAD` white
spaces, so what a reader holds back stays bounded.
Above: `tool_xml`. Below: `base`, `tool_xml_tags`.
Does not know: what a value becomes, or what is done about a missing marker.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from smg_parsers.grammars.tool_xml_tags import SELF_CLOSED, Tag, read_tag
from smg_parsers.pieces.base import LOOKAHEAD, NAME_LIMIT, SPACE, match

Knows = Callable[[str], bool]

YES: Final = 0
LATER: Final = -1
NO: Final = -2
"""Answers, as of `base.match`: yes, unknown until more text comes, no."""

QUOTED, OPEN_QUESTION, ENDS, MISSPELT, MISSING, SUSPECT = range(6)
"""What stands at a place in a value: text, something unknown until more text comes, the value's end tag, a misspelt end
tag, something that can only follow the value, or an end tag that may also be quoted."""

CALL, CALL_CLOSES, PARAMETER, PARAMETER_CLOSES = range(6, 10)
"""Text, of a call that the value quotes: where it and its parameters begin and end."""

IN_CALL_END, IN_CALL_NEXT, END_AND_CALL, LAST, LAST_AND_CALL, CLOSED_AND_CALL, NEXT = range(10, 17)
"""Places where the value may end, which is known later. Where it quotes a call that is open: an end tag before the end of a
call, or before a parameter that this call does not have yet. An end tag before another call. The end of the call, also
before another call, or another parameter, where the value's end tag may be missing. `CLOSED_AND_CALL`: all of the call's closing
tags stand before the other call, as the family writes them."""

MESSAGE_LIMIT: Final = 2 * NAME_LIMIT
"""Longest header of a message, in characters."""
_MISSPELLING: Final = 16
"""The most surplus characters of a misspelt end tag."""
_CLOSING_TAGS: Final = 4
_NAME_GOES_ON: Final = re.compile(r"[^\W\d]|[.-]")
"""A number behind a name is a misspelling (`</city1>`); letters make it another name."""
_RELATIVE: Final = re.compile(
    rf"\s{{0,{LOOKAHEAD}}}([\w.-]{{1,{LOOKAHEAD}}})<[^<>/]{{1,{LOOKAHEAD}}}>(?=\s{{0,{LOOKAHEAD}}}<)"
)
"""A name and a separator, as a family writes them whose other tags are the same."""
_RELATIVE_BEGUN: Final = re.compile(
    rf"\s{{0,{LOOKAHEAD}}}([\w.-]{{1,{LOOKAHEAD}}}(<([^<>/]{{1,{LOOKAHEAD}}}(>\s{{0,{LOOKAHEAD}}})?)?)?)?"
)
_ANOTHER_NAME: Final = re.compile(r"[^\W\d]{2}")
"""`</parameter>` is no misspelt `</param>`, but `</parameters>` is a misspelt `</parameter>`."""
_WORD: Final = re.compile(rf"\w{{1,{LOOKAHEAD}}}")
_JSON_CALL: Final = re.compile(r'\{\s{0,64}"name"\s{0,64}:\s{0,64}"([^"]*)"')
_JSON_BEGUN: Final = re.compile(r'\{\s{0,64}("(n(a(m(e("\s{0,64}(:\s{0,64}("[^"]*)?)?)?)?)?)?)?)?')


@dataclass(frozen=True, slots=True)
class Bounds:
    """The tags of one family that can stand around a value. The fields are those of `XmlCalls`."""

    opens: tuple[str, ...]
    call: Tag
    close: str
    closes: tuple[str, ...]
    param: Tag
    value: str
    fillers: tuple[str, ...]
    words: bool
    json: bool
    nests: bool
    inline: bool
    header: str
    message: tuple[str, ...]
    newline: bool

    tags: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The tags that can end a value, without its own end tag."""
    _closing: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _follow: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        closing = (*filter(None, (self.close,)), *self.closes)
        object.__setattr__(self, "_closing", closing)
        object.__setattr__(self, "_follow", (*closing, self.param.begin))
        tags = (*closing, self.param.begin, *self.opens, self.call.begin, *filter(None, (self.header,)))
        object.__setattr__(self, "tags", tags)

    def at(self, buf: str, at: int, end: str, final: bool, line: bool, tool: Knows, key: Knows) -> tuple[int, int]:
        """What stands at `at` in a value that `end` closes, and where it ends.

        `line` says whether a line begins here; `tool` and `key` whether a name is a tool of the request, or an argument
        that this call does not have yet.
        """
        if buf.startswith(end, at):
            verdict = self.follows(buf, at + len(end), final, tool)
            if verdict != NO:
                return (ENDS, at + len(end)) if verdict == YES else (OPEN_QUESTION, at)
        found, stop = self._misspelt(buf, at, end, final, tool)
        if found != QUOTED:
            return found, stop
        verdict = self._after_the_value(buf, at, final, line, tool, key)
        if verdict == NO and not final:
            rest = buf[at : at + NAME_LIMIT]
            verdict = LATER if any(tag.startswith(rest) for tag in (end, *self.tags)) else NO
        return ((MISSING, at) if verdict == YES else (OPEN_QUESTION, at)) if verdict != NO else (QUOTED, at)

    def judge(
        self,
        buf: str,
        at: int,
        end: str,
        final: bool,
        line: bool,
        open_: tuple[int, int],
        tool: Knows,
        key: Knows,
        needs: Knows,
    ) -> tuple[int, int]:
        """As `at`, in a value that may be any text, and so may quote calls: nothing in it begins a call.

        `open_` says how many calls, and parameters outside of calls, it quotes that are still open; `needs` whether a parameter
        that the call does not have yet may stand behind a missing end tag.
        """
        calls = open_[0]
        if buf.startswith(end, at):
            return self._end_tag(buf, at, at + len(end), final, open_, tool, key)
        if not calls:
            found, stop = self._misspelt(buf, at, end, final, _nobody)
            if found != QUOTED:
                return found, stop
        found, stop = self._quoted_tag(buf, at, end, final, calls, tool)
        if found == CLOSED_AND_CALL and self.newline and not line:
            found = LAST_AND_CALL
        if found == QUOTED and not calls and buf.startswith(self.param.begin, at):
            found, stop = self._quoted_parameter(buf, at, end, final, line, needs)
        if found == QUOTED and not final:
            rest = buf[at : at + NAME_LIMIT]
            if any(len(rest) < len(tag) and tag.startswith(rest) for tag in (end, *self.tags)):
                return OPEN_QUESTION, at
        return found, stop

    def _end_tag(
        self, buf: str, at: int, stop: int, final: bool, open_: tuple[int, int], tool: Knows, key: Knows
    ) -> tuple[int, int]:
        """What the value's own end tag is: its end, if the call's end or another parameter follows and it quotes no call."""
        calls, parameters = open_
        behind = _past_space(buf, stop)
        if behind == len(buf) and not final:
            return OPEN_QUESTION, at
        options = self._follow
        found = match(buf, behind, options, final)
        if final and (behind == len(buf) or (found == NO and _cut_off(buf, behind, options))):
            found = 0
        if found == LATER:
            return OPEN_QUESTION, at
        closes = PARAMETER_CLOSES if parameters and not calls else QUOTED
        if found == NO:
            verdict = self.calls_again(buf, behind, final, tool) if not calls and not parameters else NO
            return (OPEN_QUESTION, at) if verdict == LATER else (END_AND_CALL if verdict == YES else closes, stop)
        if found < len(options) - 1:
            return (IN_CALL_END if calls else ENDS), stop
        if not calls and not parameters:
            return ENDS, stop
        verdict = self._parameter(buf, behind, final, key)
        if verdict == LATER:
            return OPEN_QUESTION, at
        if verdict == YES:
            return (IN_CALL_NEXT if calls else ENDS), stop
        return closes, stop

    def _quoted_tag(self, buf: str, at: int, end: str, final: bool, calls: int, tool: Knows) -> tuple[int, int]:
        """The beginning or the end of a call, which the value quotes or which ends it without an end tag."""
        begin = self.header or self.call.begin
        if buf.startswith(begin, at):
            stop = at + len(begin)
            verdict, stop = self._headed(buf, stop, final) if self.header else self._shaped(buf, stop, end, final)
            if verdict != NO:
                return (CALL, stop) if verdict == YES else (OPEN_QUESTION, at)
        if not buf.startswith(self._closing, at):
            return QUOTED, at
        if calls:
            close = self._closing[0]
            return (CALL_CLOSES, at + len(close)) if buf.startswith(close, at) else (QUOTED, at)
        verdict = self._closing_run(buf, at, final, tool)
        if verdict < 0:
            return (OPEN_QUESTION if verdict == LATER else QUOTED), at
        return verdict, at + next(len(tag) for tag in self._closing if buf.startswith(tag, at))

    def _headed(self, buf: str, at: int, final: bool) -> tuple[int, int]:
        """Whether the header that ends at `at` is a call's: it has a parameter or the call's end behind it."""
        behind = _past_space(buf, at)
        if behind == len(buf):
            return (NO if final else LATER), at
        return min(match(buf, behind, (self.param.begin, self.close), final), YES), at

    def _shaped(self, buf: str, at: int, end: str, final: bool) -> tuple[int, int]:
        """Whether the tag of a call whose `begin` ends at `at` has a name, and a parameter or the call's end behind it."""
        reached, name, attributes = read_tag(self.call, buf, at, final)
        relative = _RELATIVE.match(buf, at) if not name and not self.call.ends else None
        if not (name or self.call.ends or relative or final) and _RELATIVE_BEGUN.fullmatch(buf, at):
            return LATER, at
        # The value's own end tag is no separator: it ends a value in which the tag stands alone.
        if relative is not None and not buf.startswith(end, relative.end(1)):
            reached, name = relative.end(), relative[1]
        if not name:
            return (LATER if reached < 0 and not final else NO), at
        if SELF_CLOSED in attributes:
            return NO, at
        behind = _past_space(buf, reached)
        if behind == len(buf):
            return (NO if final else LATER), at
        return min(match(buf, behind, self._follow, final), YES), reached

    def _quoted_parameter(self, buf: str, at: int, end: str, final: bool, line: bool, needs: Knows) -> tuple[int, int]:
        """A parameter outside of a call: the value's end tag may be missing before it."""
        verdict = self._parameter(buf, at, final, needs)
        if verdict == YES and (line or self.inline or self.value or self.nests):
            return NEXT, at + len(self.param.begin)
        if verdict == NO:
            verdict = self._parameter(buf, at, final, _anybody)
        if verdict == LATER:
            return OPEN_QUESTION, at
        begin = self.param.begin
        own = not self.nests or buf.startswith(begin + end[len(begin) + 1 :], at)
        return (PARAMETER, at + len(begin)) if verdict == YES and own else (QUOTED, at)

    def _misspelt(self, buf: str, at: int, end: str, final: bool, tool: Knows) -> tuple[int, int]:
        """Recognise an end tag with surplus characters before its `>`, or without `>` at the end of a line."""
        stem = end.removesuffix(">")
        if stem == end or not buf.startswith(stem, at):
            return QUOTED, at
        stop = at + len(stem)
        if (_NAME_GOES_ON if self.nests else _ANOTHER_NAME).match(buf, stop):
            return QUOTED, at  # the end of something in the value, whose name begins with the value's
        limit = min(len(buf), stop + _MISSPELLING)
        while stop < limit and buf[stop] not in "<>\n":
            stop += 1
        if stop == len(buf) and not final:
            return OPEN_QUESTION, at
        if buf[stop : stop + 1] not in (">", "\n"):
            return QUOTED, at
        stop += buf[stop] == ">"
        verdict = self.follows(buf, stop, final, tool)
        return {YES: MISSPELT, LATER: OPEN_QUESTION}.get(verdict, QUOTED), stop if verdict == YES else at

    def _after_the_value(self, buf: str, at: int, final: bool, line: bool, tool: Knows, key: Knows) -> int:
        if buf.startswith(self._closing, at):
            verdict = self._closing_sequence(buf, at, final, tool)
            if verdict != NO:
                return verdict
        if buf.startswith(self.param.begin, at) and (line or self.inline or self.value or self.nests):
            verdict = self._parameter(buf, at, final, key)
            if verdict != NO:
                return verdict
        return self.calls_again(buf, at, final, tool) if line or self.nests else NO

    def follows(self, buf: str, at: int, final: bool, tool: Knows) -> int:
        """Whether a closing tag is followed by another tag or by the output's end, as a real one is."""
        at = _past_space(buf, at)
        if at == len(buf):
            return YES if final else LATER
        options = self._follow
        found = match(buf, at, options, final)
        if found == LATER or (found == NO and final and _cut_off(buf, at, options)):
            return YES if final else LATER
        return YES if found >= 0 else self.calls_again(buf, at, final, tool)

    def _parameter(self, buf: str, at: int, final: bool, key: Knows) -> int:
        reached, name, _ = read_tag(self.param, buf, at + len(self.param.begin), final)
        if not name:
            return LATER if reached < 0 and not final else NO
        if not key(name):
            return NO
        if not self.value:
            return YES
        at = _past_space(buf, reached)
        if at == len(buf):
            return NO if final else LATER
        return min(match(buf, at, (self.value,), final), YES)

    def _closing_sequence(self, buf: str, at: int, final: bool, tool: Knows) -> int:
        """Whether a call is over here: two closing tags in a row, or one before another call or at the output's end."""
        seen: set[str] = set()
        tags = (*self._closing, *self.fillers)
        for _ in range(_CLOSING_TAGS):
            at = _past_space(buf, at)
            if at == len(buf):
                return YES if final else LATER
            found = match(buf, at, tags, final)
            if found == LATER:
                return LATER
            if found == NO:
                break
            seen.add(tags[found])
            at += len(tags[found])
            if len(seen) > 1:
                return YES
        if final and _cut_off(buf, at, tags):
            return YES
        return self.calls_again(buf, at, final, tool)

    def _closing_run(self, buf: str, at: int, final: bool, tool: Knows) -> int:
        """As `_closing_sequence`, up to its last tag: `LAST`, or where another call follows, `LAST_AND_CALL` or
        `CLOSED_AND_CALL`."""
        seen: set[str] = set()
        tags = (*self._closing, *self.fillers)
        for _ in range(2 * _CLOSING_TAGS):
            at = _past_space(buf, at)
            if at == len(buf):
                return LAST if final else LATER
            found = match(buf, at, tags, final)
            if found == LATER:
                return LATER
            if found >= 0:
                seen.add(tags[found])
                at += len(tags[found])
                continue
            word = _WORD.match(buf, at) if self.words else None
            if word is None:
                break
            verdict = match(buf, word.end(), self.fillers, final) if word.end() < len(buf) or final else LATER
            if verdict < 0:
                if verdict == LATER:
                    return LATER
                break
            at = word.end()
        if final and _cut_off(buf, at, tags):
            return LAST
        verdict = self.calls_again(buf, at, final, tool)
        if verdict == LATER:
            return LATER
        if verdict != YES:
            return LAST if len(seen) > 1 else NO
        inside = not self.message and buf.startswith(self.call.begin, at)
        outside = inside or not self.closes or not seen.isdisjoint(self.closes)
        return CLOSED_AND_CALL if outside and (not self.close or self.close in seen) else LAST_AND_CALL

    def calls_again(self, buf: str, at: int, final: bool, tool: Knows) -> int:
        """Whether another call begins at `at`: its opening markers, and a name that is a tool's."""
        if self.message:
            at = self._past_header(buf, at, final)
            if at < 0:
                return LATER
        openers = (*self.opens, self.call.begin)
        found = match(buf, at, openers, final)
        if found < 0:
            return found
        at += len(openers[found])
        if self.json or openers[found] != self.call.begin:
            verdict, at = self._to_the_name(buf, at, final, tool, named=openers[found] == self.call.begin)
            if verdict != YES or at < 0:
                return verdict
        reached, name, _ = read_tag(self.call, buf, at, final)
        if not name:
            return LATER if reached < 0 and not final else NO
        return YES if tool(name) else NO

    def _past_header(self, buf: str, at: int, final: bool) -> int:
        """The position behind the header of another message that begins at `at`, -1 if more text is needed to tell; `at` itself
        if none begins there."""
        place = at
        for marker in self.message[:-1]:
            found = match(buf, place, (marker,), final)
            if found == LATER:
                return LATER
            place = _past_space(buf, place + len(marker)) if found >= 0 else place
        if place == at:
            return at
        end = self.message[-1]
        behind = buf.find(end, place, place + MESSAGE_LIMIT)
        if behind >= 0:
            return _past_space(buf, behind + len(end))
        return at if final or len(buf) - place >= MESSAGE_LIMIT else LATER

    def _to_the_name(self, buf: str, at: int, final: bool, tool: Knows, *, named: bool) -> tuple[int, int]:
        """From an opening marker to the call's name: where it begins, or -1 when JSON has named the tool."""
        for _ in range(_CLOSING_TAGS):
            at = _past_space(buf, at)
            if at == len(buf):
                return (NO if final else LATER), -1
            if self.json and buf[at] == "{":
                return _json_name(buf, at, final, tool), -1
            if named:
                return YES, at
            options = (self.call.begin, *self.fillers)
            found = match(buf, at, options, final)
            if found == LATER:
                return LATER, -1
            if found == 0:
                return YES, at + len(self.call.begin)
            if found > 0:
                at += len(options[found])
                continue
            word = at
            while self.words and at < min(len(buf), word + LOOKAHEAD) and buf[at].isalnum():
                at += 1
            if at == word:
                return NO, -1
        return NO, -1


def _nobody(name: str) -> bool:
    return False


def _anybody(name: str) -> bool:
    return bool(name)


def _past_space(buf: str, at: int) -> int:
    limit = min(len(buf), at + LOOKAHEAD)
    while at < limit and buf[at] in SPACE:
        at += 1
    return at


def _cut_off(buf: str, at: int, tags: tuple[str, ...]) -> bool:
    """Whether the output ends inside one of the tags."""
    rest = buf[at : at + NAME_LIMIT]
    return any(tag.startswith(rest) for tag in tags)


def _json_name(buf: str, at: int, final: bool, tool: Knows) -> int:
    window = buf[at : at + NAME_LIMIT]
    found = _JSON_CALL.match(window)
    if found is not None:
        return YES if tool(found[1]) else NO
    return LATER if not final and len(window) < NAME_LIMIT and _JSON_BEGUN.fullmatch(window) else NO
