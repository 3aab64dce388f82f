"""Cuts texts into chunks for an index, piece by piece, so that no text is in memory whole.

A chunk has at most so many tokens, and begins so many before the end of the one before. It ends where a paragraph, a line or a
sentence does, if there is such a place in its last quarter. Tokens are counted without a tokenizer, since an index is of texts
and not of a model: up to six Latin letters or three digits are one, and so is any other character that is no space. That is
about what tokenizers make of English, and more than they make of other languages. Pure. Above: indexing. Below: nothing.
"""

import re
from collections.abc import Iterator

import attrs

__all__ = ["AUTO_CHUNKING", "Chunker", "Chunking", "TextChunk"]


@attrs.frozen
class Chunking:
    """How texts are cut: a chunk has at most `max_tokens`, and repeats the last `overlap_tokens` of the one before."""

    max_tokens: int
    overlap_tokens: int


AUTO_CHUNKING = Chunking(800, 400)
"""How texts are cut where nobody has said: as OpenAI's API does it."""


@attrs.frozen
class TextChunk:
    """A chunk, and where in the text it is: from the character `start` to before `end`."""

    text: str
    start: int
    end: int


_TOKEN = re.compile(r"[A-Za-z]{1,6}|[0-9]{1,3}|[^\sA-Za-z0-9]")
_ENDS = (
    re.compile(r"\n[^\S\n]*\n\s*"),
    re.compile(r"\n\s*"),
    re.compile(r"[.!?][\"')\]]?\s+|[\u3002\uff01\uff1f]"),
    re.compile(r"\s+"),
)
"""Where a chunk may end, the best first."""
_EARLY = 4  # a chunk may end in its last part of so many
_LOOKED_AT = 16  # characters a token, beyond which a text is mostly space


class Chunker:
    """Cuts one text."""

    def __init__(self, chunking: Chunking) -> None:
        self._most, self._overlap = chunking.max_tokens, chunking.overlap_tokens
        self._text = ""
        self._at = 0  # where in the whole text `_text` begins
        self._fresh = 0  # how much of `_text` was in the chunk before

    def feed(self, text: str) -> Iterator[TextChunk]:
        """The chunks that are whole with this piece of the text."""
        self._text += text
        yield from self._cut(last=False)

    def end(self) -> Iterator[TextChunk]:
        """The chunks that are left at the end of the text."""
        yield from self._cut(last=True)

    def _cut(self, *, last: bool) -> Iterator[TextChunk]:
        done = 0  # of `_text`: cutting a long one is then linear
        while True:
            stop, ends = self._reach(done)
            if stop is None and not last:
                break
            end = len(self._text) if stop is None else self._good_end(done, stop, ends)
            if self._text[done + self._fresh : end].strip():
                yield self._chunk(done, end)
            if stop is None:
                done, self._fresh = len(self._text), 0
                break
            following = self._following(done, end, ends)
            done, self._fresh = following, end - following
        self._text, self._at = self._text[done:], self._at + done

    def _reach(self, begin: int) -> tuple[int | None, list[int]]:
        """Where the text is too long for a chunk that begins at `begin`, None where it is not; and where its tokens begin."""
        starts: list[int] = []
        most = begin + self._most * _LOOKED_AT
        for found in _TOKEN.finditer(self._text, begin, most):
            if len(starts) == self._most:
                return found.start(), starts
            starts.append(found.start())
        return (most if len(self._text) > most else None), starts

    def _good_end(self, begin: int, stop: int, starts: list[int]) -> int:
        """Where a chunk from `begin` ends that must end at `stop`. It has something that the one before had not."""
        fresh = begin + self._fresh
        early = max(starts[len(starts) - max(1, len(starts) // _EARLY)] if starts else begin, fresh + 1)
        for pattern in _ENDS:
            end = 0
            for found in pattern.finditer(self._text, early, stop):
                end = found.end()
            if end > fresh:
                return end
        return stop

    def _following(self, begin: int, end: int, starts: list[int]) -> int:
        """Where the chunk behind one from `begin` to `end` begins."""
        if not self._overlap:
            return end
        inside = [each for each in starts if each < end]
        if len(inside) <= self._overlap:
            return end
        at = inside[-self._overlap]
        begun = self._text.rfind("\n", begin, at) + 1  # of a line, where that is near
        return begun if begin < begun and at - begun < (end - at) // _EARLY else max(at, begin + 1)

    def _chunk(self, begin: int, end: int) -> TextChunk:
        text = self._text[begin:end]
        inner = text.strip()
        start = begin + len(text) - len(text.lstrip())
        return TextChunk(inner, self._at + start, self._at + start + len(inner))
