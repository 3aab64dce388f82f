"""Files of variables, `NAME=value` in a line, as shells and programs read them.

Decides where a variable is written: in its own line, else at the end. Pure. Above: changes.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from smg_config_files.text import TextRefused

__all__ = ["put_variable", "read_variables"]

_LINE = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=(.*)")
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,-]*")


def read_variables(text: str) -> dict[str, str]:
    """The variables of a text. Raises TextRefused where one is given twice, or goes on over lines."""
    found = dict[str, str]()
    for number, line in enumerate(text.split("\n"), 1):
        name, value = _variable(line)
        if not name:
            continue
        if name in found:
            raise TextRefused(f"line {number}: {name} is given twice", "a variable is given twice", number)
        if value[:1] in {'"', "'", "`"} and value[:1] not in value[1:]:
            raise TextRefused(f"line {number}: {name} goes on over lines", "a value of several lines", number)
        found[name] = _unquoted(value)
    return found


def _variable(line: str) -> tuple[str, str]:
    """Name and value of a line, both empty where it has none."""
    match = _LINE.fullmatch(line.rstrip("\r"))
    return (match[1], match[2].strip()) if match else ("", "")


def _unquoted(value: str) -> str:
    mark = value[:1]
    if mark in {'"', "'", "`"}:
        return value[1 : value.index(mark, 1)]
    return value.split(" #")[0].rstrip()


def put_variable(text: str, path: Sequence[Any], value: Any) -> str:
    """`text` with a variable set."""
    (name,) = path
    line = f"{name}={value if _PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False)}"
    lines = text.split("\n")
    for at, each in enumerate(lines):
        if _variable(each)[0] == name:
            lines[at] = line + "\r" * each.endswith("\r")
            return "\n".join(lines)
    gap = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{gap}{line}\n"
