"""A program's own vocabulary as a `Tokenizer`, so that the cache and the decoders work around it.

`Vocabulary` is what such a vocabulary offers; `VocabularyTokenizer` adds the rest. It finds special tokens in the text itself and
has the vocabulary encode what lies between two of them, so a text may be cut behind a special token whatever the vocabulary
does. Pure. Above: cache. Below: control, stream, vocabulary.
"""

import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Protocol, runtime_checkable

from smg_core.tokenizer.base import (
    EncodeReport,
    GivenUp,
    IncrementalDecoder,
    Prompt,
    SpecialTokens,
    left_before_encoded,
)
from smg_core.tokenizer.control import ControlScan
from smg_core.tokenizer.stream import ByteDecoder
from smg_core.tokenizer.vocabulary import AddedToken, anchors_of
from smg_core.tokens import TokenIds

__all__ = ["Vocabulary", "VocabularyTokenizer"]


@runtime_checkable
class Vocabulary(Protocol):
    """The role of a program's own tokenizer, which is cached and decodes streams by it."""

    @property
    def vocab_size(self) -> int:
        """Number of ids, special tokens included."""
        ...

    @property
    def special_tokens(self) -> Mapping[str, int]:
        """The tokens with a role, such as `<|im_end|>`, with their ids; empty if there are none."""
        ...

    def encode(self, text: str) -> Sequence[int]:
        """The ids of text without special tokens; nothing is added."""
        ...

    def piece(self, token_id: int) -> bytes | str:
        """The text of one id, or its bytes if it may be a part of a character; "" for an id without a token. Only called with ids
        below `vocab_size`."""
        ...


class VocabularyTokenizer:
    """Implements `Tokenizer` over a `Vocabulary`. `eos_token_ids` are the ids that end generation."""

    def __init__(self, vocabulary: Vocabulary, *, eos_token_ids: Iterable[int] = ()) -> None:
        self.vocabulary = vocabulary
        self.eos_token_ids = frozenset(eos_token_ids)
        self._ids = dict(vocabulary.special_tokens)
        self._scan = ControlScan(self._ids)
        longest_first = sorted(filter(None, self._ids), key=len, reverse=True)
        self._between = re.compile("(" + ("|".join(map(re.escape, longest_first)) or "(?!)") + ")")
        added = [AddedToken(id=number, content=token, special=True) for token, number in self._ids.items()]
        self.anchors, self.anchor_reason = anchors_of(added)
        self._every = _Pieces(vocabulary)
        self._visible = _Pieces(vocabulary, hidden=self._ids.values())

    @property
    def vocab_size(self) -> int:
        return self.vocabulary.vocab_size

    @property
    def special(self) -> SpecialTokens:
        return SpecialTokens(control=frozenset(self._ids))

    @cached_property
    def longest_token(self) -> int:
        """The bytes of the longest token: a character is one byte or more."""
        return max((len(self._every[each]) for each in range(self.vocab_size)), default=0)

    @cached_property
    def _id_of(self) -> Mapping[str, int]:
        """Ids by the text of their token, special tokens first."""
        texts = {self._every[each].decode("utf-8", "replace"): each for each in reversed(range(self.vocab_size))}
        return {**texts, **self._ids}

    def encode(self, text: str, *, add_special_tokens: bool = False, allow_control: bool = True) -> TokenIds:
        """A vocabulary adds no special tokens of its own, so `add_special_tokens` changes nothing."""
        if allow_control:
            return TokenIds(self._encode(text))
        ids = array("I")
        for piece in self._scan.pieces(text):
            ids.extend(self.vocabulary.encode(piece))
        return TokenIds(ids)

    def encode_inside(self, text: str) -> TokenIds:
        """Ids of text that follows other text: the same as at the start."""
        return self.encode(text)

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

    def token_id(self, token: str) -> int | None:
        return self._id_of.get(token)

    def _encode(self, text: str) -> "array[int]":
        ids = array("I")
        for part in filter(None, self._between.split(text)):
            special = self._ids.get(part)
            ids.extend(self.vocabulary.encode(part) if special is None else (special,))
        return ids


class _Pieces(dict[int, bytes]):
    """Ids to bytes, each asked of the vocabulary once; ids that it does not have, and `hidden` ones, give b""."""

    def __init__(self, vocabulary: Vocabulary, hidden: Iterable[int] = ()) -> None:
        super().__init__(dict.fromkeys(hidden, b""))
        self._vocabulary = vocabulary

    def __missing__(self, token_id: int) -> bytes:
        if not 0 <= token_id < self._vocabulary.vocab_size:
            return b""
        piece = self._vocabulary.piece(token_id)
        found = self[token_id] = piece.encode() if isinstance(piece, str) else piece
        return found
