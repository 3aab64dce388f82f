"""A program's own vocabulary can be cached and decoded, with the ids that it gives without a cache."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.errors import ClientGone
from smg_core.tokenizer import CachedTokenizer, Prompt, Vocabulary, VocabularyTokenizer

SPECIAL = {"<|user|>": 300, "<|end|>": 301, "<|user|>!": 302, "<s>": 303}


class Pairs:
    """Bytes, and a few pairs of bytes that are one token; a dummy space before each text, as SentencePiece has it."""

    vocab_size = 304

    def __init__(self, special: dict[str, int] | None = None) -> None:
        self.special_tokens = SPECIAL if special is None else special
        self.texts: list[str] = []

    def encode(self, text: str) -> list[int]:
        self.texts.append(text)
        data, ids, at = b" " + text.encode(), [], 0
        while at < len(data):
            pair = data[at : at + 2]
            joined = PAIRS.get(pair)
            ids.append(data[at] if joined is None else joined)
            at += 1 if joined is None else 2
        return ids

    def piece(self, token_id: int) -> bytes | str:
        if token_id < 256:
            return bytes([token_id])
        known: dict[int, bytes | str] = {number: pair for pair, number in PAIRS.items()}
        return (known | {number: token for token, number in SPECIAL.items()}).get(token_id, b"")


PAIRS = {pair: 256 + number for number, pair in enumerate((b"ab", b" a", b"<|", b"|>", "é".encode(), b"en"))}
assert isinstance(Pairs(), Vocabulary)
texts = st.lists(st.sampled_from([*SPECIAL, "ab", " ", "é", "<|", "end|>", "!", "word " * 9]), max_size=12).map("".join)


@given(
    prompts=st.lists(st.lists(texts, min_size=1, max_size=3).map(tuple), min_size=1, max_size=6), cut=st.integers(0, 12)
)
def test_prompts_have_the_ids_that_they_have_without_a_cache(prompts: list[tuple[str, ...]], cut: int) -> None:
    plain = VocabularyTokenizer(Pairs())
    cached = CachedTokenizer(Pairs(), l0_bytes=3_000, l1_bytes=6_000, l1_characters=cut)

    for pieces in [*prompts, *reversed(prompts), *((*each, "<|end|>more") for each in prompts)]:
        report = cached.encode_prompt(Prompt(pieces))
        assert report.ids == plain.encode_prompt(Prompt(pieces)).ids
        assert report.characters == sum(map(len, pieces))


def test_the_next_turn_of_a_chat_encodes_what_is_new() -> None:
    mine = Pairs()
    cached = CachedTokenizer(mine, l1_characters=1)
    cached.encode_prompt(Prompt(("<s>hello<|end|>",)))
    mine.texts.clear()

    report = cached.encode_prompt(Prompt(("<s>hello<|end|>again",)))

    assert mine.texts == ["again"]
    assert (report.level, report.cached_characters) == ("l1", 15)


def test_a_vocabulary_without_special_tokens_is_cached_whole() -> None:
    cached = CachedTokenizer(Pairs(special={}))
    cached.encode_prompt(Prompt(("hello",)))

    assert cached.l1_reason == "no special token is matched in raw text"
    assert cached.encode_prompt(Prompt(("hello",))).level == "l0"


@given(text=texts)
def test_special_tokens_spelled_out_stay_text_where_they_may_not_be_matched(text: str) -> None:
    ids = VocabularyTokenizer(Pairs()).encode(text, allow_control=False)

    assert not set(ids) & set(SPECIAL.values())


@given(text=texts, seed=st.integers(0, 99))
def test_a_stream_says_what_decoding_at_once_says(text: str, seed: int) -> None:
    tokenizer = CachedTokenizer(Pairs())
    ids, dice = list(tokenizer.encode(text)), random.Random(seed)
    decoder, said = tokenizer.decoder(skip_special_tokens=False), ""
    while ids:
        size = dice.randrange(1, 4)
        said += decoder.feed(ids[:size])
        ids = ids[size:]

    assert said + decoder.finish() == tokenizer.decode(tokenizer.encode(text), skip_special_tokens=False)


def test_special_tokens_are_left_out_and_unknown_ids_say_nothing() -> None:
    tokenizer = VocabularyTokenizer(Pairs(), eos_token_ids=[301])

    assert tokenizer.decode([303, 104, 105, 999, -1, 301]) == "hi"
    assert tokenizer.decode([303, 104], skip_special_tokens=False) == "<s>h"
    assert tokenizer.token_bytes(260) == "é".encode()
    assert (tokenizer.token_id("<|end|>"), tokenizer.token_id("ab"), tokenizer.token_id("nothing")) == (301, 256, None)
    assert tokenizer.longest_token == len("<|user|>!")
    assert tokenizer.eos_token_ids == {301}
    assert tokenizer.special.control == set(SPECIAL)


def test_a_prompt_that_nobody_waits_for_is_given_up_between_its_pieces() -> None:
    mine = Pairs()

    with pytest.raises(ClientGone):
        VocabularyTokenizer(mine).encode_prompt(Prompt(("a", "b")), given_up=lambda: bool(mine.texts))
    assert mine.texts == ["a"]
