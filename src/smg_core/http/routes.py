"""Finds the handler for a path and a method.

A route is a method, a pattern and a target. Patterns are paths in which `{name}` stands for one segment and `{name:path}` for
one or more; text may stand beside either in its segment (`/v1beta/models/{model:path}:generateContent`). Pure; made once when
the app starts, asked for every request. Above: app.app, whose targets are handlers. It knows no socket and no API.

- Paths without values are found in one dict. The others are compiled patterns, kept in groups by their first two segments, so
  that few are tried.
- Of the patterns that match, the most literal one that has the method wins.
- A path is cut into segments before percent-encoding is taken away: an encoded slash is part of a value.
- One slash behind a path is as if it were not there: clients that join base URLs badly send it. Starlette, so vLLM, redirects
  (307), which costs a second upload and is not followed by every client that has a body.
- HEAD is answered by GET's target where it has none of its own. WebSocket routes have the method `WEBSOCKET`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar
from urllib.parse import unquote

import attrs

__all__ = ["WEBSOCKET", "Match", "Route", "Routes"]

T = TypeVar("T")

WEBSOCKET = "WEBSOCKET"
"""The method of a route for WebSocket handshakes; no HTTP request has it."""

_SLASH = "\0"
"""Separates segments while patterns are matched, since a decoded segment may hold a slash. Paths that hold it are not found."""
_VALUE = re.compile(r"\{([a-z_]+)(:path)?\}")
_GROUPED_BY = 2
_NO_VALUES: Mapping[str, str] = {}
_RECENT_LENGTH = 256
"""Characters of a path that is kept to be found again."""


@attrs.frozen
class Route(Generic[T]):
    """One method of one pattern, and its target."""

    method: str
    pattern: str
    target: T


@attrs.frozen
class Match(Generic[T]):
    """The target for a request, the decoded values of the names in the pattern, and the pattern."""

    target: T
    values: Mapping[str, str] = _NO_VALUES
    pattern: str = ""


@attrs.define
class _Pattern(Generic[T]):
    """A pattern and its targets by method; `slashes` is how many a path has that matches, None for any number. It is compiled
    when a path may match it: a gateway has a hundred of them, and its clients ask for a few."""

    text: str
    targets: dict[str, T]
    slashes: int | None
    _expression: re.Pattern[str] | None = None

    def values(self, path: str) -> dict[str, str] | None:
        """The values in `path`, whose segments stand apart by `_SLASH`; None where it does not match."""
        if self._expression is None:
            self._expression = _compiled(self.text)
        found = self._expression.fullmatch(path)
        if found is None:
            return None
        return {name: value.replace(_SLASH, "/") for name, value in found.groupdict().items()}


class Routes(Generic[T]):
    """A table of routes. Raises ValueError where two of them are for the same method and the same paths. Of the paths that match
    a pattern, as those that name a model do, `most_recent` at most are found again without a search."""

    def __init__(self, routes: Iterable[Route[T]], most_recent: int = 256) -> None:
        self._most_recent = most_recent
        self._recent: dict[tuple[str, str, bytes], Match[T]] = {}
        self._exact: dict[str, dict[str, Match[T]]] = {}
        self._groups: dict[tuple[str, ...], list[_Pattern[T]]] = {}
        by_pattern: dict[str, dict[str, T]] = {}
        taken: set[tuple[str, str]] = set()
        for route in routes:
            shape = (route.method, _shape(route.pattern))
            if shape in taken:
                raise ValueError(f"two routes for {route.method} {route.pattern}")
            taken.add(shape)
            by_pattern.setdefault(route.pattern, {})[route.method] = route.target
        for pattern in sorted(by_pattern, key=_rank):
            targets = by_pattern[pattern]
            if "{" in pattern:
                slashes = None if ":path}" in pattern else pattern.count("/")
                self._groups.setdefault(_group(pattern), []).append(_Pattern(pattern, targets, slashes))
            else:
                self._exact[pattern] = {method: Match(target, pattern=pattern) for method, target in targets.items()}

    def find(self, method: str, path: str, raw_path: bytes = b"") -> Match[T] | None:
        """The target for `method` at `path`, which is decoded; `raw_path` is the same path as it was sent."""
        exact = self._at(path, raw_path) if raw_path else self._exact.get(path)
        if exact is not None and (match := exact.get(method)) is not None:
            return match
        asked = method, path, raw_path
        found = self._recent.get(asked)
        if found is None:
            path, raw_path = _without_last_slash(path, raw_path)
            found = self._find(method, path, raw_path)
            if found is None and method == "HEAD":
                found = self._find("GET", path, raw_path)
            if found is not None and len(path) <= _RECENT_LENGTH:
                if len(self._recent) >= self._most_recent:
                    self._recent.clear()
                self._recent[asked] = found
        return found

    def _find(self, method: str, path: str, raw_path: bytes) -> Match[T] | None:
        exact = self._at(path, raw_path)
        if exact is not None and (match := exact.get(method)) is not None:
            return match
        for pattern, values in self._matching(path, raw_path):
            if method in pattern.targets:
                return Match(pattern.targets[method], values, pattern.text)
        return None

    def allowed(self, path: str, raw_path: bytes = b"") -> list[str]:
        """The HTTP methods that `path` has, sorted; none where nothing is there."""
        path, raw_path = _without_last_slash(path, raw_path)
        methods = set(self._at(path, raw_path) or ())
        for pattern, _ in self._matching(path, raw_path):
            methods.update(pattern.targets)
        return sorted(methods - {WEBSOCKET})

    def _at(self, path: str, raw_path: bytes) -> dict[str, Match[T]] | None:
        """By method, the targets of a path without values; None where an encoded slash was sent, which ends no segment."""
        return None if raw_path and b"%2f" in raw_path.lower() else self._exact.get(path)

    def _matching(self, path: str, raw_path: bytes) -> Iterator[tuple[_Pattern[T], dict[str, str]]]:
        """Every pattern that matches, the most literal first, with its values."""
        if _SLASH in path:
            return
        coded = b"%" in raw_path
        sent = raw_path.decode("ascii", "replace") if coded else path
        begin = "/".join(sent.split("/", _GROUPED_BY + 1)[1 : _GROUPED_BY + 1])
        first = tuple(_segments(begin, coded).split(_SLASH))
        slashes, cut = sent.count("/"), ""
        for length in range(len(first), -1, -1):
            for pattern in self._groups.get(first[:length], ()):
                if pattern.slashes not in (None, slashes):
                    continue
                cut = cut or _segments(sent, coded)  # which costs more than all before, so where it is needed
                values = pattern.values(cut)
                if values is not None:
                    yield pattern, values


def _without_last_slash(path: str, raw_path: bytes) -> tuple[str, bytes]:
    """Both without the slash behind the last segment; an encoded one is a part of that, and two are not what a client meant."""
    sent = raw_path.decode("latin-1") or path
    if sent[-1:] != "/" or sent[-2:] in ("/", "//"):
        return path, raw_path
    return path[:-1], raw_path[:-1]


def _segments(path: str, coded: bool) -> str:
    """The segments, apart by `_SLASH`, decoded if they are `coded`: in one go, since `_SLASH` ends what is decoded together as a
    slash does."""
    segments = path.replace("/", _SLASH)
    return unquote(segments) if coded else segments


def _group(pattern: str) -> tuple[str, ...]:
    """The literal segments that a pattern begins with, as many as groups are made by."""
    segments: list[str] = []
    for segment in pattern.split("/")[1 : _GROUPED_BY + 1]:
        if "{" in segment:
            break
        segments.append(segment)
    return tuple(segments)


def _shape(pattern: str) -> str:
    """The pattern without the names of its values: two of one shape have the same paths. Raises ValueError for none."""
    shape = _VALUE.sub(lambda value: f"{{{value[2] or ''}}}", pattern) if "{" in pattern else pattern
    if not pattern.startswith("/") or "{" in shape.replace("{}", "").replace("{:path}", ""):
        raise ValueError(f"{pattern} is not a pattern")
    return shape


def _rank(pattern: str) -> tuple[int, ...]:
    """Sorts patterns by how literal their segments are, from the left; of two that begin alike, the longer comes first."""
    ranks = []
    for segment in pattern.split("/"):
        value = _VALUE.search(segment) if "{" in segment else None
        if value is None:
            ranks.append(0)
        else:
            ranks.append((3 if value[2] else 1) + (value[0] == segment))
    return (*ranks, 9)


def _compiled(pattern: str) -> re.Pattern[str]:
    text, end = "", 0
    for value in _VALUE.finditer(pattern):
        text += re.escape(pattern[end : value.start()].replace("/", _SLASH))
        text += f"(?P<{value[1]}>{'.' if value[2] else f'[^{_SLASH}]'}+)"
        end = value.end()
    return re.compile(text + re.escape(pattern[end:].replace("/", _SLASH)), re.DOTALL)
