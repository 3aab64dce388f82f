"""Judges texts by a grammar in xgrammar's EBNF, as `constraints.lark` writes it: all ends that a node can have from a place."""

from __future__ import annotations

import re
from typing import Any

_TOKEN = re.compile(
    r'\s*(?:(?P<string>"[^"]*")|(?P<cls>\[[^\]]*\])|(?P<name>\w+)|(?P<times>\{\d+,?\d*\}|[*+?])|(?P<sign>[()|]))'
)


def _unescaped(text: str) -> str:
    return re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), text)


class Ebnf:
    """The rules of one grammar. Left recursion is not followed."""

    def __init__(self, grammar: str) -> None:
        self.rules: dict[str, Any] = {}
        for line in grammar.splitlines():
            name, _, body = line.partition(" ::= ")
            assert name not in self.rules
            self._tokens = _tokens(body)
            self._at = 0
            self.rules[name] = self._choice()
            assert self._at == len(self._tokens), line

    def accepts(self, text: str) -> bool:
        self._text = text
        self._found: dict[tuple[str, int], frozenset[int] | None] = {}
        return len(text) in self._ends(("name", "root"), 0)

    def _choice(self) -> Any:
        options = [self._sequence()]
        while self._at < len(self._tokens) and self._tokens[self._at] == ("sign", "|"):
            self._at += 1
            options.append(self._sequence())
        return ("choice", options)

    def _sequence(self) -> Any:
        parts: list[Any] = []
        while self._at < len(self._tokens) and self._tokens[self._at] not in (("sign", "|"), ("sign", ")")):
            kind, text = self._tokens[self._at]
            self._at += 1
            if kind == "times":
                least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(text) or _counts(text)
                parts[-1] = ("times", parts[-1], least, most)
            elif kind == "sign":
                parts.append(self._choice())
                assert self._tokens[self._at] == ("sign", ")")
                self._at += 1
            else:
                parts.append((kind, text))
        assert parts, "an alternative is empty"
        return ("sequence", parts)

    def _ends(self, node: Any, start: int) -> frozenset[int]:
        kind = node[0]
        if kind == "string":
            text = _unescaped(node[1][1:-1])
            return frozenset([start + len(text)]) if self._text.startswith(text, start) else frozenset()
        if kind == "cls":
            return frozenset([start + 1]) if _in_class(node[1], self._text[start : start + 1]) else frozenset()
        if kind == "name":
            return self._of_rule(node[1], start)
        if kind == "choice":
            return frozenset().union(*(self._ends(option, start) for option in node[1]))
        if kind == "sequence":
            ends = frozenset([start])
            for part in node[1]:
                ends = frozenset().union(*(self._ends(part, end) for end in ends))
            return ends
        return self._repeated(node[1], node[2], node[3], start)

    def _of_rule(self, name: str, start: int) -> frozenset[int]:
        if (name, start) not in self._found:
            self._found[name, start] = None
            self._found[name, start] = self._ends(self.rules[name], start)
        found = self._found[name, start]
        assert found is not None, "left recursion"
        return found

    def _repeated(self, what: Any, least: int, most: int | None, start: int) -> frozenset[int]:
        ends = frozenset([start])
        for _ in range(least):
            ends = frozenset().union(*(self._ends(what, end) for end in ends))
        all_ends, times = ends, least
        while ends and (most is None or times < most):
            ends = frozenset().union(*(self._ends(what, end) for end in ends)) - all_ends
            all_ends |= ends
            times += 1
        return all_ends


def _tokens(body: str) -> list[tuple[str, str]]:
    found, at = [], 0
    body = body.rstrip()
    while at < len(body):
        match = _TOKEN.match(body, at)
        assert match is not None, body[at:]
        found.append((str(match.lastgroup), match[0].strip()))
        at = match.end()
    return found


def _counts(text: str) -> tuple[int, int | None]:
    low, comma, high = text[1:-1].partition(",")
    return int(low), (int(high) if high else None) if comma else int(low)


def _in_class(written: str, char: str) -> bool:
    """Whether the class has the character. All but letters, digits and a few signs are escaped in one."""
    if not char:
        return False
    negated = written.startswith("[^")
    inner = written[2 if negated else 1 : -1]
    members = re.findall(r"(\\u[0-9a-f]{4}|[^\\])(?:-(\\u[0-9a-f]{4}|[^\\]))?", inner)
    held = any(ord(_unescaped(low)) <= ord(char) <= ord(_unescaped(high or low)) for low, high in members)
    return held != negated
