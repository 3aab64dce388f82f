"""What a virtual key is like after each operation."""

import hashlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.auth.virtual_keys import KeyHash, VirtualKey, key_text, virtual_id
from smg_core.errors import AuthenticationFailed, Conflict

ID = "0123456789abcdef"


def digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def key(secret: str = "first", **fields: object) -> VirtualKey:
    made = {
        "id": ID,
        "tenant": "acme",
        "principal": "ada",
        "created_at": 0.0,
        "hashes": (KeyHash(digest(secret).hex()),),
    }
    return VirtualKey(**{**made, **fields})  # type: ignore[arg-type]


def is_good(found: VirtualKey, secret: str, now: float) -> bool:
    by_table = now < found.good().get(digest(secret), float("-inf"))
    try:
        found.check(digest(secret), now)
    except AuthenticationFailed:
        assert not by_table
        return False
    assert by_table
    return True


def test_a_rotated_key_takes_both_secrets_for_as_long_as_was_asked() -> None:
    rotated = key().rotated(digest("second"), 100.0, 60.0)

    assert is_good(rotated, "first", 159.0)
    assert is_good(rotated, "second", 159.0)
    assert not is_good(rotated, "first", 160.0)
    assert is_good(rotated, "second", 160.0)
    assert rotated.prefix == key().prefix


def test_without_overlap_the_earlier_secret_is_gone() -> None:
    rotated = key().rotated(digest("second"), 100.0, 0.0)

    assert not is_good(rotated, "first", 100.0)
    assert len(rotated.hashes) == 1


def test_a_second_rotation_does_not_prolong_the_first() -> None:
    rotated = key().rotated(digest("second"), 0.0, 10.0).rotated(digest("third"), 5.0, 100.0)

    assert is_good(rotated, "first", 9.0)
    assert not is_good(rotated, "first", 10.0)
    assert is_good(rotated, "second", 104.0)


def test_a_revoked_key_is_refused_and_is_not_rotated() -> None:
    revoked = key().revoked(1.0)

    assert not is_good(revoked, "first", 1.0)
    assert revoked.revoked(2.0) is revoked
    with pytest.raises(Conflict, match="revoked"):
        revoked.rotated(digest("second"), 2.0, 60.0)


def test_an_expired_key_is_refused() -> None:
    found = key(expires_at=10.0)

    assert is_good(found, "first", 9.0)
    assert not is_good(found, "first", 10.0)
    with pytest.raises(Conflict, match="expired"):
        found.rotated(digest("second"), 10.0, 0.0)


def test_only_who_has_the_secret_is_told_that_a_key_is_revoked() -> None:
    with pytest.raises(AuthenticationFailed, match="revoked"):
        key().revoked(1.0).check(digest("first"), 1.0)
    with pytest.raises(AuthenticationFailed, match="Incorrect"):
        key().revoked(1.0).check(digest("guess"), 1.0)


def test_no_list_shows_a_hash() -> None:
    shown = msgspec.json.encode(key().listed(0.0))

    assert digest("first").hex().encode() not in shown
    assert b"smg_0123456789abcdef" in shown


def test_a_key_is_told_from_other_texts_without_a_store() -> None:
    text = key_text(ID, bytes(32))

    assert virtual_id(text) == ID
    assert [virtual_id(each) for each in (text[:-1], text + "A", text.upper(), "sk-1", "smg_", f"{text}\n")] == [
        None
    ] * 6


@given(st.lists(st.tuples(st.sampled_from(["rotate", "revoke"]), st.floats(0, 100), st.floats(0, 100)), max_size=12))
def test_the_last_secret_is_good_until_the_key_is_revoked_and_no_other_outlives_its_overlap(
    operations: list[tuple[str, float, float]],
) -> None:
    found, now, number = key("0"), 0.0, 0
    ends: dict[int, float] = {}
    is_revoked = False
    for what, later, overlap in operations:
        now += later
        if what == "revoke":
            found, is_revoked = found.revoked(now), True
        elif not is_revoked:
            ends = {each: min(end, now + overlap) for each, end in ends.items()} | {number: now + overlap}
            number += 1
            found = found.rotated(digest(str(number)), now, overlap)

        assert is_good(found, str(number), now) is not is_revoked
        for earlier, end in ends.items():
            assert is_good(found, str(earlier), now) is (not is_revoked and now < end)
        assert msgspec.json.decode(msgspec.json.encode(found), type=VirtualKey) == found
