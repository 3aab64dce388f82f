"""How a tokenizer.json is built, as far as the gateway must know: what its decoder does to ids, what it adds to text, and
which of its added tokens are safe places to cut.

Pure reading of the file's structure; the vocabulary itself is skipped over. Above: huggingface asks for the layout. Below:
control. It encodes and decodes nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import attrs
import msgspec

__all__ = ["AddedToken", "Layout", "anchors_of", "read_layout"]

DecoderKind = Literal["bytes", "fallback", "pieces", "window"]


class AddedToken(msgspec.Struct, frozen=True):
    """One entry of `added_tokens`."""

    id: int
    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = False


class _Model(msgspec.Struct):
    type: str | None = None
    byte_fallback: bool | None = None
    dropout: float | None = None
    unk_token: str | None = None
    unk_id: int | None = None


class _File(msgspec.Struct):
    added_tokens: list[AddedToken] = []
    normalizer: Any = None
    pre_tokenizer: Any = None
    decoder: Any = None
    model: _Model = msgspec.field(default_factory=_Model)


@attrs.frozen
class Layout:
    """What the structure of a tokenizer.json implies.

    `decoder`: which incremental decoder fits. `strip`: leading spaces that decoding takes off the whole text.
    `prefixed`: text at the start of a string is encoded as if a space stood before it. `anchors`: added tokens behind
    which a text may be cut and the two halves encoded apart, by id; `anchor_reason` says why there are none, or "".
    `shrinks`: how many characters of raw text may stand behind one character of the vocabulary's strings at most, 0 where
    there is no such bound (text is dropped, or melts into an unknown token).
    """

    added: tuple[AddedToken, ...]
    decoder: DecoderKind
    strip: int
    prefixed: bool
    anchors: Mapping[str, int]
    anchor_reason: str
    shrinks: int = 0


def read_layout(data: bytes | str) -> Layout:
    """Layout of a tokenizer.json. Raises msgspec.DecodeError if it is not one."""
    file = msgspec.json.decode(data, type=_File)
    kind, strip = _decoder_kind(file.decoder)
    anchors, reason = anchors_of(file.added_tokens, unknown=(file.model.unk_token, file.model.unk_id))
    if file.model.dropout:
        anchors, reason = {}, "the vocabulary encodes at random (BPE dropout)"
    return Layout(
        added=tuple(file.added_tokens),
        decoder=kind,
        strip=strip,
        prefixed=any(_adds_prefix(step) for step in (*_steps(file.normalizer), *_steps(file.pre_tokenizer))),
        anchors=anchors,
        anchor_reason=reason,
        shrinks=_shrinks(file, kind),
    )


_KEEP_LENGTH = frozenset({"NFD", "Prepend", "ByteLevel", "Digits", "Metaspace"})
"""Steps that make no text shorter."""
_COMPOSED = 2
"""Characters that NFC makes one of, at most, for each byte (or character of the vocabulary) that the one is written with."""


def _shrinks(file: _File, kind: DecoderKind) -> int:
    """`Layout.shrinks`: known for vocabularies that have every byte, and whose steps before them drop nothing."""
    if file.model.type != "BPE" or not (kind == "bytes" or (kind == "fallback" and file.model.byte_fallback)):
        return 0
    if any(token.lstrip or token.rstrip for token in file.added_tokens):  # these take in any amount of white space
        return 0
    factor = 1
    for step in (*_steps(file.normalizer), *_steps(file.pre_tokenizer)):
        if step.get("type") == "NFC":
            factor = _COMPOSED if kind == "bytes" else 2 * _COMPOSED
        elif step.get("type") not in _KEEP_LENGTH and not _keeps_length(step):
            return 0
    return factor


def _keeps_length(step: Mapping[str, Any]) -> bool:
    if step.get("type") == "Split":
        return step.get("behavior") != "Removed"
    if step.get("type") != "Replace":
        return False
    pattern, content = step.get("pattern"), step.get("content")
    text = pattern.get("String") if isinstance(pattern, dict) else None
    return isinstance(text, str) and isinstance(content, str) and len(content) >= len(text)


def _steps(node: Any) -> Iterator[dict[str, Any]]:
    """A normalizer, pre-tokenizer or decoder as the flat list of its steps."""
    if not isinstance(node, dict):
        return
    if node.get("type") == "Sequence":
        for key in ("normalizers", "pretokenizers", "decoders"):
            for child in node.get(key) or ():
                yield from _steps(child)
    else:
        yield node


def _adds_prefix(step: Mapping[str, Any]) -> bool:
    match step.get("type"):
        case "Metaspace":
            return bool(step.get("prepend_scheme", "always") != "never" and step.get("add_prefix_space", True))
        case "ByteLevel":
            return bool(step.get("add_prefix_space", True))
        case "Prepend":
            return True
    return False


def _decoder_kind(node: Any) -> tuple[DecoderKind, int]:
    """Which incremental decoder equals this decoder, and how many leading spaces it strips."""
    steps = list(_steps(node))
    kinds = [step.get("type") for step in steps]
    if kinds and kinds[0] == "ByteLevel" and set(kinds[1:]) <= {"Fuse"}:
        return "bytes", 0
    if kinds in (["Metaspace"], ["WordPiece"]):
        return "pieces", 0
    while kinds and kinds[0] == "Replace":
        kinds.pop(0)
    if kinds == ["ByteFallback", "Fuse"]:
        return "fallback", 0
    if kinds == ["ByteFallback", "Fuse", "Strip"]:
        last = steps[-1]
        if last.get("content") == " " and not last.get("stop"):
            return "fallback", int(last.get("start", 0))
    return "window", 0


def anchors_of(added: Sequence[AddedToken], unknown: Sequence[str | int | None] = ()) -> tuple[dict[str, int], str]:
    """Special tokens at whose end a text can be cut exactly.

    Added tokens are taken out of the raw text first, leftmost and longest; what lies between two of them is normalized,
    split and encoded for itself. So a text may be cut behind an added token, provided that every occurrence of its string
    is matched as this token: it shares no characters with any other added token or with itself shifted, is matched in
    raw text (not normalized), stands anywhere (not single_word), and neither begins nor ends with white space that a
    neighbour could strip. The unknown token is left out, since ordinary text makes its id as well.
    """
    raw = [token for token in added if token.special and not token.normalized and not token.single_word]
    if not raw:
        return {}, "no special token is matched in raw text"
    overlaps = _Overlaps(token.content for token in added)
    safe = {
        token.content: token.id
        for token in raw
        if token.content not in unknown
        and token.id not in unknown
        and token.content.strip() == token.content != ""
        and not overlaps.with_any(token.content)
    }
    return safe, "" if safe else "every special token shares characters with another added token"


class _Overlaps:
    """Which of many strings can share characters with another, or with itself shifted, where they occur in a text."""

    def __init__(self, contents: Iterable[str]) -> None:
        self._all = dict.fromkeys(filter(None, contents))
        self._joined = "\0".join(self._all)
        self._beginnings = {one[:size] for one in self._all for size in range(1, len(one))}
        self._ends = {one[size:] for one in self._all for size in range(1, len(one))}

    def with_any(self, one: str) -> bool:
        """Whether `one`, which is among the strings, can."""
        size = len(one)
        if any(one[at:] in self._beginnings or one[:at] in self._ends for at in range(1, size)):
            return True
        holds = any(one[a:b] in self._all for a in range(size) for b in range(a + 1, size + 1) if b - a < size)
        return holds or self._joined.count(one) > 1
