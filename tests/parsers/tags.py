"""Judges texts by a structural tag, as xgrammar reads one: all ends that a format can have from a place.

Every reading of a text is followed, so that formats may begin alike (an answer and a call of JSON, two markers). Free text in a
tag ends at the first end of that tag.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import jsonschema_rs

from .ebnf import Ebnf

_JSON = json.JSONDecoder(strict=True)


class Tag:
    """A structural tag, given as its JSON text."""

    def __init__(self, written: str) -> None:
        tag = json.loads(written)
        assert set(tag) == {"type", "format"}
        assert tag["type"] == "structural_tag"
        self._format = tag["format"]

    def accepts(self, text: str) -> bool:
        """Whether all of `text` is of the format, so that the model may stop there."""
        return len(text) in _ends(self._format, text, 0)


def _ends(form: Any, text: str, start: int) -> set[int]:
    kind = form["type"]
    if kind == "const_string":
        return {start + len(form["value"])} if text.startswith(form["value"], start) else set()
    if kind == "any_text":
        return set(range(start, len(text) + 1))
    if kind == "regex":
        pattern = re.compile(form["pattern"], re.DOTALL)
        return {end for end in range(start, len(text) + 1) if pattern.fullmatch(text, start, end)}
    if kind == "grammar":
        judge = Ebnf(form["grammar"])
        return {end for end in range(start, len(text) + 1) if judge.accepts(text[start:end])}
    if kind == "json_schema":
        return _of_json(form["json_schema"], text, start)
    if kind == "sequence":
        return _in_order(form["elements"], text, {start})
    if kind == "or":
        return _any_of(form["elements"], text, start)
    if kind == "optional":
        return {start} | _ends(form["content"], text, start)
    if kind == "star":
        return {start} | _repeated([form["content"]], "", text, {start})
    if kind == "tag":
        return _tagged(form, text, start)
    if kind == "tags_with_separator":
        assert form["at_least_one"]
        return _repeated(form["tags"], form["separator"], text, {start})
    assert kind == "triggered_tags", f"unknown format {kind}"
    return _triggered(form, text, start)


def _in_order(forms: Iterable[Any], text: str, starts: set[int]) -> set[int]:
    for form in forms:
        starts = set().union(*(_ends(form, text, start) for start in starts))
    return starts


def _any_of(forms: Iterable[Any], text: str, start: int) -> set[int]:
    return set().union(*(_ends(form, text, start) for form in forms))


def _of_json(schema: Any, text: str, start: int) -> set[int]:
    try:
        value, end = _JSON.raw_decode(text, start)
    except json.JSONDecodeError:
        return set()
    return {end} if jsonschema_rs.validator_for(schema).is_valid(value) else set()


def _tagged(form: Any, text: str, start: int) -> set[int]:
    if not text.startswith(form["begin"], start):
        return set()
    inner, end, at = form["content"], form["end"], start + len(form["begin"])
    parts = inner["elements"] if inner["type"] == "sequence" else [inner]
    if parts[-1]["type"] == "any_text":
        found = {text.find(end, begin) for begin in _in_order(parts[:-1], text, {at})} - {-1}
    else:
        found = {each for each in _in_order(parts, text, {at}) if text.startswith(end, each)}
    return {each + len(end) for each in found}


def _repeated(forms: list[Any], between: str, text: str, starts: set[int]) -> set[int]:
    """One form or more, with a text between any two."""
    found: set[int] = set()
    while starts:
        ends = set().union(*(_any_of(forms, text, start) for start in starts)) - found
        found |= ends
        starts = {end + len(between) for end in ends if text.startswith(between, end)}
    return found


def _triggered(form: Any, text: str, start: int) -> set[int]:
    """Free text, in which what begins with a trigger has to be a tag."""
    found = {start}
    pending = {start}
    while pending:
        at = pending.pop()
        first = min((place for each in form["triggers"] if (place := text.find(each, at)) >= 0), default=len(text))
        found |= set(range(at, first + 1))
        ends = set() if first == len(text) else _any_of(form["tags"], text, first)
        pending |= set() if form["stop_after_first"] else ends - found
        found |= ends
    return found
