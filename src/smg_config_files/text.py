"""Reads JSON and YAML that a person wrote: settings, workers, plugins, keys, MCP servers.

Decides what is refused beside what is neither: a text that is nested too deeply, a key that is given twice in one mapping, and
aliases that make more of a few lines than their reader could go through. Pure; PyYAML is imported when a text is read.
"""

import json
import re
from typing import Any

__all__ = ["TextRefused", "read_json", "read_yaml"]

_DEEPEST = 64  # mappings and lists in each other
_MOST_NODES = 200_000  # values of a text, with those that stand for an alias

_TOO_DEEP = "it is nested too deeply"
_FIELD = re.compile(r"[a-z_]{1,24}")  # a key that is the name of a field, and no secret


class TextRefused(ValueError):
    """A text that is not read. `line` is where, from 1, 0 if that is not known. `reason` says where and why, and has no words of
    the text: those are in the message alone, which is not for files that hold secrets."""

    def __init__(self, message: str, reason: str, line: int = 0) -> None:
        super().__init__(message)
        self.reason = reason
        if line:
            self.reason = (
                f"line {line}{reason.removeprefix('this')}" if reason.startswith("this ") else f"line {line}: {reason}"
            )


def read_json(text: str) -> Any:
    """The value of a JSON text. Raises TextRefused."""
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates)
    except json.JSONDecodeError as error:
        raise TextRefused(str(error), "this is no JSON", error.lineno) from None
    except RecursionError:
        raise TextRefused(_TOO_DEEP, _TOO_DEEP) from None
    except ValueError as error:
        if isinstance(error, TextRefused):
            raise
        raise TextRefused(f"a value that cannot be read: {str(error)[:200]}", "a value that cannot be read") from None


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        raise _given_twice(next(name for name in names if names.count(name) > 1), 0)
    return result


def _given_twice(name: str, line: int) -> TextRefused:
    label = name if _FIELD.fullmatch(name) else "a key"
    where = f"line {line}: " if line else ""
    return TextRefused(f"{where}{name[:60]} is given twice", f"{label} is given twice", line)


def read_yaml(text: str) -> Any:
    """The value of a YAML text. Raises TextRefused, and ModuleNotFoundError where PyYAML is not installed."""
    try:
        import yaml
    except ModuleNotFoundError as error:
        sentence = "YAML needs the package yaml, which is not installed: pip install 'smg-config-files[yaml]'"
        raise ModuleNotFoundError(sentence, name=error.name) from None
    try:
        loader = yaml.SafeLoader(text)
        try:
            root = _Composed(loader, yaml).root()
            return None if root is None else loader.construct_document(root)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = 0 if mark is None else mark.line + 1
        raise TextRefused(" ".join(str(error).split())[:300], "this is no YAML", line) from None
    except RecursionError:
        raise TextRefused(_TOO_DEEP, _TOO_DEEP) from None
    except (ValueError, ArithmeticError) as error:  # a date or a number that there is not
        if isinstance(error, TextRefused):
            raise
        raise TextRefused(f"a value that cannot be read: {str(error)[:200]}", "a value that cannot be read") from None


class _Composed:
    """The nodes of one text. PyYAML would compose them too; it bounds neither their depth nor what aliases make of them."""

    def __init__(self, loader: Any, yaml: Any) -> None:
        self._loader, self._yaml = loader, yaml
        self._anchors: dict[str, tuple[Any, int, int]] = {}  # an anchor's node, its values and how deep it is
        self._nodes = self._deepest = 0

    def root(self) -> Any:
        """The node of the only document, None if there is none."""
        loader, yaml = self._loader, self._yaml
        loader.get_event()
        if loader.check_event(yaml.StreamEndEvent):
            return None
        loader.get_event()
        root = self._node(0)
        loader.get_event()
        if not loader.check_event(yaml.StreamEndEvent):
            line = loader.peek_event().start_mark.line + 1
            raise TextRefused(f"line {line}: a second document", "a second document", line)
        return root

    def _node(self, depth: int) -> Any:
        loader, yaml = self._loader, self._yaml
        event = loader.get_event()
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            return self._aliased(event.anchor, depth, line)
        before, deepest, self._deepest = self._nodes, self._deepest, depth
        self._count(1, depth, line)
        if isinstance(event, yaml.ScalarEvent):
            tag = self._tag(yaml.ScalarNode, event, event.value, event.implicit)
            node = yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark, style=event.style)
        elif isinstance(event, yaml.SequenceStartEvent):
            tag = self._tag(yaml.SequenceNode, event, None, event.implicit)
            node = yaml.SequenceNode(tag, [], event.start_mark, None, flow_style=event.flow_style)
            while not loader.check_event(yaml.SequenceEndEvent):
                node.value.append(self._node(depth + 1))
            node.end_mark = loader.get_event().end_mark
        else:
            tag = self._tag(yaml.MappingNode, event, None, event.implicit)
            node = yaml.MappingNode(tag, [], event.start_mark, None, flow_style=event.flow_style)
            self._pairs(node, depth)
        if event.anchor is not None:
            if event.anchor in self._anchors:
                raise TextRefused(f"line {line}: the anchor is given twice", "an anchor is given twice", line)
            self._anchors[event.anchor] = node, self._nodes - before, self._deepest - depth
        self._deepest = max(deepest, self._deepest)
        return node

    def _pairs(self, mapping: Any, depth: int) -> None:
        """Read the keys and values of a mapping."""
        seen = set[tuple[str, str]]()
        while not self._loader.check_event(self._yaml.MappingEndEvent):
            key = self._node(depth + 1)
            if isinstance(key, self._yaml.ScalarNode):
                name, line = str(key.value), key.start_mark.line + 1
                if (key.tag, name) in seen:
                    raise _given_twice(name, line)
                seen.add((key.tag, name))
            mapping.value.append((key, self._node(depth + 1)))
        mapping.end_mark = self._loader.get_event().end_mark

    def _aliased(self, anchor: str, depth: int, line: int) -> Any:
        """The node that an alias stands for: one that is over, so that none is within itself."""
        if anchor not in self._anchors:
            raise TextRefused(f"line {line}: there is no &{anchor[:60]} before it", "an alias of no anchor", line)
        node, size, height = self._anchors[anchor]
        self._count(size, depth + height, line)
        return node

    def _count(self, nodes: int, deepest: int, line: int) -> None:
        """Count values that reach so deep. Raises TextRefused for too many and for too deep ones."""
        self._nodes, self._deepest = self._nodes + nodes, max(self._deepest, deepest)
        if self._nodes > _MOST_NODES or deepest > _DEEPEST:
            reason = _TOO_DEEP if deepest > _DEEPEST else f"over {_MOST_NODES} values with its aliases"
            raise TextRefused(f"line {line}: {reason}", reason, line)

    def _tag(self, kind: Any, event: Any, value: str | None, implicit: Any) -> str:
        if event.tag is None or event.tag == "!":
            return str(self._loader.resolve(kind, value, implicit))
        return str(event.tag)
