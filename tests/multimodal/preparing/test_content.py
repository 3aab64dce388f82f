"""Recognising content, and keeping what was made of it within a budget."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from smg_multimodal.preparing.content import DigestMemory, FeatureCache, Noted, content_key, digest_of
from smg_multimodal.records.types import ItemFeatures, Size


def features(size: int) -> ItemFeatures:
    return ItemFeatures({"pixel_values": np.zeros(size, np.uint8)}, Size(1, 1), 1, (1, 1))


@given(st.lists(st.binary(max_size=6), max_size=4), st.lists(st.binary(max_size=6), max_size=4))
def test_keys_are_equal_only_for_equal_parts(left: list[bytes], right: list[bytes]) -> None:
    assert (content_key(left) == content_key(right)) == (left == right)


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(0, 400_000))
def test_digests_are_sha256_whatever_was_remembered(order: list[int], budget: int) -> None:
    """Strings that share length and samples, and differ between them, are told apart."""
    base = bytearray(100_000)
    memory = DigestMemory(budget)
    for index in order:
        data = bytes(base[:5000]) + bytes([index]) + bytes(base[5001:])
        assert memory.digest(data) == hashlib.sha256(data).digest()
        assert memory.nbytes <= budget


def test_a_string_seen_before_is_not_hashed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, data = DigestMemory(), bytes(range(256)) * 400
    first = memory.digest(data)
    monkeypatch.setattr(hashlib, "sha256", lambda _data: pytest.fail("hashed again"))
    assert memory.digest(bytes(bytearray(data))) == first


def test_long_content_is_recognised_only_after_it_was_noted() -> None:
    memory, data = DigestMemory(), bytes(40_000)
    assert memory.recognise(bytes(100)) == hashlib.sha256(bytes(100)).digest()
    assert memory.recognise(data) is None
    memory.note(data, hashlib.sha256(data).digest())
    assert memory.recognise(bytes(40_000)) == hashlib.sha256(data).digest()


def test_content_is_recognised_for_its_owner_alone() -> None:
    memory, data = DigestMemory(), bytes(range(256)) * 400
    digest = memory.digest(data, "a")

    assert memory.recognise(data, "a") == digest
    assert memory.recognise(data, "b") is None
    assert memory.candidate(data) is None


def test_content_that_takes_long_to_compare_is_left_to_a_thread_unless_it_is_the_very_same() -> None:
    memory, data = DigestMemory(), bytes(3 << 20)
    made = memory.note(data, hashlib.sha256(data).digest())
    copy = bytes(bytearray(data))
    assert memory.recognise(data) == made
    assert memory.recognise(copy) is None
    assert memory.candidate(copy) == Noted(data, made)
    assert digest_of(copy, memory.candidate(copy)) == made


@given(st.integers(0, (2 << 20) + 9), st.integers(0, 255))
def test_one_byte_tells_content_from_what_it_resembles(place: int, value: int) -> None:
    data = bytes((2 << 20) + 10)
    other = bytearray(data)
    other[place] = value
    found = digest_of(bytes(other), Noted(data, b"noted"))
    assert found == (b"noted" if value == 0 else hashlib.sha256(bytes(other)).digest())


class CacheAgainstAList(RuleBasedStateMachine):
    """The cache beside a list kept by hand, in order of use."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = FeatureCache(100)
        self.model: list[tuple[bytes, int]] = []

    @rule(key=st.integers(0, 6), size=st.integers(0, 120))
    def put(self, key: int, size: int) -> None:
        name = bytes([key])
        self.cache.put(name, features(size))
        if size > 100:
            return
        self.model = [pair for pair in self.model if pair[0] != name] + [(name, size)]
        while sum(pair[1] for pair in self.model) > 100:
            self.model.pop(0)

    @rule(key=st.integers(0, 6))
    def get(self, key: int) -> None:
        name = bytes([key])
        found = self.cache.get(name)
        known = dict(self.model)
        assert (found is None) == (name not in known)
        if found is not None:
            assert found.nbytes == known[name]
            self.model = [pair for pair in self.model if pair[0] != name] + [(name, known[name])]

    @invariant()
    def within_budget(self) -> None:
        assert self.cache.nbytes == sum(pair[1] for pair in self.model) <= 100
        assert len(self.cache) == len(self.model)


TestCacheAgainstAList = CacheAgainstAList.TestCase


def test_kept_tensors_cannot_be_changed_by_one_of_those_who_share_them() -> None:
    cache = FeatureCache()
    cache.put(b"a", features(10))
    kept = cache.get(b"a")
    assert kept is not None
    with pytest.raises(ValueError, match="read-only"):
        kept.tensors["pixel_values"][0] = 1
