"""A client's own bytes in the body that a provider of the same API is sent.

Decides which of them: each field of which the gateway would say the same in other words. So the body is the client's to the byte
but for what is put in place of single values, such as the provider's name of the model. So whatever a client wrote that the
gateway does not change reaches the provider as it was written, and nothing that the gateway does is undone. Pure. Above: the
bodies of formats. Below: nothing.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from smg_core.engines.vendors.provider_json import ProviderJson
from smg_core.errors import EngineGarbled

__all__ = ["ABSENT", "as_sent", "with_strings", "with_strings_in", "without_texts"]

_VALUES = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BLANK = re.compile(rb"[\s,:]*")
ABSENT = object()
"""What a field says that says as much as no such field."""


def as_sent(body: ProviderJson, written: bytes, meant: Callable[[str, object], object]) -> bytes:
    """`body` as JSON, with the client's bytes of every field of `written`, a JSON object, that means the same. `meant` is what a
    field's value means in the words of the gateway, ABSENT where it is as if it were not there. Other values are put in the
    places of the client's, new fields behind them; written anew is what has a field that has to go. Nothing of `written` is used
    where an object has a name twice."""
    if not written or _repeats_a_name(written):
        return msgspec.json.encode(body)
    theirs = _VALUES.decode(written)
    plain: Mapping[str, object] = msgspec.json.decode(msgspec.json.encode(body))
    same = {
        name: raw for name, raw in theirs.items() if meant(name, msgspec.json.decode(raw)) == plain.get(name, ABSENT)
    }
    if all(name in same or name in plain for name in theirs):
        return _spliced(written, theirs, {name: msgspec.json.encode(body[name]) for name in plain if name not in same})
    rest = {name: value for name, value in body.items() if name not in theirs}
    return msgspec.json.encode({name: same.get(name, body.get(name)) for name in theirs if name in body} | rest)


def with_strings(written: bytes, strings: Mapping[str, str]) -> bytes:
    """`written`, a JSON object, with these texts in place of the values of fields that it has."""
    theirs = _VALUES.decode(written)
    texts = {name: msgspec.json.encode(text) for name, text in strings.items() if name in theirs}
    changed = {name: text for name, text in texts.items() if bytes(theirs[name]) != text}
    return _put(written, theirs, changed) if changed else written


def with_strings_in(written: bytes, name: str, strings: Mapping[str, str]) -> bytes:
    """`written` with such texts in the object that is its field `name`."""
    theirs = _VALUES.decode(written)
    inner = bytes(theirs[name])
    changed = with_strings(inner, strings)
    return written if changed == inner else _put(written, theirs, {name: changed})


def _put(written: bytes, theirs: Mapping[str, msgspec.Raw], fields: Mapping[str, bytes]) -> bytes:
    """`written` with the values that are `fields` in their places; written anew where a name stands in it twice."""
    made = _spliced(written, theirs, fields)
    try:
        found = _VALUES.decode(made)
        if all(bytes(found.get(name, b"")) == bytes(value) for name, value in {**theirs, **fields}.items()):
            return made
    except msgspec.DecodeError:
        pass
    return msgspec.json.encode({**theirs, **{name: msgspec.Raw(value) for name, value in fields.items()}})


def without_texts(written: bytes, texts: Sequence[str]) -> tuple[bytes, ...]:
    """`written` in pieces, cut where these texts stand in it as strings, in this order. Where one is not found, because of how it
    is written, all of it is written anew."""
    for each in (written, msgspec.json.encode(msgspec.json.decode(written))):
        pieces, rest = [], each
        for text in texts:
            before, found, rest = rest.partition(msgspec.json.encode(text))
            if not found:
                break
            pieces.append(before + b'"')
            rest = b'"' + rest
        else:
            return (*pieces, rest)
    raise EngineGarbled("The provider's signature of its reasoning cannot be found in its own words.")


def _spliced(written: bytes, theirs: Mapping[str, msgspec.Raw], fields: Mapping[str, bytes]) -> bytes:
    """`written` with the values that are `fields` in place of those that stand there; new fields come last."""
    made: list[bytes] = []
    begin, at = 0, written.index(b"{") + 1
    for name, raw in theirs.items():
        at = _after_blank(written, at)
        at = _after_blank(written, _after_text(written, at))
        if name in fields:
            made += (written[begin:at], fields[name])
            begin = at + len(bytes(raw))
        at += len(bytes(raw))
    close = written.rindex(b"}")
    made.append(written[begin:close])
    new = [msgspec.json.encode(name) + b":" + value for name, value in fields.items() if name not in theirs]
    if new:
        made.append((b"," if theirs else b"") + b",".join(new))
    return b"".join((*made, written[close:]))


def _after_blank(text: bytes, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


def _after_text(text: bytes, at: int) -> int:
    """The place behind the string that begins at `at`."""
    at += 1
    while text[at : at + 1] != b'"':
        at += 2 if text[at : at + 1] == b"\\" else 1
    return at + 1


def _repeats_a_name(written: bytes) -> bool:
    found = False

    def members(pairs: list[tuple[str, object]]) -> None:
        nonlocal found
        found = found or len({name for name, _ in pairs}) < len(pairs)

    json.loads(written, object_pairs_hook=members)
    return found
