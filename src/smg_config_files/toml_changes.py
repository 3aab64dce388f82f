"""TOML: read, and changed in place.

Decides where a setting is written: in its own lines, else behind the last one above the first table; and a table: in its own
lines, else at the end. Pure. Above: changes.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from smg_config_files.text import TextRefused

__all__ = ["put_setting", "read_toml"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SKIPPED = re.compile(r"(?:[ \t\r\n\ufeff]|#[^\n]*)*")
_TOKEN = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*|.', re.DOTALL)


def read_toml(text: str) -> Any:
    """What a text says. Raises TextRefused."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:
        raise TextRefused(str(error)[:300], "this is no TOML") from None


@dataclass(frozen=True, slots=True)
class _Statement:
    """A line, or lines, that say one thing: a table's head (`value` is -1), or a key and where its value begins."""

    start: int
    end: int
    path: tuple[str, ...]
    value: int = -1
    array: bool = False


def _statements(text: str) -> Iterator[_Statement]:
    """All statements of a text that is TOML."""
    at = 0
    while True:
        match = _SKIPPED.match(text, at)
        start = at if match is None else match.end()
        if start >= len(text):
            return
        if text[start] == "[":
            end = _end(text, start, head=True)
            written = text[start:end].rstrip()
            yield _Statement(start, end, _path_of(f"{written}\n"), array=written.startswith("[["))
        else:
            equals = _equals(text, start)
            end = _end(text, equals + 1)
            yield _Statement(start, end, _path_of(f"{text[start:equals]}=0"), equals + 1)
        at = end


def _path_of(written: str) -> tuple[str, ...]:
    """The names of a table's head, or of a key that is 0."""
    parsed: Any = tomllib.loads(written)
    path = list[str]()
    while isinstance(parsed, dict | list) and parsed:
        if isinstance(parsed, list):
            parsed = parsed[0]
            continue
        ((name, parsed),) = parsed.items()
        path.append(name)
    return tuple(path)


def _equals(text: str, start: int) -> int:
    return next(match.start() for match in _TOKEN.finditer(text, start) if match[0] == "=")


def _end(text: str, start: int, *, head: bool = False) -> int:
    """Where a statement ends: before a comment or the end of the line, outside of all brackets."""
    depth, last = 0, start
    for match in _TOKEN.finditer(text, start):
        token = match[0]
        if token in {"\n", "\r"} or token[0] == "#":
            if depth <= 0:
                return last
            continue
        depth += (token in {"[", "{"}) - (token in {"]", "}"})
        if not token.isspace():
            last = match.end()
        if head and depth == 0:
            return last
    return last


def put_setting(text: str, path: Sequence[Any], value: Any) -> str:
    """`text` with a setting above all tables set, or a table, for a value that is a mapping."""
    statements, names = list(_statements(text)), tuple(path)
    if isinstance(value, Mapping):
        return _put_table(text, statements, names, value)
    first = next((at for at, each in enumerate(statements) if each.value < 0), len(statements))
    above = statements[:first]
    for each in above:
        if each.path == names:
            gap = " " if text[each.value : each.value + 1] == " " else ""
            return f"{text[: each.value]}{gap}{_value(value)}{text[each.end :]}"
    line = f"{_key(names)} = {_value(value)}\n"
    if not above:
        gap = "\n" if text.strip() else ""
        mark = "\ufeff" * text.startswith("\ufeff")
        return f"{mark}{line}{gap}{text.removeprefix(mark)}"
    return _behind(text, above[-1].end, line)


def _put_table(text: str, statements: Sequence[_Statement], names: tuple[str, ...], value: Mapping[str, Any]) -> str:
    lines = f"[{_key(names)}]\n" + "".join(f"{_key((name,))} = {_value(each)}\n" for name, each in value.items())
    heads = [at for at, each in enumerate(statements) if each.value < 0]
    for at in heads:
        if statements[at].path == names and not statements[at].array:
            behind = next((each for each in heads if each > at), len(statements))
            end = statements[behind - 1].end
            return text[: statements[at].start] + lines.removesuffix("\n") + text[end:]
    gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}{lines}"


def _behind(text: str, at: int, line: str) -> str:
    """`text` with a line behind the one of a place."""
    end = text.find("\n", at)
    return f"{text}\n{line}" if end < 0 else f"{text[: end + 1]}{line}{text[end + 1 :]}"


def _key(names: Sequence[str]) -> str:
    return ".".join(name if _BARE.fullmatch(name) else _value(name) for name in names)


def _value(value: Any) -> str:
    """A value: JSON's scalars and lists are TOML's, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
