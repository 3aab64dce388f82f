"""Rooms: the numbers under which two engines find each other belong to one request."""

from hypothesis import given
from hypothesis import strategies as st

from smg_core.engines.base import KvFacts
from smg_core.engines.handover import KvEnd, encoded_items, hand_over_of, room_of

BITS = {"sglang": 31, "tokenspeed": 63}
places = st.integers(1, 64).flatmap(lambda many: st.tuples(st.integers(0, many - 1), st.just(many)))
ranked = st.integers(1, 16).flatmap(lambda many: st.tuples(st.none() | st.integers(0, many - 1), st.just(many)))


@given(st.text(max_size=20), st.sampled_from(sorted(BITS)), ranked, places)
def test_a_room_lies_in_the_range_of_its_process_and_leads_to_the_rank(
    request_id: str, dialect: str, chosen: tuple[int | None, int], process: tuple[int, int]
) -> None:
    rank, ranks = chosen
    bits = BITS[dialect]
    room = room_of(request_id, bits, KvEnd(dialect, KvFacts(), rank=rank, ranks=ranks), frozenset(), process)
    span = (1 << bits) // process[1]

    assert process[0] * span <= room < (process[0] + 1) * span <= 1 << bits
    assert rank is None or room % ranks == rank


@given(st.text(max_size=20), places)
def test_a_room_that_is_taken_is_not_given_again(request_id: str, process: tuple[int, int]) -> None:
    end, taken = KvEnd("sglang", KvFacts()), set[int]()
    for _ in range(5):
        room = room_of(request_id, 31, end, taken, process)
        assert room not in taken
        taken.add(room)


@given(st.text(max_size=20), st.integers(2, 8))
def test_processes_that_know_nothing_of_each_other_never_share_a_room(request_id: str, processes: int) -> None:
    end = KvEnd("sglang", KvFacts())
    plans = [hand_over_of(end, end, request_id, frozenset(), (at, processes)) for at in range(processes)]

    assert len({plan.room for plan in plans}) == processes


@given(st.text(max_size=20), st.integers(1, 12), st.integers(1, 3))
def test_every_medium_has_a_room_of_its_own_at_the_worker_that_encodes_it(
    request_id: str, items: int, workers: int
) -> None:
    ends = [KvEnd("tokenspeed", KvFacts(), host=f"gpu-{at}", port=9000 + at) for at in range(workers)]
    cache = hand_over_of(ends[0], ends[0], request_id).room
    assert cache is not None
    found, rooms = encoded_items(ends, items, request_id, {cache})

    assert rooms == {each.place.room for each in found}
    assert (len(rooms), cache in rooms) == (items, False)
    assert [(each.item, each.place.host) for each in found] == [(at, f"gpu-{at % workers}") for at in range(items)]
