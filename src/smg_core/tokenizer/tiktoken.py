"""A tiktoken vocabulary (tiktoken.model, *.tiktoken) as a `Tokenizer`.

The package tiktoken is optional and imported when the first such vocabulary is loaded. It encodes; ids are decoded by a
table of bytes. The pattern that splits text is chosen here, by model: Kimi's, which keeps Han characters apart, or
cl100k's. Above: loader makes it, cache wraps it. Below: stream, control, vocabulary, huggingface (special tokens).
"""

import base64
import binascii
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from smg_core.extras import needs
from smg_core.tokenizer.base import (
    EncodeReport,
    GivenUp,
    IncrementalDecoder,
    Prompt,
    SpecialTokens,
    left_before_encoded,
)
from smg_core.tokenizer.control import ControlScan
from smg_core.tokenizer.huggingface import named_tokens, special_tokens
from smg_core.tokenizer.stream import ByteDecoder
from smg_core.tokenizer.vocabulary import AddedToken, anchors_of
from smg_core.tokens import TokenIds

if TYPE_CHECKING:
    import tiktoken

__all__ = ["CL100K_PATTERN", "KIMI_PATTERN", "TiktokenTokenizer", "load_tiktoken", "read_ranks"]

_CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"

CL100K_PATTERN = "|".join(
    (
        _CONTRACTION,
        r"[^\r\n\p{L}\p{N}]?\p{L}+",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
"""How cl100k_base splits text; used for every vocabulary but Kimi's (Qwen's first ones, for example)."""

KIMI_PATTERN = "|".join(
    (
        r"[\p{Han}]+",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTION}?",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTION}?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
"""How Moonshot's Kimi vocabularies split text: a run of Han characters is never joined with other letters."""

_KIMI_RESERVED = 256
_LONGEST_RUN = 25_000


class TiktokenTokenizer:
    """Implements `Tokenizer` over a tiktoken encoding.

    `ranks` maps the bytes of ordinary tokens to their ids, `added` are the special and other added tokens. A run of white
    space, or of other characters, is cut after every `longest_run` characters, because the splitting regex keeps state for
    each character of a run (Kimi's own tokenizer cuts at the same length).
    """

    def __init__(
        self,
        ranks: Mapping[bytes, int],
        *,
        pattern: str = CL100K_PATTERN,
        added: Sequence[AddedToken] = (),
        named: Mapping[str, str] | None = None,
        eos_token_ids: Iterable[int] = (),
        longest_run: int = _LONGEST_RUN,
    ) -> None:
        """Raises ValueError if tiktoken is not installed or refuses the vocabulary."""
        self._ids = {token.content: token.id for token in added}
        self._encoding = _encoding(ranks, pattern, self._ids)
        self._allowed = frozenset(self._ids)
        self._special = special_tokens(added, named or {})
        self._scan = ControlScan(self._ids)
        self._bytes = {**{rank: token for token, rank in ranks.items()}, **{t.id: t.content.encode() for t in added}}
        self._vocab_size = max(self._bytes, default=-1) + 1
        hidden = dict.fromkeys((token.id for token in added if token.special), b"")
        self._visible = _Absent({**self._bytes, **hidden})
        self._every = _Absent(self._bytes)
        self._longest_run = longest_run
        longest_first = sorted(self._ids, key=len, reverse=True)
        self._between = re.compile("(" + ("|".join(map(re.escape, longest_first)) or "(?!)") + ")")
        self.anchors, self.anchor_reason = anchors_of(added)
        by_name = self._ids.get(self._special.eos) if self._special.eos else None
        self._eos = frozenset(eos_token_ids) or frozenset(() if by_name is None else (by_name,))

    @property
    def vocab_size(self) -> int:
        return self._vocab_size

    @property
    def special(self) -> SpecialTokens:
        return self._special

    @property
    def eos_token_ids(self) -> frozenset[int]:
        return self._eos

    def token_id(self, token: str) -> int | None:
        found = self._ids.get(token)
        if found is not None:
            return found
        try:
            return int(self._encoding.encode_single_token(token))
        except KeyError:
            return None

    def encode(self, text: str, *, add_special_tokens: bool = False, allow_control: bool = True) -> TokenIds:
        """tiktoken vocabularies add no special tokens of their own, so `add_special_tokens` changes nothing."""
        pieces = [text] if allow_control else self._scan.pieces(text)
        return TokenIds(array("I", [token for piece in pieces for token in self._encode(piece)]))

    def encode_inside(self, text: str) -> TokenIds:
        """Ids of text that follows other text: the same as at the start."""
        return self.encode(text)

    @cached_property
    def longest_token(self) -> int:
        """The bytes of the longest token: a character is one byte or more."""
        return max(map(len, self._bytes.values()), default=0)

    def encode_prompt(self, prompt: Prompt, *, salt: str = "", given_up: GivenUp | None = None) -> EncodeReport:
        ids = array("I")
        for piece in prompt.pieces:
            if given_up is not None and given_up():
                raise left_before_encoded()
            ids.extend(self._encode(piece))
        return EncodeReport(TokenIds(ids), sum(map(len, prompt.pieces)))

    def recall(self, prompt: Prompt, *, salt: str = "") -> EncodeReport | None:
        """Always None: this tokenizer keeps no prompts."""
        return None

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        table = self._visible if skip_special_tokens else self._every
        return b"".join(map(table.__getitem__, ids)).decode("utf-8", "replace")

    def decoder(self, *, skip_special_tokens: bool = True) -> IncrementalDecoder:
        return ByteDecoder(self._visible if skip_special_tokens else self._every)

    def token_bytes(self, token_id: int) -> bytes:
        return self._every[token_id]

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for part in self._parts(text):
            ids += self._encoding.encode(part, allowed_special=self._allowed, disallowed_special=())
        return ids

    def _parts(self, text: str) -> list[str]:
        """The text itself if it has no run over `longest_run`, which is nearly always so. Else it is cut at added tokens
        first, so that text between two of them is encoded the same in every prompt, and then at long runs."""
        if not _has_long_run(text, self._longest_run):
            return [text]
        return [part for stretch in self._between.split(text) for part in _short_runs(stretch, self._longest_run)]


class _Absent(dict[int, bytes]):
    """Ids to bytes; unknown ids give b""."""

    def __missing__(self, token_id: int) -> bytes:
        return b""


def _encoding(ranks: Mapping[bytes, int], pattern: str, added: Mapping[str, int]) -> "tiktoken.Encoding":
    try:
        import tiktoken
    except ImportError as missing:
        raise ValueError(needs("this vocabulary", "tiktoken")) from missing
    return tiktoken.Encoding("vocabulary", pat_str=pattern, mergeable_ranks=dict(ranks), special_tokens=dict(added))


def _has_long_run(text: str, longest: int) -> bool:
    """Whether a run may be longer than `longest`. Exact for words; for white space it compares the sum of all runs, so it may
    say True too often. Cheap: it runs for every text."""
    if len(text) <= longest:
        return False
    words = text.split()
    return max(map(len, words), default=0) > longest or len(text) - sum(map(len, words)) > longest


def _short_runs(text: str, longest: int) -> list[str]:
    """The text cut so that no part holds a run, of white space or of other characters, longer than `longest`."""
    if len(text) <= longest:
        return [text]
    edges, start, space = [0], 0, text[0].isspace()
    for at, char in enumerate(text):
        if char.isspace() != space:
            start, space = at, not space
        elif at - start >= longest:
            edges.append(at)
            start = at
    edges.append(len(text))
    return [text[left:right] for left, right in pairwise(edges)]


def read_ranks(data: bytes) -> dict[bytes, int]:
    """Bytes to ranks, from a tiktoken file: each line is the base64 of a token, a space and its rank. Raises ValueError."""
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error) as fault:
            raise ValueError(f"not a tiktoken vocabulary: line {number} is not a token and its rank") from fault
    return ranks


def load_tiktoken(
    data: bytes,
    *,
    tokenizer_config: Mapping[str, object],
    model_config: Mapping[str, object],
    eos_token_ids: Iterable[int] = (),
) -> TiktokenTokenizer:
    """A tokenizer from the bytes of a tiktoken file. The special tokens are in tokenizer_config's added_tokens_decoder. Kimi
    vocabularies have 256 ids for them; an id without a name is `<|reserved_token_ID|>`. Raises ValueError."""
    ranks = read_ranks(data)
    kimi = _is_kimi(tokenizer_config, model_config)
    added = _added(tokenizer_config.get("added_tokens_decoder"))
    if kimi:
        taken = {token.id for token in added}
        first = len(ranks)
        added += [
            AddedToken(id=free, content=f"<|reserved_token_{free}|>", special=True)
            for free in range(first, first + _KIMI_RESERVED)
            if free not in taken
        ]
    return TiktokenTokenizer(
        ranks,
        pattern=KIMI_PATTERN if kimi else CL100K_PATTERN,
        added=added,
        named=named_tokens(tokenizer_config),
        eos_token_ids=eos_token_ids,
    )


def _is_kimi(tokenizer_config: Mapping[str, object], model_config: Mapping[str, object]) -> bool:
    hints = (tokenizer_config.get("auto_map"), tokenizer_config.get("tokenizer_class"), model_config.get("model_type"))
    return any("kimi" in str(hint).lower() or "TikTokenTokenizer" in str(hint) for hint in hints)


def _added(table: object) -> list[AddedToken]:
    """The tokens in `added_tokens_decoder`, an object of token objects by id. Raises ValueError."""
    if table is None:
        return []
    if not isinstance(table, Mapping):
        raise ValueError("added_tokens_decoder is not an object of tokens by id")  # noqa: TRY004 - the file's fault
    try:
        entries = {int(key): dict(value) for key, value in table.items()}
        return [msgspec.convert({**entry, "id": number}, AddedToken) for number, entry in sorted(entries.items())]
    except (TypeError, ValueError) as fault:
        raise ValueError(f"added_tokens_decoder is not an object of tokens by id: {fault}") from fault
