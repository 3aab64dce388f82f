"""The cache gives the ids the tokenizer gives, stays within its bounds, and helps at every turn of a growing chat."""

import random
import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.tokenizer.base import EncodeReport, GivenUp, Prompt
from smg_core.tokenizer.cache import CachedTokenizer, ExactCache
from smg_core.tokenizer.huggingface import HuggingFaceTokenizer
from smg_core.tokenizer.tiktoken import TiktokenTokenizer, load_tiktoken
from smg_core.tokens import TokenIds

KINDS = ("byte-level BPE", "byte-fallback BPE", "WordPiece", "Unigram")
WORDS = (
    "the quick brown fox", "Grüße", "世界", "👍🏽", " ", "  ", "\n", "\n\n", "\t", "def f(x):", "1234567", "don't", "▁", "é",
    "e\u0301", "ﬁ", "<|", "|>", "<|end", "start|>", "<think>", "</think>", "##ing", "<0x41>", "\u200b", "\x00", "A" * 50, ".",
)  # fmt: skip


class Counting:
    """A tokenizer that counts the characters it is asked to encode, and is otherwise the one it was given."""

    def __init__(self, inner: HuggingFaceTokenizer) -> None:
        self._inner = inner
        self.characters = self.calls = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    # From Python 3.12 on, whether an object plays a role is asked of its class, which knows nothing of __getattr__.
    @property
    def anchors(self) -> Mapping[str, int]:
        return self._inner.anchors

    @property
    def anchor_reason(self) -> str:
        return self._inner.anchor_reason

    def encode(self, text: str, **options: bool) -> TokenIds:
        self._count(len(text))
        return self._inner.encode(text, **options)

    def encode_inside(self, text: str) -> TokenIds:
        self._count(len(text))
        return self._inner.encode_inside(text)

    def encode_prompt(self, prompt: Prompt, *, salt: str = "", given_up: GivenUp | None = None) -> EncodeReport:
        self._count(sum(map(len, prompt.pieces)))
        return self._inner.encode_prompt(prompt, salt=salt, given_up=given_up)

    def _count(self, characters: int) -> None:
        self.calls += 1
        self.characters += characters


def turn(role: str, text: str) -> str:
    return f"<|start|>{role}\n{text}<|end|>\n"


def growing_chat(turns: int, size: int = 300) -> list[Prompt]:
    """The prompt of each turn of one chat."""
    text, prompts = turn("system", "You are a helpful assistant. " * 4), []
    for number in range(turns):
        text += turn("user", f"question {number} " + "word " * (size // 5))
        prompts.append(Prompt((text + "<|start|>assistant\n",)))
        text += turn("assistant", f"answer {number} " + "reply " * (size // 6))
    return prompts


def random_prompt(dice: random.Random, stem: Sequence[str]) -> Prompt:
    """A conversation that shares its first turns with others, now and then with a piece boundary in it."""
    turns = [*stem[: dice.randrange(len(stem) + 1)]]
    for _ in range(dice.randrange(4)):
        words = "".join(dice.choice(WORDS) + dice.choice(("", " ", "\n")) for _ in range(dice.randrange(12)))
        turns.append(
            dice.choice((turn, lambda role, text: f"<|tool|>{text}<|end|><|end|>"))(
                dice.choice(("user", "tool")), words
            )
        )
    text = "".join(turns) + dice.choice(("", "<|start|>assistant\n", " ", "<|start|>"))
    if dice.random() < 0.2:
        cuts = sorted(dice.randrange(len(text) + 1) for _ in range(dice.randrange(1, 4)))
        edges = [0, *cuts, len(text)]
        pieces = tuple(filter(None, (text[a:b] for a, b in pairwise(edges))))
        return Prompt(pieces or ("",))
    return Prompt((text,))


def check_conversations(tokenizer: HuggingFaceTokenizer | TiktokenTokenizer, number: int, seed: int) -> CachedTokenizer:
    """Encode `number` random conversations through a cache so small that it evicts, and compare each with the tokenizer."""
    dice = random.Random(seed)
    stem = [turn(dice.choice(("system", "user")), dice.choice(WORDS) * dice.randrange(1, 9)) for _ in range(6)]
    cached = CachedTokenizer(tokenizer, l0_bytes=200_000, l1_bytes=60_000, l1_characters=dice.choice((0, 16, 48)))
    for _ in range(number):
        prompt, salt = random_prompt(dice, stem), dice.choice(("", "", "tenant"))
        report = cached.encode_prompt(prompt, salt=salt)
        assert report.ids == tokenizer.encode_prompt(prompt).ids, (prompt, report.level)
        assert report.characters == len(prompt.text)
        assert cached.l0_nbytes <= 200_000
        assert cached.l1_nbytes <= 60_000
    return cached


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2))
def test_random_conversations_get_the_ids_they_get_without_a_cache(tokenizer: HuggingFaceTokenizer, seed: int) -> None:
    cached = check_conversations(tokenizer, 300, seed)
    assert cached.l1_reason == ""
    assert cached.l0_hits > 5
    assert cached.l1_hits > 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 20))
def test_ten_thousand_random_conversations_get_the_ids_they_get_without_a_cache(
    tokenizer: HuggingFaceTokenizer, seed: int
) -> None:
    check_conversations(tokenizer, 1000, seed)


def test_random_conversations_over_a_tiktoken_vocabulary(tiktoken_file: bytes) -> None:
    specials = {
        str(300 + n): {"content": token, "special": True}
        for n, token in enumerate(("<|start|>", "<|end|>", "<|tool|>"))
    }
    tokenizer = load_tiktoken(tiktoken_file, tokenizer_config={"added_tokens_decoder": specials}, model_config={})
    assert check_conversations(tokenizer, 300, 7).l1_hits > 100


@pytest.mark.full
@given(data=st.data(), kind=st.sampled_from(KINDS))
def test_any_two_prompts_with_a_common_beginning_are_exact(
    data: st.DataObject, kind: str, tokenizers_by_kind: dict[str, HuggingFaceTokenizer]
) -> None:
    fragment = st.sampled_from(
        ("<|start|>", "<|end|>", "<|tool|>", " ", "\n", "a", "ab", "é", "<", "|>", "<think>", "▁")
    )
    texts = [("".join(data.draw(st.lists(fragment, max_size=12)))) for _ in range(3)]
    tokenizer = tokenizers_by_kind[kind]
    cached = CachedTokenizer(tokenizer, l1_characters=0)
    for tail in (texts[1], texts[2], texts[1] + texts[2]):
        pieces = tuple(filter(None, data.draw(st.sampled_from(((texts[0] + tail,), (texts[0], tail)))))) or ("",)
        assert cached.encode_prompt(Prompt(pieces)).ids == tokenizer.encode_prompt(Prompt(pieces)).ids


# ------------------------------------------------------------------------------------------------------------ what it saves


@pytest.mark.full
@pytest.mark.sampled(keep=2)
def test_a_prompt_seen_before_gives_the_same_ids_object_and_encodes_nothing(tokenizer: HuggingFaceTokenizer) -> None:
    counting = Counting(tokenizer)
    cached = CachedTokenizer(counting)  # type: ignore[arg-type]
    prompt = Prompt((turn("user", "word " * 6000),))
    first = cached.encode_prompt(prompt)
    first.ids.packed_varints = bytes(len(first.ids))
    before = counting.calls
    again = cached.encode_prompt(Prompt((turn("user", "word " * 6000),)))
    assert again.ids is first.ids
    assert (again.level, again.cached_characters) == ("l0", again.characters)
    assert counting.calls == before


def test_recall_answers_what_is_known_and_never_encodes(tokenizer: HuggingFaceTokenizer) -> None:
    counting = Counting(tokenizer)
    cached = CachedTokenizer(counting)  # type: ignore[arg-type]
    prompt = Prompt(("<|start|>hi",))
    assert cached.recall(prompt) is None
    assert counting.calls == 0
    ids = cached.encode_prompt(prompt).ids
    found = cached.recall(prompt)
    assert found is not None
    assert found.ids is ids
    assert cached.recall(prompt, salt="other") is None


def test_each_turn_of_a_growing_chat_encodes_little_more_than_what_is_new(tokenizer: HuggingFaceTokenizer) -> None:
    counting = Counting(tokenizer)
    cached = CachedTokenizer(counting)  # type: ignore[arg-type]
    known = 0
    for prompt in growing_chat(20):
        counting.characters = 0
        report = cached.encode_prompt(prompt)
        new = len(prompt.text) - known
        assert counting.characters <= new + 100
        assert report.cached_characters >= known - 100
        assert report.level == ("l1" if known else "")
        known = len(prompt.text)


def test_memory_of_a_growing_chat_is_linear_in_its_text(tokenizer: HuggingFaceTokenizer) -> None:
    def held(turns: int) -> int:
        cached = CachedTokenizer(tokenizer)
        for prompt in growing_chat(turns):
            cached.encode_prompt(prompt)
        return cached.l1_nbytes + cached.l0_nbytes

    assert held(80) < 3 * held(40)


def test_a_chat_that_moved_on_leaves_no_earlier_prompt_behind(tokenizer: HuggingFaceTokenizer) -> None:
    cached = CachedTokenizer(tokenizer)
    first, second, third = growing_chat(3)
    for prompt in (first, second, third):
        cached.encode_prompt(prompt)
    assert cached.recall(first) is None
    assert cached.recall(second) is None
    assert cached.recall(third) is not None
    assert cached.encode_prompt(first).level == "l1"


def test_tenants_do_not_share(tokenizer: HuggingFaceTokenizer) -> None:
    cached = CachedTokenizer(tokenizer)
    prompt = growing_chat(2)[-1]
    assert cached.encode_prompt(prompt, salt="a").level == ""
    assert cached.encode_prompt(prompt, salt="b").level == ""
    assert cached.encode_prompt(prompt, salt="a").level == "l0"
    longer = Prompt((prompt.text + "<|end|>more",))
    assert cached.encode_prompt(longer, salt="c").level == ""
    assert cached.encode_prompt(longer, salt="b").level == "l1"


def test_where_a_piece_ends_is_part_of_the_prompt(tokenizer: HuggingFaceTokenizer) -> None:
    cached = CachedTokenizer(tokenizer, l1_characters=0)
    spelled = Prompt(("<|start|>user\n<", "|end|> x<|end|>"))
    written = Prompt((spelled.text,))
    end = tokenizer.token_id("<|end|>")
    assert list(cached.encode_prompt(written).ids).count(end) == 2
    assert list(cached.encode_prompt(spelled).ids).count(end) == 1
    assert cached.encode_prompt(spelled).ids == tokenizer.encode_prompt(spelled).ids


# ----------------------------------------------------------------------------------------------------------------- bounds


@given(sizes=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 400)), max_size=60), bound=st.integers(0, 20_000))
def test_the_exact_cache_never_holds_more_than_its_bound(sizes: list[tuple[int, int]], bound: int) -> None:
    cache = ExactCache(bound)
    live: dict[tuple[str, tuple[str, ...]], EncodeReport] = {}
    for name, size in sizes:
        key = ("", (f"{name}" + "x" * size,))
        live[key] = EncodeReport(TokenIds(range(size)), size)
        cache.put(key, live[key])
        assert 0 <= cache.nbytes <= bound
        found = [one for one in live if cache.get(one) is live[one]]
        assert len(found) == len(cache)
        # What it says it holds is at least what its texts, ids and their wire forms take.
        assert cache.nbytes >= sum(len(one[1][0]) + 9 * len(live[one].ids) for one in found)


def test_a_prompt_larger_than_the_whole_cache_evicts_nothing() -> None:
    cache = ExactCache(10_000)
    small, large = ("", ("small",)), ("", ("large",))
    cache.put(small, EncodeReport(TokenIds([1]), 5))
    cache.put(large, EncodeReport(TokenIds(range(5000)), 5))
    assert cache.get(large) is None
    assert cache.get(small) is not None


def test_the_least_recently_used_prompt_goes_first() -> None:
    cache = ExactCache(2200)
    keys = [("", (name,)) for name in "abc"]
    for key in keys[:2]:
        cache.put(key, EncodeReport(TokenIds([1]), 1))
    cache.get(keys[0])
    for key in keys[2:]:
        cache.put(key, EncodeReport(TokenIds(range(60)), 1))
    assert [cache.get(key) is not None for key in keys] == [True, False, True]


def test_without_bytes_a_level_is_off(tokenizer: HuggingFaceTokenizer) -> None:
    cached = CachedTokenizer(tokenizer, l0_bytes=0, l1_bytes=0)
    prompt = growing_chat(1)[0]
    assert [cached.encode_prompt(prompt).level for _ in range(2)] == ["", ""]
    assert cached.l1_reason == "switched off"
    assert (cached.l0_nbytes, cached.l1_nbytes) == (0, 0)


@pytest.mark.sampled(keep=2)
def test_several_threads_get_exact_ids_and_leave_the_accounts_in_order(tokenizer: HuggingFaceTokenizer) -> None:
    prompts = [prompt for number in range(4) for prompt in growing_chat(12, 60 + 40 * number)]
    wanted = [tokenizer.encode_prompt(prompt).ids for prompt in prompts]
    cached = CachedTokenizer(tokenizer, l0_bytes=60_000, l1_bytes=60_000, lock=threading.Lock())
    wrong: list[int] = []

    def work(seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(150):
            at = dice.randrange(len(prompts))
            if cached.encode_prompt(prompts[at]).ids != wanted[at]:
                wrong.append(at)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert 0 < cached.l0_nbytes <= 60_000
    assert 0 < cached.l1_nbytes <= 60_000


def test_a_tokenizer_that_contradicts_its_anchors_is_still_answered_exactly(tokenizer: HuggingFaceTokenizer) -> None:
    class Contrary(Counting):
        anchors = {"<|start|>": 5}  # noqa: RUF012 - the wrong id, on purpose
        anchor_reason = ""

    cached = CachedTokenizer(Contrary(tokenizer), lock=nullcontext())  # type: ignore[arg-type]
    for prompt in growing_chat(3):
        report = cached.encode_prompt(prompt)
        assert report.ids == tokenizer.encode_prompt(prompt).ids
        assert report.level == ""
