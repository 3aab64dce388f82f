"""From outcomes to a verdict."""

from hypothesis import given
from hypothesis import strategies as st

from smg_core.workers.health import HealthTracker
from smg_core.workers.settings import WorkersConfig


def test_it_takes_several_failed_probes_to_be_failing() -> None:
    tracker = HealthTracker(WorkersConfig(probe_failures=3))

    assert [tracker.note("failed") for _ in range(4)] == [None, None, "failing", "failing"]


def test_a_refused_connection_is_certain_news() -> None:
    assert HealthTracker(WorkersConfig(probe_failures=3)).note("refused") == "failing"


def test_an_answer_in_between_starts_the_count_again() -> None:
    tracker = HealthTracker(WorkersConfig(probe_failures=2))

    assert [tracker.note(outcome) for outcome in ("failed", "ok", "failed")] == [None, "healthy", None]


@given(st.lists(st.sampled_from(["ok", "failed", "refused"])), st.integers(1, 5), st.integers(1, 5))
def test_the_verdict_depends_on_the_last_run_alone(outcomes: list[str], failures: int, successes: int) -> None:
    tracker = HealthTracker(WorkersConfig(probe_failures=failures, probe_successes=successes))
    for place, outcome in enumerate(outcomes):
        verdict = tracker.note(outcome)  # type: ignore[arg-type]
        run = 0
        for each in reversed(outcomes[: place + 1]):
            if (each == "ok") != (outcome == "ok"):
                break
            run += failures if each == "refused" else 1
        expected = (
            ("healthy" if run >= successes else None) if outcome == "ok" else ("failing" if run >= failures else None)
        )

        assert verdict == expected
