"""Turns token ids into text as they arrive, and finds stop strings in that text.

`ByteDecoder`, `FallbackDecoder`, `PieceDecoder` and `WindowDecoder` decode, one for each kind of vocabulary; `StopMatcher`
looks for stop strings. All are small state machines: no I/O, no clock, one object per choice, used from one thread. The
text of a token is looked up in tables given by the caller. Above: huggingface and tiktoken choose the decoder, the pipeline
feeds it and the matcher. Below: the standard library.

However the ids are divided between calls of feed(), the results joined with that of finish() are the same text. It equals
the tokenizer's decode of all ids at once, with one exception on purpose. In a byte-fallback vocabulary, a run of byte tokens
that is not valid UTF-8 decodes as a whole to one U+FFFD per byte; here the characters that were complete before the invalid
byte have been sent already, and only the rest becomes U+FFFD.
"""

import re
from codecs import utf_8_decode
from collections.abc import Callable, Mapping, Sequence

__all__ = ["BYTE_BASE", "ByteDecoder", "FallbackDecoder", "PieceDecoder", "StopMatcher", "WindowDecoder"]

BYTE_BASE = 0xDC00
"""In a `FallbackDecoder` table a byte token is the lone surrogate U+DC00 plus the byte: no real text holds one."""

_BYTE_RUN = re.compile("[\udc00-\udcff]+")


class ByteDecoder:
    """Decodes byte-level vocabularies (byte-level BPE, tiktoken): each id is some bytes, and the bytes joined are UTF-8.

    `table` maps every id to its bytes, unknown and skipped ids to b"". Invalid bytes become U+FFFD as soon as no
    following byte can complete them, one per maximal broken subsequence, as Unicode recommends and Hugging Face decodes.
    """

    __slots__ = ("_bytes_of", "_tail")

    def __init__(self, table: Mapping[int, bytes]) -> None:
        self._bytes_of = table.__getitem__
        self._tail = b""

    def feed(self, ids: Sequence[int]) -> str:
        data = self._bytes_of(ids[0]) if len(ids) == 1 else b"".join(map(self._bytes_of, ids))
        if not self._tail:
            if data.isascii():
                return data.decode()
        else:
            data = self._tail + data
        text, used = utf_8_decode(data, "replace", False)
        self._tail = data[used:]
        return text

    def feed_each(self, ids: Sequence[int]) -> list[str]:
        if not self._tail:
            try:
                return [*map(bytes.decode, map(self._bytes_of, ids))]
            except UnicodeDecodeError:  # some token has a part of a character
                pass
        return [self.feed((each,)) for each in ids]

    def finish(self) -> str:
        tail, self._tail = self._tail, b""
        return tail.decode("utf-8", "replace") if tail else ""


class PieceDecoder:
    """Decodes vocabularies where every id is a string, which may differ if the id is the first of a text (WordPiece,
    Metaspace without byte fallback). `first` gives the string of an id at the start of a text, None for a skipped or
    unknown id; `rest` maps ids to their strings elsewhere, skipped and unknown ids to ""."""

    __slots__ = ("_first", "_started", "_text_of")

    def __init__(self, first: Callable[[int], str | None], rest: Mapping[int, str]) -> None:
        self._first = first
        self._text_of = rest.__getitem__
        self._started = False

    def feed(self, ids: Sequence[int]) -> str:
        if self._started:
            return self._text_of(ids[0]) if len(ids) == 1 else "".join(map(self._text_of, ids))
        for place, token_id in enumerate(ids):
            opening = self._first(token_id)
            if opening is not None:
                self._started = True
                return opening + "".join(map(self._text_of, ids[place + 1 :]))
        return ""

    def feed_each(self, ids: Sequence[int]) -> list[str]:
        return [*map(self._text_of, ids)] if self._started else [self.feed((each,)) for each in ids]

    def finish(self) -> str:
        return ""


class FallbackDecoder:
    """Decodes SentencePiece-like vocabularies with byte fallback: ids are strings, except 256 that are one byte each.

    `table` maps a byte's id to chr(BYTE_BASE + byte) and every other id to its string. `strip` is the number of leading
    spaces to remove from the text: the vocabulary's dummy prefix.
    """

    __slots__ = ("_broken", "_strip", "_tail", "_text_of")

    def __init__(self, table: Mapping[int, str], strip: int = 0) -> None:
        self._text_of = table.__getitem__
        self._strip = strip
        self._tail = b""
        self._broken = False

    def feed(self, ids: Sequence[int]) -> str:
        text = self._text_of(ids[0]) if len(ids) == 1 else "".join(map(self._text_of, ids))
        if not text:
            return ""
        if not text.isascii() or self._tail or self._broken:
            text = self._resolve(text)
        return self._stripped(text) if self._strip else text

    def feed_each(self, ids: Sequence[int]) -> list[str]:
        if not (self._tail or self._broken or self._strip):
            texts = [*map(self._text_of, ids)]
            if "".join(texts).isascii():
                return texts
        return [self.feed((each,)) for each in ids]

    def finish(self) -> str:
        text = self._end_of_run()
        return self._stripped(text) if self._strip else text

    def _resolve(self, text: str) -> str:
        """`text` with its runs of byte tokens decoded."""
        out: list[str] = []
        at = 0
        for run in _BYTE_RUN.finditer(text):
            if run.start() > at:
                out += (self._end_of_run(), text[at : run.start()])
            out.append(self._run(bytes(ord(char) - BYTE_BASE for char in run.group())))
            at = run.end()
        if at < len(text):
            out += (self._end_of_run(), text[at:])
        return "".join(out)

    def _run(self, data: bytes) -> str:
        """The certain text of a byte run that goes on with `data`."""
        if self._broken:
            return "\ufffd" * len(data)
        data = self._tail + data
        try:
            text, used = utf_8_decode(data, "strict", False)
        except UnicodeDecodeError as fault:
            self._broken, self._tail = True, b""
            return data[: fault.start].decode() + "\ufffd" * (len(data) - fault.start)
        self._tail = data[used:]
        return text

    def _end_of_run(self) -> str:
        unfinished, self._tail, self._broken = len(self._tail), b"", False
        return "\ufffd" * unfinished

    def _stripped(self, text: str) -> str:
        while self._strip and text:
            if text[0] != " ":
                self._strip = 0
                break
            text, self._strip = text[1:], self._strip - 1
        return text


class WindowDecoder:
    """Decodes any vocabulary by its own `decode`: decodes the last ids again with each new one and returns the new text.

    Correct if a token's text depends only on the tokens before it. Each id costs two decodes of the window. Text that
    ends in U+FFFD is held back, for at most `hold` ids, because the next id may complete the character.
    """

    __slots__ = ("_decode", "_emitted", "_hold", "_ids")

    def __init__(self, decode: Callable[[list[int]], str], hold: int = 64) -> None:
        self._decode = decode
        self._hold = hold
        self._ids: list[int] = []
        self._emitted = 0

    def feed(self, ids: Sequence[int]) -> str:
        return "".join(self.feed_each(ids))

    def feed_each(self, ids: Sequence[int]) -> list[str]:
        return [self._step(token_id) for token_id in ids]

    def _step(self, token_id: int) -> str:
        before = self._decode(self._ids[: self._emitted]) if self._emitted else ""
        self._ids.append(token_id)
        now = self._decode(self._ids)
        held = len(self._ids) - self._emitted
        if len(now) <= len(before) or (now.endswith("\ufffd") and held < self._hold):
            return ""
        self._ids = self._ids[self._emitted :]
        self._emitted = len(self._ids)
        return now[len(before) :]

    def finish(self) -> str:
        if len(self._ids) == self._emitted:
            return ""
        before = self._decode(self._ids[: self._emitted]) if self._emitted else ""
        rest = self._decode(self._ids)[len(before) :]
        self._ids, self._emitted = [], 0
        return rest


class StopMatcher:
    """Finds the first stop string in text that arrives in pieces, and holds back no more than it must.

    Of all occurrences the one that ends first wins; of several that end at the same character, the longest. The text
    before it is safe to send; the stop string itself is sent only with `include`. Held back is the longest end of the text
    that begins some stop string. One Aho-Corasick automaton: the time is linear in the text for any stop strings; text that
    begins none is skipped by a regex search for their first characters.
    """

    __slots__ = ("_children", "_depth", "_fail", "_first", "_held", "_include", "_matched", "_output", "_state")

    def __init__(self, stops: tuple[str, ...], include: bool = False) -> None:
        self._include = include
        self._held = ""
        self._state = 0
        self._matched: str | None = None
        self._children: list[dict[str, int]] = [{}]
        self._depth = [0]
        self._output: list[str | None] = [None]
        self._fail = [0]
        for stop in stops:
            self._insert(stop)
        self._link()
        letters = "".join(re.escape(letter) for letter in self._children[0])
        # Without stop strings the pattern matches nothing, and all text is safe.
        self._first = re.compile(f"[{letters}]" if letters else "(?!)").search

    @property
    def matched(self) -> str | None:
        """The stop string that was found, None until then."""
        return self._matched

    def feed(self, text: str) -> tuple[str, str | None]:
        """The text that is now safe to send, and the stop string if it has been found. After that, no text is safe."""
        if self._matched is not None:
            return "", self._matched
        if not self._state and self._first(text) is None:
            return text, None
        return self._scan(text)

    def finish(self) -> str:
        """The text held back, at the end of the output: it began no stop string after all."""
        held, self._held, self._state = self._held, "", 0
        return held

    def _scan(self, text: str) -> tuple[str, str | None]:
        children, fail, output, state = self._children, self._fail, self._output, self._state
        at, size = 0, len(text)
        while at < size:
            if not state:
                hit = self._first(text, at)
                if hit is None:
                    break
                at = hit.start()
            letter = text[at]
            following = children[state].get(letter)
            while following is None and state:
                state = fail[state]
                following = children[state].get(letter)
            state = following or 0
            at += 1
            found = output[state]
            if found is not None:
                return self._found(found, self._held + text[:at])
        self._state = state
        whole = self._held + text
        safe = len(whole) - self._depth[state]
        self._held = whole[safe:]
        return whole[:safe], None

    def _found(self, stop: str, text: str) -> tuple[str, str]:
        self._matched, self._held, self._state = stop, "", 0
        return (text if self._include else text[: -len(stop)]), stop

    def _insert(self, stop: str) -> None:
        if not stop:
            return
        node = 0
        for letter in stop:
            child = self._children[node].get(letter)
            if child is None:
                child = len(self._children)
                self._children[node][letter] = child
                self._children.append({})
                self._depth.append(self._depth[node] + 1)
                self._output.append(None)
                self._fail.append(0)
            node = child
        self._output[node] = stop

    def _link(self) -> None:
        """Set the failure links, breadth first. A node that ends no stop takes the output of its failure link."""
        queue = list(self._children[0].values())
        for node in queue:
            for letter, child in self._children[node].items():
                back = self._fail[node]
                while back and letter not in self._children[back]:
                    back = self._fail[back]
                self._fail[child] = self._children[back].get(letter, 0)
                if self._output[child] is None:
                    self._output[child] = self._output[self._fail[child]]
                queue.append(child)
