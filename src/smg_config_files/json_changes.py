"""JSON with comments and trailing commas, as editors and agents keep their settings: read, and changed in place.

Decides where a new member is written: behind the brace that opens its object, so that no other line has to change. Pure. Above:
changes.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from smg_config_files.text import TextRefused, read_json

__all__ = ["put_member", "read_commented"]

_DEEPEST = 64
_BETWEEN = re.compile(r"(?:[ \t\r\n\ufeff]|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)*")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_SCALAR = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null")
_REST_OF_LINE = re.compile(r"[ \t]*(?://[^\n]*)?\r?\n")


@dataclass(slots=True)
class _Node:
    """A value and where it stands; `members` are those of an object, by key."""

    start: int
    end: int
    value: Any
    members: dict[str, "_Node"] | None = field(default=None)


def read_commented(text: str) -> Any:
    """What a text says; an empty one is an empty object. Raises TextRefused."""
    return _read(text).value


def _read(text: str) -> _Node:
    reader = _Reader(text)
    start = reader.skip(0)
    if start == len(text):
        return _Node(start, start, {}, {})
    node = reader.value(start, 0)
    if reader.skip(node.end) != len(text):
        raise reader.refused(node.end, "something behind the end")
    return node


class _Reader:
    """Reads values at places of one text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def refused(self, at: int, why: str) -> TextRefused:
        line = self._text.count("\n", 0, at) + 1
        return TextRefused(f"line {line}: {why}", "this is no JSON", line)

    def skip(self, at: int) -> int:
        """Where the next character is that is no white space and in no comment."""
        match = _BETWEEN.match(self._text, at)
        return at if match is None else match.end()

    def value(self, at: int, depth: int) -> _Node:
        if depth > _DEEPEST:
            raise self.refused(at, "it is nested too deeply")
        opening = self._text[at : at + 1]
        if opening == "{":
            return self._object(at, depth)
        if opening == "[":
            return self._list(at, depth)
        match = (_STRING if opening == '"' else _SCALAR).match(self._text, at)
        if match is None:
            raise self.refused(at, "no value")
        return _Node(at, match.end(), self._scalar(at, match[0]))

    def _scalar(self, at: int, written: str) -> Any:
        try:
            return read_json(written)
        except TextRefused:
            raise self.refused(at, "no value") from None

    def _object(self, start: int, depth: int) -> _Node:
        members = dict[str, _Node]()
        at = self.skip(start + 1)
        while self._text[at : at + 1] != "}":
            match = _STRING.match(self._text, at)
            if match is None:
                raise self.refused(at, "no name of a member")
            name = self._scalar(at, match[0])
            colon = self.skip(match.end())
            if self._text[colon : colon + 1] != ":":
                raise self.refused(colon, "no colon")
            if name in members:
                raise self.refused(at, f"{name[:60]} is given twice")
            members[name] = self.value(self.skip(colon + 1), depth + 1)
            at = self._next(members[name].end, "}")
        return _Node(start, at + 1, {name: node.value for name, node in members.items()}, members)

    def _list(self, start: int, depth: int) -> _Node:
        items = list[Any]()
        at = self.skip(start + 1)
        while self._text[at : at + 1] != "]":
            node = self.value(at, depth + 1)
            items.append(node.value)
            at = self._next(node.end, "]")
        return _Node(start, at + 1, items)

    def _next(self, end: int, closing: str) -> int:
        """Where what follows a value begins: another, or the end."""
        at = self.skip(end)
        if self._text[at : at + 1] == ",":
            return self.skip(at + 1)
        if self._text[at : at + 1] != closing:
            raise self.refused(at, "neither a comma nor an end")
        return at


def put_member(text: str, path: Sequence[Any], value: Any) -> str:
    """`text` with the member at `path` set. Raises LookupError where an object on the way is none."""
    root = node = _read(text)
    if root.start == root.end:
        return f"{text}{_written(_nested(path, value), 0)}\n"
    for depth, name in enumerate(path):
        if node.members is None:
            raise LookupError(f"{path[depth - 1] if depth else 'the whole'} is no object")
        inner = node.members.get(name)
        if inner is None:
            return _inserted(text, node, depth, name, _nested(path[depth + 1 :], value))
        node = inner
    return text[: node.start] + _written(value, _indent(text, node.start)) + text[node.end :]


def _nested(path: Sequence[str], value: Any) -> Any:
    for name in reversed(path):
        value = {name: value}
    return value


def _inserted(text: str, node: _Node, depth: int, name: str, value: Any) -> str:
    """`text` with a new first member of an object."""
    outer = _indent(text, node.start)
    indent = outer + (outer // depth if depth and outer else 2)
    if node.members:
        indent = max(_indent(text, next(iter(node.members.values())).start), outer + 1)
    member = (
        f"{' ' * indent}{json.dumps(name, ensure_ascii=False)}: {_written(value, indent)}{',' if node.members else ''}"
    )
    at, behind = node.start + 1, _REST_OF_LINE.match(text, node.start + 1)
    if behind is not None:
        return f"{text[: behind.end()]}{member}\n{text[behind.end() :]}"
    closing = "" if node.members else "\n" + " " * outer
    return f"{text[:at]}\n{member}{closing or chr(10) + ' ' * indent}{text[at:].lstrip(' ')}"


def _indent(text: str, at: int) -> int:
    """The spaces before the first character of the line of a place; a tab counts as one."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return len(line) - len(line.lstrip(" \t"))


def _written(value: Any, indent: int) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n" + " " * indent)
