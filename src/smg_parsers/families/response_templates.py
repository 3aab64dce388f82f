"""Makes a family of a model's response template: the description of its output that its own files carry.

Decides: which markers, grammar and tags such a template describes. The template is data: its patterns are taken apart into the
literal texts that they match, and none is ever run. What cannot be said with a family's markers is refused by name.
Above: `models`, or any program. Below: `family`, the grammars, `template_patterns`.
Does not know: where templates are kept, or how output is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from smg_parsers.families.family import Family
from smg_parsers.families.reasoning import NONE, Thinking
from smg_parsers.families.template_patterns import (
    GAP,
    MOST_ALTERNATIVES,
    MOST_CHARACTERS,
    NamedGroup,
    Pieces,
    UnreadPattern,
    choices_of,
    literals,
)
from smg_parsers.grammars.tool_blocks import BlockCalls
from smg_parsers.grammars.tool_json import ARGUMENTS, NAMES, JsonCalls
from smg_parsers.grammars.tool_pythonic import PythonCalls
from smg_parsers.grammars.tool_xml import XmlCalls
from smg_parsers.grammars.tool_xml_tags import Tag
from smg_parsers.pieces.base import CallSpec, InvalidFamily

NAME: Final = "response_template"
"""The name of the family that a template makes."""
SOURCE: Final = "response template"
"""Where such a family's format was read."""
_FIELDS: Final = frozenset({"thinking", "content", "tool_calls"})
_PLACEHOLDER: Final = re.compile(r"\{(?:content\.)?(\w+)\}")
_TAG_NAME: Final = re.compile(r"<(\w+)")
_BLANK: Final = re.compile(f"[{GAP}\n]+")


def described_family(template: Mapping[str, object], name: str = NAME) -> Family:
    """The family that a response template describes. Raises `InvalidFamily`, which names what cannot be read."""
    try:
        return _family(template, name)
    except UnreadPattern as error:
        raise InvalidFamily(f"response_template: {error}") from None


def _family(template: Mapping[str, object], name: str) -> Family:
    fields = _mapping(template.get("fields"), "fields")
    if template.get("version", 1) != 1:
        raise InvalidFamily(f"response_template.version is {template['version']!r}, of which nothing is known")
    for key in sorted(set(fields) - _FIELDS):
        raise InvalidFamily(f"response_template.fields.{key} is none of {', '.join(sorted(_FIELDS))}")
    thinking = _mapping(fields.get("thinking", {}), "fields.thinking")
    content = _mapping(fields.get("content", {}), "fields.content")
    for key, each in (("thinking", thinking), ("content", content)):
        if each.get("content", "text") != "text" or "transform" in each:
            raise InvalidFamily(f"response_template.fields.{key} holds something else than text")
    answers = (*_markers(content, "open", "content"), *_markers(content, "close", "content"))
    opens, closes = (_markers(thinking, end, "thinking") for end in ("open", "close"))
    if thinking and not (opens and closes):
        raise InvalidFamily("response_template.fields.thinking has no opening or no closing text")
    breaks = tuple(marker for marker in dict.fromkeys(answers) if marker not in (*opens, *closes))
    reasons = Thinking(opens, closes, breaks) if opens or breaks else NONE
    described = _mapping(fields.get("tool_calls", {}), "fields.tool_calls")
    calls = (_calls(described),) if described else ()
    if not calls and not opens:
        raise InvalidFamily("response_template describes neither reasoning nor calls")
    if any(each[:1].isspace() for spec in calls for each in spec.opens):
        raise InvalidFamily(
            "response_template.fields.tool_calls opens with white space, which may stand before any call"
        )
    return Family(name, (), reasons, calls, special=True, source=SOURCE)


def _mapping(value: object, path: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidFamily(f"response_template.{path} is {value!r}, which is no object")
    return value


def _markers(field: Mapping[str, object], key: str, path: str) -> tuple[str, ...]:
    """The texts of an anchor: literal ones, or those that a pattern matches."""
    given = field.get(key)
    pattern = field.get(f"{key}_pattern")
    texts = [given] if isinstance(given, str) else given
    if given is None and isinstance(pattern, str | None):
        return () if pattern is None else literals(pattern)
    if (
        not isinstance(texts, list)
        or not 1 <= len(texts) <= MOST_ALTERNATIVES
        or not all(isinstance(each, str) and 1 <= len(each) <= MOST_CHARACTERS for each in texts)
    ):
        raise InvalidFamily(f"response_template.fields.{path}.{key} is neither a text nor a list of texts")
    return tuple(texts)


def _calls(field: Mapping[str, object]) -> CallSpec:
    """The grammar of the calls."""
    kind, closes = field.get("content", "text"), _markers(field, "close", "tool_calls")
    if kind == "xml-inline":
        return _tagged(field, closes)
    if kind not in ("json", "python-call-list"):
        raise InvalidFamily(f"response_template.fields.tool_calls.content is {kind!r}, which makes no calls")
    arguments = _mapping(field.get("content_args", {}), "fields.tool_calls.content_args")
    if set(arguments) - {"allow_non_json"}:
        raise InvalidFamily(f"response_template.fields.tool_calls.content_args: {sorted(arguments)} are not read")
    function = _function(field)
    if kind == "json" and function == {"name": "{name}", "arguments": "{content}"}:
        return _headed(field, closes)
    opens = _markers(field, "open", "tool_calls")
    if not opens:
        raise InvalidFamily("response_template.fields.tool_calls has no opening text")
    if kind == "python-call-list":
        return PythonCalls(opens, closes)
    return JsonCalls(opens, closes, arguments=_keys(function))


def _function(field: Mapping[str, object]) -> object:
    transform = field.get("transform")
    function = transform.get("function") if isinstance(transform, Mapping) else None
    if function is None:
        raise InvalidFamily("response_template.fields.tool_calls.transform makes no function call")
    return function


def _keys(function: object) -> tuple[str, ...]:
    """The keys under which the JSON of a call has its arguments; its name has to stand under one that is read."""
    if function == "{content}":
        return ARGUMENTS
    if isinstance(function, Mapping):
        name, arguments = (_PLACEHOLDER.fullmatch(str(function.get(key))) for key in ("name", "arguments"))
        if name is not None and arguments is not None and name[1] in NAMES:
            return tuple(dict.fromkeys((arguments[1], *ARGUMENTS)))
    raise InvalidFamily(f"response_template.fields.tool_calls.transform: no call is made of {function!r}")


def _opener(field: Mapping[str, object]) -> tuple[str, str, str]:
    """What stands around the tool's name: the wrapper, if there is one, the text before the name and the text behind it."""
    pattern = field.get("open_pattern")
    found = choices_of(pattern) if isinstance(pattern, str) else []
    if len(found) != 1 or [piece.name for piece in found[0] if isinstance(piece, NamedGroup)] != ["name"]:
        raise InvalidFamily(
            "response_template.fields.tool_calls.open_pattern does not say where the tool's name stands"
        )
    pieces = found[0]
    at = next(place for place, piece in enumerate(pieces) if isinstance(piece, NamedGroup))
    before, behind = (_split("".join(map(str, part))) for part in (pieces[:at], pieces[at + 1 :]))
    if not 1 <= len(before) <= 2 or len(behind) > 1:
        raise UnreadPattern(f"{pattern!r} has white space in too many places")
    return before[0] if len(before) == 2 else "", before[-1], behind[0] if behind else ""


def _split(text: str) -> list[str]:
    """The texts between gaps and line ends."""
    return [each for each in _BLANK.split(text) if each]


def _headed(field: Mapping[str, object], closes: tuple[str, ...]) -> BlockCalls:
    """JSON arguments behind an opener that names the tool."""
    wrapper, begin, end = _opener(field)
    if wrapper or not end or len(closes) > 1:
        raise InvalidFamily("response_template.fields.tool_calls: JSON arguments stand between one header and one end")
    return BlockCalls(opens=(begin,), header=Tag(begin, ends=(end,)), close=closes[0] if closes else "")


def _tagged(field: Mapping[str, object], closes: tuple[str, ...]) -> XmlCalls:
    """Arguments that are tags of their own, behind an opener that names the tool."""
    if _function(field) != {"name": "{name}", "arguments": "{content}"}:
        raise InvalidFamily("response_template.fields.tool_calls.transform does not make a call of its tags")
    wrapper, begin, end = _opener(field)
    arguments = _mapping(field.get("content_args"), "fields.tool_calls.content_args")
    param, value, value_end, newline = _parameter(arguments.get("tag_pattern"))
    spoken = arguments.get("value_parser") or {}
    read_as = spoken.get("name", "text") if isinstance(spoken, Mapping) else None
    if read_as not in ("text", "json") or arguments.get("merge_duplicates"):
        raise InvalidFamily("response_template.fields.tool_calls.content_args: its values are neither text nor JSON")
    named = _TAG_NAME.match(begin)
    own = f"</{named[1]}>" if named is not None else ""
    ends = closes if own in closes else (*filter(None, (own,)), *closes)
    if not ends:
        raise InvalidFamily("response_template.fields.tool_calls has no closing text")
    stops = () if end else (param.begin, *ends)
    return XmlCalls(
        opens=(wrapper or begin,),
        call=Tag(begin, ends=(end,) if end else (), stops=stops),
        close=ends[0],
        closes=ends[1:],
        param=param,
        value=value,
        value_end=value_end,
        newline=newline,
        quoted=read_as == "json",
        inline=not newline,
    )


def _parameter(pattern: object) -> tuple[Tag, str, str, bool]:
    """A parameter's tag, what opens its value, what ends that, and whether a line end belongs to the tags."""
    found = [_shape(pieces) for pieces in choices_of(pattern)] if isinstance(pattern, str) else []
    begin, middle, end = found[0] if found else ("", "", "")
    # An alternative that ends before the next tag is what the grammar reads as a missing end tag.
    if not (begin and middle.strip() and end.strip()) or any(
        other[:2] != (begin, middle) or (other[2].strip() and other[2] != end) for other in found
    ):
        raise InvalidFamily("response_template.fields.tool_calls.content_args.tag_pattern is no key and value in tags")
    key_end, *opened = _split(middle)
    if len(opened) > 1:
        raise UnreadPattern(f"{pattern!r} has more than one tag between key and value")
    newline = middle.endswith(("\n", GAP)) or end.startswith(("\n", GAP))
    return Tag(begin, ends=(key_end,), stops=tuple(opened), loose=True), "".join(opened), end.strip(), newline


def _shape(pieces: Pieces) -> tuple[str, str, str]:
    """What stands before the key, between key and value, and behind the value; three empty texts if it is not these two."""
    if [piece.name for piece in pieces if isinstance(piece, NamedGroup)] != ["key", "value"]:
        return "", "", ""
    parts = ["", "", ""]
    at = 0
    for piece in pieces:
        if isinstance(piece, NamedGroup):
            at += 1
        else:
            parts[at] += piece
    return parts[0].strip(), parts[1], parts[2]
