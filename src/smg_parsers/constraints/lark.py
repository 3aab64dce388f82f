"""Lark grammars for free text, as the text is spelled inside a model's call.

A custom tool may say in Lark which texts it takes. Engines hold a part of their output to an EBNF grammar, so a Lark grammar is
translated into one, in which every terminal is spelled as the family of the model spells strings. Decides which grammars can be
translated. What Lark leaves to its lexer is not decided here: a text is taken if any reading of it follows the rules.
Refused: templates, `%declare`, `%extend`, `%override`, imports of anything but Lark's common terminals, and what
`patterns` refuses in an expression.
Above: `constraints`; `smg_core` checks grammars with `check_lark`. Below: `patterns`. Does not know: families, tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from smg_parsers.constraints.patterns import RAW, PatternError, Spelling, literal, spelled

__all__ = ["LarkError", "check_lark", "ebnf"]

MOST_CHARACTERS: Final = 16_384
MOST_DEFINITIONS: Final = 512
MOST_TOKENS: Final = 8000
MOST_NESTING: Final = 32
MOST_REPEATS: Final = 1000
_TRANSLATED: Final = 64
"""Grammars and translations that are kept: clients send the same tools with every request."""

COMMON: Final[Mapping[str, str]] = {
    "DIGIT": '"0".."9"',
    "HEXDIGIT": '"a".."f" | "A".."F" | DIGIT',
    "INT": "DIGIT+",
    "SIGNED_INT": '["+" | "-"] INT',
    "DECIMAL": 'INT "." INT? | "." INT',
    "_EXP": '("e" | "E") SIGNED_INT',
    "FLOAT": "INT _EXP | DECIMAL _EXP?",
    "SIGNED_FLOAT": '["+" | "-"] FLOAT',
    "NUMBER": "FLOAT | INT",
    "SIGNED_NUMBER": '["+" | "-"] NUMBER',
    "_STRING_INNER": r'/([^"\\\n]|\\[^\n])*/',
    "ESCAPED_STRING": r'"\"" _STRING_INNER "\""',
    "LCASE_LETTER": '"a".."z"',
    "UCASE_LETTER": '"A".."Z"',
    "LETTER": "UCASE_LETTER | LCASE_LETTER",
    "WORD": "LETTER+",
    "CNAME": '("_" | LETTER) ("_" | LETTER | DIGIT)*',
    "WS_INLINE": '(" " | /\\t/)+',
    "WS": r"/[ \t\f\r\n]/+",
    "CR": r"/\r/",
    "LF": r"/\n/",
    "NEWLINE": "(CR? LF)+",
    "SH_COMMENT": r"/#[^\n]*/",
    "CPP_COMMENT": r"/\/\/[^\n]*/",
    "SQL_COMMENT": r"/--[^\n]*/",
    "C_COMMENT": r"/\/\*([^*]|\*+[^*\/])*\*+\//",
}
"""The terminals of Lark's module `common`, with those that they are made of."""

_TOKEN: Final = re.compile(
    r"""
    (?P<space>[ \t\f\r]+|(?://|\#)[^\n]*|\\[ \t]*\r?\n)
  | (?P<line>\n)
  | (?P<directive>%[a-z]+)
  | (?P<rule>_{0,64}[a-z][a-z0-9_]*)
  | (?P<terminal>_{0,64}[A-Z][A-Z0-9_]*)
  | (?P<string>"(?:[^"\\\n]|\\[^\n])*"i?)
  | (?P<regex>/(?!/)(?:[^/\\\n]|\\[^\n])+/[imslux]*)
  | (?P<number>[+-]?[0-9]{1,9})
  | (?P<sign>->|\.\.|[:|()\[\]{}*+?!~.,])
    """,
    re.VERBOSE,
)


class LarkError(ValueError):
    """The grammar is malformed or cannot be translated; the message says in which line and why."""


@dataclass(frozen=True, slots=True)
class _Terminal:
    """Text that matches `pattern`, an expression as `patterns` takes it."""

    pattern: str
    ignore_case: bool = False
    dot_all: bool = False
    line: int = 0


@dataclass(frozen=True, slots=True)
class _Named:
    name: str
    line: int


@dataclass(frozen=True, slots=True)
class _Sequence:
    parts: tuple[_Node, ...]


@dataclass(frozen=True, slots=True)
class _Choice:
    options: tuple[_Node, ...]


@dataclass(frozen=True, slots=True)
class _Repeat:
    what: _Node
    times: str
    """`?`, `*`, `+`, or a range in braces."""


_Node = _Terminal | _Named | _Sequence | _Choice | _Repeat


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class _Grammar:
    """The definitions by name, and the terminals that may stand between any two others."""

    definitions: Mapping[str, _Node]
    ignored: tuple[_Node, ...]


def check_lark(grammar: str) -> None:
    """Raises LarkError for a grammar that `ebnf` does not translate."""
    ebnf(grammar, RAW, "")


@lru_cache(maxsize=_TRANSLATED)
def ebnf(grammar: str, spelling: Spelling, end: str) -> str:
    """The grammar in xgrammar's EBNF, for texts of it that are spelled and followed by `end` as it stands. Its first rule is
    `root`. Raises LarkError."""
    return _Writer(_read(grammar), spelling).write(end)


@lru_cache(maxsize=_TRANSLATED)
def _read(grammar: str) -> _Grammar:
    return _Reader(grammar).read()


# ------------------------------------------------------------------------------------------------------------------ reading


def _tokens(grammar: str) -> Iterator[_Token]:
    at, line, count = 0, 1, 0
    while at < len(grammar):
        found = _TOKEN.match(grammar, at)
        count += 1
        if found is None or count > MOST_TOKENS:
            what = f"more than {MOST_TOKENS} words" if found else f"{grammar[at]!r} begins nothing that is known here"
            raise _wrong(line, what)
        kind = str(found.lastgroup)
        if kind != "space":
            yield _Token(kind, found[0], line)
        line += found[0].count("\n")
        at = found.end()
    yield _Token("line", "", line)
    yield _Token("end", "", line)


def _wrong(line: int, what: str) -> LarkError:
    return LarkError(f"in line {line}: {what}")


class _Reader:
    """Reads a grammar into definitions, by recursive descent."""

    def __init__(self, grammar: str) -> None:
        if len(grammar) > MOST_CHARACTERS:
            raise LarkError(f"it has more than {MOST_CHARACTERS} characters")
        self._tokens = list(_tokens(grammar))
        self._at = 0
        self._depth = 0
        self._definitions: dict[str, _Node] = {}
        self._ignored: list[_Node] = []

    def read(self) -> _Grammar:
        while self._kind != "end":
            if self._take_if("line") is None:
                self._statement()
        if "start" not in self._definitions:
            raise LarkError("there is no rule named 'start'")
        return _Grammar(self._definitions, tuple(self._ignored))

    @property
    def _kind(self) -> str:
        return self._tokens[self._at].kind

    @property
    def _text(self) -> str:
        return self._tokens[self._at].text

    @property
    def _line(self) -> int:
        return self._tokens[self._at].line

    def _take(self) -> _Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _take_if(self, kind: str, text: str | None = None) -> _Token | None:
        if self._kind != kind or (text is not None and self._text != text):
            return None
        return self._take()

    def _need(self, kind: str, text: str | None = None) -> _Token:
        found = self._take_if(kind, text)
        if found is None:
            quoted = "the end of the line" if self._kind in ("line", "end") else repr(self._text)
            raise _wrong(self._line, f"{text or 'a ' + kind} was expected, not {quoted}")
        return found

    def _statement(self) -> None:
        while self._text in ("?", "!"):  # what they say is about the tree
            self._take()
        token = self._take()
        if token.kind == "directive":
            self._directive(token)
        elif token.kind in ("rule", "terminal"):
            self._definition(token)
        else:
            raise _wrong(token.line, f"a definition does not begin with {token.text!r}")

    def _definition(self, head: _Token) -> None:
        if self._take_if("sign", "."):
            self._need("number")  # a priority says which reading a parser prefers; every reading is taken here
        if self._text == "{":
            raise _wrong(head.line, "templates are not supported")
        self._need("sign", ":")
        self._define(head.text, self._choice(), head.line)
        self._need("line")

    def _define(self, name: str, node: _Node, line: int) -> None:
        if name in self._definitions:
            raise _wrong(line, f"{name!r} is defined twice")
        if len(self._definitions) >= MOST_DEFINITIONS:
            raise _wrong(line, f"more than {MOST_DEFINITIONS} definitions")
        self._definitions[name] = node

    def _directive(self, token: _Token) -> None:
        if token.text == "%ignore":
            self._ignored.append(self._choice())
        elif token.text == "%import":
            self._import()
        else:
            raise _wrong(token.line, f"{token.text} is not supported")
        self._need("line")

    def _import(self) -> None:
        """`%import common.NAME`, `%import common.NAME -> OTHER`, `%import common (NAME, OTHER)`."""
        module = self._take()
        if module.text != "common":
            raise _wrong(module.line, f"only terminals of 'common' can be imported, not of {module.text!r}")
        if self._take_if("sign", "."):
            name = self._need("terminal")
            self._common(name, self._need("terminal").text if self._take_if("sign", "->") else name.text)
            return
        self._need("sign", "(")
        while True:
            name = self._need("terminal")
            self._common(name, name.text)
            if self._take_if("sign", ")"):
                return
            self._need("sign", ",")

    def _common(self, name: _Token, wanted: str) -> None:
        """Define the terminal `wanted` as Lark's common one, and what that is made of under names that no grammar can have."""
        if name.text not in COMMON:
            raise _wrong(name.line, f"'common' has no terminal {name.text!r}")
        if self._definitions.get(wanted) != _Named(_of_common(name.text), 0):
            self._define(wanted, _Named(_of_common(name.text), 0), name.line)
        self._definitions.update((made, node) for made, node in _common_nodes() if made not in self._definitions)

    def _choice(self) -> _Node:
        """Alternatives, each of which may stand in a line of its own."""
        self._depth += 1
        if self._depth > MOST_NESTING:
            raise _wrong(self._line, f"groups are nested more than {MOST_NESTING} deep")
        options = [self._sequence()]
        while self._goes_on():
            options.append(self._sequence())
        self._depth -= 1
        return options[0] if len(options) == 1 else _Choice(tuple(options))

    def _goes_on(self) -> bool:
        """Take the sign of a further alternative, on this line or a later one."""
        at = self._at
        self._skip_lines()
        if self._take_if("sign", "|"):
            return True
        self._at = at
        return False

    def _skip_lines(self) -> None:
        while self._take_if("line"):
            pass

    def _sequence(self) -> _Node:
        parts: list[_Node] = []
        within = self._depth > 1  # brackets may go over several lines
        if within:
            self._skip_lines()
        while self._kind in ("rule", "terminal", "string", "regex") or self._text in ("(", "["):
            parts.append(self._repeated(self._atom()))
            if within:
                self._skip_lines()
        if self._take_if("sign", "->"):
            self._need("rule")  # names a branch of the tree
        return parts[0] if len(parts) == 1 else _Sequence(tuple(parts))

    def _repeated(self, node: _Node) -> _Node:
        if self._kind == "sign" and self._text in ("*", "+", "?"):
            return _Repeat(node, self._take().text)
        tilde = self._take_if("sign", "~")
        if tilde is None:
            return node
        least = int(self._need("number").text)
        most = int(self._need("number").text) if self._take_if("sign", "..") else least
        if not 0 <= least <= most <= MOST_REPEATS:
            raise _wrong(tilde.line, f"a repetition is not of 0 to {MOST_REPEATS}")
        return _Repeat(node, f"{{{least},{most}}}")

    def _atom(self) -> _Node:
        token = self._take()
        if token.kind in ("rule", "terminal"):
            if self._text == "{":
                raise _wrong(token.line, "templates are not supported")
            return _Named(token.text, token.line)
        if token.kind == "string":
            return self._range(token) if self._take_if("sign", "..") else _string(token)
        if token.kind == "regex":
            return _regex(token)
        node = self._choice()
        self._need("sign", ")" if token.text == "(" else "]")
        return _Repeat(node, "?") if token.text == "[" else node

    def _range(self, first: _Token) -> _Node:
        low, high = _unquoted(first), _unquoted(self._need("string"))
        if len(low) != 1 or len(high) != 1 or high < low:
            raise _wrong(first.line, "a range goes from one character to a later one")
        return _Terminal(f"[\\U{{{ord(low):x}}}-\\U{{{ord(high):x}}}]", line=first.line)


def _unquoted(token: _Token) -> str:
    """The text of a string, whose escapes are Python's."""
    inner = token.text.removesuffix("i")[1:-1]
    try:
        return _ESCAPE.sub(_escaped, inner)
    except ValueError as error:
        raise _wrong(token.line, f"the string {token.text} has an escape that is no character") from error


_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)")
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v"}


def _escaped(found: re.Match[str]) -> str:
    text = found[1]
    if len(text) > 1:
        return chr(int(text[1:], 16))
    if text in "xuU":
        raise ValueError(text)
    return _CONTROLS.get(text, text if text in "\\\"'/" else "\\" + text)


def _string(token: _Token) -> _Terminal:
    text = _unquoted(token)
    if not text:
        raise _wrong(token.line, "a string is empty")
    return _Terminal(literal(text), ignore_case=token.text.endswith("i"), line=token.line)


def _regex(token: _Token) -> _Terminal:
    body, _, flags = token.text[1:].rpartition("/")
    if set(flags) - set("isu"):
        raise _wrong(token.line, f"of the flags of an expression only i, s and u are supported, not {flags!r}")
    return _Terminal(body, ignore_case="i" in flags, dot_all="s" in flags, line=token.line)


def _of_common(name: str) -> str:
    return f"common.{name}"


@lru_cache(maxsize=1)
def _common_nodes() -> tuple[tuple[str, _Node], ...]:
    """Lark's common terminals, each under the name that `_of_common` gives it."""
    source = "\n".join(f"{name}: {body}" for name, body in COMMON.items())
    read = _Reader(f"start: DIGIT\n{source}\n").read()
    return tuple((_of_common(name), _renamed(node)) for name, node in read.definitions.items() if name != "start")


def _renamed(node: _Node) -> _Node:
    if isinstance(node, _Named):
        return _Named(_of_common(node.name), 0)
    if isinstance(node, _Sequence):
        return _Sequence(tuple(map(_renamed, node.parts)))
    if isinstance(node, _Choice):
        return _Choice(tuple(map(_renamed, node.options)))
    if isinstance(node, _Repeat):
        return _Repeat(_renamed(node.what), node.times)
    return node


# ------------------------------------------------------------------------------------------------------------------ writing


class _Writer:
    """Writes the definitions that `start` leads to as rules of EBNF."""

    def __init__(self, grammar: _Grammar, spelling: Spelling) -> None:
        self._grammar = grammar
        self._spelling = spelling
        self._names: dict[str, str] = {}
        self._waiting: list[str] = []

    def write(self, end: str) -> str:
        start = self._reference("start", 0)
        gap = [_IGNORED] if self._grammar.ignored else []
        lines = [f"root ::= {' '.join([start, *gap, *([_quoted(end)] if end else [])])}"]
        while self._waiting:
            name = self._waiting.pop()
            body = self._node(self._grammar.definitions[name], in_rule=not _is_terminal(name))
            lines.append(f"{self._names[name]} ::= {body}")
        if gap:
            ignored = self._node(_Choice(self._grammar.ignored), in_rule=False)
            lines.append(f"{_IGNORED} ::= ({ignored})*")
            lines += self._left_over()
        return "\n".join(lines) + "\n"

    def _left_over(self) -> list[str]:
        """The rules of terminals that only what is ignored names."""
        lines = []
        while self._waiting:
            name = self._waiting.pop()
            lines.append(f"{self._names[name]} ::= {self._node(self._grammar.definitions[name], in_rule=False)}")
        return lines

    def _reference(self, name: str, line: int) -> str:
        if name not in self._grammar.definitions:
            raise _wrong(line, f"{name!r} is not defined")
        if name not in self._names:
            self._names[name] = f"r{len(self._names)}_{name.removeprefix('common.').strip('_').lower()}"
            self._waiting.append(name)
        return self._names[name]

    def _node(self, node: _Node, *, in_rule: bool) -> str:
        """`in_rule`: before each terminal what is ignored may stand; within a terminal it may not."""
        if isinstance(node, _Terminal):
            return self._separated(self._terminal(node), separated=in_rule)
        if isinstance(node, _Named):
            reference = self._reference(node.name, node.line)
            if _is_terminal(node.name):
                return self._separated(reference, separated=in_rule)
            if not in_rule:
                raise _wrong(node.line, f"a terminal cannot have the rule {node.name!r} in it")
            return reference
        if isinstance(node, _Sequence):
            return " ".join([self._node(part, in_rule=in_rule) for part in node.parts]) or '""'
        if isinstance(node, _Choice):
            return "(" + " | ".join([self._node(option, in_rule=in_rule) for option in node.options]) + ")"
        return f"({self._node(node.what, in_rule=in_rule)}){node.times}"

    def _separated(self, text: str, *, separated: bool) -> str:
        return f"({_IGNORED} {text})" if separated and self._grammar.ignored else text

    def _terminal(self, node: _Terminal) -> str:
        try:
            found = spelled(node.pattern, self._spelling, ignore_case=node.ignore_case, dot_all=node.dot_all)
        except PatternError as error:
            raise _wrong(node.line, f"an expression cannot be used: {error}") from error
        return _as_ebnf(found)


_IGNORED: Final = "ignored"


def _is_terminal(name: str) -> bool:
    return name.startswith("common.") or name.strip("_")[:1].isupper()


_PIECE: Final = re.compile(
    r"(?P<group>\(\?:)|(?P<cls>\[(?:\\.|[^\]\\])*\])|(?P<times>[*+?]|\{[0-9,]+\})|(?P<sign>[()|])|\\x..|\\.|.",
    re.DOTALL,
)


def _as_ebnf(pattern: str) -> str:
    """The expression, which is as `spelled` writes it, in EBNF: characters become strings, the rest stays."""
    out: list[str] = []
    run = ""  # characters that are one string, unless the last one is repeated
    for found in _PIECE.finditer(pattern):
        text = found[0]
        if found.lastgroup is None:
            run += _one(text)
            continue
        if run:
            split = 1 if found["times"] and len(run) > 1 else 0
            out += [f" {_quoted(run[:-1])}"] * split + [f" {_quoted(run[-1] if split else run)}"]
            run = ""
        out.append(_class(text) if found["cls"] else "(" if found["group"] else text)
        if found["cls"] or found["group"] or text in "(|":
            out[-1] = " " + out[-1]
    return f"({''.join(out).strip()}{' ' if run and out else ''}{_quoted(run) if run else ''})" if out or run else '""'


def _one(text: str) -> str:
    """The character of a piece."""
    if text.startswith("\\x"):
        return chr(int("0" + text[1:], base=16))
    return text[-1]


def _class(text: str) -> str:
    """A class in brackets, its escapes as EBNF has them."""
    begin = "[^" if text.startswith("[^") else "["
    inner = text[len(begin) : -1]
    return begin + re.sub(r"\\(x..|.)|[\[\^]", lambda found: _code(_one(found[0])), inner) + "]"


def _code(char: str) -> str:
    return f"\\u{ord(char):04x}"


def _quoted(text: str) -> str:
    return (
        '"'
        + "".join(_code(char) if char in '"\\' or ord(char) < 0x20 or char == "\x7f" else char for char in text)
        + '"'
    )
