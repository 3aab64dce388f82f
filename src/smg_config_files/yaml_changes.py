"""YAML in blocks: changed in place.

Decides where an entry is written: in its own lines, else at the end of the document or of its list. Pure; PyYAML finds the
places. Above: changes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["ListItem", "put_entry"]


@dataclass(frozen=True, slots=True)
class ListItem:
    """The item of a list whose `key` has this value."""

    key: str
    value: str

    def is_in(self, value: object) -> bool:
        """Whether `value` is this item."""
        return isinstance(value, Mapping) and value.get(self.key) == self.value


def put_entry(text: str, path: Sequence[Any], value: Any) -> str:
    """`text` with an entry of the document set, or an item of a list there. Raises LookupError where it is no block."""
    import yaml

    root = yaml.compose(text, yaml.SafeLoader)
    name, *rest = path
    entry = {name: [value]} if rest else {name: value}
    if root is None:
        gap = "" if not text or text.endswith("\n") else "\n"
        return f"{text}{gap}{_block(entry, 0)}"
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        raise LookupError("the document is no block of entries")
    node = next((each for key, each in root.value if key.value == name), None)
    if node is None:
        return _behind(text, _end(text, root), _block(entry, root.start_mark.column))
    if not rest:
        return text[: node.start_mark.index] + json.dumps(value, ensure_ascii=False) + text[_end(text, node) :]
    return _put_item(text, node, rest[0], value)


def _put_item(text: str, node: Any, item: ListItem, value: Mapping[str, Any]) -> str:
    items = node.value if isinstance(node.value, list) else []
    empty = not items and (node.start_mark.index == node.end_mark.index or node.flow_style)
    if empty:
        before = text[: node.start_mark.index].rstrip(" ")
        return f"{before}\n{_block([value], 2).rstrip()}{text[node.end_mark.index :]}"
    if node.id != "sequence" or node.flow_style:
        raise LookupError("the list is not written as a block")
    column = node.start_mark.column
    for each in items:
        if _named(each, item):
            written = (
                json.dumps(value, ensure_ascii=False) if each.flow_style else _block(value, each.start_mark.column)
            )
            return text[: each.start_mark.index] + written.strip() + text[_end(text, each) :]
    return _behind(text, _end(text, items[-1]), _block([value], column))


def _named(node: Any, item: ListItem) -> bool:
    """Whether a node is the item."""
    return node.id == "mapping" and any(
        key.value == item.key and entry.value == item.value for key, entry in node.value
    )


def _end(text: str, node: Any) -> int:
    """Where what a node says ends: PyYAML puts the end of a block behind the white space and comments that follow."""
    if isinstance(node.value, list) and node.value and not node.flow_style:
        last = node.value[-1]
        return _end(text, last[1] if isinstance(last, tuple) else last)
    at: int = node.end_mark.index
    return len(text[:at].rstrip()) if getattr(node, "style", None) in {"|", ">"} else at


def _behind(text: str, at: int, lines: str) -> str:
    """`text` with lines behind the one of a place."""
    end = text.find("\n", at)
    return f"{text}\n{lines}" if end < 0 else f"{text[: end + 1]}{lines}{text[end + 1 :]}"


def _block(value: Any, column: int) -> str:
    """A mapping or a list of mappings as lines; what is in a list of scalars, and every scalar, is JSON."""
    indent = " " * column
    if isinstance(value, list):
        return "".join(f"{indent}- {_block(each, column + 2).lstrip()}" for each in value)
    lines = ""
    for name, each in value.items():
        key = name if name.replace("-", "").isalnum() else json.dumps(name)
        nested = isinstance(each, Mapping) or (isinstance(each, list) and any(isinstance(one, Mapping) for one in each))
        written = f"\n{_block(each, column + 2)}" if nested else f" {json.dumps(each, ensure_ascii=False)}\n"
        lines += f"{indent}{key}:{written}"
    return lines
