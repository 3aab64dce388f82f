"""Where calls begin: what has kept the event loop begins in threads, for twice as many calls each time."""

from hypothesis import given
from hypothesis import strategies as st

from smg_core.wasm.places import CallPlaces


def calls_in_threads(places: CallPlaces, name: str) -> int:
    """How many calls begin in a thread before one begins on the event loop."""
    count = 0
    while not places.begins_here(name):
        count += 1
    return count


def test_after_a_long_call_the_next_ones_begin_in_a_thread_and_those_of_other_functions_do_not() -> None:
    places = CallPlaces()
    places.was_long("piece")
    assert places.begins_here("end")
    assert calls_in_threads(places, "piece") == 32
    assert places.begins_here("piece")


def test_a_call_that_kept_the_event_loop_is_kept_from_it_twice_as_long_each_time() -> None:
    places = CallPlaces()
    found = []
    for _ in range(4):
        places.took("piece", 0.0011)
        found.append(calls_in_threads(places, "piece"))
    assert found == [1024, 2048, 4096, 8192]
    places.took("piece", 0.0009)
    assert places.begins_here("piece")
    for _ in range(100):
        places.took("piece", 9.0)
    assert places.in_threads("piece") == 1024 << 20


@given(st.lists(st.sampled_from(("call", "long", "kept")), max_size=60))
def test_a_long_call_never_brings_a_function_back_that_kept_the_event_loop(steps: list[str]) -> None:
    places = CallPlaces()
    for step in steps:
        before = places.in_threads("piece")
        if step == "call":
            places.begins_here("piece")
            assert places.in_threads("piece") == max(0, before - 1)
        else:
            places.was_long("piece") if step == "long" else places.took("piece", 1.0)
            assert places.in_threads("piece") >= before or step == "kept"
