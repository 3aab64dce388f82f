"""The formats of a structural tag, as xgrammar documents them, and the errors of those who make one.

Decides: how formats are put together. Above: `constraints`, `arguments`. Below: the standard library. Does not know:
families, tools, what a format is for.
"""

import json
from collections.abc import Mapping, Sequence

JsonObject = Mapping[str, object]
"""A JSON schema, or a format of a structural tag."""


class ConstraintError(ValueError):
    """The tools, the tool_choice or the response_format are malformed, or name a tool that is not there. `tool`: the name of the
    tool at fault, None where it is not one tool's."""

    def __init__(self, message: str, tool: str | None = None) -> None:
        super().__init__(message)
        self.tool = tool


class ConstraintUnsupported(ConstraintError):
    """The engine or the family cannot enforce what the request asks for."""


def dumped(value: object) -> str:
    """The value as JSON, as short as it can be written."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def const_text(value: str) -> JsonObject:
    """This text and no other."""
    return {"type": "const_string", "value": value}


def optional_form(content: JsonObject) -> JsonObject:
    """The content, or nothing."""
    return {"type": "optional", "content": content}


def tag_form(begin: str, content: JsonObject, end: str) -> JsonObject:
    """The content between two texts; free text in it ends at the second."""
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def sequence_form(parts: Sequence[JsonObject]) -> JsonObject:
    """The parts in order, with nested sequences flattened and empty strings left out."""
    flat: list[JsonObject] = []
    for part in parts:
        flat.extend(map(object_or_empty, list_or_empty(part["elements"])) if part["type"] == "sequence" else [part])
    kept = [part for part in flat if part != const_text("")] or [const_text("")]
    return kept[0] if len(kept) == 1 else {"type": "sequence", "elements": kept}


def either_form(forms: Sequence[JsonObject]) -> JsonObject:
    return forms[0] if len(forms) == 1 else {"type": "or", "elements": list(forms)}


def object_or_empty(value: object) -> JsonObject:
    """The value if it is an object, else an empty object: a malformed part of a schema allows anything."""
    return value if isinstance(value, dict) else {}


def list_or_empty(value: object) -> list[object]:
    """The value if it is a list, else an empty list."""
    return value if isinstance(value, list) else list(value) if isinstance(value, tuple) else []
