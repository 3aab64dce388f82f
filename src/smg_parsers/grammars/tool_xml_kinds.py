"""The kind of a value by the tags of its call, and the values that are no text.

Decides: the JSON types behind the words that formats use for them (`string="false"`, `type="number"`).
Above: `tool_xml`. Below: `base`, `coerce`.
Does not know: where a value begins or ends.
"""

from __future__ import annotations

from typing import Final

from smg_parsers.pieces.base import Schema
from smg_parsers.values.coerce import types_of

KINDS: Final = {
    "json": ["object", "array", "number", "integer", "boolean", "null"],
    "number": ["integer", "number"],
    "integer": ["integer"],
    "boolean": ["boolean"],
    "object": ["object"],
    "array": ["array"],
    "null": ["null"],
}


PLAIN: Final = frozenset(("number", "integer", "boolean", "null"))


def is_plain(schema: Schema, root: Schema) -> bool:
    """Whether a value is a number or a word, and no text."""
    types = types_of(schema, root)
    return bool(types) and types <= PLAIN


def written_kind(written: str) -> str:
    """What an attribute such as `string="false"` or `type="number"` says about the value."""
    word = written.partition("[")[0].strip().lower()
    return {"true": "string", "false": "json", "any": ""}.get(word, word)
