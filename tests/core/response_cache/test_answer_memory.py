"""Answers in memory: never more bytes than may be, none that is too old, the least recently used goes first."""

from hypothesis import given
from hypothesis import strategies as st

from smg_core.response_cache.answer_memory import AnswerMemory

MOST = 2000


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2500), st.floats(0, 20)), max_size=30))
def test_it_never_has_more_bytes_than_it_may_and_finds_what_it_has(steps: list[tuple[int, int, float]]) -> None:
    memory, model, now = AnswerMemory(MOST), dict[bytes, tuple[bytes, float]](), 0.0
    for number, size, passed in steps:
        now += passed
        key, data = bytes([number]), bytes(size)
        memory.keep(key, data, now + 10)
        model[key] = data, now + 10
        assert 0 <= memory.size <= MOST
        for each, (kept, until) in model.items():
            found = memory.find(each, now)
            assert found is None or (found == kept and until > now)
    for each in model:
        assert memory.find(each, now + 11) is None
    assert (memory.size, len(memory)) == (0, 0)


def test_the_least_recently_used_goes_first() -> None:
    memory = AnswerMemory(MOST)
    for key in (b"a", b"b", b"c"):
        memory.keep(key, bytes(300), 10)
    assert memory.find(b"a", 1) is not None
    memory.keep(b"d", bytes(300), 10)
    assert [memory.find(key, 1) is not None for key in (b"a", b"b", b"c", b"d")] == [True, False, True, True]
    memory.most = 600
    memory.shrink()
    assert len(memory) == 1
