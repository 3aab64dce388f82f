"""Tokens: they open where they were sealed and nowhere else, and say why they do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.errors import SealBroken
from smg_core.sealing.sealer import SealContext, Sealer

OLD, NEW = b"o" * 32, b"n" * 32
HERE = SealContext("messages.thinking", "tenant", "qwen3")
MOST = 1 << 20
SEALER = Sealer([NEW], most=MOST)


def reason(sealer: Sealer, token: bytes, context: SealContext = HERE) -> str:
    with pytest.raises(SealBroken) as broken:
        sealer.open(token, context)
    return broken.value.reason


@given(st.binary(min_size=1, max_size=300), st.text(), st.text())
def test_what_was_sealed_opens_in_its_context(content, tenant, family):
    context = SealContext("p", tenant, family)

    assert SEALER.open(SEALER.seal(content, context), context) == content


@given(st.binary(min_size=1, max_size=100))
def test_the_same_content_is_the_same_token_in_every_process(content):
    assert SEALER.seal(content, HERE) == Sealer([NEW, OLD], most=MOST).seal(content, HERE)


@given(st.binary(min_size=1, max_size=3000))
def test_a_token_is_short_enough(content):
    assert len(SEALER.seal(content, HERE)) <= 1.4 * len(content) + 64


@given(st.binary(min_size=1, max_size=60), st.data())
def test_a_token_with_any_other_byte_does_not_open(content, data):
    token = SEALER.seal(content, HERE)
    place = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != token[place]))
    changed = token[:place] + bytes([other]) + token[place + 1 :]

    assert reason(SEALER, changed) != "edited"


@given(st.binary(min_size=1, max_size=60), st.data())
def test_a_token_that_was_cut_or_lengthened_does_not_open(content, data):
    token = SEALER.seal(content, HERE)
    cut = token[: data.draw(st.integers(0, len(token) - 1))]

    reason(SEALER, cut)
    reason(SEALER, token + data.draw(st.binary(min_size=1, max_size=8)))


@given(st.binary(max_size=200))
def test_anything_else_is_refused_with_a_reason(text):
    reason(SEALER, text)
    reason(SEALER, b"gw1." + text)


def test_the_reason_says_what_is_wrong():
    token = SEALER.seal(b"x", HERE)

    assert reason(SEALER, b"EqQBCgIYAhIM") == "not_ours"
    assert reason(SEALER, b"") == "not_ours"
    assert reason(Sealer([OLD], most=MOST), token) == "unknown_key"
    assert reason(SEALER, token, SealContext("messages.thinking", "another", "qwen3")) == "wrong_tenant"
    assert reason(SEALER, token, SealContext("messages.thinking", "tenant", "llama")) == "other_family"
    assert reason(SEALER, token, SealContext("compaction", "tenant", "qwen3")) == "tampered"
    assert reason(Sealer([NEW], most=16), token) == "too_long"


def test_a_tenant_and_a_family_do_not_run_together():
    token = SEALER.seal(b"x", SealContext("p", "ab", "c"))

    assert reason(SEALER, token, SealContext("p", "a", "bc")) == "wrong_tenant"


def test_keys_rotate():
    before = Sealer([OLD], most=MOST).seal(b"x", HERE)
    rotated = Sealer([NEW, OLD], most=MOST)

    assert rotated.open(before, HERE) == b"x"
    assert SEALER.open(rotated.seal(b"x", HERE), HERE) == b"x"


def test_a_sealer_needs_a_key_and_shows_none():
    with pytest.raises(ValueError, match="needs a key"):
        Sealer([], most=MOST)
    assert "nnn" not in repr(SEALER)
