"""Reads from a tokenizer.json how ids are decoded, what is added to text, and where it may be cut.

Pure; the tokens of the vocabulary are skipped. Above: huggingface (the layout), tiktoken (`anchors_of`). Below: msgspec. It
encodes and decodes nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import attrs
import msgspec

__all__ = ["AddedToken", "TokenizerLayout", "anchors_of", "read_layout"]

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
    normalizer: object = None
    pre_tokenizer: object = None
    decoder: object = None
    model: _Model = msgspec.field(default_factory=_Model)


@attrs.frozen
class TokenizerLayout:
    """What the structure of a tokenizer.json implies.

    `decoder`: the incremental decoder to use (see `stream`). `strip`: the number of leading spaces that decoding removes
    from a text. `prefixed`: a text is encoded as if it began with a space. `anchors`: added tokens, with their ids, behind
    which a text may be cut and the two parts encoded separately; `anchor_reason` says why there are none, else it is "".
    `shrinks`: the most characters of text that one character of the vocabulary's strings stands for, 0 if there is no such
    bound (text is dropped, or becomes an unknown token).
    """

    added: tuple[AddedToken, ...]
    decoder: DecoderKind
    strip: int
    prefixed: bool
    anchors: Mapping[str, int]
    anchor_reason: str
    shrinks: int = 0


def read_layout(data: bytes | str) -> TokenizerLayout:
    """The layout of a tokenizer.json. Raises msgspec.DecodeError if `data` is not one."""
    file = msgspec.json.decode(data, type=_File)
    kind, strip = _decoder_kind(file.decoder)
    anchors, reason = anchors_of(file.added_tokens, unknown=(file.model.unk_token, file.model.unk_id))
    if file.model.dropout:
        anchors, reason = {}, "the vocabulary encodes at random (BPE dropout)"
    return TokenizerLayout(
        added=tuple(file.added_tokens),
        decoder=kind,
        strip=strip,
        prefixed=any(_adds_prefix(step) for step in (*_steps(file.normalizer), *_steps(file.pre_tokenizer))),
        anchors=anchors,
        anchor_reason=reason,
        shrinks=_shrinks(file, kind),
    )


_KEEP_LENGTH = frozenset({"NFD", "Prepend", "ByteLevel", "Digits", "Metaspace"})
"""Steps that never make a text shorter."""
_COMPOSED = 2
"""NFC joins at most this many characters into one, for each byte (or vocabulary character) that the one takes."""


def _shrinks(file: _File, kind: DecoderKind) -> int:
    """`Layout.shrinks`. There is a bound if the vocabulary has a token for every byte and no step before it drops text."""
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


def _keeps_length(step: Mapping[str, object]) -> bool:
    if step.get("type") == "Split":
        return step.get("behavior") != "Removed"
    if step.get("type") != "Replace":
        return False
    pattern, content = step.get("pattern"), step.get("content")
    text = pattern.get("String") if isinstance(pattern, dict) else None
    return isinstance(text, str) and isinstance(content, str) and len(content) >= len(text)


def _steps(node: object) -> Iterator[dict[str, object]]:
    """The steps of a normalizer, pre-tokenizer or decoder, sequences flattened."""
    if not isinstance(node, dict):
        return
    if node.get("type") == "Sequence":
        for key in ("normalizers", "pretokenizers", "decoders"):
            for child in node.get(key) or ():
                yield from _steps(child)
    else:
        yield node


def _adds_prefix(step: Mapping[str, object]) -> bool:
    match step.get("type"):
        case "Metaspace":
            return bool(step.get("prepend_scheme", "always") != "never" and step.get("add_prefix_space", True))
        case "ByteLevel":
            return bool(step.get("add_prefix_space", True))
        case "Prepend":
            return True
    return False


def _decoder_kind(node: object) -> tuple[DecoderKind, int]:
    """The incremental decoder that does the same as this decoder, and the number of leading spaces it strips."""
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
            start = last.get("start")
            return "fallback", start if isinstance(start, int) else 0
    return "window", 0


def anchors_of(added: Sequence[AddedToken], unknown: Sequence[str | int | None] = ()) -> tuple[dict[str, int], str]:
    """The special tokens behind which a text may be cut, with their ids; and the reason if there are none, else "".

    A tokenizer matches added tokens first, in the raw text, leftmost and longest; the text between two of them is then
    normalized, split and encoded by itself. So a text may be cut behind an added token if every occurrence of its string
    is matched as this token. That holds if its occurrences overlap no other added token and not each other, if it is
    matched in raw text (not `normalized`) and anywhere (not `single_word`), and if it neither begins nor ends with white
    space that a neighbour could strip. `unknown` is the unknown token (its string, its id); it is left out, because
    ordinary text gives its id too.
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
    """Finds strings whose occurrences in a text can overlap those of another string, or each other."""

    def __init__(self, contents: Iterable[str]) -> None:
        self._all = dict.fromkeys(filter(None, contents))
        self._joined = "\0".join(self._all)
        self._beginnings = {one[:size] for one in self._all for size in range(1, len(one))}
        self._ends = {one[size:] for one in self._all for size in range(1, len(one))}

    def with_any(self, one: str) -> bool:
        """Whether occurrences of `one`, which must be among the strings, can overlap."""
        size = len(one)
        if any(one[at:] in self._beginnings or one[:at] in self._ends for at in range(1, size)):
            return True
        holds = any(one[a:b] in self._all for a in range(size) for b in range(a + 1, size + 1) if b - a < size)
        return holds or self._joined.count(one) > 1
