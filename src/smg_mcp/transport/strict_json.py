"""JSON that two readers cannot read in two ways: no key twice in an object, also not with other capitals.

Above: the transports, which look at every message before the mcp package does. Below: the standard library. Pure. A reader that
takes the first of two keys and one that takes the last would see two different tools in one message.
"""

import json
import re
from typing import Any

__all__ = ["AmbiguousJson", "NoObject", "strict_object", "whole_characters"]

_HALF = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
"""An escaped backslash, two halves of one character, or (the group) a half alone."""


class AmbiguousJson(ValueError):
    """A text that is no JSON object, is nested too deeply, or has a key twice."""


class NoObject(AmbiguousJson):
    """A text that is no JSON, or none of an object."""


def whole_characters(text: bytes) -> bytes:
    """The JSON with a sign for what cannot be read in place of each half of a character: servers in JavaScript write halves where
    they cut a text, and readers refuse the whole message for one."""
    if b"\\ud" not in text and b"\\uD" not in text:
        return text
    return _HALF.sub(lambda found: b"\\ufffd" if found[1] else found[0], text)


def strict_object(text: str | bytes, depth: int) -> dict[str, Any]:
    """The object that `text` holds. Raises AmbiguousJson. Keys that are alike but for capitals are refused in the protocol's own
    envelope and in `params`, `result` and `error`; what a tool is given or gives back may have such keys, but no key twice."""
    try:
        value = json.loads(text, object_pairs_hook=_pairs, parse_constant=_constant)
    except AmbiguousJson:
        raise
    except ValueError as error:
        raise NoObject("the message is no JSON") from error
    except RecursionError as error:
        raise AmbiguousJson("the message is no JSON that can be read") from error
    if not isinstance(value, dict):
        raise NoObject("the message is no object")
    _check_envelope(value)
    if _depth(value, depth) > depth:
        raise AmbiguousJson(f"the message is nested more than {depth} deep")
    return value


def _constant(name: str) -> None:
    raise AmbiguousJson(f"the message has {name}, which is no JSON")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise AmbiguousJson("an object has a key twice")
    return found


def _check_envelope(message: dict[str, Any]) -> None:
    _check_capitals(message)
    for part in ("params", "result", "error"):
        inner = message.get(part)
        if isinstance(inner, dict):
            _check_capitals(inner)
            tools = inner.get("tools")
            for tool in tools if isinstance(tools, list) else ():
                if isinstance(tool, dict):
                    _check_capitals(tool)


def _check_capitals(value: dict[str, Any]) -> None:
    if len({key.casefold() for key in value}) != len(value):
        raise AmbiguousJson("an object has two keys that are alike but for capitals")


def _depth(value: Any, most: int) -> int:
    level, depth = [value], 0
    while level and depth <= most:
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                below.extend(each.values())
            elif isinstance(each, list):
                below.extend(each)
        depth += 1 if any(isinstance(each, dict | list) for each in level) else 0
        level = [each for each in below if isinstance(each, dict | list)]
    return depth
