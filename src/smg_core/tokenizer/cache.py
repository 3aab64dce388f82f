"""A cache over a tokenizer: prompts that were encoded before are not encoded again.

Two levels, both exact. L0 holds whole prompts: the same text gets the same `TokenIds` object again, with the wire form kept
in it. L1 holds beginnings of prompts, cut at special tokens: the longest known beginning is looked up and only the rest is
encoded. Every prompt adds its new cuts to L1, so each turn of a growing chat finds the turn before. Both levels are bounded
in bytes, drop the least recently used entry first, and are partitioned by a salt (a tenant's name, say).

L1 is exact because it cuts only behind the tokenizer's `anchors`. An anchor's string is always matched as that token, and
the text behind it encodes the same whatever stands before it (`vocabulary.anchors_of` says why); the rest of a prompt is
encoded with its anchor in front. For a tokenizer without anchors L1 is off, and `l1_reason` says so. The keys are the texts
themselves, not digests.

Above: loader wraps tokenizers in it, the pipeline calls encode_prompt. Below: base, own (a program's own vocabulary),
prefix_tree (L1's store). Several threads may use it if it is given a lock.
"""

import sys
from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Protocol, runtime_checkable

from smg_core.tokenizer.base import (
    EncodeReport,
    GivenUp,
    IncrementalDecoder,
    Prompt,
    SpecialTokens,
    Tokenizer,
    left_before_encoded,
)
from smg_core.tokenizer.own import Vocabulary, VocabularyTokenizer
from smg_core.tokenizer.prefix_tree import Boundaries, PrefixTree, PromptKey, Segment, segments
from smg_core.tokenizer.settings import TokenizerConfig
from smg_core.tokens import TokenIds

__all__ = ["Anchored", "CachedTokenizer", "ExactCache"]

Lock = AbstractContextManager[object]
"""A `threading.Lock`, or anything else used as one. It is an argument because this module may not wait."""

_DEFAULTS = TokenizerConfig()
_ENTRY_BYTES = 640
"""Bytes that Python takes for one L0 entry: key tuple, report, ids object, array header, table slot (measured: 560)."""


@runtime_checkable
class Anchored(Protocol):
    """A tokenizer that says where its texts may be cut. L1 needs one."""

    @property
    def anchors(self) -> Mapping[str, int]:
        """Special tokens behind which a text may be cut, with their ids."""
        ...

    @property
    def anchor_reason(self) -> str:
        """Why there are no anchors; "" if there are some."""
        ...

    def encode_inside(self, text: str) -> TokenIds:
        """Ids of text that stands behind other text."""
        ...


class ExactCache:
    """A byte-bounded least-recently-used map from prompts to reports. The size of an entry counts its text, its ids, and the
    wire form that may later be kept with the ids (at most `wire_bytes` per id)."""

    __slots__ = ("_bound", "_entries", "_lock", "_wire_bytes", "nbytes")

    def __init__(self, bound: int, wire_bytes: int = 5, lock: Lock | None = None) -> None:
        self._bound = bound
        self._wire_bytes = wire_bytes
        self._entries: OrderedDict[PromptKey, tuple[EncodeReport, int]] = OrderedDict()
        self._lock: Lock = lock or nullcontext()
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: PromptKey) -> EncodeReport | None:
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
            return found[0]

    def put(self, key: PromptKey, report: EncodeReport) -> None:
        size = self._size(key, report)
        with self._lock:
            self._drop(key)
            if size > self._bound:
                return
            while self.nbytes + size > self._bound:
                self.nbytes -= self._entries.popitem(last=False)[1][1]
            self._entries[key] = (report, size)
            self.nbytes += size

    def drop(self, key: PromptKey) -> None:
        """Forget one prompt, if it is there."""
        with self._lock:
            self._drop(key)

    def _drop(self, key: PromptKey) -> None:
        found = self._entries.pop(key, None)
        if found is not None:
            self.nbytes -= found[1]

    def _size(self, key: PromptKey, report: EncodeReport) -> int:
        text = sum(sys.getsizeof(piece) for piece in key[1]) + sys.getsizeof(key[0])
        return _ENTRY_BYTES + text + len(report.ids) * (4 + self._wire_bytes)


class CachedTokenizer:
    """A `Tokenizer` that remembers what it encoded. `l1_reason` says why L1 is off, "" if it is on. `l0_hits`, `l1_hits` and
    `misses` count prompts; with several threads they may be a little low."""

    def __init__(
        self,
        tokenizer: Tokenizer | Vocabulary,
        *,
        l0_bytes: int = _DEFAULTS.l0_bytes,
        l1_bytes: int = _DEFAULTS.l1_bytes,
        l1_characters: int = _DEFAULTS.l1_characters,
        l1_pieces: int = _DEFAULTS.l1_pieces,
        lock: Lock | None = None,
    ) -> None:
        """The bounds are those of `TokenizerConfig`; 0 bytes switch a level off. `lock` (a threading.Lock) is needed if several
        threads use the cache. A `Vocabulary` is cached as the `VocabularyTokenizer` of it."""
        inner: Tokenizer = VocabularyTokenizer(tokenizer) if isinstance(tokenizer, Vocabulary) else tokenizer
        self.inner, self.eos_token_ids = inner, inner.eos_token_ids
        self.l0_hits = self.l1_hits = self.misses = 0
        self._l0 = ExactCache(l0_bytes, _varint_bytes(inner.vocab_size), lock)
        self._anchored = inner if isinstance(inner, Anchored) else None
        self.l1_reason = self._why_not(l1_bytes)
        self._l1_characters, self._l1_pieces = l1_characters, l1_pieces
        self._tree = PrefixTree(0 if self.l1_reason else l1_bytes, lock)
        self._boundaries = Boundaries({} if self.l1_reason or self._anchored is None else self._anchored.anchors)

    @property
    def l0_nbytes(self) -> int:
        """Bytes that L0 holds, as it counts them; never above its bound."""
        return self._l0.nbytes

    @property
    def l1_nbytes(self) -> int:
        """Bytes that L1 holds, as it counts them; never above its bound."""
        return self._tree.nbytes

    @property
    def vocab_size(self) -> int:
        return self.inner.vocab_size

    @property
    def special(self) -> SpecialTokens:
        return self.inner.special

    @property
    def longest_token(self) -> int:
        return self.inner.longest_token

    def encode(self, text: str, *, add_special_tokens: bool = False, allow_control: bool = True) -> TokenIds:
        return self.inner.encode(text, add_special_tokens=add_special_tokens, allow_control=allow_control)

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        return self.inner.decode(ids, skip_special_tokens=skip_special_tokens)

    def decoder(self, *, skip_special_tokens: bool = True) -> IncrementalDecoder:
        return self.inner.decoder(skip_special_tokens=skip_special_tokens)

    def token_bytes(self, token_id: int) -> bytes:
        return self.inner.token_bytes(token_id)

    def token_id(self, token: str) -> int | None:
        return self.inner.token_id(token)

    def recall(self, prompt: Prompt, *, salt: str = "") -> EncodeReport | None:
        """The report if L0 has the prompt, else None. May be called on an event loop, where nothing may be encoded."""
        return self._l0.get((salt, prompt.pieces))

    def encode_prompt(self, prompt: Prompt, *, salt: str = "", given_up: GivenUp | None = None) -> EncodeReport:
        key = (salt, prompt.pieces)
        found = self._l0.get(key)
        if found is not None:
            self.l0_hits += 1
            return found
        if self.l1_reason or len(prompt.pieces) > self._l1_pieces:
            report = self.inner.encode_prompt(prompt, given_up=given_up)
        else:
            report = self._through_l1(key, given_up)
        if report.level:
            self.l1_hits += 1
        else:
            self.misses += 1
        self._l0.put(key, EncodeReport(report.ids, report.characters, report.characters, "l0"))
        return report

    def _why_not(self, l1_bytes: int) -> str:
        if l1_bytes <= 0:
            return "switched off"
        if self._anchored is None:
            return "the tokenizer does not say where its texts may be cut"
        return self._anchored.anchor_reason

    def _through_l1(self, key: PromptKey, given_up: GivenUp | None) -> EncodeReport:
        salt, pieces = key
        characters = sum(map(len, pieces))
        cut = segments(pieces, self._boundaries, self._l1_characters)
        known = self._tree.find(salt, cut)
        ids = array("I")
        for part in known:
            ids.extend(part)
        cached = sum(segment.characters for segment in cut[: len(known)])
        fresh = self._encode_rest(pieces, cut, len(known), given_up)
        if fresh is None:
            return self.inner.encode_prompt(Prompt(pieces), given_up=given_up)
        for part in fresh:
            ids.extend(part)
        stored = [*known, *fresh[: len(cut) - len(known)]]
        superseded = self._tree.insert(salt, cut, stored, key)
        if superseded is not None:
            self._l0.drop(superseded)
        return EncodeReport(TokenIds(ids), characters, cached, "l1" if known else "")

    def _encode_rest(
        self, pieces: tuple[str, ...], cut: list[Segment], known: int, given_up: GivenUp | None
    ) -> "list[array[int]] | None":
        """Ids of what follows the first `known` segments: one array for each further segment and one for the rest. None if
        the anchors found in the ids are not those found in the text: then the tokenizer's anchors are wrong."""
        anchored = self._anchored
        at = cut[known - 1].end if known else (0, 0)
        anchor = cut[known - 1].anchor if known else ""
        ends = [segment.end for segment in cut[known:]]
        runs: list[array[int]] = [array("I")]
        for number in range(at[0], len(pieces)):
            if given_up is not None and given_up():
                raise left_before_encoded()
            start = at[1] if number == at[0] else 0
            lead = anchor if number == at[0] else ""
            text = lead + pieces[number][start:]
            behind = number > 0 and not lead
            ids = self.inner.encode(text) if not behind or anchored is None else anchored.encode_inside(text)
            wanted = [end[1] - start + len(lead) for end in ends if end[0] == number]
            parts = self._split(ids, text, wanted, drop=bool(lead))
            if parts is None:
                return None
            runs[-1].extend(parts[0])
            runs.extend(parts[1:])
        return runs

    def _split(self, ids: TokenIds, text: str, ends: list[int], drop: bool) -> "list[array[int]] | None":
        """The ids cut behind the anchors that end at the offsets `ends` of the text."""
        flat = array("I", ids.buffer)
        if not ends and not drop:
            return [flat]
        found = self._boundaries.find(text)
        ids_of, of_ids = self._boundaries.ids, self._boundaries.id_set
        places = [place for place, token in enumerate(flat) if token in of_ids]
        if [flat[place] for place in places] != [ids_of[anchor] for _, anchor in found]:
            return None
        place_of = {end: place + 1 for (end, _), place in zip(found, places, strict=True)}
        edges = [1 if drop else 0, *(place_of[end] for end in ends), len(flat)]
        return [flat[left:right] for left, right in pairwise(edges)]


def _varint_bytes(vocab_size: int) -> int:
    """Bytes of the longest varint of an id."""
    return max(1, (max(vocab_size - 1, 1).bit_length() + 6) // 7)
