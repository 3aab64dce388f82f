"""An explanation as a header: ASCII and bounded."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.wire.explain import Explanation, Phase, explanation_header

FULL = Explanation(
    request_id="chatcmpl-1",
    model="qwen",
    prompt="<|user|>hé",
    token_ids=(1, 2, 3),
    prompt_characters=10,
    cached_characters=8,
    cached_tokens=2,
    completion_tokens=7,
    worker="gpu-1",
    policy="cache_aware",
    attempts=("gpu-0", "gpu-1"),
    phases=(Phase("decode", 0.0000625), Phase("first_token", 0.05)),
    notes={"parser": "hermes"},
)


def test_the_header_has_all_that_is_short():
    assert json.loads(explanation_header(FULL)) == {
        "request_id": "chatcmpl-1",
        "model": "qwen",
        "worker": "gpu-1",
        "policy": "cache_aware",
        "tries": 2,
        "prompt_tokens": 3,
        "completion_tokens": 7,
        "prompt_characters": 10,
        "cached_characters": 8,
        "cached_tokens": 2,
        "phases_ms": {"decode": 0.062, "first_token": 50.0},
        "total_ms": 50.062,
    }


names = st.text(st.characters(), max_size=300)


@given(names, names, st.lists(st.builds(Phase, names, st.floats(0, 1e6)), max_size=30), st.integers(256, 2048))
def test_any_header_is_ascii_json_within_its_bound(model, worker, phases, limit):
    explanation = Explanation("id", model, worker=worker, phases=tuple(phases), token_ids=range(50))
    text = explanation_header(explanation, limit)
    assert len(text) <= limit
    assert text.isascii()
    assert text.isprintable()
    assert json.loads(text)["prompt_tokens"] == 50


def test_a_header_without_room_for_phases_says_that_it_is_cut():
    phases = tuple(Phase(f"phase-{count}", 1.0) for count in range(100))
    found = json.loads(explanation_header(Explanation("id", "m", phases=phases), 400))
    assert found["truncated"] is True
    assert found["total_ms"] == 100_000
    assert found["model"] == "m"
    assert "phases_ms" not in found


def test_a_header_with_a_long_name_keeps_the_numbers():
    found = json.loads(explanation_header(Explanation("id", "m" * 500, token_ids=(1, 2)), 256))
    assert found["truncated"] is True
    assert found["prompt_tokens"] == 2
    assert "model" not in found


def test_a_bound_that_nothing_fits_in_is_refused():
    with pytest.raises(ValueError, match="256"):
        explanation_header(FULL, 100)


def test_a_number_that_is_not_known_is_absent_and_one_that_is_zero_is_not():
    for known in (None, 0):
        told = Explanation("r", "m", cached_characters=known, cached_tokens=known, completion_tokens=known)
        found = json.loads(explanation_header(told))
        for name in ("cached_characters", "cached_tokens", "completion_tokens"):
            assert (name in found) == (known is not None)
