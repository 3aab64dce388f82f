"""A fault that repeats is written once in a while with its traceback, and counted in between, wherever it happens."""

import ast
from pathlib import Path

import pytest
from tests.source import parsed

from smg_core.observability.faults import FaultLog
from smg_core.observability.settings import ObservabilityConfig
from smg_core.testing import FakeClock

SOURCE = Path(__file__).parents[3] / "src"
THE_LOG_OF_FAULTS = "smg_core/observability/faults.py"


def failed(text: str) -> ValueError:
    try:
        return ValueError(int(text))
    except ValueError as error:
        return error


def failed_elsewhere() -> ValueError:
    try:
        return ValueError(int("x"))
    except ValueError as error:
        return error


def test_the_same_fault_is_written_once_and_told_again_with_its_number(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    faults = FaultLog("smg.server", clock)
    for number in range(5):
        faults.note("a request", failed(f"text {number}"), f"request {number}")
    clock.advance(61.0)
    faults.note("a request", failed("later"))

    assert [record.getMessage() for record in caplog.records] == [
        "a request failed, request 0",
        "a request failed, 4 more like it since the last time",
    ]
    assert all(record.exc_info is not None for record in caplog.records)


def test_faults_of_other_work_of_another_class_and_from_another_place_are_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faults = FaultLog("smg.server", FakeClock())
    faults.note("a request", failed("x"))
    faults.note("a batch", failed("x"))
    faults.note("a request", failed_elsewhere())
    faults.note("a request", KeyError("never raised"))

    assert len(caplog.records) == 4


@pytest.mark.parametrize(("words", "shown"), [(False, False), (True, True)])
def test_the_text_of_a_fault_is_in_the_log_only_where_the_settings_say_so(
    words: bool, shown: bool, caplog: pytest.LogCaptureFixture
) -> None:
    FaultLog("smg.server", FakeClock(), ObservabilityConfig(fault_words=words)).note("a request", failed("sekrit"))

    assert ("sekrit" in caplog.text) is shown
    assert "in failed" in caplog.text
    assert "ValueError" in caplog.text


def _writes_tracebacks(node: ast.AST) -> bool:
    """Whether a call writes the traceback of an exception to a log."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return (
        node.func.attr == "exception" and getattr(node.func.value, "id", "") in ("log", "logger", "logging")
    ) or any(each.arg == "exc_info" for each in node.keywords)


@pytest.mark.full
def test_no_module_writes_a_traceback_but_by_the_log_of_faults() -> None:
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if any(_writes_tracebacks(node) for node in ast.walk(parsed(path)))
    }

    assert found == {THE_LOG_OF_FAULTS}
