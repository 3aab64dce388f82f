"""Reads model ids: which parts of an id count, and how well a pattern of the table fits.

Decides: the part of a path that names the model, what a version number is and what a size, and where a word begins and ends.
Above: `models`. Below: the standard library.
Does not know: families, templates, or which patterns there are.

People write the same version as `V3.2`, `v3p2`, `V3_2`, `v3-2` and `v32`, and the same name as `gpt-oss`, `gpt_oss` and
`gptoss`. So a pattern is split into words and numbers, and any one separator, or none, may stand between them. A word ends
where the letters end (`Starling` is not `ling`), and a number that counts something (`8b`, `4bit`, `80k`) is no version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

ID_LIMIT: Final = 1024
"""Characters of an id that are looked at, from its end."""
PATTERNS_KEPT: Final = 1024
"""Patterns whose compiled form is kept."""

SAME_VERSION, EARLIER_VERSION, NO_MINOR_VERSION = 2, 1, 0
"""The pattern's version compared with the id's: equal; same major and earlier minor version; the pattern has no minor version."""

_SEPARATOR: Final = r"[-_.: ]?"
_UNIT: Final = r"(?:[bmkte](?![a-z])|bits?(?![a-z])|bpw|x\d)"
_NOT_A_SIZE: Final = rf"(?![0-9])(?!{_UNIT})(?![-_ ]bits?(?![a-z]))"
_PIECES: Final = re.compile(r"\*|[a-z]*\d+(?:\.\d+)?[bmkt](?![a-z0-9])|[a-z]+|\d+(?:\.\d+)?")
_SIZED: Final = re.compile(r"[a-z]*\d+(?:\.\d+)?[bmkt]")
# A part of a path that does not name a model: a commit, a step of training, the kind of file or of number.
_SAYS_NOTHING: Final = re.compile(
    r"[0-9a-f]{7,64}|(?:checkpoint|epoch|iter|global_step)[-_]?\d+|v?\d+"
    r"|snapshots?|refs|main|master|latest|final|merged|models?|weights?|checkpoints?|hf|huggingface|output|safetensors"
    r"|(?:gguf|ggml|mlx|awq|gptq|exl[23]|onnx|fp4|fp8|nvfp4|mxfp[48]|int[48]|bf16|fp16|f16|[248][-_]?bit|w\d+a\d+)"
    r"|(?:ud[-_])?i?q\d[a-z0-9_]*"
)


@dataclass(frozen=True, slots=True)
class PatternMatch:
    """Where a pattern was found in an id, and how well it fits. The largest `rank` decides."""

    pattern: str
    text: str
    start: int
    version: int
    newer_by: int = 0

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """By version first, the nearest one where it is not the same, then the longest pattern, then the latest place."""
        return self.version, -self.newer_by, len(canonical(self.pattern)), self.start


def name_of(model_id: str) -> str:
    """The part of an id or path that names the model, in lower case: the last part that is not a commit, step or file kind.

    `/data/mistral-cluster/Qwen3-8B` is `qwen3-8b`, and so is `models--Qwen--Qwen3-8B/snapshots/0123abc`.
    """
    parts = [part for part in model_id[-ID_LIMIT:].lower().replace("\\", "/").split("/") if part]
    for part in reversed(parts):
        if not _SAYS_NOTHING.fullmatch(part):
            return part.rpartition("--")[2] if part.startswith("models--") else part
    return parts[-1] if parts else ""


def is_distilled(name: str) -> bool:
    """Whether the name is that of a distilled model. Such a model writes in the format of the one that is named first."""
    return re.search(r"(?<![a-z])distill?(?:ed|ation)?(?![a-z])", name) is not None


def find(pattern: str, name: str) -> PatternMatch | None:
    """The best place where the pattern fits this name, if there is one. A pattern is compiled for a name that has its words: to
    compile all of the table's takes a third of a second."""
    if not all(word in name for word in _words(pattern)):
        return None
    found = [_matched(pattern, one) for one in _compiled(pattern).finditer(name)]
    return max((match for match in found if match is not None), key=lambda match: match.rank, default=None)


@lru_cache(maxsize=PATTERNS_KEPT)
def canonical(pattern: str) -> str:
    """The pattern with one hyphen between any two words or numbers, so that spellings have one length."""
    return "-".join(_PIECES.findall(pattern.lower()))


@lru_cache(maxsize=PATTERNS_KEPT)
def _words(pattern: str) -> tuple[str, ...]:
    """What every name contains that the pattern fits: its words, sizes and major versions."""
    pieces = [piece for piece in _PIECES.findall(pattern.lower()) if piece != "*"]
    return tuple(piece if _SIZED.fullmatch(piece) else piece.partition(".")[0] for piece in pieces)


def _matched(pattern: str, found: re.Match[str]) -> PatternMatch | None:
    """The match, unless the id's minor version is earlier than the pattern's."""
    version, newer_by = SAME_VERSION, 0
    for piece, number in zip(_numbers(pattern), found.groups(), strict=True):
        wanted = piece.partition(".")[2]
        minor = re.sub(r"[^0-9]", "", number[len(piece.partition(".")[0]) :])
        if not wanted:
            version = min(version, NO_MINOR_VERSION if int(minor or 0) else SAME_VERSION)
        elif not minor or int(minor) < int(wanted):
            return None
        elif int(minor) > int(wanted):
            version, newer_by = min(version, EARLIER_VERSION), newer_by + int(minor) - int(wanted)
    return PatternMatch(pattern, found.group(0), found.start(), version, newer_by)


@lru_cache(maxsize=PATTERNS_KEPT)
def _numbers(pattern: str) -> tuple[str, ...]:
    return tuple(
        piece for piece in _PIECES.findall(pattern.lower()) if piece[0].isdigit() and not _SIZED.fullmatch(piece)
    )


@lru_cache(maxsize=PATTERNS_KEPT)
def _compiled(pattern: str) -> re.Pattern[str]:
    """One regular expression for a pattern; every version number is a group of its own."""
    parts: list[str] = []
    before = ""
    for piece in _PIECES.findall(pattern.lower()):
        if piece == "*":
            parts.append(r".*?(?<![a-z])")
        else:
            joined = before not in ("", "*")
            # `llama-v3p1` is Llama 3.1 as well.
            parts.append(
                (_SEPARATOR if joined else "") + ("v?" if joined and piece[0].isdigit() else "") + _piece(piece)
            )
        before = piece
    end = r"(?![a-z])" if before.isalpha() else ""
    return re.compile(r"(?<![a-z])" + "".join(parts) + end)


def _piece(piece: str) -> str:
    """One word, size or number. Words within a pattern run on into numbers only (`gptoss`), which the next piece checks."""
    if _SIZED.fullmatch(piece):
        return re.escape(piece) + r"(?![a-z0-9])"
    if not piece[0].isdigit():
        return re.escape(piece)
    major = piece.partition(".")[0]
    minor = rf"[.p]\d{{1,2}}{_NOT_A_SIZE}|[-_]\d{_NOT_A_SIZE}(?!\.\d)|(?<=[a-z]{major})\d{_NOT_A_SIZE}(?!\.\d)"
    return rf"((?<![0-9.]){major}(?:{minor}|{_NOT_A_SIZE}(?![.p]\d)))"
