"""Incremental decoding against decoding at once, and stop strings against a naive search."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from smg_core.tokenizer.base import IncrementalDecoder
from smg_core.tokenizer.huggingface import HuggingFaceTokenizer
from smg_core.tokenizer.stream import BYTE_BASE, FallbackDecoder, StopMatcher, WindowDecoder

KINDS = ("byte-level BPE", "byte-fallback BPE", "WordPiece", "Unigram")
TEXT = "Grüße, 世界 👍🏽! 'quoted' don't  stop\n\n\t<think>x</think> ½ ﬁ \ufffd end."


def streamed(decoder: IncrementalDecoder, ids: Sequence[int], cuts: Iterable[int] = ()) -> str:
    edges = [0, *sorted({cut % (len(ids) + 1) for cut in cuts}), len(ids)]
    return "".join(decoder.feed(ids[a:b]) for a, b in pairwise(edges)) + decoder.finish()


def byte_runs_are_utf8(tokenizer: HuggingFaceTokenizer, ids: Sequence[int]) -> bool:
    """Whether every run of byte tokens is valid UTF-8, so that decoding at once does not spoil whole runs."""
    run = b""
    for token_id in (*ids, -1):
        byte = fallback_byte(tokenizer, token_id)
        if byte is not None:
            run += byte
            continue
        try:
            run.decode()
        except UnicodeDecodeError:
            return False
        run = b""
    return True


def fallback_byte(tokenizer: HuggingFaceTokenizer, token_id: int) -> bytes | None:
    token = next((n for n in range(256) if tokenizer.token_id(f"<0x{n:02X}>") == token_id), None)
    return None if token is None else bytes((token,))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("skip", [True, False])
def test_one_id_at_a_time_gives_the_text_of_all_at_once(
    kind: str, skip: bool, tokenizers_by_kind: dict[str, HuggingFaceTokenizer], references: dict[str, Tokenizer]
) -> None:
    tokenizer = tokenizers_by_kind[kind]
    ids = tokenizer.encode("<|start|>" + TEXT + "<|end|>" + TEXT).tolist()
    decoder = tokenizer.decoder(skip_special_tokens=skip)
    pieces = [decoder.feed([token_id]) for token_id in ids]
    whole = references[kind].decode(ids, skip_special_tokens=skip)
    assert "".join(pieces) + decoder.finish() == whole == tokenizer.decode(ids, skip_special_tokens=skip)
    assert ("<|start|>" in "".join(pieces)) is not skip


@pytest.mark.parametrize("kind", KINDS[:2])
def test_no_piece_holds_half_a_character(kind: str, tokenizers_by_kind: dict[str, HuggingFaceTokenizer]) -> None:
    text = "世界 👍🏽 Grüße"
    decoder = tokenizers_by_kind[kind].decoder()
    pieces = [decoder.feed([token_id]) for token_id in tokenizers_by_kind[kind].encode(text)]
    assert "" in pieces
    assert not any("\ufffd" in piece for piece in pieces)
    assert "".join(pieces) == text


@given(data=st.data(), kind=st.sampled_from(KINDS), skip=st.booleans())
def test_any_ids_in_any_cut_give_the_same_text(
    data: st.DataObject,
    kind: str,
    skip: bool,
    tokenizers_by_kind: dict[str, HuggingFaceTokenizer],
    references: dict[str, Tokenizer],
) -> None:
    tokenizer = tokenizers_by_kind[kind]
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=40))
    cuts = data.draw(st.lists(st.integers(0, 40), max_size=8))
    whole = streamed(tokenizer.decoder(skip_special_tokens=skip), ids)
    assert streamed(tokenizer.decoder(skip_special_tokens=skip), ids, cuts) == whole
    assert streamed(tokenizer.decoder(skip_special_tokens=skip), ids, range(len(ids))) == whole
    if byte_runs_are_utf8(tokenizer, ids):
        assert whole == references[kind].decode(ids, skip_special_tokens=skip)
    assert tokenizer.decode(ids, skip_special_tokens=skip) == references[kind].decode(ids, skip_special_tokens=skip)


@given(data=st.data(), kind=st.sampled_from(KINDS))
def test_the_text_of_each_id_is_what_it_is_alone(
    data: st.DataObject, kind: str, tokenizers_by_kind: dict[str, HuggingFaceTokenizer]
) -> None:
    tokenizer = tokenizers_by_kind[kind]
    some_ids = st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=20)
    once, alone = tokenizer.decoder(), tokenizer.decoder()
    for ids in data.draw(st.lists(some_ids, max_size=4)):
        assert once.feed_each(ids) == [alone.feed([each]) for each in ids]
    assert once.finish() == alone.finish()


@given(text=st.text(max_size=60), kind=st.sampled_from(KINDS))
def test_the_ids_of_any_text_stream_to_its_decoding(
    text: str, kind: str, tokenizers_by_kind: dict[str, HuggingFaceTokenizer], references: dict[str, Tokenizer]
) -> None:
    tokenizer = tokenizers_by_kind[kind]
    ids = tokenizer.encode(text).tolist()
    assert streamed(tokenizer.decoder(), ids, range(len(ids))) == references[kind].decode(ids)


def test_ids_outside_the_vocabulary_are_no_text(tokenizer: HuggingFaceTokenizer) -> None:
    ids = [*tokenizer.encode("well").tolist(), tokenizer.vocab_size, 4_000_000_000, *tokenizer.encode("well").tolist()]
    known = [token_id for token_id in ids if token_id < tokenizer.vocab_size]
    assert streamed(tokenizer.decoder(), ids, range(9)) == tokenizer.decode(known)


def test_the_tail_of_an_unfinished_character_is_flushed(tokenizers_by_kind: dict[str, HuggingFaceTokenizer]) -> None:
    for kind in ("byte-level BPE", "byte-fallback BPE"):
        tokenizer = tokenizers_by_kind[kind]
        start = [n for n in range(tokenizer.vocab_size) if tokenizer.token_bytes(n) == b"\xf0"]
        decoder = tokenizer.decoder()
        assert decoder.feed(start[:1]) == ""
        assert decoder.finish() == "\ufffd" == tokenizer.decode(start[:1])


def test_a_broken_byte_run_keeps_the_characters_that_were_complete() -> None:
    table = {byte: chr(BYTE_BASE + byte) for byte in range(256)} | {300: "x"}
    decoder = FallbackDecoder(table)
    assert decoder.feed([0xC3, 0xA9]) == "é"
    assert decoder.feed([0xFF]) == "\ufffd"
    assert decoder.feed([0xC3, 0xA9, 300]) == "\ufffd\ufffdx"
    assert decoder.feed([0xC3]) + decoder.feed([0xA9]) == "é"


@given(text=st.text(max_size=30), cuts=st.lists(st.integers(0, 60), max_size=8))
def test_the_window_decoder_equals_decoding_at_once(
    text: str, cuts: list[int], references: dict[str, Tokenizer]
) -> None:
    for reference in references.values():
        ids = reference.encode(text, add_special_tokens=False).ids
        assert streamed(WindowDecoder(reference.decode), ids, cuts) == reference.decode(ids)


def test_the_window_decoder_holds_a_character_at_most_so_long() -> None:
    decoder = WindowDecoder(lambda ids: "\ufffd" * len(ids), hold=3)
    assert [decoder.feed([1]) for _ in range(4)] == ["", "", "\ufffd\ufffd\ufffd", ""]
    assert decoder.finish() == "\ufffd"


# ------------------------------------------------------------------------------------------------------------- stops


def naive(text: str, stops: Sequence[str], include: bool) -> tuple[str, str | None]:
    """The first end of any stop; of those that end there, the longest."""
    for end in range(1, len(text) + 1):
        here = [stop for stop in stops if stop and text[:end].endswith(stop)]
        if here:
            stop = max(here, key=len)
            return (text[:end] if include else text[: end - len(stop)]), stop
    return text, None


def longest_beginning(text: str, stops: Sequence[str]) -> int:
    """Length of the longest end of the text that is a proper beginning of a stop."""
    return max((n for stop in stops for n in range(len(stop)) if text.endswith(stop[:n])), default=0)


LETTERS = st.text(alphabet="ab<\n", max_size=6)


@given(
    text=st.text(alphabet="ab<\n", max_size=60),
    stops=st.lists(LETTERS, max_size=4),
    cuts=st.lists(st.integers(0, 60), max_size=12),
    include=st.booleans(),
)
def test_stops_are_found_as_a_naive_search_finds_them_however_text_is_cut(
    text: str, stops: list[str], cuts: list[int], include: bool
) -> None:
    matcher = StopMatcher(tuple(stops), include)
    edges = [0, *sorted({cut % (len(text) + 1) for cut in cuts}), len(text)]
    shown, fed, matched = "", "", None
    for left, right in pairwise(edges):
        safe, matched = matcher.feed(text[left:right])
        shown += safe
        fed += text[left:right]
        if matched is not None:
            break
        # No more is held back than could still become a stop.
        assert len(fed) - len(shown) == longest_beginning(fed, stops)
    assert (shown + matcher.finish(), matched) == naive(text, stops, include)


def test_nothing_is_shown_after_a_stop() -> None:
    matcher = StopMatcher(("END",))
    assert matcher.feed("aENDb") == ("a", "END")
    assert matcher.feed("more") == ("", "END")
    assert matcher.finish() == ""
    assert matcher.matched == "END"


def test_a_stop_is_shown_when_it_is_part_of_the_output() -> None:
    assert StopMatcher(("END",), include=True).feed("aENDb") == ("aEND", "END")


def test_without_stops_all_text_is_safe_at_once() -> None:
    matcher = StopMatcher(("", ""))
    assert matcher.feed("text") == ("text", None)
    assert matcher.finish() == ""


def test_the_work_is_linear_where_a_long_beginning_keeps_failing() -> None:
    class Counted(str):
        __slots__ = ()
        looked: ClassVar[int] = 0

        def __getitem__(self, key: object) -> str:
            Counted.looked += 1
            return super().__getitem__(key)  # type: ignore[index]

    stop = "a" * 500 + "b"
    text = Counted("a" * 20_000)
    matcher = StopMatcher((stop, "a" * 400 + "c"))
    safe, matched = matcher.feed(text)
    assert (len(safe), matched) == (20_000 - 500, None)
    assert Counted.looked <= 20_001


def test_letters_that_mean_something_in_a_pattern_are_plain_letters() -> None:
    for stop in ("^", "]", "\\", "a-z", "[^a]", "-"):
        assert StopMatcher((stop,)).feed(f"x{stop}y") == ("x", stop)
