"""The log of policies that fail: a traceback once, then numbers, and nothing of a request."""

import logging

import pytest

from smg_core.hooks import PolicyFailed
from smg_core.observability.policy_failures import PolicyFailures
from smg_core.observability.settings import ObservabilityConfig
from smg_core.testing import FakeClock, MemoryObserver

SECRET = "my session"


def picked(sessions: dict[str, str]) -> str:
    return sessions[SECRET]


def test_a_fault_is_logged_with_its_traceback_then_counted_and_its_text_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, observer = FakeClock(), MemoryObserver()
    failures = PolicyFailures(clock, observer, ObservabilityConfig(repeat_s=60.0))
    told = []
    for _ in range(3):
        for _ in range(5):
            try:
                picked({})
            except KeyError as error:
                failures.note("mine", "pick", error)
        clock.advance(61.0)
        told.append(caplog.text)
        caplog.clear()

    assert [text.count("Traceback") + text.count("in picked") for text in told] == [1, 0, 0]
    assert "the policy mine has failed in pick: KeyError at" in told[0]
    assert "return sessions[SECRET]" in told[0]
    assert ["4 more since the last time" in text for text in told] == [False, True, True]
    assert all(text.count("the policy mine") == 1 for text in told)
    assert SECRET not in "".join(told)
    assert observer.of(PolicyFailed) == [PolicyFailed("mine", "pick", "KeyError")] * 15


def test_different_faults_are_told_apart(caplog: pytest.LogCaptureFixture) -> None:
    failures = PolicyFailures(FakeClock(), MemoryObserver())
    with caplog.at_level(logging.ERROR, "smg.routing"):
        for policy, call, error in (
            ("a", "pick", KeyError("x")),
            ("b", "pick", KeyError("x")),
            ("a", "request_ended", KeyError("x")),
            ("a", "pick", ValueError("x")),
            ("a", "pick", ValueError("y")),
        ):
            failures.note(policy, call, error)

    assert len(caplog.records) == 4
