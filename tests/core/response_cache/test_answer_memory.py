"""Answers in memory: never more bytes than may be, none that is too old, the least recently used goes first."""

from hypothesis import given
from hypothesis import strategies as st

from smg_core.response_cache.answer_memory import AnswerMemory
from smg_core.response_cache.keys import tenant_mark

MOST = 2000


TENANTS = [tenant_mark(each) for each in ("acme", "globex")]
STEP = st.tuples(st.integers(0, 5), st.integers(0, 2500), st.floats(0, 20), st.sampled_from((None, *TENANTS, b"")))


@given(st.lists(STEP, max_size=30))
def test_it_never_has_more_bytes_than_it_may_and_finds_what_it_has(
    steps: list[tuple[int, int, float, bytes | None]],
) -> None:
    memory, model, now = AnswerMemory(MOST), dict[bytes, tuple[bytes, float]](), 0.0
    for number, size, passed, erased in steps:
        now += passed
        key, data = TENANTS[number % 2] + bytes([number]), bytes(size)
        memory.keep(key, data, now + 10)
        model[key] = data, now + 10
        if erased is not None:
            memory.erase(erased or None)  # of one tenant, or of all
            assert all(memory.find(each, now) is None for each in model if each.startswith(erased))
            model = {each: kept for each, kept in model.items() if not each.startswith(erased)}
        memory.sweep(1)
        assert 0 <= memory.size <= MOST
        for each, (kept, until) in model.items():
            found = memory.find(each, now)
            assert found is None or (found == kept and until > now)
    for each in model:
        assert memory.find(each, now + 11) is None
    while memory.sweep(1):
        pass
    assert (memory.size, len(memory)) == (0, 0)


def test_the_least_recently_used_goes_first() -> None:
    memory = AnswerMemory(MOST)
    for key in (b"a", b"b", b"c"):
        memory.keep(key, bytes(240), 10)
    assert memory.find(b"a", 1) is not None
    memory.keep(b"d", bytes(240), 10)
    assert [memory.find(key, 1) is not None for key in (b"a", b"b", b"c", b"d")] == [True, False, True, True]
    memory.most = 600
    memory.shrink()
    assert len(memory) == 1
