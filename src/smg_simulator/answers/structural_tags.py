"""Text that satisfies a structural tag: nested formats, with which engines force tool calls.

Decides what the text is; pure given a `Random`. Above: answers.shapes, which passes in how examples of schemas, expressions
and grammars are made. A tag is `{"type": "structural_tag", "format": ...}` as xgrammar documents it. The older form with
`structures` and `triggers` constrains the text only after a trigger, so any text without one satisfies it.
"""

from collections.abc import Callable, Mapping
from random import Random

from smg_simulator.answers.expressions import Unfollowable

__all__ = ["StructuralTags"]

_DEPTH = 32


class StructuralTags:
    """Makes the text of one tag. `leaf` makes the text of a format of kind "json_schema", "regex" or "grammar", given kind
    and value; `words` makes free text without line ends."""

    def __init__(self, rng: Random, leaf: Callable[[str, object], str], words: Callable[[], str]) -> None:
        self._rng = rng
        self._leaf = leaf
        self._words = words

    def text(self, tag: object) -> str | None:
        """A text that `tag` allows; None where it allows any text. Raises Unfollowable for what is not a tag."""
        if not isinstance(tag, Mapping):
            raise Unfollowable("Invalid grammar specification: a structural tag is an object")
        if "format" not in tag:
            if "triggers" not in tag:
                raise Unfollowable("Invalid grammar specification: 'triggers'")
            return None
        layout = tag["format"]
        return None if _is_free(layout) else self._write(layout, 0) or None

    def _write(self, layout: object, depth: int) -> str:
        if not isinstance(layout, Mapping) or depth > _DEPTH:
            raise Unfollowable("Invalid grammar specification: a format is an object, and not nested without end")
        kind = layout.get("type")
        if kind == "const_string":
            return str(layout.get("value", ""))
        if kind in ("json_schema", "regex", "grammar"):
            return self._leaf(kind, layout.get({"regex": "pattern"}.get(kind, kind)))
        if kind in ("any_text", "wildcard_text"):
            return self._words()
        if kind in ("optional", "star"):  # none is always enough
            return ""
        if kind in ("plus", "repeat"):
            times = 1 if kind == "plus" else int(layout.get("min", 0))
            return "".join([self._write(layout.get("content"), depth + 1) for _ in range(min(times, _DEPTH))])
        return self._compound(str(kind), layout, depth)

    def _compound(self, kind: str, layout: Mapping[str, object], depth: int) -> str:
        if kind == "sequence":
            return "".join([self._write(each, depth + 1) for each in self._members(layout, "elements")])
        if kind == "or":
            return self._write(self._rng.choice(self._members(layout, "elements")), depth + 1)
        if kind == "tag":
            end = layout.get("end", "")
            end = end[0] if isinstance(end, list) and end else end
            return f"{layout.get('begin', '')}{self._write(layout.get('content'), depth + 1)}{end}"
        if kind in ("tags_with_separator", "triggered_tags"):
            if not layout.get("at_least_one"):
                return self._words() if kind == "triggered_tags" else ""
            return self._write(self._rng.choice(self._members(layout, "tags")), depth + 1)
        raise Unfollowable(f"Invalid grammar specification: unknown format {kind!r}")

    def _members(self, layout: Mapping[str, object], name: str) -> list[object]:
        members = layout.get(name)
        if not isinstance(members, list) or not members:
            raise Unfollowable(f"Invalid grammar specification: {name!r} lists at least one format")
        return members


def _is_free(layout: object) -> bool:
    """Whether a format leaves the text free: one that waits for triggers, behind the rest of reasoning or not."""
    if not isinstance(layout, Mapping):
        return False
    if layout.get("type") != "sequence":
        return layout.get("type") == "triggered_tags" and not layout.get("at_least_one")
    parts = layout.get("elements")
    if not isinstance(parts, list) or len(parts) != 2 or not isinstance(parts[0], Mapping):
        return False
    return parts[0].get("type") == "tag" and parts[0].get("begin") == "" and _is_free(parts[1])
