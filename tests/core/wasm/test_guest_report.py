"""What guests say beside their answers: whatever they count, a counter stays a number that is exact and goes up."""

from hypothesis import given
from hypothesis import strategies as st

from smg_core.wasm.guest_report import GuestReport

COUNTED = st.lists(
    st.tuples(st.sampled_from(("a", "b")), st.floats() | st.sampled_from((1e308, 2.0**53, 1.0))), max_size=8
)


@given(COUNTED)
def test_a_counter_is_finite_and_goes_up_and_what_is_not_counted_is_told(counted: list[tuple[str, float]]) -> None:
    said, taken = GuestReport(), 0
    for name, by in counted:
        before = dict(said.counts)
        said.count(name, by)
        assert 0 <= before.get(name, 0.0) <= said.counts.get(name, 0.0) <= 2.0**53
        taken += said.counts != before or (by == 0 and name in said.counts)
    assert said.dropped <= len(counted) - sum(1 for name, by in counted if by == 0)


def test_a_number_that_would_make_a_counter_too_large_is_dropped() -> None:
    said = GuestReport()
    said.count("big", 1e308)
    said.count("big", 2.0**53)
    said.count("big", 2.0)
    assert said.counts == {"big": 2.0**53}
    assert said.dropped == 2
