"""Tests wait as long as a busy machine takes: what bounds a hang is `PATIENCE`, not a number of seconds that seemed enough.

Bounds below `SHORT` are what a test is about (a time-out that is to be met), and those of tests that start programs from npm and
real engines are theirs.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.shared import PATIENCE
from tests.source import parsed

pytestmark = pytest.mark.rules

TESTS = Path(__file__).parent
SHORT = 10.0
OF_THEIR_OWN = {"clients", "engines", "real", "interop"}
WAITING = {
    *("AsyncClient", "Barrier", "ask", "communicate", "eventually", "get", "join", "post", "request", "run", "timeout"),
    *("to_thread", "wait", "wait_for"),
}
BY_PLACE = {"eventually", "join", "timeout", "to_thread", "wait", "wait_for"}


def bounds(path: Path) -> Iterator[tuple[int, float]]:
    """The seconds, as numbers in the code, that calls in a file wait, each with its line."""
    for call in ast.walk(parsed(path)):
        if not isinstance(call, ast.Call):
            continue
        name = ast.unparse(call.func).split(".")[-1]
        given = [each.value for each in call.keywords if each.arg in ("timeout", "seconds")] if name in WAITING else []
        for value in (*given, *(call.args if name in BY_PLACE else ())):
            if isinstance(value, ast.Constant) and type(value.value) in (int, float):
                yield value.lineno, value.value


def test_no_test_gives_up_before_a_busy_machine_is_done() -> None:
    files = [path for path in TESTS.rglob("*.py") if path.relative_to(TESTS).parts[0] not in OF_THEIR_OWN]
    hasty = [
        f"{path.relative_to(TESTS)}:{line} waits {seconds} s"
        for path in files
        for line, seconds in bounds(path)
        if SHORT <= seconds < PATIENCE
    ]
    assert len(files) > 300
    assert hasty == [], "wait `PATIENCE`"
