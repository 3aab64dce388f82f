"""Filters in the language of Google's APIs (AIP-160), read as those of OpenAI's API.

    author = "Robert Graves" AND (year >= 1934 OR draft = true) AND NOT kind = "notes"

There are comparisons by `=`, `!=`, `<`, `<=`, `>`, `>=` and `:` (which is `=` for a single value), `AND` or nothing between two,
`OR`, which binds more closely than `AND`, as the language has it, and `NOT` or `-` before one. A value in quotes is a text;
without them it is a number, `true`, `false`, or a text of one word. A comparison that is denied becomes its opposite: a file
without the attribute fulfils `!=` and a denied `=` alone. Wildcards, functions and words without a field are refused by their
place. Pure. Above: the reader of Google's tools. Below: filters.
"""

import re
from collections.abc import Iterator
from typing import NoReturn

import attrs

from smg_core.errors import InvalidRequest
from smg_core.json_types import Json, JsonObject

__all__ = ["read_filter_text"]

_LONGEST = 8192  # characters of a filter
_DEEPEST = 8  # parentheses within parentheses
_LONGEST_KEY = 64
_LONGEST_VALUE = 512

_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
    (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<sign><=|>=|!=|[=<>:(),])
    |(?P<minus>-(?=[(A-Za-z_"']))
    |(?P<word>[^\s"'=<>!:(),]+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_SIGNS = {"=": "eq", ":": "eq", "!=": "ne", "<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}
_OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "gte", "gte": "lt", "gt": "lte", "lte": "gt", "and": "or", "or": "and"}
_JOINS = frozenset({"AND", "OR"})


@attrs.frozen
class _Token:
    """A piece of the text: what it is, what it says, and the character that it begins with."""

    kind: str
    text: str
    at: int


def read_filter_text(text: str, param: str) -> JsonObject | None:
    """The filter that `text` asks for, as OpenAI's API writes it; None where it asks for nothing. Raises InvalidRequest."""
    if len(text) > _LONGEST:
        raise InvalidRequest(f"Invalid value at '{param}': at most {_LONGEST:,} characters.", param=param)
    reading = _Reading(text, param)
    return None if reading.next is None else reading.whole()


class _Reading:
    """Reads one filter, from piece to piece."""

    def __init__(self, text: str, param: str) -> None:
        self._text, self._param = text, param
        self._tokens = self._pieces()
        self._depth = 0
        self.next: _Token | None = next(self._tokens, None)

    def _pieces(self) -> Iterator[_Token]:
        at, end = 0, len(self._text.rstrip(" \t\r\n"))
        while at < end:
            found = _TOKEN.match(self._text, at)
            if found is None or found.lastgroup is None:
                self._refuse("it cannot be read", at)
            yield _Token(found.lastgroup, found[found.lastgroup], found.start(found.lastgroup))
            at = found.end()

    def _refuse(self, why: str, at: int | None = None) -> NoReturn:
        place = len(self._text) if at is None else at
        raise InvalidRequest(f"Invalid value at '{self._param}': {why}, at character {place + 1}.", param=self._param)

    def _at(self) -> int | None:
        return None if self.next is None else self.next.at

    def _take(self) -> _Token:
        """The next piece, which is taken."""
        taken = self.next
        if taken is None:
            self._refuse("something is missing")
        self.next = next(self._tokens, None)
        return taken

    def _is(self, *texts: str) -> bool:
        return self.next is not None and self.next.kind != "text" and self.next.text in texts

    def whole(self) -> JsonObject:
        """The filter."""
        found = self._all_of()
        if self.next is not None:
            self._refuse(f"{self.next.text[:20]!r} is not expected", self.next.at)
        return found

    def _all_of(self) -> JsonObject:
        """What `AND`, or nothing, joins."""
        parts = [self._any_of()]
        while self.next is not None and not self._is(")"):
            if self._is("AND"):
                self._take()
            parts.append(self._any_of())
        return _joined("and", parts)

    def _any_of(self) -> JsonObject:
        """What `OR` joins."""
        parts = [self._term()]
        while self._is("OR"):
            self._take()
            parts.append(self._term())
        return _joined("or", parts)

    def _term(self) -> JsonObject:
        """A comparison, or a filter in parentheses; denied or not."""
        denied = False
        while self._is("NOT", "-"):
            self._take()
            denied = not denied
        found = self._inner() if self._is("(") else self._comparison()
        return _denied(found) if denied else found

    def _inner(self) -> JsonObject:
        begun = self._take()
        self._depth += 1
        if self._depth > _DEEPEST:
            self._refuse(f"parentheses are at most {_DEEPEST} deep", begun.at)
        found = self._all_of()
        if not self._is(")"):
            self._refuse("a parenthesis is not closed", begun.at)
        self._take()
        self._depth -= 1
        return found

    def _comparison(self) -> JsonObject:
        field = self._take()
        key = _unquoted(field) if field.kind == "text" else field.text
        if field.kind not in ("word", "text") or (field.kind == "word" and key in _JOINS):
            self._refuse(f"the name of an attribute is expected, and not {field.text[:20]!r}", field.at)
        if not 0 < len(key) <= _LONGEST_KEY:
            self._refuse(f"names of attributes have 1 to {_LONGEST_KEY} characters", field.at)
        if not self._is(*_SIGNS):
            self._refuse(f"behind {key[:20]!r} a comparison is expected", self._at())
        kind = _SIGNS[self._take().text]
        value = self._value(kind)
        return {"type": kind, "key": key, "value": value}

    def _value(self, kind: str) -> Json:
        minus = self._is("-")
        at = self._at()
        token = self._take()
        if minus:  # of a word, which has no quotes
            rest = self._take()
            token = _Token(rest.kind, f"-{rest.text}", token.at)
        if token.kind not in ("word", "text") or (token.kind == "word" and token.text in (*_JOINS, "NOT")):
            self._refuse("a value is expected", at)
        if self._is("(") and token.kind == "word":
            self._refuse("functions are not supported", token.at)
        text = _unquoted(token) if token.kind == "text" else token.text
        if len(text) > _LONGEST_VALUE:
            self._refuse(f"values have at most {_LONGEST_VALUE} characters", at)
        if "*" in token.text:
            self._refuse("wildcards are not supported", at)
        if token.kind == "text":
            return text
        if text in ("true", "false"):
            if kind not in ("eq", "ne"):
                self._refuse("true and false are neither less nor greater", at)
            return text == "true"
        return _number(text) if _NUMBER.fullmatch(text) else text


def _number(text: str) -> Json:
    whole = text.lstrip("+-").isdigit() and len(text) <= 18
    return int(text) if whole else float(text)


def _unquoted(token: _Token) -> str:
    return re.sub(r"\\(.)", r"\1", token.text[1:-1], flags=re.DOTALL)


def _joined(kind: str, parts: list[JsonObject]) -> JsonObject:
    """One filter of several; those of the same kind are not nested."""
    if len(parts) == 1:
        return parts[0]
    inner: list[Json] = []
    for each in parts:
        filters = each.get("filters")
        if each["type"] == kind and isinstance(filters, list):
            inner += filters
        else:
            inner.append(each)
    return {"type": kind, "filters": inner}


def _denied(filter: JsonObject) -> JsonObject:
    """The opposite of a filter."""
    kind, filters = _OPPOSITE[str(filter["type"])], filter.get("filters")
    if isinstance(filters, list):
        return {"type": kind, "filters": [_denied(each) for each in filters if isinstance(each, dict)]}
    return {**filter, "type": kind}
