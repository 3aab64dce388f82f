"""The store of the prefix cache: the beginnings of prompts as a tree of segments, each with its own ids only.

A prompt is cut into segments behind its special tokens; a path from a root (there is one root per salt) spells a beginning.
Memory grows with the text of a conversation, not with its number of turns. The least recently used leaf is dropped first:
a use marks a path from its leaf to its root, so a parent is always more recent than its children. Keys are the segments'
texts, not digests. Pure; several threads may use a tree that is given a lock. Above: cache. Below: the standard library.
"""

import sys
from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import count

import attrs

__all__ = ["Boundaries", "PrefixTree", "PromptKey", "Segment", "segments"]

PromptKey = tuple[str, tuple[str, ...]]
"""A prompt in a cache: its salt and its pieces."""
_SegmentKey = str | tuple[str, ...]
_NodeKey = tuple[int | str, _SegmentKey]
"""The parent's number (or, under a root, the salt) and the segment's key."""
_NODE_BYTES = 560
"""Bytes that Python takes for one node: key tuple, node, array header, table slot (measured: 480)."""


class Boundaries:
    """Finds where anchors end in a text. No anchor overlaps another, so plain substring search finds them all."""

    __slots__ = ("_by_start", "id_set", "ids")

    def __init__(self, anchors: Mapping[str, int]) -> None:
        self.ids = dict(anchors)
        self.id_set = frozenset(anchors.values())
        self._by_start: dict[str, tuple[int, ...]] = {}
        for start in {_stem(anchor) for anchor in anchors}:
            lengths = {len(anchor) for anchor in anchors if anchor.startswith(start)}
            self._by_start[start] = tuple(sorted(lengths))

    def find(self, text: str) -> list[tuple[int, str]]:
        """(offset behind the anchor, anchor) of every occurrence, in ascending order."""
        found: list[tuple[int, str]] = []
        for stem, lengths in self._by_start.items():
            # Searching for one character is ten times as fast as for two, as long as the character is rare.
            sought = stem[0] if text.count(stem[0]) < len(text) // 100 else stem
            at = text.find(sought)
            while at >= 0:
                if text.startswith(stem, at):
                    for length in lengths:
                        anchor = text[at : at + length]
                        if anchor in self.ids:
                            found.append((at + length, anchor))
                            break
                at = text.find(sought, at + 1)
        if len(self._by_start) > 1:
            found.sort()
        return found


def _stem(anchor: str) -> str:
    """The first two characters of an anchor: the search looks for these."""
    return anchor[:2]


@attrs.frozen
class Segment:
    """A part of a prompt that ends behind an anchor. `key` is its text, or a tuple of texts if it spans several pieces of
    the prompt; `end` is the piece it ends in and the offset there."""

    key: _SegmentKey
    end: tuple[int, int]
    anchor: str
    characters: int


def segments(pieces: Sequence[str], boundaries: Boundaries, min_characters: int) -> list[Segment]:
    """The prompt's segments from its start, each at least `min_characters` long. The text behind the last anchor is in no
    segment. A cut depends only on the text before it, so prompts with equal beginnings are cut equally."""
    out: list[Segment] = []
    open_parts: list[str] = []
    size = 0
    for number, piece in enumerate(pieces):
        start = 0
        for end, anchor in boundaries.find(piece):
            if size + end - start < min_characters:
                continue
            part = piece[start:end]
            key = (*open_parts, part) if open_parts else part
            out.append(Segment(key, (number, end), anchor, size + end - start))
            open_parts, size, start = [], 0, end
        open_parts.append(piece[start:])
        size += len(piece) - start
    return out


class _Node:
    """One segment's ids. `size` is in bytes; `tip` is the last prompt whose segments ended here."""

    __slots__ = ("ids", "number", "size", "tip")

    def __init__(self, number: int, ids: "array[int]", size: int) -> None:
        self.number = number
        self.ids = ids
        self.size = size
        self.tip: PromptKey | None = None


class PrefixTree:
    """A byte-bounded tree of segments. `nbytes` counts the text, the ids and Python's cost of each node; it is never above
    `bound`."""

    __slots__ = ("_bound", "_lock", "_nodes", "_numbers", "nbytes")

    def __init__(self, bound: int, lock: AbstractContextManager[object] | None = None) -> None:
        self._bound = bound
        self._lock: AbstractContextManager[object] = lock or nullcontext()
        self._nodes: OrderedDict[_NodeKey, _Node] = OrderedDict()
        self._numbers = count()
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._nodes)

    def find(self, salt: str, path: Sequence[Segment]) -> "list[array[int]]":
        """Ids of the leading segments that are known, one array each."""
        with self._lock:
            walked = self._walk(salt, path)
            self._touch(walked)
            return [self._nodes[key].ids for key in walked]

    def insert(
        self, salt: str, path: Sequence[Segment], runs: "Sequence[array[int]]", prompt: PromptKey
    ) -> PromptKey | None:
        """Add the new segments of a path; `runs` are the ids of each segment, `prompt` is the whole prompt. Returns the earlier
        prompt on this path that the new one continues, or None. The caller may forget that prompt: its chat has a newer
        turn now."""
        with self._lock:
            walked = self._walk(salt, path)
            superseded = self._superseded(walked, prompt)
            added = self._fitting(walked, path, runs)
            self._touch(walked)
            room = sum(size for _, _, size in added)
            while self.nbytes + room > self._bound:
                self.nbytes -= self._nodes.popitem(last=False)[1].size
            parent: int | str = self._nodes[walked[-1]].number if walked else salt
            fresh: list[tuple[_NodeKey, _Node]] = []
            for segment, ids, size in added:
                node = _Node(next(self._numbers), ids, size)
                fresh.append(((parent, segment.key), node))
                parent = node.number
            for key, node in reversed(fresh):
                self._nodes[key] = node
            self.nbytes += room
            self._touch(walked)
            last = fresh[-1][1] if fresh else (self._nodes[walked[-1]] if walked else None)
            if last is not None:
                last.tip = prompt
            return superseded

    def _walk(self, salt: str, path: Sequence[Segment]) -> list[_NodeKey]:
        """Keys of the leading segments that are known."""
        walked: list[_NodeKey] = []
        parent: int | str = salt
        for segment in path:
            key = (parent, segment.key)
            node = self._nodes.get(key)
            if node is None:
                break
            walked.append(key)
            parent = node.number
        return walked

    def _touch(self, walked: Sequence[_NodeKey]) -> None:
        for key in reversed(walked):
            self._nodes.move_to_end(key)

    def _fitting(
        self,
        walked: Sequence[_NodeKey],
        path: Sequence[Segment],
        runs: "Sequence[array[int]]",
    ) -> "list[tuple[Segment, array[int], int]]":
        """The new segments with their sizes in bytes, as many as fit into the bound together with their ancestors."""
        free = self._bound - sum(self._nodes[key].size for key in walked)
        added: list[tuple[Segment, array[int], int]] = []
        for segment, ids in zip(path[len(walked) :], runs[len(walked) :], strict=True):
            size = _node_bytes(segment, ids)
            free -= size
            if free < 0:
                break
            added.append((segment, ids, size))
        return added

    def _superseded(self, walked: Sequence[_NodeKey], prompt: PromptKey) -> PromptKey | None:
        """Take the nearest earlier prompt on this path that `prompt` continues out of its node."""
        for key in reversed(walked):
            tip = self._nodes[key].tip
            if tip is not None and tip != prompt and _continues(prompt[1], tip[1]):
                self._nodes[key].tip = None
                return tip
        return None


def _node_bytes(segment: Segment, ids: "array[int]") -> int:
    parts = segment.key if isinstance(segment.key, tuple) else (segment.key,)
    text = sum(sys.getsizeof(part) for part in parts)
    return _NODE_BYTES + text + len(ids) * ids.itemsize


def _continues(later: tuple[str, ...], earlier: tuple[str, ...]) -> bool:
    """Whether the pieces `later` begin with the whole text of `earlier`."""
    last = len(earlier) - 1
    return last < len(later) and later[:last] == earlier[:last] and later[last].startswith(earlier[last])
