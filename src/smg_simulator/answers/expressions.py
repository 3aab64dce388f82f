"""Makes example texts of regular expressions and small grammars.

Pure given a `Random`. Above: answers.shapes. An expression is parsed into nodes, which are walked once; nothing is matched,
so no input can make it backtrack. Repetitions are bounded. Look-around, back-references, flags and properties are refused.
"""

import re
from collections.abc import Callable, Mapping
from random import Random

import attrs

__all__ = ["Unfollowable", "example_of_grammar", "example_of_regex"]

_MANY = 4  # most repetitions of something unbounded
_DEPTH = 64
_CLASSES = {
    "d": "0123456789",
    "w": "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_",
    "s": " ",
    "D": "abcdefgh",
    "W": " .,-",
    "S": "abcdefgh0123",
}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_RULE = re.compile(r"^\s*\??([A-Za-z_][\w-]*)\s*(?:::=|:)", re.MULTILINE)


class Unfollowable(ValueError):
    """No text can be made for a constraint: it is malformed, or not supported; the message says why."""


@attrs.frozen
class _Text:
    text: str


@attrs.frozen
class _OneOf:
    characters: str


@attrs.frozen
class _Sequence:
    parts: tuple[object, ...]


@attrs.frozen
class _Choice:
    options: tuple[object, ...]


@attrs.frozen
class _Repeat:
    what: object
    least: int
    most: int | None


@attrs.frozen
class _Reference:
    name: str


def example_of_regex(pattern: str, rng: Random, max_length: int = 4096) -> str:
    """A text of at most `max_length` characters that matches `pattern` as a whole. Raises Unfollowable."""
    node = _Parser(pattern, _regex_atom).parse()
    return _Writer(rng, {}, max_length).write(node)


def example_of_grammar(grammar: str, rng: Random, max_length: int = 4096) -> str:
    """A text of an EBNF (`root ::= ...`) or Lark-like (`start: ...`) grammar. It begins with the rule `root` or `start`,
    else with the first rule. Raises Unfollowable."""
    heads = list(_RULE.finditer(grammar))
    if not heads:
        raise Unfollowable("Grammar error: no rule")
    rules: dict[str, object] = {}
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        body = grammar[head.end() : following.start() if following else len(grammar)].strip()
        if not body:
            raise Unfollowable(f"Grammar error: rule {head[1]} is empty")
        rules[head[1]] = _Parser(body, _grammar_atom, spaced=True).parse()
    first = next((name for name in ("root", "start") if name in rules), heads[0][1])
    return _Writer(rng, rules, max_length).write(rules[first])


class _Parser:
    """Parses alternatives of sequences of repeated atoms into nodes. `atom` parses one atom of the notation; with `spaced`
    white space between atoms is skipped."""

    def __init__(self, source: str, atom: Callable[["_Parser"], object], *, spaced: bool = False) -> None:
        self.source = source
        self.at = 0
        self._atom = atom
        self._spaced = spaced
        self._depth = 0

    def parse(self) -> object:
        node = self.choice()
        if self.at < len(self.source):
            raise self.wrong(f"unexpected {self.source[self.at]!r}")
        return node

    def choice(self) -> object:
        self._depth += 1
        if self._depth > _DEPTH:
            raise self.wrong("nested too deeply")
        options = [self._sequence()]
        while self.peek() == "|":
            self.take()
            options.append(self._sequence())
        self._depth -= 1
        return options[0] if len(options) == 1 else _Choice(tuple(options))

    def _sequence(self) -> object:
        parts = []
        while self.peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._atom(self)))
        return parts[0] if len(parts) == 1 else _Sequence(tuple(parts))

    def _repeated(self, node: object) -> object:
        sign = self.peek()
        if sign == "{" and not re.match(r"\{\d*,?\d*\}", self.source[self.at :]):
            return node
        if sign not in ("*", "+", "?", "{"):
            return node
        self.take()
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(sign) or self._counts()
        if self.at < len(self.source) and self.source[self.at] in "?+" and not self._spaced:
            self.at += 1  # lazy or possessive: the same texts
        return self._repeated(_Repeat(node, least, most))

    def _counts(self) -> tuple[int, int | None]:
        inside = self.until("}")
        low, comma, high = inside.partition(",")
        least = int(low or 0)
        most = (int(high) if high else None) if comma else least
        if most is not None and most < least:
            raise self.wrong("a repetition's bounds are the wrong way round")
        return least, most

    def peek(self) -> str:
        if self._spaced:
            while self.at < len(self.source) and self.source[self.at].isspace():
                self.at += 1
        return self.source[self.at] if self.at < len(self.source) else ""

    def take(self) -> str:
        if self.at >= len(self.source):
            raise self.wrong("it ends too early")
        self.at += 1
        return self.source[self.at - 1]

    def until(self, end: str) -> str:
        start = self.at
        self.at = self.source.find(end, start)
        if self.at < 0:
            self.at = start
            raise self.wrong(f"{end!r} is missing")
        self.at += 1
        return self.source[start : self.at - 1]

    def group(self) -> object:
        node = self.choice()
        if self.peek() != ")":
            raise self.wrong("unclosed group")
        self.take()
        return node

    def wrong(self, what: str) -> Unfollowable:
        return Unfollowable(f"Grammar error: at {self.at}: {what}")


def _regex_atom(parser: _Parser) -> object:
    sign = parser.take()
    if sign == "(":
        return _regex_group(parser)
    if sign == "[":
        return _OneOf(_character_class(parser))
    if sign == "\\":
        return _escape(parser)
    if sign == ".":
        return _OneOf(_LETTERS)
    if sign in "^$":
        return _Text("")
    if sign in "*+?":
        raise parser.wrong("nothing to repeat")
    return _Text(sign)


def _regex_group(parser: _Parser) -> object:
    if parser.peek() == "?":
        parser.take()
        kind = parser.take()
        if kind == "P":
            kind = parser.take()
        if kind == "<" and parser.peek() not in ("=", "!"):
            parser.until(">")
        elif kind != ":":
            raise parser.wrong("look-around and flags are not supported")
    return parser.group()


def _escape(parser: _Parser) -> object:
    sign = parser.take()
    if sign in _CLASSES:
        return _OneOf(_CLASSES[sign])
    if sign in "bBAZz":
        return _Text("")
    if sign in "pP" or sign.isdigit():
        raise parser.wrong("properties and back-references are not supported")
    return _Text(_code_point(parser, sign))


def _code_point(parser: _Parser, sign: str) -> str:
    if sign in "xu":
        digits = "".join(parser.take() for _ in range(2 if sign == "x" else 4))
        try:
            return chr(int(digits, 16))
        except ValueError as error:
            raise parser.wrong(f"bad escape \\{sign}{digits}") from error
    return _CONTROLS.get(sign, sign)


def _character_class(parser: _Parser) -> str:
    """The characters that a class in brackets allows."""
    negated = parser.peek() == "^"
    if negated:
        parser.take()
    allowed: list[str] = []
    first = True
    while True:
        if parser.at >= len(parser.source):
            raise parser.wrong("unclosed character class")
        sign = parser.take()
        if sign == "]" and not first:
            break
        first = False
        piece = _class_member(parser, sign)
        if (
            len(piece) == 1
            and parser.source[parser.at : parser.at + 1] == "-"
            and parser.source[parser.at + 1 :][:1] not in ("", "]")
        ):
            parser.take()
            last = _class_member(parser, parser.take())
            if len(last) != 1 or ord(last) < ord(piece):
                raise parser.wrong("bad range in a character class")
            piece = "".join(map(chr, range(ord(piece), min(ord(last), ord(piece) + 255) + 1)))
        allowed.append(piece)
    characters = "".join(allowed)
    if negated:
        characters = "".join(each for each in _PRINTABLE if each not in characters)
    if not characters:
        raise parser.wrong("a character class allows nothing")
    return characters


def _class_member(parser: _Parser, sign: str) -> str:
    if sign != "\\":
        return sign
    sign = parser.take()
    return _CLASSES.get(sign) or _code_point(parser, sign)


def _grammar_atom(parser: _Parser) -> object:
    sign = parser.take()
    if sign == "(":
        return parser.group()
    if sign in "\"'":
        return _quoted(parser, sign)
    if sign == "[":
        return _OneOf(_character_class(parser))
    if sign == "/":
        return _Parser(parser.until("/"), _regex_atom).parse()
    if sign.isalpha() or sign == "_":
        start = parser.at - 1
        while parser.at < len(parser.source) and (
            parser.source[parser.at].isalnum() or parser.source[parser.at] in "_-"
        ):
            parser.at += 1
        return _Reference(parser.source[start : parser.at])
    raise parser.wrong(f"unexpected {sign!r}")


def _quoted(parser: _Parser, quote: str) -> object:
    text = ""
    while (sign := parser.take()) != quote:
        text += _code_point(parser, parser.take()) if sign == "\\" else sign
    return _Text(text)


class _Writer:
    """Writes the text of nodes. Raises Unfollowable when it grows over `max_length`, and when rules recurse without end."""

    def __init__(self, rng: Random, rules: Mapping[str, object], max_length: int) -> None:
        self._random = rng
        self._rules = rules
        self._left = max_length
        self._work = 16 * max_length + 1024  # nodes visited; what writes nothing must come to an end too

    def write(self, node: object, depth: int = 0) -> str:
        self._work -= 1
        if depth > _DEPTH * 2 or self._work < 0:
            raise Unfollowable("Grammar error: the rules do not come to an end")
        if isinstance(node, _Text):
            return self._count(node.text)
        if isinstance(node, _OneOf):
            return self._count(self._random.choice(node.characters))
        if isinstance(node, _Sequence):
            return "".join([self.write(part, depth + 1) for part in node.parts])
        if isinstance(node, _Choice):
            # deep down the last option is taken: recursive rules are written with the way out at one end
            options = node.options if depth < _DEPTH // 2 else (node.options[0], node.options[-1])
            return self.write(self._random.choice(options), depth + 1)
        if isinstance(node, _Repeat):
            most = node.most if node.most is not None else node.least + (_MANY if depth < _DEPTH // 2 else 0)
            times = self._random.randint(node.least, min(most, node.least + _MANY))
            return "".join([self.write(node.what, depth + 1) for _ in range(times)])
        if isinstance(node, _Reference) and node.name in self._rules:
            return self.write(self._rules[node.name], depth + 1)
        raise Unfollowable(f"Grammar error: unknown rule {getattr(node, 'name', node)}")

    def _count(self, text: str) -> str:
        self._left -= len(text)
        if self._left < 0:
            raise Unfollowable("Grammar error: the text grows too long")
        return text
