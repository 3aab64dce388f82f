"""The tags themselves: names, attributes, and values that nest as elements.

Decides: what a tag names, and what JSON a tree of elements is. Tags are bounded in length, trees in depth.
Above: `tool_xml`. Below: `base`, `coerce`, `literals`.
Does not know: calls.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from smg_parsers.pieces.base import NAME_LIMIT, SPACE, Schema, match, skip_space
from smg_parsers.pieces.checked import Checked
from smg_parsers.values.coerce import child_schema, coerce, item_schema, types_of
from smg_parsers.values.literals import quote

TAG_LIMIT: Final = NAME_LIMIT
"""Longest tag with attributes, in characters."""
ELEMENT_DEPTH: Final = 32
_ATTRIBUTE_LIMIT: Final = 64

SELF_CLOSED: Final = "/"
_NOT_IN_NAMES: Final = "<>{}\"'\n\r\t"
_PLAIN_END: Final = (">",)
_NAME: Final = re.compile(f"[^ {_NOT_IN_NAMES}]*")
_LOOSE_NAME: Final = re.compile(f"[^{_NOT_IN_NAMES}]*")


@dataclass(frozen=True, slots=True)
class Tag(Checked):
    """An opening tag: `begin`, then a name, then one of `ends`, or one of `stops`, which is not part of the tag.

    With `attribute`, the name is that attribute's value. `entities` says that attribute values write quotes and
    ampersands as entities. A `loose` name may hold spaces. White space around the name belongs to the tag. A name before
    a `>` may stand in quotes, and a slash before the `>` (`SELF_CLOSED` among the attributes) closes the tag itself.
    """

    begin: str
    ends: tuple[str, ...] = (">",)
    stops: tuple[str, ...] = ()
    attribute: str = ""
    entities: bool = False
    loose: bool = False


def read_tag(tag: Tag, buf: str, pos: int, final: bool) -> tuple[int, str, dict[str, str]]:
    """Read a tag whose `begin` ends at `pos`: the position behind it, its name, its attributes.

    Without a name the position says what went wrong: complemented, more text is needed; else it is where the text
    stopped being a tag.
    """
    if not tag.attribute:
        reached, name = _named(tag, buf, pos, final)
        if name[-1:] == "/" and tag.ends == _PLAIN_END:
            return reached, name[:-1].rstrip(), {SELF_CLOSED: name[-1]}
        return reached, name, {}
    attributes: dict[str, str] = {}
    window = buf[pos : pos + TAG_LIMIT]
    if len(window) < TAG_LIMIT and not any(end in window for end in tag.ends):
        return ~pos, "", attributes
    reached = _attributes(tag, window, final, attributes)
    if reached < 0:
        return (pos + TAG_LIMIT if len(window) == TAG_LIMIT else ~pos), "", attributes
    if tag.entities:
        attributes = {key: value.replace("&quot;", '"').replace("&amp;", "&") for key, value in attributes.items()}
    return pos + reached, "" if "" in attributes else attributes.get(tag.attribute, ""), attributes


def written_once(name: str, tools: Mapping[str, Schema] | None) -> str:
    """The name of a tool that a model has written twice, as in `get_weather.get_weather`; else the name as it is."""
    head, _, tail = name.partition(".")
    return head if head == tail and tools and name not in tools and head in tools else name


def _named(tag: Tag, buf: str, pos: int, final: bool) -> tuple[int, str]:
    limit = min(len(buf), pos + NAME_LIMIT)
    window = buf[pos:limit]
    begin = limit - len(window.lstrip(SPACE))
    quoted = tag.ends == _PLAIN_END and buf[begin : begin + 1] in ("'", '"')
    at = _name_end(tag, buf, begin + quoted, limit)
    name = buf[begin + quoted : at].rstrip(" ")
    at += quoted and buf[at : at + 1] == buf[begin]
    stop = limit - len(buf[at:limit].lstrip(SPACE))
    if "\n" in tag.ends and name:
        line = buf.find("\n", at, stop)
        if line >= 0:
            return line + 1, name
    if stop >= pos + NAME_LIMIT:
        return pos + NAME_LIMIT, ""
    if stop == len(buf):
        return ~pos, ""
    found = match(buf, stop, (*tag.ends, *tag.stops), final)
    if found == -1:
        return ~pos, ""
    if found == -2 or not name:
        return stop, ""
    return (stop + len(tag.ends[found]) if found < len(tag.ends) else stop), name


def _name_end(tag: Tag, buf: str, begin: int, limit: int) -> int:
    """The position after the characters of a name."""
    found = (_LOOSE_NAME if tag.loose else _NAME).match(buf, begin, limit)
    at = begin if found is None else found.end()
    for end in (*tag.ends, tag.begin):  # where the tag begins anew, this one had no end
        if end[:1] not in _NOT_IN_NAMES:
            earlier = buf.find(end, begin, at)
            at = earlier if earlier >= 0 else at
    return at


def _at(buf: str, at: int, ends: tuple[str, ...]) -> bool:
    return buf.startswith(ends, at)


def _attributes(tag: Tag, buf: str, final: bool, found: dict[str, str]) -> int:
    """Read `name="value"` pairs up to the tag's end; -1 when the end is missing. An error is recorded under the empty name."""
    at = 0
    while True:
        at = skip_space(buf, at)
        if at == len(buf):
            return -1
        end = match(buf, at, tag.ends, final)
        if end >= 0:
            return at + len(tag.ends[end])
        if buf[at] == "/":
            found[SELF_CLOSED] = "/"
            at += 1
            continue
        equals = at
        while equals < len(buf) and equals - at < _ATTRIBUTE_LIMIT and (buf[equals].isalnum() or buf[equals] in "_-:."):
            equals += 1
        value = skip_space(buf, equals)
        if end == -1 or value == len(buf):
            return -1
        if buf[value] != "=" or equals == at:
            found[""] = "?"
            return value
        at = _attribute_value(tag, buf, skip_space(buf, value + 1), buf[at:equals], found)
        if at < 0:
            return -1


def _attribute_value(tag: Tag, buf: str, at: int, name: str, found: dict[str, str]) -> int:
    """Read one value, quoted or bare; returns where it ends, or -1 when that is not there yet."""
    if at == len(buf):
        return -1
    mark = buf[at]
    if mark in "\"'":
        end = buf.find(mark, at + 1)
        found[name] = buf[at + 1 : end]
        return end + 1 if end >= 0 else -1
    end = at
    while end < len(buf) and buf[end] not in SPACE and not _at(buf, end, tag.ends) and not buf.startswith("/>", end):
        if buf[end] == "<":  # another tag: this one has no end
            found[""] = "?"
            return -1 if any(close.startswith(buf[end:]) for close in tag.ends) else end
        end += 1
    found[name] = buf[at:end]
    return end if end < len(buf) else -1


def elements_to_json(text: str, space: str, schema: Schema, root: Schema, depth: int = 0) -> str:
    """The JSON of a value: a leaf by its schema, `<item>` elements as a list, other elements as an object."""
    children = _children(text, space) if depth < ELEMENT_DEPTH else []
    if not children:
        return _leaf(text, schema, root)
    names = {name for name, _ in children}
    if names == {"item"} and "object" not in types_of(schema, root):
        items = item_schema(schema, root)
        return "[" + ",".join(elements_to_json(inner, space, items, root, depth + 1) for _, inner in children) + "]"
    values: dict[str, list[str]] = {}
    for name, inner in children:
        child = child_schema(schema, root, name)
        values.setdefault(name, []).append(elements_to_json(inner, space, child, root, depth + 1))
    # An element that repeats is a list.
    return (
        "{"
        + ",".join(
            f"{quote(name)}:{got[0] if len(got) == 1 else '[' + ','.join(got) + ']'}" for name, got in values.items()
        )
        + "}"
    )


def _leaf(text: str, schema: Schema, root: Schema) -> str:
    if not text.strip():
        types = types_of(schema, root) - {"null"}
        if types == {"array"}:
            return "[]"
        if types == {"object"}:
            return "{}"
    return coerce(text, schema, root)


def _children(text: str, space: str) -> list[tuple[str, str]]:
    """The elements directly inside; empty when the text is not made of whole elements and white space."""
    children: list[tuple[str, str]] = []
    begin = f"{space}<"
    pos = skip_space(text, 0)
    while pos < len(text):
        end = text.find(">", pos + len(begin), pos + NAME_LIMIT)
        if not text.startswith(begin, pos) or end < 0:
            return []
        name = text[pos + len(begin) : end]
        after = _element_end(text, end + 1, name, space)
        if after < 0 or not name:
            return []
        children.append((name, text[end + 1 : after]))
        pos = skip_space(text, after + len(f"{begin}/{name}>"))
    return children


def _element_end(text: str, pos: int, name: str, space: str) -> int:
    """Where the element's end tag begins, past inner elements of the same name; -1 when there is none."""
    opening, closing = f"{space}<{name}>", f"{space}</{name}>"
    nesting = 0
    at = text.find(space, pos)
    while at >= 0:
        if text.startswith(closing, at):
            if not nesting:
                return at
            nesting -= 1
        elif text.startswith(opening, at):
            nesting += 1
        at = text.find(space, at + len(space))
    return -1
